//! The page of an audited image for a terminal: first the verdict, then problems with their evidence, then the
//! inventory, and at its end what a reader should do next.

use std::collections::BTreeSet;

use crate::facts::{CuptiConsumer, CuptiCopy, ImageFacts};
use crate::judge::outcome::AuditedImage;
use crate::judge::rule::{Finding, Severity};
use crate::report::command;
use crate::report::gpu_code::gpu_code_section;
use crate::report::links::asked_words;
use crate::report::page::{Block, Entry, FindingEntry, Line, Page, gap_entries};
use crate::report::page_text::more_line;
use crate::report::pages::image::head;
use crate::report::pages::phases::phase_sections;
use crate::report::text_layout::{BAD, DIM, DOUBTFUL, TextDetail, joined, shorten};
use crate::report::words::{
    ReportTone, consumer_outcome, copy_reach, finding_name, fix_lines, layer_words, owner_words, request_words,
    soname_words, split_evidence, suppression_words, version_words,
};
use crate::size::{count_words, format_size};
use image_linkage::elf::ByteString;
use image_linkage::escape::{escape_bytes, escape_controls};
use image_linkage::loader::{DynamicLoader, Libc, TraceLine};

/// Without -v: the maximum number of a finding's locations, and of its messages.
const PLACES: usize = 6;
/// Without -v: the maximum number of steps of a search.
const STEPS: usize = 8;
/// Without -v: the maximum length of a message in characters.
const MESSAGE: usize = 400;
/// Without -v: the maximum number of copies, and of programs.
const ITEMS: usize = 4;

/// The page of an image in this detail.
pub(crate) fn image_text_page(audit: &AuditedImage, detail: TextDetail) -> Page {
    let facts = &audit.facts;
    let (tone, verdict, subject) = head(audit);
    let mut blocks = vec![
        Block::entry(Line::default().with(tone.style(), verdict), Vec::new()),
        subject,
    ];
    if !facts.answers.assumptions.is_empty() {
        blocks.push(Block::section("assumed", assumption_lines(facts)));
    }
    blocks.push(Block::Findings(finding_entries(audit, detail)));
    blocks.extend(audit.findings.iter().filter_map(suppressed_entry));
    if let Some(links) = &audit.links {
        let words = asked_words(links);
        let lines = words.into_iter().map(|words| fact("", words)).collect();
        blocks.push(Block::Section(Line::default(), lines));
    } else {
        if detail > TextDetail::Findings {
            blocks.extend(copy_section(facts, detail));
            blocks.extend(consumer_section(facts, detail));
            blocks.extend(phase_sections(audit, detail));
            if !audit.tools.is_empty() {
                blocks.push(Block::Section(Line::default(), tool_facts(audit)));
            }
        }
        blocks.extend(gpu_code_section(audit, detail));
    }
    if detail == TextDetail::All {
        let programs = command::program_lines(facts);
        if !programs.is_empty() {
            let lines = programs.into_iter().map(|line| Block::entry(line, Vec::new()));
            blocks.push(Block::section("the command starts", lines.collect()));
        }
        blocks.push(Block::section("layers", layer_entries(facts)));
        blocks.push(Block::section("dynamic loader", loader_lines(facts)));
    }
    blocks.extend(gap_entries(facts));
    blocks.extend(
        audit
            .fixed_by
            .as_ref()
            .map(|command| Block::Command("to fix it", escape_controls(command))),
    );
    blocks.push(summary(audit, detail));
    Page(blocks)
}

/// The verdict's assumptions, and how to settle each.
fn assumption_lines(facts: &ImageFacts) -> Vec<Block> {
    let mut lines = Vec::new();
    for assumption in &facts.answers.assumptions {
        lines.push(Block::text(command::assumption_line(assumption)));
        let settling = Line::dim(command::settling_words(assumption));
        lines.push(Block::Fact("  to settle it: ".to_owned(), settling));
    }
    lines
}

/// The findings that count. Nearly every image has notes. In full they would push urgent findings off the screen.
fn finding_entries(audit: &AuditedImage, detail: TextDetail) -> Vec<FindingEntry> {
    let mut full: Vec<&Finding> = Vec::new();
    let mut entries = Vec::new();
    for finding in audit.counting() {
        let is_told = full.iter().any(|other| {
            (&other.rule, &other.fix, &other.commands) == (&finding.rule, &finding.fix, &finding.commands)
        });
        let is_short = is_short(finding, detail);
        if !is_short {
            full.push(finding);
        }
        let cause = finding.follows.as_ref().map(|cause| format!(" (goes with {cause})"));
        entries.push(FindingEntry {
            entry: finding_entry(finding, &audit.facts, detail),
            is_minor: is_short || is_told && detail < TextDetail::All,
            addition: cause.unwrap_or_default(),
        });
    }
    entries
}

fn is_short(finding: &Finding, detail: TextDetail) -> bool {
    (finding.severity == Severity::Note || finding.follows.is_some()) && detail < TextDetail::All
}

