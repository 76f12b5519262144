//! Renders the bytes of an image's files as bars: by group, and the GPU code by architecture.
//!
//! Each bar stands beside its size and share as text. So the page needs neither colours nor a picture.

use maud::{Markup, html};

use super::super::text_layout::capital;
use crate::facts::weight::weight_groups::{GroupWeight, ImageWeight};
use crate::size::{count_words, format_size};

/// The maximum number of groups, and of kinds of code. An image has about 25, and a hostile one thousands.
const ROWS: usize = 40;

/// The part of a page about the bytes of an image.
pub(super) fn weight_section(weight: &ImageWeight) -> Markup {
    let bytes = weight.bytes();
    let code = weight
        .gpu_code
        .values()
        .fold(0, |sum: u64, more| sum.saturating_add(*more));
    let groups = weight.groups.iter().take(ROWS);
    let (small, large): (Vec<&GroupWeight>, Vec<&GroupWeight>) =
        groups.partition(|group| tenths(group.bytes, bytes) < 10);
    html! {
        @if bytes > 0 {
            h3 { "Where the bytes are" }
            p { "All files: " (format_size(bytes)) ". Hard links to one file count once." }
            (bar_table("group", &group_rows(&large, bytes)))
            @if !small.is_empty() {
                details {
                    summary { (capital(&count_words(small.len(), "group"))) " below 1 %" }
                    (bar_table("group", &group_rows(&small, bytes)))
                }
            }
            @if let Some(more @ 1..) = weight.groups.len().checked_sub(ROWS) {
                p { "And " (count_words(more, "smaller group")) "." }
            }
        }
        @if code > 0 {
            h3 { "GPU code by architecture" }
            p {
                "All objects: " (format_size(code)) ". " code { "sm_" } " is machine code. " code { "compute_" }
                " is PTX, which the driver compiles. A GPU needs only the code that fits it."
                @if weight.gpu_code_is_partial { " Some objects have more code, which was not read." }
            }
            @let kinds = weight.gpu_code.iter().take(ROWS);
            (bar_table("architecture", &kinds.map(|(kind, bytes)| {
                bar_row(*bytes, code, &html! { code { (kind) } }, &html! {})
            }).collect::<Vec<_>>()))
            @if let Some(more @ 1..) = weight.gpu_code.len().checked_sub(ROWS) {
                p { "And " (count_words(more, "other kind")) "." }
            }
        }
    }
}

fn group_rows(groups: &[&GroupWeight], all: u64) -> Vec<Markup> {
    groups.iter().map(|group| group_row(group, all)).collect()
}

/// The row of a group: why it stays, and what would make it smaller.
fn group_row(group: &GroupWeight, all: u64) -> Markup {
    let reasons = capital(&group.reasons.join("; "));
    let about = html! {
        @if !reasons.is_empty() || group.smaller.is_some() {
            div.about {
                @if !reasons.is_empty() { (coded(&reasons)) ". " }
                @if let Some(smaller) = group.smaller { "To make it smaller: " (coded(smaller)) "." }
            }
        }
    };
    bar_row(group.bytes, all, &html! { b { (group.what) } }, &about)
}

/// A text with its parts between backquotes as code.
fn coded(text: &str) -> Markup {
    html! {
        @for (number, part) in text.split('`').enumerate() {
            @if number % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}

fn bar_table(column: &str, rows: &[Markup]) -> Markup {
    html! {
        table.bars {
            thead {
                tr { th.short scope="col" { "size" } th.short scope="col" { "share" } th scope="col" { (column) } }
            }
            tbody { @for row in rows { (row) } }
        }
    }
}

fn bar_row(bytes: u64, all: u64, name: &Markup, about: &Markup) -> Markup {
    let tenths = tenths(bytes, all);
    let percent = match tenths {
        0..10 => "< 1 %".to_owned(),
        _ => format!("{} %", tenths / 10),
    };
    html! {
        tr {
            td.short { (format_size(bytes)) }
            td.short { (percent) }
            td {
                (name)
                div.bar aria-hidden="true" { div style={ "width:" (tenths / 10) "." (tenths % 10) "%" } {} }
                (about)
            }
        }
    }
}

/// The tenths of a percent.
fn tenths(bytes: u64, all: u64) -> u64 {
    bytes
        .saturating_mul(1000)
        .checked_div(all)
        .unwrap_or_default()
        .min(1000)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use gpu_code::{ArchitectureSuffix, CodeForm, CodeKind, GpuArchitecture};

    use super::weight_section;
    use crate::facts::weight::weight_groups::{GroupWeight, ImageWeight};

    /// The lines of the page as text, and the widths of the bars.
    fn lines(weight: &ImageWeight) -> Vec<String> {
        let page = weight_section(weight)
            .into_string()
            .replace("<div style=\"", "<br>")
            .replace("%\">", "%<br>");
        let parts = page
            .split('<')
            .filter_map(|part| part.split_once('>').map(|(_, text)| text));
        parts
            .filter(|text| !text.trim().is_empty())
            .map(str::to_owned)
            .collect()
    }

    #[test]
    fn every_bar_has_its_numbers_as_text() {
        let group = |id: &str, bytes: u64, smaller: Option<&'static str>| GroupWeight {
            id: id.to_owned(),
            what: id.to_owned(),
            bytes,
            files: 1,
            reasons: smaller.iter().map(|_| "it is used".to_owned()).collect(),
            smaller,
        };
        let kind = |number, suffix, form| CodeKind {
            architecture: GpuArchitecture::new(number).unwrap(),
            suffix,
            form,
        };
        let weight = ImageWeight {
            groups: vec![group("large", 9950, Some("use `a`")), group("<b>", 50, None)],
            gpu_code: BTreeMap::from([
                (kind(90, ArchitectureSuffix::Exact, CodeForm::Cubin), 300),
                (kind(90, ArchitectureSuffix::None, CodeForm::Ptx), 100),
            ]),
            gpu_code_is_partial: true,
        };
        let large = [
            "9.9 kB",
            "99 %",
            "large",
            "width:99.5%",
            "It is used. To make it smaller: use ",
            "a",
            ".",
        ];
        let small = [
            "1 group below 1 %",
            "size",
            "share",
            "group",
            "50 B",
            "&lt; 1 %",
            "&lt;b&gt;",
            "width:0.5%",
        ];
        let code = [
            "100 B",
            "25 %",
            "compute_90",
            "width:25.0%",
            "300 B",
            "75 %",
            "sm_90a",
            "width:75.0%",
        ];
        let found = lines(&weight).join("|");
        for expected in [
            &large[..],
            &small,
            &code,
            &["Some objects have more code, which was not read."],
        ] {
            assert!(found.contains(&expected.join("|")), "{found}");
        }
        let empty = ImageWeight {
            groups: Vec::new(),
            gpu_code: BTreeMap::new(),
            gpu_code_is_partial: false,
        };
        assert_eq!(lines(&empty), [""; 0]);
    }
}
