//! Tests the owner of copies by the database of rpm.

use crate::plain_image::image_of;
use cupti_audit::facts::{GatherOptions, ImageFacts, ReadLayers, StartOverrides, gather_facts};
use cupti_audit::knowledge::Knowledge;
use cupti_audit::knowledge::file_interest::cupti_options;
use image_linkage::layer::{ExpectedBlob, index_layer};
use image_linkage::loader::CpuLevel;
use image_source::ImageConfig;
use testkit::elf::Elf;
use testkit::layer::Layer;

fn facts(layer: &Layer) -> ImageFacts {
    let index = index_layer("x", &*layer.tar(), &ExpectedBlob::default(), &cupti_options());
    let layers = vec![Ok(index.unwrap())];
    let options = GatherOptions {
        environment: Vec::new(),
        cpu: CpuLevel::V3,
        limits: image_linkage::limits::Limits::default(),
        start: StartOverrides::default(),
    };
    gather_facts(
        image_of("copies", layers.len(), ImageConfig::default()),
        ReadLayers { layers },
        &Knowledge::built_in(),
        &options,
    )
}

/// Each copy as `file: version by source, of package version`.
fn copies(layer: &Layer) -> Vec<String> {
    let facts = facts(layer);
    let said = facts.copies.iter().map(|copy| {
        let version = copy.version.as_ref();
        let version = version.map_or("?".to_owned(), |(version, by)| format!("{version} by {}", by.name()));
        let owner = format!("{} {}", copy.owner.name, copy.owner.version.as_deref().unwrap_or("?"));
        format!(
            "{}: {version}, of {owner}",
            copy.real_path.to_string().rsplit('/').next().unwrap()
        )
    });
    said.collect()
}

fn cupti(soname: &str) -> Vec<u8> {
    Elf::library(soname).build()
}

/// The database that `crates/image-linkage/testdata/rpm/make.sh` made with the real rpm.
fn rpm_database() -> Vec<u8> {
    let packed = include_bytes!("../../crates/image-linkage/testdata/rpm/rpmdb.sqlite.zst");
    zstd::decode_all(&packed[..]).unwrap()
}

#[test]
fn a_copy_belongs_to_the_rpm_package_that_lists_it() {
    let database = rpm_database();
    let toolkit = "usr/local/cuda-12.4/targets/x86_64-linux/lib";
    let layer = || {
        Layer::new()
            .file(format!("{toolkit}/libcupti.so.2024.1.1"), cupti("libcupti.so.12"))
            .file("opt/own/libcupti.so.12", cupti("libcupti.so.12"))
    };
    let of_package = "libcupti.so.2024.1.1: 12.4.127 by package, of cuda-cupti-12-4 12.4.127-1";
    let (by_hand, unknown) = (
        "libcupti.so.12: ?, of  ?",
        "libcupti.so.2024.1.1: 12.4 by file-name, of  ?",
    );
    // Fedora has the database in the other folder.
    for path in ["var/lib/rpm/rpmdb.sqlite", "usr/lib/sysimage/rpm/rpmdb.sqlite"] {
        let shut = layer().file(path, &database).file(format!("{path}-wal"), "");
        assert_eq!(copies(&shut), [by_hand, of_package]);
        for end in ["wal", "journal"] {
            let open = layer().file(path, &database).file(format!("{path}-{end}"), "x");
            assert_eq!(copies(&open), [by_hand, unknown]);
        }
        let damaged = layer().file(path, &database[..database.len() / 2]);
        assert_eq!(copies(&damaged), [by_hand, unknown]);
    }
    // A damaged database does not make an older one valid.
    let two = layer()
        .file("usr/lib/sysimage/rpm/rpmdb.sqlite", &database)
        .file("var/lib/rpm/rpmdb.sqlite", "damaged");
    assert_eq!(copies(&two), [by_hand, unknown]);
}
