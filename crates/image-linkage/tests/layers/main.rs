//! How does the audit handle hostile or unusual layers, merged layers and objects in them?

#![allow(
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::unwrap_used,
    dead_code,
    reason = "tests drive real programs on the host, may panic, and share more than each of them uses"
)]

#[path = "../support/tar.rs"]
mod raw;

mod bounds;
mod cases;
mod changesets;
mod damage;
mod elf;
mod interest;
mod kept;
mod links;
mod rewritten_layers;
mod rpm_databases;
mod sparse;

use std::collections::BTreeMap;

use image_linkage::layer::{self, ExpectedBlob, IndexOptions, LayerEntry, LayerIndex};
use image_linkage::limits::Limits;
use image_linkage::rootfs::{self, NodeKind, Rootfs};

/// Reads a layer named `L` with default limits; an error as text.
fn index(blob: &[u8]) -> Result<LayerIndex, String> {
    index_with(blob, &Limits::default())
}

fn index_with(blob: &[u8], limits: &Limits) -> Result<LayerIndex, String> {
    let options = IndexOptions {
        limits: limits.clone(),
        ..IndexOptions::default()
    };
    layer::index_layer("L", blob, &ExpectedBlob::default(), &options).map_err(|error| error.to_string())
}

/// The entries of a layer, one line each, then what it hides, then its problems.
fn lines(layer: &LayerIndex) -> Vec<String> {
    let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
    let sorted: BTreeMap<_, _> = layer.entries.iter().collect();
    let entries = sorted.into_iter().map(|(path, entry)| match entry {
        LayerEntry::Directory(..) => format!("{path}/"),
        LayerEntry::File(facts) => {
            if let Some(elf) = &facts.elf {
                format!(
                    "{path} elf {} {}",
                    facts.bytes,
                    text(elf.soname.as_deref().unwrap_or_default())
                )
            } else {
                let mode = if facts.mode == 0o644 {
                    String::new()
                } else {
                    format!(" {:o}", facts.mode)
                };
                let kept = if facts.kept.is_some() { " kept" } else { "" };
                format!("{path} {}{mode}{kept}", facts.bytes)
            }
        }
        LayerEntry::Symlink(target) => format!("{path} -> {}", text(target)),
        LayerEntry::Hardlink(target) => format!("{path} = {target}"),
        LayerEntry::Special => format!("{path} special"),
    });
    let whiteouts = layer.whiteouts.iter().map(|path| format!("hides {path}"));
    let opaque = layer.opaque.iter().map(|path| format!("hides {path}/*"));
    let problems = layer
        .problems
        .iter()
        .map(|problem| format!("{:?} {}: {}", problem.kind, problem.path, problem.what));
    entries.chain(whiteouts).chain(opaque).chain(problems).collect()
}

/// The lines of a layer, or the text of its error.
fn read(blob: &[u8]) -> Vec<String> {
    index(blob).map_or_else(|error| vec![error], |layer| lines(&layer))
}

/// Checks that reading fails and that the error names the layer and contains `what`.
fn refuse(blob: &[u8], what: &str) {
    let error = index(blob).expect_err(what);
    assert!(error.starts_with("layer L: ") && error.contains(what), "{error}");
}

fn merge(layers: &[LayerIndex]) -> Rootfs {
    let (rootfs, problems) = rootfs::merge_layers(layers);
    assert_eq!(problems, []);
    rootfs
}

/// Every path of a merged file system with its layer.
fn tree(rootfs: &Rootfs) -> Vec<String> {
    let mut lines = Vec::new();
    rootfs.visit(|path, _, node| {
        let what = match &node.kind {
            NodeKind::Directory(_) => "/".to_owned(),
            NodeKind::File(facts) => format!(" {}", facts.bytes),
            NodeKind::Symlink(target) => format!(" -> {}", target.escape_ascii()),
            NodeKind::Special => " special".to_owned(),
        };
        lines.push(format!("{} {path}{what}", node.layer));
    });
    lines
}
