//! Compares two images: the owners of their files, their layers, and the findings that only one has.

use std::collections::{BTreeMap, BTreeSet};

use super::outcome::{AuditedImage, FailOn, RunExit};
use super::plan::Verdict;
use super::rule::Finding;
use crate::facts::weight::dead_weight::CountedContents;
use crate::facts::{CuptiConsumer, CuptiCopy, ImageFacts};
use image_linkage::escape::escape_bytes;
use image_linkage::path::RootPath;
use image_linkage::rootfs::{NodeKind, Rootfs};
use image_source::LayerDescriptor;

/// Directories whose subdirectories count as separate owners, with the number of path components of an owner.
const SHELVES: [(&[u8], usize); 4] = [(b"usr/local", 3), (b"opt", 2), (b"usr", 2), (b"var", 2)];

/// The differences between two images. Things only in the second are gained; things only in the first are lost.
pub struct ImageDiff<'a> {
    /// The first image, the baseline.
    pub before: &'a AuditedImage,
    /// The second image.
    pub after: &'a AuditedImage,
    /// The total bytes of the files in each.
    pub file_bytes: (u64, u64),
    /// The bytes per owner, the largest change first; unchanged owners are left out.
    pub owners: Vec<OwnerChange>,
    /// The verdicts of every phase that both images were judged for.
    pub phases: Vec<PhaseChange<'a>>,
    /// The copies of libcupti that only the second has, then those that only the first has.
    pub copies: (Vec<&'a CuptiCopy>, Vec<&'a CuptiCopy>),
    /// The programs in either image that request it.
    pub consumers: Vec<ConsumerPair<'a>>,
    /// The findings that only the second has, then those that only the first has.
    pub findings: (Vec<&'a Finding>, Vec<&'a Finding>),
    /// The numbers of the layers that only the first has, then those that only the second has.
    pub layers: (Vec<usize>, Vec<usize>),
}

/// An owner of files, and its bytes in each image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnerChange {
    /// A Python distribution by its folder, or another directory.
    pub owner: String,
    /// Its bytes in the first image.
    pub before: u64,
    /// Its bytes in the second image.
    pub after: u64,
}

/// The change of a phase's verdict between the images.
pub struct PhaseChange<'a> {
    /// The stem of the phase's file.
    pub phase: &'a str,
    /// The verdict on the first image.
    pub before: Verdict,
    /// The verdict on the second image.
    pub after: Verdict,
}

/// A program in one or both images.
pub struct ConsumerPair<'a> {
    /// The consumer in the first image.
    pub before: Option<&'a CuptiConsumer>,
    /// The consumer in the second image.
    pub after: Option<&'a CuptiConsumer>,
}

impl<'a> ImageDiff<'a> {
    /// Compares two images that were audited for the same phases.
    pub fn of(before: &'a AuditedImage, after: &'a AuditedImage) -> Self {
        let (old, new) = (owner_bytes(before), owner_bytes(after));
        let consumers = |audit: &'a AuditedImage| by_key(&audit.facts.answers.consumers, |it| (&it.name, &it.object));
        let copies = |audit: &'a AuditedImage| by_key(&audit.facts.answers.copies, |it| (&it.real_path, &it.version));
        let findings = |audit: &'a AuditedImage| by_key(&audit.findings, |it| (&it.rule, &it.message));
        let (programs, others) = (consumers(before), consumers(after));
        let names: BTreeSet<_> = programs.keys().chain(others.keys()).copied().collect();
        Self {
            before,
            after,
            file_bytes: (old.values().sum(), new.values().sum()),
            owners: owner_changes(&old, &new),
            phases: phase_changes(before, after),
            copies: only_in_one(&copies(before), &copies(after)),
            consumers: names
                .into_iter()
                .map(|name| ConsumerPair {
                    before: programs.get(&name).copied(),
                    after: others.get(&name).copied(),
                })
                .collect(),
            findings: only_in_one(&findings(before), &findings(after)),
            layers: (
                own_layers(&before.facts, &after.facts),
                own_layers(&after.facts, &before.facts),
            ),
        }
    }

    /// The size of the second image's files minus that of the first's, in bytes.
    pub fn changed_bytes(&self) -> i128 {
        i128::from(self.file_bytes.1) - i128::from(self.file_bytes.0)
    }

    /// The result of the comparison. Only a finding that the second image gained can fail it.
    pub fn exit(&self, fail_on: FailOn) -> RunExit {
        let is_open = [self.before, self.after]
            .iter()
            .any(|audit| !audit.facts.gaps.is_empty());
        if self.findings.0.iter().any(|finding| fail_on.fails(finding)) {
            RunExit::Findings
        } else if is_open && fail_on != FailOn::Never {
            RunExit::Open
        } else {
            RunExit::Clean
        }
    }
}

fn by_key<'a, T, K: Ord>(all: &'a [T], key: impl Fn(&'a T) -> K) -> BTreeMap<K, &'a T> {
    all.iter().map(|one| (key(one), one)).collect()
}

/// The items only in `after`, then those only in `before`.
fn only_in_one<'a, K: Ord, T>(before: &BTreeMap<K, &'a T>, after: &BTreeMap<K, &'a T>) -> (Vec<&'a T>, Vec<&'a T>) {
    let mut added = Vec::new();
    for (key, one) in after {
        if !before.contains_key(key) {
            added.push(*one);
        }
    }
    let gone = before.iter().filter(|(key, _)| !after.contains_key(*key));
    (added, gone.map(|(_, one)| *one).collect())
}

