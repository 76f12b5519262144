//! What the words of a setting or a script lead to: a file by its path, all that lies in a folder, and what a build
//! names by `-l` or as a header.

use std::collections::{BTreeMap, BTreeSet};

use super::super::dead_weight::DeadWeightFile;
use super::super::library_aliases::last_part;
use super::name_index::NameIndex;
use super::reference::{FileReference, FileReferrer, ReferenceKind};
use crate::knowledge::shared_folders::SharedFolders;
use image_linkage::path::RootPath;
use image_linkage::rootfs::{NodeKind, Rootfs};

/// The longest path that is looked up (`PATH_MAX` of Linux).
const PATH: usize = 4096;

/// The file system that words are looked up in, and what may be found there.
pub(super) struct NamedPaths<'a> {
    rootfs: &'a Rootfs,
    names: &'a NameIndex<'a>,
    shared: &'a SharedFolders,
    headers: BTreeMap<&'a [u8], Vec<&'a DeadWeightFile>>,
}

/// Whose words are looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WordOrigin {
    /// Its paths alone count: packages of Python hold tables of names that nobody asks for.
    Package,
    /// What it says of a build counts, too.
    Own,
}

impl<'a> NamedPaths<'a> {
    pub(super) fn new(rootfs: &'a Rootfs, names: &'a NameIndex<'a>, shared: &'a SharedFolders) -> Self {
        let mut headers: BTreeMap<&[u8], Vec<&DeadWeightFile>> = BTreeMap::new();
        for file in names.files.iter().filter(|file| is_header(&file.path)) {
            headers.entry(file.path.name()).or_default().push(file);
        }
        Self {
            rootfs,
            names,
            shared,
            headers,
        }
    }

    /// The references of a text, each word once, and of `left` words at most, which are counted down.
    pub(super) fn in_text(
        &self,
        text: &[u8],
        by: &FileReferrer,
        origin: WordOrigin,
        left: &mut usize,
    ) -> Vec<FileReference> {
        if self.names.files.is_empty() {
            return Vec::new();
        }
        let mut words = BTreeSet::new();
        for token in text.split(|byte| byte.is_ascii_whitespace() || b";|&".contains(byte)) {
            let searches = self.shared.sets_search_path(token);
            let parts = token.split(|byte| !is_path_byte(*byte));
            words.extend(parts.filter(|part| self.may_name(part)).map(|part| (part, searches)));
            if words.len() >= *left {
                break;
            }
        }
        *left = left.saturating_sub(words.len());
        let mut found = Vec::new();
        for (word, searches) in &words {
            let of_word = self.of_word(word, *searches, origin);
            found.extend(of_word.into_iter().map(|(file, how)| FileReference {
                file: file.path.clone(),
                by: by.clone(),
                name: (*word).into(),
                how,
            }));
        }
        found
    }

    fn may_name(&self, word: &[u8]) -> bool {
        let is_option = word.starts_with(b"-l") || word.starts_with(b"-") && word.contains(&b'/');
        word.starts_with(b"/") || is_option || self.headers.contains_key(last_part(word))
    }

    fn of_word(&self, word: &[u8], searches: bool, origin: WordOrigin) -> Vec<(&'a DeadWeightFile, ReferenceKind)> {
        // `-I/opt/include` and `-L/opt/lib` are words, too.
        let path = match word.first() {
            Some(b'-') => word.iter().position(|&byte| byte == b'/').and_then(|at| word.get(at..)),
            _ => word.starts_with(b"/").then_some(word),
        };
        let mut files = path.map_or_else(Vec::new, |path| self.at_path(path, searches));
        if origin == WordOrigin::Own {
            let library = word.strip_prefix(b"-l").map(|name| [b"lib", name, b".so"].concat());
            let linked = library.iter().flat_map(|name| self.names.of(name));
            let included = self.headers.get(last_part(word)).into_iter().flatten().copied();
            let included = included.flat_map(|header| self.with_others(header));
            files.extend(linked.chain(included).map(|file| (file, ReferenceKind::Names)));
        }
        files
    }

    /// What an absolute path leads to. Of one that leads nowhere, as `/opt/c/*.so` and `/opt/c/lib$NAME.so` are written, its
    /// folder is meant.
    fn at_path(&self, path: &[u8], searches: bool) -> Vec<(&'a DeadWeightFile, ReferenceKind)> {
        if path.len() > PATH {
            return Vec::new();
        }
        let path = RootPath::new(path);
        let found = self.rootfs.lookup(&path.absolute()).ok();
        let file = found.as_ref().and_then(|found| self.names.at(&found.path));
        if let Some(file) = file {
            let all = self.with_others(file);
            return all.map(|file| (file, ReferenceKind::Names)).collect();
        }
        let folder = found.or_else(|| self.rootfs.lookup(&path.parent().absolute()).ok());
        let is_folder = |node: &NodeKind| matches!(node, NodeKind::Directory(_));
        let folder = folder.filter(|folder| !searches && is_folder(&self.rootfs.node(folder.node).kind));
        let folder = folder.filter(|folder| !self.shared.is_shared(&folder.path));
        let files = folder.iter().flat_map(|folder| self.names.in_folder(&folder.path));
        files.map(|file| (file, ReferenceKind::NamesFolder)).collect()
    }

    /// A file, with the headers beside it where it is one: they include each other.
    fn with_others(&self, file: &'a DeadWeightFile) -> impl Iterator<Item = &'a DeadWeightFile> + use<'a> {
        let folder = is_header(&file.path).then(|| file.path.parent());
        let beside = folder.map(|folder| self.names.in_folder(&folder).collect::<Vec<_>>());
        let beside = beside.into_iter().flatten().filter(|other| is_header(&other.path));
        std::iter::once(file).chain(beside)
    }
}

fn is_header(path: &RootPath) -> bool {
    path.name().ends_with(b".h")
}

/// Whether a byte is a part of a path as settings write it. What stands for a variable or a pattern ends it.
fn is_path_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"/._+-@~%".contains(&byte) || !byte.is_ascii()
}
