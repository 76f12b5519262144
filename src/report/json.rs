//! The JSON report, version 1: a stable contract to which fields are only ever added.

use std::io;

use indexmap::IndexMap;
use serde::Serialize;

use super::ReportWriter;
use super::json_parts::{BothWorlds, GapReport, ImageIdentity, ProgramVersion, gap_reports, map_worlds};
use crate::judge::facts::{
    ByWorld, CompanionLookup, CuptiAccess, CuptiConsumer, CuptiCopy, CuptiProcess, ImageFacts, PythonUse,
};
use crate::judge::outcome::AuditedImage;
use crate::judge::plan::{Plan, PlanItem};
use crate::judge::rule::{Evidence, Finding};
use crate::knowledge::api::CuptiApi;
use image_linkage::digest::Digest;
use image_linkage::escape;
use image_linkage::path::RootPath;

const SCHEMA: &str = "cupti-audit/report/v1";

/// The contract as a JSON Schema (draft 2020-12).
pub(crate) const CONTRACT: &str = include_str!("report-v1.schema.json");

/// One object per image, a line each; an image that could not be audited has none.
pub(crate) struct JsonReport;

impl ReportWriter for JsonReport {
    fn audited(&mut self, audit: &AuditedImage) -> io::Result<String> {
        Ok(serde_json::to_string(&report(audit))? + "\n")
    }
}

#[derive(Serialize)]
struct ImageReport<'a> {
    schema: &'static str,
    tool: ProgramVersion,
    image: LayeredImage<'a>,
    cupti: CuptiReport,
    consumers: Vec<ConsumerReport>,
    undecided: Vec<UndecidedReport>,
    // In the order of the phases, as in the other forms.
    phases: IndexMap<&'a str, PhaseReport<'a>>,
    findings: Vec<FindingReport<'a>>,
    gaps: Vec<GapReport<'a>>,
}

#[derive(Serialize)]
struct LayeredImage<'a> {
    #[serde(flatten)]
    image: ImageIdentity<'a>,
    layers: Vec<LayerReport<'a>>,
}

#[derive(Serialize)]
struct LayerReport<'a> {
    digest: Option<String>,
    diff_id: Option<String>,
    media_type: &'a str,
    compressed_bytes: u64,
    bytes: u64,
    created_by: Option<&'a str>,
}

#[derive(Serialize)]
struct CuptiReport {
    status: &'static str,
    status_nvidia: &'static str,
    copies: Vec<CopyReport>,
    headers: Vec<String>,
    dangling_links: Vec<DanglingLinkReport>,
    apis: Vec<ProcessApisReport>,
}

/// What one process can use: a consumer, or where `consumer` is null one without search paths of its own.
#[derive(Serialize)]
struct ProcessApisReport {
    consumer: Option<String>,
    object: Option<String>,
    usable: IndexMap<&'static str, BothWorlds<&'static str>>,
    libraries: Vec<CompanionReport>,
}

#[derive(Serialize)]
struct CompanionReport {
    name: String,
    asked_by: &'static str,
    outcome: &'static str,
    path: Option<String>,
    how: Option<&'static str>,
    message: Option<String>,
}

#[derive(Serialize)]
struct DanglingLinkReport {
    path: String,
    target: String,
    layer: usize,
}

#[derive(Serialize)]
struct CopyReport {
    path: String,
    real_path: String,
    // From 0, as an index into `image.layers`; the reports for people count layers from 1.
    layer: usize,
    soname: Option<String>,
    version: Option<String>,
    version_source: Option<&'static str>,
    bytes: u64,
    machine: Option<String>,
    owner: OwnerReport,
    decoy: bool,
    loadable: BothWorlds<bool>,
    how: Option<&'static str>,
    problems: Vec<String>,
}

#[derive(Serialize)]
struct OwnerReport {
    kind: &'static str,
    name: String,
    version: Option<String>,
}

#[derive(Serialize)]
struct ConsumerReport {
    name: String,
    object: String,
    asks: &'static str,
    // `for` is a keyword of Rust.
    #[serde(rename = "for")]
    wants: String,
    outcome: BothWorlds<&'static str>,
    path: Option<String>,
    how: Option<&'static str>,
    required: &'static str,
    missing_symbols: Vec<String>,
    message: Option<String>,
    program: Option<String>,
    python: Option<PythonReport>,
}

#[derive(Serialize)]
struct UndecidedReport {
    object: Option<String>,
    why: String,
    holds: Vec<String>,
}

#[derive(Serialize)]
struct PythonReport {
    interpreter: Option<String>,
    site: String,
    why_not: Option<String>,
}

