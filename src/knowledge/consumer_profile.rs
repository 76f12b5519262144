//! A program that asks for a library, and how (`profiles/consumers/<id>.yaml`).

use image_linkage::path::RootPath;
use serde::Deserialize;

use super::api::Certainty;
use super::catalog::ReplaceKey;
use super::library::DEFAULT_LIBRARY;
use super::mistake::TextMistake;
use super::patterns::matches_name_pattern;
use super::python_import::PythonImport;
use super::yaml_text::YamlText;

/// How an object asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RequestKind {
    /// It is linked: a `DT_NEEDED` entry names the library.
    Needed,
    /// It opens the library with dlopen(3) while it runs.
    Dlopen,
}

/// What breaks when a consumer does not get CUPTI, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FailureImpact {
    /// The program cannot be started or imported.
    Import,
    /// The program runs on the CPU alone: it asks for the library before it uses a GPU.
    Gpu,
    /// The program runs, and its profiling does not.
    Profiling,
}

impl RequestKind {
    /// The name used in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Needed => "needed",
            Self::Dlopen => "dlopen",
        }
    }
}

impl FailureImpact {
    /// What a program without the library does, as a verb.
    pub const fn failure_words(self) -> &'static str {
        match self {
            Self::Import | Self::Gpu => "fails",
            Self::Profiling => "cannot profile the GPU",
        }
    }

    /// Whether the program does not do its own work without the library, profiled or not.
    pub fn breaks_program(self) -> bool {
        matches!(self, Self::Import | Self::Gpu)
    }

    /// The name used in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Import => "import",
            Self::Gpu => "gpu",
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
    /// The file name of its object, with folders above it where the name alone is not its own; a final `*` is any rest.
    pub object: String,
    /// Whether the object is linked with the library or opens it.
    pub asks: RequestKind,
    /// A folder, relative to the object's, in which it looks for `libcupti.so` first.
    #[serde(default)]
    pub beside: Option<String>,
    /// Folders of the same kind that it takes in place of the first on some GPUs, where they are there.
    #[serde(default)]
    pub variants: Vec<ConsumerVariant>,
    /// The file name of the object that calls dlopen for it, where that is not the object itself; a final `*`
    /// stands for any rest. Its search paths are those that count.
    #[serde(default)]
    pub through: Option<String>,
    /// The names it opens, in order.
    #[serde(default)]
    pub names: Vec<String>,
    /// Where else a program that names nothing to open looks, which no image shows: where the names in its bytes lead
    /// to nothing, only a run could tell.
    #[serde(default)]
    pub looks_elsewhere: Option<String>,
    /// How Python gets to it, where an import loads it.
    #[serde(default)]
    pub python: Option<PythonImport>,
    /// Builds that open other names; the first that fits counts.
    #[serde(default)]
    pub builds: Vec<ConsumerBuild>,
    /// The file names of other objects of the program that ask as this one does; a final `*` stands for any rest.
    #[serde(default)]
    pub parts: Vec<String>,
    /// What its object says of how it was built.
    #[serde(default)]
    pub build: Option<BuildFlags>,
    /// What breaks without it.
    pub required: FailureImpact,
    /// The library that it asks for, by id.
    #[serde(default = "default_library")]
    pub library: String,
    /// What shows that it asks so.
    #[serde(default)]
    pub evidence: Option<ProfileEvidence>,
    /// Read by the catalog.
    #[serde(default)]
    pub replace: ReplaceKey,
}

/// What shows that a program or a tool asks for a library, or asks for none.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProfileEvidence {
    /// How sure it is.
    pub certainty: Certainty,
    /// The package with its version, or the public repository with commit and path.
    pub source: String,
}

/// A folder that a program takes in the place of another one.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConsumerVariant {
    /// What the program is called that does.
    pub name: String,
    /// The folder, relative to the object's.
    pub beside: String,
}

/// A build of a program that opens names of its own.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConsumerBuild {
    /// A part of the object's path.
    #[serde(default)]
    pub path: Option<String>,
    /// A distribution of Python beside it, in normal form.
    #[serde(default)]
    pub distribution: Option<String>,
    /// The first version of the distribution.
    #[serde(default)]
    pub from: Option<String>,
    /// The names it opens, in order.
    pub names: Vec<String>,
}

