//! Finds the package of a file in the databases of dpkg, rpm, pip and conda, or the tool whose directory contains it.

use crate::byte_search::contains_bytes;
use crate::facts::software::conda_records::{conda_environment_of, conda_records};
use crate::facts::software::rpm_database::installed_rpms;
use crate::knowledge::{BundleFolder, Knowledge, KnowledgeTables, LibraryProfile};
use image_linkage::layer::listed_files;
use image_linkage::path::RootPath;
use image_linkage::rootfs::Rootfs;
use python_path::normal_name;

/// The owner of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileOwner {
    /// The kind of package.
    pub kind: OwnerKind,
    /// The name in the package database; empty if unknown.
    pub name: String,
    /// Its version, if the database has it.
    pub version: Option<String>,
}

/// The kind of package that owns a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnerKind {
    /// A Python distribution with `METADATA`.
    Pip,
    /// A dpkg package.
    Deb,
    /// An rpm package.
    Rpm,
    /// A conda package.
    Conda,
    /// A private copy of a tool.
    Bundled,
    /// Unknown: copied by hand, or in a database that is not read.
    Unknown,
}

impl OwnerKind {
    /// The name used in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pip => "pip",
            Self::Deb => "deb",
            Self::Rpm => "rpm",
            Self::Conda => "conda",
            Self::Bundled => "bundled",
            Self::Unknown => "unknown",
        }
    }
}

fn bundle<'t>(tables: &'t KnowledgeTables, path: &RootPath) -> Option<&'t BundleFolder> {
    // The match starts at a slash and has an open end, because Nsight's directories end in a version:
    // `nsight-systems-2024.1`.
    let text = [b"/", path.as_bytes()].concat();
    tables.bundles.iter().find(|bundle| {
        let folder = [b"/", bundle.folder.as_bytes()].concat();
        contains_bytes(&text, &folder)
    })
}

/// Whether only the owning tool uses the file.
pub fn is_private_copy(tables: &KnowledgeTables, path: &RootPath) -> bool {
    bundle(tables, path).is_some_and(|bundle| bundle.private)
}

/// Whether the file is a tool's own build, identified by its hash in any location.
pub fn is_private_build(tables: &KnowledgeTables, owner: &FileOwner) -> bool {
    let mut private_copies = tables.bundles.iter().filter(|bundle| bundle.private);
    owner.kind == OwnerKind::Bundled && private_copies.any(|bundle| owner.name.starts_with(&bundle.owner))
}

/// The owner of the file at `path`.
pub fn find_owner(knowledge: &Knowledge, rootfs: &Rootfs, path: &RootPath) -> FileOwner {
    // The directory takes precedence: pip also owns the copy in Triton's wheel, but only Triton uses it.
    let library = knowledge.library;
    bundle(knowledge.tables, path)
        .map(|bundle| FileOwner {
            kind: OwnerKind::Bundled,
            name: bundle.owner.clone(),
            version: None,
        })
        .or_else(|| deb(rootfs, path))
        .or_else(|| rpm(rootfs, path))
        .or_else(|| pip(library, rootfs, path))
        .or_else(|| conda(library, rootfs, path))
        .unwrap_or(FileOwner {
            kind: OwnerKind::Unknown,
            name: String::new(),
            version: None,
        })
}

/// The paths by which a package may list a file. One built before the usr-merge lists `/lib/…` for a file that is now in
/// `/usr/lib/…`.
fn listed_paths(path: &RootPath) -> Vec<Vec<u8>> {
    let mut paths = vec![path.absolute()];
    let before_usr_merge = path.as_bytes().strip_prefix(b"usr/");
    paths.extend(before_usr_merge.map(|rest| [b"/", rest].concat()));
    paths
}

/// The package whose list in `/var/lib/dpkg/info` contains the file, possibly by its path before the usr-merge.
fn deb(rootfs: &Rootfs, path: &RootPath) -> Option<FileOwner> {
    let directory = rootfs.lookup(b"/var/lib/dpkg/info").ok()?;
    let listed = listed_paths(path);
    rootfs
        .children(directory.node)
        .filter(|(name, _)| name.ends_with(b".list"))
        .find_map(|(name, _)| {
            let content = rootfs.content(&[b"/var/lib/dpkg/info/", name].concat())?;
            content
                .split(|&byte| byte == b'\n')
                .find(|line| listed.iter().any(|path| path == *line))?;
            let list = text(name.strip_suffix(b".list")?);
            // Multi-architecture packages have lists such as `libcupti12:amd64.list`.
            let name = list.split(':').next()?.to_owned();
            Some(FileOwner {
                kind: OwnerKind::Deb,
                version: installed_deb(rootfs, &name),
                name,
            })
        })
}

