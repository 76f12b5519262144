//! Which files of a layer are kept or hashed, and which strings and symbols are searched for.
//!
//! Files that the loader itself reads are always kept. Everything else comes in as a [`FileInterest`]. The index
//! depends on later questions only through it, and its fingerprint tells which index can answer which questions.

use std::collections::BTreeSet;

use aho_corasick::AhoCorasick;

use super::path_pattern::{PathParts, PathPattern};
use crate::digest::{Digest, DigestHasher};
use crate::elf::mentions::NameMatcher;
use crate::limits::Limits;
use crate::path::RootPath;

/// A hash of the sources that produce a [`LayerIndex`](super::index::LayerIndex) (`build.rs`).
const INDEX_SOURCES: &str = env!("INDEX_SOURCES");

/// How a layer or a directory is indexed. By default, keeps what the loader reads and searches for nothing.
#[derive(Clone, Default)]
pub struct IndexOptions {
    /// The limits on everything that the input can drive.
    pub limits: Limits,
    /// The files to keep and the names to search for.
    pub interest: FileInterest,
}

impl IndexOptions {
    /// A digest of everything except the bytes that determines an index.
    pub fn fingerprint(&self) -> Digest {
        let Self { limits, interest } = self;
        // The debug output includes every limit, so a new one is covered automatically.
        Digest::of(format!("{} {limits:?}", interest.fingerprint()).as_bytes())
    }
}

/// The files to keep and the names to search for, as unordered lists.
///
/// Files are named by path patterns: `*` matches any bytes of one component, `**` any number of components. A bare name
/// matches a file in any directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WantedFiles {
    /// Files kept in full, up to [`Limits::kept_file`].
    pub kept: BTreeSet<String>,
    /// Files to hash (SHA-256).
    pub hashed: BTreeSet<String>,
    /// Names to search for in ELF objects, as evidence of a dlopen.
    pub names: BTreeSet<String>,
    /// Prefixes of the dynamic symbols to keep.
    pub symbol_prefixes: BTreeSet<String>,
    /// Files kept in full if they contain one of `text_words`, up to [`Limits::searched_file`]. If any are given,
    /// scripts with any name are included.
    pub texts: BTreeSet<String>,
    /// Exceptions to `texts`.
    pub no_texts: BTreeSet<String>,
    /// Words to search for in these files.
    pub text_words: BTreeSet<String>,
    /// Words to note of these files and of kept ones. They alone do not keep a file.
    pub noted_words: BTreeSet<String>,
}

/// The compiled form of [`WantedFiles`].
#[derive(Clone, Default)]
pub struct FileInterest {
    wanted: WantedFiles,
    kept: Vec<PathPattern>,
    hashed: Vec<PathPattern>,
    names: NameMatcher,
    texts: Vec<PathPattern>,
    no_texts: Vec<PathPattern>,
    text_words: NameMatcher,
    noted_words: Option<AhoCorasick>,
}

fn patterns(list: &BTreeSet<String>) -> Vec<PathPattern> {
    list.iter().map(|text| PathPattern::new(text)).collect()
}

impl From<WantedFiles> for FileInterest {
    /// Compiles the lists.
    fn from(wanted: WantedFiles) -> Self {
        Self {
            kept: patterns(&wanted.kept),
            hashed: patterns(&wanted.hashed),
            names: NameMatcher::new(&wanted.names, &wanted.symbol_prefixes),
            texts: patterns(&wanted.texts),
            no_texts: patterns(&wanted.no_texts),
            text_words: NameMatcher::new(&BTreeSet::new(), &wanted.text_words),
            noted_words: AhoCorasick::new(&wanted.noted_words).ok(),
            wanted,
        }
    }
}

