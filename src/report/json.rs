//! The JSON report, version 1: a stable contract to which fields are only ever added.

use serde_json::{Value, json};

use super::ReportWriter;
use super::json_parts::{gap_reports, image_identity, map_worlds, program_version, without_nulls};
use super::links::links_json;
use crate::judge::facts::{
    ByWorld, CompanionLookup, CuptiConsumer, CuptiCopy, CuptiProcess, ImageFacts, LayerSize, PythonUse,
};
use crate::judge::outcome::{AskedTool, AuditedImage, FailOn, RunExit, UnreadImage};
use crate::judge::plan::{Plan, PlanItem};
use crate::judge::rule::{Evidence, Finding, Severity};
use image_linkage::digest::Digest;
use image_linkage::elf::ByteString;
use image_linkage::escape::escape_bytes;
use image_linkage::loader::SearchStage;
use image_linkage::path::RootPath;
use image_source::LayerDescriptor;

const SCHEMA: &str = "cupti-audit/report/v1";

/// What the line of an image that could not be audited is called: it has nothing of a report but the name.
const UNREAD_SCHEMA: &str = "cupti-audit/unread/v1";

/// One object per image, a line each.
pub(crate) struct JsonReport {
    fail_on: FailOn,
}

impl JsonReport {
    /// Reports whose exit codes count findings as `fail_on` says.
    pub(crate) fn new(fail_on: FailOn) -> Self {
        Self { fail_on }
    }
}

impl ReportWriter for JsonReport {
    fn audited(&mut self, audit: &AuditedImage) -> String {
        let report = match &audit.links {
            Some(links) => {
                let findings = audit.findings.iter().map(finding).collect();
                links_json(audit, links, self.fail_on, &findings)
            }
            None => report(audit, self.fail_on),
        };
        format!("{report}\n")
    }

    fn unread(&mut self, unread: &UnreadImage) -> String {
        let line = json!({
            "schema": UNREAD_SCHEMA,
            "tool": program_version(),
            "image": {"reference": unread.image},
            "error": unread.why,
            "exit_code": RunExit::Open as u8,
        });
        format!("{line}\n")
    }
}

fn report(audit: &AuditedImage, fail_on: FailOn) -> Value {
    let facts = &audit.facts;
    let mut image = image_identity(&facts.image);
    image.insert("layers".to_owned(), layers(facts));
    let dangling = facts
        .dangling
        .iter()
        .map(|link| json!({"path": link.path.to_string(), "target": escape_bytes(&link.target), "layer": link.layer}));
    let mut report = json!({
        "schema": SCHEMA,
        "tool": program_version(),
        "verdict": audit.verdict(),
        "exit_code": audit.exit(fail_on) as u8,
        "asked_phases": audit.phases,
        "asked_tools": audit.tools.iter().map(asked_tool).collect::<Value>(),
        "counts": counts(audit),
        "mended_by": audit.mended_by,
        "image": image,
        "cupti": {
            "status": facts.status.as_is.name(),
            "status_nvidia": facts.status.nvidia.name(),
            "copies": facts.copies.iter().map(copy).collect::<Value>(),
            "headers": facts.headers.iter().map(|(path, _)| path.to_string()).collect::<Value>(),
            "dangling_links": dangling.collect::<Value>(),
            "apis": facts.apis.iter().map(|asker| apis(facts, asker)).collect::<Value>(),
        },
        "consumers": facts.consumers.iter().map(consumer).collect::<Value>(),
        "undecided": undecided(facts),
        // In the order of the phases, as in the other forms.
        "phases": null,
        "findings": audit.findings.iter().map(finding).collect::<Value>(),
        "gaps": gap_reports(facts),
    });
    let phases = audit.plans.iter().map(|plan| (plan.phase.clone(), phase(plan)));
    fill(&mut report, "phases", phases.collect());
    report
}

/// Gives a field its value, which `json!` would copy whole.
fn fill(object: &mut Value, field: &str, value: Value) {
    if let Some(place) = object.get_mut(field) {
        *place = value;
    }
}