/// The name of the installed dpkg package that lists a file, which need not be there.
pub(crate) fn installed_deb_of(rootfs: &Rootfs, path: &RootPath) -> Option<String> {
    let owner = deb(rootfs, path)?;
    owner.version.map(|_| owner.name)
}

/// The package that contains the file according to rpm's database.
fn rpm(rootfs: &Rootfs, path: &RootPath) -> Option<FileOwner> {
    let listed = listed_paths(path);
    let package = installed_rpms(rootfs)?.find(|package| {
        let mut files = package.libraries.iter();
        files.any(|file| listed.iter().any(|path| path == file))
    })?;
    Some(FileOwner {
        kind: OwnerKind::Rpm,
        name: text(package.name),
        version: Some(text(package.version)),
    })
}

/// The version of an installed dpkg package. A package with only its configuration left is not installed.
pub(crate) fn installed_deb(rootfs: &Rootfs, name: &str) -> Option<String> {
    let status = text(rootfs.content(b"/var/lib/dpkg/status")?);
    let paragraph = status.split("\n\n").find(|paragraph| {
        let state = field(paragraph, "Status").unwrap_or("installed");
        field(paragraph, "Package") == Some(name) && state.split(' ').next_back() == Some("installed")
    })?;
    field(paragraph, "Version").map(str::to_owned)
}

/// The result of a lookup in a Python distribution's file list, the most reliable first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum RecordEntry {
    /// Listed, with the file's size.
    Same,
    /// The distribution has no list.
    NoList,
    /// Listed with another size: the file was replaced.
    Replaced,
    /// Not in the list.
    Unlisted,
}

/// Looks up a file in the `RECORD` at `list`.
fn record_entry(rootfs: &Rootfs, list: &RootPath, path: &RootPath) -> RecordEntry {
    let Some(record) = rootfs.content(&list.absolute()) else {
        return RecordEntry::NoList;
    };
    // An environment has hundreds of lists, and only one contains the file.
    if !contains_bytes(record, path.name()) {
        return RecordEntry::Unlisted;
    }
    let listed = listed_files(list, record);
    let Some(listed) = listed.iter().find(|listed| listed.path == *path) else {
        return RecordEntry::Unlisted;
    };
    match (listed.bytes, rootfs.file(&path.absolute()).map(|file| file.bytes)) {
        (Some(size), Some(bytes)) if size != bytes => RecordEntry::Replaced,
        _ => RecordEntry::Same,
    }
}

/// The Python distribution of a file: the one whose `RECORD` lists it, else one without `RECORD` whose directory
/// contains it.
fn pip(library: &LibraryProfile, rootfs: &Rootfs, path: &RootPath) -> Option<FileOwner> {
    let sites = site_folders(rootfs, path);
    let owners = sites
        .iter()
        .flat_map(|site| listing_owners(library, rootfs, site, path));
    owners.min_by_key(|(entry, _)| *entry).map(|(_, owner)| owner)
}

/// The folders whose distributions may list a file: the innermost one that contains it, because pip writes metadata
/// there, or those below a prefix above it. Wheels install their data into the prefix, as `../../lib/x.so` in `RECORD`.
fn site_folders(rootfs: &Rootfs, path: &RootPath) -> Vec<RootPath> {
    let above = std::iter::successors(parent_of(path), parent_of);
    let mut around = above.clone();
    if let Some(site) = around.find(|folder| SITES.iter().any(|site| folder.name() == site.as_bytes())) {
        return vec![site];
    }
    let mut sites = Vec::new();
    for library in above.flat_map(|prefix| ["lib", "lib64"].map(|name| prefix.join(name.as_bytes()))) {
        let Ok(found) = rootfs.lookup(&library.absolute()) else {
            continue;
        };
        for (python, _) in rootfs.children_with(found.node, b"python") {
            sites.extend(SITES.map(|site| library.join(python).join(site.as_bytes())));
        }
    }
    sites
}

fn parent_of(path: &RootPath) -> Option<RootPath> {
    if *path == RootPath::default() {
        return None;
    }
    Some(path.parent())
}

