//! An index of the files that may be dead weight, by name and directory, including links.

use std::collections::{BTreeMap, BTreeSet};

use super::reference::ObjectInventory;
use crate::byte_search::last_part;
use crate::facts::objects::resolved_objects::elf_at;
use crate::facts::weight::dead_weight::DeadWeightFile;
use image_linkage::elf::ByteString;
use image_linkage::loader::ProcessSetup;
use image_linkage::path::RootPath;
use image_linkage::rootfs::Rootfs;

/// The files of dead weight, by the names under which they may be requested.
pub(super) struct NameIndex<'f> {
    pub files: &'f [DeadWeightFile],
    pub by_name: BTreeMap<ByteString, BTreeSet<usize>>,
    /// The directories that contain each file, or a link to it.
    folders: BTreeMap<RootPath, BTreeSet<usize>>,
    /// The names of files for a specific processor level.
    levels: BTreeSet<ByteString>,
}

impl<'f> NameIndex<'f> {
    /// Indexes `files` by directory, and ELF objects also by name, including the `links` to each.
    pub(super) fn new(rootfs: &Rootfs, files: &'f [DeadWeightFile], links: &BTreeMap<RootPath, Vec<RootPath>>) -> Self {
        let mut by_name: BTreeMap<ByteString, BTreeSet<usize>> = BTreeMap::new();
        let mut folders: BTreeMap<RootPath, BTreeSet<usize>> = BTreeMap::new();
        let mut levels = BTreeSet::new();
        for (number, file) in files.iter().enumerate() {
            let links = links.get(&file.path).map(Vec::as_slice).unwrap_or_default();
            for path in links.iter().chain([&file.path]) {
                folders.entry(path.parent()).or_default().insert(number);
            }
            // Headers and archives are never opened by name at run time.
            let Some(elf) = elf_at(rootfs, &file.path) else {
                continue;
            };
            // An object built with `-lcupti` requests the soname; dlopen may use any name that leads to the file.
            let paths = links.iter().chain([&file.path]).map(RootPath::name);
            for name in paths.chain(elf.soname.as_deref()) {
                by_name.entry(name.into()).or_default().insert(number);
                if is_for_processor(&file.path) {
                    levels.insert(name.into());
                }
            }
        }
        Self {
            files,
            by_name,
            folders,
            levels,
        }
    }

    /// The indices of the files with this name, which may be a path.
    pub(super) fn numbers(&self, name: &[u8]) -> impl Iterator<Item = usize> + Clone + use<'_, 'f> {
        // A name with a slash is opened as a path, whose last component is still the file's name.
        let last = name.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        self.by_name.get(last).into_iter().flatten().copied()
    }

    /// The files that a search in this directory may find.
    pub(super) fn numbers_in(&self, rootfs: &Rootfs, setup: &ProcessSetup<'_>, folder: &[u8]) -> Vec<usize> {
        // ld.so also searches each directory's glibc-hwcaps and legacy processor subdirectories.
        let below = setup.linker.subdirectories.iter().map(|below| [folder, below].concat());
        let folders = below.chain([folder.to_vec()]);
        let found = folders.filter_map(|folder| rootfs.lookup(&folder).ok());
        let numbers = found.filter_map(|found| self.folders.get(&found.path)).flatten();
        numbers.copied().collect()
    }

    /// The directories that contain the files or links to them.
    pub(super) fn folders(&self) -> impl Iterator<Item = &RootPath> {
        self.folders.keys()
    }

    /// The files in a directory, or with a link in it. The path must have no links.
    pub(super) fn in_folder(&self, folder: &RootPath) -> impl Iterator<Item = &'f DeadWeightFile> {
        let numbers = self.folders.get(folder).into_iter().flatten();
        numbers.filter_map(|&number| self.files.get(number))
    }

    /// The files with this name.
    pub(super) fn of(&self, name: &[u8]) -> impl Iterator<Item = &'f DeadWeightFile> + Clone + use<'_, 'f> {
        self.numbers(name).filter_map(|number| self.files.get(number))
    }

    /// Whether one of the files with this name is for a specific processor level.
    pub(super) fn has_levels(&self, name: &ByteString) -> bool {
        self.levels.contains(name)
    }

    /// The files whose name starts like this.
    pub(super) fn beginning_with(&self, begin: Vec<u8>) -> impl Iterator<Item = &'f DeadWeightFile> {
        let numbers = self.names_beginning_with(begin).flat_map(|(_, numbers)| numbers);
        numbers.filter_map(|&number| self.files.get(number))
    }

    /// The names that start like this, with the indices of their files.
    pub(super) fn names_beginning_with(
        &self,
        begin: impl AsRef<[u8]> + Clone,
    ) -> impl Iterator<Item = (&ByteString, &BTreeSet<usize>)> + Clone {
        let known = self.by_name.range(ByteString::from(begin.as_ref())..);
        known.take_while(move |(name, _)| name.starts_with(begin.as_ref()))
    }

    /// The file at this path, which must have no links.
    pub(super) fn at(&self, path: &RootPath) -> Option<&'f DeadWeightFile> {
        self.files.get(self.number_at(path)?)
    }

    /// The index of the file at this path, which must have no links.
    pub(super) fn number_at(&self, path: &RootPath) -> Option<usize> {
        // The files are sorted by path.
        self.files.binary_search_by(|file| file.path.cmp(path)).ok()
    }
}

/// Whether a file is for a specific processor level (ld.so(8), "Hardware capabilities").
pub fn is_for_processor(path: &RootPath) -> bool {
    path.split_components().any(|part| part == b"glibc-hwcaps")
}

/// The links to each file of dead weight.
pub(super) fn links_to(
    rootfs: &Rootfs,
    files: &[DeadWeightFile],
    inventory: &ObjectInventory,
) -> BTreeMap<RootPath, Vec<RootPath>> {
    let known: BTreeSet<&RootPath> = files.iter().map(|file| &file.path).collect();
    let mut names: BTreeSet<&[u8]> = files.iter().map(|file| file.path.name()).collect();
    let mut links: BTreeMap<RootPath, Vec<RootPath>> = BTreeMap::new();
    let mut pending: Vec<&(RootPath, ByteString)> = inventory.links.iter().collect();
    // A link may lead to another one; each round follows one more.
    loop {
        // Resolving every link in a large image is slow. Resolve a link only if its target ends in a known name.
        let (near, far): (Vec<_>, Vec<_>) = pending
            .into_iter()
            .partition(|(_, target)| names.contains(last_part(target)));
        if near.is_empty() {
            return links;
        }
        for (link, _) in near {
            if let Ok(found) = rootfs.lookup(&link.absolute())
                && known.contains(&found.path)
            {
                names.insert(link.name());
                links.entry(found.path).or_default().push(link.clone());
            }
        }
        // Each link is resolved once, so a cycle of links ends as well.
        pending = far;
    }
}

pub(super) fn is_below(path: &RootPath, folder: &RootPath) -> bool {
    let rest = path.as_bytes().strip_prefix(folder.as_bytes());
    rest.is_some_and(|rest| rest.starts_with(b"/") || folder.as_bytes().is_empty())
}
