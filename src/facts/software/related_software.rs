//! Software around CUPTI: Python distributions, the CUDA runtime, and misleading library names.

use crate::byte_search::contains_bytes;
use crate::facts::objects::resolved_objects::elf_at;
use crate::facts::software::cached_packages::CachedPackages;
use crate::facts::software::cuda_runtime::{self, CudaRuntime};
use crate::facts::software::cupti_files::ScanCase;
use crate::facts::software::file_owner;
use crate::facts::software::package_files::IncompletePackage;
use crate::facts::software::replaced_files::ReplacedFiles;
use crate::facts::software::requirements::UnmetRequirement;
use crate::knowledge::{ConsumerProfile, Knowledge};
use image_linkage::elf::ByteString;
use image_linkage::layer::FileFacts;
use image_linkage::path::RootPath;
use image_linkage::rootfs::{NodeKind, Rootfs, RootfsNode};
use python_path::PythonDistribution;

/// Software around CUPTI, by path.
#[derive(Debug, Default)]
pub struct RelatedSoftware {
    /// The Python distributions, one per metadata directory.
    pub distributions: Vec<PythonDistribution>,
    /// The packages with missing files.
    pub incomplete: Vec<IncompletePackage>,
    /// The Python distributions whose libraries another one replaced.
    pub replaced: Vec<ReplacedFiles>,
    /// The requirements of Python distributions that their environments do not satisfy.
    pub unmet: Vec<UnmetRequirement>,
    /// The CUDA runtimes with a known version.
    pub runtimes: Vec<CudaRuntime>,
    /// The misleading names of CUPTI.
    pub misnamed: Vec<MisnamedLibrary>,
    /// The programs whose build flags show whether they include CUPTI.
    pub builds: Vec<ProgramBuild>,
    /// The packages in uv's cache that nothing uses; all other facts leave them out.
    pub unused_packages: CachedPackages,
}

/// How a known program was built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramBuild {
    /// The id of its profile.
    pub program: String,
    /// Its name.
    pub name: String,
    /// The object that contains the flags.
    pub object: RootPath,
    /// Whether it was built with CUPTI, linked or built in.
    pub has_library: bool,
}

impl RelatedSoftware {
    /// Adds one node of the file system.
    pub(crate) fn add_node(&mut self, case: &ScanCase<'_>, path: &RootPath, node: &RootfsNode) {
        let (rootfs, knowledge) = (case.rootfs, case.knowledge);
        // Precedes the check for files, because a link can have a misleading name too.
        self.misnamed.extend(check_library_name(rootfs, knowledge, path, node));
        let facts = match &node.kind {
            NodeKind::File(facts) => &**facts,
            // uv may link it into its cache.
            NodeKind::Symlink(_) if path.name() == b"METADATA" => match rootfs.file(&path.absolute()) {
                Some(facts) => facts,
                None => return,
            },
            _ => return,
        };
        self.builds.extend(build_of_file(case.profiles, path, facts));
        let distribution = python_path::read_distribution(path, facts, node.layer, case.machine);
        let names = &knowledge.tables.packages.toolkit.runtime;
        self.runtimes.extend(cuda_runtime::runtime_of_file(names, path, facts));
        if let Some(distribution) = distribution {
            self.runtimes
                .extend(cuda_runtime::runtime_of_distribution(names, &distribution));
            self.distributions.push(distribution);
        }
    }
}

/// The build of a known program, if this is its object and contains the flags.
fn build_of_file(profiles: &[ConsumerProfile], path: &RootPath, facts: &FileFacts) -> Option<ProgramBuild> {
    let elf = facts.elf.as_ref()?;
    let profile = profiles.iter().find(|profile| profile.fits(path))?;
    let has_library = profile.build.as_ref()?.has_library(|flag| {
        // Flags are longer than the strings that are stored whole.
        let mut texts = elf.mentions.iter().chain(&elf.fragments);
        texts.any(|text| contains_bytes(text, flag.as_bytes()))
    });
    Some(ProgramBuild {
        program: profile.id.clone(),
        name: profile.name.clone(),
        object: path.clone(),
        has_library: has_library?,
    })
}

/// A file or link that is named like a soname, but not like that of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MisnamedLibrary {
    /// The file or link.
    pub path: RootPath,
    /// Its layer, counted from 0 at the bottom.
    pub layer: usize,
    /// The soname of the file.
    pub soname: ByteString,
    /// The file that a link leads to; `None` for a file.
    pub target: Option<RootPath>,
}

/// Checks a node whose name is one of CUPTI. Private copies of tools are ignored.
pub(crate) fn check_library_name(
    rootfs: &Rootfs,
    knowledge: &Knowledge,
    path: &RootPath,
    node: &RootfsNode,
) -> Option<MisnamedLibrary> {
    let library = knowledge.library;
    if !library.is_name(path.name()) || file_owner::is_private_copy(knowledge.tables, path) {
        return None;
    }
    let target = rootfs.lookup(&path.absolute()).ok()?.path;
    let soname = elf_at(rootfs, path)?
        .soname
        .clone()
        // A soname of another library does not identify the release of CUPTI.
        .filter(|soname| library.is_name(soname))?;
    // No program asks for a name such as `libcupti.so.2024.1.1`, so only a name that is itself a soname misleads.
    let implied = library.soname_by_name(&knowledge.tables.releases, path.name())?;
    if implied.as_bytes() != path.name() || *soname == *path.name() {
        return None;
    }
    let is_link = matches!(node.kind, NodeKind::Symlink(_));
    Some(MisnamedLibrary {
        path: path.clone(),
        layer: node.layer,
        soname,
        target: is_link.then_some(target),
    })
}