/// The names of folders with Python distributions.
const SITES: [&str; 2] = ["site-packages", "dist-packages"];

/// The distributions in a folder that may own a file, each with what its list says.
fn listing_owners(
    library: &LibraryProfile,
    rootfs: &Rootfs,
    site: &RootPath,
    path: &RootPath,
) -> Vec<(RecordEntry, FileOwner)> {
    let Ok(directory) = rootfs.lookup(&site.absolute()) else {
        return Vec::new();
    };
    let below = [site.as_bytes(), b"/"].concat();
    let inside = path.as_bytes().strip_prefix(&*below);
    let stems = inside.map_or_else(Vec::new, |inside| distribution_stems(library, inside));
    let file = rootfs.file(&path.absolute());
    let soname = file.and_then(|file| file.elf.as_ref()?.soname.as_deref());
    let infos = rootfs.children(directory.node).map(|(name, _)| name);
    let owners = infos.filter(|name| name.ends_with(b".dist-info")).filter_map(|name| {
        let folder = site.join(name);
        let entry = record_entry(rootfs, &folder.join(b"RECORD"), path);
        let mut stems = stems.iter();
        if entry == RecordEntry::Unlisted
            || entry == RecordEntry::NoList && !stems.any(|stem| escaped_name(name).starts_with(stem))
        {
            return None;
        }
        let metadata = text(rootfs.content(&folder.join(b"METADATA").absolute())?);
        let (name, version) = (field(&metadata, "Name")?.to_owned(), field(&metadata, "Version"));
        let version = version.map(str::to_owned);
        // The version of a framework that bundles the library is not the library's.
        let own = version.as_deref().filter(|_| is_package_of(library, &name));
        let is_other = own.is_some_and(|version| library.contradicts(version, soname));
        let owner = FileOwner {
            kind: OwnerKind::Pip,
            name,
            // A replaced file is not of the package's version.
            version: version.filter(|_| entry != RecordEntry::Replaced),
        };
        (!is_other).then_some((entry, owner))
    });
    owners.collect()
}

/// Whether a package is the library's own, so that both have the same version.
pub fn is_package_of(library: &LibraryProfile, name: &str) -> bool {
    normal_name(name).contains(&library.package_word)
}

/// The name of a `.dist-info` directory, with the distribution's name escaped as in wheels:
/// `nvidia_nccl_cu12-2.27.3.dist-info`.
fn escaped_name(folder: &[u8]) -> String {
    let folder = text(folder);
    // Old tools keep the hyphens of a name; versions have none.
    let (name, version) = folder.rsplit_once('-').unwrap_or((&folder, ""));
    format!("{}-{version}", normal_name(name).replace('-', "_"))
}

/// The name stems of the distributions that may contain a path below `site-packages`.
fn distribution_stems(library: &LibraryProfile, inside: &[u8]) -> Vec<String> {
    let first = inside.split(|&byte| byte == b'/').next().unwrap_or_default();
    // All NVIDIA wheels share this directory. Other distributions usually have a directory of their name.
    if first != b"nvidia" {
        return vec![escaped_name(&[first, b"-"].concat())];
    }
    let mut owners = library.wheels.owners.iter();
    let owner = owners.find(|owner| owner.path.is_empty() || contains_bytes(inside, owner.path.as_bytes()));
    owner.map(|owner| owner.begins.clone()).unwrap_or_default()
}

/// The conda package whose record lists the file, in the environment that contains the file.
fn conda(library: &LibraryProfile, rootfs: &Rootfs, path: &RootPath) -> Option<FileOwner> {
    // The package of the library, and those whose names continue its name.
    let begin = format!("{}-", library.conda.as_ref()?.name);
    let environment = conda_environment_of(rootfs, path)?;
    let inside = path.as_bytes().get(environment.as_bytes().len() + 1..)?;
    let quoted = [b"\"", inside, b"\""].concat();
    let mut records = conda_records(rootfs, &environment).into_iter();
    let owner = records.find(|record| {
        // The list of the package decides. Without a list, the package counts as the owner.
        let list = rootfs.content(&record.path.absolute());
        format!("{}-", record.name).starts_with(&begin) && list.is_none_or(|list| contains_bytes(list, &quoted))
    })?;
    Some(FileOwner {
        kind: OwnerKind::Conda,
        name: owner.name,
        version: Some(owner.version),
    })
}

fn field<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    text.lines()
        .find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))
        .map(str::trim)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
