//! What pages in Markdown are made of: names that mean themselves, lists, tables, fences.

use std::fmt::Write as _;

use super::text_layout::joined;

/// Text that means itself: no markup (CommonMark, section 2.4), no link that begins with a protocol or `www`, and
/// neither a mention nor a reference.
pub(super) fn escape_markdown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '|' | '~' | '&' | '$' => {
                out.push('\\');
                out.push(c);
            }
            // GitHub and GitLab look for mentions (@) and references (# and !) in what is shown, so that a backslash
            // alone, which is not shown, does not hide them; an empty comment behind the sign does.
            '@' | '#' | '!' => {
                out.push('\\');
                out.push(c);
                out.push_str("<!-- -->");
            }
            // A line break would end the table row or the list item that the text stands in.
            '\n' | '\r' => out.push(' '),
            c => out.push(c),
        }
    }
    out.replace("://", "\\://").replace("www.", "www\\.")
}

/// A list of texts that are no Markdown yet.
pub(super) fn bullet_list(texts: impl Iterator<Item = String>) -> String {
    joined(texts.map(|text| format!("- {}\n", escape_markdown(&text))), "")
}

/// A table of cells that are Markdown already.
pub(super) fn markdown_table<R: IntoIterator<Item = String>>(
    columns: &[&str],
    rows: impl Iterator<Item = R>,
) -> String {
    let names = columns.iter().map(|name| match *name {
        // A column without a name keeps its cell: a head with fewer cells than the line below it makes no table (GitHub
        // Flavored Markdown, section 4.10).
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

/// A fence that no line of `lines` ends.
pub(super) fn fence(lines: &[String]) -> String {
    let longest = |line: &String| line.split(|c| c != '`').map(str::len).max();
    let longest = lines.iter().filter_map(longest).max().unwrap_or(0);
    "`".repeat(longest.max(2) + 1)
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
