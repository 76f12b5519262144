//! The ways to get CUPTI into an image. Each proposes patches and only reads.

pub(super) mod conda;
pub(super) mod copy;
pub(super) mod in_place;
pub(super) mod links;
mod pip;
mod rights;
pub(super) mod system_package;
pub(crate) mod unread;

use super::request::{MethodKind, PatchContext};
use super::{Obstacle, misleading_names};
use crate::make::patch::ImagePatch;

/// A method: reads the image, and proposes patches or says why it does not work.
pub(super) type Propose = fn(&PatchContext<'_>) -> Result<Vec<ImagePatch>, Obstacle>;

/// A way to install CUPTI, whether or not it works in this image.
pub(super) struct Method {
    pub name: &'static str,
    /// The kind that a user can request; `None` for a method without a program or another image.
    pub via: Option<MethodKind>,
    /// The reason for using it if it works.
    pub why: &'static str,
    pub propose: Propose,
}

/// What changes the image alone and installs nothing.
pub(super) const WITHOUT_INSTALL: [Propose; 3] = [rights::propose, misleading_names::propose_deletion, links::propose];

/// This method is only considered for images with conda.
pub(super) const OF_CONDA: &str = "conda into the program's environment";

/// The methods of a build, cheapest first.
pub(super) const METHODS: [Method; 11] = [
    Method {
        name: "ldconfig",
        via: None,
        why: "the files are where ldconfig looks, but it has not run since",
        propose: in_place::propose_refresh,
    },
    Method {
        name: "in place",
        via: None,
        why: "the files are in the image, but not every program gets them",
        propose: in_place::propose,
    },
    Method {
        name: "copy",
        via: Some(MethodKind::Copy),
        why: "only the needed files, from an image that was read",
        propose: copy::propose,
    },
    Method {
        name: "pip into the program's environment",
        via: Some(MethodKind::Pip),
        why: "the search path of the program leads to the wheel",
        propose: pip::propose_asking,
    },
    Method {
        name: OF_CONDA,
        via: Some(MethodKind::Conda),
        why: "the search path of the program leads to its folder",
        propose: conda::propose_asking,
    },
    Method {
        name: "the distribution's own package",
        via: Some(MethodKind::Apt),
        why: "no other repository, and the loader searches its directory by default",
        propose: system_package::propose_own,
    },
    Method {
        name: "NVIDIA's package, with apt",
        via: Some(MethodKind::Apt),
        why: "NVIDIA's repository has a package of the release",
        propose: system_package::propose_apt,
    },
    Method {
        name: "NVIDIA's package, with dnf",
        via: Some(MethodKind::Dnf),
        why: "NVIDIA's repository has a package of the release",
        propose: system_package::propose_rpm,
    },
    Method {
        name: "conda",
        via: Some(MethodKind::Conda),
        why: "the image has a conda environment",
        propose: conda::propose,
    },
    Method {
        name: "pip",
        via: Some(MethodKind::Pip),
        why: "the image has a Python with pip",
        propose: pip::propose,
    },
    // Last: it pulls gigabytes for a few files.
    Method {
        name: "copy from NVIDIA's devel image",
        via: Some(MethodKind::Copy),
        why: "only the needed files, but the build pulls the devel image",
        propose: unread::propose_devel,
    },
];
