//! Words and marks that several forms share, so that each fact is told by one function.

use anstyle::Style;

use super::text_layout::{BAD, DOUBTFUL, GOOD, REMARK, count_words, shorten, styled};
use crate::judge::facts::{ConsumerOutcome, CuptiConsumer, CuptiCopy, CuptiStatus, ImageFacts, RequestKind};
use crate::judge::outcome::AuditedImage;
use crate::judge::plan::Verdict;
use crate::judge::rule::{Evidence, Finding, Severity, SuppressionMark};
use crate::size::format_size;
use image_linkage::escape;
use image_linkage::loader::RequestOutcome;
use image_linkage::loader::trace_text::{self, TraceLine};

/// How good a thing is, for its colour: a style on a terminal, a class on a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ReportTone {
    Bad,
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

    pub(super) fn of_phase(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Pass => Self::Good,
            Verdict::Warn | Verdict::Unknown => Self::Doubtful,
            Verdict::Fail => Self::Bad,
        }
    }

    /// The tone of the verdict on an image.
    pub(super) fn of_image(audit: &AuditedImage) -> Self {
        // The findings of a report are sorted, and the gravest is the first.
        let worst = audit.counting().next().map(|finding| finding.severity);
        let consumers = &audit.facts.consumers;
        let is_loaded = CuptiConsumer::is_served;
        match (audit.facts.status.as_is, worst) {
            (_, Some(Severity::Error)) => Self::Bad,
            (_, Some(Severity::Warning)) => Self::Doubtful,
            _ if audit.facts.is_open() => Self::Doubtful,
            (CuptiStatus::Loadable, _) => Self::Good,
            // PyTorch finds its own copy by its RPATH, whatever a plain dlopen gets.
            (CuptiStatus::Unloadable, _) if consumers.iter().any(is_loaded) => Self::Good,
            _ => Self::Remark,
        }
    }

    pub(super) fn mark(self) -> &'static str {
        match self {
            Self::Bad => "✗",
            Self::Doubtful => "!",
            Self::Good => "✓",
            Self::Remark => "·",
        }
    }

    pub(super) fn style(self) -> Style {
        match self {
            Self::Bad => BAD,
            Self::Doubtful => DOUBTFUL,
            Self::Good => GOOD,
            Self::Remark => REMARK,
        }
    }

    /// The class in the style sheet of the HTML page.
    pub(super) fn class(self) -> &'static str {
        match self {
            Self::Bad => "bad",
            Self::Doubtful => "doubtful",
            Self::Good => "good",
            Self::Remark => "remark",
        }
    }
}

/// The image as the user named it.
pub(super) fn image_name(facts: &ImageFacts) -> String {
    escape::escape_bytes(facts.image.reference.as_bytes())
}

/// The platform, which comes from the image.
pub(super) fn platform_name(facts: &ImageFacts) -> String {
    escape::escape_bytes(facts.image.platform.to_string().as_bytes())
}

/// The number of the layers and their bytes, uncompressed.
pub(super) fn layers_words(facts: &ImageFacts) -> String {
    let bytes: u64 = facts.layers.iter().map(|layer| layer.bytes).sum();
    let layers = count_words(facts.layers.len(), "layer");
    format!("{layers}, {}", format_size(bytes))
}

/// The layer by its number, from 1 as people count, and what made it.
pub(super) fn layer_words(facts: &ImageFacts, layer: usize) -> String {
    let number = format!("layer {} of {}", layer + 1, facts.image.layers.len());
    let made = facts
        .image
        .layers
        .get(layer)
        .and_then(|layer| layer.created_by.as_deref());
    match made.filter(|made| !made.is_empty()) {
        // A RUN can hold a whole script.
        Some(made) => format!(
            "{number}: {}",
            shorten(&escape::escape_bytes(made.trim().as_bytes()), 90)
        ),
        None => number,
    }
}

/// What could not be checked, each with the reason.
pub(super) fn gap_words(facts: &ImageFacts) -> impl Iterator<Item = String> {
    facts
        .gaps
        .iter()
        .map(|gap| format!("not checked: {}: {}", gap.what, gap.why))
}

