//! The report for people: the verdict first, then what is wrong with its evidence, then what is there.

use std::fmt::Write as _;
use std::io;

use anstyle::Style;

use super::text_layout::{
    BAD, BOLD, DIM, DOUBTFUL, GOOD, REMARK, count_words, search_table, shorten, styled,
    wrap_paragraph,
};
use super::{ReportWriter, inventory, phases, suppression_words};
use crate::judge::facts::{CuptiStatus, ImageFacts};
use crate::judge::outcome::{AuditedImage, RunExit, UnreadImage};
use crate::judge::rule::{Evidence, Finding, Severity, SuppressionMark};
use crate::size::format_size;
use image_linkage::escape;
use image_linkage::loader::{RequestOutcome, trace_text};

/// How a report is laid out.
#[derive(Debug, Clone, Copy)]
pub struct TextLayout {
    /// The width of the terminal in columns; paragraphs are broken at it, tables never.
    pub width: usize,
    /// Whether to show notes in full, the layers, the loader and every search.
    pub verbose: bool,
}

/// The report for people: the images one after the other, an empty line between them.
pub struct TextReport {
    layout: TextLayout,
    begun: bool,
}

impl TextReport {
    /// An empty report.
    pub fn new(layout: TextLayout) -> Self {
        Self {
            layout,
            begun: false,
        }
    }
}

impl ReportWriter for TextReport {
    fn audited(&mut self, audit: &AuditedImage) -> io::Result<String> {
        let between = if self.begun { "\n" } else { "" };
        self.begun = true;
        Ok(between.to_owned() + &report(audit, self.layout))
    }

    /// Standard error says it already.
    fn unread(&mut self, _: &UnreadImage) -> io::Result<String> {
        Ok(String::new())
    }

    fn end(&mut self, _: RunExit) -> io::Result<String> {
        Ok(String::new())
    }
}

/// The report of one image.
fn report(audit: &AuditedImage, layout: TextLayout) -> String {
    let facts = &audit.facts;
    let mut out = String::new();
    headline(&mut out, facts);
    let (mark, style) = verdict_mark(audit);
    let _ = writeln!(
        out,
        "\n{}\n",
        styled(style, format!("{mark} {}", audit.verdict()))
    );
    findings(&mut out, audit, layout);
    inventory::write_copies(&mut out, facts, layout);
    inventory::write_consumers(&mut out, facts, layout);
    phases::write_phases(&mut out, audit, layout);
    if layout.verbose {
        inventory::write_layers_and_loader(&mut out, facts);
    }
    gaps(&mut out, facts);
    summary(&mut out, audit, layout);
    out
}

fn headline(out: &mut String, facts: &ImageFacts) {
    let bytes: u64 = facts.layers.iter().map(|layer| layer.bytes).sum();
    let layers = count_words(facts.layers.len(), "layer");
    let image = &facts.image;
    let reference = styled(BOLD, escape::escape_bytes(image.reference.as_bytes()));
    let _ = write!(
        out,
        "{reference}  {}  {layers}, {}",
        escape::escape_bytes(image.platform.to_string().as_bytes()),
        format_size(bytes)
    );
    if let Some(digest) = &image.digest {
        let _ = write!(out, "\n{}", styled(DIM, digest));
    }
    out.push('\n');
}

/// The mark before the verdict.
pub(super) fn verdict_mark(audit: &AuditedImage) -> (&'static str, Style) {
    let worst = audit.counting().next().map(|finding| finding.severity);
    let served = audit
        .facts
        .consumers
        .iter()
        .any(|consumer| consumer.outcome.as_is.outcome == RequestOutcome::Loaded);
    match (audit.facts.status.as_is, worst) {
        (_, Some(Severity::Error)) => ("✗", BAD),
        (_, Some(Severity::Warning)) => ("!", DOUBTFUL),
        (CuptiStatus::Loadable, _) => ("✓", GOOD),
        (CuptiStatus::Unloadable, _) if served => ("✓", GOOD),
        _ => ("·", REMARK),
    }
}

/// What is wrong in full; a note is a line, where not all is asked for. What is suppressed comes last.
fn findings(out: &mut String, audit: &AuditedImage, layout: TextLayout) {
    let (short, full): (Vec<&Finding>, Vec<&Finding>) = audit
        .counting()
        .partition(|finding| is_short(finding, layout));
    for finding in full {
        self::finding(out, finding, &audit.facts, layout);
    }
    for note in &short {
        let _ = writeln!(out, "{}: {}", label(note), note.message);
    }
    if !short.is_empty() {
        out.push('\n');
    }
    for finding in &audit.findings {
        if let Some(suppressed) = &finding.suppressed {
            self::suppressed(out, finding, suppressed, layout);
        }
    }
}

