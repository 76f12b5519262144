//! A program that asks for a library, and how (`profiles/consumers/<id>.yaml`).

use image_linkage::path::RootPath;
use serde::Deserialize;

use super::library::DEFAULT_LIBRARY;
use super::name_pattern::matches_name_pattern;
use super::python_import::PythonImport;
use yaml_mistakes::{YamlDocument, YamlMistake, unknown_name};

/// How an object asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RequestKind {
    /// It is linked: a `DT_NEEDED` entry names the library.
    Needed,
    /// It opens the library with dlopen(3) while it runs.
    Dlopen,
}

/// What breaks when a consumer does not get CUPTI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FailureImpact {
    /// The program cannot be started or imported.
    Import,
    /// The program runs, and its profiling does not.
    Profiling,
}

impl RequestKind {
    /// The name used in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Needed => "needed",
            Self::Dlopen => "dlopen",
        }
    }
}

impl FailureImpact {
    /// The name used in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Import => "import",
            Self::Profiling => "profiling",
        }
    }
}

/// How a known program asks for a library (`profiles/consumers/*.yaml`).
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConsumerProfile {
    /// The stem of its file.
    #[serde(skip)]
    pub id: String,
    /// The name of the program.
    pub name: String,
    /// The file name of its object, with folders above it where the name alone is not its own; a final `*` stands for
    /// any rest.
    pub object: String,
    /// Whether the object is linked with the library or opens it.
    pub asks: RequestKind,
    /// A folder, relative to the object's, in which it looks for `libcupti.so` first.
    #[serde(default)]
    pub beside: Option<String>,
    /// The file name of the object that calls dlopen for it, where that is not the object itself; a final `*`
    /// stands for any rest. Its search paths are those that count.
    #[serde(default)]
    pub through: Option<String>,
    /// The names it opens, in order.
    #[serde(default)]
    pub names: Vec<String>,
    /// How Python gets to it, where an import loads it.
    #[serde(default)]
    pub python: Option<PythonImport>,
    /// What breaks without it.
    pub required: FailureImpact,
    /// The library that it asks for, by id.
    #[serde(default = "default_library")]
    pub library: String,
}

fn default_library() -> String {
    DEFAULT_LIBRARY.to_owned()
}

impl ConsumerProfile {
    /// Reads the profile `id` from its file.
    ///
    /// Errors: All mistakes in the file.
    pub fn read(
        id: &str,
        document: &YamlDocument,
        libraries: &[String],
        consumers: &[String],
    ) -> Result<Self, Vec<YamlMistake>> {
        document.read_and(|mut profile: Self| {
            // The id is the name of the file, which its text does not hold.
            id.clone_into(&mut profile.id);
            let what = "expected the name of a file, such as libtorch_cpu.so".to_owned();
            // A lone `*` would make a program that asks out of every object of an image.
            let mistake = match profile
                .object
                .rsplit('/')
                .next()
                .unwrap_or_default()
                .trim_end_matches('*')
            {
                "" => Some(document.mistake(&["object"], what)),
                _ => None,
            };
            let mut mistakes: Vec<YamlMistake> = mistake.into_iter().collect();
            if !libraries.contains(&profile.library) {
                let known: Vec<&str> = libraries.iter().map(String::as_str).collect();
                let what = unknown_name("library", &profile.library, &known);
                mistakes.push(document.mistake(&["library"], what));
            }
            let imported = profile.python.iter().flat_map(|python| &python.after);
            for unknown in imported.filter(|id| !consumers.contains(id)) {
                let known: Vec<&str> = consumers.iter().map(String::as_str).collect();
                let what = unknown_name("consumer", unknown, &known);
                mistakes.push(document.mistake(&["python", "after"], what));
            }
            (profile, mistakes)
        })
    }

    /// Whether the profile is of the object at this path.
    pub fn fits(&self, path: &RootPath) -> bool {
        let (folder, name) = self.object.rsplit_once('/').unwrap_or(("", &self.object));
        let above = [b"/", folder.as_bytes()].concat();
        matches_name_pattern(path.name(), name) && (folder.is_empty() || path.parent().absolute().ends_with(&above))
    }
}

/// Whether a profile knows the object at this path to open the library at run time.
pub(crate) fn opens_library(profiles: &[ConsumerProfile], path: &RootPath) -> bool {
    profiles
        .iter()
        // Who is linked says so in `DT_NEEDED`; no table of an object tells of a dlopen.
        .any(|profile| profile.asks == RequestKind::Dlopen && profile.fits(path))
}
