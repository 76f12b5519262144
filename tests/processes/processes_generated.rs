//! Compares every process of generated containers with the report on the image.
//!
//! A seed determines an image: users, modes, setuid bits and capabilities, an environment, an entry point, layers, and
//! programs and Python modules that request CUPTI in many ways. Each program really runs as the image's user, and its
//! result is compared with the report.
//!
//! `CUPTI_AUDIT_CASES=FIRST-LAST` selects seeds, and `CUPTI_AUDIT_FEATURE=NAME` images with one feature.
//! `CUPTI_AUDIT_KEEP=1` keeps the first images that differ.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::docker::Dockerd;
use crate::processes::compare::{Case, Comparison, Difference, Kind, compare_all};
use crate::processes::runner::{Outcome, Root};
use crate::processes::spec::{Feature, ImageSpec};
use crate::processes::world::{WORLD, World};
use crate::processes::{audit, engine_images, generate, kept, layers};
use testkit::parallel::in_parallel;
use testkit::seeds;

/// The number of images per run of the program.
const CHUNK: usize = 20;
/// The maximum number of differing cases to keep per run, because each of them runs again.
const KEPT: usize = 3;

/// Claims that are known to be false, with the reason why they are not fixed yet.
const KNOWN: &[(Feature, Kind, &str)] = &[];

#[test]
fn processes_get_what_the_report_says() {
    let Some(world) = &*WORLD else { return };
    let seeds = seeds::chosen(1, 120, 340).into_iter();
    let made = |seed| match asked_feature() {
        Some(feature) => generate::make_with(seed, &[feature]),
        None => generate::make(seed),
    };
    let specs: Vec<ImageSpec> = seeds.map(made).collect();
    let results = compare(world, &specs);
    report(world, "generated", &specs, &results);
}

#[test]
fn kept_images_are_reported_as_they_run() {
    let Some(world) = &*WORLD else { return };
    let kept = kept::kept();
    let specs: Vec<ImageSpec> = kept.values().cloned().collect();
    let results = compare(world, &specs);
    let differs = |comparison: &Comparison| !comparison.differences.is_empty();
    let agree = results.iter().filter(|comparison| !differs(comparison)).count();
    println!("{agree} of {} kept images agree with their real processes", specs.len());
    let mut text = String::new();
    for ((name, spec), comparison) in kept.iter().zip(&results) {
        for difference in unknown(spec, comparison) {
            let _ = writeln!(text, "{name}: {:?}: {}", difference.kind, difference.text);
        }
    }
    assert!(text.is_empty(), "{text}");
}

#[test]
fn images_of_a_real_engine_get_what_the_report_says() {
    let Some(world) = &*WORLD else { return };
    let Some(engine) = Dockerd::start() else { return };
    let seeds = seeds::chosen(10_001, 40, 104).into_iter();
    let mut specs: Vec<ImageSpec> = seeds.map(generate::make).collect();
    for spec in &mut specs {
        // An engine starts only the config's command.
        spec.processes.truncate(1);
    }
    let members: Vec<_> = specs
        .iter()
        .map(|spec| layers::members(spec, &world.compiler, world.base(spec)))
        .collect();
    let images: Vec<_> = specs
        .iter()
        .zip(&members)
        .map(|(spec, members)| audit::image(world, spec, members))
        .collect();
    engine_images::load(&engine, &images);
    let reports = audit::reports(&images);
    let real = in_parallel(specs.len(), |number| {
        let root = Root::new(world.base(&specs[number]), &members[number], &[]);
        let command = specs[number].processes[0].command.clone();
        let in_root = root.run(&world.runner, &specs[number], &[command]).remove(0);
        let in_engine = engine_images::run(&engine, number);
        let case = Case {
            spec: &specs[number],
            report: &reports[number],
            root: &root,
        };
        let comparison = case.processes(std::slice::from_ref(&in_engine));
        (
            comparison,
            same(&in_root, &in_engine),
            format!("{in_root:?} {in_engine:?}"),
        )
    });
    let alike = real.iter().filter(|(_, same, _)| *same).count();
    println!(
        "{alike} of {} processes agree in a root and in a real engine",
        specs.len()
    );
    let results: Vec<Comparison> = real.iter().map(|(comparison, ..)| comparison.clone()).collect();
    for ((_, same, text), spec) in real.iter().zip(&specs) {
        assert!(same, "{spec}{text}");
    }
    report(world, "engine-started", &specs, &results);
}

fn same(one: &Outcome, other: &Outcome) -> bool {
    match (one, other) {
        (Outcome::Gets(one), Outcome::Gets(other)) => one == other,
        (Outcome::Not(_), Outcome::Not(_)) => true,
        _ => false,
    }
}

