//! Lists the objects with code for GPUs.

use std::collections::BTreeMap;
use std::sync::Arc;

use gpu_code::{ArchitectureSuffix, CodeForm, CodeKind, CodeSet, DeviceCode, GpuArchitecture, GpuCoverage};
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

    fn sets(&self) -> &[CodeSet] {
        self.code().map_or(&[], |code| &code.sets)
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
        self.sets().iter().map(|set| u64::from(set.containers)).sum()
    }

    /// The code by architecture.
    pub fn amounts(&self) -> GpuCodeAmounts {
        let mut amounts = GpuCodeAmounts::default();
        for amount in self.code().into_iter().flat_map(DeviceCode::amounts) {
            let list = match amount.kind.form {
                CodeForm::Cubin => &mut amounts.machine_code,
                CodeForm::Ptx => &mut amounts.ptx,
                CodeForm::Other(_) => continue,
            };
            let bytes = list.entry(amount.kind).or_default();
            *bytes = bytes.saturating_add(amount.bytes);
        }
        amounts
    }

    /// How many containers have code for a GPU, without those that only have code for a linker or compiler.
    pub fn coverage(&self, gpu: GpuArchitecture) -> GpuCoverage {
        let is_known = |set: &&CodeSet| {
            let mut amounts = set.amounts.iter();
            amounts.any(|amount| !matches!(amount.kind.form, CodeForm::Other(_)))
        };
        let known = DeviceCode {
            sets: self.sets().iter().filter(is_known).cloned().collect(),
            is_partial: false,
        };
        known.coverage(gpu)
    }
}

/// The architectures of machine code in one word and a list, such as `sm_80, 86, 90a`.
pub fn architecture_words<'k>(prefix: &str, kinds: impl Iterator<Item = &'k CodeKind>) -> Option<String> {
    let number = |kind: &CodeKind| {
        let name = kind.architecture.to_string();
        let suffix = match kind.suffix {
            ArchitectureSuffix::None => "",
            ArchitectureSuffix::Exact => "a",
            ArchitectureSuffix::Family => "f",
        };
        name.trim_start_matches("sm_").to_owned() + suffix
    };
    let numbers: Vec<String> = kinds.map(number).collect();
    (!numbers.is_empty()).then(|| format!("{prefix}{}", numbers.join(", ")))
}

/// The architectures for which `slim --gpu` made the image, in text that is safe to print; `None` for another image.
pub fn gpu_code_kept_for(image: &Image) -> Option<Vec<String>> {
    let label = image.config.settings.labels.get(SLIM_GPU_LABEL)?;
    let names = label.split(',').map(str::trim).filter(|name| !name.is_empty());
    Some(names.map(|name| escape_bytes(name.as_bytes())).collect())
}
