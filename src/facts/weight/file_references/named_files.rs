//! Finds the files that a text names: a setting, a script, a module. One rule applies to all: a text with the name, the
//! path or the private directory of a file may lead to its use. Frameworks are excluded, because they also name
//! optional files; their profiles contain what they open.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use aho_corasick::AhoCorasick;

use super::name_index::NameIndex;
use super::reference::{FileReference, FileReferrer, ReferenceKind, ReferenceList};
use crate::facts::weight::dead_weight::DeadWeightFile;
use crate::knowledge::Knowledge;
use crate::knowledge::shared_folders::SharedFolders;
use image_linkage::path::RootPath;
use image_linkage::rootfs::{NodeKind, ResolvedPath, Rootfs};
use python_path::is_source;

/// The maximum number of bytes of a word to read on each side of a needle; paths in settings are shorter.
const AROUND: usize = 1024;

/// The number of bytes in a needle for a library: `lib` and the first two of its own letters. A pattern or program may
/// supply the rest.
const BEGINNING: usize = 5;

/// The search for texts that name files.
pub(super) struct NamedFiles<'a> {
    rootfs: &'a Rootfs,
    names: &'a NameIndex<'a>,
    knowledge: &'a Knowledge,
    headers: BTreeMap<&'a [u8], Vec<&'a DeadWeightFile>>,
    /// The automaton for all needles; `meanings` has the meaning of each at the same index.
    needles: Option<AhoCorasick>,
    meanings: Vec<Needle>,
}

/// The kind of a needle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Needle {
    /// The start of a library's name, or a header's full name.
    Name,
    /// A library's name without `lib` and suffix, as in `find_library`.
    Stem,
    /// The same after `-l`.
    Link,
    /// A slash and the last component of a path: a private directory, or a program, archive or script in a shared one.
    Path,
}

/// An occurrence of a needle in a text, with the context that decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Mention<'t> {
    needle: Needle,
    /// From the needle to the end of the word.
    rest: &'t [u8],
    /// The absolute path that the word is, or contains after an option.
    path: Option<&'t [u8]>,
}

impl<'a> NamedFiles<'a> {
    pub(super) fn new(rootfs: &'a Rootfs, names: &'a NameIndex<'a>, knowledge: &'a Knowledge) -> Self {
        let mut headers: BTreeMap<&[u8], Vec<&DeadWeightFile>> = BTreeMap::new();
        for file in names.files.iter().filter(|file| is_header(&file.path)) {
            headers.entry(file.path.name()).or_default().push(file);
        }
        let shared = &knowledge.tables.shared_folders;
        let mut all: BTreeSet<(Vec<u8>, Needle)> = BTreeSet::new();
        all.extend(headers.keys().map(|name| (name.to_vec(), Needle::Name)));
        for name in names.by_name.keys() {
            match stem(name) {
                Some(stem) => {
                    let begin = name.get(..BEGINNING.min(name.len())).unwrap_or_default();
                    all.insert((begin.to_vec(), Needle::Name));
                    all.insert((stem.to_vec(), Needle::Stem));
                }
                None => _ = all.insert(path_needle(name)),
            }
        }
        for folder in names.folders() {
            if !shared.is_shared(folder) {
                all.insert(path_needle(folder.name()));
                continue;
            }
            let files = names.in_folder(folder).map(|file| file.path.name());
            let other = files.filter(|name| stem(name).is_none() && !headers.contains_key(name));
            all.extend(other.map(path_needle));
        }
        let (texts, meanings): (Vec<_>, Vec<_>) = all.into_iter().unzip();
        Self {
            rootfs,
            names,
            knowledge,
            headers,
            needles: AhoCorasick::new(texts).ok(),
            meanings,
        }
    }

