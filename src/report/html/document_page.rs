//! Renders a page of blocks as HTML, with the content of the text and Markdown forms.

use maud::{Markup, html};

use super::super::blocks::{Block, ReportPage, TableRow, code_lines};
use super::super::text_layout::capital;
use super::image_section::gaps;
use super::whole_page;
use crate::knowledge::advice::InstallSource;

impl ReportPage<'_> {
    /// The page as self-contained HTML.
    pub(crate) fn html(&self) -> String {
        let title = self.0.iter().find_map(|block| match block {
            Block::Title(text) | Block::Answer(_, text) => Some(text.as_str()),
            _ => None,
        });
        let body = html! { section { @for block in &self.0 { (block_markup(block)) } } };
        let footer = concat!("cupti-audit ", env!("CARGO_PKG_VERSION"));
        whole_page(title.unwrap_or("cupti-audit"), "cupti-audit", &body, footer).into_string() + "\n"
    }
}

fn block_markup(block: &Block<'_>) -> Markup {
    match block {
        Block::Title(text) => html! { h2 { (text) } },
        Block::Answer(tone, text) => html! { p.verdict.(tone.class()) { (text) } },
        Block::Heading(text) => html! { h3 { (capital(text)) } },
        Block::Caption(text) => html! { p { (capital(text)) ":" } },
        Block::Paragraph(_, text) | Block::Line(text) => html! { p { (text) } },
        Block::Table(columns, rows) => table(columns, rows),
        Block::Steps(steps) => html! { ol { @for step in *steps { li { (step) } } } },
        Block::HostConditions(conditions) => html! {
            ul { @for one in conditions { li { (one.says) " (" (one.certainty.name()) ": " (one.source) ")" } } }
        },
        Block::Command(source) => command(source),
        Block::Styled { plain, .. } => html! { h4 { (plain) } },
        Block::Code(code) => html! { pre { code { @for line in code_lines(code) { (line) "\n" } } } },
        Block::Gaps(facts) => gaps(facts),
        Block::TextLines(_) | Block::TextOnly(_) => html! {},
    }
}

/// The maximum length of a cell that is never wrapped: a size, a platform, a verdict.
const SHORT: usize = 20;

/// The number of characters in a line on a phone.
const PHONE: usize = 40;

/// A table. If it is too wide for a phone, its cells are stacked there, each after its column name.
pub(super) fn table(columns: &[&str], rows: &[TableRow]) -> Markup {
    let widths = columns.iter().enumerate().map(|(at, column)| {
        let cells = rows.iter().filter_map(|row| row.cells.get(at));
        let texts = cells.map(String::as_str).chain([*column]);
        texts.map(|text| text.chars().count()).max().unwrap_or_default()
    });
    let stacks = widths.sum::<usize>() > PHONE;
    html! {
        div.wide tabindex="0" {
            table.stacks[stacks] {
                thead { tr { @for column in columns { th { (column) } } } }
                tbody {
                    @for row in rows {
                        tr { @for (column, cell) in columns.iter().zip(&row.cells) { (table_cell(column, cell)) } }
                    }
                }
            }
        }
    }
}

/// A cell that wraps only between words; a path may wrap after a slash.
fn table_cell(column: &str, text: &str) -> Markup {
    if text.chars().count() <= SHORT {
        return html! { td.short data-column=(column) { (text) } };
    }
    html! { td data-column=(column) { @for part in text.split_inclusive('/') { (part) wbr; } } }
}

fn command(source: &InstallSource) -> Markup {
    html! {
        p { (source.whose) " (" (source.certainty.name()) "): " (source.brings) }
        pre { code { (source.command) } }
    }
}
