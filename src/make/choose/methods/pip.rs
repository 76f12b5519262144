//! NVIDIA's wheel, in a Python environment of the image.

use super::unread::{UnreadLibraries, spare_libraries};
use crate::facts::software::cuda_runtime::site_packages_of;
use crate::facts::{CuptiConsumer, ImageFacts};
use crate::make::choose::Obstacle;
use crate::make::choose::python_target::{PipTarget, find_pip_target};
use crate::make::choose::request::PatchContext;
use crate::make::choose::target_release::choose_wheel;
use crate::make::patch::package::{Package, PipPackage};
use crate::make::patch::{FileOrigin, ImagePatch, OTHER_LIBRARIES, PatchedLink, SearchPath};
use image_linkage::path::RootPath;
use python_path::PythonUse;

/// Installs the wheel into the environment that asks for it.
///
/// Errors: Why this does not work.
pub(in crate::make::choose) fn propose_asking(context: &PatchContext<'_>) -> Result<Vec<ImagePatch>, Obstacle> {
    let target = context.request.target;
    let consumers = target.answers.consumers.iter();
    let mut sites = consumers
        .filter_map(|consumer| package_folder(target, consumer))
        .peekable();
    if sites.peek().is_none() {
        return Err("no Python environment of the image asks for CUPTI".into());
    }
    let python = sites.find_map(|site| find_pip_target(target, &site));
    install(
        context,
        python.ok_or("no Python of the image searches the packages that ask for CUPTI")?,
    )
}

/// The folder of a program's Python package, without links.
fn package_folder(target: &ImageFacts, consumer: &CuptiConsumer) -> Option<RootPath> {
    let by_name = site_packages_of(&consumer.object);
    by_name.or_else(|| match &consumer.python {
        Some(PythonUse::Imported { site, .. }) => {
            let found = target.contexts.as_is.rootfs.lookup(&site.absolute());
            Some(found.ok()?.path)
        }
        _ => None,
    })
}

/// Installs the wheel into any environment.
///
/// Errors: Why this does not work.
pub(in crate::make::choose) fn propose(context: &PatchContext<'_>) -> Result<Vec<ImagePatch>, Obstacle> {
    let distributions = context.request.target.related.distributions.iter();
    let mut sites: Vec<&RootPath> = distributions.map(|dist| &dist.site).collect();
    sites.dedup();
    let mut pythons = sites
        .iter()
        .filter_map(|site| find_pip_target(context.request.target, site));
    // No program needs the wheel in one of these environments, so it is not worth a tool from outside.
    let python = pythons.find(|python| python.mount.is_none());
    install(
        context,
        python.ok_or("the image has no Python environment with pip, and no uv")?,
    )
}

fn install(context: &PatchContext<'_>, python: PipTarget) -> Result<Vec<ImagePatch>, Obstacle> {
    context.require_shell()?;
    let release = context.release()?;
    let (wheel, version) = choose_wheel(context.request.target, context.linker, release)?;
    // pip skips a listed package, even if its files are gone.
    let mut listed = context.request.target.related.distributions.iter();
    let folder = python.site.join(wheel.folder.as_bytes());
    let brought = context.brought_release(version.clone());
    let unread = UnreadLibraries {
        soname: &release.soname,
        cuda: Some(release.cuda),
        release: Some(brought),
    };
    let mut patch = unread.patch(context, &folder, |_| FileOrigin::Package);
    let package = Package::Pip(PipPackage {
        name: wheel.name.clone(),
        wheels: vec![format!("{}=={version}", wheel.name)],
        takes_dependencies: false,
        version,
        is_listed: listed.any(|dist| dist.site == python.site && dist.name == wheel.name),
        headers: (!wheel.shared).then(|| folder.parent().join(b"include")),
        spare: spare_libraries(context, &patch),
        target: python,
    });
    patch.title = format!("install {}", package.words());
    patch.package = Some(package);
    Ok(with_search_paths(context, &patch, wheel.shared))
}

/// The patch for programs that search the folder themselves, and for all. A shared folder has other libraries, which
/// stay off the search path.
pub(super) fn with_search_paths(context: &PatchContext<'_>, patch: &ImagePatch, is_shared: bool) -> Vec<ImagePatch> {
    let (folder, install) = (patch.library.parent(), &context.install);
    let with = |search| ImagePatch {
        search,
        ..patch.clone()
    };
    let own = with(SearchPath::Own {
        because: format!("the program's own search path leads to {folder}"),
    });
    let Some(line) = install.line() else {
        return vec![own];
    };
    let for_all = if is_shared {
        let mut patch = with(SearchPath::Configured {
            folder: install.folder.clone(),
            line: Some(line),
            because: OTHER_LIBRARIES.to_owned(),
        });
        let links = patch.found_names().into_iter().map(|name| PatchedLink {
            at: install.folder.join(name.as_bytes()),
            to: folder.join(name.as_bytes()).absolute().into(),
            because: String::new(),
        });
        patch.links = links.chain(patch.links.iter().cloned()).collect();
        patch
    } else {
        with(SearchPath::Configured {
            folder,
            line: Some(line),
            because: install.because.clone(),
        })
    };
    let proposals = [own, for_all].into_iter();
    // An added program has no search path of its own.
    proposals
        .skip(usize::from(context.request.adds_linked_program))
        .collect()
}
