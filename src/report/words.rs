//! Words and marks shared by several forms, one function per fact.

use anstyle::Style;

use super::page::Line;
use super::text_layout::{BAD, DOUBTFUL, GOOD, REMARK, joined, shorten};
use crate::facts::{ConsumerOutcome, CuptiConsumer, CuptiCopy, ImageFacts, RequestKind};
use crate::judge::outcome::{AuditedImage, RunExit};
use crate::judge::plan::Verdict;
use crate::judge::rule::{Evidence, Finding, Severity, SuppressionMark};
use crate::size::{count_words, format_size};
use image_linkage::escape;
use image_linkage::loader::TraceLine;
use image_linkage::loader::{ObjectNames, RequestOutcome};

/// The tone of a fact: a style on a terminal, a class on a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReportTone {
    Bad,
    /// Not known.
    Open,
    Doubtful,
    Good,
    Remark,
}

impl ReportTone {
    pub(super) fn of_severity(severity: Severity) -> Self {
        match severity {
            Severity::Error => Self::Bad,
            Severity::Warning => Self::Doubtful,
            Severity::Note => Self::Remark,
        }
    }

    pub(super) fn of_exit(exit: RunExit) -> Self {
        match exit {
            RunExit::Clean => Self::Good,
            RunExit::Findings => Self::Bad,
            RunExit::Open => Self::Open,
        }
    }

    pub(super) fn of_phase(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Pass => Self::Good,
            Verdict::Warn => Self::Doubtful,
            Verdict::Unknown => Self::Open,
            Verdict::Fail => Self::Bad,
        }
    }

    /// The tone of an image's verdict.
    pub(super) fn of_image(audit: &AuditedImage) -> Self {
        let facts = &audit.facts;
        let warns = audit.counting().any(|finding| finding.severity >= Severity::Warning);
        match audit.exit() {
            RunExit::Clean if warns || facts.is_open() => Self::Doubtful,
            // Accepted is not good.
            RunExit::Clean if audit.suppressed_errors() > 0 => Self::Remark,
            RunExit::Clean
                if audit.links.is_none()
                    && audit.phases.is_empty()
                    && audit.tools.is_empty()
                    && !facts.provides_cupti() =>
            {
                Self::Remark
            }
            exit => Self::of_exit(exit),
        }
    }

    pub(super) fn mark(self) -> &'static str {
        self.looks().0
    }

    pub(super) fn style(self) -> Style {
        self.looks().1
    }

    /// The class in the HTML page's style sheet.
    pub(super) fn class(self) -> &'static str {
        self.looks().2
    }

    fn looks(self) -> (&'static str, Style, &'static str) {
        match self {
            Self::Bad => ("✗", BAD, "bad"),
            Self::Open => ("?", DOUBTFUL, "doubtful"),
            Self::Doubtful => ("!", DOUBTFUL, "doubtful"),
            Self::Good => ("✓", GOOD, "good"),
            Self::Remark => ("·", REMARK, "remark"),
        }
    }
}

/// The verdict with its mark, as a line.
pub(crate) fn verdict_line(audit: &AuditedImage) -> String {
    format!("{} {}\n", ReportTone::of_image(audit).mark(), audit.verdict())
}

/// The image as the user named it.
pub(super) fn image_name(facts: &ImageFacts) -> String {
    escape::escape_bytes(facts.image.reference.as_bytes())
}

/// The platform, escaped because it comes from the image.
pub(super) fn platform_name(facts: &ImageFacts) -> String {
    escape::escape_bytes(facts.image.platform.to_string().as_bytes())
}

/// The number of layers and their uncompressed size.
pub(super) fn layers_words(facts: &ImageFacts) -> String {
    let bytes: u64 = facts.layers.sizes.iter().map(|layer| layer.bytes).sum();
    let layers = count_words(facts.layers.sizes.len(), "layer");
    format!("{layers}, {}", format_size(bytes))
}

