//! Tests images with files that `testdata/cases` cannot describe: a real database, and damaged or unusual programs.

use crate::plain_image::image_of;
use cupti_audit::facts::{GatherOptions, ImageFacts, ReadLayers, StartOverrides, gather_facts};
use cupti_audit::knowledge::Knowledge;
use cupti_audit::knowledge::file_interest::cupti_options;
use image_linkage::layer::{ExpectedBlob, index_layer};
use image_linkage::loader::CpuLevel;
use image_source::ImageConfig;
use testkit::elf::Elf;
use testkit::layer::Layer;

/// The facts of an image with one layer and a command.
fn facts(layer: &Layer, command: &[&str]) -> ImageFacts {
    let index = index_layer("x", &*layer.tar(), &ExpectedBlob::default(), &cupti_options());
    let config = ImageConfig {
        command: command.iter().map(|word| (*word).to_owned()).collect(),
        ..ImageConfig::default()
    };
    let options = GatherOptions {
        environment: Vec::new(),
        cpu: CpuLevel::V3,
        limits: image_linkage::limits::Limits::default(),
        start: StartOverrides::default(),
    };
    let layers = vec![Ok(index.unwrap())];
    let image = image_of("odd", 1, config);
    gather_facts(image, ReadLayers { layers }, &Knowledge::built_in(), &options)
}

/// Each copy as `file: version by source, of package version`.
fn copies(layer: &Layer) -> Vec<String> {
    let facts = facts(layer, &[]);
    let said = facts.answers.copies.iter().map(|copy| {
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
    // Equal bytes would be one release.
    let own = [cupti("libcupti.so.12"), vec![0]].concat();
    let layer = || {
        Layer::new()
            .file(format!("{toolkit}/libcupti.so.2024.1.1"), cupti("libcupti.so.12"))
            .file("opt/own/libcupti.so.12", &own)
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

#[test]
fn a_command_that_is_no_executable_or_no_whole_program_does_not_start() {
    let program = Elf::executable().build();
    let relocatable = [program.split_at(16).0, &[1], program.split_at(17).1].concat();
    for (bytes, why) in [
        (&*relocatable, "the object is no program"),
        (program.split_at(100).0, "the object is cut off"),
    ] {
        let failure = facts(&Layer::new().executable("bin/app", bytes), &["/bin/app"])
            .answers
            .command_failure;
        assert_eq!(failure.unwrap().words, format!("/bin/app: exec format error: {why}"));
    }
    let app = Elf::executable().needed("libcupti.so.12").build();
    let loader = Elf::library("ld-linux-x86-64.so.2").build();
    let denied = Layer::new()
        .executable("lib64/ld-linux-x86-64.so.2", loader)
        .file("bin/app", app);
    let consumers = facts(&denied, &["/bin/app"]).answers.consumers;
    let words = consumers
        .iter()
        .map(|app| app.start_failure().unwrap().words().to_owned());
    assert_eq!(words.collect::<Vec<_>>(), ["/bin/app: Permission denied"]);
}
