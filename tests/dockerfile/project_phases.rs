//! A project goes through training, profiling and inference. One file builds each image, which is pushed, audited from
//! the registry and run. The sizes are compared with hand-written Dockerfiles.
//!
//! A Debian with NVIDIA's libraries from the package index replaces NVIDIA's images (`builds.yaml`). The runtime image has
//! no CUPTI. The devel image has all of it, with headers.

use crate::builder::Builder;
use crate::builds::Images;
use crate::registry_parts::Registry;
use serde_json::Value;

const CUPTI: &str = "libcupti.so.12";
const HOST: &str = "libnvperf_host.so";

/// Common hand-written Dockerfiles, with their sizes and verdicts for training.
fn by_hand(images: &Images) -> Vec<(&'static str, u64, String)> {
    let rows = [
        ("runtime as it is", "cuda-runtime:1"),
        ("devel", "cuda-devel:1"),
        ("runtime and extras/CUPTI of devel", "cuda-extras:1"),
        ("runtime and all libraries of devel", "cuda-libraries:1"),
    ];
    let row = |(what, image)| {
        images.need(image);
        let builder = &images.builder;
        (what, builder.size(image), builder.audit(image, "training").verdict)
    };
    rows.map(row).to_vec()
}

/// Pushes an image and returns its name in the registry.
fn push(builder: &Builder, registry: &Registry, image: &str) -> String {
    let name = format!("{}/project:{}", registry.address, image.replace(':', "-"));
    builder.engine.must(&["tag", image, &name]);
    builder.engine.must(&["push", "--quiet", &name]);
    name
}

/// The file for all phases of the project in the registry.
fn dockerfile(builder: &Builder, runtime: &str, devel: &str) -> String {
    let insecure = runtime.split('/').next().unwrap();
    let output = builder.cupti_audit(&[
        "dockerfile",
        &format!("docker://{runtime}"),
        "--all-phases",
        "--from",
        &format!("docker://{devel}"),
        "--cloudbuild",
        "--insecure-registry",
        insecure,
    ]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
#[ignore = "it builds images for minutes: make test-builds"]
fn a_project_goes_from_training_to_inference() {
    let there = crate::support::have("docker-registry", "docker-registry");
    let Some(images) = there.then(Images::start).flatten() else {
        return;
    };
    images.need("cuda-devel:1");
    let builder = &images.builder;
    let folder = tempfile::tempdir().unwrap();
    let registry = Registry::start(folder.path(), None);
    let (runtime, devel) = (
        push(builder, &registry, "cuda-runtime:1"),
        push(builder, &registry, "cuda-devel:1"),
    );
    let text = dockerfile(builder, &runtime, &devel);
    let begin = format!("FROM {}", registry.address);
    let mut from = text.lines().filter(|line| line.starts_with(&begin));
    assert!(from.all(|line| line.contains("@sha256:")), "{text}");
    pinned_from_the_engine(builder, &runtime, &text);
    let before = builder.size("cuda-runtime:1");
    let mut table = Vec::new();
    for by in builder.builders() {
        for (phase, gets, lacks) in [
            ("training", &[CUPTI][..], &[HOST][..]),
            ("profiling", &[CUPTI, HOST], &[]),
            ("inference", &[], &[CUPTI, HOST]),
        ] {
            let tag = format!("{phase}:1");
            let output = builder.build_by(by, &tag, &text, &["--target", phase]);
            let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
            assert!(output.status.success(), "{phase} by {by:?}: {text}\n{said}");
            for (names, is_there) in [(gets, true), (lacks, false)] {
                for name in names {
                    let output = builder.run(&tag, &["/probe", "lazy", name]);
                    assert_eq!(output.status.success(), is_there, "{phase} {name}: {output:?}");
                }
            }
            let pushed = push(builder, &registry, &tag);
            let audited = audit(builder, &pushed, phase);
            assert_eq!(audited, "pass", "{phase} by {by:?}");
            assert_eq!(Builder::predicted(&text, phase), audited, "{text}");
            table.push((format!("{phase}, by {by:?}"), builder.size(&tag)));
        }
    }
    print_table(before, &by_hand(&images), &table);
    let size = |phase: &str| table.iter().find(|(name, _)| name.starts_with(phase)).unwrap().1 - before;
    assert_eq!(size("inference"), 0);
    assert!(
        (7_700_000..7_900_000).contains(&size("training")),
        "{}",
        size("training")
    );
    assert!(
        (41_400_000..41_700_000).contains(&size("profiling")),
        "{}",
        size("profiling")
    );
}

/// An image in the engine has the digest of the registry that it was pushed to, and both builders find it by that
/// digest.
fn pinned_from_the_engine(builder: &Builder, image: &str, text: &str) {
    let of_engine = builder.dockerfile(image, "training", &["--from", "docker-daemon:cuda-devel:1"]);
    let pinned = |text: &str| {
        let mut names = text.split_whitespace().filter(|word| word.starts_with(image));
        names.find(|word| word.contains("@sha256:")).map(str::to_owned)
    };
    assert!(pinned(text).is_some(), "{text}");
    assert_eq!(pinned(&of_engine), pinned(text), "{of_engine}");
    for by in builder.builders() {
        let output = builder.build_by(by, "pinned:1", &of_engine, &[]);
        assert!(output.status.success(), "{by:?}: {of_engine} {output:?}");
    }
}

/// The verdict on an image in the registry, with its reasons.
fn audit(builder: &Builder, name: &str, phase: &str) -> String {
    let insecure = name.split('/').next().unwrap();
    let image = format!("docker://{name}");
    let output = builder.cupti_audit(&[
        "--format",
        "json",
        "--phase",
        phase,
        "--insecure-registry",
        insecure,
        &image,
    ]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    report["phases"][phase]["verdict"].as_str().unwrap().to_owned()
}

/// Prints the sizes, and compares the bytes added to the image without CUPTI with the documentation.
fn print_table(before: u64, by_hand: &[(&str, u64, String)], made: &[(String, u64)]) {
    let page = include_str!("../../docs/phases.md");
    let listed = |what: &str, added: &str, verdict: &str| {
        let row = format!("| {what} | {added} | {verdict} |");
        assert!(page.contains(&row), "docs/phases.md lacks {row}");
    };
    let megabytes = |bytes: u64| {
        let tenths = bytes / 100_000;
        format!("{}.{} MB", tenths / 10, tenths % 10)
    };
    println!(
        "stand-ins of Debian 12 with NVIDIA's files of PyPI; runtime is {}",
        megabytes(before)
    );
    for (what, size, verdict) in by_hand {
        let added = megabytes(size - before);
        println!(
            "  {what:40} {:>10}  + {added:>9}  training: {verdict}",
            megabytes(*size)
        );
        listed(what, &added, &format!("training: {verdict}"));
    }
    for (what, size) in made {
        let added = megabytes(size - before);
        println!("  {what:40} {:>10}  + {added:>9}  pass", megabytes(*size));
        let phase = what.split(',').next().unwrap();
        listed(&format!("`--target {phase}`"), &added, &format!("{phase}: pass"));
    }
    println!(
        "{} of {} phases of a project agree with what was predicted",
        made.len(),
        made.len()
    );
}
