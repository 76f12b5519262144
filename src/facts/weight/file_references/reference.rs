//! Something that leads to a file, what is looked through for it, and the bound on how much is found.

use crate::facts::weight::dead_weight::DeadWeightFile;
use image_linkage::elf::ByteString;
use image_linkage::layer::{FileFacts, is_installed_list};
use image_linkage::path::RootPath;
use image_linkage::rootfs::{NodeKind, RootfsNode};
use std::sync::Arc;

/// Something that leads to a file that may be dead weight.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileReference {
    /// The file, without links.
    pub file: RootPath,
    /// Who leads to it.
    pub by: FileReferrer,
    /// The name that is asked for.
    pub name: ByteString,
    /// By what means the loader or a program gets to the file.
    pub how: ReferenceKind,
}

/// Who leads to a file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileReferrer {
    /// An object of the image.
    Object(RootPath),
    /// A setting of the image, such as a variable of its environment.
    Setting(String),
}

/// How a file is led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReferenceKind {
    /// The loader gets to it from a `DT_NEEDED` entry.
    Needs,
    /// A program opens it before it uses a GPU, and runs on the CPU alone where it is missing.
    Opens,
    /// A `DT_NEEDED` entry has its name, and where the loader gets to is not known.
    MayNeed,
    /// The object holds its name, and no profile says what for.
    Holds,
    /// It is preloaded, or named by path in a setting or a script.
    Names,
    /// A setting or a script names the folder that it lies in.
    NamesFolder,
    /// No search path, package or toolkit explains why the file lies where it does.
    Unexplained,
    /// Another processor gets it in place of a file that something leads to.
    OtherProcessor,
}

/// The objects, links and kept texts of an image.
#[derive(Debug, Default)]
pub(crate) struct ObjectInventory {
    pub objects: Vec<(RootPath, Arc<FileFacts>)>,
    pub links: Vec<(RootPath, ByteString)>,
    /// The scripts and settings whose content was kept, without the lists of packages.
    pub texts: Vec<(RootPath, Arc<FileFacts>)>,
}

/// Whether a file that is kept may say what a program uses: what package managers and ldconfig keep names all there is.
fn is_setting(path: &RootPath) -> bool {
    let kept_by_managers = ["dist-info", "conda-meta", "dpkg", "ld.so.conf.d"];
    let above = path.parent();
    let is_record = kept_by_managers
        .iter()
        .any(|folder| above.name().ends_with(folder.as_bytes()));
    let is_cache = above.as_bytes() == b"etc" && path.name().starts_with(b"ld.so.");
    !is_installed_list(path) && !is_record && !is_cache
}

impl ObjectInventory {
    /// Takes one node of the file system.
    pub fn add_node(&mut self, path: &RootPath, node: &RootfsNode) {
        match &node.kind {
            NodeKind::File(facts) if facts.elf.is_some() => {
                self.objects.push((path.clone(), Arc::clone(facts)));
            }
            NodeKind::File(facts) if facts.kept.is_some() && is_setting(path) => {
                self.texts.push((path.clone(), Arc::clone(facts)));
            }
            NodeKind::Symlink(target) => self.links.push((path.clone(), target.clone())),
            _ => {}
        }
    }
}

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