impl FileInterest {
    /// A digest of the lists and of the code that reads layers. With equal fingerprints and limits, an old index is as
    /// good as a new one.
    pub fn fingerprint(&self) -> Digest {
        let mut hasher = DigestHasher::default();
        hasher.update(INDEX_SOURCES.as_bytes());
        let wanted = &self.wanted;
        let objects = [&wanted.kept, &wanted.hashed, &wanted.names, &wanted.symbol_prefixes];
        let texts = [&wanted.texts, &wanted.no_texts, &wanted.text_words, &wanted.noted_words];
        for list in objects.into_iter().chain(texts) {
            // Include lengths. Otherwise a text could move from the end of one list to the start of the next unnoticed.
            hasher.update(&(list.len() as u64).to_le_bytes());
            for text in list {
                hasher.update(&(text.len() as u64).to_le_bytes());
                hasher.update(text.as_bytes());
            }
        }
        hasher.finish()
    }

    /// Whether the file may be kept, because of its path or its content.
    pub fn may_keep(&self, path: &RootPath) -> bool {
        self.keeps_content(path) || self.wanted_words(path).is_some()
    }

    /// Whether the file is always kept.
    pub(super) fn keeps_content(&self, path: &RootPath) -> bool {
        loader_reads(path) || is_one(&self.kept, path)
    }

    /// Whether the file is hashed.
    pub(super) fn needs_digest(&self, path: &RootPath) -> bool {
        is_one(&self.hashed, path)
    }

    /// The words that a file must contain to be kept; `None` if its content does not decide.
    pub(super) fn wanted_words(&self, path: &RootPath) -> Option<&NameMatcher> {
        let is_text = is_one(&self.texts, path) && !is_one(&self.no_texts, path);
        is_text.then_some(&self.text_words)
    }

    /// The words that a script with any name must contain to be kept; `None` if no texts are requested.
    pub(super) fn script_words(&self, path: &RootPath) -> Option<&NameMatcher> {
        (!self.texts.is_empty() && !is_one(&self.no_texts, path)).then_some(&self.text_words)
    }

    /// The words to note that the file contains as whole words. In a compiled module, words follow each other without a
    /// separator.
    pub(super) fn noted_words(&self, content: &[u8], is_compiled: bool) -> Box<[Box<str>]> {
        let Some(searcher) = &self.noted_words else {
            return Box::default();
        };
        let mut found = BTreeSet::new();
        for hit in searcher.find_overlapping_iter(content) {
            let before = hit.start().checked_sub(1).and_then(|at| content.get(at));
            if is_compiled || !is_word_byte(before) && !is_word_byte(content.get(hit.end())) {
                found.insert(hit.pattern().as_usize());
            }
        }
        let words = self.wanted.noted_words.iter().enumerate();
        words
            .filter(|(number, _)| found.contains(number))
            .map(|(_, word)| word.as_str().into())
            .collect()
    }

    /// The names to search for in ELF objects.
    pub(super) fn names(&self) -> &NameMatcher {
        &self.names
    }
}

/// Whether any pattern matches the path.
fn is_one(patterns: &[PathPattern], path: &RootPath) -> bool {
    let parts = PathParts::new(path);
    patterns.iter().any(|pattern| pattern.matches(&parts))
}

/// Whether the file is a dynamic loader, or is read by a dynamic loader or ldconfig.
fn loader_reads(path: &RootPath) -> bool {
    let name = path.name();
    let parent = path.parent();
    let folder = parent.name();
    is_loader(name)
        || (parent.as_bytes() == b"etc" && name == b"ld.so.conf")
        // Matched in any directory: /etc/ld.so.cache may be a link, usually to a file of the same name, and a glibc
        // with its own prefix, such as Nix's, has its own.
        || name == b"ld.so.cache"
        || name.ends_with(b".so.preload")
        // musl's search path file. A loader with another prefix has its own `etc`.
        || (folder == b"etc" && is_musl_path(name))
        // `ld.so.conf` may include any file; in practice it has one of these names.
        || name.ends_with(b".conf")
        || folder == b"ld.so.conf.d"
}

