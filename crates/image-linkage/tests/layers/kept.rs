//! Is a layer index unchanged after it was stored and read back?

use image_linkage::layer::LayerIndex;
use image_linkage::layer::{read_index, write_index};
use testkit::elf::Elf;
use testkit::layer::Layer;

use crate::{index, index_with};
use image_linkage::limits::Limits;

/// A layer with every kind of entry, and damaged objects with every problem that a changed byte can cause.
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
fn a_stored_index_is_read_back_unchanged() {
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
fn damaged_index_bytes_never_panic() {
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
                // Any decoded index can be stored again.
                assert_eq!(read_index(&mut kept(&other).as_slice()).unwrap(), other, "{at}");
            }
        }
    }
}