fn asked_tool(tool: &AskedTool) -> Value {
    json!({"id": tool.id, "state": tool.readiness.state.name(), "because": tool.readiness.because})
}

/// How many findings there are of each severity, those that are suppressed apart.
fn counts(audit: &AuditedImage) -> Value {
    json!({
        "error": audit.count(Severity::Error),
        "warning": audit.count(Severity::Warning),
        "note": audit.count(Severity::Note),
        "suppressed": audit.suppressed_count(),
    })
}

/// The programs of which only a run could tell what they get.
fn undecided(facts: &ImageFacts) -> Value {
    let entry = |object: Option<&RootPath>, why: &str, holds: &[ByteString]| {
        let holds: Value = holds.iter().map(|text| escape_bytes(text)).collect();
        json!({"object": object.map(ToString::to_string), "why": why, "holds": holds})
    };
    let plain = facts.status_is_open.iter().map(|why| entry(None, why, &[]));
    let consumers = facts.consumers.iter().filter_map(|consumer| {
        let why = consumer.undecided_words()?;
        Some(entry(Some(&consumer.object), why, &[]))
    });
    let name = "the name that it opens is not known";
    let openers = facts.undecided.iter();
    let openers = openers.map(|opener| {
        let why = opener
            .after
            .as_ref()
            .map(|what| format!("it depends on what is there before it: {what}"));
        entry(Some(&opener.object), why.as_deref().unwrap_or(name), &opener.holds)
    });
    plain.chain(consumers).chain(openers).collect()
}

fn layers(facts: &ImageFacts) -> Value {
    let text = |digest: &Option<Digest>| digest.as_ref().map(ToString::to_string);
    let layers = facts.image.layers.iter().zip(&facts.layers);
    let layer = |(layer, size): (&LayerDescriptor, &LayerSize)| {
        json!({
            "digest": text(&layer.digest),
            "diff_id": text(&layer.diff_id),
            "media_type": layer.media_type,
            "compressed_bytes": size.compressed,
            "bytes": size.bytes,
            "created_by": layer.created_by,
        })
    };
    layers.map(layer).collect()
}

fn phase(plan: &Plan) -> Value {
    let paths = |items: &[PlanItem]| -> Value { items.iter().map(|item| item.path.to_string()).collect() };
    let decided = [("keep", &plan.keep), ("drop", &plan.drop)].into_iter();
    let items = decided.flat_map(|(decision, items)| items.iter().map(move |item| self::item(decision, item)));
    let mut phase = json!({
        "verdict": plan.verdict.name(),
        "because": plan.because,
        "keep_bytes": plan.keep_bytes(),
        "drop_bytes": plan.drop_bytes(),
        // The paths stood here before there were items, and stay: fields are only ever added.
        "keep": null,
        "drop": null,
        "items": null,
    });
    fill(&mut phase, "keep", paths(&plan.keep));
    fill(&mut phase, "drop", paths(&plan.drop));
    fill(&mut phase, "items", items.collect());
    phase
}

fn item(decision: &str, item: &PlanItem) -> Value {
    json!({
        "path": item.path.to_string(),
        "decision": decision,
        "kind": item.kind,
        "bytes": item.bytes,
        "layer": item.layer,
        "links": item.links.iter().map(ToString::to_string).collect::<Value>(),
        "because": item.because,
    })
}

fn copy(copy: &CuptiCopy) -> Value {
    let version = copy.version.as_ref();
    let owner = &copy.owner;
    // What is wrong with the file, and what keeps the user of the image from it.
    let denial = copy.denial.iter().map(|denial| format!("permission denied: {denial}"));
    json!({
        "path": escape_bytes(&copy.path),
        "real_path": copy.real_path.to_string(),
        // From 0, as an index into `image.layers`; the reports for people count layers from 1.
        "layer": copy.layer,
        "soname": copy.soname.as_deref().map(escape_bytes),
        "version": version.map(|(version, _)| version),
        "version_source": version.map(|(_, source)| source.name()),
        "bytes": copy.bytes,
        "machine": copy.machine,
        "owner": {
            "kind": owner.kind.name(),
            "name": escape_bytes(owner.name.as_bytes()),
            "version": owner.version.as_ref().map(|version| escape_bytes(version.as_bytes())),
        },
        "decoy": copy.decoy,
        "loadable": map_worlds(&copy.loadable, |loads| *loads),
        "how": copy.how.map(SearchStage::name),
        "problems": copy.problems.iter().cloned().chain(denial).collect::<Value>(),
    })
}

