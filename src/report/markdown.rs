//! Markdown, for a comment on a pull request or a job's summary: GitHub's and GitLab's kind, with its tables.
//!
//! Names from an image can be anything: [`escape_markdown`] keeps them from being markup, links or mentions.

use std::fmt::Write as _;
use std::io;

use super::text::{layer_words, verdict_mark};
use super::text_layout::count_words;
use super::{ReportWriter, consumer_outcome_words, suppression_words};
use crate::judge::facts::{ImageFacts, RequestKind};
use crate::judge::outcome::{AuditedImage, RunExit, UnreadImage};
use crate::judge::rule::{Evidence, Finding, Severity};
use crate::size::format_size;
use image_linkage::escape;

/// The images one after the other, each under a heading.
pub struct MarkdownReport;

impl ReportWriter for MarkdownReport {
    fn audited(&mut self, audit: &AuditedImage) -> io::Result<String> {
        let mut out = String::new();
        head(&mut out, audit);
        findings(&mut out, audit);
        phases(&mut out, audit);
        consumers(&mut out, &audit.facts);
        for gap in &audit.facts.gaps {
            let _ = writeln!(
                out,
                "- **not checked:** {}: {}",
                escape_markdown(&gap.what),
                escape_markdown(&gap.why)
            );
        }
        Ok(out.trim_end().to_owned() + "\n\n")
    }

    fn unread(&mut self, unread: &UnreadImage) -> io::Result<String> {
        let image = escape_markdown(&escape::escape_bytes(unread.image.as_bytes()));
        Ok(format!(
            "## ✗ {image} was not audited\n\n{}\n\n",
            escape_markdown(&unread.why)
        ))
    }

    fn end(&mut self, _: RunExit) -> io::Result<String> {
        Ok(String::new())
    }
}

fn head(out: &mut String, audit: &AuditedImage) {
    let facts = &audit.facts;
    let bytes: u64 = facts.layers.iter().map(|layer| layer.bytes).sum();
    let _ = writeln!(
        out,
        "## {} {}\n",
        verdict_mark(audit).0,
        escape_markdown(&audit.verdict())
    );
    let _ = write!(
        out,
        "**{}** · {} · {}, {}",
        escape_markdown(&escape::escape_bytes(facts.image.reference.as_bytes())),
        escape_markdown(&facts.image.platform.to_string()),
        count_words(facts.layers.len(), "layer"),
        format_size(bytes)
    );
    if let Some(digest) = &facts.image.digest {
        let _ = write!(out, "  \n`{digest}`");
    }
    out.push_str("\n\n");
}

fn findings(out: &mut String, audit: &AuditedImage) {
    if audit.findings.is_empty() {
        out.push_str("No findings.\n\n");
        return;
    }
    out.push_str("| | finding | rule |\n|---|---|---|\n");
    for finding in &audit.findings {
        let severity = match finding.severity {
            severity if finding.suppressed.is_some() => severity.name(),
            Severity::Error => "**error**",
            Severity::Warning => "**warning**",
            Severity::Note => "note",
        };
        let suppressed = finding.suppressed.as_ref().map_or("", |_| "suppressed ");
        let _ = writeln!(
            out,
            "| {suppressed}{severity} | {} | `{}` |",
            escape_markdown(&finding.message),
            finding.rule
        );
    }
    out.push('\n');
    for finding in &audit.findings {
        details(out, finding, &audit.facts);
    }
}

fn details(out: &mut String, finding: &Finding, facts: &ImageFacts) {
    let summary = escape_markdown(&finding.message);
    let _ = writeln!(
        out,
        "<details><summary><code>{}</code> {summary}</summary>\n",
        finding.rule
    );
    if let Some(suppressed) = &finding.suppressed {
        let _ = writeln!(
            out,
            "- **suppressed:** {}",
            escape_markdown(&suppression_words(suppressed))
        );
    }
    for location in &finding.locations {
        let layer = location
            .layer
            .map(|layer| escape_markdown(&layer_words(facts, layer)));
        let layer = layer.map(|layer| format!(", {layer}")).unwrap_or_default();
        let _ = writeln!(
            out,
            "- at {}{layer}",
            escape_markdown(&location.path.to_string())
        );
    }
    let _ = writeln!(out, "- **fix:** {}\n", escape_markdown(&finding.fix));
    let evidence: Vec<String> = finding.evidence.iter().map(Evidence::text).collect();
    if !evidence.is_empty() {
        let fence = fence(&evidence);
        let _ = writeln!(out, "{fence}text\n{}\n{fence}\n", evidence.join("\n"));
    }
    out.push_str("</details>\n\n");
}

fn phases(out: &mut String, audit: &AuditedImage) {
    out.push_str("| phase | verdict | because of | may go |\n|---|---|---|---|\n");
    for plan in &audit.plans {
        let because: Vec<String> = plan
            .because
            .iter()
            .map(|rule| format!("`{rule}`"))
            .collect();
        let drop = match plan.drop_bytes() {
            0 => String::new(),
            bytes => format!(
                "{} in {}",
                format_size(bytes),
                count_words(plan.drop.len(), "file")
            ),
        };
        let _ = writeln!(
            out,
            "| {} | {} | {} | {drop} |",
            escape_markdown(&plan.phase),
            plan.verdict.name(),
            because.join(", ")
        );
    }
    out.push('\n');
}

fn consumers(out: &mut String, facts: &ImageFacts) {
    if facts.consumers.is_empty() {
        return;
    }
    out.push_str("| program | asks for | gets |\n|---|---|---|\n");
    for consumer in &facts.consumers {
        let asks = match consumer.asks {
            RequestKind::Needed => "links",
            RequestKind::Dlopen => "opens",
        };
        let _ = writeln!(
            out,
            "| {} | {asks} {} | {} |",
            escape_markdown(&consumer.name),
            escape_markdown(&escape::escape_bytes(&consumer.wants)),
            escape_markdown(&consumer_outcome_words(consumer))
        );
    }
    out.push('\n');
}

/// A fence that no line of `lines` ends.
fn fence(lines: &[String]) -> String {
    let longest = |line: &String| line.split(|c| c != '`').map(str::len).max();
    let longest = lines.iter().filter_map(longest).max().unwrap_or(0);
    "`".repeat(longest.max(2) + 1)
}

/// Text that means itself: no markup (CommonMark, section 2.4), no link that begins with a protocol or `www`, and
/// neither a mention nor a reference, which are looked for in the text that is shown.
pub(super) fn escape_markdown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '|' | '~' | '&' | '$' => {
                out.push('\\');
                out.push(c);
            }
            '@' | '#' | '!' => {
                out.push('\\');
                out.push(c);
                out.push_str("<!-- -->");
            }
            '\n' | '\r' => out.push(' '),
            c => out.push(c),
        }
    }
    out.replace("://", "\\://").replace("www.", "www\\.")
}

#[cfg(test)]
mod tests {
    use super::{escape_markdown, fence};

    #[test]
    fn names_are_no_markup() {
        assert_eq!(escape_markdown("/usr/lib/a-b.so.1"), "/usr/lib/a-b.so.1");
        assert_eq!(escape_markdown("<b>|[x](y)"), "\\<b\\>\\|\\[x\\](y)");
        assert_eq!(
            escape_markdown("a@b https://c www.d"),
            "a\\@<!-- -->b https\\://c www\\.d"
        );
    }

    #[test]
    fn a_fence_is_longer_than_what_it_holds() {
        assert_eq!(fence(&["a".to_owned()]), "```");
        assert_eq!(fence(&["a ```` b".to_owned()]), "`````");
    }
}
