//! Reports known problems of a Dockerfile: as a page, and as JSON. CI formats have their own writers.

use std::cmp::Reverse;

use serde_json::{Value, json};

use super::blocks::{Block, ReportPage, TableRow};
use super::json_parts::program_version;
use super::text_layout::styled;
use super::words::{ReportTone, suppression_words};
use crate::judge::build_file::{BuildFileReport, StageSummary, StepFinding};
use crate::judge::outcome::RunExit;
use image_linkage::escape::escape_bytes;

/// The identifier of the JSON contract.
const SCHEMA: &str = "cupti-audit/check/v1";

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
            return format!("{name}: no mistake found; audit the built image to be sure");
        };
        match self.counting().count() {
            1 => format!("{name}:{}: {}", lines.0, finding.message),
            count => format!("{name}:{}: {}; {} more", lines.0, finding.message, count - 1),
        }
    }

    fn tone(&self) -> ReportTone {
        let finds = self.counting().next().is_some();
        match self.exit {
            RunExit::Clean if finds => ReportTone::Doubtful,
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
    let mut blocks = vec![
        Block::Answer(tone, verdict),
        Block::Table(vec!["stage", "from", "CUDA", library_name], stages),
    ];
    for found in &checked.report.findings {
        blocks.extend(finding_blocks(checked, found));
    }
    ReportPage(blocks)
}

fn stage_row(stage: &StageSummary, library_file: &str) -> TableRow {
    let [name, base] = [&stage.name, &stage.base].map(|text| escape_bytes(text.as_bytes()));
    let cuda = stage.cuda.clone().unwrap_or_default();
    let of_cuda = stage
        .cuda
        .as_ref()
        .map_or_else(String::new, |cuda| format!(", CUDA {cuda}"));
    let words = format!("from {base}{of_cuda}; {library_file}: {}", stage.presence);
    TableRow {
        labelled: vec![(format!("  stage {name} "), words)],
        cells: vec![name, base, cuda, stage.presence.to_owned()],
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
        Block::Styled {
            text: format!("\n{}: {}", styled(tone.style(), &label), finding.message),
            plain: format!("{label}: {}", finding.message),
        },
        Block::Paragraph("  ", format!("at {}:{lines}", checked.name())),
        Block::Code(found.instruction.clone()),
    ];
    if let Some(suppressed) = &finding.suppressed {
        blocks.push(Block::Paragraph(
            "  ",
            format!("suppressed because {}", suppression_words(suppressed)),
        ));
    }
    blocks.push(Block::Paragraph("  ", format!("fix: {}", finding.fix)));
    if let Some(replacement) = &found.replacement {
        blocks.push(Block::Caption("what would do"));
        blocks.push(Block::Code(replacement.clone()));
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
    json!({
        "schema": SCHEMA,
        "tool": program_version(),
        "file": checked.file,
        "verdict": checked.verdict(),
        "exit_code": checked.exit as u8,
        "findings": findings.collect::<Value>(),
        "stages": stages.collect::<Value>(),
        "gaps": [],
    })
}
