//! Something that leads to a file, and what is looked through for it.

use std::sync::Arc;

use image_linkage::elf::ByteString;
use image_linkage::layer::{FileFacts, is_installed_list};
use image_linkage::path::RootPath;
use image_linkage::rootfs::{NodeKind, RootfsNode};

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