/// Whether a file name is that of a dynamic loader. Its bytes contain the default directories.
fn is_loader(name: &[u8]) -> bool {
    let stem = [
        &b"ld-linux"[..],
        // Before glibc 2.34 the file name contained the version.
        b"ld-2.",
        b"ld-musl-",
        b"ld64.so.",
        b"ld.so.",
    ];
    stem.iter().any(|stem| name.starts_with(stem)) && name.windows(3).any(|part| part == b".so")
}

fn is_word_byte(byte: Option<&u8>) -> bool {
    byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}

fn is_musl_path(name: &[u8]) -> bool {
    name.starts_with(b"ld-musl-") && name.ends_with(b".path")
}

#[cfg(test)]
mod tests {
    use super::{FileInterest, WantedFiles};
    use crate::path::RootPath;

    fn list(texts: &[&str]) -> std::collections::BTreeSet<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn files_that_the_loader_reads_are_always_kept() {
        let keeps = |path: &str| FileInterest::default().keeps_content(&RootPath::from(path));
        for path in [
            "etc/ld.so.cache",
            "nix/store/glibc/etc/ld.so.cache",
            "usr/share/site/ld.so.preload",
            "etc/ld-nix.so.preload",
            "etc/ld.so.conf.d/000_cuda.conf",
            "etc/cuda/more.conf",
            "etc/more.conf",
            "usr/local/lib/more.conf",
            "etc/ld.so.conf.d/nvidia",
            "etc/ld-musl-x86_64.path",
            "opt/musl/etc/ld-musl-x86_64.path",
            "lib/x86_64-linux-gnu/ld-linux-x86-64.so.2",
            "lib/x86_64-linux-gnu/ld-2.31.so",
        ] {
            assert!(keeps(path), "{path}");
        }
        for path in [
            "etc/passwd",
            "usr/lib/libc.so.6",
            "opt/ld-linux.txt",
            "opt/no-ld.so.conf.d/x",
        ] {
            assert!(!keeps(path), "{path}");
        }
    }

    #[test]
    fn only_requested_files_are_kept_and_hashed() {
        let interest = FileInterest::from(WantedFiles {
            kept: list(&["var/lib/dpkg/status"]),
            hashed: list(&["libz.so*"]),
            ..WantedFiles::default()
        });
        let (status, library) = ("var/lib/dpkg/status".into(), "usr/lib/libz.so.1".into());
        let asked = |path: &RootPath| (interest.keeps_content(path), interest.needs_digest(path));
        assert_eq!((asked(&status), asked(&library)), ((true, false), (false, true)));
    }

    #[test]
    fn the_fingerprint_covers_every_list() {
        let print = |lists: [&[&str]; 7]| {
            let [kept, hashed, names, symbol_prefixes, texts, text_words, noted_words] = lists.map(list);
            let wanted = WantedFiles {
                kept,
                hashed,
                names,
                symbol_prefixes,
                texts,
                text_words,
                noted_words,
                ..WantedFiles::default()
            };
            FileInterest::from(wanted).fingerprint()
        };
        let all = [
            print([&[], &[], &[], &[], &[], &[], &[]]),
            print([&["a"], &[], &[], &[], &[], &[], &[]]),
            print([&[], &["a"], &[], &[], &[], &[], &[]]),
            print([&[], &[], &["a"], &[], &[], &[], &[]]),
            print([&[], &[], &[], &["a"], &[], &[], &[]]),
            print([&[], &[], &[], &[], &["a"], &[], &[]]),
            print([&[], &[], &[], &[], &[], &["a"], &[]]),
            print([&[], &[], &[], &[], &[], &[], &["a"]]),
            print([&["ab"], &[], &[], &[], &[], &[], &[]]),
            print([&["a", "b"], &[], &[], &[], &[], &[], &[]]),
            print([&["a"], &["b"], &[], &[], &[], &[], &[]]),
        ];
        let different: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(different.len(), all.len());
        assert_eq!(print([&["b", "a"], &[], &[], &[], &[], &[], &[]]), all[9]);
    }
}
