//! What the steps of a Dockerfile do to the library (`profiles/cupti/build-steps.yaml`): base images, packages, and the
//! programs that install, remove or move files.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::api::Certainty;
use super::packages::PackageManager;
use super::patterns::matches_name_pattern;

/// The known effects of build steps. The first match in a list applies.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BuildStepTable {
    /// The contents of base images.
    pub images: Vec<BaseImage>,
    /// The `ID` in os-release of distributions whose images have another name.
    pub systems: BTreeMap<String, String>,
    /// The packages that a step may install.
    pub packages: Vec<InstalledPackage>,
    /// The programs that install and remove packages.
    pub managers: Vec<ManagerProgram>,
    /// The programs that run the command behind them.
    pub prefixes: Vec<PrefixProgram>,
    /// The commands that do not install the library, such as `mkdir`.
    pub harmless: Vec<String>,
    /// The programs that delete their arguments.
    pub deleters: Vec<String>,
    /// The programs that walk folders and may delete what they find.
    pub searchers: Vec<String>,
}

/// The part of the library that a step or an image brings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StepYield {
    /// The library, with the toolkit or in the distribution's folder.
    Library,
    /// A copy for programs with their own search paths.
    Wheel,
    /// Files without the library.
    Nothing,
    /// The package does not exist.
    Absent,
    /// The package exists, but cannot be installed.
    Stub,
    /// It is not known.
    Unknown,
}

/// A base image of Dockerfiles.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BaseImage {
    /// Its names without `docker.io/` and `library/`; a final `*` matches any suffix.
    pub names: Vec<String>,
    /// A part of its tag.
    #[serde(default)]
    pub tag: String,
    /// The part of the library that it contains.
    pub brings: StepYield,
    /// Whether the tag begins with its CUDA version.
    #[serde(default)]
    pub cuda_in_tag: bool,
    /// The folders on its `LD_LIBRARY_PATH` that may get the library; `None` if it may name any.
    #[serde(default)]
    pub searched: Option<Vec<LibraryPathFolder>>,
    /// The address of its Dockerfile or of its documentation.
    pub source: String,
    /// The month in which the source was read.
    pub read: String,
}

/// A folder on an image's search path, starting with a CUDA version.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LibraryPathFolder {
    /// Its absolute path, without a trailing slash.
    pub folder: String,
    /// The first version of CUDA.
    pub from: String,
}

/// A package that a Dockerfile may install.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "each is a key of the table")]
pub struct InstalledPackage {
    /// The program that installs it.
    pub manager: PackageManager,
    /// Its names, with `{major}` and `{minor}` for the CUDA numbers, or with `*` at the start or the end.
    pub names: Vec<String>,
    /// Its extras, one of which must be requested; without any, none may be. A final `*` matches any suffix.
    #[serde(default)]
    pub extras: Vec<String>,
    /// The part of the library that it installs.
    pub brings: StepYield,
    /// Whether people install it in the belief that it contains the library.
    #[serde(default)]
    pub trap: bool,
    /// Whether the library comes with one of its dependencies.
    #[serde(default)]
    pub dependency: bool,
    /// Whether its import fails without the library.
    #[serde(default)]
    pub links: bool,
    /// Whether it is a whole toolkit, which may stand beside another.
    #[serde(default)]
    pub toolkit: bool,
    /// Whether it is the distribution's own package, which has only one CUDA version.
    #[serde(default)]
    pub own: bool,
    /// Parts of the index address or the version that mean a build without the library.
    #[serde(default)]
    pub unless: Vec<String>,
    /// The first version with this effect; that of an older one is unknown.
    #[serde(default)]
    pub since: Option<String>,
    /// How certain the entry is.
    pub certainty: Certainty,
}

/// A program that installs and removes packages.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ManagerProgram {
    /// The words of its call, each with an optional final `*`.
    pub calls: Vec<String>,
    /// Its packages.
    pub manager: PackageManager,
    /// The words that install.
    pub installs: Vec<String>,
    /// The words that remove.
    pub removes: Vec<String>,
    /// The words with no effect on the library.
    #[serde(default)]
    pub harmless: Vec<String>,
    /// The options with a value in its own word.
    #[serde(default)]
    pub values: Vec<String>,
    /// The options whose value names packages that the Dockerfile does not show.
    #[serde(default)]
    pub lists: Vec<String>,
    /// The options whose value is an index of packages.
    #[serde(default)]
    pub indexes: Vec<String>,
    /// The indexes with known packages; a final `*` matches any suffix.
    #[serde(default)]
    pub known_indexes: Vec<String>,
    /// The options for packages of unknown origin.
    #[serde(default)]
    pub unknown_sources: Vec<String>,
    /// The options with which it changes nothing.
    #[serde(default)]
    pub dry_runs: Vec<String>,
    /// Parts of variables and files that may set another index.
    #[serde(default)]
    pub settings: Vec<String>,
    /// The options that leave dependencies out.
    #[serde(default)]
    pub alone: Vec<String>,
}

/// A program that runs the command behind it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrefixProgram {
    /// The words of its call.
    pub call: String,
    /// The options with a value as their own word.
    #[serde(default)]
    pub values: Vec<String>,
    /// The number of its own operands in front of the command.
    #[serde(default)]
    pub operands: usize,
}

impl BuildStepTable {
    /// The row of a base image by its name and tag.
    pub fn image(&self, name: &str, tag: &str) -> Option<&BaseImage> {
        self.images.iter().find(|image| {
            let mut names = image.names.iter();
            names.any(|own| matches_name_pattern(name.as_bytes(), own)) && tag.contains(&image.tag)
        })
    }

