//! The JSON report, version 1: a stable contract that only gains fields.

use std::io;

use serde::{Serialize, Serializer, ser::SerializeMap as _};
use serde_json::{Value, json};

use super::command;
use super::gpu_code::gpu_code_json;
use super::json_parts::{gap_reports, image_identity, map_worlds, program_version, without_nulls};
use super::links::links_json;
use super::pages::build_file::{CheckedFiles, check_json};
use super::writer::ReportWriter;
use crate::facts::{
    ByWorld, CompanionLookup, CuptiConsumer, CuptiCopy, CuptiProcess, ImageFacts, LayerSize, StartFailure,
    gpu_code_kept_for,
};
use crate::judge::outcome::{AskedTool, AuditedImage, RunExit, UnreadImage};
use crate::judge::plan::{Plan, PlanItem};
use crate::judge::rule::{Evidence, Finding, Severity};
use image_linkage::digest::Digest;
use image_linkage::elf::ByteString;
use image_linkage::escape::escape_bytes;
use image_linkage::loader::SearchStage;
use image_linkage::path::RootPath;
use image_source::LayerDescriptor;
use python_path::PythonUse;

const SCHEMA: &str = "cupti-audit/report/v1";

/// The schema for an image that could not be audited. It only has a name.
const UNREAD_SCHEMA: &str = "cupti-audit/unread/v1";

/// One JSON object per image, one per line.
pub(crate) struct JsonReport;

impl ReportWriter for JsonReport {
    fn audited(&mut self, audit: &AuditedImage) -> String {
        let report = match &audit.links {
            Some(links) => {
                let findings = audit.findings.iter().map(finding).collect();
                links_json(audit, links, &findings).to_string()
            }
            // All keys are strings and the output is in memory, so serialization cannot fail.
            None => serde_json::to_string(&ImageReport(audit)).unwrap_or_else(|error| error.to_string()),
        };
        report + "\n"
    }

    fn file_check(&self, checked: &CheckedFiles<'_>) -> io::Result<String> {
        Ok(format!("{}\n", check_json(checked)))
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

/// The report of an image. Its lists are serialized item by item: as JSON values they would take several times the
/// memory of the audit.
struct ImageReport<'a>(&'a AuditedImage);

impl Serialize for ImageReport<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(audit) = self;
        let facts = &audit.facts;
        let mut image = image_identity(&facts.image);
        image.insert("layers".to_owned(), layers(facts));
        let mut fields = serializer.serialize_map(None)?;
        fields.serialize_entry("schema", SCHEMA)?;
        fields.serialize_entry("tool", &program_version())?;
        fields.serialize_entry("verdict", &audit.verdict())?;
        fields.serialize_entry("verdict_level", audit.level().name())?;
        fields.serialize_entry("assumptions", &command::assumptions_json(facts))?;
        fields.serialize_entry("programs", &command::programs_json(facts))?;
        fields.serialize_entry("exit_code", &(audit.exit() as u8))?;
        fields.serialize_entry("asked_phases", &audit.phases)?;
        fields.serialize_entry("asked_tools", &JsonList(|| audit.tools.iter().map(asked_tool)))?;
        fields.serialize_entry("counts", &counts(audit))?;
        fields.serialize_entry("fixed_by", &audit.fixed_by)?;
        fields.serialize_entry("image", &image)?;
        fields.serialize_entry("cupti", &CuptiReport(facts))?;
        fields.serialize_entry("consumers", &JsonList(|| facts.answers.consumers.iter().map(consumer)))?;
        fields.serialize_entry("undecided", &JsonList(|| undecided(facts)))?;
        fields.serialize_entry("gpu_code", &JsonList(|| gpu_code_json(facts)))?;
        fields.serialize_entry("gpu_code_kept_for", &gpu_code_kept_for(&facts.image))?;
        // In phase order, as in the other forms.
        fields.serialize_entry("phases", &PhaseReports(&audit.plans))?;
        fields.serialize_entry("findings", &JsonList(|| audit.findings.iter().map(finding)))?;
        fields.serialize_entry("gaps", &gap_reports(facts))?;
        fields.end()
    }
}

