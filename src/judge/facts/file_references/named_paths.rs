//! What the words of a setting or a script lead to: a file by its path, all that lies in a folder, and what a build
//! names by `-l` or as a header.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::super::dead_weight::DeadWeightFile;
use super::super::library_aliases::last_part;
use super::super::python::is_source;
use super::name_index::NameIndex;
use super::reference::{FileReference, FileReferrer, ReferenceKind};
use super::reference_list::ReferenceList;
use super::stray_files::StrayFiles;
use crate::byte_search::contains_bytes;
use crate::knowledge::Knowledge;
use crate::knowledge::shared_folders::SharedFolders;
use image_linkage::path::RootPath;
use image_linkage::rootfs::{NodeKind, Rootfs};
use memchr::memmem;

/// The longest path that is looked up (`PATH_MAX` of Linux).
const PATH: usize = 4096;

/// The longest name of a library that is looked for in a compiled module, without its ending.
const NAME: usize = 64;

/// The file system that words are looked up in, and what may be found there.
pub(super) struct NamedPaths<'a> {
    rootfs: &'a Rootfs,
    names: &'a NameIndex<'a>,
    knowledge: &'a Knowledge,
    strays: &'a StrayFiles<'a>,
    headers: BTreeMap<&'a [u8], Vec<&'a DeadWeightFile>>,
}

/// Whose words are looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WordOrigin {
    /// Its paths alone count: packages of Python hold tables of names that nobody asks for.
    Package,
    /// What it says of a build counts, too.
    System,
    /// So do the names of libraries and parts of paths: whoever made the image wrote it.
    Own,
}

/// Who says a text, and how he may mean its words.
struct TextAsker<'t> {
    by: &'t FileReferrer,
    origin: WordOrigin,
    /// Whether it opens libraries by names that it computes.
    computes: bool,
}

impl TextAsker<'_> {
    /// Whether its words may be the parts of a path.
    fn puts_together(&self) -> bool {
        self.origin == WordOrigin::Own || self.origin == WordOrigin::Package && self.computes
    }
}

impl<'a> NamedPaths<'a> {
    pub(super) fn new(
        rootfs: &'a Rootfs,
        names: &'a NameIndex<'a>,
        knowledge: &'a Knowledge,
        strays: &'a StrayFiles<'a>,
    ) -> Self {
        let mut headers: BTreeMap<&[u8], Vec<&DeadWeightFile>> = BTreeMap::new();
        for file in names.files.iter().filter(|file| is_header(&file.path)) {
            headers.entry(file.path.name()).or_default().push(file);
        }
        Self {
            rootfs,
            names,
            knowledge,
            strays,
            headers,
        }
    }

