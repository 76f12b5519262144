//! The system in an image, as far as it affects installation: distribution, package managers, repositories, Python.

use std::collections::BTreeMap;

use serde::Serialize;

use super::conda_environment::{CondaEnvironment, find_conda_environment};
use super::programs::{find_on_path, has_program, missing_tools};
use crate::facts::ImageFacts;
use crate::make::quote;
use image_linkage::path::RootPath;
use image_linkage::rootfs::Rootfs;

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
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
    pub dnf: Option<SystemInstaller>,
    pub apt: bool,
    /// Whether a `RUN` can execute the generated commands.
    pub shell: bool,
    /// The missing shell or tools, in words.
    pub lacks: String,
    /// The Python that `python3` starts in a container.
    #[serde(serialize_with = "quote::serialize_optional_path")]
    pub python: Option<RootPath>,
    /// The folders of system programs that the image's `PATH` lacks, in its form. A `RUN` needs their programs.
    pub missing_path: String,
    /// Whether the image has a loader cache and ldconfig.
    pub has_cache: bool,
    /// Whether the image has CA certificates, which apt needs for https.
    pub certificates: bool,
    /// The apt source files by path, with their contents.
    #[serde(skip)]
    pub sources: BTreeMap<RootPath, String>,
    /// The file that configures NVIDIA's repository.
    #[serde(skip)]
    pub nvidia: Option<RootPath>,
    #[serde(skip)]
    pub conda: Option<CondaEnvironment>,
}

/// A program that installs packages of a Linux distribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum SystemInstaller {
    AptGet,
    Dnf,
    Microdnf,
    Yum,
}

impl SystemInstaller {
    pub(crate) fn program(self) -> &'static str {
        match self {
            Self::AptGet => "apt-get",
            Self::Dnf => "dnf",
            Self::Microdnf => "microdnf",
            Self::Yum => "yum",
        }
    }
}

/// A Python environment into which wheels can be installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PipTarget {
    pub site: RootPath,
    /// The path of uv, if the environment has no pip.
    pub uv: Option<RootPath>,
    /// Its interpreter, by the path inside the environment.
    pub interpreter: RootPath,
    /// Whether the distribution forbids pip to install into it (PEP 668).
    pub is_managed: bool,
}

/// The programs that install RPM packages, in order of preference.
const DNF: [SystemInstaller; 3] = [SystemInstaller::Dnf, SystemInstaller::Microdnf, SystemInstaller::Yum];

pub(crate) fn read_image_system(facts: &ImageFacts) -> ImageSystem {
    let rootfs = &facts.contexts.as_is.rootfs;
    let release = rootfs.content(b"/etc/os-release").unwrap_or_default();
    let release = String::from_utf8_lossy(release);
    let value = |key: &str| {
        let mut lines = release.lines().map(str::trim);
        let line = lines.find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        line.unwrap_or_default()
            // os-release(5): values may be in shell quotes.
            .trim_matches(['"', '\''])
            .to_owned()
    };
    let sources = sources(rootfs);
    let lacks = missing_tools(rootfs);
    ImageSystem {
        id: value("ID"),
        version: value("VERSION_ID"),
        dnf: DNF.into_iter().find(|manager| has_program(rootfs, manager.program())),
        apt: has_program(rootfs, SystemInstaller::AptGet.program()),
        shell: lacks.is_empty(),
        lacks,
        python: find_on_path(facts, "python3"),
        missing_path: missing_path(facts),
        has_cache: has_program(rootfs, "ldconfig") && rootfs.lookup(b"/etc/ld.so.cache").is_ok(),
        // The path of the bundle of update-ca-certificates(8) on Debian and Ubuntu.
        certificates: rootfs.lookup(b"/etc/ssl/certs/ca-certificates.crt").is_ok(),
        nvidia: nvidia(rootfs, &sources),
        sources,
        conda: find_conda_environment(facts),
    }
}

