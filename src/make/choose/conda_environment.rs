//! The conda environment to install into, and the CUDA version of its packages.

use super::programs::find_on_path;
use super::wanted_cupti::neediest_consumer;
use crate::facts::ImageFacts;
use crate::facts::software::conda_records::{conda_environment_of, conda_records, is_conda_environment};
use crate::facts::software::cuda_runtime::{CudaVersion, parse_cuda_version};
use image_linkage::path::RootPath;

/// A conda environment, and the program that installs into it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CondaEnvironment {
    pub program: RootPath,
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
pub(crate) fn find_conda_environment(facts: &ImageFacts) -> Option<CondaEnvironment> {
    let rootfs = &facts.contexts.as_is.rootfs;
    let homes = HOMES.iter().map(|home| RootPath::from(*home));
    let installed = homes
        .filter(|home| is_conda_environment(rootfs, home))
        .find_map(|home| {
            let mut programs = PROGRAMS.iter().map(|name| home.join(b"bin").join(name.as_bytes()));
            Some((programs.find(|path| rootfs.lookup(&path.absolute()).is_ok())?, home))
        });
    let of_consumer = consumer_environment(facts);
    let (program, home) = installed.unzip();
    Some(CondaEnvironment {
        // micromamba is a single file outside its environments.
        program: program.or_else(|| PROGRAMS.iter().find_map(|name| find_on_path(facts, name)))?,
        prefix: of_consumer.or(home)?,
    })
}

/// The CUDA version of the environment whose program requests CUPTI, from the package that pins all others.
pub(crate) fn conda_cuda(facts: &ImageFacts) -> Option<(CudaVersion, String)> {
    let package = &facts.tables.packages.toolkit.runtime.conda;
    let prefix = consumer_environment(facts)?;
    let rootfs = &facts.contexts.as_is.rootfs;
    conda_records(rootfs, &prefix).into_iter().find_map(|record| {
        let cuda = parse_cuda_version(&record.version).filter(|_| record.name == *package)?;
        Some((cuda, format!("{package} of {prefix} is {}", record.version)))
    })
}

fn consumer_environment(facts: &ImageFacts) -> Option<RootPath> {
    let object = &neediest_consumer(facts)?.object;
    conda_environment_of(&facts.contexts.as_is.rootfs, object)
}