#[derive(Serialize)]
struct PhaseReport<'a> {
    verdict: &'static str,
    because: &'a [String],
    keep_bytes: u64,
    drop_bytes: u64,
    // The paths stood here before there were items, and stay: fields are only ever added.
    keep: Vec<String>,
    drop: Vec<String>,
    items: Vec<ItemReport<'a>>,
}

#[derive(Serialize)]
struct ItemReport<'a> {
    path: String,
    decision: &'static str,
    kind: &'static str,
    bytes: u64,
    layer: usize,
    links: Vec<String>,
    because: &'a str,
}

#[derive(Serialize)]
struct FindingReport<'a> {
    rule: &'a str,
    severity: &'static str,
    message: &'a str,
    locations: Vec<LocationReport>,
    evidence: Vec<String>,
    fix: &'a str,
    // The reports of a project that suppresses nothing are as they were before there was a config.
    #[serde(skip_serializing_if = "Option::is_none")]
    suppressed: Option<SuppressedReport<'a>>,
}

#[derive(Serialize)]
struct SuppressedReport<'a> {
    reason: &'a str,
    until: Option<String>,
}

#[derive(Serialize)]
struct LocationReport {
    path: String,
    layer: Option<usize>,
}

fn report(audit: &AuditedImage) -> ImageReport<'_> {
    let facts = &audit.facts;
    ImageReport {
        schema: SCHEMA,
        tool: ProgramVersion::this(),
        image: image(facts),
        cupti: CuptiReport {
            status: facts.status.as_is.name(),
            status_nvidia: facts.status.nvidia.name(),
            copies: facts.copies.iter().map(copy).collect(),
            headers: facts.headers.iter().map(|(path, _)| path.to_string()).collect(),
            dangling_links: facts
                .dangling
                .iter()
                .map(|link| DanglingLinkReport {
                    path: link.path.to_string(),
                    target: escape::escape_bytes(&link.target),
                    layer: link.layer,
                })
                .collect(),
            apis: facts.apis.iter().map(|asker| apis(facts, asker)).collect(),
        },
        consumers: facts.consumers.iter().map(consumer).collect(),
        undecided: undecided(facts),
        phases: audit.plans.iter().map(phase).collect(),
        findings: audit.findings.iter().map(finding).collect(),
        gaps: gap_reports(facts),
    }
}

/// The programs of which only a run could tell what they get.
fn undecided(facts: &ImageFacts) -> Vec<UndecidedReport> {
    let report = |object: Option<&RootPath>, why: &str| UndecidedReport {
        object: object.map(ToString::to_string),
        why: why.to_owned(),
        holds: Vec::new(),
    };
    let plain = facts.status_is_open.iter().map(|why| report(None, why));
    let consumers = facts.consumers.iter().filter_map(|consumer| {
        let why = consumer.undecided_words()?;
        Some(report(Some(&consumer.object), why))
    });
    let openers = facts.undecided.iter().map(|opener| UndecidedReport {
        holds: opener.holds.iter().map(|text| escape::escape_bytes(text)).collect(),
        ..report(Some(&opener.object), "the name that it opens is not known")
    });
    plain.chain(consumers).chain(openers).collect()
}

fn phase(plan: &Plan) -> (&str, PhaseReport<'_>) {
    let paths = |items: &[PlanItem]| items.iter().map(|item| item.path.to_string()).collect();
    let decided = [("keep", &plan.keep), ("drop", &plan.drop)].into_iter();
    let items = decided.flat_map(|(decision, items)| {
        items.iter().map(move |item| ItemReport {
            path: item.path.to_string(),
            decision,
            kind: item.kind,
            bytes: item.bytes,
            layer: item.layer,
            links: item.links.iter().map(ToString::to_string).collect(),
            because: &item.because,
        })
    });
    let phase = PhaseReport {
        verdict: plan.verdict.name(),
        because: &plan.because,
        keep_bytes: plan.keep_bytes(),
        drop_bytes: plan.drop_bytes(),
        keep: paths(&plan.keep),
        drop: paths(&plan.drop),
        items: items.collect(),
    };
    (&plan.phase, phase)
}

fn image(facts: &ImageFacts) -> LayeredImage<'_> {
    let text = |digest: &Option<Digest>| digest.as_ref().map(ToString::to_string);
    let layers = facts
        .image
        .layers
        .iter()
        .zip(&facts.layers)
        .map(|(layer, size)| LayerReport {
            digest: text(&layer.digest),
            diff_id: text(&layer.diff_id),
            media_type: &layer.media_type,
            compressed_bytes: size.compressed,
            bytes: size.bytes,
            created_by: layer.created_by.as_deref(),
        });
    LayeredImage {
        image: ImageIdentity::from(&facts.image),
        layers: layers.collect(),
    }
}

