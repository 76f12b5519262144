//! Which entries of a container stay.

use crate::architecture::GpuArchitecture;
use crate::code_kind::{ArchitectureSuffix, CodeForm};
use crate::container::CodeEntry;
use crate::object_file::{Checked, require};

/// Whether PTX stays that the GPUs do not need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeptPtx {
    /// Only PTX that a driver may prefer, or needs.
    Needed,
    /// All, for newer GPUs.
    All,
}

/// The GPUs that an object is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PruneTarget {
    gpus: Vec<GpuArchitecture>,
    ptx: KeptPtx,
}

/// The code that a container has for one GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CodeFit {
    None,
    Ptx,
    Cubin,
}

impl PruneTarget {
    /// A target.
    ///
    /// Errors: No GPU, or a Tegra, for which no rule of compatibility is documented.
    pub fn new(gpus: Vec<GpuArchitecture>, ptx: KeptPtx) -> Result<Self, &'static str> {
        match gpus.as_slice() {
            [] => Err("no GPU is named"),
            gpus if gpus.iter().any(|gpu| gpu.is_tegra()) => Err("GPUs of Tegra are not supported"),
            _ => Ok(Self { gpus, ptx }),
        }
    }

    /// The GPUs.
    pub fn gpus(&self) -> &[GpuArchitecture] {
        &self.gpus
    }

    /// Whether an entry stays, for each entry of a container in order. `is_linked` containers may be linked at run
    /// time, so they stay whole unless they have machine code for every GPU.
    pub(crate) fn kept(&self, entries: &[CodeEntry], is_linked: bool) -> Vec<bool> {
        let mut kept: Vec<bool> = entries
            .iter()
            .map(|entry| match entry.kind.form {
                CodeForm::Other(_) => true,
                CodeForm::Ptx => self.ptx == KeptPtx::All,
                CodeForm::Cubin => false,
            })
            .collect();
        for gpu in &self.gpus {
            if is_linked && code_fit(entries, *gpu) != CodeFit::Cubin {
                return vec![true; entries.len()];
            }
            for (kept, entry) in kept.iter_mut().zip(entries) {
                *kept |= is_kept_for(*gpu, entries, entry);
            }
        }
        // A container without entries could fail in another way than with "no kernel image is available".
        if !kept.contains(&true) {
            let smallest = entries.iter().enumerate().min_by_key(|(_, entry)| entry.bytes);
            if let Some(kept) = smallest.and_then(|(number, _)| kept.get_mut(number)) {
                *kept = true;
            }
        }
        kept
    }

    /// Checks a decision: everything that a GPU can run is there, or something at least as good.
    ///
    /// Errors: An entry that a GPU may need is missing.
    pub(crate) fn check(&self, before: &[CodeEntry], after: &[CodeEntry]) -> Checked<()> {
        require(before.is_empty() || !after.is_empty(), "a container lost all entries")?;
        for gpu in &self.gpus {
            require(code_fit(before, *gpu) == code_fit(after, *gpu), "a GPU lost its code")?;
            for gone in before.iter().map(|entry| entry.kind).filter(|kind| kind.runs_on(*gpu)) {
                let mut kept = after.iter().map(|entry| entry.kind).filter(|kind| kind.runs_on(*gpu));
                let is_kept_or_better = kept.any(|kind| {
                    kind == gone
                        || kind.architecture > gone.architecture
                        || (kind.architecture == gone.architecture
                            && (kind.form, gone.form) == (CodeForm::Cubin, CodeForm::Ptx))
                });
                require(is_kept_or_better, "the best code for a GPU is missing")?;
            }
        }
        Ok(())
    }
}

/// The code in a container for a GPU.
pub(crate) fn code_fit(entries: &[CodeEntry], gpu: GpuArchitecture) -> CodeFit {
    let fits = entries
        .iter()
        .filter(|entry| entry.kind.runs_on(gpu))
        .map(|entry| match entry.kind.form {
            CodeForm::Cubin => CodeFit::Cubin,
            _ => CodeFit::Ptx,
        });
    fits.max().unwrap_or(CodeFit::None)
}

/// Whether an entry stays for a GPU: everything that some driver may choose.
fn is_kept_for(gpu: GpuArchitecture, entries: &[CodeEntry], entry: &CodeEntry) -> bool {
    let runs = |form: CodeForm| {
        entries
            .iter()
            .filter(move |it| it.kind.form == form && it.kind.runs_on(gpu))
    };
    let newest = |entries: &mut dyn Iterator<Item = &CodeEntry>| entries.map(|it| it.kind.architecture).max();
    let plain = |it: &&CodeEntry| it.kind.suffix == ArchitectureSuffix::None;
    let code = entry.kind.architecture;
    // The newest machine code without suffix, because every driver accepts that.
    let cubin = newest(&mut runs(CodeForm::Cubin).filter(plain)).or_else(|| newest(&mut runs(CodeForm::Cubin)));
    match (cubin, newest(&mut runs(CodeForm::Ptx))) {
        (Some(best), _) => match entry.kind.form {
            CodeForm::Cubin => code.major() == gpu.major() && (best..=gpu).contains(&code),
            _ => entry.kind.runs_on(gpu) && code > best,
        },
        (None, Some(best)) => entry.kind.form == CodeForm::Ptx && (best..=gpu).contains(&code),
        (None, None) => false,
    }
}
