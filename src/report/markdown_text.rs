//! Building blocks of Markdown pages: escaped names, lists, tables, fences.

use std::fmt::Write as _;

use super::text_layout::joined;

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

/// A list of plain texts.
pub(super) fn bullet_list(texts: impl Iterator<Item = String>) -> String {
    joined(texts.map(|text| format!("- {}\n", escape_markdown(&text))), "")
}

/// A table whose cells are already Markdown.
pub(super) fn markdown_table<R: IntoIterator<Item = String>>(
    columns: &[&str],
    rows: impl Iterator<Item = R>,
) -> String {
    let names = columns.iter().map(|name| match *name {
        // An unnamed column still needs a header cell: a header with fewer cells than the next line is not a table
        // (GitHub Flavored Markdown, section 4.10).
        "" => " |".to_owned(),
        name => format!(" {name} |"),
    });
    let head: String = names.collect();
    let mut out = format!("|{head}\n|{}\n", "---|".repeat(columns.len()));
    for row in rows {
        let _ = writeln!(out, "| {} |", joined(row, " | "));
    }
    out
}

/// A fence that is longer than any in `lines`.
pub(super) fn fence(lines: &[String]) -> String {
    let longest = |line: &String| line.split(|c| c != '`').map(str::len).max();
    let longest = lines.iter().filter_map(longest).max().unwrap_or(0);
    "`".repeat(longest.max(2) + 1)
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