    /// The row of a package, and the CUDA numbers in its name; the second is 0 if the name has only one.
    pub fn package(
        &self,
        manager: PackageManager,
        name: &str,
        extras: &[String],
    ) -> Option<(&InstalledPackage, Option<(u32, u32)>)> {
        let mut all = self.packages.iter().filter(|package| package.manager == manager);
        all.find_map(|package| {
            let has_extra = |extra: &String| extras.iter().any(|own| matches_name_pattern(own.as_bytes(), extra));
            let cuda = package.names.iter().find_map(|own| cuda_of_name(own, name))?;
            let is_any = cuda.is_none() && package.names.iter().any(|own| own == "*");
            let fits = is_any || package.extras.is_empty() && extras.is_empty() || package.extras.iter().any(has_extra);
            fits.then_some((package, cuda))
        })
    }

    /// Whether removing the packages of this name, which may end in `*`, removes the library itself.
    pub fn package_with_library(&self, manager: PackageManager, name: &str) -> bool {
        self.packages.iter().any(|package| {
            let brings = matches!(package.brings, StepYield::Library | StepYield::Wheel) && !package.dependency;
            let mut names = package.names.iter();
            let is_named = names.any(|own| {
                let is_pattern = name.contains('*') && name.contains("cupti") && own.contains("cupti");
                is_pattern || cuda_of_name(own, name).is_some()
            });
            package.manager == manager && brings && is_named
        })
    }
}

/// The CUDA numbers in a package name, if the pattern matches it.
#[expect(clippy::option_option, reason = "a name matches or not, and has numbers or not")]
fn cuda_of_name(pattern: &str, name: &str) -> Option<Option<(u32, u32)>> {
    let Some((before, after)) = pattern.split_once("{major}") else {
        let is_it = match pattern.strip_prefix('*') {
            Some("") => true,
            Some(part) => match part.strip_suffix('*') {
                Some(part) => name.contains(part),
                None => name.ends_with(part),
            },
            None => matches_name_pattern(name.as_bytes(), pattern),
        };
        return is_it.then_some(None);
    };
    let numbers = name.strip_prefix(before)?;
    match after.strip_suffix("{minor}") {
        None => Some(Some((numbers.strip_suffix(after)?.parse().ok()?, 0))),
        Some(between) => {
            let (major, minor) = numbers.split_once(between)?;
            Some(Some((major.parse().ok()?, minor.parse().ok()?)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::StepYield;
    use crate::knowledge::Knowledge;
    use crate::knowledge::packages::PackageManager::{self, Pip, System};

    #[test]
    fn a_package_is_known_by_the_numbers_in_its_name() {
        let table = &Knowledge::built_in().tables.build_steps;
        let find = |manager: PackageManager, name: &str, extras: &[&str]| {
            let extras: Vec<String> = extras.iter().map(ToString::to_string).collect();
            let (package, cuda) = table.package(manager, name, &extras)?;
            Some((package.brings, cuda))
        };
        for (manager, name, extras, expected) in [
            (
                System,
                "cuda-libraries-dev-12-4",
                &[][..],
                Some((StepYield::Nothing, Some((12, 4)))),
            ),
            (
                System,
                "cuda-toolkit-12-4",
                &[],
                Some((StepYield::Library, Some((12, 4)))),
            ),
            (
                System,
                "cuda-toolkit-12-4-config-common",
                &[],
                Some((StepYield::Unknown, None)),
            ),
            (System, "python3-dev", &[], Some((StepYield::Nothing, None))),
            (
                Pip,
                "nvidia-cuda-cupti-cu11",
                &[],
                Some((StepYield::Wheel, Some((11, 0)))),
            ),
            (Pip, "nvidia-cuda-cupti-cu13", &[], Some((StepYield::Stub, None))),
            (Pip, "torch", &[], Some((StepYield::Wheel, None))),
            (Pip, "jax", &[], Some((StepYield::Nothing, None))),
            (Pip, "jax", &["cuda12"], Some((StepYield::Wheel, None))),
            (Pip, "jax", &["cuda12_local"], Some((StepYield::Unknown, None))),
            (Pip, "transformers", &["torch"], Some((StepYield::Unknown, None))),
            (Pip, "some-package", &[], Some((StepYield::Unknown, None))),
        ] {
            assert_eq!(find(manager, name, extras), expected, "{name}");
        }
    }

    #[test]
    fn a_base_image_is_known_by_its_whole_name() {
        let table = &Knowledge::built_in().tables.build_steps;
        let brings = |name: &str, tag: &str| table.image(name, tag).map(|image| image.brings);
        assert_eq!(
            brings("nvidia/cuda", "12.4.1-devel-ubuntu22.04"),
            Some(StepYield::Library)
        );
        assert_eq!(
            brings("nvidia/cuda", "12.4.1-runtime-ubuntu22.04"),
            Some(StepYield::Nothing)
        );
        assert_eq!(brings("ubuntu", "22.04"), Some(StepYield::Nothing));
        assert_eq!(brings("someone/ubuntu", "22.04"), None);
        assert_eq!(brings("tensorflow/tensorflow", "2.12.0-gpu"), Some(StepYield::Library));
        assert_eq!(brings("tensorflow/tensorflow", "2.12.0"), Some(StepYield::Nothing));
    }
}
