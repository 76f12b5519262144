//! What a recipe comes to.

use serde::Serialize;

use super::build_check::BuildCheck;
use super::copy_plan::CreatedLink;
use super::image_system::ImageSystem;
use super::install_folder::InstallFolder;
use super::install_method::InstallMethod;
use super::method_choice::ConsideredMethod;
use super::removal::RemovalPlan;
use super::required_libraries::RequiredLibrary;
use super::search_path_setup::{ChangedLibraryPath, SearchPathSetup};
use crate::judge::plan::Verdict;
use crate::judge::rule::Finding;
use crate::make::quote;
use image_linkage::path::RootPath;

/// What a Dockerfile does to an image for one phase; its templates read it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct PhaseRecipe {
    /// How CUPTI comes in; `None` where nothing has to be brought.
    pub way: Option<InstallMethod>,
    /// The ways that were looked at; the last is taken.
    pub considered: Vec<ConsideredMethod>,
    /// The release that comes in, where it is known.
    pub release: Option<BroughtRelease>,
    pub needs: Vec<RequiredLibrary>,
    // The libraries that a package brings and the phase does not need, by their stems. They go in the RUN that installs
    // it: a later layer would hide them, and they would still be pulled.
    pub spare: Vec<&'static str>,
    /// Names of CUPTI that lead nowhere, to another release or to what is no library, and would still be told of.
    #[serde(serialize_with = "quote::serialize_paths")]
    pub clears: Vec<RootPath>,
    /// The bytes that are added, as far as the sizes of the release are known.
    pub adds: Option<u64>,
    /// The folder that files are copied into, and how the loader comes to look there.
    pub search: InstallFolder,
    pub search_setup: SearchPathSetup,
    pub library_path: Option<ChangedLibraryPath>,
    /// Links at the paths and names by which programs open the library.
    pub path_links: Vec<CreatedLink>,
    /// The dead weight that goes.
    pub removal: Option<RemovalPlan>,
    pub check: BuildCheck,
    /// What it leaves as it is, and why.
    pub leaves: Vec<String>,
    pub system: ImageSystem,
    /// What an audit will say of the result.
    pub foretold: ForetoldAudit,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct BroughtRelease {
    /// As a package manager takes it: a final `*` stands for any rest.
    pub version: String,
    /// What says that it is the right one.
    pub because: String,
}

impl PhaseRecipe {
    /// The dead weight that the image has no longer afterwards; of a folder nothing that it holds is named.
    pub(super) fn dropped_paths(&self) -> impl Iterator<Item = &RootPath> {
        let dropped = self.removal.iter().flat_map(|removal| &removal.groups);
        dropped.flat_map(|group| &group.paths)
    }

    /// Whether CUPTI is brought in, or led to.
    pub(crate) fn brings_library(&self) -> bool {
        self.way.is_some() || !self.path_links.is_empty()
    }

    /// Whether a link has the name without a number.
    pub(super) fn makes_plain_link(&self, stem: &str) -> bool {
        let of_plan = self.way.iter().filter_map(InstallMethod::copy_plan);
        let mut links = of_plan.flat_map(|plan| &plan.links).chain(&self.path_links);
        links.any(|link| link.at.name() == stem.as_bytes())
    }

    /// Whether the build runs `ldconfig`.
    pub(crate) fn runs_ldconfig(&self) -> bool {
        !matches!(self.search_setup, SearchPathSetup::Nothing { .. })
            || matches!(self.way, Some(InstallMethod::Package(_)))
            || (self.removal.is_some() && self.system.has_cache)
    }
}

/// The verdict of an audit that is still to come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct ForetoldAudit {
    pub verdict: Verdict,
    /// The rules that make it.
    pub because: Vec<String>,
    /// All that will still be found.
    #[serde(skip)]
    pub findings: Vec<Finding>,
}