/// The only feature of all images, from `CUPTI_AUDIT_FEATURE`.
fn asked_feature() -> Option<Feature> {
    let name = std::env::var("CUPTI_AUDIT_FEATURE").ok()?;
    Some(serde_json::from_value(name.into()).unwrap())
}

/// Compares images in parallel, on all processors.
fn compare(world: &World, specs: &[ImageSpec]) -> Vec<Comparison> {
    let chunks: Vec<&[ImageSpec]> = specs.chunks(CHUNK).collect();
    let found = in_parallel(chunks.len(), |number| compare_all(world, chunks[number]));
    found.into_iter().flatten().collect()
}

/// The refuted claims of an image, without those in [`KNOWN`].
fn unknown<'a>(spec: &'a ImageSpec, comparison: &'a Comparison) -> impl Iterator<Item = &'a Difference> {
    let is_known = |difference: &&Difference| {
        let mut known = KNOWN.iter();
        !known.any(|(feature, kind, _)| *kind == difference.kind && spec.features.contains(feature))
    };
    comparison.differences.iter().filter(is_known)
}

/// Prints the counts, and fails on a refuted claim that is not in [`KNOWN`].
fn report(world: &World, what: &str, specs: &[ImageSpec], results: &[Comparison]) {
    let sum = |of: fn(&Comparison) -> usize| results.iter().map(of).sum::<usize>();
    let kinds = |wanted: &[Kind]| {
        let all = results.iter().flat_map(|comparison| &comparison.differences);
        all.filter(|difference| wanted.contains(&difference.kind)).count()
    };
    let of_process = [
        Kind::FalseGets,
        Kind::OtherFile,
        Kind::FalseNot,
        Kind::Unseen,
        Kind::UnseenFailure,
    ];
    let (processes, claims) = (sum(|it| it.processes), sum(|it| it.claims));
    println!(
        "{} of {processes} {what} processes agree with the reports on {} images ({} get CUPTI, {} are open)",
        processes - kinds(&of_process),
        specs.len(),
        sum(|it| it.got),
        sum(|it| it.open)
    );
    println!(
        "{} of {claims} claims of reports on {what} images agree with runs: {} phases pass and {} of them falsely, {} fail and every process gets CUPTI",
        claims - sum(|it| it.differences.len()),
        sum(|it| it.passes),
        kinds(&[Kind::FalsePass]),
        sum(|it| it.alarms.len())
    );
    let mut alarms: BTreeMap<&String, usize> = BTreeMap::new();
    for rules in results.iter().flat_map(|comparison| &comparison.alarms) {
        *alarms.entry(rules).or_default() += 1;
    }
    println!(
        "  fail and every process gets CUPTI: {alarms:?}; {} more fail for what the phase demands beside it, {} where \
         what a process without CUPTI gets is left open",
        sum(|it| it.demands),
        sum(|it| it.left_open)
    );
    features(specs, results);
    let mut text = String::new();
    let failing: Vec<_> = specs
        .iter()
        .zip(results)
        .filter(|(spec, result)| unknown(spec, result).next().is_some())
        .collect();
    for (spec, result) in &failing {
        for difference in unknown(spec, result) {
            let _ = writeln!(
                text,
                "{} {:?} {:?}: {}",
                spec.seed, spec.features, difference.kind, difference.text
            );
        }
    }
    if std::env::var_os("CUPTI_AUDIT_KEEP").is_some() {
        for (spec, result) in failing.iter().take(KEPT) {
            let mut kinds: BTreeSet<Kind> = unknown(spec, result).map(|difference| difference.kind).collect();
            if kinds.len() > 1 {
                // The false pass only follows from the other refuted claims.
                kinds.remove(&Kind::FalsePass);
            }
            for kind in kinds {
                let _ = writeln!(text, "{}", kept::keep(world, spec, kind));
            }
        }
    }
    assert!(failing.is_empty(), "{text}");
}

/// Prints, per feature, the number of images and how many of them have a refuted claim.
fn features(specs: &[ImageSpec], results: &[Comparison]) {
    let mut table: BTreeMap<Feature, (usize, BTreeMap<Kind, usize>)> = BTreeMap::new();
    for (spec, result) in specs.iter().zip(results) {
        for feature in &spec.features {
            let row = table.entry(*feature).or_default();
            row.0 += 1;
            for difference in &result.differences {
                *row.1.entry(difference.kind).or_default() += 1;
            }
        }
    }
    for (feature, (images, kinds)) in &table {
        println!("  {images:4} images have {}: {kinds:?}", feature.name());
    }
    for (feature, kind, why) in KNOWN {
        let refuted = table
            .get(feature)
            .and_then(|(_, kinds)| kinds.get(kind))
            .copied()
            .unwrap_or(0);
        println!("  known: {refuted} {kind:?} with {}: {why}", feature.name());
    }
}
