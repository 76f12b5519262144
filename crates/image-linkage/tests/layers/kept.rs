//! Is the index of a layer the same after it was kept?

use image_linkage::layer::LayerIndex;
use image_linkage::layer::{read_index, write_index};
use testkit::elf::Elf;
use testkit::layer::Layer;

use crate::{index, index_with};
use image_linkage::limits::Limits;

/// A layer with everything that an index can hold, and damaged objects with every problem that a changed byte brings.
fn layer() -> Layer {
    let object = Elf::library("libx.so.1")
        .needed("libc.so.6")
        .runpath("/lib")
        .import_at("a", "libcupti.so.12", "V1")
        .export_at("b", "X_1")
        .dlopen_note("[]")
        .dynamic_name(0x7fff_fffd, "libfilter.so")
        .build();
    let damaged = (0..object.len()).step_by(3).map(|at| {
        let mut object = object.clone();
        object[at] ^= 0xff;
        object
    });
    let whole = Layer::new()
        .dir("d")
        .file("etc/ld.so.conf", "/opt/lib\n")
        .symlink("l", "\u{e9}/x")
        .hardlink("h", "etc/ld.so.conf")
        .whiteout("gone")
        .opaque("d")
        .file("whole.so", &object)
        .file("cut.so", &object[..100]);
    damaged.enumerate().fold(whole, |layer, (number, object)| {
        layer.file(format!("damaged-{number}.so"), object)
    })
}

fn kept(index: &LayerIndex) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_index(index, &mut bytes).unwrap();
    bytes
}

#[test]
fn an_index_comes_back_as_it_was_kept() {
    let small = Limits {
        kept_file: 4,
        ..Limits::default()
    };
    for index in [
        index(&layer().tar()).unwrap(),
        index_with(&layer().tar(), &small).unwrap(),
        index(&Layer::new().tar()).unwrap(),
    ] {
        let bytes = kept(&index);
        let mut rest = bytes.as_slice();
        assert_eq!(read_index(&mut rest).unwrap(), index);
        assert_eq!(rest, b"");
    }
}

#[test]
fn bytes_that_are_no_index_are_an_error_or_another_one_and_no_panic() {
    let one = Layer::new()
        .file("x.so", Elf::library("libx.so.1").needed("libc.so.6").build())
        .symlink("l", "x.so")
        .whiteout("gone");
    let bytes = kept(&index(&one.tar()).unwrap());
    for end in 0..bytes.len() {
        assert!(read_index(&mut &bytes[..end]).is_err(), "{end}");
    }
    for at in 0..bytes.len() {
        for change in [0x01, 0x80, 0xff] {
            let mut bytes = bytes.clone();
            bytes[at] ^= change;
            if let Ok(other) = read_index(&mut bytes.as_slice()) {
                // What it holds can be kept again, whatever it is.
                assert_eq!(read_index(&mut kept(&other).as_slice()).unwrap(), other, "{at}");
            }
        }
    }
}
