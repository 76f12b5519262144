//! The system in an image, as far as it affects installation: distribution, package managers, repositories, Python.

use std::collections::{BTreeMap, BTreeSet};

use super::conda_environment::{CondaEnvironment, find_conda_environment};
use super::programs::{find_on_path, has_program, missing_tools};
use crate::facts::ImageFacts;
use image_linkage::loader::folders_of_cache;
use image_linkage::path::RootPath;
use image_linkage::rootfs::Rootfs;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is something that a system has or has not"
)]
pub(crate) struct ImageSystem {
    /// `ID` of `/etc/os-release`; empty if missing.
    pub id: String,
    /// `VERSION_ID`; empty if missing.
    pub version: String,
    /// The program that installs RPM packages.
    pub rpm_installer: Option<SystemInstaller>,
    pub apt: bool,
    /// Whether a `RUN` can execute the generated commands.
    pub shell: bool,
    /// The missing shell or tools, in words.
    pub lacks: String,
    /// The Python that `python3` starts in a container.
    pub python: Option<RootPath>,
    /// The folders of system programs that the image's `PATH` lacks, in its form. A `RUN` needs their programs.
    pub missing_path: String,
    /// Whether the image has a loader cache and ldconfig.
    pub has_cache: bool,
    /// The folders that only the loader's cache knows. ldconfig would drop them without their names.
    pub cache_folders: Vec<RootPath>,
    /// Whether the image has CA certificates, which apt needs for https.
    pub certificates: bool,
    /// The apt source files by path, with their contents.
    pub sources: BTreeMap<RootPath, String>,
    /// Whether NVIDIA's repository is set up.
    pub has_nvidia: bool,
    pub conda: Option<CondaEnvironment>,
}

/// A program that installs packages of a Linux distribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SystemInstaller {
    AptGet,
    Dnf,
    Dnf5,
    Microdnf,
    Tdnf,
    Yum,
    Zypper,
}

impl SystemInstaller {
    pub(crate) fn program(self) -> &'static str {
        match self {
            Self::AptGet => "apt-get",
            Self::Dnf => "dnf",
            Self::Dnf5 => "dnf5",
            Self::Microdnf => "microdnf",
            Self::Tdnf => "tdnf",
            Self::Yum => "yum",
            Self::Zypper => "zypper",
        }
    }
}

/// The programs that install RPM packages, in order of preference.
pub(super) const RPM_INSTALLERS: [SystemInstaller; 6] = [
    SystemInstaller::Dnf,
    SystemInstaller::Dnf5,
    SystemInstaller::Microdnf,
    SystemInstaller::Tdnf,
    SystemInstaller::Yum,
    SystemInstaller::Zypper,
];

/// The folders of dnf and yum (dnf.conf(5), `reposdir`), and of zypper.
const YUM_FOLDERS: [&str; 4] = [
    "/etc/yum.repos.d",
    "/etc/yum/repos.d",
    "/etc/distro.repos.d",
    "/etc/zypp/repos.d",
];
/// The beginnings of lines with an address (sources.list(5), dnf.conf(5)).
const ADDRESSES: [&str; 5] = ["deb ", "URIs:", "baseurl", "mirrorlist", "metalink"];
/// The lines that switch a source off, without blanks.
const DISABLED: [&str; 4] = ["enabled=0", "enabled=false", "enabled=False", "Enabled:no"];

