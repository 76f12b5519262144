//! Names from an image as Markdown that means the name.

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

#[cfg(test)]
mod tests {
    use super::escape_markdown;

    #[test]
    fn names_are_no_markup() {
        assert_eq!(escape_markdown("/usr/lib/a-b.so.1"), "/usr/lib/a-b.so.1");
        assert_eq!(escape_markdown("<b>|[x](y)"), "\\<b\\>\\|\\[x\\](y)");
        assert_eq!(
            escape_markdown("a@b https://c www.d"),
            "a\\@<!-- -->b https\\://c www\\.d"
        );
    }
}
