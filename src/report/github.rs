//! Annotations of GitHub Actions: the verdict for the log, then one workflow command per finding that counts.
//!
//! See GitHub, "Workflow commands for GitHub Actions"; escaping follows the runner's `ActionCommand`.

use std::fmt::Write as _;
use std::io;
use std::iter;

use super::command::assumption_words;
use super::pages::build_file::{CheckedFiles, file_name};
use super::text_layout::joined;
use super::words::{ReportTone, fix_words, gap_words, image_name, layer_words};
use super::writer::ReportWriter;
use crate::facts::ImageFacts;
use crate::judge::outcome::{AuditedImage, UnreadImage};
use crate::judge::rule::{Finding, Severity};
use image_linkage::escape;

/// Annotations of the run; the worst of each image comes first.
pub(crate) struct GitHubAnnotations;

impl ReportWriter for GitHubAnnotations {
    fn audited(&mut self, audit: &AuditedImage) -> String {
        let facts = &audit.facts;
        let image = image_name(facts);
        let verdict = log_line(&format!(
            "{} {} ({image})",
            ReportTone::of_image(audit).mark(),
            audit.verdict()
        ));
        let findings = audit.counting().map(|finding| {
            let title = format!("{}: {image}", finding.rule);
            annotation(level(finding), &[("title", title)], &words(finding, facts))
        });
        let gaps = gap_words(facts).map(|gap| annotation("warning", &[("title", image.clone())], &gap));
        // Under --strict assumptions fail the run, like gaps.
        let command = if audit.is_strict { "warning" } else { "notice" };
        let assumptions = facts.answers.assumptions.iter().map(|assumption| {
            let title = format!("assumed: {image}");
            annotation(command, &[("title", title)], &assumption_words(assumption))
        });
        iter::once(verdict)
            .chain(findings)
            .chain(gaps)
            .chain(assumptions)
            .collect()
    }

    /// Each finding at its line.
    fn file_check(&self, checked: &CheckedFiles<'_>) -> io::Result<String> {
        let mut out = String::new();
        for check in checked.files {
            for found in check.counting() {
                let finding = &found.finding;
                let place = [
                    ("file", file_name(check)),
                    ("line", found.lines.0.to_string()),
                    ("endLine", found.lines.1.to_string()),
                    ("title", finding.rule.clone()),
                ];
                let words = format!("{}\nfix: {}", finding.message, finding.fix);
                out += &annotation(level(finding), &place, &words);
            }
        }
        Ok(out)
    }

    fn unread(&mut self, unread: &UnreadImage) -> String {
        let image = escape::escape_bytes(unread.image.as_bytes());
        annotation("error", &[("title", image)], &format!("not audited: {}", unread.why))
    }
}

/// GitHub's name of the severity.
fn level(finding: &Finding) -> &'static str {
    match finding.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "notice",
    }
}

fn words(finding: &Finding, facts: &ImageFacts) -> String {
    let mut words = finding.message.clone();
    for location in &finding.locations {
        let _ = write!(words, "\nat {}", location.path);
        if let Some(layer) = location.layer {
            let _ = write!(words, " in {}", layer_words(facts, layer));
        }
    }
    let _ = write!(words, "\nfix: {}", fix_words(finding));
    words
}

fn annotation(command: &str, place: &[(&str, String)], words: &str) -> String {
    let place = place.iter().map(|(name, value)| format!("{name}={}", property(value)));
    format!("::{command} {}::{}\n", joined(place, ","), message(words))
}

/// A line of the log; the runner takes the older form of a command anywhere in a line.
fn log_line(text: &str) -> String {
    text.replace("##[", "## [") + "\n"
}

fn message(text: &str) -> String {
    // The percent sign is replaced first; later it would escape the other escapes.
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

fn property(text: &str) -> String {
    // A comma ends a property, and a colon ends the list.
    message(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::{annotation, log_line};

    #[test]
    fn a_name_in_the_log_is_no_command() {
        assert_eq!(log_line("✓ CUPTI loads: a##[error]b"), "✓ CUPTI loads: a## [error]b\n");
    }

    #[test]
    fn a_name_cannot_end_the_title_or_the_line() {
        assert_eq!(
            annotation("error", &[("title", "a:b,c::d%3A".to_owned())], "50%\r\n::error::x"),
            "::error title=a%3Ab%2Cc%3A%3Ad%253A::50%25%0D%0A::error::x\n"
        );
    }
}
