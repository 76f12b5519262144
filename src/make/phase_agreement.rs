//! Do `audit`, `advise`, `profilers` and `dockerfile` agree about an image and a phase? The test calls each as a
//! library, for every fixture and for unusual images derived from them.
#![allow(clippy::print_stdout, reason = "the counts are part of what the test shows")]

use std::collections::BTreeSet;

use indexmap::IndexMap;
use testkit::oci::Layout;
use testkit::spec::{EntrySpec, Fixture, LayerSpec, Sources};

use super::remedy::RemedyError;
use super::remedy::install_context::RecipeRequest;
use super::remedy::recipe::make_recipe;
use super::remedy::required_libraries::list_required_libraries;
use crate::facts::{ApiAvailability, CuptiConsumer, GatherOptions, ImageFacts, StartOverrides};
use crate::judge::audit::judge_image;
use crate::judge::image_reading::{ReadOptions, read_image};
use crate::judge::outcome::{AuditedImage, RunExit};
use crate::judge::plan::advice::advise_on_tools;
use crate::judge::plan::profilers::installed_tools::find_installed_tools;
use crate::judge::plan::profilers::{ReadinessState, ToolAssessment, assess_tools};
use crate::judge::plan::{DemandLevel, Plan, Verdict};
use crate::knowledge::file_interest::cupti_options;
use crate::knowledge::{CuptiNeed, IdChoice, Knowledge, Phase, has_api};
use image_linkage::loader::CpuLevel;
use image_source::Platform;
use image_source::registry::RegistryOptions;

/// The number of commands compared with the demands of the phase.
const COMMANDS: usize = 4;

/// The number of comparisons, and the disagreements between commands.
#[derive(Default)]
struct Agreement {
    cells: usize,
    images: usize,
    differ: Vec<String>,
}

/// An image and a phase as each command sees them.
struct PhaseCell<'a> {
    label: String,
    known: &'a Knowledge,
    phase: &'a Phase,
    facts: &'a ImageFacts,
    audit: &'a AuditedImage,
    plan: &'a Plan,
    tools: &'a [ToolAssessment<'a>],
}

impl Agreement {
    fn expect(&mut self, cell: &PhaseCell<'_>, agrees: bool, what: &str) {
        if !agrees {
            self.differ.push(format!("{}: {what}", cell.label));
        }
    }

    /// Compares the results of all commands for the image in a layout.
    fn image(&mut self, label: &str, reference: &str, platform: &str, known: &Knowledge) {
        self.images += 1;
        let platform = Platform::parse(platform).unwrap();
        let mut facts = read_image(reference, &read_options(known, &platform)).unwrap();
        for phase in &known.phases {
            let asked = [phase.name.clone()];
            let audit = judge_image(facts, known, &asked, &[]);
            let found = &audit.facts;
            let installed = find_installed_tools(found, &known.profilers, &[]);
            let cell = PhaseCell {
                label: format!("{label} for {}", phase.name),
                known,
                phase,
                facts: found,
                audit: &audit,
                plan: audit.plan(&phase.name).unwrap(),
                tools: &assess_tools(found, &installed, &known.profilers),
            };
            self.audit(&cell);
            self.profilers(&cell);
            self.advise(&cell);
            self.dockerfile(&cell);
            self.cells += COMMANDS;
            facts = audit.facts;
        }
    }

    /// The verdict, findings and exit code of an audit, and its first line.
    fn audit(&mut self, cell: &PhaseCell<'_>) {
        let PhaseCell { plan, audit, .. } = cell;
        let needs = plan.unmet.iter().any(|demand| demand.level == DemandLevel::Needs);
        self.expect(
            cell,
            !needs || plan.verdict == Verdict::Fail,
            "a need is unmet and the verdict no fail",
        );
        let passes = plan.verdict == Verdict::Pass;
        self.expect(
            cell,
            plan.unmet.is_empty() || !passes,
            "something is wanted in vain and the verdict is pass",
        );
        let fails = audit.exit() == RunExit::Findings;
        self.expect(
            cell,
            fails == (plan.verdict == Verdict::Fail),
            "verdict and exit code differ",
        );
        let told: BTreeSet<&String> = audit.findings.iter().map(|finding| &finding.rule).collect();
        self.expect(
            cell,
            plan.because.iter().all(|rule| told.contains(rule)),
            "a reason is no finding",
        );
        let named = audit.verdict();
        let mut lost = plan
            .unmet
            .iter()
            .filter_map(|demand| consumer(cell.facts, demand.consumer));
        let is_silent = |it: &CuptiConsumer| it.profile.is_some() && it.misses_library() && !named.contains(&it.name);
        self.expect(
            cell,
            !lost.any(is_silent),
            "the first line does not name who is without CUPTI",
        );
    }

