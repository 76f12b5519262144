//! The text report: first the verdict, then problems with their evidence, then the inventory.

use crate::size::count_words;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io;

use super::blocks::Block;
use super::build_file::{CheckedBuildFile, check_page};
use super::links::asked_words;
use super::text_layout::{BOLD, DIM, search_table, shorten, styled, wrap_line, wrap_paragraph};
pub(crate) use super::text_layout::{TextDetail, TextLayout};
use super::words::{
    ReportTone, command_text, fix_lines, gap_lines, image_name, layer_words, layers_words, platform_name,
    split_evidence, suppression_words,
};
use super::writer::ReportWriter;
use super::{command, gpu_code, inventory, phases};
use crate::facts::ImageFacts;
use crate::judge::outcome::AuditedImage;
use crate::judge::rule::{Finding, Severity, SuppressionMark};
use image_linkage::loader::TraceLine;

/// Without -v: the maximum number of a finding's locations, and of its messages.
const PLACES: usize = 6;
/// Without -v: the maximum number of steps of a search.
const STEPS: usize = 8;
/// Without -v: the number of lines from which further findings have only one line each, and the maximum of these.
const FULL_LINES: usize = 40;
const SHORT_FINDINGS: usize = 8;
/// Without -v: the maximum length of a message in characters.
const MESSAGE: usize = 400;

/// The text report: all images in sequence, separated by an empty line.
pub(crate) struct TextReport {
    layout: TextLayout,
    has_image: bool,
}

impl TextReport {
    /// An empty report with this layout.
    pub(crate) fn new(layout: TextLayout) -> Self {
        Self {
            layout,
            has_image: false,
        }
    }
}

impl ReportWriter for TextReport {
    fn audited(&mut self, audit: &AuditedImage) -> String {
        // Images are written as they are read, so it is unknown whether another follows.
        if self.layout.detail == TextDetail::Nothing {
            return String::new();
        }
        let between = if self.has_image { "\n" } else { "" };
        self.has_image = true;
        between.to_owned() + &report(audit, self.layout)
    }

    fn build_file(&self, checked: &CheckedBuildFile<'_>) -> io::Result<String> {
        let mut page = check_page(checked);
        match self.layout.detail {
            TextDetail::Nothing => return Ok(String::new()),
            // The verdict and the findings, without the table of stages.
            TextDetail::Findings => page.0.retain(|block| !matches!(block, Block::Table(..))),
            _ => {}
        }
        Ok(page.text(self.layout.width))
    }
}

fn report(audit: &AuditedImage, layout: TextLayout) -> String {
    let facts = &audit.facts;
    let mut out = String::new();
    let tone = ReportTone::of_image(audit);
    let verdict = format!("{} {}", tone.mark(), audit.verdict());
    out.push_str(&wrap_line(&styled(tone.style(), verdict), layout.width));
    headline(&mut out, facts);
    if layout.detail > TextDetail::Findings || !audit.facts.assumptions.is_empty() {
        assumptions(&mut out, audit, layout);
    }
    findings(&mut out, audit, layout);
    if let Some(links) = &audit.links {
        for line in asked_words(links) {
            out += &wrap_paragraph("", &line, layout.width);
        }
        out.push('\n');
    } else if layout.detail > TextDetail::Findings {
        inventory::write_copies(&mut out, facts, layout);
        inventory::write_consumers(&mut out, facts, layout);
        phases::write_phases(&mut out, audit, layout);
        for tool in &audit.tools {
            let because = tool.readiness.because.join("; ");
            let words = format!("{}: {because}", tool.readiness.state.name());
            out += &wrap_paragraph(&format!("tool {}  ", tool.name), &words, layout.width);
        }
        if !audit.tools.is_empty() {
            out.push('\n');
        }
    }
    if audit.links.is_none() {
        gpu_code::write_gpu_code(&mut out, audit, layout);
    }
    if layout.detail == TextDetail::All {
        programs(&mut out, facts, layout);
        inventory::write_layers_and_loader(&mut out, facts);
    }
    out.push_str(&gap_lines(facts, layout.width));
    fix_command(&mut out, audit);
    summary(&mut out, audit, layout);
    out
}

