//! The report for people: the verdict first, then what is wrong with its evidence, then what is there.
//!
//! Styles are written as terminal sequences; who prints the text strips them where they do not belong.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};

use super::Audit;
use crate::escape;
use crate::facts::{Asks, Consumer, Copy, ImageFacts, Status};
use crate::loader::{Libc, Outcome, words};
use crate::rule::{Evidence, Finding, Rule, Severity};

/// How a report is laid out.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    /// The width of the terminal in columns; paragraphs are broken at it, tables never.
    pub width: usize,
    /// Whether to add the layers, the loader and every search.
    pub verbose: bool,
}

pub(super) const BOLD: Style = Style::new().bold();
pub(super) const DIM: Style = Style::new().dimmed();
const GOOD: Style = AnsiColor::Green.on_default().bold();
const BAD: Style = AnsiColor::Red.on_default().bold();
const DOUBTFUL: Style = AnsiColor::Yellow.on_default().bold();
const REMARK: Style = AnsiColor::Cyan.on_default().bold();

/// The text in a style.
pub(super) fn styled(style: Style, text: impl AsRef<str>) -> String {
    format!("{style}{}{style:#}", text.as_ref())
}

/// The report of one image.
pub fn report(audit: &Audit, layout: Layout) -> String {
    let facts = &audit.facts;
    let mut out = String::new();
    headline(&mut out, facts);
    let (mark, style) = mark(audit);
    let _ = writeln!(
        out,
        "\n{}\n",
        styled(style, format!("{mark} {}", audit.verdict()))
    );
    for finding in &audit.findings {
        self::finding(&mut out, finding, facts, layout);
    }
    copies(&mut out, facts, layout);
    consumers(&mut out, facts, layout);
    phases(&mut out, audit);
    if layout.verbose {
        details(&mut out, facts);
    }
    gaps(&mut out, facts);
    summary(&mut out, audit);
    out
}

fn headline(out: &mut String, facts: &ImageFacts) {
    let bytes: u64 = facts.layers.iter().map(|layer| layer.bytes).sum();
    let layers = count(facts.layers.len(), "layer");
    let image = &facts.image;
    let reference = styled(BOLD, escape::text(image.reference.as_bytes()));
    let _ = write!(
        out,
        "{reference}  {}  {layers}, {}",
        escape::text(image.platform.to_string().as_bytes()),
        size(bytes)
    );
    if let Some(digest) = &image.digest {
        let _ = write!(out, "\n{}", styled(DIM, digest.to_string()));
    }
    out.push('\n');
}

fn mark(audit: &Audit) -> (&'static str, Style) {
    let worst = audit.findings.first().map(|finding| finding.severity);
    let served = audit
        .facts
        .consumers
        .iter()
        .any(|consumer| consumer.outcome.as_is.outcome == Outcome::Loaded);
    match (audit.facts.status.as_is, worst) {
        (_, Some(Severity::Error)) => ("✗", BAD),
        (_, Some(Severity::Warning)) => ("!", DOUBTFUL),
        (Status::Loadable, _) => ("✓", GOOD),
        (Status::Unloadable, _) if served => ("✓", GOOD),
        _ => ("·", REMARK),
    }
}

fn finding(out: &mut String, finding: &Finding, facts: &ImageFacts, layout: Layout) {
    let style = match finding.severity {
        Severity::Error => BAD,
        Severity::Warning => DOUBTFUL,
        Severity::Note => REMARK,
    };
    let label = styled(
        style,
        format!("{}[{}]", finding.severity.name(), finding.rule),
    );
    let _ = writeln!(out, "{label}: {}", styled(BOLD, &finding.message));
    for location in &finding.locations {
        let _ = writeln!(out, "  at   {}", location.path);
        if let Some(layer) = location.layer {
            let _ = writeln!(out, "       {}", styled(DIM, layer_words(facts, layer)));
        }
    }
    let searched: Vec<words::Line> = finding
        .evidence
        .iter()
        .filter_map(|evidence| match evidence {
            Evidence::Searched(line) => Some(line.clone()),
            Evidence::Words(_) => None,
        })
        .collect();
    for evidence in &finding.evidence {
        if let Evidence::Words(words) = evidence {
            out.push_str(&paragraph("  says ", words, layout.width));
        }
    }
    if !searched.is_empty() {
        out.push_str("  the loader searched, in this order:\n");
        out.push_str(&table(&searched, "       "));
    }
    out.push_str(&paragraph("  fix  ", &finding.fix, layout.width));
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
            shorten(&escape::text(made.trim().as_bytes()), 90)
        ),
        None => number,
    }
}

