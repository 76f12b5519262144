//! The objects with GPU code, in the text and JSON reports.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use gpu_code::CodeKind;
use serde_json::{Value, json};

use super::text_layout::{BOLD, DIM, TextDetail, TextLayout, joined, styled, wrap_line, wrap_paragraph};
use crate::facts::{GpuCodeObject, ImageFacts, architecture_words, gpu_code_kept_for};
use crate::judge::outcome::{AskedGpu, AuditedImage};
use crate::size::format_size;

/// The maximum number of objects in the text report.
const OBJECTS: usize = 10;

/// The largest objects with GPU code; with `-v`, or if the user named a GPU.
pub(super) fn write_gpu_code(out: &mut String, audit: &AuditedImage, layout: TextLayout) {
    let facts = &audit.facts;
    // The GPUs of a running container are known without a request.
    let is_asked = !audit.gpus.is_empty() && facts.host.is_none() && layout.detail == TextDetail::Inventory;
    if layout.detail != TextDetail::All && !is_asked {
        return;
    }
    let kept = gpu_code_kept_for(&facts.image);
    if facts.gpu_code.is_empty() && kept.is_none() {
        return;
    }
    let _ = writeln!(out, "{}", styled(BOLD, "GPU code"));
    if let Some(kept) = kept {
        let words = format!("this image was made for {} GPUs only (slim --gpu)", joined(kept, ", "));
        out.push_str(&wrap_paragraph("  ", &words, layout.width));
    }
    let mut largest: Vec<&GpuCodeObject> = facts.gpu_code.iter().collect();
    largest.sort_by(|a, b| b.bytes().cmp(&a.bytes()).then_with(|| a.path.cmp(&b.path)));
    for object in largest.iter().take(OBJECTS) {
        out.push_str(&wrap_line(&format!("  {}", object.path), layout.width));
        let about = styled(DIM, about_object(object));
        out.push_str(&wrap_paragraph("    ", &about, layout.width));
        // Many objects have kernels for some GPUs only, so the shares are details.
        let gpus = audit.gpus.iter().filter(|_| layout.detail == TextDetail::All);
        for words in gpus.filter_map(|gpu| coverage_words(object, gpu)) {
            out.push_str(&wrap_paragraph("    ", &words, layout.width));
        }
    }
    if let Some(more @ 1..) = largest.len().checked_sub(OBJECTS) {
        let _ = writeln!(out, "  {}", styled(DIM, format!("and {more} more")));
    }
    out.push('\n');
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
    let share = |count: u32, what: &str| match u64::from(count) {
        0 => None,
        count if count == all => Some(what.to_owned()),
        count => Some(format!("{what} in {count} of {all} containers")),
    };
    let words = [share(coverage.no_code, "no code"), share(coverage.only_ptx, "only PTX")];
    let words: Vec<String> = words.into_iter().flatten().collect();
    (!words.is_empty()).then(|| format!("{}: {}", gpu.architecture, words.join(", ")))
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
    let entry = |(kind, bytes): (&CodeKind, &u64)| json!({"architecture": kind.to_string(), "bytes": bytes});
    amounts.iter().map(entry).collect()
}
