//! Markdown with tables in the style of GitHub and GitLab, for a pull request comment or a job summary.

use std::fmt::Write as _;
use std::io;

use super::page::{Block, Page, Table};
use super::page_text::code_lines;
use super::pages::build_file::{CheckedFiles, check_page};
use super::pages::image::{image_page, unread_page};
use super::text_layout::{capital, joined};
use super::writer::ReportWriter;
use crate::judge::outcome::{AuditedImage, UnreadImage};

/// All images in sequence, each under a heading, with an empty line between them.
pub(crate) struct MarkdownReport;

impl ReportWriter for MarkdownReport {
    fn audited(&mut self, audit: &AuditedImage) -> String {
        image_page(audit, None).markdown() + "\n"
    }

    fn file_check(&self, checked: &CheckedFiles<'_>) -> io::Result<String> {
        Ok(check_page(checked, false).markdown())
    }

    fn unread(&mut self, unread: &UnreadImage) -> String {
        unread_page(unread).markdown() + "\n"
    }
}

impl Page {
    /// The page in Markdown.
    pub(crate) fn markdown(&self) -> String {
        markdown_blocks(&self.0)
    }
}

/// The blocks, each of which ends with a newline, and an empty line between them.
fn markdown_blocks(blocks: &[Block]) -> String {
    joined(blocks.iter().filter_map(Block::markdown), "\n")
}

/// A heading or a message, and the blocks below it.
fn headed(head: &str, blocks: &[Block]) -> String {
    match markdown_blocks(blocks).as_str() {
        "" => format!("{head}\n"),
        below => format!("{head}\n\n{below}"),
    }
}

impl Block {
    fn markdown(&self) -> Option<String> {
        Some(match self {
            Self::Title(text) | Self::Verdict(_, text) => format!("## {}\n", escape_markdown(text)),
            Self::Subject(name, about, digest) => {
                let words = [name].into_iter().chain(about).chain(digest).map(String::as_str);
                escape_markdown(&joined(words, " · ")) + "\n"
            }
            Self::Section(title, blocks) => {
                let title = escape_markdown(&capital(&title.plain()));
                headed(&format!("### {title}"), blocks)
            }
            Self::Entry(entry) => {
                let label = entry.label.iter().map(|(_, label)| format!("{label}: "));
                let message = label.collect::<String>() + &entry.message.plain();
                headed(&format!("**{}**", escape_markdown(&message)), &entry.blocks)
            }
            Self::Table(table) => markdown_table(table),
            Self::List(texts) => joined(texts.iter().map(|text| format!("- {}\n", escape_markdown(text))), ""),
            Self::Steps(steps) => {
                let steps = (1..).zip(steps);
                joined(
                    steps.map(|(number, step)| format!("{number}. {}\n", escape_markdown(step))),
                    "",
                )
            }
            Self::Text(text) => escape_markdown(&text.plain()) + "\n",
            Self::Code(language, code) => {
                let lines: Vec<String> = code_lines(code).collect();
                let fence = fence(&lines);
                format!("{fence}{language}\n{}\n{fence}\n", lines.join("\n"))
            }
            // The empty lines end the HTML blocks (CommonMark, section 4.6), so Markdown works between them.
            Self::Folded(title, blocks) => {
                let blocks = markdown_blocks(blocks);
                format!("<details><summary>{title}</summary>\n\n{blocks}\n</details>\n")
            }
            Self::Command(label, command) => {
                let code = Self::Code("sh", command.clone());
                headed(&format!("### {}", capital(label)), &[code])
            }
            Self::Links(_) | Self::Findings(_) | Self::Fact(..) | Self::Search(..) => return None,
        })
    }
}

fn markdown_table(table: &Table) -> String {
    let mut out = "|".to_owned();
    for column in &table.columns {
        // An unnamed column still needs a header cell: a header with fewer cells than the next line is not a table
        // (GitHub Flavored Markdown, section 4.10).
        out += if column.is_empty() { "" } else { " " };
        out += column;
        out += " |";
    }
    let _ = writeln!(out, "\n|{}", "---|".repeat(table.columns.len()));
    for row in &table.rows {
        let cells = row.iter().take(table.columns.len()).map(|cell| escape_markdown(cell));
        let _ = writeln!(out, "| {} |", joined(cells, " | "));
    }
    out
}

/// Escapes text: no markup (CommonMark, section 2.4), no links from a protocol or `www`, no mentions and no references.
pub(super) fn escape_markdown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '|' | '~' | '&' | '$' => {
                out.push('\\');
                out.push(c);
            }
            // GitHub and GitLab search the rendered text for mentions (@) and references (# and !). A backslash
            // disappears in rendering, so an empty comment follows the sign.
            '@' | '#' | '!' => {
                out.push('\\');
                out.push(c);
                out.push_str("<!-- -->");
            }
            // A line break would end the table row or list item.
            '\n' | '\r' => out.push(' '),
            c => out.push(c),
        }
    }
    out.replace("://", "\\://").replace("www.", "www\\.")
}

/// A fence that is longer than any in `lines`.
fn fence(lines: &[String]) -> String {
    let runs = lines.iter().flat_map(|line| line.split(|c| c != '`'));
    "`".repeat(runs.map(str::len).fold(2, usize::max) + 1)
}

#[cfg(test)]
mod tests {
    use super::{escape_markdown, fence};

    #[test]
    fn names_are_never_markup() {
        assert_eq!(escape_markdown("/usr/lib/a-b.so.1"), "/usr/lib/a-b.so.1");
        assert_eq!(escape_markdown("<b>|[x](y)"), "\\<b\\>\\|\\[x\\](y)");
        assert_eq!(
            escape_markdown("a@b https://c www.d"),
            "a\\@<!-- -->b https\\://c www\\.d"
        );
    }

    #[test]
    fn a_fence_is_longer_than_any_in_its_text() {
        assert_eq!(fence(&["a".to_owned()]), "```");
        assert_eq!(fence(&["a ```` b".to_owned()]), "`````");
    }
}
