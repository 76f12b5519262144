//! The findings of every rule for every fixture image and phase; and checks of the rules themselves.

use cupti_audit::knowledge::file_interest::cupti_options;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::LazyLock;

use cupti_audit::facts::{GatherOptions, HostFacts, ImageFacts, InjectionMode, StartOverrides};
use cupti_audit::judge::audit::{ask_gpus, judge_image};
use cupti_audit::judge::image_reading::{self, ReadOptions};
use cupti_audit::judge::plan::profilers::assess_tools;
use cupti_audit::judge::plan::profilers::installed_tools::find_installed_tools;
use cupti_audit::judge::plan::{self, PlanInput};
use cupti_audit::judge::rule::{self, Finding, Rule, RuleQuestion, Severity};
use cupti_audit::knowledge::{Knowledge, SEVERITY_PHASES};
use image_linkage::loader::CpuLevel;
use image_linkage::rootfs::FileCredentials;
use image_source::Platform;
use image_source::registry::RegistryOptions;
use testkit::elf::Elf;
use testkit::layer::{Compression, Layer};
use testkit::oci::Layout;
use testkit::spec::Sources;

/// No phase, and each phase.
const ASKED: [&str; 4] = ["", "inference", "training", "profiling"];

/// Images in which CUPTI works fully: a finding about these would apply to every good image.
const GOOD: [&str; 8] = [
    "arm64",
    "debian-cupti",
    "devel",
    "multi-platform",
    "pip-torch",
    "rhel-devel",
    "torch-with-triton",
    "wrong-class",
];

/// Rules about the options of a run: suppressions, tools and GPUs.
const OF_RUN: [&str; 10] = [
    "expired-accept",
    "expired-suppression",
    "gpu-code-incomplete",
    "gpu-code-missing",
    "gpu-code-only-ptx",
    "gpu-not-supported",
    "tool-not-ready",
    "tools-exclude-each-other",
    "unused-accept",
    "unused-suppression",
];

/// The rules about an image.
fn image_rules() -> Vec<Rule> {
    let mut rules = Knowledge::built_in().rules;
    rules.retain(|rule| rule.answers(RuleQuestion::Image) && !OF_RUN.contains(&rule.id.as_str()));
    rules
}

/// Good images in which no process gets the library for hardware counters. Only users who profile with them miss it.
const WITHOUT_COUNTERS: [&str; 1] = ["wrong-class"];

/// One image of one platform.
struct Judged {
    /// The fixture name, with the platform if it has several.
    name: String,
    /// The findings by phase.
    findings: BTreeMap<&'static str, Vec<Finding>>,
}

static ALL: LazyLock<Vec<Judged>> = LazyLock::new(|| {
    let sources = Sources::of_repository().unwrap();
    let mut all = Vec::new();
    for (name, fixture) in sources.fixtures() {
        let others = fixture.also.iter().map(|other| other.platform.as_str());
        for platform in std::iter::once(fixture.platform.as_str()).chain(others) {
            let label = if fixture.also.is_empty() {
                name.clone()
            } else {
                format!("{name} on {platform}")
            };
            all.push(judge(label, &facts(name, platform)));
        }
    }
    all.extend(running("devel"));
    // The driver of 2021 is too old, but the image has one for forward compatibility.
    all.extend(running("rhel-devel").into_iter().skip(1).take(1));
    all.push(of_release("devel", "13.0.48"));
    all.push(of_release("devel", "99.1.2"));
    all
});

/// An image as a running container, on hosts that lack something.
fn running(name: &str) -> Vec<Judged> {
    let host = |driver: &str, has_gpu, counters| HostFacts {
        driver: Some(driver.to_owned()).filter(|driver| !driver.is_empty()),
        has_gpu,
        counters,
        ..HostFacts::default()
    };
    let legacy = HostFacts {
        mode: Some(InjectionMode::Legacy),
        perf_level: Some(4),
        ..host("535.104.05", true, Some(false))
    };
    let cdi = HostFacts {
        mode: Some(InjectionMode::Cdi),
        ..host("570.86.15", true, Some(true))
    };
    let hosts = [
        ("without a driver", host("", false, None)),
        ("of 2021 without a GPU", host("470.82.01", false, Some(true))),
        ("that grants no counters", legacy),
        ("that grants all", cdi),
    ];
    let on = |(words, host): (&str, HostFacts)| {
        let mut facts = facts(name, "linux/amd64");
        facts.host = Some(host);
        facts.image.config.running = Some(FileCredentials::default());
        let daemon = ("KINETO_USE_DAEMON".to_owned(), "1".to_owned());
        facts.image.config.env.push(daemon);
        judge(format!("{name} on a host {words}"), &facts)
    };
    hosts.map(on).into()
}

