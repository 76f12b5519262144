//! Lays out a page as HTML. Tables that are too wide for a phone are stacked there.

use maud::{Markup, html};

use super::super::page::{Block, Page, Table};
use super::super::page_text::code_lines;
use super::super::text_layout::capital;
use super::whole_page;

/// The maximum length of a cell that is never wrapped: a size, a platform, a verdict.
const SHORT: usize = 20;

/// The number of characters in a line on a phone.
const PHONE: usize = 40;

impl Page {
    /// The page as self-contained HTML.
    pub(crate) fn html(&self) -> String {
        let title = self.0.iter().find_map(|block| match block {
            Block::Title(text) | Block::Verdict(_, text) => Some(text.as_str()),
            _ => None,
        });
        let body = html! { section { (self.blocks()) } };
        let footer = concat!("cupti-audit ", env!("CARGO_PKG_VERSION"));
        whole_page(title.unwrap_or("cupti-audit"), "cupti-audit", &body, footer).into_string() + "\n"
    }

    /// The page without its frame.
    pub(super) fn blocks(&self) -> Markup {
        block_list(&self.0)
    }
}

fn block_list(blocks: &[Block]) -> Markup {
    html! { @for block in blocks { (block_markup(block)) } }
}

fn block_markup(block: &Block) -> Markup {
    match block {
        Block::Title(text) => html! { h2 { (text) } },
        Block::Verdict(tone, text) => html! { h2.verdict.(tone.class()) { (text) } },
        Block::Subject(name, about, digest) => html! {
            p { (name) @for fact in about.iter().chain(digest) { " · " (fact) } }
        },
        Block::Section(title, blocks) => html! { h3 { (capital(&title.plain())) } (block_list(blocks)) },
        Block::Entry(entry) => html! {
            h4 {
                @if let Some((tone, label)) = &entry.label { span.verdict.(tone.class()) { (label) } ": " }
                (entry.message.plain())
            }
            (block_list(&entry.blocks))
        },
        Block::Table(table) => table_markup(table),
        Block::List(texts) => html! { ul { @for text in texts { li { (text) } } } },
        Block::Steps(steps) => html! { ol { @for step in steps { li { (step) } } } },
        Block::Text(text) => html! { p { (text.plain()) } },
        Block::Code(_, code) => html! { pre { code { @for line in code_lines(code) { (line) "\n" } } } },
        Block::Folded(title, blocks) => html! { details { summary { (capital(title)) } (block_list(blocks)) } },
        Block::Command(label, command) => html! {
            h3 { (capital(label)) } (block_markup(&Block::Code("sh", command.clone())))
        },
        Block::Links(pages) => links(pages),
        Block::Findings(_) | Block::Fact(..) | Block::Search(..) => html! {},
    }
}

fn links(pages: &[String]) -> Markup {
    // A user's rule may contain any reference. Only web pages become links, which excludes `javascript:`.
    let pages = pages
        .iter()
        .filter(|page| page.starts_with("https://") || page.starts_with("http://"));
    html! {
        ul { @for page in pages {
            // The report may be on an internal server, whose address must not leak.
            li { a href=(page) rel="noreferrer" { (page) } }
        } }
    }
}

/// A table. If it is too wide for a phone, its cells are stacked there, each after its column name.
fn table_markup(table: &Table) -> Markup {
    let mut width = 0;
    for (at, column) in table.columns.iter().enumerate() {
        let cells = table.rows.iter().filter_map(|row| row.get(at)).map(String::as_str);
        width += cells
            .chain([*column])
            .map(|text| text.chars().count())
            .max()
            .unwrap_or_default();
    }
    html! {
        div.wide tabindex="0" {
            table.stacks[width > PHONE] {
                thead { tr { @for column in &table.columns { th { (column) } } } }
                tbody {
                    @for row in &table.rows {
                        tr { @for (column, cell) in table.columns.iter().zip(row) { (table_cell(column, cell)) } }
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
