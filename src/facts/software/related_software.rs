//! What lies around CUPTI: Python's distributions, the CUDA runtime, and names that are not true.

use crate::byte_search::contains_bytes;
use crate::facts::objects::resolved_objects::elf_at;
use crate::facts::software::cuda_runtime::{self, CudaRuntime};
use crate::facts::software::file_owner;
use crate::facts::software::package_files::IncompletePackage;
use crate::facts::software::requirements::UnmetRequirement;
use crate::knowledge::{ConsumerProfile, Knowledge};
use image_linkage::elf::ByteString;
use image_linkage::layer::FileFacts;
use image_linkage::path::RootPath;
use image_linkage::rootfs::{NodeKind, Rootfs, RootfsNode};
use python_path::PythonDistribution;

/// What lies around CUPTI, by path.
#[derive(Debug, Default)]
pub struct RelatedSoftware {
    /// The distributions of Python, each by its own metadata.
    pub distributions: Vec<PythonDistribution>,
    /// The packages of which files are gone.
    pub incomplete: Vec<IncompletePackage>,
    /// What distributions of Python require and their environments do not have.
    pub unmet: Vec<UnmetRequirement>,
    /// The CUDA runtimes whose version is known.
    pub runtimes: Vec<CudaRuntime>,
    /// The names of CUPTI that are not true.
    pub misnamed: Vec<MisnamedLibrary>,
    /// The programs whose flags say whether they were built with CUPTI.
    pub builds: Vec<ProgramBuild>,
}

/// How a known program was built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramBuild {
    /// The id of its profile.
    pub program: String,
    /// Its name.
    pub name: String,
    /// The object that says it.
    pub object: RootPath,
    /// Whether it was built with CUPTI, linked or as a part of it.
    pub has_library: bool,
}

impl RelatedSoftware {
    /// Takes one node of the file system.
    pub(crate) fn add_node(
        &mut self,
        rootfs: &Rootfs,
        knowledge: &Knowledge,
        profiles: &[ConsumerProfile],
        path: &RootPath,
        node: &RootfsNode,
    ) {
        // Before files alone are looked at: a link can bear a wrong name as well.
        self.misnamed.extend(check_library_name(rootfs, knowledge, path, node));
        let NodeKind::File(facts) = &node.kind else {
            return;
        };
        self.builds.extend(build_of_file(profiles, path, facts));
        let distribution = python_path::read_distribution(path, facts, node.layer);
        let names = &knowledge.tables.packages.toolkit.runtime;
        self.runtimes.extend(cuda_runtime::runtime_of_file(names, path, facts));
        if let Some(distribution) = distribution {
            self.runtimes
                .extend(cuda_runtime::runtime_of_distribution(names, &distribution));
            self.distributions.push(distribution);
        }
    }
}

/// How a known program was built, where this is its object and says it.
fn build_of_file(profiles: &[ConsumerProfile], path: &RootPath, facts: &FileFacts) -> Option<ProgramBuild> {
    let elf = facts.elf.as_ref()?;
    let profile = profiles.iter().find(|profile| profile.fits(path))?;
    // Flags are longer than the strings that are kept whole.
    let texts = || elf.mentions.iter().chain(&elf.fragments);
    let holds = |flag: &str| texts().any(|text| contains_bytes(text, flag.as_bytes()));
    Some(ProgramBuild {
        program: profile.id.clone(),
        name: profile.name.clone(),
        object: path.clone(),
        has_library: profile.build.as_ref()?.has_library(holds)?,
    })
}

/// A name that is not true.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MisnamedLibrary {
    /// The file or link.
    pub path: RootPath,
    /// Its layer, counted from 0 at the bottom.
    pub layer: usize,
    /// The soname that its name stands for.
    pub says: ByteString,
    /// The soname of the file.
    pub soname: ByteString,
    /// The file that a link leads to; `None` for a file.
    pub target: Option<RootPath>,
}

/// The name of a node, if it is one of CUPTI and is not true. Copies that a tool brings for itself are left out.
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
        // The soname of another library says nothing of which CUPTI this is.
        .filter(|soname| library.is_name(soname))?;
    // `libcupti.so.2024.1.1` names a release of CUPTI and stands for the soname of its CUDA.
    let says = library.soname_by_name(&knowledge.tables.releases, path.name())?;
    let says = ByteString::from(says.into_bytes());
    if says == soname {
        return None;
    }
    let is_link = matches!(node.kind, NodeKind::Symlink(_));
    Some(MisnamedLibrary {
        path: path.clone(),
        layer: node.layer,
        says,
        soname,
        target: is_link.then_some(target),
    })
}
