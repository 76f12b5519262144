//! Finds the names under which an object opens the library, in its profile or its strings.

use std::collections::BTreeSet;

use crate::byte_search::last_part;
use crate::facts::objects::process_context::ProcessContext;
use crate::facts::software::cupti_files::CuptiFiles;
use crate::knowledge::file_interest::{DIRECTORY_CALLS, LIBRARY_OPENERS};
use crate::knowledge::{ConsumerProfile, Knowledge, LibraryProfile, OpenedText, RequestKind, split_variable};
use image_linkage::elf::{ByteString, ElfFacts, SymbolRole};
use image_linkage::path::RootPath;
use python_path::PythonDistribution;
use python_path::is_source;

/// An object that opens the library, or may open it, under a name that is not whole in its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UndecidedOpener {
    /// The object, with links resolved.
    pub object: RootPath,
    /// The id of its profile, if any.
    pub profile: Option<String>,
    /// Strings with a part of the name, or the names of library functions; limited to a few.
    pub holds: Vec<ByteString>,
    /// The code that may run first, if that decides; the object is then linked with the library.
    pub after: Option<String>,
}

/// The known names that an object opens.
#[derive(Debug, Default)]
pub(crate) struct OpenedNames {
    /// Names that it opens as written, in order.
    exact: Vec<ByteString>,
    /// Names of links to the library or of files that contain it. Other libraries may have such a name too.
    pub aliases: Vec<ByteString>,
    /// Strings that the program completes to a name, with a directory or number.
    patterns: Vec<ByteString>,
    /// The names in the image that its strings may lead to.
    pub possible: Vec<ByteString>,
    /// Strings that suggest an unknown name for the library.
    pub hints: Vec<ByteString>,
    /// Whether it also searches outside of the image.
    pub looks_elsewhere: bool,
    /// The id of its profile, if any.
    profile: Option<String>,
}

/// Reads the strings of objects.
pub(crate) struct TextReader<'a> {
    context: &'a ProcessContext,
    library: &'a LibraryProfile,
    found: &'a CuptiFiles,
    distributions: &'a [PythonDistribution],
    /// The version numbers in library names, from all known releases and the files of the image.
    numbers: BTreeSet<String>,
}

/// The maximum number of strings to report for one object, and of possible names to try.
const SHOWN: usize = 3;
const TRIED: usize = 64;

