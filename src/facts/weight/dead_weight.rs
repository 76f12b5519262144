//! Lists the files that may be dead weight according to their paths; a plan decides whether to remove them. Also tracks
//! counted contents, so that none is counted twice.

use crate::knowledge::dead_weight::DeadWeightKind;
use crate::knowledge::path_gate::LastFolder;
use crate::knowledge::{KnowledgeTables, matches_name_pattern};
use image_linkage::elf::SymbolRole;
use image_linkage::layer::FileFacts;
use image_linkage::path::RootPath;
use image_linkage::rootfs::{NodeId, NodeKind, Rootfs};
use image_source::Image;
use std::collections::{BTreeMap, BTreeSet};

/// A file that may be dead weight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadWeightFile {
    /// The kind, from `profiles/cupti/dead-weight.yaml`.
    pub kind: &'static str,
    /// The file, with links resolved.
    pub path: RootPath,
    /// Its size in bytes.
    pub bytes: u64,
    /// Its layer, counted from 0 at the bottom.
    pub layer: usize,
    /// Its hard links, if it has any.
    pub links: Option<HardLinks>,
}

/// The hard links of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HardLinks {
    /// The file that they share.
    pub file: NodeId,
    /// The number of its names in the image.
    pub names: usize,
}

/// The size of the files in bytes. Hard links to one file count once.
pub fn total_bytes<'f>(files: impl IntoIterator<Item = &'f DeadWeightFile>) -> u64 {
    let mut counted = BTreeSet::new();
    let mut bytes = 0;
    for file in files {
        if file.links.is_none_or(|links| counted.insert(links.file)) {
            bytes += file.bytes;
        }
    }
    bytes
}

/// A use that keeps a kind of file but is not visible in an object's ELF data.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeadWeightUse {
    /// The used kind.
    pub kind: &'static str,
    /// The file that uses it, or the variable that points to it.
    pub by: String,
    /// The manner of use.
    pub why: &'static str,
}

/// The results of a walk through the file system.
#[derive(Debug, Default)]
pub(crate) struct DeadWeightScan {
    pub files: Vec<DeadWeightFile>,
    pub uses: Vec<DeadWeightUse>,
    last_folder: LastFolder,
    /// The number of names of each file with hard links.
    names: BTreeMap<NodeId, usize>,
    /// Whether the image has more files than the limit.
    pub is_cut: bool,
}

/// The maximum number of files to check. An image with a complete toolkit and Nsight has about 10,000.
pub const JUDGED_DEAD_WEIGHT: usize = 30_000;

impl DeadWeightScan {
    /// Adds one node of the file system.
    pub fn add_node(&mut self, rootfs: &Rootfs, tables: &'static KnowledgeTables, path: &RootPath, id: NodeId) {
        let node = rootfs.node(id);
        let NodeKind::File(facts) = &node.kind else {
            return;
        };
        let linked = rootfs.hard_linked(id);
        if let Some(file) = linked {
            *self.names.entry(file).or_default() += 1;
        }
        let table = &tables.dead_weight;
        if !table.may_match(path.as_bytes(), &mut self.last_folder) {
            return;
        }
        // The first matching kind wins, so that libnvperf in Triton's directory belongs to Triton.
        let hit = table.match_path(path.as_bytes());
        match first_kind(tables, &hit.kinds, facts) {
            Some(_) if self.files.len() == JUDGED_DEAD_WEIGHT => self.is_cut = true,
            Some(kind) => self.files.push(DeadWeightFile {
                kind: &kind.id,
                path: path.clone(),
                bytes: facts.bytes,
                layer: node.layer,
                // Counted at the end of the walk.
                links: linked.map(|file| HardLinks { file, names: 0 }),
            }),
            None => {}
        }
        // A file that proves a use is usually not dead weight itself; Numba, for example, compiles with libdevice.
        for (kind, used) in hit.uses {
            if let Some(kind) = tables.dead_weight.kinds.get(kind)
                && let Some(used) = kind.used_by.get(used)
            {
                let (kind, by, why) = (kind.id.as_str(), path.to_string(), used.why.as_str());
                self.uses.push(DeadWeightUse { kind, by, why });
            }
        }
    }

    /// Sorts the results, and adds the uses that the environment shows.
    pub fn finish(mut self, image: &Image, tables: &'static KnowledgeTables) -> Self {
        for kind in &tables.dead_weight.kinds {
            for used in &kind.used_by {
                // A variable such as TRITON_PTXAS_PATH makes a program execute a file that no object names.
                let set = used.variables.iter().filter(|name| image.config.env(name).is_some());
                self.uses.extend(set.map(|name| DeadWeightUse {
                    kind: &kind.id,
                    by: name.clone(),
                    why: &used.why,
                }));
            }
        }
        for links in self.files.iter_mut().filter_map(|file| file.links.as_mut()) {
            links.names = self.names.get(&links.file).copied().unwrap_or_default();
        }
        // Lookups in this list are binary searches.
        self.files.sort_by(|a, b| a.path.cmp(&b.path));
        self.uses.sort();
        self
    }
}

/// The kind of a file that may be dead weight, by its path and exports.
pub(crate) fn dead_weight_kind(
    tables: &'static KnowledgeTables,
    path: &RootPath,
    facts: &FileFacts,
) -> Option<&'static DeadWeightKind> {
    first_kind(tables, &tables.dead_weight.match_path(path.as_bytes()).kinds, facts)
}

fn first_kind(
    tables: &'static KnowledgeTables,
    fitting: &[usize],
    facts: &FileFacts,
) -> Option<&'static DeadWeightKind> {
    let kinds = fitting.iter().filter_map(|&kind| tables.dead_weight.kinds.get(kind));
    kinds.into_iter().find(|kind| has_export(kind, facts))
}

/// Whether a file has the export that its kind requires, if any.
fn has_export(kind: &DeadWeightKind, facts: &FileFacts) -> bool {
    let Some(pattern) = &kind.exports else {
        return true;
    };
    let elf = facts.elf.as_ref();
    elf.is_some_and(|elf| {
        // Other software may have a `libcheckpoint.so` too; only an export identifies CUPTI's.
        elf.symbols
            .iter()
            .any(|symbol| symbol.role == SymbolRole::Export && matches_name_pattern(&symbol.name, pattern))
    })
}

/// The files whose bytes were counted. Hard links share one file.
#[derive(Debug, Default)]
pub struct CountedContents(BTreeSet<NodeId>);

impl CountedContents {
    /// Whether the content of this node was not counted before.
    pub fn is_new(&mut self, rootfs: &Rootfs, id: NodeId) -> bool {
        rootfs.hard_linked(id).is_none_or(|file| self.0.insert(file))
    }
}
