//! What changes in an image, as one value, without how: `dockerfile` writes it as instructions, `slim` as a layer, and an
//! audit as commands. [`apply`] computes the file system that all of them make.
//!
//! Each of these begins by taking a patch apart without `..`, so a new field must be handled by all of them.

pub(crate) mod apply;
pub(crate) mod drops;
pub(crate) mod layer;
pub(crate) mod package;
pub(crate) mod reason;

use std::sync::Arc;

use crate::facts::software::cuda_runtime::{CudaVersion, parse_cuda_version};
use crate::judge::plan::PlanItem;
use image_linkage::elf::ByteString;
use image_linkage::escape::escape_bytes;
use image_linkage::layer::FileFacts;
use image_linkage::path::RootPath;
use package::Package;
use reason::LibraryReasons;

/// The folder with the libraries in the stage of a build that installs them for other stages.
pub(crate) const STAGE_FOLDER: &str = "/cupti";

/// Why links lead to libraries, and not a search path.
pub(crate) const OTHER_LIBRARIES: &str = "other libraries are there too, and stay off the search path";

/// Why ldconfig runs for a folder that its configuration names already.
pub(crate) const NEW_FILES: &str = "ldconfig knows the directory, but not the new files in it";

/// A change to an image.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ImagePatch {
    /// What it does, in words: `install cuda-cupti-12-4`.
    pub title: String,
    /// The soname of the libcupti that programs get; empty if none is brought or made reachable.
    pub soname: ByteString,
    /// Where that libcupti is afterwards.
    pub library: RootPath,
    pub release: Option<BroughtRelease>,
    /// Names to delete, before a new file may take one.
    pub deletes: Vec<RootPath>,
    /// Rights on files of the image for all users.
    pub rights: Vec<GrantedRight>,
    /// The name for `FROM` of the image that files are copied from.
    pub source: Option<String>,
    /// The package to install; its files are in `files`.
    pub package: Option<Package>,
    /// The libraries of the phase, libcupti first, and what they need beside them.
    pub files: Vec<PatchedFile>,
    pub links: Vec<PatchedLink>,
    pub search: SearchPath,
    /// Whether the loader's cache is made anew: `ldconfig` runs, or `slim` writes it.
    pub rewrites_cache: bool,
    pub library_path: Option<ChangedLibraryPath>,
    /// Dead weight to remove; never a file that the patch uses.
    pub drops: Vec<PlanItem>,
    /// What it does not solve, with reasons.
    pub leaves: Vec<String>,
}

/// A library that is in the image afterwards.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PatchedFile {
    pub at: RootPath,
    /// The name by which programs ask the loader for it.
    pub name: ByteString,
    /// The name up to the version of its soname. `None` for a dependency, and for a library that only has a numbered
    /// name.
    pub stem: Option<&'static str>,
    /// Its facts; of a file that was not read, as far as known. Then its size may be 0.
    pub facts: Arc<FileFacts>,
    pub origin: FileOrigin,
    pub because: LibraryReasons,
}

/// Where a library comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FileOrigin {
    /// The image.
    Present,
    /// This path of the source.
    Source(RootPath),
    /// The package.
    Package,
}

/// A link that is in the image afterwards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PatchedLink {
    pub at: RootPath,
    /// The target: a name in the same folder, or a path.
    pub to: ByteString,
    /// Empty if the search path says why.
    pub because: String,
}

/// Why the loader finds the files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SearchPath {
    /// Programs have search paths of their own.
    Own { because: String },
    /// The folder is compiled into the loader.
    Default { folder: RootPath, because: String },
    /// The configuration of ldconfig names the folder.
    Configured {
        folder: RootPath,
        /// The line that names it; `None` if one is there already.
        line: Option<ConfLine>,
        because: String,
    },
}

/// A line for a folder, in front of the others of a file that ldconfig reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConfLine {
    pub file: RootPath,
    /// Whether a build asks the package manager for the folder, which is only presumed here.
    pub asks_package: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BroughtRelease {
    /// In the package manager's syntax: a final `*` matches any rest.
    pub version: String,
    /// The evidence for this release.
    pub because: String,
}

/// A new value of `LD_LIBRARY_PATH`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChangedLibraryPath {
    pub value: String,
    pub because: String,
}

/// A right on a file or directory for all users.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GrantedRight {
    pub path: RootPath,
    /// As an argument of chmod(1).
    pub mode: &'static str,
    /// The bits that it adds to the mode.
    pub bits: u16,
}

/// A patch that changes nothing.
impl Default for ImagePatch {
    fn default() -> Self {
        Self {
            title: String::new(),
            soname: ByteString::default(),
            library: RootPath::default(),
            release: None,
            deletes: Vec::new(),
            rights: Vec::new(),
            source: None,
            package: None,
            files: Vec::new(),
            links: Vec::new(),
            search: SearchPath::Own {
                because: "nothing is added".to_owned(),
            },
            rewrites_cache: false,
            library_path: None,
            drops: Vec::new(),
            leaves: Vec::new(),
        }
    }
}