    pub(super) fn shared(&self) -> &'a SharedFolders {
        &self.knowledge.tables.shared_folders
    }

    /// Adds the references of a text, each word once, and of `left` words at most, which are counted down.
    pub(super) fn add_text(
        &self,
        text: &[u8],
        by: &FileReferrer,
        origin: WordOrigin,
        left: &mut usize,
        references: &mut ReferenceList<'_>,
    ) {
        if self.names.files.is_empty() {
            return;
        }
        let plain = plain_text(text);
        let text = plain.as_ref();
        let mut words = BTreeSet::new();
        for token in text.split(|byte| byte.is_ascii_whitespace() || b";|&".contains(byte)) {
            let searches = self.shared().sets_search_path(token);
            let parts = token.split(|byte| !is_path_byte(*byte));
            let named = parts.filter(|part| !part.is_empty() && self.may_name(part));
            words.extend(named.map(|part| (part, searches)));
            if words.len() >= *left {
                break;
            }
        }
        *left = left.saturating_sub(words.len());
        let computes = self.shared().opens_computed_name(text);
        let asker = TextAsker { by, origin, computes };
        for (word, searches) in &words {
            if references.is_cut() {
                return;
            }
            let of_word = self.of_word(word, *searches, &asker);
            references.extend(of_word.into_iter().map(|(file, how)| FileReference {
                file: file.path.clone(),
                by: by.clone(),
                name: (*word).into(),
                how,
            }));
        }
        if *left == 0 {
            references.cut();
        }
        if origin == WordOrigin::Own && computes {
            references.extend(self.strays.opened_by(by));
        }
    }

    /// Adds the references of a module of Python without its source, of `left` names at most: its words run into each
    /// other, and its calls are no text.
    pub(super) fn add_compiled(
        &self,
        content: &[u8],
        by: &FileReferrer,
        left: &mut usize,
        references: &mut ReferenceList<'_>,
    ) {
        let places = memmem::find_iter(content, b".so").take(*left);
        let names = places.filter_map(|at| {
            *left -= 1;
            let number = content
                .iter()
                .skip(at + 3)
                .take_while(|byte| byte.is_ascii_digit() || **byte == b'.');
            let end = at + 3 + number.count();
            let mut texts = (at.saturating_sub(NAME)..at).filter_map(|start| content.get(start..end));
            texts.find(|text| self.names.of(text).next().is_some())
        });
        let names: BTreeSet<&[u8]> = names.collect();
        if *left == 0 {
            references.cut();
        }
        let held = names.into_iter().flat_map(|name| self.names.of(name));
        references.extend(held.map(|file| FileReference {
            file: file.path.clone(),
            by: by.clone(),
            name: file.path.name().into(),
            how: ReferenceKind::Holds,
        }));
        references.extend(self.strays.opened_by(by));
    }

    fn may_name(&self, word: &[u8]) -> bool {
        let is_option = word.starts_with(b"-l") || word.starts_with(b"-") && word.contains(&b'/');
        let last = last_part(word);
        let names_file = self.headers.contains_key(last) || self.names.by_name.contains_key(last);
        let begins = |begin| self.names.beginning_with(begin).next().is_some();
        let names_library = || begins(library_name(word)) || begins([word, b".so"].concat());
        word.starts_with(b"/") || is_option || names_file || self.strays.may_be_named(word) || names_library()
    }

    fn of_word(&self, word: &[u8], searches: bool, asker: &TextAsker<'_>) -> Vec<(&'a DeadWeightFile, ReferenceKind)> {
        // `-I/opt/include` and `-L/opt/lib` are words, too.
        let path = match word.first() {
            Some(b'-') => word.iter().position(|&byte| byte == b'/').and_then(|at| word.get(at..)),
            _ => word.starts_with(b"/").then_some(word),
        };
        let mut files = path.map_or_else(Vec::new, |path| self.at_path(path, searches, asker));
        if asker.puts_together() && !searches {
            let named = self.strays.named_by(word);
            files.extend(named.map(|file| (file, ReferenceKind::NamesFolder)));
        }
        if asker.origin == WordOrigin::Own && !searches {
            let called = self.called(word, asker);
            files.extend(called.map(|file| (file, ReferenceKind::Names)));
        }
        if asker.origin != WordOrigin::Package {
            let library = word.strip_prefix(b"-l").map(library_name);
            let linked = library.iter().flat_map(|name| self.names.of(name));
            let included = self.headers.get(last_part(word)).into_iter().flatten().copied();
            let included = included.flat_map(|header| self.with_others(header));
            files.extend(linked.chain(included).map(|file| (file, ReferenceKind::Names)));
        }
        files
    }

    /// The libraries that a word names without their folder, or that a computed name is made of, as by
    /// `find_library("nvperf_host")`.
    fn called(&self, word: &[u8], asker: &TextAsker<'_>) -> impl Iterator<Item = &'a DeadWeightFile> {
        let is_name = !word.starts_with(b"/") && contains_bytes(word, b".so");
        // What a module of Python gets by the library's own name is followed as its request (`source_openers`).
        let is_followed = match asker.by {
            FileReferrer::Object(path) => is_source(path.name()) && self.knowledge.library.is_request(word),
            FileReferrer::Setting(_) => false,
        };
        let name = (is_name && !is_followed).then(|| last_part(word));
        let files = name.into_iter().flat_map(|name| self.names.of(name));
        let parts = [library_name(word), [word, b".so"].concat()];
        let parts = parts.into_iter().filter(|_| asker.computes);
        files.chain(parts.flat_map(|begin| self.names.beginning_with(begin)))
    }

    /// What an absolute path leads to. Of one that leads nowhere, as `/opt/c/*.so` and `/opt/c/lib$NAME.so` are written, its
    /// folder is meant.
    fn at_path(&self, path: &[u8], searches: bool, asker: &TextAsker<'_>) -> Vec<(&'a DeadWeightFile, ReferenceKind)> {
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
        let is_there = found.is_some();
        let folder = found.or_else(|| self.rootfs.lookup(&path.parent().absolute()).ok());
        let is_folder = |node: &NodeKind| matches!(node, NodeKind::Directory(_));
        let folder = folder.filter(|folder| is_folder(&self.rootfs.node(folder.node).kind));
        // Everybody names the folder of `/usr/local/cuda/lib64/libnvperf_*.so`, and nobody so what lies in it.
        let named_so = folder
            .iter()
            .filter(|_| !is_there && !searches && asker.origin == WordOrigin::Own);
        let named_so = named_so.flat_map(|folder| self.names.in_folder(&folder.path));
        let named_so: Vec<_> = named_so
            .filter(|file| file.path.name().starts_with(path.name()))
            .collect();
        if !named_so.is_empty() {
            return named_so
                .into_iter()
                .map(|file| (file, ReferenceKind::NamesFolder))
                .collect();
        }
        let folder = folder.filter(|folder| !self.shared().is_shared(&folder.path));
        let files = folder.iter().flat_map(|folder| self.names.in_folder(&folder.path));
        if searches {
            // The container's own search path is followed; whom a script gives one, it starts besides.
            let is_script = asker.origin == WordOrigin::Own && matches!(asker.by, FileReferrer::Object(_));
            let files = files.filter(|file| is_script && self.strays.is_asked(file));
            return files.map(|file| (file, ReferenceKind::NamesFolder)).collect();
        }
        // A program may walk what lies below a folder, or put a path together that begins so.
        let start = if is_there {
            folder.as_ref().map(|folder| &folder.path)
        } else {
            Some(&path)
        };
        let below = start.filter(|_| asker.puts_together()).into_iter();
        let files = files.chain(below.flat_map(|start| self.strays.below(start, is_there)));
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

/// A text without what JSON and UTF-16 put between the letters of a path.
fn plain_text(text: &[u8]) -> Cow<'_, [u8]> {
    let is_filler = |at: usize| match text.get(at) {
        // RFC 8259, section 7: a slash may be written as `\/`.
        Some(b'\\') => text.get(at + 1) == Some(&b'/'),
        Some(0) => true,
        _ => false,
    };
    if !(0..text.len()).any(is_filler) {
        return Cow::Borrowed(text);
    }
    let left = text.iter().enumerate().filter(|(at, _)| !is_filler(*at));
    Cow::Owned(left.map(|(_, &byte)| byte).collect())
}

/// The name under which a linker finds a library that is called so.
fn library_name(name: &[u8]) -> Vec<u8> {
    [b"lib", name, b".so"].concat()
}

fn is_header(path: &RootPath) -> bool {
    path.name().ends_with(b".h")
}

/// Whether a byte is a part of a path as settings write it. What stands for a variable or a pattern ends it.
fn is_path_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"/._+-@~%".contains(&byte) || !byte.is_ascii()
}
