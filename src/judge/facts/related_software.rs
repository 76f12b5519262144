//! What lies around CUPTI: Python's distributions, the CUDA runtime, and names that are not true.

use super::cuda_runtime::{self, Cudart};
use super::misnamed_libraries::{self, Misnamed};
use super::python_distributions::{self, Distribution};
use image_linkage::path::RootPath;
use image_linkage::rootfs::{Node, NodeKind, Rootfs};

/// What lies around CUPTI, by path.
#[derive(Debug, Default)]
pub struct Surroundings {
    /// The Python distributions.
    pub distributions: Vec<Distribution>,
    /// The CUDA runtimes whose version is known.
    pub runtimes: Vec<Cudart>,
    /// The names of CUPTI that are not true.
    pub misnamed: Vec<Misnamed>,
}

impl Surroundings {
    /// Takes one node of the file system.
    pub(super) fn take(&mut self, rootfs: &Rootfs, path: &RootPath, node: &Node) {
        self.misnamed
            .extend(misnamed_libraries::of(rootfs, path, node));
        let NodeKind::File(facts) = &node.kind else {
            return;
        };
        let distribution = python_distributions::of(path, facts, node.layer);
        self.runtimes.extend(cuda_runtime::of_file(path, facts));
        if let Some(distribution) = distribution {
            self.runtimes
                .extend(cuda_runtime::of_distribution(&distribution));
            self.distributions.push(distribution);
        }
    }
}