/// An image with a CUPTI of this release, on a MIG instance of a GPU.
fn of_release(name: &str, version: &str) -> Judged {
    let mut facts = facts(name, "linux/amd64");
    for copy in &mut facts.answers.copies {
        version.clone_into(&mut copy.version.as_mut().unwrap().0);
    }
    let devices = ("NVIDIA_VISIBLE_DEVICES".to_owned(), "MIG-6f2e".to_owned());
    facts.image.config.env.retain(|(key, _)| *key != devices.0);
    facts.image.config.env.push(devices);
    judge(format!("{name} with CUPTI {version} and MIG"), &facts)
}

fn facts(name: &str, platform: &str) -> ImageFacts {
    let folder = concat!("oci:", env!("CARGO_MANIFEST_DIR"), "/testdata/images");
    read(&format!("{folder}/{name}"), platform)
}

fn read(reference: &str, platform: &str) -> ImageFacts {
    let platform = Platform::parse(platform).unwrap();
    let options = ReadOptions {
        platform: Some(&platform),
        registry: RegistryOptions::default(),
        knowledge: &Knowledge::built_in(),
        conditions: GatherOptions {
            environment: Vec::new(),
            cpu: CpuLevel::V3,
            limits: image_linkage::limits::Limits::default(),
            start: StartOverrides::default(),
        },
        index: cupti_options(),
        progress: &(),
        cache: None,
    };
    image_reading::read_image(reference, &options).unwrap()
}

fn judge(name: String, facts: &ImageFacts) -> Judged {
    let knowledge = Knowledge::built_in();
    let rules = image_rules();
    let hits = rule::find_hits(facts);
    let installed = find_installed_tools(facts, &knowledge.profilers, &[]);
    let known = PlanInput {
        facts,
        rules: &rules,
        hits: &hits,
        profilers: &knowledge.profilers,
        tools: &assess_tools(facts, &installed, &knowledge.profilers),
    };
    let findings = ASKED.map(|asked| {
        let phases = knowledge.phases_named(&[asked.to_owned()]);
        let mut findings = rule::judge_hits(&rules, &hits, &phases);
        for phase in &phases {
            let unmet = plan::plan_phase(&known, phase).unmet;
            plan::add_unmet_needs(&known, phase, &unmet, &mut findings);
        }
        (asked, findings)
    });
    Judged {
        name,
        findings: findings.into(),
    }
}

impl Judged {
    /// The highest severity of each rule, by phase.
    fn rules(&self) -> BTreeMap<&str, [Option<Severity>; 4]> {
        let mut rules: BTreeMap<&str, [Option<Severity>; 4]> = BTreeMap::new();
        for (at, asked) in ASKED.iter().enumerate() {
            for finding in &self.findings[asked] {
                let cell = &mut rules.entry(&finding.rule).or_default()[at];
                *cell = (*cell).max(Some(finding.severity));
            }
        }
        rules
    }
}

#[test]
fn what_every_rule_says_of_every_image() {
    let mut out = String::new();
    let _ = writeln!(out, "{:36}unasked  inference  training  profiling", "");
    for judged in &*ALL {
        let _ = writeln!(out, "{}", judged.name);
        for (rule, cells) in judged.rules() {
            let [unasked, inference, training, profiling] = cells.map(|cell| cell.map_or("-", Severity::name));
            let _ = writeln!(out, "  {rule:34}{unasked:9}{inference:11}{training:10}{profiling}");
        }
    }
    insta::assert_snapshot!("matrix", out);
}

#[test]
fn what_every_rule_says_the_first_time_it_finds_something() {
    let mut out = String::new();
    for rule in image_rules() {
        let mut found = ALL.iter().flat_map(|judged| {
            let findings = judged.findings.values().flatten();
            findings.map(move |finding| (&judged.name, finding))
        });
        if let Some((image, finding)) = found.find(|(_, finding)| finding.rule == rule.id) {
            let _ = writeln!(out, "{} ({image})\n  {}", rule.id, finding.message);
            for evidence in finding.evidence.iter().take(2) {
                let _ = writeln!(out, "  {}", evidence.text());
            }
            let _ = writeln!(out, "  {}\n", finding.fix);
        }
    }
    insta::assert_snapshot!("messages", out);
}

#[test]
fn a_cuda_runtime_of_another_major_version_is_worse_than_one_of_another_minor_version() {
    for (version, cell) in [("12.5.82", Severity::Note), ("13.0.48", Severity::Warning)] {
        let cell = Some(cell);
        let judged = of_release("devel", version);
        assert_eq!(
            judged.rules()["cupti-cudart-mismatch"],
            [cell, None, cell, cell],
            "{version}"
        );
    }
}