pub(crate) fn read_image_system(facts: &ImageFacts) -> ImageSystem {
    let rootfs = &facts.contexts.as_is.rootfs;
    let release = String::from_utf8_lossy(rootfs.content(b"/etc/os-release").unwrap_or_default());
    let [id, version] = ["ID", "VERSION_ID"].map(|key| {
        let mut lines = release.lines().map(str::trim);
        let line = lines.find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        // os-release(5): values may be in shell quotes.
        line.unwrap_or_default().trim_matches(['"', '\'']).to_owned()
    });
    let sources = read_sources(rootfs, &["/etc/apt/sources.list.d", "/etc/apt"], &[".list", ".sources"]);
    let repositories = read_sources(rootfs, &YUM_FOLDERS, &[".repo"]);
    let mut all = sources.iter().chain(&repositories);
    let lacks = missing_tools(rootfs);
    let loader = facts.contexts.as_is.linker.iter();
    let cached = loader.flat_map(|loader| folders_of_cache(rootfs, loader));
    ImageSystem {
        id,
        version,
        rpm_installer: RPM_INSTALLERS
            .into_iter()
            .find(|installer| has_program(rootfs, installer.program())),
        apt: has_program(rootfs, SystemInstaller::AptGet.program()),
        shell: lacks.is_empty(),
        lacks,
        python: find_on_path(facts, "python3"),
        missing_path: missing_path(facts),
        has_cache: has_program(rootfs, "ldconfig") && rootfs.lookup(b"/etc/ld.so.cache").is_ok(),
        cache_folders: cached.map(|folder| RootPath::new(&folder)).collect(),
        // The path of the bundle of update-ca-certificates(8) on Debian and Ubuntu.
        certificates: rootfs.lookup(b"/etc/ssl/certs/ca-certificates.crt").is_ok(),
        has_nvidia: all.any(|(path, text)| has_nvidia_source(path, text)),
        sources,
        conda: find_conda_environment(facts),
    }
}

/// The folder behind a link: in most images, /sbin leads to /usr/sbin.
fn resolved(facts: &ImageFacts, folder: &str) -> RootPath {
    let found = facts.contexts.as_is.rootfs.lookup(folder.as_bytes());
    found.map_or_else(|_| RootPath::from(folder), |found| found.path)
}

/// The folders whose programs a `RUN` calls, itself or by dpkg, and does not find on the image's `PATH`.
fn missing_path(facts: &ImageFacts) -> String {
    // Docker's default PATH contains all of them.
    let Some(path) = facts.image.config.env("PATH") else {
        return String::new();
    };
    let mut missing = vec!["/usr/sbin", "/usr/bin", "/sbin", "/bin"];
    let mut known = BTreeSet::new();
    for folder in path.split(':').filter(|folder| folder.starts_with('/')) {
        known.insert(resolved(facts, folder));
    }
    missing.retain(|folder| known.insert(resolved(facts, folder)));
    missing.join(":")
}

/// The children of a folder, by path.
fn children(rootfs: &Rootfs, folder: &str) -> Vec<RootPath> {
    let found = rootfs.lookup(folder.as_bytes()).ok();
    let names = found.iter().flat_map(|found| rootfs.children(found.node));
    names.map(|(name, _)| RootPath::from(folder).join(name)).collect()
}

/// The files of package sources in these folders by path, with their contents.
fn read_sources(rootfs: &Rootfs, folders: &[&str], endings: &[&str]) -> BTreeMap<RootPath, String> {
    let mut sources = BTreeMap::new();
    for path in folders.iter().flat_map(|folder| children(rootfs, folder)) {
        if endings.iter().any(|ending| path.name().ends_with(ending.as_bytes()))
            && let Some(text) = rootfs.content(&path.absolute())
        {
            sources.insert(path, String::from_utf8_lossy(text).into_owned());
        }
    }
    sources
}

/// Whether a file of package sources has an enabled one of NVIDIA's repository, or of a mirror.
fn has_nvidia_source(path: &RootPath, text: &str) -> bool {
    // NVIDIA's images and packages name the file after CUDA; other files have the word in the address or the name.
    let is_named = path.name().starts_with(b"cuda");
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.starts_with('#'))
        .collect();
    // A line of sources.list(5), a paragraph of its other format, or a section of dnf.conf(5).
    let mut found =
        lines.chunk_by(|line, next| !(line.starts_with("deb ") || line.is_empty() || next.starts_with('[')));
    found.any(|source| {
        let mut addresses = source
            .iter()
            .filter(|line| ADDRESSES.iter().any(|key| line.starts_with(key)));
        let is_off = source.iter().any(|line| DISABLED.contains(&&*line.replace(' ', "")));
        addresses.next().is_some() && !is_off && (is_named || source.iter().any(|line| line.contains("cuda")))
    })
}
