//! What lies around CUPTI: Python's distributions, the CUDA runtime, and names that are not true.

use super::cuda_runtime::{self, CudaRuntime};
use super::misnamed_libraries::{self, MisnamedLibrary};
use crate::knowledge::Knowledge;
use image_linkage::path::RootPath;
use image_linkage::rootfs::{NodeKind, Rootfs, RootfsNode};
use python_path::{self, PythonDistribution};

/// What lies around CUPTI, by path.
#[derive(Debug, Default)]
pub struct RelatedSoftware {
    /// The distributions of Python, each by its own metadata.
    pub distributions: Vec<PythonDistribution>,
    /// The CUDA runtimes whose version is known.
    pub runtimes: Vec<CudaRuntime>,
    /// The names of CUPTI that are not true.
    pub misnamed: Vec<MisnamedLibrary>,
}

impl RelatedSoftware {
    /// Takes one node of the file system.
    pub(super) fn add_node(&mut self, rootfs: &Rootfs, knowledge: &Knowledge, path: &RootPath, node: &RootfsNode) {
        // Before files alone are looked at: a link can bear a wrong name as well.
        self.misnamed
            .extend(misnamed_libraries::check_library_name(rootfs, knowledge, path, node));
        let NodeKind::File(facts) = &node.kind else {
            return;
        };
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
