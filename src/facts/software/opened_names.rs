//! The names by which an object opens the library: what its profile says, else what its own bytes hold.

use std::collections::BTreeSet;

use crate::byte_search::last_part;
use crate::facts::software::cupti_files::CuptiFiles;
use crate::knowledge::file_interest::{DIRECTORY_CALLS, LIBRARY_OPENERS};
use crate::knowledge::{ConsumerProfile, Knowledge, LibraryProfile, OpenedText, RequestKind};
use image_linkage::elf::{ByteString, ElfFacts, SymbolRole};
use image_linkage::path::RootPath;
use image_linkage::rootfs::Rootfs;
use python_path::PythonDistribution;
use python_path::is_source;

/// An object that opens the library, or may do so, by a name that its bytes do not hold as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UndecidedOpener {
    /// The object, without links.
    pub object: RootPath,
    /// The id of its profile, where one knows it.
    pub profile: Option<String>,
    /// What it holds of the name, or of the library's functions; a few of several.
    pub holds: Vec<ByteString>,
    /// What may be there before it, where that decides; it is linked with the library then.
    pub after: Option<String>,
}

/// What is known of the names that an object opens.
#[derive(Debug, Default)]
pub(crate) struct OpenedNames {
    /// Those that it opens as they stand, in the order in which it tries them.
    exact: Vec<ByteString>,
    /// Names of links to the library, or of files that hold it; others may have such names as well.
    pub aliases: Vec<ByteString>,
    /// Texts of which the program makes a name, by a folder or a number.
    patterns: Vec<ByteString>,
    /// The names of the image that may come of what it holds.
    pub possible: Vec<ByteString>,
    /// What tells that it may open the library by a name that is not known.
    pub hints: Vec<ByteString>,
    /// Whether it looks where no image shows it, too.
    pub looks_elsewhere: bool,
    /// The id of its profile, where one knows it.
    profile: Option<String>,
}

/// Reads the texts of objects.
pub(crate) struct TextReader<'a> {
    rootfs: &'a Rootfs,
    library: &'a LibraryProfile,
    found: &'a CuptiFiles,
    distributions: &'a [PythonDistribution],
    /// The numbers in the library's names, of all known releases and of the files of the image.
    numbers: BTreeSet<String>,
}

/// The texts that are shown of one object, and the names that are tried that may come of them.
const SHOWN: usize = 3;
const TRIED: usize = 64;

impl<'a> TextReader<'a> {
    pub(crate) fn new(
        rootfs: &'a Rootfs,
        knowledge: &Knowledge,
        found: &'a CuptiFiles,
        distributions: &'a [PythonDistribution],
    ) -> Self {
        let library = knowledge.library;
        let files = knowledge.tables.releases.by_hash.values();
        let versions: BTreeSet<&String> = files.flat_map(|file| &file.versions).collect();
        let sonames = versions.into_iter().filter_map(|version| library.soname_of(version));
        let known = sonames.filter_map(|name| library.number_of(name.as_bytes()).map(str::to_owned));
        Self {
            rootfs,
            library,
            found,
            distributions,
            numbers: known.chain(found.numbers(library)).collect(),
        }
    }

    /// The names that an object opens: what its profile says, else what it holds.
    pub(crate) fn find_opened_names(
        &self,
        object: &RootPath,
        elf: &ElfFacts,
        profile: Option<&ConsumerProfile>,
    ) -> OpenedNames {
        // A profile that names nothing to open leaves that to the bytes: not every build of the program opens it.
        let knows_names = |profile: &&ConsumerProfile| {
            profile.asks == RequestKind::Needed || profile.beside.is_some() || !profile.names.is_empty()
        };
        let Some(profile) = profile.filter(knows_names) else {
            return OpenedNames {
                looks_elsewhere: profile.is_some_and(|profile| profile.looks_elsewhere.is_some()),
                profile: profile.map(|profile| profile.id.clone()),
                ..self.held_names(elf)
            };
        };
        // proton opens the file in its own wheel by path, where that wheel has one.
        let beside = profile
            .beside
            .as_ref()
            .and_then(|folder| self.library_beside(object, folder));
        let mut exact: Vec<ByteString> = beside.into_iter().collect();
        // A profile that knows the folder knows the names and their order as well.
        let held = match profile.beside {
            Some(_) => Vec::new(),
            None => self.held_names(elf).exact,
        };
        // What this very build holds comes before what the profile knows of all builds.
        if held.is_empty() {
            exact.extend(
                self.known_names(object, profile)
                    .iter()
                    .map(|name| name.as_bytes().into()),
            );
        } else {
            exact.extend(held);
        }
        OpenedNames {
            exact,
            ..OpenedNames::default()
        }
    }

    /// The library in a folder, which is relative to that of an object; nothing where none lies there.
    pub(crate) fn library_beside(&self, object: &RootPath, folder: &str) -> Option<ByteString> {
        let folder = object.parent().join(folder.as_bytes());
        let path = folder.join(self.library.stem.as_bytes()).absolute();
        self.rootfs.lookup(&path).is_ok().then(|| path.into())
    }

