//! The objects with GPU code, in the text and JSON reports.

use std::collections::BTreeMap;

use gpu_code::CodeKind;
use serde_json::{Value, json};

use super::page::{Block, Line};
use super::text_layout::{TextDetail, joined};
use crate::facts::{GpuCodeObject, ImageFacts, architecture_words, gpu_code_kept_for};
use crate::judge::outcome::{AskedGpu, AuditedImage};
use crate::size::format_size;

/// The maximum number of objects in the text report.
const OBJECTS: usize = 10;

/// The largest objects with GPU code; with `-v`, or if the user named a GPU.
pub(super) fn gpu_code_section(audit: &AuditedImage, detail: TextDetail) -> Option<Block> {
    let facts = &audit.facts;
    // The GPUs of a running container are known without a request.
    let is_asked = !audit.gpus.is_empty() && facts.host.is_none() && detail == TextDetail::Inventory;
    if detail != TextDetail::All && !is_asked {
        return None;
    }
    let mut blocks = Vec::new();
    if let Some(kept) = gpu_code_kept_for(&facts.image) {
        let kept = joined(kept, ", ");
        blocks.push(Block::text(format!(
            "this image was made for {kept} GPUs only (slim --gpu)"
        )));
    }
    let mut largest: Vec<&GpuCodeObject> = facts.gpu_code.iter().collect();
    largest.sort_by(|a, b| b.bytes().cmp(&a.bytes()).then_with(|| a.path.cmp(&b.path)));
    for object in largest.iter().take(OBJECTS) {
        let mut about = vec![Block::text(Line::dim(about_object(object)))];
        // Many objects have kernels for some GPUs only, so the shares are details.
        if detail == TextDetail::All {
            let gpus = audit.gpus.iter();
            about.extend(gpus.filter_map(|gpu| coverage_words(object, gpu)).map(Block::text));
        }
        blocks.push(Block::entry(object.path.to_string(), about));
    }
    if let Some(more @ 1..) = largest.len().checked_sub(OBJECTS) {
        blocks.push(Block::entry(Line::dim(format!("and {more} more")), Vec::new()));
    }
    (!blocks.is_empty()).then(|| Block::section("GPU code", blocks))
}

/// The size and the architectures.
fn about_object(object: &GpuCodeObject) -> String {
    let amounts = object.amounts();
    let code = architecture_words("sm_", amounts.machine_code.keys());
    let ptx = architecture_words("PTX ", amounts.ptx.keys());
    let partial = object
        .is_partial()
        .then(|| "some of it could not be counted".to_owned());
    let words = [Some(format_size(object.bytes())), code, ptx, partial];
    joined(words.into_iter().flatten(), "; ")
}

/// The containers without machine code for a GPU, if there are any.
fn coverage_words(object: &GpuCodeObject, gpu: &AskedGpu) -> Option<String> {
    let coverage = object.coverage(gpu.architecture);
    let all = coverage.containers();
    let mut words = Vec::new();
    for (count, what) in [(coverage.no_code, "no code"), (coverage.only_ptx, "only PTX")] {
        match u64::from(count) {
            0 => {}
            count if count == all => words.push(what.to_owned()),
            count => words.push(format!("{what} in {count} of {all} containers")),
        }
    }
    if words.is_empty() {
        return None;
    }
    Some(format!("{}: {}", gpu.architecture, words.join(", ")))
}

/// The objects with GPU code, by path.
pub(super) fn gpu_code_json(facts: &ImageFacts) -> impl Iterator<Item = Value> {
    facts.gpu_code.iter().map(|object| {
        let amounts = object.amounts();
        json!({
            "path": object.path.to_string(),
            "layer": object.layer,
            "bytes": object.bytes(),
            "containers": object.containers(),
            "machine_code": amounts_json(&amounts.machine_code),
            "ptx": amounts_json(&amounts.ptx),
            "partial": object.is_partial(),
        })
    })
}

fn amounts_json(amounts: &BTreeMap<CodeKind, u64>) -> Value {
    amounts
        .iter()
        .map(|(kind, bytes)| json!({"architecture": kind.to_string(), "bytes": bytes}))
        .collect()
}