    /// The readiness of each tool that the phase serves.
    fn profilers(&mut self, cell: &PhaseCell<'_>) {
        let served = cell
            .tools
            .iter()
            .filter(|entry| cell.phase.serves.contains(&entry.profiler.id));
        for entry in served.filter(|entry| entry.profiler.profile.consumer.is_some()) {
            let profile = &entry.profiler.profile;
            let mut unmet = cell.plan.unmet.iter().filter(|demand| {
                let consumer = consumer(cell.facts, demand.consumer);
                let is_own = consumer.is_some_and(|consumer| consumer.profile == profile.consumer);
                is_own && demand.level == DemandLevel::Needs
            });
            let state = entry.here.as_is.state;
            let name = &entry.profiler.id;
            let is_lacking = unmet.next().is_some();
            let lies =
                state == ReadinessState::Ready && is_lacking && !has_other_copy(cell.facts, profile.consumer.as_ref());
            self.expect(cell, !lies, &format!("{name} is ready, and CUPTI is missing for it"));
            let is_wished = |id: &String| cell.phase.apis.needs.iter().any(|wish| wish.ids().contains(id));
            let mut missing = entry.apis.iter().filter(|api| !api.optional && is_wished(&api.api.id));
            let is_missing = missing.any(|api| api.usable.as_is.is_some_and(|usable| usable != ApiAvailability::Yes));
            let counts =
                state == ReadinessState::NotReady && is_missing && is_reachable(cell.facts, profile.consumer.as_ref());
            self.expect(
                cell,
                !counts || is_lacking,
                &format!("{name} misses an API, and nothing is demanded for it"),
            );
        }
    }

    /// The files that `advise` lists without an image: the same that a Dockerfile installs for the phase.
    fn advise(&mut self, cell: &PhaseCell<'_>) {
        for cuda in [(11, 8), (12, 4), (12, 9), (13, 0)] {
            let version = format!("{}.{}", cuda.0, cuda.1);
            let advice = advise_on_tools(Some(cell.phase), Vec::new(), cell.known, Some(&version)).unwrap();
            let required = list_required_libraries(cell.known.tables, cell.known.library, cell.phase, &[], |api| {
                has_api(cuda, api)
            });
            let required: BTreeSet<&str> = required.iter().map(|library| library.stem).collect();
            let needed = advice.files.iter().filter(|file| !file.optional);
            let stem = |name: &str| required.iter().find(|stem| name.starts_with(**stem)).copied();
            let named: BTreeSet<Option<&str>> = needed.map(|file| stem(&file.name)).collect();
            let expected: BTreeSet<Option<&str>> = required.iter().copied().map(Some).collect();
            self.expect(
                cell,
                named == expected,
                &format!("advise names {named:?} for CUDA {version}"),
            );
            self.expect(
                cell,
                advice.needs_cupti() != required.is_empty(),
                "advise and the phase differ",
            );
        }
    }

    /// The result of a Dockerfile.
    fn dockerfile(&mut self, cell: &PhaseCell<'_>) {
        let recipe = make_recipe(&RecipeRequest {
            target: cell.facts,
            phase: cell.phase,
            plan: cell.plan,
            knowledge: cell.known,
            conditions: &conditions(),
            via: &[],
            cuda: None,
            source: None,
            drops: false,
            adds_linked_program: false,
        });
        let lacks = cell.plan.lacks_cupti(cell.facts);
        match recipe {
            Ok(recipe) => {
                let serves = recipe.predicted.verdict != Verdict::Fail || cell.plan.verdict == Verdict::Fail;
                self.expect(cell, serves, "the image that the Dockerfile makes is worse than it was");
                // Remaining problems are reported, so that users do not take an ineffective file for a fix.
                let warns = cell.plan.verdict == Verdict::Warn && !lacks;
                let says = !recipe.predicted.because.is_empty() || recipe.library_path.is_some();
                self.expect(cell, !warns || says, "the audit warns, and the Dockerfile is silent");
            }
            Err(RemedyError::Musl { .. } | RemedyError::NoLoader { .. }) => {}
            Err(_) => self.expect(cell, lacks, "the Dockerfile is refused, and nothing is to be brought"),
        }
    }
}

fn consumer(facts: &ImageFacts, number: Option<usize>) -> Option<&CuptiConsumer> {
    facts.consumers.get(number?)
}

