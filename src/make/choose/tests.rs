//! Which files are copied into an image, from where, and why not?

use std::fmt::Write as _;

use crate::facts::{GatherOptions, ImageFacts, StartOverrides};
use crate::judge::audit::judge_image;
use crate::judge::image_reading::{self, ReadOptions};
use crate::knowledge::file_interest::cupti_options;
use crate::knowledge::{Knowledge, Phase};
use crate::make::choose::copy_source::CopySource;
use crate::make::choose::image_system::{ImageSystem, RPM_INSTALLERS, SystemInstaller};
use crate::make::choose::methods::copy::plan_copy;
use crate::make::choose::methods::system_package::{propose_apt, propose_rpm};
use crate::make::choose::request::{DropChoice, PatchContext, PatchForm, PatchRequest};
use crate::make::choose::target_release::release_words;
use crate::make::patch::package::Package;
use crate::make::patch::{ImagePatch, SearchPath};
use image_linkage::loader::CpuLevel;
use image_source::registry::RegistryOptions;

fn conditions() -> GatherOptions {
    GatherOptions {
        environment: Vec::new(),
        cpu: CpuLevel::V3,
        limits: image_linkage::limits::Limits::default(),
        start: StartOverrides::default(),
    }
}

fn facts(image: &str) -> ImageFacts {
    let options = ReadOptions {
        platform: None,
        registry: RegistryOptions::default(),
        knowledge: &Knowledge::built_in(),
        conditions: conditions(),
        index: cupti_options(),
        progress: &(),
        cache: None,
    };
    let folder = env!("CARGO_MANIFEST_DIR");
    let mut facts = image_reading::read_image(&format!("oci:{folder}/testdata/images/{image}"), &options).unwrap();
    image.clone_into(&mut facts.image.reference);
    facts
}

/// For each distribution of NVIDIA's repositories, each CUDA release and each installer.
#[test]
fn a_package_is_named_exactly_if_the_repository_has_it() {
    let known = Knowledge::built_in();
    let training = phase("training");
    let mut counts = [0, 0];
    for (image, machine) in [("headers-only", "x86_64"), ("arm64", "sbsa")] {
        let audit = judge_image(facts(image), &known, &["training".to_owned()], &[]);
        let packages = &known.tables.packages;
        for cuda in (10..15).flat_map(|major| (0..10).map(move |minor| (major, minor))) {
            let request = PatchRequest {
                target: &audit.facts,
                phase: &training,
                plan: audit.plan("training").unwrap(),
                knowledge: &known,
                conditions: &conditions(),
                form: PatchForm::Build,
                via: &[],
                cuda: Some(cuda),
                source: None,
                drops: DropChoice::OfPhase,
                adds_linked_program: false,
            };
            let mut context = PatchContext::new(request).unwrap();
            let installers = [&[SystemInstaller::AptGet][..], &RPM_INSTALLERS].concat();
            for (row, &installer) in packages
                .nvidia
                .iter()
                .flat_map(|row| installers.iter().map(move |it| (row, it)))
            {
                context.system = ImageSystem {
                    id: row.id.clone(),
                    version: row.version.replace('*', "4"),
                    rpm_installer: Some(installer),
                    apt: true,
                    shell: true,
                    ..ImageSystem::default()
                };
                let propose = if installer == SystemInstaller::AptGet {
                    propose_apt
                } else {
                    propose_rpm
                };
                let name = match propose(&context).ok().and_then(|mut patches| patches.remove(0).package) {
                    Some(Package::System(package)) => Some(package.name),
                    _ => None,
                };
                let (major, minor) = cuda;
                let repository = packages.nvidia_repository(&row.id, &context.system.version, machine);
                let has = repository.is_some_and(|it| it.has(cuda)) && known.tables.was_released(cuda);
                let expected = has.then(|| format!("cuda-cupti-{major}-{minor}"));
                assert_eq!(name, expected, "{} {} {machine} {installer:?}", row.id, row.version);
                counts[usize::from(has)] += 1;
            }
        }
    }
    let [absent, there] = counts;
    println!("packages of NVIDIA's repositories: {there} named, {absent} not named");
    assert!(absent > 1000 && there > 1000);
}

