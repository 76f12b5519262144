//! Builds the index of a root file system that is not a tar.

use crate::image_error::ImageError;
use image_linkage::layer::{FileFacts, KeptClass, KeptFiles, LayerEntry, LayerIndex, LayerProblem, ProblemKind};
use image_linkage::limits::Limits;
use image_linkage::path::RootPath;

/// The maximum number of listed problems; the rest is counted.
const PROBLEMS: usize = 200;

/// An unfinished index.
pub(crate) struct RootIndex {
    index: LayerIndex,
    /// The size of the kept files so far.
    files: KeptFiles,
}

impl Default for RootIndex {
    fn default() -> Self {
        Self {
            // There is no blob, so the digests are those of zero bytes.
            index: LayerIndex::empty(),
            files: KeptFiles::default(),
        }
    }
}

impl RootIndex {
    /// Adds an entry.
    pub(crate) fn insert(&mut self, path: &RootPath, entry: LayerEntry) {
        self.index.entries.insert(path, entry);
    }

    /// Adds a file, without its content if that is too large to keep. Returns the entry.
    pub(crate) fn enter_file(
        &mut self,
        path: &RootPath,
        facts: FileFacts,
        class: KeptClass,
        limits: &Limits,
    ) -> LayerEntry {
        self.index.bytes = self.index.bytes.saturating_add(facts.bytes);
        let (entry, why) = self.files.admit(path, facts, class, limits);
        if let Some(why) = why {
            self.unread(path.clone(), why);
        }
        self.index.entries.insert(path, entry.clone());
        entry
    }

    /// Records something that could not be read.
    pub(crate) fn unread(&mut self, path: RootPath, what: String) {
        let kind = ProblemKind::Unread;
        self.index.problems.push(LayerProblem { path, what, kind });
    }

    /// Records a path that this host does not show.
    pub(crate) fn hidden(&mut self, path: RootPath, what: String) {
        let kind = ProblemKind::Hidden;
        self.index.problems.push(LayerProblem { path, what, kind });
    }

    /// The finished index. Problems are sorted by kind and path, because the host's directory order is arbitrary.
    pub(crate) fn finish(mut self, limits: &Limits) -> LayerIndex {
        let left_out = std::mem::take(&mut self.files).left_out(limits);
        let problems = &mut self.index.problems;
        problems.sort_by(|one, other| (other.kind, &one.path).cmp(&(one.kind, &other.path)));
        // Cut after sorting, so that every run lists the same ones.
        let more = problems.len().saturating_sub(PROBLEMS);
        problems.truncate(PROBLEMS);
        if more > 0 {
            self.unread(RootPath::default(), format!("{more} more problems are not listed"));
        }
        self.index.problems.extend(left_out);
        self.index
    }
}

/// The error for a root file system with too many entries.
pub(crate) fn too_many_entries(what: &str, limit: usize) -> ImageError {
    ImageError::not_an_image(
        what,
        format!("it holds more than the limit of {limit} files and folders (layer-entries)"),
    )
}