/// The folders whose programs a `RUN` calls, itself or by dpkg, and does not find on the image's `PATH`.
fn missing_path(facts: &ImageFacts) -> String {
    // Docker's default PATH contains all of them.
    let Some(path) = facts.image.config.env("PATH") else {
        return String::new();
    };
    // In most images /sbin is a link to /usr/sbin.
    let real = |folder: &str| {
        let found = facts.contexts.as_is.rootfs.lookup(folder.as_bytes());
        found.map_or_else(|_| RootPath::from(folder), |found| found.path)
    };
    let mut has: Vec<RootPath> = path
        .split(':')
        .filter(|folder| folder.starts_with('/'))
        .map(real)
        .collect();
    let mut missing = Vec::new();
    for folder in ["/usr/sbin", "/usr/bin", "/sbin", "/bin"] {
        let real = real(folder);
        if !has.contains(&real) {
            has.push(real);
            missing.push(folder);
        }
    }
    missing.join(":")
}

/// The children of a folder, by path.
fn children(rootfs: &Rootfs, folder: &str) -> Vec<RootPath> {
    let found = rootfs.lookup(folder.as_bytes()).ok();
    let names = found.iter().flat_map(|found| rootfs.children(found.node));
    names.map(|(name, _)| RootPath::from(folder).join(name)).collect()
}

fn sources(rootfs: &Rootfs) -> BTreeMap<RootPath, String> {
    let mut paths = children(rootfs, "/etc/apt/sources.list.d");
    paths.retain(|path| path.name().ends_with(b".list") || path.name().ends_with(b".sources"));
    paths.push(RootPath::from("etc/apt/sources.list"));
    let read = |path: RootPath| {
        let text = rootfs.content(&path.absolute())?;
        Some((path, String::from_utf8_lossy(text).into_owned()))
    };
    paths.into_iter().filter_map(read).collect()
}

/// The file that configures NVIDIA's repository, found by its name or by a CUDA repository in it.
fn nvidia(rootfs: &Rootfs, sources: &BTreeMap<RootPath, String>) -> Option<RootPath> {
    // NVIDIA's images and its keyring package name the file after CUDA. A user's file can have any name, but contains
    // the address.
    let names = |path: &RootPath| path.name().starts_with(b"cuda");
    let of_apt = sources
        .iter()
        .find(|(path, text)| names(path) || text.contains("/compute/cuda/repos/"));
    let of_dnf = || children(rootfs, "/etc/yum.repos.d").into_iter().find(names);
    of_apt.map(|(path, _)| path.clone()).or_else(of_dnf)
}

/// The Python environment of a package folder; `None` if neither its pip nor the image's uv installs into that folder.
pub(crate) fn find_pip_target(facts: &ImageFacts, site: &RootPath) -> Option<PipTarget> {
    let rootfs = &facts.contexts.as_is.rootfs;
    let is_there = |path: &RootPath| rootfs.lookup(&path.absolute()).is_ok();
    // …/lib/python3.11/site-packages
    let library = site.parent();
    let prefix = library.parent().parent();
    // The most specific first: `python3` of a prefix may be another minor version than the folder's.
    let names = [library.name(), b"python3", b"python"];
    let mut programs = names.iter().map(|name| prefix.join(b"bin").join(name));
    // The system's Python installs into another folder than this one.
    let is_system = prefix == RootPath::from("usr");
    match programs.find(|path| is_there(path)).filter(|_| !is_system) {
        Some(interpreter) => {
            let has_pip = is_there(&site.join(b"pip"));
            let uv = find_on_path(facts, "uv").filter(|_| !has_pip);
            (has_pip || uv.is_some()).then(|| PipTarget {
                site: site.clone(),
                uv,
                interpreter,
                is_managed: is_there(&library.join(b"EXTERNALLY-MANAGED")),
            })
        }
        None if site.name() == b"dist-packages" => of_debian(rootfs),
        None => None,
    }
}

/// The Python of Debian and Ubuntu, whose pip installs below `/usr/local` (Debian Python Policy, 2.5).
fn of_debian(rootfs: &Rootfs) -> Option<PipTarget> {
    let is_there = |path: &RootPath| rootfs.lookup(&path.absolute()).is_ok();
    is_there(&RootPath::from("usr/lib/python3/dist-packages/pip")).then_some(())?;
    let program = RootPath::from("usr/bin/python3");
    // `python3` is a link to the versioned program, whose name contains the minor version.
    let version = rootfs.lookup(&program.absolute()).ok()?.path;
    let library = |above: &str| RootPath::from(above).join(version.name());
    Some(PipTarget {
        site: library("usr/local/lib").join(b"dist-packages"),
        uv: None,
        interpreter: program,
        is_managed: is_there(&library("usr/lib").join(b"EXTERNALLY-MANAGED")),
    })
}
