//! GPUs by name and compute capability, and the CUDA releases that support them (`profiles/cupti/gpus.yaml`).

use std::collections::BTreeMap;

use gpu_code::GpuArchitecture;
use image_linkage::path::RootPath;
use serde::Deserialize;

use super::api::Certainty;
use super::index_tables::ReleaseBuild;
use super::library_release::version_numbers;
use super::patterns::PathPatterns;

/// The known GPUs.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GpuTable {
    /// The compute capabilities, oldest first.
    pub capabilities: Vec<GpuCapability>,
    /// The capability by GPU name, in lower case without spaces and hyphens.
    pub names: BTreeMap<String, String>,
    /// The frameworks that need code for the GPU.
    pub frameworks: Vec<GpuFramework>,
}

/// A framework, and the object with the kernels that it always needs.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GpuFramework {
    /// Its display name.
    pub name: String,
    /// The path of the object. The older objects of a framework have other names.
    pub objects: PathPatterns,
    /// Where builds for other GPUs are, as the end of a sentence.
    pub builds: String,
    /// How certain the object is.
    pub certainty: Certainty,
    /// The source of the row.
    pub source: String,
}

/// The releases of CUDA that support a compute capability.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GpuCapability {
    /// For example `9.0`.
    pub capability: String,
    /// NVIDIA's name for the architecture, such as `Hopper`.
    pub architecture: String,
    /// The first release of CUDA that supports it. Without it, the first whose libcupti has it among its targets.
    #[serde(default)]
    pub from: String,
    /// The last CUDA major version that supports it; `None` while the newest does.
    #[serde(default)]
    pub until: Option<u32>,
}

impl GpuCapability {
    /// The architecture of its machine code.
    pub fn machine_architecture(&self) -> Option<GpuArchitecture> {
        GpuArchitecture::of_capability(&self.capability)
    }

    /// Whether a CUDA release supports it.
    pub fn is_supported_by(&self, cuda: (u32, u32)) -> bool {
        version_numbers(&self.from) <= vec![cuda.0, cuda.1] && self.until.is_none_or(|last| cuda.0 <= last)
    }

    /// The supporting releases, as the end of a sentence.
    pub fn releases(&self) -> String {
        match self.until {
            Some(last) => format!("CUDA {} to {last}.x", self.from),
            None => format!("CUDA {} and newer", self.from),
        }
    }
}

impl GpuTable {
    /// Finds a GPU by compute capability (`9.0`, `sm_90`, `90`, `compute_90`), name (`H100`) or the driver's words
    /// (`NVIDIA A100-SXM4-80GB`).
    ///
    /// Errors: A message that it is unknown.
    pub fn find(&self, text: &str) -> Result<&GpuCapability, String> {
        let plain: String = text
            .to_lowercase()
            .chars()
            .filter(|sign| !" -".contains(*sign))
            .collect();
        let number = ["sm_", "sm", "compute_", ""].iter().find_map(|begin| {
            // A letter may follow the digits: sm_90a is the same GPU.
            let digits = plain
                .strip_prefix(begin)?
                .trim_end_matches(|sign: char| sign.is_ascii_alphabetic());
            let (major, minor) = digits.split_at_checked(digits.len().checked_sub(1)?)?;
            let is_number = !major.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
            is_number.then(|| format!("{major}.{minor}"))
        });
        let capability = number
            .or_else(|| self.names.get(&plain).cloned())
            .or_else(|| Some(self.of_model(text)?.capability.clone()))
            .unwrap_or_else(|| plain.trim_end_matches(['a', 'f']).to_owned());
        let found = self.capabilities.iter().find(|known| known.capability == capability);
        found.ok_or_else(|| {
            let names: Vec<&str> = self.names.keys().map(String::as_str).collect();
            format!(
                "no GPU is known as \"{}\"; name its compute capability, such as 9.0 or sm_90, or one of {}",
                image_linkage::escape::escape_bytes(text.as_bytes()),
                names.join(", ")
            )
        })
    }

    /// The capabilities of GPUs that [`find`](Self::find) knows: each once, oldest first.
    ///
    /// Errors: A message that a GPU is unknown.
    pub fn find_all(&self, names: &[String]) -> Result<Vec<&GpuCapability>, String> {
        let found: Vec<&GpuCapability> = names.iter().map(|name| self.find(name)).collect::<Result<_, _>>()?;
        Ok(self.capabilities.iter().filter(|known| found.contains(known)).collect())
    }

