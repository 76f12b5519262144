//! Lists the objects with code for GPUs.

use std::collections::BTreeMap;
use std::sync::Arc;

use gpu_code::{CodeForm, CodeKind, DeviceCode, GpuArchitecture, GpuCoverage};
use image_linkage::escape::escape_bytes;
use image_linkage::layer::FileFacts;
use image_linkage::path::RootPath;
use image_linkage::rootfs::{NodeKind, RootfsNode};
use image_source::Image;

use super::file_references::SLIM_GPU_LABEL;

/// An object with code for GPUs.
#[derive(Debug, Clone)]
pub struct GpuCodeObject {
    /// Its path.
    pub path: RootPath,
    /// Its layer, counted from 0 at the bottom.
    pub layer: usize,
    facts: Arc<FileFacts>,
}

/// The bytes of code for each architecture.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GpuCodeAmounts {
    /// Machine code.
    pub machine_code: BTreeMap<CodeKind, u64>,
    /// PTX.
    pub ptx: BTreeMap<CodeKind, u64>,
}

impl GpuCodeObject {
    /// The object at a path; `None` for a file without code for GPUs.
    pub(crate) fn of_node(path: &RootPath, node: &RootfsNode) -> Option<Self> {
        let NodeKind::File(facts) = &node.kind else {
            return None;
        };
        facts.elf.as_ref()?.device_code.as_ref()?;
        Some(Self {
            path: path.clone(),
            layer: node.layer,
            facts: Arc::clone(facts),
        })
    }

    fn code(&self) -> Option<&DeviceCode> {
        self.facts.elf.as_ref()?.device_code.as_deref()
    }

    /// Whether a part of the code could not be read.
    pub fn is_partial(&self) -> bool {
        self.code().is_some_and(|code| code.is_partial)
    }

    /// The bytes of the code.
    pub fn bytes(&self) -> u64 {
        self.code().map_or(0, DeviceCode::bytes)
    }

    /// The number of containers.
    pub fn containers(&self) -> u64 {
        let sets = self.code().into_iter().flat_map(|code| &code.sets);
        sets.map(|set| u64::from(set.containers)).sum()
    }

    /// The code by architecture.
    pub fn amounts(&self) -> GpuCodeAmounts {
        let mut amounts = GpuCodeAmounts::default();
        let kinds = self.code().map(DeviceCode::by_kind).unwrap_or_default();
        for (kind, amount) in kinds {
            match kind.form {
                CodeForm::Cubin => _ = amounts.machine_code.insert(kind, amount.bytes),
                CodeForm::Ptx => _ = amounts.ptx.insert(kind, amount.bytes),
                CodeForm::Other(_) => {}
            }
        }
        amounts
    }

    /// How many containers have code for a GPU.
    pub fn coverage(&self, gpu: GpuArchitecture) -> GpuCoverage {
        self.code().map(|code| code.coverage(gpu)).unwrap_or_default()
    }
}

/// The architectures of machine code in one word and a list, such as `sm_80, 86, 90a`.
pub fn architecture_words<'k>(prefix: &str, kinds: impl Iterator<Item = &'k CodeKind>) -> Option<String> {
    let numbers: Vec<String> = kinds.map(|kind| kind.number()).collect();
    (!numbers.is_empty()).then(|| format!("{prefix}{}", numbers.join(", ")))
}

/// The architectures for which `slim --gpu` made the image, in text that is safe to print; `None` for another image.
pub fn gpu_code_kept_for(image: &Image) -> Option<Vec<String>> {
    let label = image.config.settings.labels.get(SLIM_GPU_LABEL)?;
    let names = label.split(',').map(str::trim).filter(|name| !name.is_empty());
    Some(names.map(|name| escape_bytes(name.as_bytes())).collect())
}
