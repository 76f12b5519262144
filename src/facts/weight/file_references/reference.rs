//! A reference to a file, the objects and texts to search for references, and the limits of that search.

use crate::facts::objects::process_context::ProcessContext;
use crate::facts::objects::world::ByWorld;
use crate::facts::software::consumers::CuptiConsumer;
use crate::facts::software::opened_names::UndecidedOpener;
use crate::facts::weight::dead_weight::DeadWeightFile;
use crate::knowledge::{ConsumerProfile, Knowledge};
use image_linkage::elf::ByteString;
use image_linkage::layer::{FileFacts, is_installed_list, is_rpm_database};
use image_linkage::path::RootPath;
use image_linkage::rootfs::{NodeKind, RootfsNode};
use image_source::Image;
use std::sync::Arc;

/// What the references of an image are searched in.
pub(crate) struct ReferenceCase<'c> {
    pub image: &'c Image,
    pub contexts: &'c ByWorld<ProcessContext>,
    pub knowledge: &'c Knowledge,
    pub profiles: &'c [ConsumerProfile],
    pub inventory: &'c ObjectInventory,
    pub consumers: &'c [CuptiConsumer],
    pub undecided: &'c [UndecidedOpener],
}

/// A reference to a file that may be dead weight.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileReference {
    /// The file, with links resolved.
    pub file: RootPath,
    /// The origin of the reference.
    pub by: FileReferrer,
    /// The requested name.
    pub name: ByteString,
    /// How the reference leads to the file.
    pub how: ReferenceKind,
}

/// The origin of a reference.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileReferrer {
    /// An object of the image.
    Object(RootPath),
    /// A setting of the image, such as a variable of its environment.
    Setting(String),
}

/// How a reference leads to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReferenceKind {
    /// The loader resolves a `DT_NEEDED` entry to it.
    Needs,
    /// A program opens it before it uses a GPU, and runs on the CPU only if it is missing.
    Opens,
    /// A `DT_NEEDED` entry has its name, but the result of the search is unknown.
    MayNeed,
    /// The object contains its name for an unknown purpose.
    Holds,
    /// It is preloaded, or a setting or script contains its path.
    Names,
    /// A setting or script contains the path of its directory.
    NamesFolder,
    /// No search path, package or toolkit explains the file's location.
    Unexplained,
    /// Another processor gets it instead of a referenced file.
    OtherProcessor,
}

/// The objects, links and stored texts of an image.
#[derive(Debug, Default)]
pub(crate) struct ObjectInventory {
    pub objects: Vec<(RootPath, Arc<FileFacts>)>,
    pub links: Vec<(RootPath, ByteString)>,
    /// The scripts and settings that are stored or contain noted words, without package lists.
    pub texts: Vec<(RootPath, Arc<FileFacts>)>,
}

/// Whether a stored file may show what a program uses. Records of package managers and ldconfig name every file, so
/// they do not count.
fn is_setting(path: &RootPath) -> bool {
    let kept_by_managers = ["dist-info", "conda-meta", "dpkg", "ld.so.conf.d"];
    let above = path.parent();
    let is_record = kept_by_managers
        .iter()
        .any(|folder| above.name().ends_with(folder.as_bytes()));
    let is_cache = above.as_bytes() == b"etc" && path.name().starts_with(b"ld.so.");
    !is_installed_list(path) && !is_rpm_database(path) && !is_record && !is_cache
}

impl ObjectInventory {
    /// Adds one node of the file system.
    pub fn add_node(&mut self, path: &RootPath, node: &RootfsNode) {
        match &node.kind {
            NodeKind::File(facts) if facts.elf.is_some() => {
                self.objects.push((path.clone(), Arc::clone(facts)));
            }
            NodeKind::File(facts) if (facts.kept.is_some() || !facts.noted_words.is_empty()) && is_setting(path) => {
                self.texts.push((path.clone(), Arc::clone(facts)));
            }
            NodeKind::Symlink(target) => self.links.push((path.clone(), target.clone())),
            _ => {}
        }
    }
}

/// The maximum number of references. Thousands of files with one name and thousands of requesters make millions of
/// pairs. The largest real environment (PyTorch 2.8) has a few hundred.
const REFERENCES: usize = 100_000;
/// The maximum number of bytes in their paths and names.
const BYTES: usize = 32 << 20;
/// The maximum number of files to examine. The same thousands of files may be examined for each of thousands of names.
const LOOKS: usize = 20_000_000;

/// The references so far.
pub(super) struct ReferenceList<'f> {
    files: &'f [DeadWeightFile],
    found: Vec<FileReference>,
    bytes_left: usize,
    looks_left: usize,
    is_cut: bool,
}

impl<'f> ReferenceList<'f> {
    /// An empty list of references to the `files` that may be dead weight.
    pub(super) fn new(files: &'f [DeadWeightFile]) -> Self {
        Self {
            files,
            found: Vec::new(),
            bytes_left: BYTES,
            looks_left: LOOKS,
            is_cut: false,
        }
    }

    /// Adds references up to the limit, without evaluating the rest.
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

    /// Counts `files` examined files.
    pub(super) fn look_at(&mut self, files: usize) {
        match self.looks_left.checked_sub(files) {
            Some(left) => self.looks_left = left,
            None => self.cut(),
        }
    }

    /// Marks the list as incomplete.
    pub(super) fn cut(&mut self) {
        self.is_cut = true;
    }

    /// Whether the list is incomplete, so that further search is useless.
    pub(super) fn is_cut(&self) -> bool {
        self.is_cut
    }

    pub(super) fn as_slice(&self) -> &[FileReference] {
        &self.found
    }

    /// The references without duplicates. If the list is incomplete, returns one for every file, so that all are kept.
    pub(super) fn finish(self) -> Vec<FileReference> {
        if self.is_cut {
            let kept = self.files.iter().map(|file| FileReference {
                file: file.path.clone(),
                by: FileReferrer::Setting("more objects than are followed".to_owned()),
                name: file.path.name().into(),
                how: ReferenceKind::MayNeed,
            });
            return kept.collect();
        }
        let mut found = self.found;
        found.sort();
        found.dedup();
        found
    }
}

/// The number of heap bytes of a reference.
fn held_bytes(reference: &FileReference) -> usize {
    let by = match &reference.by {
        FileReferrer::Object(path) => path.as_bytes().len(),
        FileReferrer::Setting(words) => words.len(),
    };
    reference.file.as_bytes().len() + by + reference.name.len()
}
