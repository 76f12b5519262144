//! Writes one self-contained HTML page: no scripts, fonts or network.
//!
//! `maud` escapes all text, and text from an image was already [escaped](image_linkage::escape). A policy in the head
//! prevents the browser from loading or running anything.

mod page;
mod weight;

use std::io;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use self::weight::weight_section;
use super::pages::build_file::{CheckedFiles, check_page};
use super::pages::image::{RulesById, image_page, unread_page};
use super::words::{ReportTone, image_name, platform_name};
use super::writer::ReportWriter;
use crate::judge::outcome::{AuditedImage, RunExit, UnreadImage};
use crate::judge::rule::Rule;
use image_linkage::escape;

const STYLE: &str = include_str!("style.css");
/// Forbids loading and scripts. The inline style sheet needs `unsafe-inline`.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// An image in the list at the top of the page.
struct ImageEntry {
    tone: ReportTone,
    image: String,
    platform: String,
    verdict: String,
}

/// One page for all images.
pub(crate) struct HtmlReport {
    rules: RulesById,
    /// The name of the audited library.
    library: String,
    summary: Vec<ImageEntry>,
    /// The sections as text, so that no image stays in memory while the next is read.
    sections: Vec<String>,
}

impl HtmlReport {
    /// An empty page for a run with these rules and this library.
    pub(crate) fn new(rules: &[Rule], library: &str) -> Self {
        Self {
            rules: rules.iter().map(|rule| (rule.id.clone(), rule.clone())).collect(),
            library: library.to_owned(),
            summary: Vec::new(),
            sections: Vec::new(),
        }
    }

    fn add(&mut self, section: &Markup, entry: ImageEntry) {
        let number = self.sections.len() + 1;
        let section = html! { section id={ "image-" (number) } { (section) } };
        self.sections.push(section.into_string());
        self.summary.push(entry);
    }

    fn page(&self, exit: RunExit) -> Markup {
        let title = match self.summary.as_slice() {
            [only] => format!("{} in {}", self.library, only.image),
            images => format!("{} in {} images", self.library, images.len()),
        };
        let footer = format!(
            "cupti-audit {}, exit code {}: {}",
            env!("CARGO_PKG_VERSION"),
            exit as u8,
            exit.words()
        );
        let heading = format!("{} audit", self.library);
        // A list of one image would repeat its verdict. The sections are already escaped.
        let body = html! {
            @if self.summary.len() != 1 { (self.contents()) }
            @for section in &self.sections { (PreEscaped(section)) }
        };
        whole_page(&title, &heading, &body, &footer)
    }

    fn contents(&self) -> Markup {
        html! {
            nav aria-label="Images" {
                ul.contents {
                    @for (number, entry) in self.summary.iter().enumerate() {
                        li {
                            a href={ "#image-" (number + 1) } { (entry.image) }
                            span.about { " " (entry.platform) }
                            span.verdict.(entry.tone.class()) { (entry.tone.mark()) " " (entry.verdict) }
                        }
                    }
                }
            }
        }
    }
}

/// A document with a title, a heading, a body and a footer.
fn whole_page(title: &str, heading: &str, body: &Markup, footer: &str) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                // Without it a phone renders the page at desktop width and shrinks it.
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="color-scheme" content="light dark";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header { h1 { (heading) } }
                main { (body) }
                footer { p { (footer) } }
            }
        }
    }
}

impl ReportWriter for HtmlReport {
    fn audited(&mut self, audit: &AuditedImage) -> String {
        // Weighed for this format only, because that is a walk of its own. A list of missing links is not about bytes.
        let weight = audit.links.is_none().then(|| audit.facts.weigh());
        let section = html! {
            (image_page(audit, Some(&self.rules)).blocks())
            @if let Some(weight) = &weight { (weight_section(weight)) }
        };
        self.add(
            &section,
            ImageEntry {
                tone: ReportTone::of_image(audit),
                image: image_name(&audit.facts),
                platform: platform_name(&audit.facts),
                verdict: audit.verdict(),
            },
        );
        String::new()
    }

    fn file_check(&self, checked: &CheckedFiles<'_>) -> io::Result<String> {
        Ok(check_page(checked, true).html())
    }

    fn unread(&mut self, unread: &UnreadImage) -> String {
        self.add(
            &unread_page(unread).blocks(),
            ImageEntry {
                tone: ReportTone::Bad,
                image: escape::escape_bytes(unread.image.as_bytes()),
                platform: String::new(),
                verdict: "not audited".to_owned(),
            },
        );
        String::new()
    }

    fn end(&mut self, exit: RunExit) -> io::Result<String> {
        Ok(self.page(exit).into_string() + "\n")
    }
}
