//! Programs that no dynamic loader starts.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

#[path = "support/plain_image.rs"]
mod plain_image;

use cupti_audit::judge::facts::{GatherOptions, ImageFacts, ReadLayers, gather_facts};
use cupti_audit::knowledge::Knowledge;
use cupti_audit::knowledge::file_interest::cupti_options;
use image_linkage::layer::{ExpectedBlob, index_layer};
use image_linkage::loader::{CpuLevel, RequestOutcome};
use image_source::ImageConfig;
use plain_image::image_of;
use testkit::elf::{Elf, Kind, df_1};
use testkit::layer::{Compression, Layer};

/// What is known of an image in which CUPTI can be loaded, and a program that opens it.
fn facts(program: &Elf) -> ImageFacts {
    let layer = Layer::new()
        .executable(
            "lib64/ld-linux-x86-64.so.2",
            Elf::library("ld-linux-x86-64.so.2").build(),
        )
        .executable("usr/lib64/libcupti.so.12", Elf::library("libcupti.so.12").build())
        .executable("usr/bin/app", program.build());
    let blob = layer.blob(Compression::None);
    let index = index_layer(
        "case",
        blob.bytes.as_slice(),
        &ExpectedBlob::default(),
        &cupti_options(),
    )
    .unwrap();
    let image = image_of("case", 1, ImageConfig::default());
    let options = GatherOptions {
        environment: Vec::new(),
        cpu: CpuLevel::V3,
    };
    let layers = vec![Ok(index)];
    gather_facts(image, ReadLayers { layers }, &Knowledge::built_in(), &options)
}

#[test]
fn a_static_program_is_not_said_to_get_what_it_opens() {
    let text = "libcupti.so.12";
    let fixed = Elf::new().kind(Kind::Exec).statically_linked().string(text);
    let movable = Elf::new().flags_1(df_1::PIE).string(text);
    for program in [fixed, movable] {
        let facts = facts(&program);
        let of_app: Vec<String> = facts.undecided.iter().map(|opener| opener.object.to_string()).collect();
        assert_eq!((facts.consumers.len(), of_app), (0, vec!["/usr/bin/app".to_owned()]));
    }
    let usual = facts(&Elf::executable().string(text).import_weak("dlopen"));
    assert_eq!(
        usual.consumers.first().unwrap().outcome.as_is.outcome,
        RequestOutcome::Loaded
    );
}
