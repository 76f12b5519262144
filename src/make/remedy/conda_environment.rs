//! The conda environment to install into, and the CUDA version of its packages.

use serde::Serialize;

use super::programs::find_on_path;
use super::wanted_cupti::neediest_consumer;
use crate::facts::ImageFacts;
use crate::facts::software::cuda_runtime::{CudaVersion, parse_cuda_version};
use crate::make::quote;
use image_linkage::path::RootPath;
use image_linkage::rootfs::Rootfs;

/// A conda environment, and the program that installs into it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct CondaEnvironment {
    #[serde(serialize_with = "quote::serialize_path")]
    pub program: RootPath,
    #[serde(serialize_with = "quote::serialize_path")]
    pub prefix: RootPath,
}

/// The programs that accept conda's arguments.
const PROGRAMS: [&str; 3] = ["conda", "mamba", "micromamba"];

/// The default prefixes of the installers for root, and those of conda's images.
const HOMES: [&str; 5] = [
    "opt/conda",
    "opt/miniconda3",
    "opt/miniforge3",
    "root/miniconda3",
    "usr/local",
];

/// The environment of the program that requests CUPTI, otherwise conda's own.
pub(super) fn find_conda_environment(facts: &ImageFacts) -> Option<CondaEnvironment> {
    let rootfs = &facts.contexts.as_is.rootfs;
    let is_there = |path: &RootPath| rootfs.lookup(&path.absolute()).is_ok();
    let homes = HOMES.iter().map(|home| RootPath::from(*home));
    let home = homes.filter(|home| has_packages(rootfs, home)).find_map(|home| {
        let mut programs = PROGRAMS.iter().map(|name| home.join(b"bin").join(name.as_bytes()));
        Some((programs.find(is_there)?, home))
    });
    let asks = environment_that_asks(facts);
    // micromamba is a single file outside its environments.
    let outside = || PROGRAMS.iter().find_map(|name| find_on_path(facts, name));
    let (program, home) = home.unzip();
    Some(CondaEnvironment {
        program: program.or_else(outside)?,
        prefix: asks.or(home)?,
    })
}

/// The CUDA version of the environment whose program requests CUPTI, from the package that pins all others.
pub(super) fn conda_cuda(facts: &ImageFacts) -> Option<(CudaVersion, String)> {
    let package = &facts.tables.packages.toolkit.runtime.conda;
    let prefix = environment_that_asks(facts)?;
    let rootfs = &facts.contexts.as_is.rootfs;
    let records = rootfs.lookup(&prefix.join(b"conda-meta").absolute()).ok()?;
    rootfs.children(records.node).find_map(|(name, _)| {
        // In `cuda-version-12.6-h7480c83_3.json` the last two hyphens are separators; the name contains a hyphen
        // itself.
        let mut parts = std::str::from_utf8(name).ok()?.rsplitn(3, '-').skip(1);
        let version = parts.next()?;
        let cuda = parse_cuda_version(version).filter(|_| parts.next() == Some(package))?;
        Some((cuda, format!("{package} of {prefix} is {version}")))
    })
}

fn environment_that_asks(facts: &ImageFacts) -> Option<RootPath> {
    let object = &neediest_consumer(facts)?.object;
    let rootfs = &facts.contexts.as_is.rootfs;
    let folders = std::iter::successors(Some(object.parent()), |folder| Some(folder.parent()));
    let mut folders = folders.take_while(|folder| *folder != RootPath::default());
    folders.find(|folder| has_packages(rootfs, folder))
}

/// Whether a folder is an environment: conda records its packages there.
fn has_packages(rootfs: &Rootfs, folder: &RootPath) -> bool {
    rootfs.lookup(&folder.join(b"conda-meta").absolute()).is_ok()
}