impl<'a> TextReader<'a> {
    pub(crate) fn new(
        context: &'a ProcessContext,
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
            context,
            library,
            found,
            distributions,
            numbers: known.chain(found.numbers(library)).collect(),
        }
    }

    /// The names that an object opens, from its profile or its strings.
    pub(crate) fn find_opened_names(
        &self,
        object: &RootPath,
        elf: &ElfFacts,
        profile: Option<&ConsumerProfile>,
    ) -> OpenedNames {
        let held = self.held_names(elf);
        // If the profile has no names, read the strings: not every build of the program opens the library.
        let Some(profile) =
            profile.filter(|profile| profile.request_kind == RequestKind::Needed || !profile.names.is_empty())
        else {
            return OpenedNames {
                looks_elsewhere: profile.is_some_and(|profile| profile.looks_elsewhere.is_some()),
                profile: profile.map(|profile| profile.id.clone()),
                ..held
            };
        };
        let known = self.known_names(object, profile);
        let is_complete = known.iter().any(|name| name.starts_with(['$', '.']));
        let is_optional = profile.looks_elsewhere.is_some();
        if is_optional && held.is_silent() {
            return held;
        }
        // The strings of this build take precedence over the profile, which covers all builds.
        let exact = if held.exact.is_empty() || is_complete {
            known.iter().map(|name| name.as_bytes().into()).collect()
        } else {
            held.exact
        };
        OpenedNames {
            exact,
            looks_elsewhere: is_optional && !self.sets_variable(known),
            profile: Some(profile.id.clone()),
            ..OpenedNames::default()
        }
    }

    /// Whether the image sets a variable with a folder of the library.
    fn sets_variable(&self, names: &[String]) -> bool {
        let mut variables = names.iter().filter_map(|name| split_variable(name));
        variables.any(|(variable, _)| self.context.entry.variables.contains_key(variable))
    }

    /// Whether a file with one of the names exists that are relative to the folder of the object.
    pub(crate) fn has_relative(&self, object: &RootPath, names: &[String]) -> bool {
        let mut names = names.iter().filter(|name| name.starts_with("../"));
        names.any(|name| {
            self.context
                .rootfs
                .file(&object.parent().join(name.as_bytes()).absolute())
                .is_some()
        })
    }

    /// The names in the profile for this build.
    fn known_names<'p>(&self, object: &RootPath, profile: &'p ConsumerProfile) -> &'p [String] {
        let path = object.to_string();
        let mut builds = profile.builds.iter();
        let build = builds.find(|build| build.fits(&path, |name| self.version_beside(object, name)));
        build.map_or(&profile.names, |build| &build.names)
    }

    /// The version of a distribution in the folder that contains an object.
    fn version_beside(&self, object: &RootPath, name: &str) -> Option<&str> {
        let dist = self.distributions.iter().find(|dist| {
            let below = object.as_bytes().strip_prefix(dist.site.as_bytes());
            dist.name == name && below.is_some_and(|below| below.starts_with(b"/"))
        })?;
        Some(&dist.version)
    }

    /// The names in an object's strings.
    fn held_names(&self, elf: &ElfFacts) -> OpenedNames {
        let opens = imports_opener(elf);
        let moves = imports_any(elf, &DIRECTORY_CALLS);
        let is_moved =
            |text: &[u8]| moves && text.contains(&b'/') && !text.starts_with(b"/") && !text.starts_with(b"$");
        let mut names = OpenedNames::default();
        for text in &elf.mentions {
            let is_exact = self.library.is_exact_name(last_part(text));
            if is_exact && is_moved(text) {
                // A relative path depends on the program's directory changes.
                names.hints.push(text.clone());
            } else if self.library.is_meant_in(text) {
                let is_whole = elf.whole_paths.contains(text);
                self.read_string(text, opens, is_whole, &mut names);
            } else if self.found.aliases.contains(last_part(text)) {
                names.aliases.push(text.clone());
            }
        }
        for text in elf
            .fragments
            .iter()
            .filter(|text| opens && self.library.is_meant_in(text))
        {
            // A constant of sixteen bytes or one built from instructions has no NUL.
            let list = if self.library.is_exact_name(text) {
                &mut names.exact
            } else {
                &mut names.hints
            };
            list.push(text.clone());
        }
        // JSON notes that a program has for packagers (UAPI group, "ELF dlopen metadata").
        let noted = elf
            .dlopen_notes
            .iter()
            .flat_map(|note| note.split(|&byte| byte == b'"'));
        names
            .exact
            .extend(noted.filter(|word| self.library.is_exact_name(word)).map(Into::into));
        let mut seen = BTreeSet::new();
        // Keep the order of the file, which usually matches the source.
        names.exact.retain(|name| seen.insert(name.clone()));
        names.possible.truncate(TRIED);
        names
    }

    fn read_string(&self, text: &ByteString, opens: bool, is_whole: bool, names: &mut OpenedNames) {
        // Linkers merge a string into a longer one with the same end, so a message may also be a path.
        let tail = match self.library.tail_of(text) {
            Some(tail) if tail.len() < text.len() && !is_whole => Some(tail),
            _ => None,
        };
        match self
            .library
            .read_opened_text(text, self.numbers.iter().map(String::as_str))
        {
            OpenedText::Exact => {
                names.exact.push(text.clone());
                if text.contains(&b'/') && self.context.rootfs.lookup(text).is_err() {
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
            // Without dlopen such a string is a message or a list.
            _ => return,
        }
        names.possible.extend(tail.map(Into::into));
    }
}

impl UndecidedOpener {
    /// Whether Python code decides.
    pub fn is_python(&self) -> bool {
        self.after.is_some() || is_source(self.object.name())
    }
}

impl OpenedNames {
    /// The name in a `DT_NEEDED` entry.
    pub(crate) fn from_needed(name: &ByteString) -> Self {
        Self {
            exact: vec![name.clone()],
            ..Self::default()
        }
    }

    /// The names to resolve: those opened as written, else those that the program completes.
    pub(crate) fn known(&self) -> Option<&[ByteString]> {
        let known = [&self.exact, &self.patterns];
        known.into_iter().find(|names| !names.is_empty()).map(Vec::as_slice)
    }

    /// Whether nothing suggests that it opens the library.
    pub(crate) fn is_silent(&self) -> bool {
        self.known().is_none() && self.hints.is_empty()
    }

    /// The report of an object with unknown names.
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

/// Whether an object imports a function that opens libraries.
pub(crate) fn imports_opener(elf: &ElfFacts) -> bool {
    imports_any(elf, &LIBRARY_OPENERS)
}

/// Whether an object imports one of these functions.
pub(crate) fn imports_any(elf: &ElfFacts, functions: &[&str]) -> bool {
    let mut imports = elf.symbols.iter().filter(|symbol| symbol.role != SymbolRole::Export);
    imports.any(|symbol| functions.iter().any(|function| function.as_bytes() == &*symbol.name))
}