/// The layer's number, from 1, and the step that made it.
pub(super) fn layer_words(facts: &ImageFacts, layer: usize) -> String {
    let number = format!("layer {} of {}", layer + 1, facts.image.layers.len());
    // A RUN can contain a whole script.
    match shorten(&created_by(facts, layer), 90).as_str() {
        "" => number,
        made => format!("{number}: {made}"),
    }
}

/// The step that made the layer; empty if unknown.
pub(super) fn created_by(facts: &ImageFacts, layer: usize) -> String {
    let layer = facts.image.layers.get(layer);
    let made = layer.and_then(|layer| layer.created_by.as_deref());
    escape::escape_bytes(made.unwrap_or_default().trim().as_bytes())
}

/// The gaps, each with its reason.
pub(super) fn gap_words(facts: &ImageFacts) -> impl Iterator<Item = String> {
    facts
        .gaps
        .iter()
        .map(|gap| format!("not checked: {}: {}", gap.what, gap.why))
}

/// The severity and the rule.
pub(super) fn finding_name(finding: &Finding) -> String {
    format!("{}[{}]", finding.severity.name(), finding.rule)
}

/// The reason of a suppression, and its end date.
pub(super) fn suppression_words(suppressed: &SuppressionMark) -> String {
    let reason = escape::escape_bytes(suppressed.reason.as_bytes());
    match suppressed.until {
        Some(until) => format!("{reason}, until {until}"),
        None => reason,
    }
}

/// Splits the evidence into messages and the steps of the search.
pub(super) fn split_evidence(finding: &Finding) -> (Vec<&str>, Vec<&TraceLine>) {
    let (mut said, mut searched) = (Vec::new(), Vec::new());
    for evidence in &finding.evidence {
        match evidence {
            Evidence::Words(words) => said.push(words.as_str()),
            Evidence::Searched(line) => searched.push(line),
        }
    }
    (said, searched)
}

/// The package of a copy.
pub(super) fn owner_words(copy: &CuptiCopy) -> String {
    let owner = &copy.owner;
    if owner.name.is_empty() {
        return "owner unknown".to_owned();
    }
    // A tool's private copy is recognized by its folder, which gives no version.
    let version = owner.version.as_deref().unwrap_or_default();
    let words = format!("{} {} {version}", owner.kind.name(), owner.name);
    escape::escape_bytes(words.trim_end().as_bytes())
}

/// The version of a copy.
pub(super) fn version_words(copy: &CuptiCopy) -> &str {
    let version = copy.version.as_ref();
    version.map_or("version unknown", |(version, _)| version)
}

/// The soname of a copy; a text file in its place has none.
pub(super) fn soname_words(copy: &CuptiCopy) -> String {
    let soname = copy.soname.as_deref();
    soname.map_or_else(|| "no library".to_owned(), escape::escape_bytes)
}

/// How a consumer requests which name, such as `links libcupti.so.12`.
pub(super) fn request_words(consumer: &CuptiConsumer) -> String {
    let verb = match consumer.request_kind {
        RequestKind::Needed => "links",
        RequestKind::Dlopen => "opens",
    };
    format!("{verb} {}", escape::escape_bytes(&consumer.requested_name))
}

/// The search stage that found a consumer's library.
fn way_words(outcome: &ConsumerOutcome) -> String {
    outcome.answer.way().unwrap_or_default()
}

