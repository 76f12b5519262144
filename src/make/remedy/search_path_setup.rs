//! How the loader comes to find what was brought.

use serde::Serialize;

use super::build_check::names_to_check;
use super::install_context::InstallContext;
use super::install_folder::{FolderDiscovery, InstallFolder};
use super::install_method::{InstallMethod, PipInstall};
use super::required_libraries::RequiredLibrary;
use crate::byte_search::contains_bytes;
use crate::judge::facts::ImageFacts;
use image_linkage::loader::{SearchStage, SearchStep, TriedFile};
use image_linkage::path::RootPath;

/// How the loader comes to find what was brought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SearchPathSetup {
    Nothing(String),
    Folder {
        conf: RootPath,
        folder: RootPath,
        because: String,
    },
    /// Links in a folder of their own, which a file of `ldconfig` names.
    Links {
        conf: RootPath,
        /// The folder in which nothing lies but these links.
        folder: RootPath,
        /// The links and what they lead to.
        links: Vec<(RootPath, RootPath)>,
        because: String,
    },
    /// A file of `ldconfig` names the folders that the package lists.
    Listed {
        conf: RootPath,
    },
}

/// How the loader comes to find what a way brings.
pub(super) fn set_up_search_path(
    question: &InstallContext<'_>,
    search: &InstallFolder,
    way: &InstallMethod,
    needs: &[RequiredLibrary],
) -> SearchPathSetup {
    let InstallFolder { folder, by, because } = search;
    // Nothing can be run that would name a folder: the files go where the loader looks by itself.
    let FolderDiscovery::Conf(conf) = by else {
        return SearchPathSetup::Nothing(format!("{because}: {folder}"));
    };
    let because_shared = "other libraries lie there too, and are not to be found by everybody";
    let name_folder = |folder: &RootPath| SearchPathSetup::Folder {
        conf: conf.clone(),
        folder: folder.clone(),
        because: because.clone(),
    };
    match way {
        InstallMethod::Package(package) if package.folder.is_none() => {
            SearchPathSetup::Nothing("the package puts its files where the loader looks by itself".to_owned())
        }
        InstallMethod::Package(_) => SearchPathSetup::Listed { conf: conf.clone() },
        InstallMethod::Copy { .. } | InstallMethod::Devel { .. } => name_folder(folder),
        InstallMethod::Place(place) if place.is_shared => SearchPathSetup::Links {
            links: place
                .copy_plan
                .files
                .iter()
                .map(|file| (folder.join(&file.name), file.from.clone()))
                .collect(),
            folder: folder.clone(),
            conf: conf.clone(),
            because: because_shared.to_owned(),
        },
        InstallMethod::Place(place) => {
            let first = place.copy_plan.files.first();
            name_folder(&first.map(|file| file.from.parent()).unwrap_or_default())
        }
        // The phase asks for no API itself, so that only the program that is linked with CUPTI needs it.
        InstallMethod::Pip(pip) if question.phase.apis.accepted_ids().next().is_none() => {
            SearchPathSetup::Nothing(format!("the search path of what asks for it leads to {}", pip.folder))
        }
        InstallMethod::Pip(PipInstall {
            folder,
            is_shared: false,
            ..
        }) => name_folder(folder),
        // Its folder has a libstdc++ and an OpenSSL of conda's, which no other program is to find.
        InstallMethod::Pip(_) | InstallMethod::Conda(_) => {
            let files = match way {
                InstallMethod::Conda(conda) => conda.environment.prefix.join(b"lib"),
                InstallMethod::Pip(pip) => pip.folder.clone(),
                _ => RootPath::default(),
            };
            let link = |name: &String| (folder.join(name.as_bytes()), files.join(name.as_bytes()));
            SearchPathSetup::Links {
                conf: conf.clone(),
                folder: folder.clone(),
                links: names_to_check(question.target.library, way, needs)
                    .iter()
                    .map(link)
                    .collect(),
                because: because_shared.to_owned(),
            }
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct ChangedLibraryPath {
    pub value: String,
    pub because: String,
}

/// `LD_LIBRARY_PATH` without empty elements that nothing needs, and with the folder in front where something on it would
/// be found before what is brought.
pub(crate) fn changed_library_path(target: &ImageFacts, search_setup: &SearchPathSetup) -> Option<ChangedLibraryPath> {
    let value = target.image.config.env("LD_LIBRARY_PATH")?;
    // ld.so(8): colons and semicolons separate alike.
    let is_meant = keeps_libraries_at_work(target);
    let elements = value.split([':', ';']).filter(|part| is_meant || !part.is_empty());
    let elements: Vec<&str> = elements.collect();
    let has_empty = !is_meant && !value.is_empty() && value.split([':', ';']).any(str::is_empty);
    let folder = match search_setup {
        SearchPathSetup::Folder { folder, .. } | SearchPathSetup::Links { folder, .. } => Some(folder.to_string()),
        _ => None,
    };
    let in_front = folder.filter(|_| is_hidden(target));
    let because = match (&in_front, has_empty) {
        (Some(_), _) => "what lies on it would be found before what was brought",
        (None, true) => "an empty element stands for the working directory",
        (None, false) => return None,
    };
    // It may stand on the path already, behind what hides it.
    let others = elements
        .iter()
        .copied()
        .filter(|element| in_front.as_deref() != Some(*element));
    let all: Vec<&str> = in_front.iter().map(String::as_str).chain(others).collect();
    if all == elements && !has_empty {
        return None;
    }
    Some(ChangedLibraryPath {
        value: all.join(":"),
        because: because.to_owned(),
    })
}

/// Whether libraries lie in the working directory: an empty element stands for it, and may be meant.
fn keeps_libraries_at_work(target: &ImageFacts) -> bool {
    let context = &target.contexts.as_is;
    let folder = context.rootfs.lookup(&context.environment.working_dir).ok();
    let mut names = folder.iter().flat_map(|folder| context.rootfs.children(folder.node));
    names.any(|(name, _)| contains_bytes(name, b".so"))
}

/// Whether the search for libcupti ends on `LD_LIBRARY_PATH`, at something that is not what is wanted.
fn is_hidden(target: &ImageFacts) -> bool {
    let resolution = &target.plain.as_is.resolution;
    let failed = resolution.unresolved.iter().flat_map(|missing| &missing.trace);
    let opened = crate::judge::facts::opened_object(resolution);
    let opened = opened.into_iter().flat_map(|object| &object.trace);
    let mut steps = failed.chain(opened);
    steps.any(|step| {
        matches!(
            step,
            SearchStep::Tried {
                how: SearchStage::LdLibraryPath,
                tried: TriedFile::Found | TriedFile::Refused(_),
                ..
            }
        )
    })
}