/// A list whose items become JSON values one at a time.
struct JsonList<F>(F);

impl<I: Iterator<Item = Value>, F: Fn() -> I> Serialize for JsonList<F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq((self.0)())
    }
}

/// The library in the image.
struct CuptiReport<'a>(&'a ImageFacts);

impl Serialize for CuptiReport<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let facts = self.0;
        let headers = || facts.headers.iter().map(|(path, _)| Value::from(path.to_string()));
        let dangling = || {
            let links = facts.dangling.iter();
            links.map(|link| {
                let target = escape_bytes(&link.target);
                json!({"path": link.path.to_string(), "target": target, "layer": link.layer})
            })
        };
        let mut fields = serializer.serialize_map(None)?;
        fields.serialize_entry("status", facts.answers.status.as_is.name())?;
        fields.serialize_entry("status_nvidia", facts.answers.status.nvidia.name())?;
        fields.serialize_entry("copies", &JsonList(|| facts.answers.copies.iter().map(copy)))?;
        fields.serialize_entry("headers", &JsonList(headers))?;
        fields.serialize_entry("dangling_links", &JsonList(dangling))?;
        fields.serialize_entry(
            "apis",
            &JsonList(|| facts.answers.apis.iter().map(|process| apis(facts, process))),
        )?;
        fields.end()
    }
}

/// The phases by name, each with its files.
struct PhaseReports<'a>(&'a [Plan]);

impl Serialize for PhaseReports<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|plan| (&plan.phase, PhaseReport(plan))))
    }
}

struct PhaseReport<'a>(&'a Plan);

impl Serialize for PhaseReport<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let plan = self.0;
        let decided = || [("keep", &plan.keep), ("drop", &plan.drop)].into_iter();
        let items = || decided().flat_map(|(decision, items)| items.iter().map(move |item| self::item(decision, item)));
        let path = |item: &PlanItem| Value::from(item.path.to_string());
        let mut fields = serializer.serialize_map(None)?;
        fields.serialize_entry("verdict", plan.verdict.name())?;
        fields.serialize_entry("because", &plan.because)?;
        fields.serialize_entry("keep_bytes", &plan.keep_bytes())?;
        fields.serialize_entry("drop_bytes", &plan.drop_bytes())?;
        // The path lists predate the items, and the contract only gains fields.
        fields.serialize_entry("keep", &JsonList(|| plan.keep.iter().map(path)))?;
        fields.serialize_entry("drop", &JsonList(|| plan.drop.iter().map(path)))?;
        fields.serialize_entry("items", &JsonList(items))?;
        fields.end()
    }
}

fn asked_tool(tool: &AskedTool) -> Value {
    json!({"id": tool.id, "state": tool.readiness.state.name(), "because": tool.readiness.because})
}

/// The number of findings per severity, and of suppressed ones.
fn counts(audit: &AuditedImage) -> Value {
    json!({
        "error": audit.count(Severity::Error),
        "warning": audit.count(Severity::Warning),
        "note": audit.count(Severity::Note),
        "suppressed": audit.suppressed_count(),
    })
}

/// The programs whose result only a run could show.
fn undecided(facts: &ImageFacts) -> impl Iterator<Item = Value> {
    let plain = facts
        .answers
        .status_is_open
        .iter()
        .map(|why| undecided_program(None, why, &[]));
    let consumers = facts.answers.consumers.iter().filter_map(|consumer| {
        let why = consumer.undecided_words()?;
        Some(undecided_program(Some(&consumer.object), why, &[]))
    });
    let openers = facts.answers.undecided.iter().map(|opener| {
        let why = match &opener.after {
            Some(what) => format!("it depends on what is there before it: {what}"),
            None => "the name that it opens is not known".to_owned(),
        };
        undecided_program(Some(&opener.object), &why, &opener.holds)
    });
    plain.chain(consumers).chain(openers)
}

fn undecided_program(object: Option<&RootPath>, why: &str, holds: &[ByteString]) -> Value {
    let holds: Value = holds.iter().map(|text| escape_bytes(text)).collect();
    json!({"object": object.map(ToString::to_string), "why": why, "holds": holds})
}