/// 5000 lines that include 300 files each: the limit is reported once, and the rule gives no findings.
#[test]
fn too_many_includes_leave_open_what_is_named() {
    let sources = Sources::of_repository().unwrap();
    let base = sources.images(&sources.fixtures()["debian-cupti"]).unwrap();
    let conf = "include /etc/more/*.conf\n".repeat(5000);
    let layer = (0..300).fold(Layer::new().file("etc/ld.so.conf", conf), |layer, number| {
        layer.file(format!("etc/more/{number}.conf"), "/opt\n")
    });
    let image = base[0].clone().layer("COPY", &layer, Compression::None);
    let folder = tempfile::tempdir().unwrap();
    let mut layout = Layout::new();
    layout.add("1", &[image]);
    layout.write_to(&folder.path().join("image")).unwrap();
    let reference = format!("oci:{}/image", folder.path().display());
    let read = read(&reference, "linux/amd64");
    let told = format!("{:?}", read.gaps).matches("are more than 256").count();
    assert_eq!(told, 1);
    assert!(!judge("many".to_owned(), &read).rules().contains_key("gke-path-missing"));
}

#[test]
fn every_rule_finds_something_in_one_image_and_nothing_in_another() {
    for rule in image_rules() {
        let (finds, silent): (Vec<&Judged>, Vec<&Judged>) = ALL
            .iter()
            .partition(|judged| judged.rules().contains_key(rule.id.as_str()));
        assert!(!finds.is_empty(), "{} finds nothing", rule.id);
        assert!(!silent.is_empty(), "{} finds something always", rule.id);
    }
}

#[test]
fn good_images_have_neither_errors_nor_warnings() {
    for name in GOOD {
        let judged = ALL
            .iter()
            .find(|judged| judged.name.split(' ').next() == Some(name))
            .unwrap();
        for (rule, cells) in judged.rules() {
            if rule == "phase-need-unmet" && WITHOUT_COUNTERS.contains(&name) {
                assert_eq!(cells, [None, None, None, Some(Severity::Error)], "{name}");
                continue;
            }
            let worst = cells.into_iter().flatten().max();
            assert_eq!(worst, Some(Severity::Note), "{rule} on {name}");
        }
    }
}

#[test]
fn every_rule_says_what_it_has_to() {
    for rule in Knowledge::built_in().rules {
        let id = &rule.id;
        assert!(!rule.summary.is_empty() && !rule.why.is_empty(), "{id}");
        assert!(!rule.summary.ends_with('.'), "{id}: a stop at the end");
        assert!(rule.why.ends_with('.'), "{id}: why is sentences");
        let fix = rule.fix.with_field_names();
        assert!(!fix.is_empty() && !fix.ends_with('.'), "{id}: {fix}");
        // The rules about entries of the config need no source.
        let is_about_config = id.starts_with("unused-");
        assert_eq!(is_about_config, rule.references.is_empty(), "{id}: a reference");
        for reference in &rule.references {
            assert!(reference.starts_with("https://"), "{id}: {reference}");
        }
        for name in SEVERITY_PHASES {
            let says = rule.phases.contains_key(name);
            assert!(says, "{id} does not say how grave it is for {name}");
        }
        assert!(rule.phases.values().any(Option::is_some), "{id} is off for every phase");
    }
}

#[test]
fn messages_have_no_holes() {
    for judged in &*ALL {
        for finding in judged.findings.values().flatten() {
            for text in [&finding.message, &finding.fix] {
                let hole = ["  ", "()", "( ", " ,", "{", "}"]
                    .iter()
                    .any(|hole| text.contains(hole));
                assert!(!hole && text.trim() == text, "{}: {text:?}", judged.name);
            }
        }
    }
}

/// The GPU of the host is judged like one that the user names.
#[test]
fn a_host_with_a_gpu_without_code_is_an_error() {
    let sources = Sources::of_repository().unwrap();
    let base = sources.images(&sources.fixtures()["empty"]).unwrap();
    let torch = Elf::new().gpu_code(&["sm_80"]).unwrap().build();
    let layer = Layer::new().file("opt/torch/lib/libtorch_cuda.so", torch);
    let folder = tempfile::tempdir().unwrap();
    let mut layout = Layout::new();
    layout.add("1", &[base[0].clone().layer("COPY", &layer, Compression::None)]);
    layout.write_to(&folder.path().join("image")).unwrap();
    let found = |models: [&str; 2]| {
        let mut facts = read(&format!("oci:{}/image", folder.path().display()), "linux/amd64");
        facts.host = Some(HostFacts {
            models: models.map(str::to_owned).into(),
            ..HostFacts::default()
        });
        let knowledge = Knowledge::built_in();
        let mut audit = judge_image(facts, &knowledge, &[], &[]);
        ask_gpus(&mut audit, &knowledge, &["a100".to_owned()]);
        let findings = audit.findings.into_iter();
        let of_gpu = findings.filter(|finding| finding.rule == "gpu-code-missing");
        of_gpu
            .map(|finding| (finding.severity, finding.verdict))
            .collect::<Vec<_>>()
    };
    let lacks = "PyTorch has no code for NVIDIA H100 80GB HBM3 (sm_90)";
    assert_eq!(
        found(["NVIDIA H100 80GB HBM3", "NVIDIA H200"]),
        [(Severity::Error, Some(lacks.to_owned()))]
    );
    assert_eq!(found(["NVIDIA A100-SXM4-40GB", "NVIDIA T400 4GB"]), []);
}
