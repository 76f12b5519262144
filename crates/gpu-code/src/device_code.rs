//! The code in all containers of an object, in a few numbers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::architecture::GpuArchitecture;
use crate::code_kind::{CodeForm, CodeKind};

/// The most different sets of kinds. Real libraries have up to 20.
const MOST_SETS: usize = 256;
/// The most kinds of one set.
const MOST_KINDS: usize = 64;

/// The code in the containers of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceCode {
    /// The containers, grouped by the kinds of their entries.
    pub sets: Vec<CodeSet>,
    /// Whether some containers could not be read, may only be linked at run time, or there were too many kinds.
    pub is_partial: bool,
}

/// The containers with entries of the same kinds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodeSet {
    /// The number of containers.
    pub containers: u32,
    /// The entries of these containers, by kind.
    pub amounts: Vec<CodeAmount>,
}

/// The entries of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodeAmount {
    /// Their kind.
    pub kind: CodeKind,
    /// Their number.
    pub entries: u32,
    /// The bytes of their headers and code in the file.
    pub bytes: u64,
}

/// How many containers have code for a GPU.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GpuCoverage {
    /// The containers with machine code for it.
    pub machine_code: u32,
    /// Those that only have PTX for it. The driver compiles that at first use.
    pub only_ptx: u32,
    /// Those that have neither. A kernel in them fails with "no kernel image is available".
    pub no_code: u32,
}

impl GpuCoverage {
    /// The number of containers.
    pub fn containers(self) -> u64 {
        u64::from(self.machine_code) + u64::from(self.only_ptx) + u64::from(self.no_code)
    }
}

impl DeviceCode {
    /// Adds a container.
    pub(crate) fn add(&mut self, entries: impl IntoIterator<Item = (CodeKind, u64)>) {
        let mut kinds: BTreeMap<CodeKind, CodeAmount> = BTreeMap::new();
        for (kind, bytes) in entries {
            if kinds.len() >= MOST_KINDS && !kinds.contains_key(&kind) {
                self.is_partial = true;
                continue;
            }
            let amount = kinds.entry(kind).or_insert(CodeAmount {
                kind,
                entries: 0,
                bytes: 0,
            });
            amount.entries += 1;
            amount.bytes += bytes;
        }
        if kinds.is_empty() {
            return;
        }
        let is_full = self.sets.len() >= MOST_SETS;
        let mut sets = self.sets.iter_mut();
        match sets.find(|set| set.amounts.iter().map(|amount| &amount.kind).eq(kinds.keys())) {
            Some(set) => {
                set.containers += 1;
                for (amount, more) in set.amounts.iter_mut().zip(kinds.values()) {
                    amount.entries = amount.entries.saturating_add(more.entries);
                    amount.bytes = amount.bytes.saturating_add(more.bytes);
                }
            }
            None if is_full => self.is_partial = true,
            None => self.sets.push(CodeSet {
                containers: 1,
                amounts: kinds.into_values().collect(),
            }),
        }
    }

    /// The entries of all containers, by kind.
    pub fn by_kind(&self) -> BTreeMap<CodeKind, CodeAmount> {
        let mut kinds: BTreeMap<CodeKind, CodeAmount> = BTreeMap::new();
        for amount in self.amounts() {
            let sum = kinds.entry(amount.kind).or_insert(CodeAmount {
                entries: 0,
                bytes: 0,
                ..*amount
            });
            sum.entries = sum.entries.saturating_add(amount.entries);
            sum.bytes = sum.bytes.saturating_add(amount.bytes);
        }
        kinds
    }

    /// The entries of all containers.
    pub fn amounts(&self) -> impl Iterator<Item = &CodeAmount> {
        self.sets.iter().flat_map(|set| &set.amounts)
    }

    /// The bytes of all entries.
    pub fn bytes(&self) -> u64 {
        let bytes = self.amounts().map(|amount| amount.bytes);
        bytes.fold(0, u64::saturating_add)
    }

    /// The containers with code for a GPU, and those without. Containers that only have other forms of code, such as
    /// for a linker, do not count.
    pub fn coverage(&self, gpu: GpuArchitecture) -> GpuCoverage {
        let mut coverage = GpuCoverage::default();
        for set in &self.sets {
            let mut kinds = set.amounts.iter().map(|amount| amount.kind);
            let [has_cubin, has_ptx] = [CodeForm::Cubin, CodeForm::Ptx]
                .map(|form| kinds.clone().any(|kind| kind.form == form && kind.runs_on(gpu)));
            let count = match (has_cubin, has_ptx) {
                (true, _) => &mut coverage.machine_code,
                (false, true) => &mut coverage.only_ptx,
                (false, false) if kinds.all(|kind| matches!(kind.form, CodeForm::Other(_))) => continue,
                (false, false) => &mut coverage.no_code,
            };
            *count = count.saturating_add(set.containers);
        }
        coverage
    }
}
