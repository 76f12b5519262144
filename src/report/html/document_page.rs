//! Renders a page of blocks as HTML, with the content of the text and Markdown forms.

use maud::{Markup, html};

use super::super::blocks::{Block, ReportPage, code_lines};
use super::super::text_layout::capital;
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
        let body = html! { section { (self.blocks()) } };
        let footer = concat!("cupti-audit ", env!("CARGO_PKG_VERSION"));
        whole_page(title.unwrap_or("cupti-audit"), "cupti-audit", &body, footer).into_string() + "\n"
    }

    /// The page without its frame.
    pub(super) fn blocks(&self) -> Markup {
        block_list(&self.0)
    }
}

fn block_list(blocks: &[Block<'_>]) -> Markup {
    html! { @for block in blocks { (block_markup(block)) } }
}

fn block_markup(block: &Block<'_>) -> Markup {
    match block {
        Block::Title(text) => html! { h2 { (text) } },
        Block::Answer(tone, text) => html! { h2.verdict.(tone.class()) { (text) } },
        Block::Heading(text) => html! { h3 { (capital(text)) } },
        Block::Caption(text) => html! { p { (capital(text)) ":" } },
        Block::Paragraph(_, text) | Block::Line(text) => html! { p { (text) } },
        Block::Table(columns, rows) => table(columns, rows),
        Block::Steps(steps) => html! { ol { @for step in *steps { li { (step) } } } },
        Block::HostConditions(conditions) => html! {
            ul { @for one in conditions { li { (one.says) " (" (one.certainty.name()) ": " (one.source) ")" } } }
        },
        Block::Command(source) => command(source),
        Block::Problem(tone, label, message) => html! {
            h4 { span.verdict.(tone.class()) { (label) } ": " (message) }
        },
        Block::Code(_, code) => html! { pre { code { @for line in code_lines(code) { (line) "\n" } } } },
        Block::Gaps(facts) => html! {
            @if !facts.gaps.is_empty() {
                h3 { "Not checked" }
                ul { @for gap in &facts.gaps { li { (gap.what) ": " (gap.why) } } }
            }
        },
        Block::List(texts) => html! { ul { @for text in texts { li { (text) } } } },
        Block::Details(summary, blocks) => html! { details { summary { (capital(summary)) } (block_list(blocks)) } },
        Block::Links(pages) => links(pages),
        Block::HtmlOnly(blocks) => block_list(blocks),
        Block::TextLines(_) | Block::TextOnly(_) => html! {},
    }
}

fn command(source: &InstallSource) -> Markup {
    html! {
        p { (source.whose) " (" (source.certainty.name()) "): " (source.brings) }
        pre { code { (source.command) } }
    }
}

fn links(pages: &[String]) -> Markup {
    // A user's rule may contain any reference. Only web pages become links, which excludes `javascript:`.
    let is_page = |reference: &&String| reference.starts_with("https://") || reference.starts_with("http://");
    html! {
        ul { @for page in pages.iter().filter(is_page) {
            // The report may be on an internal server, whose address must not leak.
            li { a href=(page) rel="noreferrer" { (page) } }
        } }
    }
}
