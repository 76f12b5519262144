//! What lies around CUPTI: Python's distributions, the CUDA runtime, and names that are not true.

use super::cuda::{self, Cudart};
use super::misnamed::{self, Misnamed};
use super::python::{self, Distribution};
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
        self.misnamed.extend(misnamed::of(rootfs, path, node));
        let NodeKind::File(facts) = &node.kind else {
            return;
        };
        let distribution = python::of(path, facts, node.layer);
        self.runtimes.extend(cuda::of_file(path, facts));
        if let Some(distribution) = distribution {
            self.runtimes.extend(cuda::of_distribution(&distribution));
            self.distributions.push(distribution);
        }
    }
}