/// The compiler's flags, which an object holds as text: whether the program was built with the library.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BuildFlags {
    /// A flag of every build: an object without it does not say how it was built.
    pub always: String,
    /// A flag of the builds that can use the library.
    pub with: String,
    /// A flag by which such a build leaves it out all the same.
    pub without: String,
}

impl BuildFlags {
    /// The flags that are looked for.
    pub fn words(&self) -> [&String; 3] {
        [&self.always, &self.with, &self.without]
    }

    /// Whether an object was built with the library, by what `holds` says of its texts; `None` where they do not say it.
    pub fn has_library(&self, holds: impl Fn(&str) -> bool) -> Option<bool> {
        (holds(&self.always) || holds(&self.with)).then(|| holds(&self.with) && !holds(&self.without))
    }
}

impl ConsumerBuild {
    /// Whether the build is that of an object at `path`, with `versions` of the distributions beside it, by name.
    pub fn fits<'v>(&self, path: &str, version_of: impl Fn(&str) -> Option<&'v str>) -> bool {
        let on_path = self.path.as_ref().is_none_or(|part| path.contains(part));
        let new_enough = self.distribution.as_ref().is_none_or(|name| {
            let from = self.from.as_deref().unwrap_or_default();
            version_of(name).is_some_and(|version| leading_numbers(version) >= leading_numbers(from))
        });
        on_path && new_enough
    }
}

/// The numbers that a version begins with: 2, 17 and 0 of `2.17.0+nv24.10` (PEP 440, local versions).
fn leading_numbers(version: &str) -> Vec<u32> {
    let parts = version.split(|letter: char| !letter.is_ascii_digit());
    parts.map_while(|part| part.parse().ok()).take(3).collect()
}

fn default_library() -> String {
    DEFAULT_LIBRARY.to_owned()
}

impl ConsumerProfile {
    /// Reads the profile `id` from its file.
    ///
    /// Errors: The first mistake in the file.
    pub fn read(id: &str, text: YamlText<'_>, libraries: &[&str], consumers: &[&str]) -> Result<Self, TextMistake> {
        let mut profile: Self = text.read()?;
        // The id is the name of the file, which its text does not hold.
        id.clone_into(&mut profile.id);
        let name = profile.object.rsplit('/').next().unwrap_or_default();
        // A lone `*` would make a program that asks out of every object of an image.
        if name.trim_end_matches('*').is_empty() {
            let what = "expected the name of a file, such as libtorch_cpu.so".to_owned();
            return Err(text.mistake(&["object"], what));
        }
        let library = std::slice::from_ref(&profile.library);
        text.check_names(&["library"], library, "library", libraries)?;
        if let Some(python) = &profile.python {
            text.check_names(&["python", "after"], &python.after, "consumer", consumers)?;
        }
        Ok(profile)
    }

    /// Whether the profile is of the object at this path.
    pub fn fits(&self, path: &RootPath) -> bool {
        let (folder, name) = self.object.rsplit_once('/').unwrap_or(("", &self.object));
        let above = [b"/", folder.as_bytes()].concat();
        let is_object = matches_name_pattern(path.name(), name)
            && (folder.is_empty() || path.parent().absolute().ends_with(&above));
        // A part that is linked needs the library for itself; one that opens it leaves that to the object.
        let mut linked = self.parts.iter().filter(|_| self.asks == RequestKind::Needed);
        is_object || linked.any(|part| matches_name_pattern(path.name(), part))
    }
}

/// Whether a profile knows the object at this path to open the library at run time.
pub(crate) fn opens_library(profiles: &[ConsumerProfile], path: &RootPath) -> bool {
    profiles
        .iter()
        // Who is linked says so in `DT_NEEDED`; no table of an object tells of a dlopen.
        .any(|profile| profile.asks == RequestKind::Dlopen && profile.fits(path))
}

/// Whether an object of this file name is a part of a known program that asks for the library by another object.
pub(crate) fn is_known_part(profiles: &[ConsumerProfile], name: &[u8]) -> bool {
    let mut parts = profiles
        .iter()
        .flat_map(|profile| profile.parts.iter().chain(&profile.through));
    parts.any(|part| matches_name_pattern(name, part))
}