    /// Finds a GPU by its model in the driver's words, such as `NVIDIA A100-SXM4-40GB` or `NVIDIA GeForce RTX 4090`.
    pub fn of_model(&self, model: &str) -> Option<&GpuCapability> {
        let words: Vec<String> = model.to_lowercase().split([' ', '-']).map(str::to_owned).collect();
        // A name has one word or two: l4, rtx4090.
        let mut names = [2, 1].into_iter().flat_map(|count| words.windows(count));
        let capability = names.find_map(|name| self.names.get(&name.concat()))?;
        self.capabilities.iter().find(|known| known.capability == *capability)
    }

    /// The framework whose main object is at a path.
    pub fn framework_of(&self, path: &RootPath) -> Option<&GpuFramework> {
        let mut frameworks = self.frameworks.iter();
        frameworks.find(|framework| framework.objects.is_match(path.as_bytes()))
    }

    /// The capabilities of a list that a CUDA release supports, oldest first.
    pub fn supported<'t>(&'t self, list: &'t [String], cuda: (u32, u32)) -> impl Iterator<Item = &'t GpuCapability> {
        let listed = self
            .capabilities
            .iter()
            .filter(|known| list.contains(&known.capability));
        listed.filter(move |known| known.is_supported_by(cuda))
    }

    /// Fills in the first release for a GPU that the file leaves open: that of the first libcupti with code for it.
    pub(super) fn fill_first_releases(&mut self, builds: &[ReleaseBuild]) {
        for row in self.capabilities.iter_mut().filter(|row| row.from.is_empty()) {
            row.from = first_cuda_for(builds, &row.capability).expect("a test reads the tables of the program");
        }
    }
}