fn headline(out: &mut String, facts: &ImageFacts) {
    let name = styled(BOLD, image_name(facts));
    // The digest gets its own line, because the line would be wider than most terminals.
    let (platform, layers) = (platform_name(facts), layers_words(facts));
    let _ = writeln!(out, "{name}  {platform}  {layers}");
    if let Some(digest) = &facts.image.digest {
        let _ = writeln!(out, "{}", styled(DIM, digest));
    }
    out.push('\n');
}

/// The programs that the container's command starts.
fn programs(out: &mut String, facts: &ImageFacts, layout: TextLayout) {
    let lines = command::program_lines(facts);
    if lines.is_empty() {
        return;
    }
    out.push_str("the command starts\n");
    for line in lines {
        out.push_str(&wrap_line(&format!("  {line}"), layout.width));
    }
    out.push('\n');
}

/// The verdict's assumptions, and how to settle each.
fn assumptions(out: &mut String, audit: &AuditedImage, layout: TextLayout) {
    let assumptions = &audit.facts.assumptions;
    if assumptions.is_empty() {
        return;
    }
    out.push_str("assumed\n");
    for assumption in assumptions {
        out.push_str(&wrap_paragraph(
            "  ",
            &command::assumption_line(assumption),
            layout.width,
        ));
        let settling = styled(DIM, command::settling_words(assumption));
        out.push_str(&wrap_paragraph("    to settle it: ", &settling, layout.width));
    }
    out.push('\n');
}

/// The command that writes the fix for the image, for pasting.
fn fix_command(out: &mut String, audit: &AuditedImage) {
    if let Some(command) = &audit.fixed_by {
        let command = command_text(command);
        let _ = writeln!(out, "to fix it: {}", styled(BOLD, command));
    }
}

/// The problems in full; suppressed ones come last.
fn findings(out: &mut String, audit: &AuditedImage, layout: TextLayout) {
    // Nearly every image has notes. In full they would push urgent findings off the screen.
    let (notes, full): (Vec<&Finding>, Vec<&Finding>) = audit.counting().partition(|finding| is_short(finding, layout));
    let is_cut = layout.detail < TextDetail::All;
    let (mut tables, mut lines, mut short) = (BTreeSet::new(), 0, Vec::new());
    let mut told: Vec<&Finding> = Vec::new();
    for finding in full {
        let is_told = told.iter().any(|other| {
            (&other.rule, &other.fix, &other.commands) == (&finding.rule, &finding.fix, &finding.commands)
        });
        let (mut text, mut shown) = (String::new(), tables.clone());
        self::finding(&mut text, finding, &audit.facts, layout, &mut shown);
        let is_first = lines == 0;
        lines += text.lines().count();
        if is_cut && (is_told || !is_first && lines > FULL_LINES) {
            short.push(finding);
        } else {
            out.push_str(&text);
            tables = shown;
            told.push(finding);
        }
    }
    short.extend(notes);
    for note in short.iter().take(SHORT_FINDINGS) {
        let cause = note.follows.as_ref().map(|cause| format!(" (goes with {cause})"));
        let message = message_text(note, layout);
        let line = format!("{}: {message}{}", label(note), cause.unwrap_or_default());
        out.push_str(&wrap_line(&line, layout.width));
    }
    write_more(out, "", short.len().saturating_sub(SHORT_FINDINGS));
    if !short.is_empty() {
        out.push('\n');
    }
    for finding in &audit.findings {
        if let Some(suppressed) = &finding.suppressed {
            self::suppressed(out, finding, suppressed, layout);
        }
    }
}

/// The number of further lines, which `-v` shows.
pub(super) fn write_more(out: &mut String, indent: &str, more: usize) {
    if more > 0 {
        let _ = writeln!(out, "{indent}{}", styled(DIM, format!("… {more} more, -v shows them")));
    }
}

/// The message, which may list hundreds of libraries.
fn message_text(finding: &Finding, layout: TextLayout) -> String {
    match layout.detail {
        TextDetail::All => finding.message.clone(),
        _ => shorten(&finding.message, MESSAGE),
    }
}

fn suppressed(out: &mut String, finding: &Finding, suppressed: &SuppressionMark, layout: TextLayout) {
    let label = styled(DIM, format!("suppressed {}", name(finding)));
    out.push_str(&wrap_line(&format!("{label}: {}", finding.message), layout.width));
    let why = suppression_words(suppressed);
    out.push_str(&wrap_paragraph("  because ", &why, layout.width));
    out.push('\n');
}

