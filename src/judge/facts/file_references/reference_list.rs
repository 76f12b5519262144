//! The references of an image as they are found, and the bound on how many are.

use super::super::dead_weight::DeadWeightFile;
use super::reference::{FileReference, FileReferrer, ReferenceKind};

/// References that are kept, at most: thousands of files of one name and thousands that ask for it are millions of
/// pairs. The largest environment seen (PyTorch 2.8) has some hundred.
const REFERENCES: usize = 100_000;
/// The bytes of their paths and names, at most.
const BYTES: usize = 32 << 20;
/// Files that are looked at for one of them, at most: the same thousands may be looked at for each of thousands of names.
const LOOKS: usize = 20_000_000;

/// The references that were found so far.
pub(super) struct ReferenceList<'f> {
    files: &'f [DeadWeightFile],
    found: Vec<FileReference>,
    bytes_left: usize,
    looks_left: usize,
    is_cut: bool,
}

impl<'f> ReferenceList<'f> {
    /// None yet, to the `files` that may be dead weight.
    pub(super) fn new(files: &'f [DeadWeightFile]) -> Self {
        Self {
            files,
            found: Vec::new(),
            bytes_left: BYTES,
            looks_left: LOOKS,
            is_cut: false,
        }
    }

    /// Takes in what fits, and asks for no more than that.
    pub(super) fn extend(&mut self, references: impl IntoIterator<Item = FileReference>) {
        if self.is_cut {
            return;
        }
        for reference in references {
            let left = self.bytes_left.checked_sub(held_bytes(&reference));
            match left.filter(|_| self.found.len() < REFERENCES) {
                Some(left) => self.bytes_left = left,
                None => return self.cut(),
            }
            self.found.push(reference);
        }
    }

    /// Takes note that `files` are looked at.
    pub(super) fn look_at(&mut self, files: usize) {
        match self.looks_left.checked_sub(files) {
            Some(left) => self.looks_left = left,
            None => self.cut(),
        }
    }

    /// Says that there is more than is followed.
    pub(super) fn cut(&mut self) {
        self.is_cut = true;
    }

    /// Whether it takes no more, so that nobody has to look for any.
    pub(super) fn is_cut(&self) -> bool {
        self.is_cut
    }

    pub(super) fn as_slice(&self) -> &[FileReference] {
        &self.found
    }

    /// Each once; one that keeps every file where more lead to them than are followed.
    pub(super) fn finish(self) -> Vec<FileReference> {
        let keep = |file: &DeadWeightFile| FileReference {
            file: file.path.clone(),
            by: FileReferrer::Setting("more objects than are followed".to_owned()),
            name: file.path.name().into(),
            how: ReferenceKind::MayNeed,
        };
        if self.is_cut {
            return self.files.iter().map(keep).collect();
        }
        let mut found = self.found;
        found.sort();
        found.dedup();
        found
    }
}

/// The bytes that a reference holds beside itself.
fn held_bytes(reference: &FileReference) -> usize {
    let by = match &reference.by {
        FileReferrer::Object(path) => path.as_bytes().len(),
        FileReferrer::Setting(words) => words.len(),
    };
    reference.file.as_bytes().len() + by + reference.name.len()
}
