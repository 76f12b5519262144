//! Which files of a layer are more than a name: whose bytes are kept, whose identity is hashed, and which
//! strings and symbols are looked for.
//!
//! The files that the loader itself reads are kept whoever asks. Everything else is a [`FileInterest`] that comes in:
//! it is all that ties an index to the questions asked later, and its fingerprint says which index answers which.

use std::collections::BTreeSet;

use super::path_pattern::{PathParts, PathPattern};
use crate::digest::{Digest, DigestHasher};
use crate::elf::mentions::NameMatcher;
use crate::limits::Limits;
use crate::path::RootPath;

/// A hash over the sources that make a [`LayerIndex`](super::index::LayerIndex) of bytes (`build.rs`).
const INDEX_SOURCES: &str = env!("INDEX_SOURCES");

/// How a layer or a folder is read into an index. The default keeps what the loader reads, and looks for nothing.
#[derive(Clone, Default)]
pub struct IndexOptions {
    /// The bounds on everything that the bytes can drive.
    pub limits: Limits,
    /// What is looked for.
    pub interest: FileInterest,
}

impl IndexOptions {
    /// A digest over all that makes an index of a layer beside its bytes.
    pub fn fingerprint(&self) -> Digest {
        let Self { limits, interest } = self;
        // The names of the limits and their numbers: one that is added counts without being listed here.
        Digest::of(format!("{} {limits:?}", interest.fingerprint()).as_bytes())
    }
}

/// What is to be found in layers, as lists whose order means nothing.
///
/// Files are named by patterns of their path in the image: `*` stands for any bytes of one component, `**` for any
/// components, and a name alone is that of a file in any folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WantedFiles {
    /// The files whose whole content is kept, within [`Limits::kept_file`].
    pub kept: BTreeSet<String>,
    /// The files that are hashed (SHA-256).
    pub hashed: BTreeSet<String>,
    /// The names that are looked for in every byte of ELF objects, as evidence of a dlopen.
    pub names: BTreeSet<String>,
    /// The beginnings of the dynamic symbols that are kept of ELF objects.
    pub symbol_prefixes: BTreeSet<String>,
    /// The files whose whole content is kept where it holds one of `text_words`, within [`Limits::searched_file`]; where any
    /// are asked for, scripts of whatever name are, too.
    pub texts: BTreeSet<String>,
    /// The files among `texts` that are not.
    pub no_texts: BTreeSet<String>,
    /// What is looked for in every byte of them.
    pub text_words: BTreeSet<String>,
}

/// What is looked for in layers, ready to be matched.
#[derive(Clone, Default)]
pub struct FileInterest {
    wanted: WantedFiles,
    kept: Vec<PathPattern>,
    hashed: Vec<PathPattern>,
    names: NameMatcher,
    texts: Vec<PathPattern>,
    no_texts: Vec<PathPattern>,
    text_words: NameMatcher,
}

impl From<WantedFiles> for FileInterest {
    /// Looks for what `wanted` lists.
    fn from(wanted: WantedFiles) -> Self {
        let patterns = |list: &BTreeSet<String>| list.iter().map(|text| PathPattern::new(text)).collect();
        Self {
            kept: patterns(&wanted.kept),
            hashed: patterns(&wanted.hashed),
            names: NameMatcher::new(&wanted.names, &wanted.symbol_prefixes),
            texts: patterns(&wanted.texts),
            no_texts: patterns(&wanted.no_texts),
            text_words: NameMatcher::new(&BTreeSet::new(), &wanted.text_words),
            wanted,
        }
    }
}

impl FileInterest {
    /// A digest over all that is asked and over what reads it: an index that was made with the same one is as good as
    /// one that is made now, where the limits are the same.
    pub fn fingerprint(&self) -> Digest {
        let mut hasher = DigestHasher::default();
        hasher.update(INDEX_SOURCES.as_bytes());
        let wanted = &self.wanted;
        let objects = [&wanted.kept, &wanted.hashed, &wanted.names, &wanted.symbol_prefixes];
        let texts = [&wanted.texts, &wanted.no_texts, &wanted.text_words];
        for list in objects.into_iter().chain(texts) {
            // Lengths go in too, or a text could move from one list's end to the next one's start unseen.
            hasher.update(&(list.len() as u64).to_le_bytes());
            for text in list {
                hasher.update(&(text.len() as u64).to_le_bytes());
                hasher.update(text.as_bytes());
            }
        }
        hasher.finish()
    }

