//! Which files are copied into an image, from where, and why not?

use std::fmt::Write as _;

use crate::facts::{GatherOptions, ImageFacts, StartOverrides};
use crate::judge::audit::judge_image;
use crate::judge::image_reading::{self, ReadOptions};
use crate::knowledge::file_interest::cupti_options;
use crate::knowledge::{Knowledge, Phase};
use crate::make::remedy::copy_plan::{CopyPlan, plan_copy};
use crate::make::remedy::image_system::{ImageSystem, SystemInstaller};
use crate::make::remedy::install_context::{InstallContext, RecipeRequest};
use crate::make::remedy::install_folder::{CacheUpdate, FolderDiscovery};
use crate::make::remedy::install_method::InstallMethod;
use crate::make::remedy::package_ways::{apt, dnf};
use crate::make::remedy::target_release::release_words;
use image_linkage::loader::CpuLevel;
use image_source::registry::RegistryOptions;

const INSTALLERS: [SystemInstaller; 7] = [
    SystemInstaller::AptGet,
    SystemInstaller::Dnf,
    SystemInstaller::Dnf5,
    SystemInstaller::Microdnf,
    SystemInstaller::Tdnf,
    SystemInstaller::Yum,
    SystemInstaller::Zypper,
];

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
            let request = RecipeRequest {
                target: &audit.facts,
                phase: &training,
                plan: audit.plan("training").unwrap(),
                knowledge: &known,
                conditions: &conditions(),
                via: &[],
                cuda: Some(cuda),
                source: None,
                drops: false,
                adds_linked_program: false,
            };
            let mut question = InstallContext::new(&request).unwrap();
            for (row, installer) in packages.nvidia.iter().flat_map(|row| INSTALLERS.map(|it| (row, it))) {
                question.system = ImageSystem {
                    id: row.id.clone(),
                    version: row.version.replace('*', "4"),
                    dnf: Some(installer),
                    apt: true,
                    shell: true,
                    ..ImageSystem::default()
                };
                let way = if installer == SystemInstaller::AptGet { apt } else { dnf };
                let name = match way(&question) {
                    Ok(InstallMethod::Package(package)) => Some(package.name),
                    _ => None,
                };
                let (major, minor) = cuda;
                let repository = packages.nvidia_repository(&row.id, &question.system.version, machine);
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

fn said(copy_plan: &CopyPlan) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let release = copy_plan.release.as_deref().unwrap_or("?");
    let mut out = format!("{} of {release}\n", text(&copy_plan.soname));
    for file in &copy_plan.files {
        let (from, to, mode, because) = (&file.from, &file.to, file.mode, &file.because);
        let _ = writeln!(out, "{from} -> {to} {mode:o}: {because}");
    }
    for link in &copy_plan.links {
        let (at, because) = (&link.at, &link.because);
        let _ = writeln!(out, "{at} -> {}: {because}", text(&link.to));
    }
    let by = match &copy_plan.search.by {
        FolderDiscovery::Conf(file) => format!("named in {file}"),
        FolderDiscovery::Default => "a default folder".to_owned(),
    };
    let _ = write!(
        out,
        "{}: {by}, because {}",
        copy_plan.search.folder, copy_plan.search.because
    );
    out
}

/// The copy plan between two images for a phase, or the error, as text.
fn brought(from: &str, name: &str, to: &str, means: CacheUpdate) -> String {
    match plan_copy(&facts(from), &phase(name), &facts(to), means) {
        Ok(copy_plan) => said(&copy_plan),
        Err(refusal) => refusal.to_string(),
    }
}

#[test]
fn only_the_files_of_the_phase_are_brought_with_their_links_and_reasons() {
    let of_toolkit = |phase| brought("devel", phase, "headers-only", CacheUpdate::Cache);
    insta::assert_snapshot!("training", of_toolkit("training"));
    insta::assert_snapshot!("profiling", of_toolkit("profiling"));
    let wheel = brought("pip-torch", "inference", "pip-torch-broken", CacheUpdate::Cache);
    insta::assert_snapshot!("inference", wheel);
}

#[test]
fn an_image_without_libgcc_and_ldconfig_gets_both_ways_made_good() {
    let made = brought("devel", "training", "missing-libgcc", CacheUpdate::Build);
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
        let said = brought(from, phase, to, CacheUpdate::Cache);
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