fn layers(facts: &ImageFacts) -> Value {
    let text = |digest: &Option<Digest>| digest.as_ref().map(ToString::to_string);
    let layers = facts.image.layers.iter().zip(&facts.layers.sizes);
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
    // A damaged file, and missing permissions of the image's user.
    let denial = copy.denial.iter().map(|denial| format!("permission denied: {denial}"));
    json!({
        "path": escape_bytes(&copy.path),
        "real_path": copy.real_path.to_string(),
        // An index into `image.layers`, from 0; text reports count from 1.
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
        "private": copy.private,
        "loadable": map_worlds(&copy.loadable, |loads| *loads),
        "how": copy.how.map(SearchStage::name),
        "problems": copy.problems.iter().cloned().chain(denial).collect::<Value>(),
    })
}

fn consumer(consumer: &CuptiConsumer) -> Value {
    let ByWorld { as_is, nvidia } = &consumer.outcome;
    // If the unchanged image gives no path, this is the path under the container runtime; `outcome` tells which.
    let outcome = if as_is.answer.is_loaded() { as_is } else { nvidia };
    let file = outcome.answer.file();
    let missing_symbols = outcome.missing_symbols.iter();
    json!({
        "name": consumer.name,
        "object": consumer.object.to_string(),
        "asks": consumer.request_kind.name(),
        "for": escape_bytes(&consumer.requested_name),
        "outcome": map_worlds(&consumer.outcome, |outcome| outcome.answer.outcome().name()),
        "path": file.map(|file| escape_bytes(&file.path)),
        "how": file.map(|file| file.how.name()),
        "required": consumer.required.name(),
        "missing_symbols": missing_symbols.map(|symbol| escape_bytes(symbol)).collect::<Value>(),
        "message": unless_empty(as_is.answer.message()),
        "cannot_start": consumer.start_failure().map(StartFailure::words),
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
        PythonUse::Unreachable { site, why, .. } => (None, site, Some(why)),
    };
    json!({"interpreter": interpreter, "site": site.to_string(), "why_not": why_not})
}

/// The APIs that a process can use: a consumer, or without `consumer` a plain process without its own search paths.
fn apis(facts: &ImageFacts, process: &CuptiProcess) -> Value {
    let consumer = process.consumer.and_then(|number| facts.answers.consumers.get(number));
    let apis = facts.tables.apis.iter();
    let usable = apis.map(|api| {
        let usable = map_worlds(&process.reach, |reach| reach.usable(&api.id).name());
        (api.id.clone(), usable)
    });
    json!({
        "consumer": consumer.map(|consumer| &consumer.name),
        "object": consumer.map(|consumer| consumer.object.to_string()),
        "usable": usable.collect::<Value>(),
        "libraries": process.reach.as_is.companions.iter().map(companion).collect::<Value>(),
    })
}

fn companion(companion: &CompanionLookup) -> Value {
    json!({
        "name": escape_bytes(&companion.name),
        "asked_by": companion.requester.name(),
        "outcome": companion.answer.outcome().name(),
        "path": companion.answer.real_path().map(ToString::to_string),
        "how": companion.answer.file().map(|file| file.how.name()),
        "message": unless_empty(companion.answer.message()),
    })
}

pub(super) fn finding(finding: &Finding) -> Value {
    let locations = finding.locations.iter();
    let suppressed = finding.suppressed.as_ref().map(
        |suppressed| json!({"reason": suppressed.reason, "until": suppressed.until.map(|until| until.to_string())}),
    );
    // Omitted fields keep reports without suppressions as they were before the config existed.
    without_nulls(json!({
        "rule": finding.rule,
        "severity": finding.severity.name(),
        "message": finding.message,
        "locations": locations.map(|at| json!({"path": at.path.to_string(), "layer": at.layer})).collect::<Value>(),
        "evidence": finding.evidence.iter().map(Evidence::text).collect::<Value>(),
        "fix": finding.fix,
        "commands": unless_none(&finding.commands),
        "instructions": unless_none(&finding.instructions),
        "follows": finding.follows,
        "suppressed": suppressed,
    }))
}

fn unless_none(lines: &[String]) -> Option<&[String]> {
    Some(lines).filter(|lines| !lines.is_empty())
}