/// Whether another copy of the program gets CUPTI, which is enough for its tool.
fn has_other_copy(facts: &ImageFacts, program: Option<&String>) -> bool {
    let mut copies = facts
        .consumers
        .iter()
        .filter(|consumer| consumer.profile.as_ref() == program);
    copies.any(|consumer| !consumer.misses_library() && consumer.unreachable().is_none())
}

fn is_reachable(facts: &ImageFacts, program: Option<&String>) -> bool {
    let mut copies = facts
        .consumers
        .iter()
        .filter(|consumer| consumer.profile.as_ref() == program);
    copies.any(|consumer| consumer.unreachable().is_none())
}

fn conditions() -> GatherOptions {
    GatherOptions {
        environment: Vec::new(),
        cpu: CpuLevel::V3,
        limits: image_linkage::limits::Limits::default(),
        start: StartOverrides::default(),
    }
}

fn read_options<'a>(knowledge: &'a Knowledge, platform: &'a Platform) -> ReadOptions<'a> {
    ReadOptions {
        platform: Some(platform),
        registry: RegistryOptions::default(),
        knowledge,
        conditions: conditions(),
        index: cupti_options(),
        progress: &(),
        cache: None,
    }
}

fn finish(what: &str, agreement: &Agreement) {
    let Agreement { cells, images, differ } = agreement;
    println!(
        "{what}: {} of {cells} answers on {images} images agree in audit, advise, profilers and dockerfile",
        cells.saturating_sub(differ.len())
    );
    assert!(differ.is_empty(), "{} differ:\n{}", differ.len(), differ.join("\n"));
}

#[test]
fn every_command_says_the_same_of_every_fixture_in_every_phase() {
    let known = Knowledge::built_in();
    let mut agreement = Agreement::default();
    for (name, fixture) in Sources::of_repository().unwrap().fixtures() {
        let reference = format!("oci:{}/testdata/images/{name}", env!("CARGO_MANIFEST_DIR"));
        let others = fixture.also.iter().map(|other| &other.platform);
        for platform in std::iter::once(&fixture.platform).chain(others) {
            agreement.image(&format!("{name} on {platform}"), &reference, platform, &known);
        }
    }
    finish("fixtures", &agreement);
}

/// The changes to the CUPTI of an image, each made by a layer on top.
const CHANGES: [&str; 10] = [
    "as it is",
    "gone",
    "headers only",
    "another major in its place",
    "unreadable",
    "dangling",
    "no library",
    "elsewhere",
    "in a default folder besides",
    "without what is beside it",
];

/// A fixture with the layers of other fixtures on top.
fn combined(sources: &Sources, names: &[&str]) -> Fixture {
    let (first, others) = names.split_first().unwrap();
    let mut fixture = sources.fixtures()[*first].clone();
    for other in others {
        // The layers below the last contain the shared Python.
        fixture.layers.extend(sources.fixtures()[*other].layers.last().cloned());
    }
    fixture
}

/// The fixture with its CUPTI changed.
fn changed(fixture: &Fixture, change: &str) -> Fixture {
    let mut fixture = fixture.clone();
    let entries = fixture.layers.iter().filter_map(|layer| layer.entries.as_ref());
    let paths: Vec<String> = entries.flat_map(|entries| entries.keys().cloned()).collect();
    let named = |part: &str| -> Vec<String> {
        let mut found: Vec<String> = paths.iter().filter(|path| path.contains(part)).cloned().collect();
        found.dedup();
        found
    };
    let libraries = named("/libcupti.so");
    let all = |entry: EntrySpec| libraries.iter().map(|path| (path.clone(), entry.clone())).collect();
    let plain = "/usr/lib/x86_64-linux-gnu";
    let mut entries: IndexMap<String, EntrySpec> = match change {
        "gone" | "headers only" | "elsewhere" => all(EntrySpec::Whiteout),
        "another major in its place" => all(EntrySpec::Part("libcupti-13".to_owned())),
        "dangling" => all(EntrySpec::Link("libcupti.so.2020.1".to_owned())),
        "no library" => all(EntrySpec::Text("none\n".to_owned())),
        "unreadable" => {
            let folder = |path: &String| {
                path.rsplit_once('/')
                    .map(|(folder, _)| (folder.to_owned(), EntrySpec::ClosedDir))
            };
            libraries.iter().filter_map(folder).collect()
        }
        "without what is beside it" => named("/libnvperf_")
            .into_iter()
            .map(|path| (path, EntrySpec::Whiteout))
            .collect(),
        _ => IndexMap::new(),
    };
    let part = |name: &str| EntrySpec::Part(name.to_owned());
    match change {
        "headers only" => drop(entries.insert("/usr/include/cupti.h".to_owned(), part("cupti.h"))),
        "elsewhere" => drop(entries.insert("/opt/cupti/libcupti.so.12".to_owned(), part("libcupti-12"))),
        "in a default folder besides" => drop(entries.insert(format!("{plain}/libcupti.so.12"), part("libcupti-12"))),
        "unreadable" => drop(fixture.config.insert("User".to_owned(), "1000".into())),
        _ => {}
    }
    fixture.layers.push(LayerSpec {
        created_by: change.to_owned(),
        compression: testkit::layer::Compression::None,
        entries: Some(entries),
    });
    fixture
}