fn finding_entry(finding: &Finding, facts: &ImageFacts, detail: TextDetail) -> Entry {
    // A missing library may have hundreds of requesters, and a message may list hundreds of libraries.
    let (shown, message) = match detail {
        TextDetail::All => (usize::MAX, finding.message.clone()),
        _ => (PLACES, shorten(&finding.message, MESSAGE)),
    };
    let mut blocks = Vec::new();
    for location in finding.locations.iter().take(shown) {
        blocks.push(fact("at   ", location.path.to_string()));
        if let Some(layer) = location.layer {
            blocks.push(fact("     ", Line::dim(layer_words(facts, layer))));
        }
    }
    blocks.extend(more_fact(finding.locations.len(), shown));
    // The loader's final error is the short answer, so it comes before the search.
    let (messages, searched) = split_evidence(finding);
    for message in messages.iter().take(shown) {
        blocks.push(fact("says ", *message));
    }
    blocks.extend(more_fact(messages.len(), shown));
    let steps = match detail {
        TextDetail::All => searched.clone(),
        _ => deciding_steps(&searched),
    };
    if !searched.is_empty() {
        let more = searched.len() - steps.len();
        blocks.push(Block::Search(steps.into_iter().cloned().collect(), more));
    }
    blocks.push(fact("fix  ", &*finding.fix));
    let lines: Vec<String> = fix_lines(finding).collect();
    blocks.push(Block::Code("sh", lines.join("\n")));
    Entry {
        label: Some((ReportTone::of_severity(finding.severity), finding_name(finding))),
        message: Line::bold(message),
        blocks,
    }
}

fn fact(label: &str, text: impl Into<Line>) -> Block {
    Block::Fact(label.to_owned(), text.into())
}

