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
    let layer = Layer::new().executable("usr/lib64/libcupti.so.12", Elf::library("libcupti.so.12").build());
    facts_of(layer.executable("usr/bin/app", program.build()), &[])
}

/// What is known of a layer with a loader, and variables that are given.
fn facts_of(layer: Layer, environment: &[(&str, &str)]) -> ImageFacts {
    let layer = layer.executable(
        "lib64/ld-linux-x86-64.so.2",
        Elf::library("ld-linux-x86-64.so.2").build(),
    );
    let blob = layer.blob(Compression::None);
    let index = index_layer(
        "case",
        blob.bytes.as_slice(),
        &ExpectedBlob::default(),
        &cupti_options(),
    )
    .unwrap();
    let command = ["/entrypoint.sh", "/usr/bin/app"].map(str::to_owned).to_vec();
    let config = ImageConfig {
        command,
        ..ImageConfig::default()
    };
    let given = environment
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let options = GatherOptions {
        environment: given.collect(),
        cpu: CpuLevel::V3,
    };
    let layers = vec![Ok(index)];
    let image = image_of("case", 1, config);
    gather_facts(image, ReadLayers { layers }, &Knowledge::built_in(), &options)
}

/// What a program gets, whether that is open, and whether it is open which copy it gets.
fn word(facts: &ImageFacts, name: &str) -> (RequestOutcome, bool, bool) {
    let mut consumers = facts.consumers.iter();
    let consumer = consumers.find(|consumer| consumer.name == name).unwrap();
    (
        consumer.outcome.as_is.outcome,
        consumer.open.is_some(),
        consumer.other_copies.is_some(),
    )
}

/// An image with CUPTI in `/opt/cupti`, an entry script, and programs without and with a search path.
fn with_script(text: &str, environment: &[(&str, &str)]) -> ImageFacts {
    let opens = || Elf::executable().string("libcupti.so.12").import_weak("dlopen");
    let layer = Layer::new()
        .executable("opt/cupti/libcupti.so.12", Elf::library("libcupti.so.12").build())
        .executable("usr/bin/app", opens().build())
        .executable("usr/bin/own", opens().rpath("/opt/cupti").build())
        .executable("entrypoint.sh", format!("#!/bin/sh\n{text}exec \"$@\"\n"));
    facts_of(layer, environment)
}

#[test]
fn what_an_unknown_environment_decides_is_open_and_what_it_does_not_is_not() {
    use RequestOutcome::{Loaded, NotFound};
    let unknown = with_script("eval \"$(cat /etc/x)\"\n", &[]);
    assert_eq!(word(&unknown, "app"), (NotFound, true, false));
    assert_eq!(word(&unknown, "own"), (Loaded, false, false));
    // The loader here is a stub, which is a gap of its own.
    let open = |facts: &ImageFacts| {
        let gaps = facts.gaps.iter();
        gaps.filter(|gap| gap.why.starts_with("it depends on")).count()
    };
    assert_eq!((unknown.status_is_open.is_some(), open(&unknown)), (true, 1));
    // What was asked of a run is no longer unknown.
    let given = [("LD_LIBRARY_PATH", "/opt/cupti"), ("LD_PRELOAD", "")];
    let given = with_script("eval \"$(cat /etc/x)\"\n", &given);
    assert_eq!(word(&given, "app"), (Loaded, false, false));
    assert_eq!((open(&given), given.contexts.as_is.entry.unknown.len()), (0, 2));
    let known = with_script("export LD_LIBRARY_PATH=/opt/gone\n", &[]);
    assert_eq!(word(&known, "app"), (NotFound, false, false));
    assert_eq!((open(&known), known.is_open()), (0, false));
}

#[test]
fn the_search_path_of_a_program_counts_for_what_a_library_opens_that_it_opens_by_its_path() {
    let library = Elf::library("libplug.so").string("libcupti.so.12").import("dlopen");
    let program = |text: &str| Elf::executable().string(text).import("dlopen").rpath("/opt/cupti");
    let outcome = |program: Elf| {
        let layer = Layer::new()
            .executable("opt/cupti/libcupti.so.12", Elf::library("libcupti.so.12").build())
            .executable("opt/app/libplug.so", library.clone().build())
            .executable("usr/bin/app", program.build())
            .executable("entrypoint.sh", "#!/bin/sh\nexec \"$@\"\n");
        let facts = facts_of(layer, &[]);
        let consumer = facts.consumers.first().unwrap();
        (
            consumer.outcome.as_is.outcome,
            consumer.program.as_ref().map(ToString::to_string),
        )
    };
    let app = Some("/usr/bin/app".to_owned());
    assert_eq!(outcome(program("/opt/app/libplug.so")), (RequestOutcome::Loaded, app));
    assert_eq!(
        outcome(program("/opt/app/libother.so")),
        (RequestOutcome::NotFound, None)
    );
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

/// As a real `dlopen` that gives nothing does: the program gets no CUPTI.
#[test]
fn a_preloaded_dlopen_of_its_own_makes_the_answer_open() {
    let is_open = |export: &str| {
        let hook = Elf::library("libhook.so").export(export);
        let opens = Elf::executable().string("libcupti.so.12").import_weak("dlopen");
        let layer = Layer::new()
            .executable("usr/lib64/libcupti.so.12", Elf::library("libcupti.so.12").build())
            .executable("usr/lib64/libhook.so", hook.build())
            .executable("usr/bin/app", opens.build());
        let facts = facts_of(layer, &[("LD_PRELOAD", "/usr/lib64/libhook.so")]);
        (word(&facts, "app"), facts.status_is_open.is_some())
    };
    assert_eq!(is_open("malloc"), ((RequestOutcome::Loaded, false, false), false));
    assert_eq!(is_open("dlopen"), ((RequestOutcome::Loaded, true, false), true));
}