    /// Whether the whole content of the file may be kept, for its place or for what it holds.
    pub fn may_keep(&self, path: &RootPath) -> bool {
        self.keeps_content(path) || self.wanted_words(path).is_some()
    }

    /// Whether the whole content of the file is kept.
    pub(super) fn keeps_content(&self, path: &RootPath) -> bool {
        loader_reads(path) || is_one(&self.kept, path)
    }

    /// Whether the file is hashed.
    pub(super) fn needs_digest(&self, path: &RootPath) -> bool {
        is_one(&self.hashed, path)
    }

    /// What a file has to hold for its content to be kept; `None` where that does not matter.
    pub(super) fn wanted_words(&self, path: &RootPath) -> Option<&NameMatcher> {
        let is_text = is_one(&self.texts, path) && !is_one(&self.no_texts, path);
        is_text.then_some(&self.text_words)
    }

    /// What a script has to hold for its content to be kept, whatever its name; `None` where no texts are asked for.
    pub(super) fn script_words(&self, path: &RootPath) -> Option<&NameMatcher> {
        (!self.texts.is_empty() && !is_one(&self.no_texts, path)).then_some(&self.text_words)
    }

    /// What is looked for in ELF objects.
    pub(super) fn names(&self) -> &NameMatcher {
        &self.names
    }
}

/// Whether the path is one of some pattern.
fn is_one(patterns: &[PathPattern], path: &RootPath) -> bool {
    let parts = PathParts::new(path);
    patterns.iter().any(|pattern| pattern.matches(&parts))
}

/// Whether the file is a dynamic loader, or one that a dynamic loader or ldconfig reads.
fn loader_reads(path: &RootPath) -> bool {
    let name = path.name();
    let parent = path.parent();
    let parent = parent.as_bytes();
    let folder = parent.rsplit(|&byte| byte == b'/').next();
    is_loader(name)
        || (parent == b"etc" && name == b"ld.so.conf")
        // In /etc it may be a link to a file elsewhere, which mostly has the same name; and a glibc with a folder of its own,
        // such as Nix's, has its own files there.
        || name == b"ld.so.cache"
        || name.ends_with(b".so.preload")
        // musl's directories; a loader elsewhere has its own `etc` beside its folder.
        || (folder == Some(b"etc") && is_musl_path(name))
        // `ld.so.conf` may include files of any folder and any name; in practice they have one of these.
        || name.ends_with(b".conf")
        || folder == Some(b"ld.so.conf.d")
}

/// Whether a file of this name is a dynamic loader: its bytes hold the default directories.
fn is_loader(name: &[u8]) -> bool {
    let stem = [
        &b"ld-linux"[..],
        // The file had its version in its name until glibc 2.34.
        b"ld-2.",
        b"ld-musl-",
        b"ld64.so.",
        b"ld.so.",
    ];
    stem.iter().any(|stem| name.starts_with(stem)) && name.windows(3).any(|part| part == b".so")
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
    fn what_the_loader_reads_is_kept_though_nobody_asks() {
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
    fn only_what_is_asked_for_is_kept_and_hashed() {
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
    fn a_fingerprint_is_that_of_all_that_is_asked() {
        let print = |lists: [&[&str]; 6]| {
            let [kept, hashed, names, symbol_prefixes, texts, text_words] = lists.map(list);
            let wanted = WantedFiles {
                kept,
                hashed,
                names,
                symbol_prefixes,
                texts,
                text_words,
                ..WantedFiles::default()
            };
            FileInterest::from(wanted).fingerprint()
        };
        let all = [
            print([&[], &[], &[], &[], &[], &[]]),
            print([&["a"], &[], &[], &[], &[], &[]]),
            print([&[], &["a"], &[], &[], &[], &[]]),
            print([&[], &[], &["a"], &[], &[], &[]]),
            print([&[], &[], &[], &["a"], &[], &[]]),
            print([&[], &[], &[], &[], &["a"], &[]]),
            print([&[], &[], &[], &[], &[], &["a"]]),
            print([&["ab"], &[], &[], &[], &[], &[]]),
            print([&["a", "b"], &[], &[], &[], &[], &[]]),
            print([&["a"], &["b"], &[], &[], &[], &[]]),
        ];
        let different: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(different.len(), all.len());
        assert_eq!(print([&["b", "a"], &[], &[], &[], &[], &[]]), all[8]);
    }
}
