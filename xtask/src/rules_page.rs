//! The documentation page of the rules.

use std::fmt::Write as _;

use cupti_audit::judge::rule::Rule;
use cupti_audit::knowledge::Phase;
use cupti_audit::report::rules::{UNASKED, cure_words, phase_cell, raise_words, unasked_cell};

/// The start of the rules page.
const HEAD: &str = "\
<!-- Generated from rules/*.yaml by `cargo xtask docs`; `cargo xtask docs --check` compares. Edit the rules. -->
# Rules

Each rule finds one problem. `cupti-audit rules` lists them, `cupti-audit explain ID` explains one.

The table shows the severity of a finding for each phase, and without `--phase`. With several phases, the highest
severity counts. *off* means that the rule reports nothing. *warning to error* means that a finding is usually a
warning; the section of the rule says when it is an error.

In each section, **Message** is the text of the finding. A name such as `<path>` stands for a value from the image.
Some messages are shown as an example instead.

";

/// The rules as a documentation page in Markdown.
pub fn rules_page(rules: &[Rule], phases: &[Phase]) -> String {
    let names = phases.iter().map(|phase| phase.name.as_str());
    let columns: Vec<&str> = ["rule", UNASKED].into_iter().chain(names).collect();
    let line = "---|".repeat(columns.len());
    let mut out = format!("{HEAD}| {} |\n|{line}\n", columns.join(" | "));
    for rule in rules {
        let of = phases.iter().map(|phase| phase_cell(rule, phase));
        let fixed = [format!("[{0}](#{0})", rule.id), unasked_cell(rule)];
        let cells: Vec<String> = fixed.into_iter().chain(of).collect();
        let _ = writeln!(out, "| {} |", cells.join(" | "));
    }
    for rule in rules {
        section(&mut out, rule, phases);
    }
    out
}

fn section(out: &mut String, rule: &Rule, phases: &[Phase]) {
    let _ = writeln!(out, "\n## {}\n\n**Finds:** {}.\n", rule.id, rule.summary);
    let raises = raise_words(rule, phases);
    for raise in &raises {
        let _ = writeln!(out, "- {raise}");
    }
    if !raises.is_empty() {
        out.push('\n');
    }
    let message = rule.message.with_field_names();
    if has_own_words(&message) {
        let _ = writeln!(out, "**Message:** {}\n", in_code(&message));
    }
    let _ = writeln!(out, "**Why:** {}\n", in_code(&rule.why));
    let _ = writeln!(out, "**Fix:** {}\n", in_code(&rule.fix.with_field_names()));
    if let Some(cure) = rule.cured_by {
        let _ = writeln!(out, "**Or run:** {}.\n", cure_words(cure));
    }
    for reference in &rule.references {
        let _ = writeln!(out, "- <{reference}>");
    }
}

/// Whether a message has words besides its fields in angle brackets.
fn has_own_words(message: &str) -> bool {
    let outside = |piece: &str| {
        piece
            .split_once('>')
            .map_or(piece.to_owned(), |(_, rest)| rest.to_owned())
    };
    message
        .split('<')
        .map(outside)
        .any(|text| text.contains(char::is_alphabetic))
}

/// Marks text in angle brackets as code, so that Markdown readers do not treat it as a tag.
fn in_code(text: &str) -> String {
    // An unmatched bracket is a comparison, as in `cuda>=12`.
    let mut pieces = text.split('<');
    let first = pieces.next().unwrap_or_default().to_owned();
    pieces.fold(first, |out, piece| match piece.split_once('>') {
        Some((field, rest)) => format!("{out}`<{field}>`{rest}"),
        None => format!("{out}<{piece}"),
    })
}