fn shorten(text: &str, length: usize) -> String {
    if text.chars().count() <= length {
        return text.to_owned();
    }
    let head: String = text.chars().take(length).collect();
    format!("{head}…")
}

/// The steps of a search in aligned columns.
pub(super) fn table(lines: &[words::Line], indent: &str) -> String {
    let width = |column: fn(&words::Line) -> &str| {
        lines
            .iter()
            .map(|line| column(line).chars().count())
            .max()
            .unwrap_or(0)
    };
    let part = width(|line| &line.part);
    let path = width(|line| &line.path).min(72);
    let mut out = String::new();
    for line in lines {
        let row = format!(
            "{indent}{:part$}  {:path$}  {}",
            line.part, line.path, line.result
        );
        let _ = writeln!(out, "{}", styled(DIM, row.trim_end()));
    }
    out
}

/// A paragraph whose first line begins with `label` and whose others are indented as far.
fn paragraph(label: &str, text: &str, width: usize) -> String {
    let indent = " ".repeat(label.chars().count());
    let options = textwrap::Options::new(width.clamp(40, 110))
        .initial_indent(label)
        .subsequent_indent(&indent)
        .break_words(false)
        .word_splitter(textwrap::WordSplitter::NoHyphenation);
    textwrap::fill(text, options) + "\n"
}

fn copies(out: &mut String, facts: &ImageFacts, layout: Layout) {
    let (shown, decoys): (Vec<&Copy>, Vec<&Copy>) = facts
        .copies
        .iter()
        .partition(|copy| layout.verbose || !copy.decoy);
    if shown.is_empty() && decoys.is_empty() {
        return;
    }
    let _ = writeln!(out, "{}", styled(BOLD, "copies of libcupti"));
    for copy in shown {
        let version = copy
            .version
            .as_ref()
            .map_or("version unknown", |(version, _)| version);
        let soname = copy
            .soname
            .as_deref()
            .map_or_else(|| "no library".to_owned(), escape::text);
        let _ = writeln!(out, "  {version}  {soname}  {}", copy.real_path);
        let mut words = vec![
            size(copy.bytes),
            copy.machine.clone().unwrap_or_default(),
            owner(copy),
        ];
        words.push(format!("layer {}", copy.layer + 1));
        words.retain(|word| !word.is_empty());
        let _ = writeln!(out, "    {}", styled(DIM, words.join(", ")));
        let _ = writeln!(out, "    {}", reach(copy, facts));
        for problem in &copy.problems {
            let _ = writeln!(out, "    {}", styled(DOUBTFUL, problem));
        }
    }
    if !decoys.is_empty() {
        let owners: std::collections::BTreeSet<&str> =
            decoys.iter().map(|copy| copy.owner.name.as_str()).collect();
        let owners = owners.into_iter().collect::<Vec<_>>().join(", ");
        let number = if decoys.len() == 1 {
            "1 copy".to_owned()
        } else {
            format!("{} copies", decoys.len())
        };
        let _ = writeln!(
            out,
            "  {}",
            styled(DIM, format!("and {number} that {owners} brings for itself"))
        );
    }
    out.push('\n');
}

fn owner(copy: &Copy) -> String {
    let owner = &copy.owner;
    if owner.name.is_empty() {
        return "owner unknown".to_owned();
    }
    let version = owner
        .version
        .as_deref()
        .map(|version| format!(" {version}"))
        .unwrap_or_default();
    escape::text(format!("{} {}{version}", owner.kind.name(), owner.name).as_bytes())
}