/// The result of a consumer in the unchanged image; its first words are coloured.
pub(super) fn consumer_outcome(consumer: &CuptiConsumer) -> Line {
    let outcome = &consumer.outcome.as_is;
    let under_runtime = consumer.outcome.nvidia.answer.outcome();
    let (tone, word, rest) = match (consumer.unreachable(), outcome.answer.outcome(), under_runtime) {
        (Some(why), ..) => (ReportTone::Doubtful, "is imported by no Python", format!(": {why}")),
        _ if let Some(why) = &consumer.open => (ReportTone::Doubtful, "may get it or not", format!(": {why}")),
        _ if let Some(failure) = consumer.start_failure() => {
            let word = if failure.is_process {
                "does not start"
            } else {
                "cannot be loaded"
            };
            (ReportTone::Bad, word, format!(": {}", failure.words()))
        }
        (_, RequestOutcome::Loaded, _) if let Some(other) = consumer.unmet_by_itself() => {
            let rest = format!(" where something else has loaded what it lacks: {}", other.message);
            (ReportTone::Doubtful, "gets it", rest)
        }
        (_, RequestOutcome::Loaded, _) => {
            let path = outcome
                .answer
                .file()
                .map(|file| escape::escape_bytes(&file.path))
                .unwrap_or_default();
            let other = consumer.other_copies.as_ref().map(|why| format!("; {why}"));
            let rest = format!(" {path}, through {}{}", way_words(outcome), other.unwrap_or_default());
            (ReportTone::Good, "gets", rest)
        }
        (.., RequestOutcome::Loaded) => {
            let once = " in the image as it is; gets it once the container runtime has run ldconfig";
            (ReportTone::Doubtful, "does not get it", once.to_owned())
        }
        _ => (
            ReportTone::Bad,
            "does not get it",
            format!(": {}", outcome.answer.message()),
        ),
    };
    Line::default().with(tone.style(), word).and(rest)
}

/// The programs that load a copy; its first words are coloured.
pub(super) fn copy_reach(copy: &CuptiCopy, facts: &ImageFacts) -> Line {
    // The stage of a plain dlopen, which has no requesting object to name.
    let found = copy
        .how
        .map(|how| how.text(&ObjectNames::default()))
        .unwrap_or_default();
    let consumers = copy
        .used_by
        .iter()
        .filter_map(|number| facts.answers.consumers.get(*number));
    let users = joined(consumers.map(|user| &*user.name), ", ");
    let used = if users.is_empty() {
        String::new()
    } else {
        format!("; loaded by {users}")
    };
    let (tone, word, rest) = match (copy.loadable.as_is, copy.loadable.nvidia) {
        (true, true) => (
            ReportTone::Good,
            "loadable",
            format!(" by its soname, through {found}{used}"),
        ),
        (true, false) => {
            let until = "until the container runtime runs ldconfig";
            (
                ReportTone::Doubtful,
                "loadable",
                format!(" through {found} {until}{used}"),
            )
        }
        (false, true) => {
            let once = "only once the container runtime has run ldconfig";
            (ReportTone::Doubtful, "loadable", format!(" {once}{used}"))
        }
        // Through their own search paths, like PyTorch's libraries.
        (false, false) if !users.is_empty() => (
            ReportTone::Good,
            "loaded",
            format!(" by {users}; not by its soname alone"),
        ),
        (false, false) if facts.answers.status_is_open.is_some() => {
            let how = " by its soname: known only when it runs";
            (ReportTone::Doubtful, "loadable or not", how.to_owned())
        }
        (false, false) if copy.private => (ReportTone::Remark, "for its own tool alone", String::new()),
        (false, false) => (ReportTone::Bad, "not loadable", " by its soname".to_owned()),
    };
    Line::default().with(tone.style(), word).and(rest)
}
/// The lines of a fix for pasting: Dockerfile instructions, then commands with a prompt.
pub(super) fn fix_lines(finding: &Finding) -> impl Iterator<Item = String> {
    let commands = finding.commands.iter().map(|command| format!("$ {command}"));
    finding.instructions.iter().cloned().chain(commands)
}

/// A fix without layout: the sentence, and its lines below.
pub(super) fn fix_words(finding: &Finding) -> String {
    let lines: Vec<String> = std::iter::once(finding.fix.clone()).chain(fix_lines(finding)).collect();
    lines.join("\n")
}