    /// The names that a profile knows of this build.
    fn known_names<'p>(&self, object: &RootPath, profile: &'p ConsumerProfile) -> &'p [String] {
        let is_beside = |dist: &&PythonDistribution| {
            let below = object.as_bytes().strip_prefix(dist.site.as_bytes());
            below.is_some_and(|below| below.starts_with(b"/"))
        };
        let version_of = |name: &str| {
            let mut beside = self.distributions.iter().filter(is_beside);
            beside.find(|dist| dist.name == name).map(|dist| dist.version.as_str())
        };
        let path = object.to_string();
        let build = profile.builds.iter().find(|build| build.fits(&path, version_of));
        build.map_or(&profile.names, |build| &build.names)
    }

    /// The names that the texts of an object say.
    fn held_names(&self, elf: &ElfFacts) -> OpenedNames {
        let opens = imports_opener(elf);
        let moves = imports_any(elf, &DIRECTORY_CALLS);
        let is_moved =
            |text: &[u8]| moves && text.contains(&b'/') && !text.starts_with(b"/") && !text.starts_with(b"$");
        let mut names = OpenedNames::default();
        for text in &elf.mentions {
            let is_exact = self.library.is_exact_name(last_part(text));
            if is_exact && (elf.asked_names.contains(text) || is_moved(text)) {
                // Whether it is mapped then is for others to say, and where its own code has gone for that code.
                names.hints.push(text.clone());
            } else if self.library.is_meant_in(text) {
                let is_whole = elf.whole_paths.contains(text);
                self.read_string(text, opens, is_whole, &mut names);
            } else if self.found.aliases.contains(last_part(text)) {
                names.aliases.push(text.clone());
            }
        }
        let meant = |text: &&ByteString| opens && self.library.is_meant_in(text);
        for text in elf.fragments.iter().filter(meant) {
            // A string that is a constant of sixteen bytes has no NUL, nor has what instructions put together.
            let list = if self.library.is_exact_name(text) {
                &mut names.exact
            } else {
                &mut names.hints
            };
            list.push(text.clone());
        }
        // What a program says of itself for packagers, in JSON (UAPI group, "ELF dlopen metadata").
        let noted = elf
            .dlopen_notes
            .iter()
            .flat_map(|note| note.split(|&byte| byte == b'"'));
        names
            .exact
            .extend(noted.filter(|word| self.library.is_exact_name(word)).map(Into::into));
        let mut seen = BTreeSet::new();
        // In the order of the file, which is mostly that of the source.
        names.exact.retain(|name| seen.insert(name.clone()));
        names.possible.truncate(TRIED);
        names
    }

    fn read_string(&self, text: &ByteString, opens: bool, is_whole: bool, names: &mut OpenedNames) {
        // Linkers put a string that another one ends with into that one: the path may be a message and a path.
        let tail = self.library.tail_of(text);
        let tail = tail.filter(|tail| tail.len() < text.len() && !is_whole);
        match self
            .library
            .read_opened_text(text, self.numbers.iter().map(String::as_str))
        {
            OpenedText::Exact => {
                names.exact.push(text.clone());
                if text.contains(&b'/') && self.rootfs.lookup(text).is_err() {
                    names.possible.extend(self.found.ending_with(text));
                }
            }
            OpenedText::Numbered(filled) if opens => {
                names.patterns.push(text.clone());
                names.possible.extend(filled);
            }
            OpenedText::Ending(ending) if opens => {
                names.patterns.push(text.clone());
                names.possible.extend(self.found.ending_with(&ending));
            }
            _ if opens || self.library.is_function(text) => names.hints.push(text.clone()),
            // Without dlopen, such a text is a message or a list.
            _ => return,
        }
        names.possible.extend(tail.map(Into::into));
    }
}

impl UndecidedOpener {
    /// Whether the code of Python modules decides.
    pub fn is_python(&self) -> bool {
        self.after.is_some() || is_source(self.object.name())
    }
}

impl OpenedNames {
    /// The name of a `DT_NEEDED` entry.
    pub(crate) fn from_needed(name: &ByteString) -> Self {
        Self {
            exact: vec![name.clone()],
            ..Self::default()
        }
    }

    /// The names that are followed: those that are opened as they stand, else those that it makes names of.
    pub(crate) fn known(&self) -> Option<&[ByteString]> {
        let known = [&self.exact, &self.patterns];
        known.into_iter().find(|names| !names.is_empty()).map(Vec::as_slice)
    }

    /// Whether nothing tells that it opens the library.
    pub(crate) fn is_silent(&self) -> bool {
        self.known().is_none() && self.hints.is_empty()
    }

    /// What is told of an object whose names are not known.
    pub(crate) fn into_undecided(self, object: RootPath) -> UndecidedOpener {
        let texts = [self.exact, self.patterns, self.hints].into_iter().flatten();
        UndecidedOpener {
            object,
            profile: self.profile,
            holds: texts.take(SHOWN).collect(),
            after: None,
        }
    }
}

/// Whether an object imports a function that opens a library.
pub(crate) fn imports_opener(elf: &ElfFacts) -> bool {
    imports_any(elf, &LIBRARY_OPENERS)
}

/// Whether an object imports one of these functions.
pub(crate) fn imports_any(elf: &ElfFacts, functions: &[&str]) -> bool {
    let mut imports = elf.symbols.iter().filter(|symbol| symbol.role != SymbolRole::Export);
    imports.any(|symbol| functions.iter().any(|function| function.as_bytes() == &*symbol.name))
}
