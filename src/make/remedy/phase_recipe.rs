//! The finished recipe.

use serde::Serialize;

use super::build_check::BuildCheck;
use super::copy_plan::CreatedLink;
use super::granted_rights::GrantedRight;
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

/// The changes of a Dockerfile to an image for one phase; the input of its templates.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct PhaseRecipe {
    /// How CUPTI is installed; `None` if nothing is needed.
    pub way: Option<InstallMethod>,
    /// The considered methods; the last is used.
    pub considered: Vec<ConsideredMethod>,
    /// The installed release, if known.
    pub release: Option<BroughtRelease>,
    pub needs: Vec<RequiredLibrary>,
    // The libraries of a package that the phase does not need, by stem. The RUN that installs them also removes them: a
    // later layer would only hide them, and they would still be pulled.
    pub spare: Vec<&'static str>,
    /// CUPTI names to delete, because findings would remain about them: dangling links, names of another release, and
    /// files that are not libraries.
    #[serde(serialize_with = "quote::serialize_paths")]
    pub clears: Vec<RootPath>,
    /// The added size in bytes, if the sizes of the release are known.
    pub adds: Option<u64>,
    /// The folder for the copied files, and why the loader searches it.
    pub search: InstallFolder,
    pub search_setup: SearchPathSetup,
    pub library_path: Option<ChangedLibraryPath>,
    /// Links at the paths and names by which programs open the library.
    pub path_links: Vec<CreatedLink>,
    /// Rights on CUPTI's files for all users.
    pub rights: Vec<GrantedRight>,
    /// The dead weight that is removed.
    pub removal: Option<RemovalPlan>,
    pub check: BuildCheck,
    /// The problems that it does not solve, with reasons.
    pub leaves: Vec<String>,
    pub system: ImageSystem,
    /// The predicted audit of the result.
    pub predicted: PredictedAudit,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct BroughtRelease {
    /// In the package manager's syntax: a final `*` matches any rest.
    pub version: String,
    /// The evidence for this release.
    pub because: String,
}

impl PhaseRecipe {
    /// The removed dead weight. For a removed folder, its contents are not listed.
    pub(super) fn dropped_paths(&self) -> impl Iterator<Item = &RootPath> {
        let dropped = self.removal.iter().flat_map(|removal| &removal.groups);
        dropped.flat_map(|group| &group.paths)
    }

    /// Whether CUPTI is installed or made reachable.
    pub(crate) fn brings_library(&self) -> bool {
        self.way.is_some() || !self.rights.is_empty() || self.changes_names()
    }

    /// Whether it creates links or removes misleading names.
    pub(super) fn changes_names(&self) -> bool {
        !self.path_links.is_empty() || !self.clears.is_empty()
    }

    /// Whether removing misleading names is all that makes CUPTI reachable.
    pub(crate) fn only_clears(&self) -> bool {
        self.way.is_none() && !self.clears.is_empty()
    }

    /// Whether a link has the unversioned name.
    pub(super) fn makes_plain_link(&self, stem: &str) -> bool {
        let of_plan = self.way.iter().filter_map(InstallMethod::copy_plan);
        let mut links = of_plan.flat_map(|plan| &plan.links).chain(&self.path_links);
        links.any(|link| link.at.name() == stem.as_bytes())
    }

    /// Whether the build runs `ldconfig`.
    pub(crate) fn runs_ldconfig(&self) -> bool {
        !matches!(self.search_setup, SearchPathSetup::Nothing { .. })
            || matches!(self.way, Some(InstallMethod::Package(_)))
            || ((self.removal.is_some() || self.only_clears()) && self.system.has_cache)
    }
}

/// The predicted audit of the result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct PredictedAudit {
    pub verdict: Verdict,
    /// The rules that cause the verdict.
    pub because: Vec<String>,
    /// All remaining findings.
    #[serde(skip)]
    pub findings: Vec<Finding>,
}