impl ImagePatch {
    /// Whether it brings CUPTI or makes it reachable.
    pub(crate) fn brings_library(&self) -> bool {
        let Self {
            deletes,
            rights,
            files,
            links,
            ..
        } = self;
        !(deletes.is_empty() && rights.is_empty() && files.is_empty() && links.is_empty())
    }

    /// Whether it needs what is at this path, or writes it.
    pub(crate) fn uses(&self, path: &RootPath) -> bool {
        self.library == *path
            || self.files.iter().any(|file| file.at == *path)
            || self.links.iter().any(|link| link.at == *path)
    }

    /// The folder in which the loader finds libcupti.
    pub(crate) fn folder(&self) -> RootPath {
        match &self.search {
            SearchPath::Own { .. } => self.library.parent(),
            SearchPath::Default { folder, .. } | SearchPath::Configured { folder, .. } => folder.clone(),
        }
    }

    /// The same libraries in `folder`, copied from the stage of a build that has them in [`STAGE_FOLDER`].
    pub(crate) fn copied_from_stage(&self, folder: &RootPath, search: SearchPath) -> Self {
        let files = self.files.iter().map(|file| PatchedFile {
            at: folder.join(&file.name),
            origin: FileOrigin::Source(RootPath::from(STAGE_FOLDER).join(&file.name)),
            ..file.clone()
        });
        Self {
            title: self.title.clone(),
            soname: self.soname.clone(),
            library: folder.join(&self.soname),
            release: self.release.clone(),
            source: Some("cupti".to_owned()),
            files: files.collect(),
            search,
            ..Self::default()
        }
    }

    /// What it adds to an image that has `other`.
    pub(crate) fn without(&self, other: &Self) -> Self {
        let mut patch = self.clone();
        patch
            .files
            .retain(|file| other.files.iter().all(|had| had.at != file.at));
        patch
            .links
            .retain(|link| other.links.iter().all(|had| had.at != link.at));
        patch.deletes.retain(|path| !other.deletes.contains(path));
        let had = other.named_folder();
        if let SearchPath::Configured { folder, line, because } = &mut patch.search
            && had == Some(folder)
        {
            *line = None;
            NEW_FILES.clone_into(because);
        }
        patch
    }

    /// The folder that ldconfig's configuration names.
    pub(crate) fn named_folder(&self) -> Option<&RootPath> {
        match &self.search {
            SearchPath::Configured { folder, .. } => Some(folder),
            SearchPath::Own { .. } | SearchPath::Default { .. } => None,
        }
    }

    /// The names that every process finds afterwards.
    pub(crate) fn found_names(&self) -> Vec<String> {
        if self.files.is_empty() || matches!(self.search, SearchPath::Own { .. }) {
            return Vec::new();
        }
        let mut names = vec![escape_bytes(&self.soname)];
        let beside = self.files.iter().filter(|file| file.name != self.soname);
        names.extend(beside.filter_map(|file| file.stem).map(str::to_owned));
        // The link by the name without a number.
        for name in self.links.iter().map(|link| link.at.name()) {
            if *name != *self.soname && self.soname.starts_with(name) {
                names.push(escape_bytes(name));
            }
        }
        names
    }

    /// The release in words.
    pub(crate) fn release_words(&self) -> &str {
        self.release
            .as_ref()
            .map_or("an unknown release", |release| &release.version)
    }

    /// Whether the sizes of the files that come are known.
    pub(crate) fn knows_sizes(&self) -> bool {
        // conda may install further packages.
        let is_sized = !matches!(self.package, Some(Package::Conda(_)));
        is_sized && !self.files.is_empty() && self.files.iter().all(|file| file.facts.bytes > 0)
    }
}

impl BroughtRelease {
    /// A release with the evidence for it.
    pub(crate) fn new(version: String, because: Option<&str>) -> Self {
        Self {
            version,
            because: because.unwrap_or("nothing in the image asks for another").to_owned(),
        }
    }

    /// Its CUDA version.
    pub(crate) fn cuda(&self) -> Option<CudaVersion> {
        parse_cuda_version(&self.version)
    }
}

impl PatchedFile {
    /// Its path in the source.
    pub(crate) fn copied_from(&self) -> Option<&RootPath> {
        match &self.origin {
            FileOrigin::Source(from) => Some(from),
            FileOrigin::Present | FileOrigin::Package => None,
        }
    }
}

impl SearchPath {
    pub(crate) fn because(&self) -> &str {
        match self {
            Self::Own { because } | Self::Default { because, .. } | Self::Configured { because, .. } => because,
        }
    }
}
