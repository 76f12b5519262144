//! A program that requests a library, and how (`profiles/consumers/<id>.yaml`).

use image_linkage::path::RootPath;
use serde::Deserialize;

use super::api::Certainty;
use super::catalog::ReplaceKey;
use super::mistake::TextMistake;
use super::names::names;
use super::patterns::matches_name_pattern;
use super::python_import::PythonImport;
use super::yaml_text::YamlText;

names! {
    /// How an object requests a library.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
    pub enum RequestKind {
        /// A `DT_NEEDED` entry names the library.
        Needed = "needed",
        /// It calls dlopen(3) at run time.
        Dlopen = "dlopen",
    }
}

names! {
    /// The effect of missing CUPTI on a consumer, worst first.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
    pub enum FailureImpact {
        /// The program cannot start or be imported.
        Import = "import",
        /// The program uses only the CPU, because it requests the library before it uses a GPU.
        Gpu = "gpu",
        /// The program runs, but cannot profile.
        Profiling = "profiling",
    }
}

impl FailureImpact {
    /// The behaviour of a program without the library, as a verb.
    pub const fn failure_words(self) -> &'static str {
        match self {
            Self::Import | Self::Gpu => "fails",
            Self::Profiling => "cannot profile the GPU",
        }
    }

    /// Whether the program cannot do its own work without the library, even unprofiled.
    pub fn breaks_program(self) -> bool {
        matches!(self, Self::Import | Self::Gpu)
    }
}

/// How a known program requests a library (`profiles/consumers/*.yaml`).
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConsumerProfile {
    /// The stem of its file.
    #[serde(skip)]
    pub id: String,
    /// The name of the program.
    pub name: String,
    /// The file name of its object, with parent folders if the name alone is ambiguous; a final `*` matches any suffix.
    pub object: String,
    /// Whether the object links the library or opens it.
    #[serde(rename = "asks")]
    pub request_kind: RequestKind,
    /// Alternatives that it prefers on some GPUs.
    #[serde(default)]
    pub variants: Vec<ConsumerVariant>,
    /// The file name of the object that calls dlopen for it, if that is another object; a final `*` matches any suffix.
    /// The search paths of that object apply.
    #[serde(default)]
    pub through: Option<String>,
    /// The names that it opens, in order. `$A/` is the folder in a variable, and `../` is relative to the folder of its
    /// object. With such a name, the list is complete; else the names in its bytes take precedence.
    #[serde(default)]
    pub names: Vec<String>,
    /// The variables that decide alone: if one is set, only names that begin with it are opened.
    #[serde(default)]
    pub decisive: Vec<String>,
    /// Another place that it searches and that the image does not show, such as that of an unset variable. If its names
    /// lead nowhere, only a run can tell. A build without the library's name in its bytes does not open it.
    #[serde(default)]
    pub looks_elsewhere: Option<String>,
    /// How Python reaches it, if an import loads it.
    #[serde(default)]
    pub python: Option<PythonImport>,
    /// Builds that open other names; the first match applies.
    #[serde(default)]
    pub builds: Vec<ConsumerBuild>,
    /// The file names of other objects in the program that request the library the same way; a final `*` matches any
    /// suffix.
    #[serde(default)]
    pub parts: Vec<String>,
    /// The build flags that its object contains.
    #[serde(default)]
    pub build: Option<BuildFlags>,
    /// The effect of a missing library.
    pub required: FailureImpact,
    /// The effect if its object cannot be loaded, unless that is the same.
    #[serde(default)]
    pub unloaded: Option<FailureImpact>,
    /// The evidence for the request.
    #[serde(default)]
    pub evidence: Option<ProfileEvidence>,
    /// Read by the catalog.
    #[serde(default)]
    pub replace: ReplaceKey,
}

/// Evidence that a program or tool requests a library, or requests none.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProfileEvidence {
    /// How certain it is.
    pub certainty: Certainty,
    /// The package with its version, or the public repository with commit and path.
    pub source: String,
}

/// Names that a program opens on other GPUs.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConsumerVariant {
    /// The name of the program that does.
    pub name: String,
    /// The names that it opens, in order. It does so only if a file with a relative name exists.
    pub names: Vec<String>,
}

/// A build of a program that opens its own names.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConsumerBuild {
    /// A part of the object's path.
    #[serde(default)]
    pub path: Option<String>,
    /// A Python distribution next to it, in normalized form.
    #[serde(default)]
    pub distribution: Option<String>,
    /// The first matching version of the distribution.
    #[serde(default)]
    pub from: Option<String>,
    /// The names that it opens, in order.
    pub names: Vec<String>,
}

