//! How the loader finds the installed files.

use serde::Serialize;

use super::build_check::names_to_check;
use super::copy_plan::CreatedLink;
use super::install_context::InstallContext;
use super::install_folder::{FolderDiscovery, InstallFolder};
use super::install_method::InstallMethod;
use super::required_libraries::RequiredLibrary;
use crate::byte_search::contains_bytes;
use crate::facts::ImageFacts;
use crate::make::quote;
use image_linkage::loader::{SearchStage, SearchStep, TriedFile};
use image_linkage::path::RootPath;

/// How the loader finds the installed files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(crate) enum SearchPathSetup {
    Nothing {
        because: String,
    },
    Folder {
        #[serde(serialize_with = "quote::serialize_path")]
        conf: RootPath,
        #[serde(serialize_with = "quote::serialize_path")]
        folder: RootPath,
        because: String,
    },
    /// Links in a folder of their own, which an `ldconfig` file lists.
    Links {
        #[serde(serialize_with = "quote::serialize_path")]
        conf: RootPath,
        /// The folder that contains only these links.
        #[serde(serialize_with = "quote::serialize_path")]
        folder: RootPath,
        links: Vec<CreatedLink>,
        because: String,
    },
    /// An `ldconfig` file lists the folders that contain the package's files.
    Listed {
        #[serde(serialize_with = "quote::serialize_path")]
        conf: RootPath,
        /// The folder with the library.
        #[serde(serialize_with = "quote::serialize_path")]
        folder: RootPath,
    },
}

/// The search path setup of a method.
pub(super) fn set_up_search_path(
    question: &InstallContext<'_>,
    search: &InstallFolder,
    way: &InstallMethod,
    needs: &[RequiredLibrary],
) -> SearchPathSetup {
    let InstallFolder { folder, by, because } = search;
    // The build cannot configure a folder, so the files go into a default one.
    let FolderDiscovery::Conf(conf) = by else {
        return SearchPathSetup::nothing(format!("{because}; the loader searches here by default: {folder}"));
    };
    let name_folder = |folder: &RootPath| SearchPathSetup::Folder {
        conf: conf.clone(),
        folder: folder.clone(),
        because: because.clone(),
    };
    let make_links = |links| SearchPathSetup::Links {
        conf: conf.clone(),
        folder: folder.clone(),
        links,
        because: "other libraries are there too, and stay off the search path".to_owned(),
    };
    let link_to = |files: &RootPath| {
        let names = names_to_check(question.request.target.library, way, needs);
        let link = |name: &String| CreatedLink {
            at: folder.join(name.as_bytes()),
            to: files.join(name.as_bytes()).absolute().into(),
            because: String::new(),
        };
        make_links(names.iter().map(link).collect())
    };
    match way {
        InstallMethod::Package(package) => match &package.folder {
            None => SearchPathSetup::nothing("the package puts its files where the loader searches by default"),
            Some(folder) => SearchPathSetup::Listed {
                conf: conf.clone(),
                folder: folder.clone(),
            },
        },
        InstallMethod::Copy { .. } => name_folder(folder),
        InstallMethod::Place(place) if place.links.is_empty() => name_folder(&place.search.folder),
        InstallMethod::Place(place) => make_links(place.links.clone()),
        InstallMethod::Pip(pip) if pip.headers.is_some() => name_folder(&pip.folder),
        InstallMethod::Pip(pip) => link_to(&pip.folder),
        // The conda folder contains its own libstdc++ and OpenSSL, which other programs must not find.
        InstallMethod::Conda(conda) => link_to(&conda.environment.prefix.join(b"lib")),
    }
}

impl SearchPathSetup {
    pub(crate) fn nothing(because: impl Into<String>) -> Self {
        Self::Nothing {
            because: because.into(),
        }
    }

    /// The configured folder, if known.
    pub(crate) fn named_folder(&self) -> Option<&RootPath> {
        match self {
            Self::Folder { folder, .. } | Self::Links { folder, .. } | Self::Listed { folder, .. } => Some(folder),
            Self::Nothing { .. } => None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct ChangedLibraryPath {
    pub value: String,
    pub because: String,
}

/// `LD_LIBRARY_PATH` without unused empty elements. If another element would be found before the installed library, the
/// folder goes to the front. The paths `cleared` no longer exist then.
pub(crate) fn changed_library_path(
    target: &ImageFacts,
    folder: Option<&RootPath>,
    cleared: &[RootPath],
) -> Option<ChangedLibraryPath> {
    let value = target.image.config.env("LD_LIBRARY_PATH")?;
    // ld.so(8): both colons and semicolons are separators.
    let is_meant = keeps_libraries_at_work(target);
    let elements = value.split([':', ';']).filter(|part| is_meant || !part.is_empty());
    let elements: Vec<&str> = elements.collect();
    let has_empty = !is_meant && !value.is_empty() && value.split([':', ';']).any(str::is_empty);
    let in_front = folder.filter(|_| is_hidden(target, cleared)).map(ToString::to_string);
    let because = match (&in_front, has_empty) {
        (Some(_), _) => "otherwise the loader finds other files on it first",
        (None, true) => "an empty element means the working directory",
        (None, false) => return None,
    };
    // The folder may already be on the path, after the element that hides it.
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

/// Whether the working directory contains libraries. An empty element means the working directory and may then be
/// intentional.
fn keeps_libraries_at_work(target: &ImageFacts) -> bool {
    let context = &target.contexts.as_is;
    let folder = context.rootfs.lookup(&context.environment.working_dir).ok();
    let mut names = folder.iter().flat_map(|folder| context.rootfs.children(folder.node));
    names.any(|(name, _)| contains_bytes(name, b".so"))
}

/// Whether the search for libcupti ends on `LD_LIBRARY_PATH` at a wrong object that stays.
fn is_hidden(target: &ImageFacts, cleared: &[RootPath]) -> bool {
    let resolution = &target.plain.as_is.resolution;
    let failed = resolution.unresolved.iter().flat_map(|missing| &missing.trace);
    let opened = crate::facts::opened_object(resolution);
    let opened = opened.into_iter().flat_map(|object| &object.trace);
    let mut steps = failed.chain(opened);
    steps.any(|step| match step {
        SearchStep::Tried {
            how: SearchStage::LdLibraryPath,
            tried: TriedFile::Found | TriedFile::Refused(_),
            path,
        } => !cleared.contains(&RootPath::new(path)),
        _ => false,
    })
}