fn is_short(finding: &Finding, layout: TextLayout) -> bool {
    (finding.severity == Severity::Note || finding.follows.is_some()) && layout.detail < TextDetail::All
}

/// The severity and the rule.
fn label(finding: &Finding) -> String {
    let tone = ReportTone::of_severity(finding.severity);
    styled(tone.style(), name(finding))
}

fn name(finding: &Finding) -> String {
    format!("{}[{}]", finding.severity.name(), finding.rule)
}

/// A finding. A search that an earlier finding showed is not repeated.
fn finding(out: &mut String, finding: &Finding, facts: &ImageFacts, layout: TextLayout, tables: &mut BTreeSet<String>) {
    let message = styled(BOLD, message_text(finding, layout));
    out.push_str(&wrap_line(&format!("{}: {message}", label(finding)), layout.width));
    // A missing library may have hundreds of requesters.
    let shown = match layout.detail {
        TextDetail::All => usize::MAX,
        _ => PLACES,
    };
    for location in finding.locations.iter().take(shown) {
        let _ = writeln!(out, "  at   {}", location.path);
        if let Some(layer) = location.layer {
            let made = styled(DIM, layer_words(facts, layer));
            out.push_str(&wrap_paragraph("       ", &made, layout.width));
        }
    }
    write_more(out, "       ", finding.locations.len().saturating_sub(shown));
    // The loader's final error is the short answer, so it comes before the search.
    let (said, searched) = split_evidence(finding);
    for words in said.iter().take(shown) {
        out.push_str(&wrap_paragraph("  says ", words, layout.width));
    }
    write_more(out, "       ", said.len().saturating_sub(shown));
    let steps = match layout.detail {
        TextDetail::All => searched.clone(),
        _ => deciding_steps(&searched),
    };
    let mut table = search_table(&steps, "       ");
    write_more(&mut table, "       ", searched.len() - steps.len());
    if tables.contains(&table) {
        out.push_str("  the loader searched as above\n");
    } else if !searched.is_empty() {
        out.push_str("  the loader searched, in this order:\n");
        out.push_str(&table);
        tables.insert(table);
    }
    out.push_str(&wrap_paragraph("  fix  ", &finding.fix, layout.width));
    // Lines for pasting are not wrapped.
    for line in fix_lines(finding) {
        let _ = writeln!(out, "       {}", styled(BOLD, line));
    }
    out.push('\n');
}

/// The steps that decide a long search: those that found or skipped something, then the first of each part.
fn deciding_steps<'l>(steps: &[&'l TraceLine]) -> Vec<&'l TraceLine> {
    if steps.len() <= STEPS {
        return steps.to_vec();
    }
    let mut parts = BTreeSet::new();
    let (mut firsts, others): (Vec<_>, Vec<_>) = (steps.iter().enumerate())
        .filter(|(_, step)| parts.insert(&step.part) || !step.is_absence())
        .partition(|(_, step)| step.is_absence());
    firsts.truncate(STEPS.saturating_sub(others.len()));
    let mut deciding: Vec<_> = others.into_iter().take(STEPS).chain(firsts).collect();
    deciding.sort_by_key(|(number, _)| *number);
    deciding.into_iter().map(|(_, step)| *step).collect()
}

fn summary(out: &mut String, audit: &AuditedImage, layout: TextLayout) {
    let mut words = Vec::new();
    for severity in [Severity::Error, Severity::Warning, Severity::Note] {
        match audit.count(severity) {
            0 => {}
            number => words.push(count_words(number, severity.name())),
        }
    }
    // Suppressed findings are counted separately, so that a quiet report does not look clean.
    if words.is_empty() {
        words.push("no findings".to_owned());
    }
    match audit.suppressed_count() {
        0 => {}
        suppressed => words.push(format!("{suppressed} suppressed")),
    }
    let words = words.join(", ");
    // Only useful hints: a rule to explain, shortened notes.
    let mut hint = String::new();
    if !audit.findings.is_empty() {
        hint.push_str("; cupti-audit explain ID says more");
    }
    let mut counting = audit.counting();
    if counting.any(|finding| is_short(finding, layout)) {
        hint.push_str(", -v shows all");
    }
    let hint = styled(DIM, hint);
    out.push_str(&wrap_line(&format!("{words}{hint}"), layout.width));
}
