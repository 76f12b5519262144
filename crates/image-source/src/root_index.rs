//! The index of a root file system that is no tar, as it is filled.

use crate::image_error::ImageError;
use image_linkage::layer::{FileFacts, KeptFiles, LayerEntry, LayerIndex, LayerProblem, ProblemKind};
use image_linkage::limits::Limits;
use image_linkage::path::RootPath;

/// Problems that are listed; the others are counted.
const PROBLEMS: usize = 200;

/// An index under way.
pub(crate) struct RootIndex {
    index: LayerIndex,
    /// What its files came to so far.
    files: KeptFiles,
}

impl Default for RootIndex {
    fn default() -> Self {
        Self {
            // Without a blob its digests are those of no bytes.
            index: LayerIndex::empty(),
            files: KeptFiles::default(),
        }
    }
}

impl RootIndex {
    /// Enters what lies at `path`.
    pub(crate) fn insert(&mut self, path: &RootPath, entry: LayerEntry) {
        self.index.entries.insert(path, entry);
    }

    /// Enters a file, without its content where that is too large to be kept; returns what was entered.
    pub(crate) fn enter_file(
        &mut self,
        path: &RootPath,
        facts: FileFacts,
        too_large: bool,
        limits: &Limits,
    ) -> LayerEntry {
        self.index.bytes = self.index.bytes.saturating_add(facts.bytes);
        let (entry, why) = self.files.admit(facts, too_large, limits);
        if let Some(why) = why {
            self.unread(path.clone(), why);
        }
        self.index.entries.insert(path, entry.clone());
        entry
    }

    /// Tells that something was not read.
    pub(crate) fn unread(&mut self, path: RootPath, what: String) {
        let kind = ProblemKind::Unread;
        self.index.problems.push(LayerProblem { path, what, kind });
    }

    /// The index, its problems in the order of their paths, which the host's order does not touch.
    pub(crate) fn finish(mut self) -> LayerIndex {
        let problems = &mut self.index.problems;
        problems.sort_by(|one, other| one.path.cmp(&other.path));
        // Cut after they were sorted, so that every run lists the same ones.
        let more = problems.len().saturating_sub(PROBLEMS);
        problems.truncate(PROBLEMS);
        if more > 0 {
            self.unread(RootPath::default(), format!("{more} more oddities are not listed"));
        }
        self.index
    }
}

/// The error for a root file system of more entries than are read.
pub(crate) fn too_many_entries(what: &str, limit: usize) -> ImageError {
    ImageError::not_an_image(
        what,
        format!("it holds more than the limit of {limit} files and folders (layer-entries)"),
    )
}
