//! The merged layers of an image, and the parts of them that were not read.

use std::sync::Arc;

use crate::facts::software::file_removals::{FileRemovals, find_removals};
use image_linkage::layer::{LayerIndex, ProblemKind};
use image_linkage::rootfs::{ApplyProblem, Rootfs, merge_layers};

/// A part that could not be checked.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Gap {
    /// The unchecked part.
    pub what: String,
    /// The reason, as part of a sentence.
    pub why: String,
}

/// The layers of an image after reading.
pub struct ReadLayers {
    /// One index per layer, or the reason why the layer was not read.
    pub layers: Vec<Result<LayerIndex, Gap>>,
}

/// The sizes of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LayerSize {
    /// The size of the stored blob, in bytes.
    pub compressed: u64,
    /// The size of its uncompressed tar, in bytes.
    pub bytes: u64,
}

/// The merged file system, with facts about the layers.
#[derive(Clone)]
pub struct MergedLayers {
    /// The merged file system.
    pub rootfs: Arc<Rootfs>,
    /// The sizes of the layers.
    pub sizes: Vec<LayerSize>,
    /// The problems found in them, for `-v`.
    pub oddities: Vec<ApplyProblem>,
    /// The files of packages that a layer removes.
    pub removals: FileRemovals,
    /// The first unread layer, or a path that this host does not show; all results are uncertain because of it.
    pub unread: Option<String>,
    /// The unread layers.
    pub gaps: Vec<Gap>,
}

impl MergedLayers {
    /// Consumes the indexes, so that they do not stay in memory beside the merged file system.
    pub(crate) fn merge(read: ReadLayers) -> Self {
        let (mut sizes, mut gaps) = (Vec::new(), Vec::new());
        for layer in &read.layers {
            match layer {
                Ok(layer) => sizes.push(LayerSize {
                    compressed: layer.compressed_bytes,
                    bytes: layer.bytes,
                }),
                Err(gap) => {
                    sizes.push(LayerSize::default());
                    gaps.push(gap.clone());
                }
            }
        }
        let known: Vec<Option<&LayerIndex>> = read.layers.iter().map(|layer| layer.as_ref().ok()).collect();
        let removals = find_removals(&known);
        let mut of_layers = Vec::new();
        let indexes = read.layers.into_iter().enumerate().map(|(number, layer)| {
            // An unread layer counts as empty, so that the other layers keep their index in the manifest.
            let layer = layer.unwrap_or_else(|_| LayerIndex::empty());
            of_layers.extend(layer.problems.iter().map(|problem| ApplyProblem {
                layer: number,
                path: problem.path.clone(),
                what: problem.what.clone(),
                kind: problem.kind,
            }));
            layer
        });
        let (rootfs, mut oddities) = merge_layers(indexes);
        oddities.extend(of_layers);
        let hidden = oddities.iter().find(|oddity| oddity.kind == ProblemKind::Hidden);
        let unread = match (gaps.first(), hidden) {
            (Some(gap), _) => Some(gap.what.clone()),
            (None, hidden) => hidden.map(|oddity| oddity.path.to_string()),
        };
        Self {
            rootfs: Arc::new(rootfs),
            sizes,
            oddities,
            removals,
            unread,
            gaps,
        }
    }

    /// Why every result is uncertain, if so.
    pub(crate) fn why_uncertain(&self) -> Option<String> {
        if let Some(layer) = &self.unread {
            return Some(format!("{layer} was not read, and it may change everything"));
        }
        let mut oddities = self.oddities.iter();
        let refused = oddities.find(|oddity| oddity.kind == ProblemKind::Refused)?;
        Some(format!("no engine unpacks layer {}", refused.layer + 1))
    }
}