/// What could not be checked, for a terminal.
pub(super) fn gap_lines(facts: &ImageFacts) -> String {
    let mark = styled(DOUBTFUL, "not checked:");
    let gaps = facts.gaps.iter();
    let lines = gaps.map(|gap| format!("{mark} {}: {}\n", gap.what, gap.why));
    lines.collect::<Vec<_>>().concat()
}

/// Why a finding does not count, and until when.
pub(super) fn suppression_words(suppressed: &SuppressionMark) -> String {
    let reason = escape::escape_bytes(suppressed.reason.as_bytes());
    match suppressed.until {
        Some(until) => format!("{reason}, until {until}"),
        None => reason,
    }
}

/// The evidence apart: what is said, and the steps of the search.
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

/// The package that a copy came with.
pub(super) fn owner_words(copy: &CuptiCopy) -> String {
    let owner = &copy.owner;
    if owner.name.is_empty() {
        return "owner unknown".to_owned();
    }
    // A tool that brings a copy for itself is known by its folder, which tells no version.
    let version = owner.version.as_deref().unwrap_or_default();
    let words = format!("{} {} {version}", owner.kind.name(), owner.name);
    escape::escape_bytes(words.trim_end().as_bytes())
}

/// The version of a copy.
pub(super) fn version_words(copy: &CuptiCopy) -> &str {
    let version = copy.version.as_ref();
    version.map_or("version unknown", |(version, _)| version)
}

/// The soname of a copy; a text file that was copied in its place has none.
pub(super) fn soname_words(copy: &CuptiCopy) -> String {
    let soname = copy.soname.as_deref();
    soname.map_or_else(|| "no library".to_owned(), escape::escape_bytes)
}

/// The consumers that get a copy in the image as it is, by name.
pub(super) fn user_names<'f>(copy: &CuptiCopy, facts: &'f ImageFacts) -> Vec<&'f str> {
    let users = copy.used_by.iter();
    let users = users.filter_map(|number| facts.consumers.get(*number));
    users.map(|consumer| consumer.name.as_str()).collect()
}

/// How a consumer asks, as a verb.
pub(super) fn request_verb(consumer: &CuptiConsumer) -> &'static str {
    match consumer.asks {
        RequestKind::Needed => "links",
        RequestKind::Dlopen => "opens",
    }
}

/// How a consumer asks and what for, such as `links libcupti.so.12`.
pub(super) fn request_words(consumer: &CuptiConsumer) -> String {
    let wants = escape::escape_bytes(&consumer.wants);
    format!("{} {wants}", request_verb(consumer))
}

/// The path that a consumer gets, what led there, and why it may be another.
pub(super) fn copy_words(consumer: &CuptiConsumer) -> String {
    let gets = &consumer.outcome.as_is;
    let path = gets.path.as_deref().map(escape::escape_bytes);
    let other = consumer.other_copies.as_ref().map(|why| format!("; {why}"));
    format!(
        "{}, through {}{}",
        path.unwrap_or_default(),
        way_words(gets),
        other.unwrap_or_default()
    )
}

/// The stage of the search that led to what a consumer gets.
pub(super) fn way_words(gets: &ConsumerOutcome) -> String {
    let way = gets.how.map(|how| trace_text::stage_text(how, &gets.objects));
    way.unwrap_or_default()
}

/// What a consumer gets in the image as it is, in a sentence.
pub(super) fn consumer_outcome_words(consumer: &CuptiConsumer) -> String {
    let gets = &consumer.outcome.as_is;
    if let Some(why) = &consumer.open {
        return format!("what cannot be foretold: {why}");
    }
    match (gets.outcome, consumer.outcome.nvidia.outcome) {
        (RequestOutcome::Loaded, _) => copy_words(consumer),
        (_, RequestOutcome::Loaded) => "nothing until the container runtime has run ldconfig".to_owned(),
        _ => format!("nothing: {}", gets.message),
    }
}
