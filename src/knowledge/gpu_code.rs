//! The objects from which GPU code may be removed (`profiles/gpu-code.yaml`).
//!
//! NVIDIA's licence forbids changes of its libraries (EULA of the CUDA toolkit, "Distribution Requirements" and
//! "Limitations"). So an object may change only if it belongs to an open package, or the user names it.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use image_linkage::path::RootPath;
use image_source::ImageConfig;
use serde::Deserialize;

use super::patterns::PatternLists;

/// The objects of open packages, and the signs of NVIDIA's code.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GpuCodeTable {
    /// The packages whose objects may change.
    #[serde(default)]
    pub packages: Vec<OpenPackage>,
    /// The names of NVIDIA's libraries.
    #[serde(default)]
    pub nvidia: NvidiaNames,
    /// Texts in objects that contain code of NVIDIA's static libraries.
    #[serde(default, rename = "static")]
    pub static_libraries: Vec<StaticLibraryText>,
    #[serde(skip)]
    patterns: OnceLock<PatternLists>,
}

/// A package with an open licence.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenPackage {
    /// The name of the distribution.
    pub package: String,
    /// The licence as an SPDX expression.
    pub licence: String,
    /// The address of the licence or the sources.
    pub source: String,
    /// The ends of its objects' paths. A `*` matches within a name.
    pub files: Vec<String>,
}

/// The names of NVIDIA's libraries.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NvidiaNames {
    /// Names of folders, anywhere in a path.
    pub folders: Vec<String>,
    /// File names.
    pub names: Vec<String>,
    /// File names of libraries with one small kernel that nothing needs.
    pub stubs: Vec<String>,
    /// Variables of images with NVIDIA's own builds of open packages.
    pub variables: Vec<String>,
}

/// A text that shows code of a static library.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StaticLibraryText {
    /// The text, outside the GPU code.
    pub text: String,
    /// The library's name for people.
    pub library: String,
}

/// Who made an object.
#[derive(Debug, Clone, Copy)]
pub enum ObjectOrigin<'t> {
    /// NVIDIA, so it never changes.
    Nvidia,
    /// A package with an open licence.
    Open(&'t OpenPackage),
    /// Not known.
    Unknown,
}

impl GpuCodeTable {
    /// The patterns of whole paths: NVIDIA's, stubs, and one list for each package.
    fn compile(&self) -> PatternLists {
        let ends = |files: &[String]| -> Vec<String> { files.iter().map(|end| format!("**/{end}")).collect() };
        let folders = self.nvidia.folders.iter().map(|folder| format!("**/{folder}/**"));
        let mut lists = vec![
            folders.chain(ends(&self.nvidia.names)).collect(),
            ends(&self.nvidia.stubs),
        ];
        lists.extend(self.packages.iter().map(|package| ends(&package.files)));
        PatternLists::of(lists.iter())
    }

    /// The numbers of the lists that a path matches.
    fn matching(&self, path: &RootPath) -> BTreeSet<usize> {
        let patterns = self.patterns.get_or_init(|| self.compile());
        patterns.lists(path.as_bytes())
    }

    /// Whether an image has NVIDIA's own builds of open packages.
    pub fn is_nvidia_build(&self, config: &ImageConfig) -> bool {
        self.nvidia.variables.iter().any(|name| config.env(name).is_some())
    }

    /// Whether a library of NVIDIA only has a small kernel that nothing needs.
    pub fn is_stub(&self, path: &RootPath) -> bool {
        self.matching(path).contains(&STUBS)
    }

    /// Who made the object at a path.
    pub fn origin(&self, path: &RootPath) -> ObjectOrigin<'_> {
        let lists = self.matching(path);
        if lists.contains(&NVIDIA) {
            return ObjectOrigin::Nvidia;
        }
        let list = lists.range(PACKAGES..).next();
        let package = list.and_then(|list| self.packages.get(list - PACKAGES));
        package.map_or(ObjectOrigin::Unknown, ObjectOrigin::Open)
    }
}

// The numbers of the compiled lists; a package's is the first of PACKAGES plus its place.
const NVIDIA: usize = 0;
const STUBS: usize = 1;
const PACKAGES: usize = 2;

#[cfg(test)]
mod tests {
    use super::ObjectOrigin;
    use crate::knowledge::Knowledge;
    use image_linkage::path::RootPath;

    #[test]
    fn only_objects_of_open_packages_may_change() {
        let table = &Knowledge::built_in().tables.gpu_code;
        let origin = |path: &str| match table.origin(&RootPath::from(path)) {
            ObjectOrigin::Nvidia => "NVIDIA",
            ObjectOrigin::Open(package) => &package.package,
            ObjectOrigin::Unknown => "unknown",
        };
        for (path, expected) in [
            ("usr/lib/python3/site-packages/torch/lib/libtorch_cuda.so", "torch"),
            ("torch/lib/libtorch_cuda.so", "torch"),
            ("opt/x/torch/lib/libtorch_nvshmem.so", "unknown"),
            ("opt/x/torch/lib/libcublas.so.12", "NVIDIA"),
            ("opt/site-packages/nvidia/nccl/lib/libnccl.so.2", "NVIDIA"),
            ("opt/nvidia/torch/lib/libtorch_cuda.so", "NVIDIA"),
            ("opt/notnvidia/torch/lib/libtorch_cuda.so", "torch"),
            ("opt/mytorch/lib/libtorch_cuda.so", "unknown"),
            ("opt/x/cupy/cuda/cub.cpython-312-x86_64-linux-gnu.so", "cupy"),
            ("opt/x/vllm/vllm_flash_attn/_vllm_fa2_C.abi3.so", "vllm"),
            ("opt/x/torchvision.libs/libnvjpeg.8dd2b5e6.so.12", "NVIDIA"),
            ("usr/local/cuda-12.4/lib64/torch/lib/libtorch_cuda.so", "NVIDIA"),
            ("opt/x/jax_plugins/xla_cuda13/xla_cuda_plugin.so", "jax-cuda-pjrt"),
        ] {
            assert_eq!(origin(path), expected, "{path}");
        }
    }
}