/// Who gets to a copy, in words.
fn reach(copy: &Copy, facts: &ImageFacts) -> String {
    let found = copy
        .how
        .map(|how| words::part(how, &[]))
        .unwrap_or_default();
    let users: Vec<&str> = copy
        .used_by
        .iter()
        .filter_map(|number| facts.consumers.get(*number))
        .map(|consumer| consumer.name.as_str())
        .collect();
    let used = if users.is_empty() {
        String::new()
    } else {
        format!("; loaded by {}", users.join(", "))
    };
    match (copy.loadable.as_is, copy.loadable.nvidia) {
        (true, true) => {
            styled(GOOD, "loadable") + &format!(" by its soname, through {found}{used}")
        }
        (true, false) => {
            styled(DOUBTFUL, "loadable")
                + &format!(" through {found} until the container runtime runs ldconfig{used}")
        }
        (false, true) => {
            styled(DOUBTFUL, "loadable")
                + &format!(" only once the container runtime has run ldconfig{used}")
        }
        (false, false) if !users.is_empty() => {
            styled(GOOD, "loaded") + &format!(" by {}; not by its soname alone", users.join(", "))
        }
        (false, false) if copy.decoy => styled(DIM, "for its own tool alone"),
        (false, false) => styled(BAD, "not loadable") + " by its soname",
    }
}

fn consumers(out: &mut String, facts: &ImageFacts, layout: Layout) {
    if facts.consumers.is_empty() {
        return;
    }
    let _ = writeln!(out, "{}", styled(BOLD, "programs that ask for CUPTI"));
    for consumer in &facts.consumers {
        let gets = &consumer.outcome.as_is;
        let asks = match consumer.asks {
            Asks::Needed => "links",
            Asks::Dlopen => "opens",
        };
        let _ = writeln!(
            out,
            "  {} {asks} {}  {}",
            styled(BOLD, &consumer.name),
            escape::text(&consumer.wants),
            styled(DIM, consumer.object.to_string())
        );
        let _ = writeln!(out, "    {}", outcome(consumer));
        if !gets.missing_symbols.is_empty() {
            let symbols: Vec<String> = gets
                .missing_symbols
                .iter()
                .map(|symbol| escape::text(symbol))
                .collect();
            let _ = writeln!(
                out,
                "    {}: {}",
                styled(BAD, "symbols the copy lacks"),
                symbols.join(", ")
            );
        }
        for failure in &gets.other_failures {
            let _ = writeln!(out, "    {}", styled(DIM, format!("also: {failure}")));
        }
        if layout.verbose {
            out.push_str(&table(&words::lines(&gets.trace, &gets.objects), "      "));
        }
    }
    out.push('\n');
}

fn outcome(consumer: &Consumer) -> String {
    let gets = &consumer.outcome.as_is;
    match (gets.outcome, consumer.outcome.nvidia.outcome) {
        (Outcome::Loaded, _) => {
            let path = gets.path.as_deref().map(escape::text).unwrap_or_default();
            let how = gets
                .how
                .map(|how| words::part(how, &gets.objects))
                .unwrap_or_default();
            format!("{} {path}, through {how}", styled(GOOD, "gets"))
        }
        (_, Outcome::Loaded) => {
            format!(
                "{} in the image as it is; gets it once the container runtime has run ldconfig",
                styled(DOUBTFUL, "does not get it")
            )
        }
        _ => format!("{}: {}", styled(BAD, "does not get it"), gets.message),
    }
}

fn phases(out: &mut String, audit: &Audit) {
    for phase in &audit.phases {
        let _ = writeln!(
            out,
            "phase {phase}: unknown {}",
            styled(
                DIM,
                "(what a phase needs is not judged yet; the findings count for it)"
            )
        );
    }
}