fn phase_changes<'a>(before: &'a AuditedImage, after: &AuditedImage) -> Vec<PhaseChange<'a>> {
    let both = before
        .plans
        .iter()
        .filter_map(|plan| Some((plan, after.plan(&plan.phase)?)));
    both.map(|(old, new)| PhaseChange {
        phase: &old.phase,
        before: old.verdict,
        after: new.verdict,
    })
    .collect()
}

/// Compares by diff id: recompression changes the digest of the same layer.
fn is_same_layer(one: &LayerDescriptor, other: &LayerDescriptor) -> bool {
    match (&one.diff_id, &other.diff_id) {
        (Some(own), Some(other)) => own == other,
        _ => one.digest.is_some() && one.digest == other.digest,
    }
}

/// The numbers of one image's layers that the other does not have.
fn own_layers(own: &ImageFacts, other: &ImageFacts) -> Vec<usize> {
    let layers = own.image.layers.iter().enumerate();
    layers
        .filter(|(_, layer)| !other.image.layers.iter().any(|it| is_same_layer(layer, it)))
        .map(|(number, _)| number)
        .collect()
}

fn owner_changes(before: &BTreeMap<String, u64>, after: &BTreeMap<String, u64>) -> Vec<OwnerChange> {
    let mut changes = Vec::new();
    for owner in before.keys().chain(after.keys()).collect::<BTreeSet<&String>>() {
        let [before, after] = [before, after].map(|bytes| bytes.get(owner).copied().unwrap_or(0));
        if before != after {
            let owner = owner.clone();
            changes.push(OwnerChange { owner, before, after });
        }
    }
    // The sort is stable, so equal changes stay ordered by name.
    changes.sort_by_key(|change| std::cmp::Reverse(change.before.abs_diff(change.after)));
    changes
}

fn owner_bytes(audit: &AuditedImage) -> BTreeMap<String, u64> {
    let rootfs: &Rootfs = &audit.facts.contexts.as_is.rootfs;
    let mut bytes: BTreeMap<String, u64> = BTreeMap::new();
    let mut counted = CountedContents::default();
    rootfs.visit(|path, id, node| {
        if let NodeKind::File(file) = &node.kind
            && counted.is_new(rootfs, id)
        {
            *bytes.entry(owner_of(path)).or_default() += file.bytes;
        }
    });
    bytes
}

/// The owner of a file, from its path: the distribution below a `site-packages` folder, else a directory.
fn owner_of(path: &RootPath) -> String {
    let parts: Vec<&[u8]> = path.split_components().collect();
    if let Some(site) = parts
        .iter()
        .rposition(|part| **part == *b"site-packages" || **part == *b"dist-packages")
        && let Some(first) = parts.get(site + 1)
    {
        // All NVIDIA wheels share this folder.
        let second = parts.get(site + 2).filter(|_| **first == *b"nvidia");
        let parts = [Some(*first), second.copied()].into_iter().flatten();
        let names: Vec<String> = parts.map(distribution_name).collect();
        return format!("python {}", names.join("/"));
    }
    let shelf = SHELVES
        .iter()
        .find(|(folder, _)| path.starts_with(&RootPath::new(folder)));
    let depth = shelf.map_or(1, |(_, depth)| *depth);
    let folders = parts.len().saturating_sub(1).min(depth);
    let folder = parts.get(..folders).unwrap_or_default().join(&b'/');
    format!("/{}", escape_bytes(&folder))
}

/// The name of a distribution, from a folder that it installs: `torch`, `torch-2.5.1.dist-info`, `numpy.libs`.
fn distribution_name(folder: &[u8]) -> String {
    let text = escape_bytes(folder).to_lowercase();
    let name = match text.strip_suffix(".dist-info").or_else(|| text.strip_suffix(".data")) {
        Some(with_version) => with_version.split('-').next().unwrap_or_default(),
        None => text.strip_suffix(".libs").unwrap_or(&text),
    };
    name.replace('_', "-")
}

#[cfg(test)]
mod tests {
    use super::owner_of;
    use image_linkage::path::RootPath;

    #[test]
    fn what_does_a_file_belong_to() {
        for (path, owner) in [
            (
                "opt/venv/lib/python3.11/site-packages/torch/lib/libtorch.so",
                "python torch",
            ),
            (
                "usr/lib/python3/dist-packages/torch-2.5.1.dist-info/RECORD",
                "python torch",
            ),
            (
                "opt/venv/lib/python3.11/site-packages/numpy.libs/libx.so",
                "python numpy",
            ),
            (
                "v/site-packages/nvidia/cuda_cupti/lib/libcupti.so.12",
                "python nvidia/cuda-cupti",
            ),
            ("usr/local/cuda-12.4/lib64/libcudart.so.12", "/usr/local/cuda-12.4"),
            ("usr/local/x", "/usr/local"),
            ("usr/lib/x86_64-linux-gnu/libc.so.6", "/usr/lib"),
            ("opt/app/bin/run", "/opt/app"),
            ("etc/passwd", "/etc"),
            ("init", "/"),
        ] {
            assert_eq!(owner_of(&RootPath::from(path)), owner, "{path}");
        }
    }
}
