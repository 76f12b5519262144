//! conda-forge's packages, in a conda environment of the image.

use super::pip::with_search_paths;
use super::unread::{UnreadLibraries, spare_libraries};
use crate::facts::software::conda_records::conda_records;
use crate::facts::software::cuda_runtime::site_packages_of;
use crate::make::choose::Obstacle;
use crate::make::choose::request::PatchContext;
use crate::make::patch::package::{CondaPackage, Package};
use crate::make::patch::{FileOrigin, ImagePatch};

/// Installs into the environment of the program that asks.
///
/// Errors: Why this does not work.
pub(in crate::make::choose) fn propose_asking(context: &PatchContext<'_>) -> Result<Vec<ImagePatch>, Obstacle> {
    let found = context.system.conda.as_ref().ok_or(NO_CONDA)?;
    let mut consumers = context.request.target.answers.consumers.iter();
    // Skip the environment's site-packages: pip also installs there, and its packages request pip's libraries.
    if !consumers
        .any(|consumer| consumer.object.starts_with(&found.prefix) && site_packages_of(&consumer.object).is_none())
    {
        return Err("no program of the conda environment asks for CUPTI".into());
    }
    propose(context)
}

/// Installs into any environment.
///
/// Errors: Why this does not work.
pub(in crate::make::choose) fn propose(context: &PatchContext<'_>) -> Result<Vec<ImagePatch>, Obstacle> {
    let environment = context.system.conda.clone().ok_or(NO_CONDA)?;
    context.require_shell()?;
    let library = context.request.target.library;
    let known = library
        .conda
        .as_ref()
        .ok_or("no conda package is known to contain it")?;
    let release = context.release()?;
    let (major, minor) = release.cuda;
    let name = &known.name;
    if !known.is_of(major) {
        return Err(format!("conda-forge has no {name} for CUDA {major}.{minor}").into());
    }
    let unread = UnreadLibraries {
        soname: &release.soname,
        cuda: Some(release.cuda),
        release: Some(context.brought_release(release.wheel())),
    };
    let folder = environment.prefix.join(b"lib");
    let mut patch = unread.patch(context, &folder, |_| FileOrigin::Package);
    // The -dev package contains the libraries beside libcupti.
    let has_more = patch.files.iter().any(|file| file.name != patch.soname);
    let names = ["", "-dev"].iter().take(if has_more { 2 } else { 1 });
    let rootfs = &context.request.target.contexts.as_is.rootfs;
    let begin = format!("{major}.{minor}.");
    let mut records = conda_records(rootfs, &environment.prefix).into_iter();
    let package = Package::Conda(CondaPackage {
        is_listed: records.any(|record| record.name == *name && record.version.starts_with(&begin)),
        environment,
        packages: names.map(|part| format!("{name}{part}={major}.{minor}.*")).collect(),
        spare: spare_libraries(context, &patch),
    });
    patch.title = format!("install {}", package.words());
    patch.package = Some(package);
    // The folder contains conda's own libstdc++ and OpenSSL, which other programs must not find.
    Ok(with_search_paths(context, &patch, true))
}

const NO_CONDA: &str = "the image has no conda";