/// The first CUDA version whose libcupti has this capability among its targets.
fn first_cuda_for(builds: &[ReleaseBuild], capability: &str) -> Option<String> {
    let having = builds
        .iter()
        .filter(|build| build.targets.iter().any(|target| target == capability));
    let versions = having.map(|build| version_numbers(&build.version));
    match versions.min()?.as_slice() {
        [major, minor, ..] => Some(format!("{major}.{minor}")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::knowledge::Knowledge;
    use image_linkage::path::RootPath;

    #[test]
    fn every_target_of_a_libcupti_is_a_gpu_and_says_the_first_release_for_it() {
        let tables = Knowledge::built_in().tables;
        // 10.1 is the number that 11.0 had before CUDA 13.
        let targets = tables
            .builds
            .iter()
            .flat_map(|build| &build.targets)
            .filter(|target| *target != "10.1");
        for target in targets {
            assert!(tables.gpus.find(target).is_ok(), "{target}");
        }
        let from = |capability| tables.gpus.find(capability).unwrap().from.as_str();
        let found = ["10.0", "10.3", "10.7", "11.0", "12.0", "12.1", "8.7"].map(from);
        assert_eq!(found, ["12.8", "13.0", "13.4", "13.0", "12.8", "12.9", "11.4"]);
    }

    #[test]
    fn pytorch_is_compiled_for_the_gpus_that_its_toolkit_supports() {
        let tables = Knowledge::built_in().tables;
        for (cuda, expected) in [
            ((11, 8), "7.0;7.5;8.0;8.6;9.0"),
            ((12, 4), "7.0;7.5;8.0;8.6;9.0"),
            ((12, 8), "7.0;7.5;8.0;8.6;9.0;10.0;12.0"),
            ((13, 0), "7.5;8.0;8.6;9.0;10.0;12.0"),
        ] {
            let supported = tables.gpus.supported(&tables.packages.pytorch.capabilities, cuda);
            let supported: Vec<&str> = supported.map(|gpu| gpu.capability.as_str()).collect();
            assert_eq!(supported.join(";"), expected, "CUDA {cuda:?}");
        }
    }

    #[test]
    fn a_gpu_is_known_by_its_capability_and_by_its_name() {
        let gpus = &Knowledge::built_in().tables.gpus;
        let capability = |text: &str| gpus.find(text).map(|gpu| gpu.capability.as_str());
        for text in [
            "9.0",
            "9.0a",
            "sm_90",
            "SM_90a",
            "SM90",
            "90",
            "compute_90",
            "h100",
            "H100",
            "GH200",
            "NVIDIA H100 80GB HBM3",
        ] {
            assert_eq!(capability(text), Ok("9.0"), "{text}");
        }
        assert_eq!(capability("sm_120"), Ok("12.0"));
        assert_eq!(capability("GeForce RTX 4090"), Ok("8.9"));
        assert_eq!(capability("RTX 5090"), Ok("12.0"));
        for text in ["", "sm_", "sm_9", "sm_99", "h1000", "9", "\u{e9}"] {
            assert!(
                capability(text).unwrap_err().starts_with("no GPU is known as"),
                "{text}"
            );
        }
    }

    #[test]
    fn several_gpus_are_their_capabilities_once_each_and_oldest_first() {
        let gpus = &Knowledge::built_in().tables.gpus;
        let find_all = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
            let found = gpus.find_all(&names)?;
            Ok(found.iter().map(|gpu| gpu.capability.as_str()).collect::<Vec<_>>())
        };
        assert_eq!(
            find_all(&["b200", "h100", "a100", "sm_90"]),
            Ok(vec!["8.0", "9.0", "10.0"])
        );
        assert_eq!(find_all(&[]), Ok(vec![]));
        assert_eq!(find_all(&["h100", "h1000"]), gpus.find("h1000").map(|_| vec![]));
    }

    #[test]
    fn a_gpu_is_known_by_the_drivers_words_for_its_model() {
        let gpus = &Knowledge::built_in().tables.gpus;
        for (model, capability) in [
            ("NVIDIA H100 80GB HBM3", Some("9.0")),
            ("NVIDIA A100-SXM4-40GB", Some("8.0")),
            ("Tesla V100-SXM2-16GB", Some("7.0")),
            ("Tesla T4", Some("7.5")),
            ("NVIDIA GeForce RTX 3090", Some("8.6")),
            ("NVIDIA RTX A6000", Some("8.6")),
            ("NVIDIA T400 4GB", None),
            ("Quadro P4000", None),
            ("NVIDIA RTX 6000 Ada Generation", None),
            ("", None),
        ] {
            let found = gpus.of_model(model).map(|gpu| gpu.capability.as_str());
            assert_eq!(found, capability, "{model}");
        }
    }

    #[test]
    fn a_framework_is_known_by_its_main_object() {
        let gpus = &Knowledge::built_in().tables.gpus;
        for (path, framework) in [
            ("torch/lib/libtorch_cuda.so", Some("PyTorch")),
            ("torch/lib/libtorch_cuda_linalg.so", None),
            ("vllm/_C.abi3.so", Some("vLLM")),
            ("vllm/_C_stable_libtorch.abi3.so", Some("vLLM")),
            ("vllm/_moe_C.abi3.so", None),
            ("xformers/_C.so", None),
            ("tensorflow/libtensorflow_cc.so.2", Some("TensorFlow")),
            (
                "onnxruntime/capi/libonnxruntime_providers_cuda.so",
                Some("ONNX Runtime"),
            ),
            ("llama_cpp/lib/libggml-cuda.so", Some("llama.cpp")),
        ] {
            for folder in ["", "usr/lib/python3.12/site-packages/"] {
                let found = gpus.framework_of(&RootPath::from(format!("{folder}{path}").as_str()));
                assert_eq!(found.map(|framework| framework.name.as_str()), framework, "{path}");
            }
        }
    }

    #[test]
    fn a_release_supports_a_gpu_from_the_first_to_the_last() {
        let gpus = &Knowledge::built_in().tables.gpus;
        let supports = |gpu: &str, releases: [(u32, u32); 4]| {
            let gpu = gpus.find(gpu).unwrap();
            releases.map(|cuda| gpu.is_supported_by(cuda))
        };
        assert_eq!(
            supports("v100", [(8, 0), (9, 0), (12, 9), (13, 0)]),
            [false, true, true, false]
        );
        assert_eq!(
            supports("b200", [(12, 6), (12, 8), (12, 10), (13, 0)]),
            [false, true, true, true]
        );
    }
}
