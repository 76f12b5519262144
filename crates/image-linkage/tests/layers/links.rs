//! Chains and storms of links (rows L-13, L-16, B-09).

use image_linkage::rootfs::LookupError;
use testkit::layer::Layer;

use crate::raw::{Header, Tar};
use crate::{index, merge, read, refuse};

#[test]
fn l13_a_long_chain_ends() {
    let mut layer = Layer::new().file("end", "");
    for nth in 0..60 {
        let next = if nth == 0 {
            "end".to_owned()
        } else {
            format!("l{}", nth - 1)
        };
        layer = layer.symlink(format!("l{nth}"), next);
    }
    let rootfs = merge(&[index(&layer.tar()).unwrap()]);
    for path in ["l40", "l59"] {
        assert_eq!(rootfs.lookup(path.as_bytes()), Err(LookupError::Loop), "{path}");
    }
    let found = rootfs.lookup(b"l39").unwrap();
    assert_eq!((found.path.to_string().as_str(), found.links.len()), ("/end", 40));
}

#[test]
fn b09_a_storm_of_links_and_deep_names_ends_soon() {
    // Each of 41 links doubles the path. Without a limit, following them would take 2^41 steps.
    let mut storm = Layer::new().dir("d0");
    for nth in 1..=41 {
        let before = format!("/d{}", nth - 1);
        storm = storm.symlink(format!("d{nth}"), format!("{before}/..{before}/..{before}"));
    }
    let storm = storm.file("d41/x", "");
    let found = read(&storm.tar());
    assert!(found.last().unwrap().contains("more than 40 links"), "{found:?}");
    let rootfs = merge(&[index(&storm.tar()).unwrap()]);
    assert_eq!(rootfs.lookup(b"/d41"), Err(LookupError::Loop));
}

#[test]
fn b09_links_may_not_lead_through_directories_without_end() {
    let target = "./a/../".repeat(500);
    let mut tar = Tar::new();
    for nth in 0..40 {
        let next = match nth {
            0 => target.clone(),
            _ => format!("{target}l{}", nth - 1),
        };
        let link = Header::new(format!("l{nth}").as_bytes(), b'2', 0);
        tar = tar.pax(&[("linkpath", &next)]).raw(&link, b"");
    }
    let way = tar.clone().file("l39/0/f", b"");
    assert_eq!(index(&way.end()).unwrap().problems, []);
    // Each entry expands to 40,000 components, and adjacent entries have different parents.
    let all = (0..1000).fold(tar, |tar, nth| tar.file(&format!("l39/{nth}/f"), b""));
    refuse(&all.end(), "lead through more than 16000000 directories");
}
