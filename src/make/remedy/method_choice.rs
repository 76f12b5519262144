//! Chooses the cheapest install method that works in an image, and records why the others are not used.

use serde::Serialize;

use super::install_context::InstallContext;
use super::install_method::{InstallMethod, MethodKind};
use super::{MethodObstacle, RemedyError};
use super::{file_ways, package_ways};

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct ConsideredMethod {
    pub name: &'static str,
    /// Why it is used, or why not.
    pub why: String,
}

/// A method, whether or not it works in this image.
struct MethodCandidate {
    name: &'static str,
    /// The kind that a user can request; `None` for a method without a program or another image.
    via: Option<MethodKind>,
    /// The reason for using it if it works.
    cheap: &'static str,
    go: fn(&InstallContext<'_>) -> Result<InstallMethod, MethodObstacle>,
}

/// This method is only considered for images with conda.
const OF_CONDA: &str = "conda into the program's environment";

/// The methods, cheapest first.
const WAYS: [MethodCandidate; 11] = [
    MethodCandidate {
        name: "ldconfig",
        via: None,
        cheap: "the files are where ldconfig looks, but it has not run since",
        go: file_ways::refresh,
    },
    MethodCandidate {
        name: "in place",
        via: None,
        cheap: "the files are in the image, but not every program gets them",
        go: file_ways::place,
    },
    MethodCandidate {
        name: "copy",
        via: Some(MethodKind::Copy),
        cheap: "only the needed files, from an image that was read",
        go: file_ways::copy,
    },
    MethodCandidate {
        name: "pip into the program's environment",
        via: Some(MethodKind::Pip),
        cheap: "the search path of the program leads to the wheel",
        go: package_ways::pip_of_consumer,
    },
    MethodCandidate {
        name: OF_CONDA,
        via: Some(MethodKind::Conda),
        cheap: "the search path of the program leads to its folder",
        go: package_ways::conda_of_consumer,
    },
    MethodCandidate {
        name: "the distribution's own package",
        via: Some(MethodKind::Apt),
        cheap: "no other repository, and the loader searches its directory by default",
        go: package_ways::own,
    },
    MethodCandidate {
        name: "NVIDIA's package, with apt",
        via: Some(MethodKind::Apt),
        cheap: "NVIDIA's repository has a package of the release",
        go: package_ways::apt,
    },
    MethodCandidate {
        name: "NVIDIA's package, with dnf",
        via: Some(MethodKind::Dnf),
        cheap: "NVIDIA's repository has a package of the release",
        go: package_ways::dnf,
    },
    MethodCandidate {
        name: "conda",
        via: Some(MethodKind::Conda),
        cheap: "the image has a conda environment",
        go: package_ways::conda,
    },
    MethodCandidate {
        name: "pip",
        via: Some(MethodKind::Pip),
        cheap: "the image has a Python with pip",
        go: package_ways::pip,
    },
    // Last: it pulls gigabytes for a few files.
    MethodCandidate {
        name: "copy from NVIDIA's devel image",
        via: Some(MethodKind::Copy),
        cheap: "only the needed files, but the build pulls the devel image",
        go: file_ways::devel,
    },
];

/// The cheapest working method that `accept` accepts, with its result and the considered methods, the chosen one last.
/// The first requested kind with such a method wins; without a request, all are considered.
///
/// Errors: [`RemedyError::NoWay`] with the reason for each considered method.
pub(crate) fn choose_method<T>(
    question: &InstallContext<'_>,
    accept: impl Fn(InstallMethod) -> Result<T, MethodObstacle>,
) -> Result<(T, Vec<ConsideredMethod>), RemedyError> {
    let mut considered = Vec::new();
    let mut whys = Vec::new();
    let copy = [MethodKind::Copy];
    // A user who names a copy source wants its files and no package. A second copy of files already in the image would
    // be useless.
    let (via, has_them) = match question.request.via {
        [] if question.request.source.is_some() => (copy.as_slice(), file_ways::has_files_of_source(question)),
        asked => (asked, false),
    };
    let has_conda = question.system.conda.is_some();
    let candidates = || WAYS.iter().filter(|it| it.name != OF_CONDA || has_conda);
    let own = candidates().filter(|it| has_them && it.via.is_none());
    let ordered = via
        .iter()
        .flat_map(|kind| candidates().filter(|it| it.via == Some(*kind)));
    let all = candidates().filter(|_| via.is_empty());
    for candidate in own.chain(ordered).chain(all) {
        let name = candidate.name;
        match (candidate.go)(question).and_then(&accept) {
            Ok(accepted) => {
                let why = candidate.cheap.to_owned();
                considered.push(ConsideredMethod { name, why });
                return Ok((accepted, considered));
            }
            Err(obstacle) => {
                let why = obstacle.to_string();
                // Consecutive methods may fail for the same reason, for example because the image has no library.
                if considered.last().is_none_or(|last: &ConsideredMethod| last.why != why) {
                    considered.push(ConsideredMethod { name, why });
                }
                whys.push(obstacle);
            }
        }
    }
    let names: Vec<&str> = via.iter().map(|kind| kind.name()).collect();
    Err(RemedyError::NoWay {
        image: question.request.target.image.reference.clone(),
        via: (!names.is_empty()).then(|| names.join(" or ")),
        whys,
    })
}
