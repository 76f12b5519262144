//! The texts of `Dockerfile.templates/`, which `build.rs` embeds in the program. They have values, and no conditions.

use std::collections::BTreeSet;

use crate::knowledge::data_files::TEMPLATES;

/// A template with its values. A value stands as `@name@` in the text. Alone on a line, it is a block with the
/// indentation of that line, and an empty block takes no line.
pub(crate) fn fill_template(name: &str, values: &[(&str, String)]) -> String {
    let mut templates = TEMPLATES.iter();
    let text = templates
        .find(|(stem, ..)| *stem == name)
        .map_or("", |(_, text, _)| *text);
    let named: BTreeSet<&str> = text.split('@').skip(1).step_by(2).collect();
    let given: BTreeSet<&str> = values.iter().map(|(name, _)| *name).collect();
    debug_assert_eq!(named, given, "the values of {name}.in");
    text.lines().map(|line| fill_line(line, values)).collect()
}

fn value_of<'v>(name: &str, values: &'v [(&str, String)]) -> &'v str {
    let found = values.iter().find(|(key, _)| *key == name);
    found.map_or("", |(_, value)| value.as_str())
}

fn fill_line(line: &str, values: &[(&str, String)]) -> String {
    let words = line.trim_start();
    let alone = words.strip_prefix('@').and_then(|rest| rest.strip_suffix('@'));
    if let Some(name) = alone.filter(|name| !name.contains('@')) {
        return indent_lines(value_of(name, values), line.len() - words.len());
    }
    // Values are not searched for names: the name of an image may contain `@`.
    let parts = line.split('@').enumerate();
    let filled: String = parts
        .map(|(number, part)| if number % 2 == 1 { value_of(part, values) } else { part })
        .collect();
    filled + "\n"
}

/// The lines of a block, each after `width` spaces.
pub(crate) fn indent_lines(block: &str, width: usize) -> String {
    let indent = " ".repeat(width);
    block.lines().flat_map(|line| [&*indent, line, "\n"]).collect()
}

/// The text without repeated or leading empty lines and without trailing spaces.
pub(crate) fn tidy(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    // A part begins with an empty line, and an omitted part leaves the empty lines around it.
    let mut empty = true;
    for line in text.lines().map(str::trim_end) {
        if !(line.is_empty() && empty) {
            out.push_str(line);
            out.push('\n');
        }
        empty = line.is_empty();
    }
    while out.ends_with("\n\n") {
        out.pop();
    }
    out
}
