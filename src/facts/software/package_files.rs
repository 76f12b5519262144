//! Detects packages that are installed according to their file list but lack files; pip then reports "already
//! satisfied".

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use crate::facts::software::cupti_files::ScanCase;
use crate::facts::software::file_owner::{OwnerKind, installed_deb};
use crate::facts::software::rpm_database::rpms_of_list;
use crate::knowledge::KnowledgeTables;
use crate::knowledge::packages::{CuptiPackages, PackageManager};
use image_linkage::elf::ByteString;
use image_linkage::layer::{
    RpmPackage, is_installed_list, is_library_name, is_rpm_database, listed_files, rpm_packages,
};
use image_linkage::path::RootPath;
use image_linkage::rootfs::{NodeKind, Rootfs};
use python_path::{PythonDistribution, named_distribution};

/// An installed package with missing files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IncompletePackage {
    /// The manager whose list contains it: pip, dpkg, rpm or conda.
    pub kind: OwnerKind,
    /// Its name; normalized for a Python distribution.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The file that lists its files.
    pub list: RootPath,
    /// The layer of that list, counted from 0 at the bottom.
    pub layer: usize,
    /// The number of libraries and modules in the list.
    pub listed: usize,
    /// The listed ones that the image lacks.
    pub missing: Vec<MissingFile>,
    /// The known programs that cannot run because their objects are missing.
    pub programs: Vec<String>,
}

/// A library or module that is in a package's list but not in the image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingFile {
    /// The installed path.
    pub path: RootPath,
    /// Whether people remove such files to save space, as `dockerfile` and `slim` do.
    pub is_dispensable: bool,
    /// The target of the link that is in its place; uv can link files into its cache.
    pub target: Option<ByteString>,
}

impl IncompletePackage {
    /// Whether a file with this name is missing.
    pub fn lacks(&self, name: &[u8]) -> bool {
        self.missing.iter().any(|file| file.path.name() == name)
    }

    /// The directory in which programs look for the package: `site-packages`, or the conda environment.
    pub fn environment(&self) -> RootPath {
        match self.kind {
            OwnerKind::Pip | OwnerKind::Conda => self.list.parent().parent(),
            _ => RootPath::default(),
        }
    }
}

/// A package in a list: its manager, name and version, and its files.
type ListedPackage = ((OwnerKind, String, String), Vec<RootPath>);

/// Whether the file at a path may be a package's file list.
pub(crate) fn is_package_list(path: &RootPath) -> bool {
    is_installed_list(path) || is_conda_list(path) || is_rpm_database(path)
}

fn is_conda_list(path: &RootPath) -> bool {
    path.name().ends_with(b".json") && path.parent().name() == b"conda-meta"
}

/// The libraries and modules in a package's list.
pub(crate) fn listed_parts(path: &RootPath, content: &[u8]) -> Vec<RootPath> {
    let files = if is_conda_list(path) {
        CondaPackage::read(content)
            .map(|package| package.files(path))
            .unwrap_or_default()
    } else if is_rpm_database(path) {
        rpm_packages(content).flat_map(|package| rpm_files(&package)).collect()
    } else {
        listed_files(path, content).into_iter().map(|file| file.path).collect()
    };
    let is_of_python = path.name() == b"RECORD";
    let mut parts = files;
    parts.retain(|file| {
        let is_module = file.name().ends_with(b".py") && (is_of_python || is_in_site(file));
        is_library_name(file.name()) || is_module
    });
    parts
}

fn rpm_files(package: &RpmPackage<'_>) -> Vec<RootPath> {
    let libraries = package.libraries.iter();
    libraries.map(|path| RootPath::new(path)).collect()
}

fn is_in_site(path: &RootPath) -> bool {
    let mut folders = path.split_components();
    folders.any(|folder| matches!(folder, b"site-packages" | b"dist-packages"))
}

/// The packages with missing files, among those with these `lists`.
pub(crate) fn find_incomplete(
    case: &ScanCase<'_>,
    lists: &[RootPath],
    distributions: &[PythonDistribution],
) -> Vec<IncompletePackage> {
    let (rootfs, tables) = (case.rootfs, case.knowledge.tables);
    let diverted = diversions(rootfs);
    let mut found = Vec::new();
    for list in lists {
        for ((kind, name, version), files) in listed_packages(rootfs, &tables.packages, list, distributions) {
            let listed = files.len();
            let mut missing = files;
            missing.retain(|path| !is_there(rootfs, &diverted, kind, path));
            if missing.is_empty() {
                continue;
            }
            let broken = case
                .profiles
                .iter()
                .filter(|profile| profile.required.breaks_program() && missing.iter().any(|path| profile.fits(path)));
            let programs = broken.map(|profile| profile.name.clone()).collect();
            let gone = missing.into_iter().map(|path| MissingFile {
                is_dispensable: is_dispensable(tables, &path),
                target: link_target(rootfs, &path),
                path,
            });
            found.push(IncompletePackage {
                kind,
                name,
                version,
                list: list.clone(),
                layer: rootfs
                    .lookup(&list.absolute())
                    .map_or(0, |found| rootfs.node(found.node).layer),
                listed,
                programs,
                missing: gone.collect(),
            });
        }
    }
    drop_leftovers(&mut found, distributions);
    found
}

/// Whether a listed file exists, at its own path or where dpkg moved it.
fn is_there(rootfs: &Rootfs, diverted: &BTreeMap<RootPath, RootPath>, kind: OwnerKind, file: &RootPath) -> bool {
    let mut places = [Some(file), diverted.get(file)].into_iter().flatten();
    // Packages of a distribution contain links to files of other packages; wheels contain no links.
    let exists = places.any(|path| match kind {
        OwnerKind::Pip => rootfs.lookup(&path.absolute()).is_ok(),
        _ => rootfs.lookup_link(&path.absolute()).is_ok(),
    });
    // `compileall -b` replaces a module's source.
    let compiled = [&file.absolute()[..], b"c"].concat();
    exists || file.name().ends_with(b".py") && rootfs.file(&compiled).is_some()
}

