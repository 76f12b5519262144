//! The package folder of a Python, and the program that installs wheels into it.

use super::programs::find_on_path;
use crate::facts::ImageFacts;
use crate::knowledge::version_numbers;
use image_linkage::path::RootPath;
use image_linkage::rootfs::Rootfs;
use python_path::PythonInterpreter;

/// The first pip with the option `--python` (pip's documentation, "Managing a different Python interpreter").
const PIP_FOR_OTHERS: [u32; 2] = [22, 3];
/// Lends uv to a `RUN`, and its place there (uv's documentation, "Using uv in Docker").
const UV_MOUNT: (&str, &str) = ("--mount=from=ghcr.io/astral-sh/uv,source=/uv,target=/bin/uv", "bin/uv");

/// A folder into which wheels can be installed, and the program that does it: the image's uv, the environment's pip,
/// another pip of the image, or uv from its public image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PipTarget {
    pub site: RootPath,
    /// The folder's Python. In an environment, its path inside the environment.
    pub interpreter: RootPath,
    pub uv: Option<RootPath>,
    /// The option of `RUN` that lends that uv, if the image has no installer.
    pub mount: Option<&'static str>,
    /// The Python that runs pip, if it is another one.
    pub other_pip: Option<RootPath>,
    /// The base of a folder made by `pip install --user`.
    pub user_base: Option<RootPath>,
    /// Whether the Python's own installer would use another folder, as for one made by `pip install --target`.
    pub is_apart: bool,
    /// Whether the distribution forbids pip to install into it (PEP 668).
    pub is_managed: bool,
}

/// The Python of a package folder, with the best installer; `None` if no Python searches the folder.
pub(crate) fn find_pip_target(facts: &ImageFacts, site: &RootPath) -> Option<PipTarget> {
    let rootfs = &facts.contexts.as_is.rootfs;
    let mut target = in_prefix(rootfs, site)
        .or_else(|| of_debian(rootfs, site))
        .or_else(|| on_search_path(facts, site))?;
    target.uv = find_on_path(facts, "uv");
    if target.uv.is_some() || has_pip(facts, &target) {
        return Some(target);
    }
    target.other_pip = find_other_pip(facts);
    if target.other_pip.is_none() {
        let (mount, uv) = UV_MOUNT;
        target.mount = Some(mount);
        target.uv = Some(RootPath::from(uv));
    }
    Some(target)
}

/// The commands of a fix, and its instructions: with a mount, all of them work only in a Dockerfile.
pub(crate) fn split_mounted(lines: Vec<String>) -> (Vec<String>, Vec<String>) {
    if lines.iter().any(|line| line.starts_with("--mount=")) {
        (Vec::new(), lines.iter().map(|line| format!("RUN {line}")).collect())
    } else {
        (lines, Vec::new())
    }
}

fn target(rootfs: &Rootfs, site: RootPath, interpreter: RootPath, library: &RootPath) -> PipTarget {
    PipTarget {
        site,
        interpreter,
        uv: None,
        mount: None,
        other_pip: None,
        user_base: None,
        is_apart: false,
        is_managed: is_there(rootfs, &library.join(b"EXTERNALLY-MANAGED")),
    }
}

/// A Python beside the folder: `bin/python3` and `lib/python3.11/site-packages`.
fn in_prefix(rootfs: &Rootfs, site: &RootPath) -> Option<PipTarget> {
    let library = site.parent();
    let prefix = library.parent().parent();
    // The system's Python installs into another folder than this one.
    if prefix == RootPath::from("usr") || !library.name().starts_with(b"python") {
        return None;
    }
    // The most specific first: `python3` of a prefix may be another minor version than the folder's.
    let names = [library.name(), b"python3", b"python"];
    let mut programs = names.iter().map(|name| prefix.join(b"bin").join(name));
    let interpreter = programs.find(|path| is_there(rootfs, path))?;
    Some(target(rootfs, site.clone(), interpreter, &library))
}

/// The Python of Debian and Ubuntu, which installs below `/usr/local` (Debian Python Policy, 2.5).
fn of_debian(rootfs: &Rootfs, site: &RootPath) -> Option<PipTarget> {
    let interpreter = RootPath::from("usr/bin/python3");
    if site.name() != b"dist-packages" {
        return None;
    }
    // `python3` is a link to the versioned program, whose name contains the minor version.
    let version = rootfs.lookup(&interpreter.absolute()).ok()?.path;
    let [local, own] = ["usr/local/lib", "usr/lib"].map(|folder| RootPath::from(folder).join(version.name()));
    Some(target(rootfs, local.join(b"dist-packages"), interpreter, &own))
}

/// A Python elsewhere that searches the folder, as of `pip install --user` and `--target`.
fn on_search_path(facts: &ImageFacts, site: &RootPath) -> Option<PipTarget> {
    let rootfs = &facts.contexts.as_is.rootfs;
    let interpreter = interpreters(facts).find(|python| searches(python, site))?;
    let prefix = interpreter.program.parent().parent();
    let library = prefix.join(format!("lib/python{}", interpreter.version).as_bytes());
    let base = site.parent().parent().parent();
    let is_users = base.name() == b".local" && site.name() == b"site-packages";
    Some(PipTarget {
        is_apart: !is_users,
        user_base: is_users.then_some(base),
        ..target(rootfs, site.clone(), interpreter.path.clone(), &library)
    })
}

fn has_pip(facts: &ImageFacts, target: &PipTarget) -> bool {
    let mut pythons = interpreters(facts).filter(|python| searches(python, &target.site));
    is_there(&facts.contexts.as_is.rootfs, &target.site.join(b"pip"))
        || pythons.any(|python| pip_version(facts, python).is_some())
}

/// A Python whose pip can install for another one.
fn find_other_pip(facts: &ImageFacts) -> Option<RootPath> {
    let python = interpreters(facts).find(|python| {
        pip_version(facts, python).is_some_and(|version| version_numbers(version) >= PIP_FOR_OTHERS.to_vec())
    })?;
    Some(python.path.clone())
}

fn pip_version<'f>(facts: &'f ImageFacts, python: &PythonInterpreter) -> Option<&'f str> {
    facts.contexts.as_is.python.version(python, |name| name == "pip")
}

fn interpreters(facts: &ImageFacts) -> impl Iterator<Item = &PythonInterpreter> {
    facts.contexts.as_is.python.interpreters().iter()
}

fn searches(python: &PythonInterpreter, site: &RootPath) -> bool {
    python.search_path.iter().any(|folder| folder.real_path == *site)
}

fn is_there(rootfs: &Rootfs, path: &RootPath) -> bool {
    rootfs.lookup(&path.absolute()).is_ok()
}
