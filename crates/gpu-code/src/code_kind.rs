//! The kind of one entry: its form, and the GPUs that it is for.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::architecture::GpuArchitecture;

/// The form of the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum CodeForm {
    /// Machine code for one architecture.
    Cubin,
    /// Code that the driver compiles for the GPU.
    Ptx,
    /// Another kind of entry, such as intermediate code for the linker. The number is the kind in the container.
    Other(u16),
}

/// Limits of code to some GPUs of its architecture (CUDA C++ Programming Guide, "Family-Specific Features").
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ArchitectureSuffix {
    /// No suffix.
    None,
    /// `a`: only this architecture.
    Exact,
    /// `f`: this architecture and newer ones of the same major version.
    Family,
}

/// The kind of one entry of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CodeKind {
    /// The architecture that it was compiled for.
    pub architecture: GpuArchitecture,
    /// Its limits.
    pub suffix: ArchitectureSuffix,
    /// Its form.
    pub form: CodeForm,
}

impl CodeKind {
    /// The number of its architecture with the suffix, such as `90a`.
    pub fn number(self) -> String {
        let suffix = match self.suffix {
            ArchitectureSuffix::None => "",
            ArchitectureSuffix::Exact => "a",
            ArchitectureSuffix::Family => "f",
        };
        format!("{}{suffix}", self.architecture.number())
    }

    /// Whether a GPU can run it, directly or compiled by the driver. Other forms count as code that it cannot.
    ///
    /// Source: NVIDIA's compatibility guides, "Application Compatibility". Machine code runs on the same major version
    /// and the same or a higher minor one; PTX runs on every newer GPU.
    pub fn runs_on(self, gpu: GpuArchitecture) -> bool {
        let code = self.architecture;
        let is_family = code.major() == gpu.major() && code <= gpu;
        match (self.form, self.suffix) {
            (CodeForm::Other(_), _) => false,
            (_, ArchitectureSuffix::Exact) => code == gpu,
            (_, ArchitectureSuffix::Family) => is_family,
            (CodeForm::Ptx, ArchitectureSuffix::None) => code <= gpu,
            (CodeForm::Cubin, ArchitectureSuffix::None) => {
                code == gpu || (is_family && !code.is_tegra() && !gpu.is_tegra())
            }
        }
    }
}

/// `sm_90a` for machine code, `compute_90` for PTX.
impl fmt::Display for CodeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.number();
        match self.form {
            CodeForm::Cubin => write!(f, "sm_{number}"),
            CodeForm::Ptx => write!(f, "compute_{number}"),
            CodeForm::Other(kind) => write!(f, "kind {kind} for sm_{number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ArchitectureSuffix, CodeForm, CodeKind};
    use crate::architecture::GpuArchitecture;

    #[test]
    fn code_runs_on_the_gpus_of_the_compatibility_guide() {
        use ArchitectureSuffix::{Exact, Family, None};
        use CodeForm::{Cubin, Other, Ptx};
        for (form, arch, suffix, runs, fails) in [
            (Cubin, 80, None, &[80, 86, 89][..], &[75, 90, 87][..]),
            (Cubin, 86, None, &[86, 89], &[80, 90]),
            (Cubin, 87, None, &[87], &[86, 89]),
            (Cubin, 90, Exact, &[90], &[80, 100]),
            (Cubin, 100, Family, &[100, 103], &[90, 120]),
            (Cubin, 120, Exact, &[120], &[121, 100]),
            (Ptx, 80, None, &[80, 87, 90, 120], &[75]),
            (Ptx, 90, Exact, &[90], &[100]),
            (Other(8), 90, None, &[], &[90]),
        ] {
            let gpu = |number| GpuArchitecture::new(number).unwrap();
            let code = CodeKind {
                architecture: gpu(arch),
                suffix,
                form,
            };
            for number in runs {
                assert!(code.runs_on(gpu(*number)), "{code} on sm_{number}");
            }
            for number in fails {
                assert!(!code.runs_on(gpu(*number)), "{code} on sm_{number}");
            }
        }
    }
}
