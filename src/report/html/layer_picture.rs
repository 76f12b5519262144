//! Draws the layers as bars: their size, and the parts that are the library or unneeded.

use std::collections::BTreeSet;

use maud::{Markup, html};

use super::super::text_layout::joined;
use super::super::words::created_by;
use super::svg_text::{FittedText, KeptEnd, WIDTH};
use crate::facts::ImageFacts;
use crate::judge::outcome::AuditedImage;
use crate::judge::plan::Plan;
use crate::size::format_size;

// A line of text, a bar of 8 and a line of numbers, as in `layer`.
const ROW: usize = 46;
const LEGEND: usize = 26;

/// The content of a layer, in bytes.
#[derive(Debug, Clone, Copy, Default)]
struct LayerShare {
    all: u64,
    cupti: u64,
    may_go: u64,
}

/// The layer picture for the image with this number.
pub(super) fn draw_layers(audit: &AuditedImage, number: usize) -> Markup {
    let facts = &audit.facts;
    let plan = plan(audit);
    let shares = shares(facts, plan);
    // Scaled to the largest layer: layer sizes differ too much for a fixed scale.
    let largest = shares.iter().map(|share| share.all).max().unwrap_or(0);
    let height = LEGEND + ROW * shares.len();
    let phase = plan.map(|plan| plan.phase.as_str()).unwrap_or_default();
    let stem = facts.library.file_stem();
    // Ten units per letter of the small font leave a gap after any name.
    let beside = 18 + 10 * stem.len();
    let ids = format!("layers-title-{number} layers-words-{number}");
    html! {
        svg.picture viewBox={ "0 0 " (WIDTH) " " (height) } role="img" aria-labelledby=(ids) {
            title id={ "layers-title-" (number) } { "The sizes of the layers" }
            desc id={ "layers-words-" (number) } { (words(&shares, stem, phase)) }
            rect.swatch.cupti x="0" y="2" width="12" height="12" {}
            text.small x="18" y="13" { (stem) }
            @if !phase.is_empty() {
                rect.swatch.may-go x=(beside) y="2" width="12" height="12" {}
                text.small x=(beside + 18) y="13" { "may go for " (phase) }
            }
            @for (at, share) in shares.iter().enumerate() {
                (layer(facts, at, *share, largest))
            }
        }
    }
}

/// The phase that frees the most; among the requested ones, if there are any.
fn plan(audit: &AuditedImage) -> Option<&Plan> {
    let asked = |plan: &&Plan| audit.phases.is_empty() || audit.phases.contains(&plan.phase);
    let plans = audit.plans.iter().filter(asked);
    plans
        .filter(|plan| plan.drop_bytes() > 0)
        .max_by_key(|plan| plan.drop_bytes())
}

fn shares(facts: &ImageFacts, plan: Option<&Plan>) -> Vec<LayerShare> {
    let all = facts.layers.iter().map(|layer| LayerShare {
        all: layer.bytes,
        ..LayerShare::default()
    });
    let mut shares: Vec<LayerShare> = all.collect();
    // A removable copy counts only as removable, because the parts of a bar must not overlap.
    let mut gone = BTreeSet::new();
    for item in plan.iter().flat_map(|plan| &plan.drop) {
        gone.insert(&item.path);
        if let Some(share) = shares.get_mut(item.layer) {
            share.may_go += item.bytes;
        }
    }
    for copy in facts.copies.iter().filter(|copy| !gone.contains(&copy.real_path)) {
        if let Some(share) = shares.get_mut(copy.layer) {
            share.cupti += copy.bytes;
        }
    }
    shares
}

fn layer(facts: &ImageFacts, at: usize, share: LayerShare, largest: u64) -> Markup {
    let top = LEGEND + ROW * at;
    let made = created_by(facts, at);
    // BuildKit adds the shell before the Dockerfile's text, and Docker's classic builder adds `#(nop)` to steps that
    // run nothing. Bars have no room for either.
    let made = made
        .trim_start_matches("RUN /bin/sh -c ")
        .trim_start_matches("/bin/sh -c #(nop) ");
    let words = format!("{} {}", at + 1, made);
    let numbers = numbers(share, facts.library.file_stem());
    let width = |bytes: u64| part(bytes, largest);
    let (cupti, may_go) = (width(share.cupti), width(share.may_go));
    // A tar can be smaller than its sparse files.
    let all = width(share.all).max((cupti + may_go).min(WIDTH));
    html! {
        g {
            title { "layer " (at + 1) ": " (numbers) }
            (FittedText { x: 0, y: top + 14, width: WIDTH, class: "small", words: &words, keep: KeptEnd::First }.draw())
            rect.bar x="0" y=(top + 19) width=(all) height="8" rx="2" {}
            rect.bar.may-go x="0" y=(top + 19) width=(may_go.min(all)) height="8" {}
            rect.bar.cupti x=(may_go.min(all)) y=(top + 19) width=(cupti.min(all - may_go.min(all))) height="8" {}
            (FittedText { x: 0, y: top + 39, width: WIDTH, class: "small dim", words: &numbers, keep: KeptEnd::First }.draw())
        }
    }
}

/// The length of a bar; `largest` gets the full width.
fn part(bytes: u64, largest: u64) -> usize {
    // An image can claim any size, so the product may exceed 64 bits.
    let width = u128::from(bytes) * (WIDTH as u128) / u128::from(largest.max(1));
    let width = usize::try_from(width).unwrap_or(WIDTH).min(WIDTH);
    // A nonzero size stays visible, and can be pointed at.
    if bytes > 0 { width.max(2) } else { 0 }
}

fn numbers(share: LayerShare, stem: &str) -> String {
    let mut words = format_size(share.all);
    if share.cupti > 0 {
        words = format!("{words}, {stem} {}", format_size(share.cupti));
    }
    if share.may_go > 0 {
        words = format!("{words}, {} may go", format_size(share.may_go));
    }
    words
}

fn words(shares: &[LayerShare], stem: &str, phase: &str) -> String {
    let layers = shares.iter().enumerate();
    let layers = layers.map(|(at, share)| format!("layer {}: {}", at + 1, numbers(*share, stem)));
    let mut words = joined(layers, "; ");
    if !phase.is_empty() {
        words = format!("{words}. What may go is so for {phase}.");
    }
    words
}