fn suppressed(
    out: &mut String,
    finding: &Finding,
    suppressed: &SuppressionMark,
    layout: TextLayout,
) {
    let label = format!("suppressed {}", name(finding));
    let _ = writeln!(out, "{}: {}", styled(DIM, label), finding.message);
    out.push_str(&wrap_paragraph(
        "  because ",
        &suppression_words(suppressed),
        layout.width,
    ));
    out.push('\n');
}

fn is_short(finding: &Finding, layout: TextLayout) -> bool {
    finding.severity == Severity::Note && !layout.verbose
}

/// The severity and the rule.
fn label(finding: &Finding) -> String {
    let style = match finding.severity {
        Severity::Error => BAD,
        Severity::Warning => DOUBTFUL,
        Severity::Note => REMARK,
    };
    styled(style, name(finding))
}

fn name(finding: &Finding) -> String {
    format!("{}[{}]", finding.severity.name(), finding.rule)
}

fn finding(out: &mut String, finding: &Finding, facts: &ImageFacts, layout: TextLayout) {
    let _ = writeln!(
        out,
        "{}: {}",
        label(finding),
        styled(BOLD, &finding.message)
    );
    for location in &finding.locations {
        let _ = writeln!(out, "  at   {}", location.path);
        if let Some(layer) = location.layer {
            let _ = writeln!(out, "       {}", styled(DIM, layer_words(facts, layer)));
        }
    }
    let searched: Vec<trace_text::TraceLine> = finding
        .evidence
        .iter()
        .filter_map(|evidence| match evidence {
            Evidence::Searched(line) => Some(line.clone()),
            Evidence::Words(_) => None,
        })
        .collect();
    for evidence in &finding.evidence {
        if let Evidence::Words(words) = evidence {
            out.push_str(&wrap_paragraph("  says ", words, layout.width));
        }
    }
    if !searched.is_empty() {
        out.push_str("  the loader searched, in this order:\n");
        out.push_str(&search_table(&searched, "       "));
    }
    out.push_str(&wrap_paragraph("  fix  ", &finding.fix, layout.width));
    out.push('\n');
}

/// The layer by its number, from 1 as people count, and what made it.
pub(super) fn layer_words(facts: &ImageFacts, layer: usize) -> String {
    let number = format!("layer {} of {}", layer + 1, facts.image.layers.len());
    let made = facts
        .image
        .layers
        .get(layer)
        .and_then(|layer| layer.created_by.as_deref())
        .filter(|made| !made.is_empty());
    match made {
        Some(made) => format!(
            "{number}: {}",
            shorten(&escape::escape_bytes(made.trim().as_bytes()), 90)
        ),
        None => number,
    }
}

fn gaps(out: &mut String, facts: &ImageFacts) {
    for gap in &facts.gaps {
        let _ = writeln!(
            out,
            "{} {}: {}",
            styled(DOUBTFUL, "not checked:"),
            gap.what,
            gap.why
        );
    }
}

fn summary(out: &mut String, audit: &AuditedImage, layout: TextLayout) {
    let number = |severity| {
        let counting = audit.counting();
        counting
            .filter(|finding| finding.severity == severity)
            .count()
    };
    let all = [
        (Severity::Error, "error"),
        (Severity::Warning, "warning"),
        (Severity::Note, "note"),
    ];
    let mut words: Vec<String> = all
        .iter()
        .filter(|(severity, _)| number(*severity) > 0)
        .map(|(severity, word)| count_words(number(*severity), word))
        .collect();
    if words.is_empty() {
        words.push("no findings".to_owned());
    }
    match audit.findings.len() - audit.counting().count() {
        0 => {}
        suppressed => words.push(format!("{suppressed} suppressed")),
    }
    let words = words.join(", ");
    let mut hint = String::new();
    if !audit.findings.is_empty() {
        hint.push_str("; cupti-audit rules explain ID says more");
    }
    let mut counting = audit.counting();
    if counting.any(|finding| is_short(finding, layout)) {
        hint.push_str(", -v shows all");
    }
    let hint = styled(DIM, hint);
    let _ = writeln!(out, "{words}{hint}");
}