#[test]
fn every_command_says_the_same_of_odd_images() {
    let known = Knowledge::built_in();
    let sources = Sources::of_repository().unwrap();
    let mut agreement = Agreement::default();
    let programs: [&[&str]; 11] = [
        &["no-cupti"],
        &["devel"],
        &["pip-torch"],
        &["pip-tensorflow"],
        &["pip-jax"],
        &["torch-with-triton"],
        &["torch-proton"],
        &["tool-for-newer-cupti"],
        &["pip-torch", "pip-tensorflow"],
        &["pip-torch", "pip-jax"],
        &["pip-tensorflow", "pip-jax"],
    ];
    for names in programs {
        let fixture = combined(&sources, names);
        for change in CHANGES {
            let images = sources.images(&changed(&fixture, change)).unwrap();
            let mut layout = Layout::new();
            layout.add("1", &images);
            let place = tempfile::tempdir().unwrap();
            layout.write_to(&place.path().join("image")).unwrap();
            let reference = format!("oci:{}/image", place.path().display());
            let label = format!("{}, CUPTI {change}", names.join(" and "));
            agreement.image(&label, &reference, &fixture.platform, &known);
        }
    }
    finish("odd images", &agreement);
}

#[test]
fn a_phase_that_demands_nothing_is_told_from_one_that_does() {
    let known = Knowledge::built_in();
    let demanding: Vec<&str> = known
        .phases
        .iter()
        .filter(|phase| phase.apis.needs.iter().flat_map(IdChoice::ids).next().is_some())
        .map(|phase| phase.name.as_str())
        .collect();
    assert_eq!(demanding, ["training", "profiling"]);
    // An unserved tool would be an audit error, and no Dockerfile would install CUPTI for it.
    let served = &known.phase("profiling").unwrap().serves;
    let in_image = known
        .profilers
        .iter()
        .filter(|tool| tool.profile.cupti == CuptiNeed::InImage);
    let forgotten: Vec<&str> = in_image
        .map(|tool| &*tool.id)
        .filter(|id| !served.iter().any(|own| own == id))
        .collect();
    assert_eq!(forgotten, [""; 0]);
}

#[test]
fn the_library_of_another_major_is_no_comfort_to_a_program_that_asks_for_its_own() {
    let known = Knowledge::built_in();
    let sources = Sources::of_repository().unwrap();
    let program = "/usr/local/bin/opens: {elf: {kind: executable, needed: [libc.so.6], imports: [dlopen], strings: [libcupti.so.12]}}";
    let other = "/opt/cupti/libcupti.so.11.8: {part: libcupti-11.8}";
    let own = "/opt/cupti/libcupti.so.12: {part: libcupti-12}";
    for (files, expected) in [
        (format!("{{{other}, {program}}}"), Verdict::Fail),
        (format!("{{{own}, {other}, {program}}}"), Verdict::Warn),
        (format!("{{{other}}}"), Verdict::Warn),
    ] {
        let spec = format!(
            "{{about: x, base: cuda12.4-runtime, env: {{LD_LIBRARY_PATH: /opt/cupti}}, \
             layers: [{{created_by: COPY, entries: {files}}}], \
             expect: {{status: absent, status_nvidia: absent, exit: 0}}}}"
        );
        let fixture: Fixture = serde_saphyr::from_str(&spec).unwrap();
        let mut layout = Layout::new();
        layout.add("1", &sources.images(&fixture).unwrap());
        let place = tempfile::tempdir().unwrap();
        layout.write_to(&place.path().join("image")).unwrap();
        let reference = format!("oci:{}/image", place.path().display());
        let platform = Platform::parse(&fixture.platform).unwrap();
        let facts = read_image(&reference, &read_options(&known, &platform)).unwrap();
        let audit = judge_image(facts, &known, &["training".to_owned()], &[]);
        let plan = audit.plan("training").unwrap();
        assert_eq!(plan.verdict, expected, "{files}: {:?}", plan.because);
    }
}
