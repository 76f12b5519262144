//! Reports checked Dockerfiles and locks: as a page, and as JSON. CI formats have their own writers.

use std::cmp::Reverse;

use serde_json::{Value, json};

use crate::judge::file_check::{FileCheck, LineFinding};
use crate::judge::outcome::{FailOn, RunExit};
use crate::report::json_parts::program_version;
use crate::report::page::{Block, Entry, Page};
use crate::report::words::{ReportTone, finding_name, suppression_words};
use image_linkage::escape::escape_bytes;

/// The identifier of the JSON contract.
const SCHEMA: &str = "cupti-audit/check/v1";

/// The checked files of a run.
pub(crate) struct CheckedFiles<'a> {
    /// The results, in the order of the arguments.
    pub files: &'a [FileCheck],
    /// The threshold of findings that fail the run.
    pub fail_on: FailOn,
    /// The exit status.
    pub exit: RunExit,
}

pub(crate) fn file_name(check: &FileCheck) -> String {
    escape_bytes(check.file.as_bytes())
}

/// The answer in one line: the worst finding with its line, or what is known without one.
fn verdict(check: &FileCheck) -> String {
    let name = file_name(check);
    let worst = check
        .counting()
        .max_by_key(|found| (found.finding.severity, Reverse(found.lines)));
    let Some(LineFinding { finding, lines, .. }) = worst else {
        return format!("{name}: {}", escape_bytes(check.answer.as_bytes()));
    };
    match check.counting().count() {
        1 => format!("{name}:{}: {}", lines.0, finding.message),
        count => format!("{name}:{}: {}; {} more", lines.0, finding.message, count - 1),
    }
}

fn tone(check: &FileCheck, fail_on: FailOn) -> ReportTone {
    if check.counting().any(|found| fail_on.fails(&found.finding)) {
        ReportTone::of_exit(RunExit::Findings)
    } else if check.counting().next().is_some() {
        ReportTone::Doubtful
    } else {
        ReportTone::Remark
    }
}

/// The page of the files: first the answers.
pub(crate) fn check_page(checked: &CheckedFiles<'_>, is_detailed: bool) -> Page {
    let mut blocks = Vec::new();
    for check in checked.files {
        let tone = tone(check, checked.fail_on);
        blocks.push(Block::Verdict(tone, format!("{} {}", tone.mark(), verdict(check))));
    }
    for check in checked.files {
        blocks.extend(check.findings.iter().map(|found| finding_entry(check, found)));
        if is_detailed {
            blocks.extend(remarks(check));
        }
    }
    let is_clean = checked.files.iter().all(|check| check.findings.is_empty());
    if is_clean && checked.files.iter().any(|check| !check.stages.is_empty()) {
        let words = "For proof, audit the image after the build: cupti-audit IMAGE";
        blocks.push(Block::text(words.to_owned()));
    }
    Page(blocks)
}

/// The notes, and the steps that were not understood.
fn remarks(check: &FileCheck) -> Vec<Block> {
    let mut entries = Vec::new();
    for note in &check.notes {
        entries.push(remark(ReportTone::Remark, "note", note.clone()));
    }
    for step in &check.unseen {
        let why = escape_bytes(step.why.as_bytes());
        let words = format!("{}:{} {why}", file_name(check), step.line);
        entries.push(remark(ReportTone::Open, "not understood", words));
    }
    entries
}

fn remark(tone: ReportTone, label: &str, words: String) -> Block {
    Block::Entry(Entry {
        label: Some((tone, label.to_owned())),
        message: words.into(),
        blocks: Vec::new(),
    })
}

fn finding_entry(check: &FileCheck, found: &LineFinding) -> Block {
    let finding = &found.finding;
    let (first, last) = found.lines;
    let lines = if first == last {
        first.to_string()
    } else {
        format!("{first}-{last}")
    };
    let language = if check.stages.is_empty() { "" } else { "dockerfile" };
    let mut blocks = vec![
        Block::text(format!("at {}:{lines}", file_name(check))),
        Block::Code(language, found.excerpt.clone()),
    ];
    if let Some(suppressed) = &finding.suppressed {
        let words = suppression_words(suppressed);
        blocks.push(Block::text(format!("suppressed because {words}")));
    }
    blocks.push(Block::text(format!("fix: {}", finding.fix)));
    if let Some(replacement) = &found.replacement {
        blocks.push(Block::text("instead:".to_owned()));
        blocks.push(Block::Code(language, replacement.clone()));
    }
    Block::Entry(Entry {
        label: Some((ReportTone::of_severity(finding.severity), finding_name(finding))),
        message: (&*finding.message).into(),
        blocks,
    })
}

/// The report as JSON, version 1 of the contract.
pub(crate) fn check_json(checked: &CheckedFiles<'_>) -> Value {
    json!({
        "schema": SCHEMA,
        "tool": program_version(),
        "exit_code": checked.exit as u8,
        "files": checked.files.iter().map(file_json).collect::<Value>(),
    })
}

fn file_json(check: &FileCheck) -> Value {
    let stages = check.stages.iter().map(|stage| {
        let sources = stage
            .sources
            .iter()
            .map(|source| json!({"name": source.name, "line": source.line}));
        json!({"name": stage.name, "base": stage.base, "cuda": stage.cuda, "sources": sources.collect::<Value>()})
    });
    let findings = check.findings.iter().map(|found| {
        let finding = &found.finding;
        let suppressed = finding.suppressed.as_ref();
        json!({
            "rule": finding.rule,
            "severity": finding.severity.name(),
            "message": finding.message,
            "fix": finding.fix,
            "line": found.lines.0,
            "end_line": found.lines.1,
            "excerpt": found.excerpt,
            "replacement": found.replacement,
            "suppressed": suppressed.map(|it| json!({"reason": it.reason, "until": it.until.map(|day| day.to_string())})),
        })
    });
    let unseen = check
        .unseen
        .iter()
        .map(|step| json!({"line": step.line, "why": step.why}));
    json!({
        "file": check.file,
        "verdict": verdict(check),
        "findings": findings.collect::<Value>(),
        "stages": stages.collect::<Value>(),
        "not_understood": unseen.collect::<Value>(),
        "notes": check.notes,
    })
}