    pub(super) fn shared(&self) -> &'a SharedFolders {
        &self.knowledge.tables.shared_folders
    }

    /// Adds the references in a text, without duplicates. Examines at most `left` occurrences, and subtracts them from
    /// `left`.
    pub(super) fn add_text(
        &self,
        text: &[u8],
        by: &FileReferrer,
        left: &mut usize,
        references: &mut ReferenceList<'_>,
    ) {
        if self.meanings.is_empty() {
            return;
        }
        let Some(needles) = &self.needles else {
            // The automaton cannot hold this many names, so treat every file as named.
            return references.cut();
        };
        let plain = plain_text(text);
        let text = plain.as_ref();
        for mention in self.mentions(needles, text, left) {
            if references.is_cut() {
                return;
            }
            let files = self.files_of(&mention, by);
            references.extend(files.into_iter().map(|(file, how)| FileReference {
                file: file.path.clone(),
                by: by.clone(),
                name: mention.path.unwrap_or(mention.rest).into(),
                how,
            }));
        }
        if *left == 0 {
            references.cut();
        }
    }

    fn mentions<'t>(&self, needles: &AhoCorasick, text: &'t [u8], left: &mut usize) -> BTreeSet<Mention<'t>> {
        let mut mentions = BTreeSet::new();
        // Computed on demand and only once: whether the text builds names from parts.
        let mut computes = None;
        for hit in needles.find_overlapping_iter(text).take(*left) {
            *left -= 1;
            let Some(&(mut needle)) = self.meanings.get(hit.pattern().as_usize()) else {
                continue;
            };
            let before = text.get(..hit.start()).unwrap_or_default();
            let after = text.get(hit.end()..).unwrap_or_default();
            let begun = before.iter().rev().take(AROUND).take_while(|byte| is_path_byte(**byte));
            let goes_on = after.iter().take(AROUND).take_while(|byte| is_path_byte(**byte));
            let (start, end) = (hit.start() - begun.count(), hit.end() + goes_on.count());
            let word = text.get(start..end).unwrap_or_default();
            let path = absolute_path(word);
            if needle == Needle::Stem && word.starts_with(b"-l") {
                needle = Needle::Link;
            }
            let counts = match needle {
                Needle::Name | Needle::Link => true,
                Needle::Path => path.is_some() && !self.shared().sets_search_path(token_before(text, start)),
                Needle::Stem => {
                    let is_whole = ![before.last(), after.first()]
                        .into_iter()
                        .flatten()
                        .any(|byte| is_letter(*byte));
                    is_whole && *computes.get_or_insert_with(|| self.shared().opens_computed_name(text))
                }
            };
            let is_part = matches!(needle, Needle::Stem | Needle::Link);
            let until = if is_part { hit.end() } else { end };
            let rest = text.get(hit.start()..until).filter(|_| counts);
            mentions.extend(rest.map(|rest| Mention { needle, rest, path }));
        }
        mentions
    }

    fn files_of(&self, mention: &Mention<'_>, by: &FileReferrer) -> Vec<(&'a DeadWeightFile, ReferenceKind)> {
        let files: Vec<&DeadWeightFile> = match mention.needle {
            Needle::Link => self.names.of(&library_name(mention.rest)).collect(),
            Needle::Stem => self.names.beginning_with(library_name(mention.rest)).collect(),
            Needle::Name | Needle::Path => {
                let path = mention.path.map(RootPath::new);
                let found = path.as_ref().and_then(|path| self.rootfs.lookup(&path.absolute()).ok());
                match (found, path) {
                    (Some(found), _) if !self.is_folder(&found) => {
                        let file = self.names.at(&found.path);
                        file.into_iter().flat_map(|file| self.with_others(file)).collect()
                    }
                    (found, Some(path)) if mention.needle == Needle::Path => {
                        // `/opt/c/*.so` and `/opt/c/lib$NAME.so` do not exist, so they mean the directory.
                        let folder = found.or_else(|| self.rootfs.lookup(&path.parent().absolute()).ok());
                        return self.in_own_folder(folder);
                    }
                    _ if mention.needle == Needle::Path => Vec::new(),
                    _ => self.called(mention.rest, by),
                }
            }
        };
        files.into_iter().map(|file| (file, ReferenceKind::Names)).collect()
    }

    fn is_folder(&self, found: &ResolvedPath) -> bool {
        matches!(self.rootfs.node(found.node).kind, NodeKind::Directory(_))
    }

    /// The files in a directory that does not belong to other software as well.
    fn in_own_folder(&self, folder: Option<ResolvedPath>) -> Vec<(&'a DeadWeightFile, ReferenceKind)> {
        match folder {
            Some(folder) if self.is_folder(&folder) && !self.shared().is_shared(&folder.path) => {
                let files = self.names.in_folder(&folder.path);
                files.map(|file| (file, ReferenceKind::NamesFolder)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The files with a name, or with names that start like it, in any directory.
    fn called(&self, rest: &[u8], by: &FileReferrer) -> Vec<&'a DeadWeightFile> {
        if let Some(headers) = self.headers.get(rest) {
            return headers.iter().flat_map(|header| self.with_others(header)).collect();
        }
        // A Python module's request for the library by its name is simulated elsewhere (`source_openers`).
        let is_followed = match by {
            FileReferrer::Object(path) => is_source(path.name()) && self.knowledge.library.is_request(rest),
            FileReferrer::Setting(_) => false,
        };
        if is_followed {
            return Vec::new();
        }
        // In a compiled module the next word follows the name without a separator.
        let longest = (0..rest.len()).rev().map(|end| rest.get(..=end).unwrap_or_default());
        let mut whole = longest.filter(|begin| self.names.by_name.contains_key(*begin));
        match whole.next() {
            Some(name) => self.names.of(name).collect(),
            None => self.names.beginning_with(rest.to_vec()).collect(),
        }
    }

    /// A file, and for a header also those beside it, because headers include each other.
    fn with_others(&self, file: &'a DeadWeightFile) -> impl Iterator<Item = &'a DeadWeightFile> + use<'a> {
        let mut files = vec![file];
        if is_header(&file.path) {
            let folder = file.path.parent();
            let beside = self.names.in_folder(&folder);
            files.extend(beside.filter(|other| is_header(&other.path)));
        }
        files.into_iter()
    }
}

/// The text without the bytes that JSON and UTF-16 insert between the characters of a path.
fn plain_text(text: &[u8]) -> Cow<'_, [u8]> {
    if !memchr::memchr2_iter(0, b'\\', text).any(|at| is_filler(text, at)) {
        return Cow::Borrowed(text);
    }
    let left = text.iter().enumerate().filter(|(at, _)| !is_filler(text, *at));
    Cow::Owned(left.map(|(_, &byte)| byte).collect())
}

fn is_filler(text: &[u8], at: usize) -> bool {
    match text.get(at) {
        // RFC 8259, section 7: a slash may be escaped as `\/`.
        Some(b'\\') => text.get(at + 1) == Some(&b'/'),
        Some(0) => true,
        _ => false,
    }
}

fn path_needle(name: &[u8]) -> (Vec<u8>, Needle) {
    ([b"/", name].concat(), Needle::Path)
}

fn library_name(stem: &[u8]) -> Vec<u8> {
    [b"lib", stem, b".so"].concat()
}

/// The name of a library without `lib` and the part from `.so` on.
fn stem(name: &[u8]) -> Option<&[u8]> {
    let end = memchr::memmem::find(name, b".so")?;
    name.get(..end)?.strip_prefix(b"lib").filter(|stem| !stem.is_empty())
}

/// The path that a word is, or contains after an option, as in `-I/opt/include` and `-L/opt/lib`.
fn absolute_path(word: &[u8]) -> Option<&[u8]> {
    match word.first()? {
        b'/' => Some(word),
        b'-' => word.iter().position(|&byte| byte == b'/').and_then(|at| word.get(at..)),
        _ => None,
    }
}

/// The text before a word, back to the last space or shell separator.
fn token_before(text: &[u8], word: usize) -> &[u8] {
    let before = text.get(..word).unwrap_or_default();
    let mut tokens = before.rsplit(|byte| byte.is_ascii_whitespace() || b";|&".contains(byte));
    tokens.next().unwrap_or_default()
}

fn is_header(path: &RootPath) -> bool {
    path.name().ends_with(b".h")
}

fn is_letter(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii()
}

/// Whether a byte is part of a path in a setting. A variable or pattern ends the path.
fn is_path_byte(byte: u8) -> bool {
    is_letter(byte) || b"/.+-@~%".contains(&byte)
}