fn phase(name: &str) -> Phase {
    Knowledge::built_in().phase(name).unwrap().clone()
}

fn said(patch: &ImagePatch) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let release = patch.release.as_ref().map_or("?", |release| &*release.version);
    let mut out = format!("{} of {release}\n", text(&patch.soname));
    for file in &patch.files {
        let (from, at, mode) = (file.copied_from().unwrap(), &file.at, file.facts.mode);
        let _ = writeln!(out, "{from} -> {at} {mode:o}: {}", file.because);
    }
    for link in &patch.links {
        let (at, because) = (&link.at, &link.because);
        let _ = writeln!(out, "{at} -> {}: {because}", text(&link.to));
    }
    let _ = match &patch.search {
        SearchPath::Own { because } => write!(out, "own, because {because}"),
        SearchPath::Default { folder, because } => write!(out, "{folder}: a default folder, because {because}"),
        SearchPath::Configured { folder, line, because } => {
            let file = &line.as_ref().unwrap().file;
            write!(out, "{folder}: named in {file}, because {because}")
        }
    };
    out
}

/// The copy between two images for a phase, or the error, as text.
fn brought(from: &str, name: &str, to: &str, form: PatchForm) -> String {
    let known = Knowledge::built_in();
    let (source, phase) = (facts(from), phase(name));
    let audit = judge_image(facts(to), &known, &[name.to_owned()], &[]);
    let request = PatchRequest {
        target: &audit.facts,
        phase: &phase,
        plan: audit.plan(name).unwrap(),
        knowledge: &known,
        conditions: &conditions(),
        form,
        via: &[],
        cuda: None,
        source: Some(CopySource {
            name: from,
            facts: &source,
        }),
        drops: DropChoice::Nothing,
        adds_linked_program: false,
    };
    let patch = PatchContext::new(request).and_then(|context| plan_copy(&context, &source));
    patch.map_or_else(|refusal| refusal.to_string(), |patch| said(&patch))
}

#[test]
fn only_the_files_of_the_phase_are_brought_with_their_links_and_reasons() {
    let of_toolkit = |phase| brought("devel", phase, "headers-only", PatchForm::Layer);
    insta::assert_snapshot!("training", of_toolkit("training"));
    insta::assert_snapshot!("profiling", of_toolkit("profiling"));
    let wheel = brought("pip-torch", "inference", "pip-torch-broken", PatchForm::Layer);
    insta::assert_snapshot!("inference", wheel);
}

#[test]
fn an_image_without_libgcc_and_ldconfig_gets_both_ways_made_good() {
    let made = brought("devel", "training", "missing-libgcc", PatchForm::Build);
    insta::assert_snapshot!(made);
}

#[test]
fn what_cannot_help_is_refused_in_one_sentence() {
    let refused = [
        ("devel", "training", "musl"),
        ("devel", "training", "empty"),
        ("devel", "inference", "no-cupti"),
        ("headers-only", "training", "no-cupti"),
        ("no-cupti", "training", "headers-only"),
        ("dangling-link", "training", "no-cupti"),
        ("arm64", "training", "headers-only"),
        ("tool-for-newer-cupti", "training", "old-glibc"),
    ];
    let mut out = String::new();
    for (from, phase, to) in refused {
        let said = brought(from, phase, to, PatchForm::Layer);
        let _ = writeln!(out, "{from} into {to} for {phase}:\n  {said}");
    }
    insta::assert_snapshot!(out);
}

#[test]
fn a_release_without_the_functions_of_a_program_is_passed_over() {
    let release = |image: &str| release_words(&facts(image)).unwrap();
    let because =
        "it is the newest release with cuptiActivityEnableDriverApi, which kernel-trace imports and 12.4.127 lacks";
    assert_eq!(
        release("tool-for-newer-cupti"),
        (
            format!("libcupti.so.12 of 12.9.79 ({because})"),
            Some("nvidia-cuda-cupti-cu12==12.9.79".to_owned())
        )
    );
    assert_eq!(
        release("pip-torch"),
        (
            "libcupti.so.12 of 12.4.127 (torch 2.5.1 requires it)".to_owned(),
            Some("nvidia-cuda-cupti-cu12==12.4.127".to_owned())
        )
    );
}