fn more_fact(all: usize, shown: usize) -> Option<Block> {
    (all > shown).then(|| fact("     ", more_line(all.saturating_sub(shown))))
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

fn suppressed_entry(finding: &Finding) -> Option<Block> {
    let suppressed = finding.suppressed.as_ref()?;
    Some(Block::Entry(Entry {
        label: Some((ReportTone::Remark, format!("suppressed {}", finding_name(finding)))),
        message: (&*finding.message).into(),
        blocks: vec![fact("because ", suppression_words(suppressed))],
    }))
}

/// The copies of the library and who loads them.
fn copy_section(facts: &ImageFacts, detail: TextDetail) -> Option<Block> {
    let (shown, private): (Vec<&CuptiCopy>, Vec<&CuptiCopy>) =
        (facts.answers.copies.iter()).partition(|copy| detail == TextDetail::All || !copy.private);
    if facts.answers.copies.is_empty() {
        return None;
    }
    let mut entries = cut(shown.into_iter().map(|copy| copy_entry(copy, facts)).collect(), detail);
    // A tool such as Nsight Systems brings copies that nothing else loads; one line covers all of them.
    if !private.is_empty() {
        let owners: BTreeSet<&str> = private.iter().map(|copy| &*copy.owner.name).collect();
        let number = count_words(private.len(), "copy");
        let words = format!("and {number} that {} brings for itself", joined(owners, ", "));
        entries.push(Block::entry(Line::dim(words), Vec::new()));
    }
    Some(Block::section(
        format!("copies of {}", facts.library.file_stem()),
        entries,
    ))
}

/// The first entries, and without -v the number of the others.
fn cut(mut entries: Vec<Block>, detail: TextDetail) -> Vec<Block> {
    if detail < TextDetail::All && entries.len() > ITEMS {
        let more = more_line(entries.len() - ITEMS);
        entries.truncate(ITEMS);
        entries.push(Block::entry(more, Vec::new()));
    }
    entries
}

fn copy_entry(copy: &CuptiCopy, facts: &ImageFacts) -> Block {
    let mut words = vec![
        format_size(copy.bytes),
        copy.machine.clone().unwrap_or_default(),
        owner_words(copy),
        format!("layer {}", copy.layer + 1),
    ];
    words.retain(|word| !word.is_empty());
    let mut blocks = vec![
        Block::text(Line::dim(words.join(", "))),
        Block::text(copy_reach(copy, facts)),
    ];
    for problem in &copy.problems {
        blocks.push(Block::text(Line::default().with(DOUBTFUL, problem)));
    }
    if let Some(denial) = &copy.denial {
        blocks.push(Block::text(
            Line::default().with(BAD, format!("permission denied: {denial}")),
        ));
    }
    let (version, soname) = (version_words(copy), soname_words(copy));
    Block::entry(format!("{version}  {soname}  {}", copy.real_path), blocks)
}

/// The programs that request the library, and what each gets.
fn consumer_section(facts: &ImageFacts, detail: TextDetail) -> Option<Block> {
    if facts.answers.consumers.is_empty() {
        return None;
    }
    let mut entries = Vec::new();
    for consumer in &facts.answers.consumers {
        entries.push(consumer_entry(consumer, detail));
    }
    let mut blocks = cut(entries, detail);
    // The loader resolves a request before any code runs. A script runs other code before its request, so a note says
    // that.
    if facts
        .answers
        .consumers
        .iter()
        .any(|consumer| consumer.is_script() && consumer.is_served())
    {
        let promise = "what a script gets it gets once it asks: nothing here says that it comes so far";
        blocks.push(Block::text(Line::dim(promise)));
    }
    Some(Block::section(
        format!("programs that ask for {}", facts.library.name),
        blocks,
    ))
}

fn consumer_entry(consumer: &CuptiConsumer, detail: TextDetail) -> Block {
    let outcome = &consumer.outcome.as_is;
    let mut blocks = vec![Block::text(consumer_outcome(consumer))];
    if !outcome.missing_symbols.is_empty() {
        let symbols = format!(": {}", escaped(&outcome.missing_symbols).join(", "));
        let lacks = Line::default().with(BAD, "symbols the copy lacks");
        blocks.push(Block::text(lacks.and(symbols)));
    }
    // The first failure is shown above. The loader stops there, but once that is fixed, these come next.
    if consumer.start_failure().is_none() && consumer.unmet_by_itself().is_none() {
        for failure in &outcome.other_failures {
            blocks.push(Block::text(Line::dim(format!("also: {}", failure.message))));
        }
    }
    let steps = outcome.answer.search.lines();
    if detail == TextDetail::All && !steps.is_empty() {
        blocks.push(Block::Search(steps, 0));
    }
    let line = Line::bold(&*consumer.name).and(format!(" {}  ", request_words(consumer)));
    Block::entry(line.with(DIM, consumer.object.to_string()), blocks)
}

fn escaped(names: &[ByteString]) -> Vec<String> {
    names.iter().map(|name| escape_bytes(name)).collect()
}

fn tool_facts(audit: &AuditedImage) -> Vec<Block> {
    let mut facts = Vec::new();
    for tool in &audit.tools {
        let because = tool.readiness.because.join("; ");
        let words = format!("{}: {because}", tool.readiness.state.name());
        facts.push(Block::Fact(format!("tool {}  ", tool.name), words.into()));
    }
    facts
}

fn layer_entries(facts: &ImageFacts) -> Vec<Block> {
    let mut entries = Vec::new();
    for (number, (layer, size)) in facts.image.layers.iter().zip(&facts.layers.sizes).enumerate() {
        // Docker archives before version 25 have no blob digests, only diff ids.
        let digest = layer
            .digest
            .as_ref()
            .or(layer.diff_id.as_ref())
            .map(ToString::to_string);
        let (stored, bytes) = (format_size(size.compressed), format_size(size.bytes));
        let sizes = Block::text(format!("{stored} stored, {bytes} uncompressed"));
        entries.push(Block::entry(
            Line::dim(digest.unwrap_or_default()),
            vec![Block::text(layer_words(facts, number)), sizes],
        ));
    }
    entries
}

/// The dynamic loader, and the problems of the layers.
fn loader_lines(facts: &ImageFacts) -> Vec<Block> {
    let mut lines = match &facts.contexts.as_is.linker {
        None => vec![Block::text("none")],
        Some(linker) => loader_facts(linker),
    };
    for oddity in &facts.layers.oddities {
        let words = format!(" layer {} {}: {}", oddity.layer + 1, oddity.path, oddity.what);
        let line = Line::default().with(DOUBTFUL, "odd:").and(words);
        lines.push(Block::entry(line, Vec::new()));
    }
    lines
}

fn loader_facts(linker: &DynamicLoader) -> Vec<Block> {
    let libc = match linker.libc {
        Libc::Glibc(Some((major, minor))) => format!("glibc {major}.{minor}"),
        Libc::Glibc(None) => "glibc".to_owned(),
        Libc::Musl => "musl".to_owned(),
    };
    let entries = match &linker.cache {
        Some(cache) => count_words(cache.iter().count(), "entry"),
        None => "none".to_owned(),
    };
    vec![
        Block::text(format!("{} ({libc}, {})", escape_bytes(&linker.path), linker.arch.name)),
        Block::text(format!(
            "default directories: {}",
            escaped(&linker.default_dirs).join(" ")
        )),
        Block::text(format!("ld.so.cache: {entries}")),
    ]
}

fn summary(audit: &AuditedImage, detail: TextDetail) -> Block {
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
    // Only useful hints: a rule to explain, shortened notes.
    let mut hint = String::new();
    if !audit.findings.is_empty() {
        hint.push_str("; cupti-audit explain ID says more");
    }
    if audit.counting().any(|finding| is_short(finding, detail)) {
        hint.push_str(", -v shows all");
    }
    Block::entry(Line::from(words.join(", ")).with(DIM, hint), Vec::new())
}