/// The target of a link.
fn link_target(rootfs: &Rootfs, path: &RootPath) -> Option<ByteString> {
    let found = rootfs.lookup_link(&path.absolute()).ok()?;
    match &rootfs.node(found.node).kind {
        NodeKind::Symlink(target) => Some(target.clone()),
        _ => None,
    }
}

/// Whether people remove such a file from packages to save space, as `dockerfile` and `slim` do.
fn is_dispensable(tables: &KnowledgeTables, path: &RootPath) -> bool {
    let parent = path.parent();
    let mut without = tables.packages.without.iter();
    without.any(|name| parent.split_components().any(|folder| name.as_bytes() == folder))
        || !tables.dead_weight.match_path(path.as_bytes()).kinds.is_empty()
}

/// The packages of a list that are checked and installed, with their libraries and modules.
fn listed_packages(
    rootfs: &Rootfs,
    packages: &CuptiPackages,
    list: &RootPath,
    distributions: &[PythonDistribution],
) -> Vec<ListedPackage> {
    if !is_rpm_database(list) {
        return read_list(rootfs, packages, list, distributions).into_iter().collect();
    }
    let mut listed = Vec::new();
    for package in rpms_of_list(rootfs, list).into_iter().flatten() {
        let name = String::from_utf8_lossy(package.name).into_owned();
        if packages.checked_package(PackageManager::System, &name).is_some() {
            let version = String::from_utf8_lossy(package.version).into_owned();
            listed.push(((OwnerKind::Rpm, name, version), rpm_files(&package)));
        }
    }
    listed
}

/// The package of a list, with its libraries and modules; `None` for a package that is not checked or not installed.
fn read_list(
    rootfs: &Rootfs,
    packages: &CuptiPackages,
    list: &RootPath,
    distributions: &[PythonDistribution],
) -> Option<ListedPackage> {
    let content = rootfs.content(&list.absolute())?;
    let package = if is_conda_list(list) {
        let package = CondaPackage::read(content)?;
        packages.checked_package(PackageManager::Conda, &package.name)?;
        (OwnerKind::Conda, package.name, package.version)
    } else if list.name() == b"RECORD" {
        let mut all = distributions.iter();
        let (name, version) = if let Some(dist) = all.find(|dist| dist.metadata.parent() == list.parent()) {
            (dist.name.clone(), dist.version.clone())
        } else {
            // uv writes RECORD itself, but may link METADATA into its cache.
            link_target(rootfs, &list.parent().join(b"METADATA"))?;
            let (name, version) = named_distribution(list.parent().name())?;
            (name, version?)
        };
        packages.checked_package(PackageManager::Pip, &name)?;
        (OwnerKind::Pip, name, version)
    } else {
        let file = String::from_utf8_lossy(list.name().strip_suffix(b".list")?).into_owned();
        // Multi-architecture packages have lists such as `libcupti12:amd64.list`.
        let name = file.split(':').next()?;
        packages.checked_package(PackageManager::System, name)?;
        (OwnerKind::Deb, name.to_owned(), installed_deb(rootfs, name)?)
    };
    Some((package, listed_parts(list, content)))
}

/// Removes false positives: old metadata that an upgrade in another layer left behind, and Python distributions that
/// conda installed and lists itself.
fn drop_leftovers(found: &mut Vec<IncompletePackage>, distributions: &[PythonDistribution]) {
    let lists: BTreeSet<RootPath> = found.iter().map(|package| package.list.parent()).collect();
    let of_conda: BTreeSet<RootPath> = (found.iter())
        .filter(|package| package.kind == OwnerKind::Conda)
        .flat_map(|package| package.missing.iter().map(|file| file.path.clone()))
        .collect();
    found.retain(|package| {
        let site = package.list.parent().parent();
        let mut others = distributions.iter();
        let has_whole_twin = others
            .any(|dist| dist.name == package.name && dist.site == site && !lists.contains(&dist.metadata.parent()));
        let mut missing = package.missing.iter();
        package.kind != OwnerKind::Pip || !has_whole_twin && !missing.all(|file| of_conda.contains(&file.path))
    });
}

/// The paths to which dpkg moves diverted files (dpkg-divert(1)). The file has three lines each: path, new path,
/// package.
fn diversions(rootfs: &Rootfs) -> BTreeMap<RootPath, RootPath> {
    let text = rootfs.content(b"/var/lib/dpkg/diversions").unwrap_or_default();
    let lines: Vec<&[u8]> = text.split(|&byte| byte == b'\n').collect();
    let triples = lines.chunks_exact(3);
    let pairs = triples.filter_map(|triple| Some((RootPath::new(triple.first()?), RootPath::new(triple.get(1)?))));
    pairs.collect()
}

/// conda's record of a package (`conda-meta/NAME-VERSION-BUILD.json`).
#[derive(Deserialize)]
struct CondaPackage {
    name: String,
    version: String,
    #[serde(default)]
    files: Vec<String>,
}

impl CondaPackage {
    fn read(content: &[u8]) -> Option<Self> {
        serde_json::from_slice(content).ok()
    }

    /// Its files, whose names are relative to the environment's directory.
    fn files(self, list: &RootPath) -> Vec<RootPath> {
        let prefix = list.parent().parent();
        self.files.iter().map(|file| prefix.join(file.as_bytes())).collect()
    }
}