/// The compiler flags that an object contains as text. They show whether the program was built with the library.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BuildFlags {
    /// A flag of every build. An object without it does not reveal its flags.
    pub always: String,
    /// A flag of builds that can use the library.
    pub with: String,
    /// A flag that excludes the library from such a build.
    pub without: String,
}

impl BuildFlags {
    /// The flags to search for.
    pub fn words(&self) -> [&String; 3] {
        [&self.always, &self.with, &self.without]
    }

    /// Whether an object was built with the library; `holds` searches its text. `None` if the flags are not there.
    pub fn has_library(&self, holds: impl Fn(&str) -> bool) -> Option<bool> {
        (holds(&self.always) || holds(&self.with)).then(|| holds(&self.with) && !holds(&self.without))
    }
}

/// The variable and the rest of a name such as `$CUDA_HOME/lib64/libcupti.so`.
pub(crate) fn split_variable(name: &str) -> Option<(&str, &str)> {
    let name = name.strip_prefix('$')?;
    let parts = name.find('/').map_or((name, ""), |slash| name.split_at(slash));
    // The loader's own tokens (ld.so(8), "Dynamic string tokens").
    Some(parts).filter(|(variable, _)| !matches!(*variable, "ORIGIN" | "LIB" | "PLATFORM"))
}

impl ConsumerBuild {
    /// Whether this build matches an object at `path`, given the `versions` of neighbouring distributions.
    pub fn fits<'v>(&self, path: &str, version_of: impl Fn(&str) -> Option<&'v str>) -> bool {
        let on_path = self.path.as_ref().is_none_or(|part| path.contains(part));
        let new_enough = self.distribution.as_ref().is_none_or(|name| {
            let from = self.from.as_deref().unwrap_or_default();
            version_of(name).is_some_and(|version| leading_numbers(version) >= leading_numbers(from))
        });
        on_path && new_enough
    }
}

/// The leading numbers of a version: 2, 17 and 0 of `2.17.0+nv24.10` (PEP 440, local versions).
fn leading_numbers(version: &str) -> Vec<u32> {
    let parts = version.split(|letter: char| !letter.is_ascii_digit());
    parts.map_while(|part| part.parse().ok()).take(3).collect()
}

impl ConsumerProfile {
    /// Reads the profile `id` from its file.
    ///
    /// Errors: The first mistake in the file.
    pub fn read(id: &str, text: YamlText<'_>, consumers: &[&str]) -> Result<Self, TextMistake> {
        let mut profile: Self = text.read()?;
        // The id is the file name, which the text does not contain.
        id.clone_into(&mut profile.id);
        let name = profile.object.rsplit('/').next().unwrap_or_default();
        // A lone `*` would turn every object in an image into a consumer.
        if name.trim_end_matches('*').is_empty() {
            let what = "expected the name of a file, such as libtorch_cpu.so".to_owned();
            return Err(text.mistake(&["object"], what));
        }
        let objects = [("object", &profile.object)].into_iter();
        let objects = objects.chain(profile.through.iter().map(|object| ("through", object)));
        for (key, pattern) in objects.chain(profile.parts.iter().map(|object| ("parts", object))) {
            if pattern.trim_end_matches('*').contains('*') {
                let what = format!("{pattern} matches nothing: a * matches only at the end");
                return Err(text.mistake(&[key], what));
            }
        }
        if let Some(python) = &profile.python {
            text.check_names(&["python", "after"], &python.after, "consumer", consumers)?;
        }
        Ok(profile)
    }

    /// Whether the profile matches the object at this path.
    pub fn fits(&self, path: &RootPath) -> bool {
        let (folder, name) = self.object.rsplit_once('/').unwrap_or(("", &self.object));
        let is_in_folder = || path.parent().absolute().ends_with(format!("/{folder}").as_bytes());
        let is_object = matches_name_pattern(path.name(), name) && (folder.is_empty() || is_in_folder());
        // A linked part needs the library itself; a part that calls dlopen leaves that to the main object.
        let mut linked = self.parts.iter().filter(|_| self.request_kind == RequestKind::Needed);
        is_object || linked.any(|part| matches_name_pattern(path.name(), part))
    }
}

/// Whether a profile says that the object at this path opens the library at run time.
pub(crate) fn opens_library(profiles: &[ConsumerProfile], path: &RootPath) -> bool {
    profiles
        .iter()
        // Linked objects have a `DT_NEEDED` entry, but no ELF table shows a dlopen.
        .any(|profile| profile.request_kind == RequestKind::Dlopen && profile.fits(path))
}

/// Whether this file name belongs to a known program that requests the library through another object.
pub(crate) fn is_known_part(profiles: &[ConsumerProfile], name: &[u8]) -> bool {
    let mut parts = profiles
        .iter()
        .flat_map(|profile| profile.parts.iter().chain(&profile.through));
    parts.any(|part| matches_name_pattern(name, part))
}
