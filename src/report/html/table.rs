//! Renders the tables of all pages.

use maud::{Markup, html};

use super::super::blocks::TableRow;

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