fn consumer(consumer: &CuptiConsumer) -> Value {
    let ByWorld { as_is, nvidia } = &consumer.outcome;
    // Where the image as it is gives nothing, the path is that under the container runtime: `outcome` says which.
    let gets = if as_is.path.is_some() { as_is } else { nvidia };
    let missing_symbols = gets.missing_symbols.iter();
    json!({
        "name": consumer.name,
        "object": consumer.object.to_string(),
        "asks": consumer.asks.name(),
        "for": escape_bytes(&consumer.wants),
        "outcome": map_worlds(&consumer.outcome, |gets| gets.outcome.name()),
        "path": gets.path.as_deref().map(escape_bytes),
        "how": gets.how.map(SearchStage::name),
        "required": consumer.required.name(),
        "missing_symbols": missing_symbols.map(|symbol| escape_bytes(symbol)).collect::<Value>(),
        "message": unless_empty(&as_is.message),
        "cannot_start": consumer.start_failure().map(|failure| &failure.words),
        "program": consumer.program.as_ref().map(ToString::to_string),
        "python": consumer.python.as_ref().map(python),
    })
}

fn unless_empty(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

fn python(used: &PythonUse) -> Value {
    let (interpreter, site, why_not) = match used {
        PythonUse::Imported { interpreter, site } => (Some(interpreter.to_string()), site, None),
        PythonUse::Unreachable { site, why } => (None, site, Some(why)),
    };
    json!({"interpreter": interpreter, "site": site.to_string(), "why_not": why_not})
}

/// What one process can use: a consumer, or where `consumer` is null one without search paths of its own.
fn apis(facts: &ImageFacts, asker: &CuptiProcess) -> Value {
    let consumer = asker.consumer.and_then(|number| facts.consumers.get(number));
    let apis = facts.tables.apis_of(facts.library).iter();
    let usable = apis.map(|api| {
        let usable = map_worlds(&asker.reach, |reach| reach.usable(&api.id).name());
        (api.id.clone(), usable)
    });
    json!({
        "consumer": consumer.map(|consumer| &consumer.name),
        "object": consumer.map(|consumer| consumer.object.to_string()),
        "usable": usable.collect::<Value>(),
        "libraries": asker.reach.as_is.companions.iter().map(companion).collect::<Value>(),
    })
}

fn companion(companion: &CompanionLookup) -> Value {
    json!({
        "name": escape_bytes(&companion.name),
        "asked_by": companion.got.name(),
        "outcome": companion.outcome.name(),
        "path": companion.real_path.as_ref().map(ToString::to_string),
        "how": companion.how.map(SearchStage::name),
        "message": unless_empty(&companion.message),
    })
}

pub(super) fn finding(finding: &Finding) -> Value {
    let locations = finding.locations.iter();
    let suppressed = finding.suppressed.as_ref().map(
        |suppressed| json!({"reason": suppressed.reason, "until": suppressed.until.map(|until| until.to_string())}),
    );
    // The reports of a project that suppresses nothing are as they were before there was a config.
    without_nulls(json!({
        "rule": finding.rule,
        "severity": finding.severity.name(),
        "message": finding.message,
        "locations": locations.map(|at| json!({"path": at.path.to_string(), "layer": at.layer})).collect::<Value>(),
        "evidence": finding.evidence.iter().map(Evidence::text).collect::<Value>(),
        "fix": finding.fix,
        "suppressed": suppressed,
    }))
}
