//! Renders a page of blocks as HTML, with the content of the text and Markdown forms.

use maud::{Markup, html};

use super::super::blocks::{Block, ReportPage, code_lines};
use super::super::text_layout::capital;
use super::image_section::gaps;
use super::table::table;
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

fn command(source: &InstallSource) -> Markup {
    html! {
        p { (source.whose) " (" (source.certainty.name()) "): " (source.brings) }
        pre { code { (source.command) } }
    }
}
