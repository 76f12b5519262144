//! Markdown with tables in the style of GitHub and GitLab, for a pull request comment or a job summary.
//!
//! Names from an image may contain anything; [`escape_markdown`] prevents markup, links and mentions.

use std::fmt::Write as _;
use std::io;

use super::build_file::{CheckedBuildFile, check_page};
use super::command;
use super::links::asked_words;
use super::markdown_text::{bullet_list, escape_markdown, fence, markdown_table};
use super::text_layout::{count_words, joined};
use super::words::{
    ReportTone, command_text, consumer_outcome, image_name, layer_words, layers_words, request_words, suppression_words,
};
use super::writer::ReportWriter;
use crate::facts::{CuptiConsumer, ImageFacts};
use crate::judge::outcome::{AuditedImage, UnreadImage};
use crate::judge::plan::Plan;
use crate::judge::rule::{Evidence, Finding, Severity};
use crate::size::format_size;
use image_linkage::escape;

/// All images in sequence, each under a heading.
pub(crate) struct MarkdownReport;

impl ReportWriter for MarkdownReport {
    fn audited(&mut self, audit: &AuditedImage) -> String {
        let mut out = String::new();
        head(&mut out, audit);
        findings(&mut out, audit);
        if let Some(links) = &audit.links {
            out += &bullet_list(asked_words(links).into_iter());
        } else {
            phases(&mut out, audit);
            consumers(&mut out, &audit.facts);
        }
        for gap in &audit.facts.gaps {
            let gap = escape_markdown(&format!("{}: {}", gap.what, gap.why));
            let _ = writeln!(out, "- **not checked:** {gap}");
        }
        // One empty line separates the reports of several images in a comment.
        out.trim_end().to_owned() + "\n\n"
    }

    fn build_file(&self, checked: &CheckedBuildFile<'_>) -> io::Result<String> {
        Ok(check_page(checked).markdown())
    }

    fn unread(&mut self, unread: &UnreadImage) -> String {
        let image = escape_markdown(&escape::escape_bytes(unread.image.as_bytes()));
        format!("## ✗ {image} was not audited\n\n{}\n\n", escape_markdown(&unread.why))
    }
}

fn head(out: &mut String, audit: &AuditedImage) {
    let facts = &audit.facts;
    let (mark, verdict) = (ReportTone::of_image(audit).mark(), audit.verdict());
    let _ = writeln!(out, "## {mark} {}\n", escape_markdown(&verdict));
    let (name, platform) = (image_name(facts), facts.image.platform.to_string());
    let (name, platform) = (escape_markdown(&name), escape_markdown(&platform));
    let _ = write!(out, "**{name}** · {platform} · {}", layers_words(facts));
    if let Some(digest) = &facts.image.digest {
        // Two trailing spaces force a line break (CommonMark, section 6.7).
        let _ = write!(out, "  \n`{digest}`");
    }
    out.push_str("\n\n");
    if !facts.assumptions.is_empty() {
        let assumed = bullet_list(facts.assumptions.iter().map(command::assumption_words));
        let _ = writeln!(out, "Assumed:\n\n{assumed}");
    }
    if let Some(command) = &audit.fixed_by {
        let command = command_text(command);
        let fence = fence(std::slice::from_ref(&command));
        let _ = writeln!(out, "To fix it:\n\n{fence}sh\n{command}\n{fence}\n");
    }
}

fn findings(out: &mut String, audit: &AuditedImage) {
    if audit.findings.is_empty() {
        out.push_str("No findings.\n\n");
        return;
    }
    let row = |finding: &Finding| {
        let severity = finding.severity.name();
        let severity = match finding.severity {
            _ if finding.suppressed.is_some() => format!("suppressed {severity}"),
            Severity::Error | Severity::Warning => format!("**{severity}**"),
            Severity::Note => severity.to_owned(),
        };
        let rule = format!("`{}`", finding.rule);
        [severity, escape_markdown(&finding.message), rule]
    };
    *out += &markdown_table(&["", "finding", "rule"], audit.findings.iter().map(row));
    out.push('\n');
    for finding in &audit.findings {
        details(out, finding, &audit.facts);
    }
}

fn details(out: &mut String, finding: &Finding, facts: &ImageFacts) {
    let (rule, message) = (&finding.rule, escape_markdown(&finding.message));
    // The empty line ends the HTML block (CommonMark, section 4.6), so Markdown works again.
    let _ = writeln!(out, "<details><summary><code>{rule}</code> {message}</summary>\n");
    // A suppressed finding stays visible, so that reviewers see it and the reason.
    if let Some(suppressed) = &finding.suppressed {
        let why = escape_markdown(&suppression_words(suppressed));
        let _ = writeln!(out, "- **suppressed:** {why}");
    }
    for location in &finding.locations {
        let mut place = location.path.to_string();
        if let Some(layer) = location.layer {
            let _ = write!(place, ", {}", layer_words(facts, layer));
        }
        let _ = writeln!(out, "- at {}", escape_markdown(&place));
    }
    let _ = writeln!(out, "- **fix:** {}\n", escape_markdown(&finding.fix));
    for (lines, language) in [(&finding.instructions, "dockerfile"), (&finding.commands, "sh")] {
        if !lines.is_empty() {
            let fence = fence(lines);
            let _ = writeln!(out, "{fence}{language}\n{}\n{fence}\n", lines.join("\n"));
        }
    }
    let evidence: Vec<String> = finding.evidence.iter().map(Evidence::text).collect();
    if !evidence.is_empty() {
        // A fence keeps the columns of a search aligned, and prevents markup.
        let fence = fence(&evidence);
        let _ = writeln!(out, "{fence}text\n{}\n{fence}\n", evidence.join("\n"));
    }
    out.push_str("</details>\n\n");
}

fn phases(out: &mut String, audit: &AuditedImage) {
    // Phases exist for CUPTI only.
    if audit.plans.is_empty() {
        return;
    }
    let row = |plan: &Plan| {
        let because = plan.because.iter().map(|rule| format!("`{rule}`"));
        let files = count_words(plan.drop.len(), "file");
        let drop = match plan.drop_bytes() {
            0 => String::new(),
            bytes => format!("{} in {files}", format_size(bytes)),
        };
        let phase = escape_markdown(&plan.phase);
        [phase, plan.verdict.name().to_owned(), joined(because, ", "), drop]
    };
    let columns = ["phase", "verdict", "because of", "may go"];
    *out += &markdown_table(&columns, audit.plans.iter().map(row));
    out.push('\n');
}

fn consumers(out: &mut String, facts: &ImageFacts) {
    if facts.consumers.is_empty() {
        return;
    }
    let row = |consumer: &CuptiConsumer| {
        let cells = [
            consumer.name.clone(),
            request_words(consumer),
            consumer_outcome(consumer).plain(),
        ];
        cells.map(|cell| escape_markdown(&cell))
    };
    let columns = ["program", "asks for", "outcome"];
    *out += &markdown_table(&columns, facts.consumers.iter().map(row));
    out.push('\n');
}