fn copy(copy: &CuptiCopy) -> CopyReport {
    CopyReport {
        path: escape::escape_bytes(&copy.path),
        real_path: copy.real_path.to_string(),
        layer: copy.layer,
        soname: copy.soname.as_deref().map(escape::escape_bytes),
        version: copy.version.as_ref().map(|(version, _)| version.clone()),
        version_source: copy.version.as_ref().map(|(_, source)| source.name()),
        bytes: copy.bytes,
        machine: copy.machine.clone(),
        owner: OwnerReport {
            kind: copy.owner.kind.name(),
            name: escape::escape_bytes(copy.owner.name.as_bytes()),
            version: copy
                .owner
                .version
                .as_ref()
                .map(|version| escape::escape_bytes(version.as_bytes())),
        },
        decoy: copy.decoy,
        loadable: map_worlds(&copy.loadable, |loads| *loads),
        how: copy.how.map(image_linkage::loader::SearchStage::name),
        problems: copy_problems(copy),
    }
}

/// What is wrong with the file, and what keeps the user of the image from it.
fn copy_problems(copy: &CuptiCopy) -> Vec<String> {
    let denial = copy.denial.iter().map(|denial| format!("permission denied: {denial}"));
    copy.problems.iter().cloned().chain(denial).collect()
}

fn consumer(consumer: &CuptiConsumer) -> ConsumerReport {
    let ByWorld { as_is, nvidia } = &consumer.outcome;
    // Where the image as it is gives nothing, the path is that under the container runtime: `outcome` says which.
    let gets = if as_is.path.is_some() { as_is } else { nvidia };
    ConsumerReport {
        name: consumer.name.clone(),
        object: consumer.object.to_string(),
        asks: consumer.asks.name(),
        wants: escape::escape_bytes(&consumer.wants),
        outcome: map_worlds(&consumer.outcome, |gets| gets.outcome.name()),
        path: gets.path.as_deref().map(escape::escape_bytes),
        how: gets.how.map(image_linkage::loader::SearchStage::name),
        required: consumer.required.name(),
        missing_symbols: gets
            .missing_symbols
            .iter()
            .map(|symbol| escape::escape_bytes(symbol))
            .collect(),
        message: Some(as_is.message.clone()).filter(|message| !message.is_empty()),
        program: consumer.program.as_ref().map(ToString::to_string),
        python: consumer.python.as_ref().map(python),
    }
}

fn python(used: &PythonUse) -> PythonReport {
    let (interpreter, site, why_not) = match used {
        PythonUse::Imported { interpreter, site } => (Some(interpreter.to_string()), site, None),
        PythonUse::Unreachable { site, why } => (None, site, Some(why.clone())),
    };
    PythonReport {
        interpreter,
        site: site.to_string(),
        why_not,
    }
}

fn apis(facts: &ImageFacts, asker: &CuptiProcess) -> ProcessApisReport {
    let consumer = asker.consumer.and_then(|number| facts.consumers.get(number));
    let usable = |api: &'static CuptiApi| {
        let name = |reach: &CuptiAccess| reach.usable(&api.id).name();
        (api.id.as_str(), map_worlds(&asker.reach, name))
    };
    ProcessApisReport {
        consumer: consumer.map(|consumer| consumer.name.clone()),
        object: consumer.map(|consumer| consumer.object.to_string()),
        usable: facts.tables.apis_of(facts.library).iter().map(usable).collect(),
        libraries: asker.reach.as_is.companions.iter().map(companion).collect(),
    }
}

fn companion(companion: &CompanionLookup) -> CompanionReport {
    CompanionReport {
        name: escape::escape_bytes(&companion.name),
        asked_by: companion.got.name(),
        outcome: companion.outcome.name(),
        path: companion.real_path.as_ref().map(ToString::to_string),
        how: companion.how.map(image_linkage::loader::SearchStage::name),
        message: Some(companion.message.clone()).filter(|message| !message.is_empty()),
    }
}

fn finding(finding: &Finding) -> FindingReport<'_> {
    FindingReport {
        rule: &finding.rule,
        severity: finding.severity.name(),
        message: &finding.message,
        locations: finding
            .locations
            .iter()
            .map(|at| LocationReport {
                path: at.path.to_string(),
                layer: at.layer,
            })
            .collect(),
        evidence: finding.evidence.iter().map(Evidence::text).collect(),
        fix: &finding.fix,
        suppressed: finding.suppressed.as_ref().map(|suppressed| SuppressedReport {
            reason: &suppressed.reason,
            until: suppressed.until.map(|until| until.to_string()),
        }),
    }
}
