//! Reports known traps in a Dockerfile: as a page, and as JSON. CI formats have their own writers.

use std::cmp::Reverse;

use serde_json::{Value, json};

use super::blocks::{Block, ReportPage, TableRow};
use super::json_parts::program_version;
use super::words::{ReportTone, suppression_words};
use crate::judge::build_file::{BuildFileReport, StageSummary, StepFinding};
use crate::judge::outcome::RunExit;
use image_linkage::escape::escape_bytes;

/// The identifier of the JSON contract.
const SCHEMA: &str = "cupti-audit/check/v1";

/// The number of steps in the list of those that the file does not show.
const UNSEEN_SHOWN: usize = 8;

/// A checked Dockerfile.
pub(crate) struct CheckedBuildFile<'a> {
    /// The file as the user named it.
    pub file: &'a str,
    /// The result of the check.
    pub report: &'a BuildFileReport,
    /// The exit status of the check.
    pub exit: RunExit,
}

impl CheckedBuildFile<'_> {
    pub(super) fn name(&self) -> String {
        escape_bytes(self.file.as_bytes())
    }

    pub(super) fn counting(&self) -> impl Iterator<Item = &StepFinding> {
        let findings = self.report.findings.iter();
        findings.filter(|found| found.finding.suppressed.is_none())
    }

    /// The verdict in one line: the step that fails, with its line.
    fn verdict(&self) -> String {
        let name = self.name();
        let worst = self
            .counting()
            .max_by_key(|found| (found.finding.severity, Reverse(found.lines)));
        let Some(StepFinding { finding, lines, .. }) = worst else {
            return format!("{name}: {}", self.state());
        };
        match self.counting().count() {
            1 => format!("{name}:{}: {}", lines.0, finding.message),
            count => format!("{name}:{}: {}; {} more", lines.0, finding.message, count - 1),
        }
    }

    /// What is known of the image without a finding.
    fn state(&self) -> String {
        let library = &self.report.library_file;
        let last = self.report.stages.last().map_or("", |stage| &stage.presence);
        if self.report.is_open {
            format!("it is not known whether the image contains {library}")
        } else {
            format!("none of the known traps; {library}: {last}")
        }
    }

    /// The steps that the file does not show, with their lines.
    fn unseen(&self) -> Option<String> {
        let unseen = &self.report.unseen;
        let shown = unseen.iter().take(UNSEEN_SHOWN);
        let words = shown.map(|doubt| format!("line {} {}", doubt.line, escape_bytes(doubt.why.as_bytes())));
        let mut words: Vec<String> = words.collect();
        match unseen.len().saturating_sub(UNSEEN_SHOWN) {
            0 => {}
            more => words.push(format!("{more} more")),
        }
        (!words.is_empty()).then(|| words.join("; "))
    }

    fn tone(&self) -> ReportTone {
        let finds = self.counting().next().is_some();
        match self.exit {
            RunExit::Clean if finds || self.report.is_open => ReportTone::Doubtful,
            RunExit::Clean => ReportTone::Remark,
            exit => ReportTone::of_exit(exit),
        }
    }
}

/// The page of a file.
pub(super) fn check_page<'a>(checked: &CheckedBuildFile<'a>) -> ReportPage<'a> {
    let tone = checked.tone();
    let verdict = format!("{} {}", tone.mark(), checked.verdict());
    let BuildFileReport {
        library_name,
        library_file,
        ..
    } = checked.report;
    let stages = checked.report.stages.iter();
    let stages = stages.map(|stage| stage_row(stage, library_file)).collect();
    let unseen = checked.unseen();
    let mut blocks: Vec<Block<'a>> = unseen
        .map(|unseen| Block::Paragraph("not seen: ", unseen))
        .into_iter()
        .collect();
    blocks.extend([
        Block::Answer(tone, verdict),
        Block::Table(vec!["stage", "from", "CUDA", library_name], stages),
    ]);
    for found in &checked.report.findings {
        blocks.extend(finding_blocks(checked, found));
    }
    ReportPage(blocks)
}

fn stage_row(stage: &StageSummary, library_file: &str) -> TableRow {
    let [name, base, presence] = [&stage.name, &stage.base, &stage.presence].map(|text| escape_bytes(text.as_bytes()));
    let cuda = stage.cuda.clone().unwrap_or_default();
    let of_cuda = stage
        .cuda
        .as_ref()
        .map_or_else(String::new, |cuda| format!(", CUDA {cuda}"));
    let words = format!("from {base}{of_cuda}; {library_file}: {presence}");
    TableRow {
        labelled: vec![(format!("  stage {name} "), words)],
        cells: vec![name, base, cuda, presence],
        line: String::new(),
    }
}

fn finding_blocks<'a>(checked: &CheckedBuildFile<'a>, found: &'a StepFinding) -> Vec<Block<'a>> {
    let finding = &found.finding;
    let (first, last) = found.lines;
    let lines = if first == last {
        first.to_string()
    } else {
        format!("{first}-{last}")
    };
    let label = format!("{}[{}]", finding.severity.name(), finding.rule);
    let tone = ReportTone::of_severity(finding.severity);
    let mut blocks = vec![
        Block::TextLines("\n".to_owned()),
        Block::Problem(tone, label, finding.message.clone()),
        Block::Paragraph("  ", format!("at {}:{lines}", checked.name())),
        Block::Code("dockerfile", found.instruction.clone()),
    ];
    if let Some(suppressed) = &finding.suppressed {
        blocks.push(Block::Paragraph(
            "  ",
            format!("suppressed because {}", suppression_words(suppressed)),
        ));
    }
    blocks.push(Block::Paragraph("  ", format!("fix: {}", finding.fix)));
    if let Some(replacement) = &found.replacement {
        blocks.push(Block::Paragraph("  ", "instead:".to_owned()));
        blocks.push(Block::Code("dockerfile", replacement.clone()));
    }
    blocks
}

/// The report as JSON, version 1 of the contract.
pub(super) fn check_json(checked: &CheckedBuildFile<'_>) -> Value {
    let stages = checked.report.stages.iter();
    let stages = stages.map(|it| json!({"name": it.name, "base": it.base, "cuda": it.cuda, "cupti": it.presence}));
    let findings = checked.report.findings.iter().map(|found| {
        let finding = &found.finding;
        let suppressed = finding.suppressed.as_ref();
        json!({
            "rule": finding.rule,
            "severity": finding.severity.name(),
            "message": finding.message,
            "fix": finding.fix,
            "line": found.lines.0,
            "end_line": found.lines.1,
            "instruction": found.instruction,
            "replacement": found.replacement,
            "suppressed": suppressed.map(|it| json!({"reason": it.reason, "until": it.until.map(|day| day.to_string())})),
        })
    });
    let unseen = checked.report.unseen.iter();
    let unseen =
        unseen.map(|doubt| json!({"what": format!("line {}", doubt.line), "why": doubt.why, "line": doubt.line}));
    json!({
        "schema": SCHEMA,
        "tool": program_version(),
        "file": checked.file,
        "verdict": checked.verdict(),
        "exit_code": checked.exit as u8,
        "findings": findings.collect::<Value>(),
        "stages": stages.collect::<Value>(),
        "gaps": unseen.collect::<Value>(),
    })
}