fn details(out: &mut String, facts: &ImageFacts) {
    let _ = writeln!(out, "{}", styled(BOLD, "layers"));
    for (number, (layer, size_read)) in facts.image.layers.iter().zip(&facts.layers).enumerate() {
        let digest = layer
            .digest
            .as_ref()
            .or(layer.diff_id.as_ref())
            .map(ToString::to_string)
            .unwrap_or_default();
        let sizes = format!(
            "{} stored, {} uncompressed",
            size(size_read.compressed),
            size(size_read.bytes)
        );
        let _ = writeln!(out, "  {}  {}", styled(DIM, digest), sizes);
        let _ = writeln!(out, "    {}", layer_words(facts, number));
    }
    let _ = writeln!(out, "\n{}", styled(BOLD, "dynamic loader"));
    match &facts.grounds.as_is.linker {
        None => out.push_str("  none\n"),
        Some(linker) => {
            let libc = match linker.libc {
                Libc::Glibc(Some((major, minor))) => format!("glibc {major}.{minor}"),
                Libc::Glibc(None) => "glibc".to_owned(),
                Libc::Musl => "musl".to_owned(),
            };
            let _ = writeln!(
                out,
                "  {} ({libc}, {})",
                escape::text(&linker.path),
                linker.arch.name
            );
            let dirs: Vec<String> = linker
                .default_dirs
                .iter()
                .map(|dir| escape::text(dir))
                .collect();
            let _ = writeln!(out, "  default directories: {}", dirs.join(" "));
            let entries = linker.cache.as_ref().map_or_else(
                || "none".to_owned(),
                |cache| count(cache.iter().count(), "entry"),
            );
            let _ = writeln!(out, "  ld.so.cache: {entries}");
        }
    }
    for oddity in &facts.oddities {
        let _ = writeln!(
            out,
            "  {} layer {} {}: {}",
            styled(DOUBTFUL, "odd:"),
            oddity.layer + 1,
            oddity.path,
            oddity.what
        );
    }
    out.push('\n');
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

fn summary(out: &mut String, audit: &Audit) {
    let number = |severity| {
        audit
            .findings
            .iter()
            .filter(|finding| finding.severity == severity)
            .count()
    };
    let all = [
        (Severity::Error, "error"),
        (Severity::Warning, "warning"),
        (Severity::Note, "note"),
    ];
    let words: Vec<String> = all
        .iter()
        .filter(|(severity, _)| number(*severity) > 0)
        .map(|(severity, word)| count(number(*severity), word))
        .collect();
    let words = if words.is_empty() {
        "no findings".to_owned()
    } else {
        words.join(", ")
    };
    let hint = if audit.findings.is_empty() {
        String::new()
    } else {
        styled(DIM, "; cupti-audit rules explain ID says more")
    };
    let _ = writeln!(out, "{words}{hint}");
}

/// The rules, one a line.
pub fn rules(rules: &[Rule]) -> String {
    let width = rules.iter().map(|rule| rule.id.len()).max().unwrap_or(0);
    rules
        .iter()
        .map(|rule| {
            format!(
                "{:width$}  {:7}  {}\n",
                rule.id,
                rule.severity.name(),
                rule.summary
            )
        })
        .collect()
}

/// What a rule finds, why it matters and what to do.
pub fn explain(rule: &Rule, width: usize) -> String {
    let mut out = format!("{}: {}\n\n", styled(BOLD, &rule.id), rule.summary);
    let phases: Vec<String> = rule
        .phases
        .iter()
        .map(|(phase, severity)| format!("{} for {phase}", severity.name()))
        .collect();
    let severity = format!("{}; {}", rule.severity.name(), phases.join(", "));
    for (label, text) in [
        ("severity  ", severity),
        ("why       ", rule.why.clone()),
        ("fix       ", rule.fix.plain()),
    ] {
        out.push_str(&paragraph(label, &text, width));
    }
    for reference in &rule.references {
        out.push_str(&format!("see       {reference}\n"));
    }
    out
}

/// A number of things in words.
pub(super) fn count(number: usize, thing: &str) -> String {
    match (number, thing.strip_suffix('y')) {
        (1, _) => format!("1 {thing}"),
        (_, Some(stem)) => format!("{number} {stem}ies"),
        (_, None) => format!("{number} {thing}s"),
    }
}

/// A size in decimal units, as registries and engines count.
pub(super) fn size(bytes: u64) -> String {
    let units = [(1_000_000_000_u64, "GB"), (1_000_000, "MB"), (1_000, "kB")];
    match units.iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => {
            let tenths = bytes.saturating_mul(10) / unit;
            format!("{}.{} {name}", tenths / 10, tenths % 10)
        }
        None => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::{count, size};

    #[test]
    fn sizes_and_numbers_read_well() {
        assert_eq!(size(0), "0 B");
        assert_eq!(size(7_748_112), "7.7 MB");
        assert_eq!(size(3_087_779_533), "3.0 GB");
        assert_eq!(count(1, "layer"), "1 layer");
        assert_eq!(count(2, "entry"), "2 entries");
        assert_eq!(count(0, "layer"), "0 layers");
    }
}
