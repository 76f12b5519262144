//! Weighs the files of an image: their bytes by group (`profiles/cupti/weight.yaml`) and by GPU architecture.
//!
//! This is a walk of its own, for the reports that show it.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use gpu_code::{CodeKind, DeviceCode};

use super::dead_weight::DeadWeightUse;
use super::gpu_code::gpu_code_kept_for;
use crate::byte_search::contains_bytes;
use crate::knowledge::KnowledgeTables;
use crate::knowledge::gpu_code::ObjectOrigin;
use crate::knowledge::weight_group::{GroupRole, WeightGroup, WeightTable};
use image_linkage::elf::ElfFacts;
use image_linkage::path::RootPath;
use image_linkage::rootfs::{NodeId, NodeKind, Rootfs, RootfsNode};
use image_source::Image;

/// The maximum number of files to look up on search paths of frameworks. PyTorch needs about 200.
const LOOKUPS: usize = 20_000;

/// The bytes of an image's visible files. Hard links to one file count once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageWeight {
    /// The groups, largest first.
    pub groups: Vec<GroupWeight>,
    /// The GPU code in all objects, by architecture and form.
    pub gpu_code: BTreeMap<CodeKind, u64>,
    /// Whether some objects have more GPU code than could be read.
    pub gpu_code_is_partial: bool,
}

/// The bytes of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupWeight {
    /// The name in the table; a top folder such as `/opt` for files without a group.
    pub id: String,
    /// The name for reports.
    pub what: String,
    /// Its bytes.
    pub bytes: u64,
    /// The number of its files.
    pub files: usize,
    /// Why the files stay.
    pub reasons: Vec<String>,
    /// How a user can make an image without them.
    pub smaller: Option<&'static str>,
}

impl ImageWeight {
    /// The bytes of all files.
    pub fn bytes(&self) -> u64 {
        let groups = self.groups.iter();
        groups.fold(0, |sum, group| sum.saturating_add(group.bytes))
    }
}

/// What `slim --gpu` can do with the GPU code of open packages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OpenGpuCode {
    /// It can remove code.
    Whole,
    /// It did so already.
    Pruned,
    /// It changes nothing, because the packages are NVIDIA's builds.
    NvidiaBuild,
}

impl OpenGpuCode {
    pub(crate) fn of_image(image: &Image, tables: &KnowledgeTables) -> Self {
        if tables.gpu_code.is_nvidia_build(&image.config) {
            Self::NvidiaBuild
        } else if gpu_code_kept_for(image).is_some() {
            Self::Pruned
        } else {
            Self::Whole
        }
    }
}

/// Weighs the visible files.
pub(crate) fn weigh_files(
    rootfs: &Rootfs,
    tables: &'static KnowledgeTables,
    open: OpenGpuCode,
    uses: &[DeadWeightUse],
) -> ImageWeight {
    let table = &tables.weight;
    let mut scan = WeightScan::new(rootfs, tables, open);
    rootfs.visit(|path, id, node| scan.add_node(path, id, node));
    for share in std::mem::take(&mut scan.shared).into_values() {
        scan.count(share);
    }
    let frameworks = scan.find_frameworks();
    let mut groups = Vec::new();
    for (key, (bytes, files)) in scan.totals {
        let mut weight = GroupWeight {
            id: String::new(),
            what: String::new(),
            bytes,
            files,
            reasons: Vec::new(),
            smaller: None,
        };
        match key {
            GroupKey::Known(number) => {
                let Some(group) = table.groups().get(number) else {
                    continue;
                };
                weight.id.clone_from(&group.id);
                weight.what.clone_from(&group.what);
                weight.reasons = reasons(group, uses, frameworks.get(&number));
                if group.role != GroupRole::GpuCode || open != OpenGpuCode::Pruned {
                    weight.smaller = group.smaller.as_deref();
                }
            }
            GroupKey::Folder(folder) => {
                weight.id = folder.to_string();
                weight.what = format!("other files in {folder}");
            }
        }
        groups.push(weight);
    }
    groups.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.id.cmp(&b.id)));
    ImageWeight {
        groups,
        gpu_code: scan.gpu_code,
        gpu_code_is_partial: scan.gpu_code_is_partial,
    }
}

/// Why a group stays: the frameworks that link it, a use in the image, and the reason that always holds.
fn reasons(group: &WeightGroup, uses: &[DeadWeightUse], frameworks: Option<&BTreeSet<&'static str>>) -> Vec<String> {
    let frameworks = frameworks.map(|names| names.iter().copied().collect::<Vec<_>>());
    let linked = frameworks.map(|names| format!("linked by {}", names.join(", ")));
    let mut uses = uses
        .iter()
        .filter(|found| group.kinds.iter().any(|kind| kind == found.kind));
    let first = uses.next().map(|found| format!("{}: {}", found.by, found.why));
    linked.into_iter().chain(first).chain([group.why.clone()]).collect()
}

/// A group of the table by its number, or a top folder.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum GroupKey {
    Known(usize),
    Folder(RootPath),
}

/// The groups of a file.
struct FileShare {
    file: NodeId,
    group: GroupKey,
    /// The group of its GPU code, if that counts apart.
    code: Option<usize>,
}

/// The results of the walk.
struct WeightScan<'r> {
    rootfs: &'r Rootfs,
    tables: &'static KnowledgeTables,
    table: &'static WeightTable,
    /// The group of the GPU code in objects of open packages.
    code_group: Option<usize>,
    totals: BTreeMap<GroupKey, (u64, usize)>,
    gpu_code: BTreeMap<CodeKind, u64>,
    gpu_code_is_partial: bool,
    /// Files with hard links, which count at the end.
    shared: BTreeMap<NodeId, FileShare>,
    /// The groups that have a library of each name.
    libraries: BTreeMap<Box<[u8]>, BTreeSet<usize>>,
    /// The objects of frameworks: the group, the folder and the file.
    frameworks: Vec<(usize, RootPath, NodeId)>,
}

impl<'r> WeightScan<'r> {
    fn new(rootfs: &'r Rootfs, tables: &'static KnowledgeTables, open: OpenGpuCode) -> Self {
        let mut groups = tables.weight.groups().iter();
        let code_group = groups.position(|group| group.role == GroupRole::GpuCode);
        Self {
            rootfs,
            tables,
            table: &tables.weight,
            code_group: code_group.filter(|_| open != OpenGpuCode::NvidiaBuild),
            totals: BTreeMap::new(),
            gpu_code: BTreeMap::new(),
            gpu_code_is_partial: false,
            shared: BTreeMap::new(),
            libraries: BTreeMap::new(),
            frameworks: Vec::new(),
        }
    }

    fn add_node(&mut self, path: &RootPath, id: NodeId, node: &RootfsNode) {
        match &node.kind {
            NodeKind::File(facts) => {
                let share = self.share(path, id, facts.elf.as_deref());
                if facts.elf.is_some() {
                    self.add_object(path, id, &share.group);
                }
                match self.rootfs.hard_linked(id) {
                    Some(file) => self.add_shared(file, share),
                    None => self.count(share),
                }
            }
            NodeKind::Symlink(_) if contains_bytes(path.name(), b".so") => {
                let group = self.share(path, id, None).group;
                self.add_library(path, &group);
            }
            NodeKind::Symlink(_) | NodeKind::Directory(_) | NodeKind::Special => {}
        }
    }

    /// The groups of a file: the first that matches, and for the GPU code of an open package, the group of that.
    fn share(&self, path: &RootPath, file: NodeId, elf: Option<&ElfFacts>) -> FileShare {
        let has_code = elf.is_some_and(|elf| elf.device_code.is_some());
        let code = match self.code_group {
            Some(group) if has_code && matches!(self.tables.gpu_code.origin(path), ObjectOrigin::Open(_)) => {
                Some(group)
            }
            _ => None,
        };
        let group = match self.table.matching(path.as_bytes()).next() {
            Some(number) => GroupKey::Known(number),
            None => GroupKey::Folder(path.folders().last().unwrap_or_default()),
        };
        FileShare { file, group, code }
    }

    fn add_object(&mut self, path: &RootPath, id: NodeId, group: &GroupKey) {
        self.add_library(path, group);
        if let GroupKey::Known(number) = group
            && role(self.table, group) == GroupRole::Framework
        {
            self.frameworks.push((*number, path.parent(), id));
        }
    }

    fn add_library(&mut self, path: &RootPath, group: &GroupKey) {
        if let GroupKey::Known(number) = group
            && role(self.table, group) == GroupRole::Library
        {
            self.libraries.entry(path.name().into()).or_default().insert(*number);
        }
    }

    fn add_shared(&mut self, file: NodeId, share: FileShare) {
        let is_cache = role(self.table, &share.group) == GroupRole::Cache;
        match self.shared.entry(file) {
            Entry::Vacant(entry) => _ = entry.insert(share),
            Entry::Occupied(mut entry) => {
                // pip, uv and conda link files from their caches, and clearing a cache would not free these.
                if !is_cache && role(self.table, &entry.get().group) == GroupRole::Cache {
                    entry.insert(share);
                }
            }
        }
    }

    fn count(&mut self, share: FileShare) {
        let NodeKind::File(facts) = &self.rootfs.node(share.file).kind else {
            return;
        };
        let code = facts.elf.as_ref().and_then(|elf| elf.device_code.as_deref());
        let mut apart = 0;
        if let Some(code) = code {
            let all = self.count_code(code);
            if let Some(group) = share.code {
                // The headers in a damaged object may claim more bytes than it has.
                apart = all.min(facts.bytes);
                add(&mut self.totals, GroupKey::Known(group), apart);
            }
        }
        add(&mut self.totals, share.group, facts.bytes - apart);
    }

    /// Counts the code of an object by kind, and returns its bytes.
    fn count_code(&mut self, code: &DeviceCode) -> u64 {
        self.gpu_code_is_partial |= code.is_partial;
        for (kind, amount) in code.by_kind() {
            let bytes = self.gpu_code.entry(kind).or_default();
            *bytes = bytes.saturating_add(amount.bytes);
        }
        code.bytes()
    }

    /// The frameworks that link libraries of each group.
    fn find_frameworks(&self) -> BTreeMap<usize, BTreeSet<&'static str>> {
        let mut users: BTreeMap<usize, BTreeSet<&'static str>> = BTreeMap::new();
        let mut lookups = LOOKUPS;
        for (framework, folder, id) in &self.frameworks {
            let (Some(framework), NodeKind::File(facts)) =
                (self.table.groups().get(*framework), &self.rootfs.node(*id).kind)
            else {
                continue;
            };
            let Some(elf) = &facts.elf else { continue };
            for name in &elf.needed {
                let Some(groups) = self.libraries.get(name) else {
                    continue;
                };
                let group = match groups.first() {
                    Some(only) if groups.len() == 1 => Some(*only),
                    _ => self.find_on_own_path(folder, elf, name, &mut lookups),
                };
                if let Some(group) = group {
                    users.entry(group).or_default().insert(&framework.what);
                }
            }
        }
        users
    }

    /// The group of the library that an object finds on its own search path. Only that decides between several.
    fn find_on_own_path(&self, folder: &RootPath, elf: &ElfFacts, name: &[u8], lookups: &mut usize) -> Option<usize> {
        let path = elf.runpath.as_ref().or(elf.rpath.as_ref())?;
        for directory in path.split(|&byte| byte == b':') {
            *lookups = lookups.checked_sub(1)?;
            let tokens: [&[u8]; 2] = [b"$ORIGIN", b"${ORIGIN}"];
            let below = tokens.iter().find_map(|token| directory.strip_prefix(*token));
            let directory = below.map_or_else(|| directory.to_vec(), |rest| [&*folder.absolute(), rest].concat());
            if let Ok(found) = self.rootfs.lookup(&[&*directory, b"/", name].concat()) {
                let group = self.share(&found.path, found.node, None).group;
                return match group {
                    GroupKey::Known(number) if role(self.table, &group) == GroupRole::Library => Some(number),
                    GroupKey::Known(_) | GroupKey::Folder(_) => None,
                };
            }
        }
        None
    }
}

fn role(table: &WeightTable, key: &GroupKey) -> GroupRole {
    let group = match key {
        GroupKey::Known(number) => table.groups().get(*number),
        GroupKey::Folder(_) => None,
    };
    group.map(|group| group.role).unwrap_or_default()
}

fn add(totals: &mut BTreeMap<GroupKey, (u64, usize)>, group: GroupKey, more: u64) {
    let (bytes, files) = totals.entry(group).or_default();
    *bytes = bytes.saturating_add(more);
    *files += 1;
}

#[cfg(test)]
mod tests {
    use super::{GroupWeight, ImageWeight, OpenGpuCode, weigh_files};
    use crate::facts::DeadWeightUse;
    use crate::knowledge::Knowledge;
    use crate::knowledge::KnowledgeTables;
    use crate::knowledge::file_interest::cupti_options;
    use image_linkage::layer::{ExpectedBlob, index_layer};
    use image_linkage::rootfs::merge_layers;
    use std::collections::BTreeSet;
    use std::sync::LazyLock;
    use testkit::elf::Elf;
    use testkit::layer::Layer;

    /// Read once, because each one compiles its patterns.
    static TABLES: LazyLock<&'static KnowledgeTables> = LazyLock::new(|| Knowledge::built_in().tables);

    fn weigh(layer: &Layer, uses: &[DeadWeightUse]) -> ImageWeight {
        weigh_with(layer, OpenGpuCode::Whole, uses)
    }

    fn weigh_with(layer: &Layer, open: OpenGpuCode, uses: &[DeadWeightUse]) -> ImageWeight {
        let index = index_layer("x", layer.tar().as_slice(), &ExpectedBlob::default(), &cupti_options()).unwrap();
        weigh_files(&merge_layers([&index]).0, *TABLES, open, uses)
    }

    fn sizes(weight: &ImageWeight) -> Vec<(&str, u64, usize)> {
        let groups = weight.groups.iter();
        groups
            .map(|group| (group.id.as_str(), group.bytes, group.files))
            .collect()
    }

    fn group<'w>(weight: &'w ImageWeight, id: &str) -> &'w GroupWeight {
        weight.groups.iter().find(|group| group.id == id).unwrap()
    }

    const PACKAGES: &[(&str, &str)] = &[
        ("nvidia/cublas/lib/libcublas.so.12", "cuda-wheels"),
        ("nvidia/cu13/lib/libcudart.so.13", "cuda-wheels"),
        ("torch/lib/libcudnn.so.8", "cuda-wheels"),
        ("nvidia/nccl/lib/libnccl.so.2", "nccl"),
        ("nvidia/dali/libdali.so", "python-packages"),
        ("nvidia/cuda_cupti/lib/libnvperf_host_static.a", "static-libraries"),
        ("tensorrt_libs/libnvinfer.so.10", "tensorrt"),
        ("tensorrt_llm/__init__.py", "python-packages"),
        ("triton/backends/nvidia/lib/cupti/libcupti.so.12", "triton"),
        ("triton/backends/nvidia/bin/ptxas", "triton"),
        ("torch/lib/libtorch_cuda.so", "pytorch"),
        ("torchvision.libs/libjpeg.so.8", "pytorch"),
        ("tensorflow/libtensorflow_cc.so.2", "tensorflow"),
        ("jax_cuda12_plugin/cuda.so", "jax"),
        ("vllm/_C.abi3.so", "vllm"),
        ("flash_attn_2_cuda.cpython-312-x86_64-linux-gnu.so", "kernels"),
        ("onnxruntime/capi/x.so", "onnxruntime"),
        ("cupy/x.so", "rapids"),
        ("numpy/x.so", "python-packages"),
    ];

    const FILES: &[(&str, &str)] = &[
        ("usr/lib/python3/dist-packages/apt/x.py", "python-packages"),
        ("usr/lib/python3.12/os.py", "python"),
        ("usr/local/lib/libpython3.12.so.1.0", "python"),
        ("usr/bin/python3.12", "python"),
        (
            "usr/local/cuda-12.4/targets/x86_64-linux/lib/libcublas.so.12.4.5.8",
            "cuda-libraries",
        ),
        ("usr/local/cuda-12.4/compat/libcuda.so.1", "cuda-libraries"),
        ("usr/lib/x86_64-linux-gnu/libcublas.so.11", "cuda-libraries"),
        (
            "usr/local/cuda-12.4/targets/x86_64-linux/lib/libcublas_static.a",
            "static-libraries",
        ),
        (
            "usr/local/cuda-12.4/targets/x86_64-linux/lib/stubs/libcuda.so",
            "cuda-tools",
        ),
        ("usr/local/cuda-12.4/bin/nvcc", "cuda-tools"),
        ("usr/local/cuda-12.4/nvvm/bin/cicc", "cuda-tools"),
        (
            "usr/local/cuda-12.4/targets/x86_64-linux/include/cuda.h",
            "cuda-headers",
        ),
        ("usr/local/cuda-12.4/extras/CUPTI/samples/x.cu", "cuda-headers"),
        ("usr/local/cuda-12.4/bin/nsys", "nsight"),
        ("opt/nvidia/nsight-compute/2024.1.1/ncu", "nsight"),
        ("usr/lib/x86_64-linux-gnu/libcudnn_adv.so.9", "cudnn"),
        ("usr/lib/x86_64-linux-gnu/libnccl.so.2.21.5", "nccl"),
        ("usr/lib/x86_64-linux-gnu/libnvinfer.so.10", "tensorrt"),
        ("opt/hpcx/ucx/lib/libucp.so.0", "network"),
        ("usr/lib/x86_64-linux-gnu/libmpi.so.40", "network"),
        ("usr/lib/gcc/x86_64-linux-gnu/13/cc1plus", "compilers"),
        ("usr/bin/x86_64-linux-gnu-g++-13", "compilers"),
        ("usr/include/stdio.h", "compilers"),
        ("usr/lib/x86_64-linux-gnu/libc.so.6", "system"),
        ("etc/passwd", "system"),
        ("usr/share/doc/bash/README", "documentation"),
        ("usr/lib/locale/C.utf8/LC_CTYPE", "documentation"),
        ("opt/conda/lib/libmkl_core.so.2", "conda"),
        ("opt/conda/pkgs/mkl-2024/lib/libmkl_core.so.2", "caches"),
        ("root/.cache/pip/http/a", "caches"),
        ("root/.cache/huggingface/hub/models--gpt2/blobs/a", "models"),
        ("app/model.safetensors", "models"),
        ("app/models/llama/pytorch_model.bin", "models"),
        ("app/main.py", "/app"),
        ("main.py", "/"),
    ];

    #[test]
    fn each_path_has_one_group() {
        let check = |path: &str, expected: &str| {
            let weight = weigh(&Layer::new().file(path, b"12345"), &[]);
            assert_eq!(sizes(&weight), [(expected, 5, 1)], "{path}");
        };
        for (path, expected) in PACKAGES {
            check(&format!("opt/venv/lib/python3.12/site-packages/{path}"), expected);
        }
        for (path, expected) in FILES {
            check(path, expected);
        }
        // Every group has its path. GPU code is in objects only.
        let tested: BTreeSet<&str> = PACKAGES.iter().chain(FILES).map(|(_, group)| *group).collect();
        let groups = TABLES.weight.groups().iter().map(|group| &*group.id);
        assert_eq!(
            groups.filter(|id| !tested.contains(id)).collect::<Vec<_>>(),
            ["gpu-code"]
        );
    }

    #[test]
    fn a_hard_link_counts_once_and_outside_the_cache() {
        let layer = Layer::new()
            .file("a/.cache/x", b"1")
            .file("home/u/.cache/uv/archive-v0/a/x.py", b"1234567")
            .hardlink(
                "opt/venv/lib/python3.12/site-packages/x.py",
                "home/u/.cache/uv/archive-v0/a/x.py",
            )
            .file("home/u/.cache/uv/b", b"12")
            .hardlink("home/u/.cache/uv/c", "home/u/.cache/uv/b");
        assert_eq!(
            sizes(&weigh(&layer, &[])),
            [("python-packages", 7, 1), ("caches", 2, 1), ("/a", 1, 1)]
        );
    }

    #[test]
    fn the_gpu_code_of_an_open_framework_counts_apart() {
        let packages = "opt/venv/lib/python3.12/site-packages";
        let object = Elf::library("x.so").gpu_code(&["sm_80", "sm_90"]).unwrap().build();
        let bytes = object.len() as u64;
        let layer = Layer::new()
            .file(format!("{packages}/torch/lib/libtorch_cuda.so"), &object)
            .file(format!("{packages}/nvidia/cublas/lib/libcublas.so.12"), &object)
            .file(format!("{packages}/vllm/_C.abi3.so"), &object)
            .hardlink(format!("{packages}/vllm/_D.so"), format!("{packages}/vllm/_C.abi3.so"));
        let weight = weigh(&layer, &[]);
        assert_eq!(
            sizes(&weight),
            [
                ("cuda-wheels", bytes, 1),
                ("pytorch", bytes - 144, 1),
                ("vllm", bytes - 144, 1),
                ("gpu-code", 288, 2),
            ]
        );
        let code: Vec<String> = weight
            .gpu_code
            .iter()
            .map(|(kind, bytes)| format!("{kind} {bytes}"))
            .collect();
        assert_eq!(code, ["sm_80 216", "sm_90 216"]);
        assert_eq!((weight.bytes(), weight.gpu_code_is_partial), (3 * bytes, false));
        assert!(group(&weight, "gpu-code").smaller.is_some());
        let pruned = weigh_with(&layer, OpenGpuCode::Pruned, &[]);
        assert_eq!(
            (sizes(&pruned), group(&pruned, "gpu-code").smaller),
            (sizes(&weight), None)
        );
        let nvidia = weigh_with(&layer, OpenGpuCode::NvidiaBuild, &[]);
        assert_eq!(
            sizes(&nvidia),
            [("cuda-wheels", bytes, 1), ("pytorch", bytes, 1), ("vllm", bytes, 1)]
        );
    }

    #[test]
    fn a_library_names_the_frameworks_that_link_it() {
        let packages = "opt/venv/lib/python3.12/site-packages";
        let torch = |path: &str, runpath: Option<&str>| {
            let object = Elf::library("libtorch.so")
                .needed("libcublas.so.12")
                .needed("libcudnn.so.9");
            let object = runpath.into_iter().fold(object, Elf::runpath);
            Layer::new()
                .file(format!("{packages}/torch/lib/libtorch.so"), object.build())
                .file(
                    format!("{packages}/nvidia/cublas/lib/libcublas.so.12"),
                    Elf::library("libcublas.so.12").build(),
                )
                .file(path, Elf::library("libcublas.so.12").build())
        };
        let first = |layer: &Layer, id: &str| group(&weigh(layer, &[]), id).reasons[0].clone();
        let licence = "NVIDIA's licence forbids changes";
        let toolkit = "usr/local/cuda-12.4/lib64/libcublas.so.12";
        // Without a search path of its own, torch may get any of the two.
        let unknown = torch(toolkit, None);
        assert_eq!(first(&unknown, "cuda-wheels"), licence);
        let own = torch(toolkit, Some("$ORIGIN/missing:$ORIGIN/../../nvidia/cublas/lib"));
        assert_eq!(first(&own, "cuda-wheels"), "linked by PyTorch");
        assert_eq!(first(&own, "cuda-libraries"), licence);
        let other = torch(toolkit, Some("/usr/local/cuda-12.4/lib64"));
        assert_eq!(first(&other, "cuda-wheels"), licence);
        assert_eq!(first(&other, "cuda-libraries"), "linked by PyTorch");
        // Only one group has it, here under the name of a link.
        let link = torch("opt/x", None)
            .file("usr/lib/libcudnn.so.9.1.0", Elf::library("libcudnn.so.9").build())
            .symlink("usr/lib/libcudnn.so.9", "libcudnn.so.9.1.0");
        assert_eq!(first(&link, "cudnn"), "linked by PyTorch");
        assert_eq!(first(&link, "cuda-wheels"), "linked by PyTorch");
    }

    #[test]
    fn a_use_in_the_image_is_a_reason() {
        let uses = [DeadWeightUse {
            kind: "compiler",
            by: "/app/run.sh".to_owned(),
            why: "it mentions the compiler",
        }];
        let weight = weigh(&Layer::new().file("usr/local/cuda-12.4/bin/nvcc", b"1"), &uses);
        assert_eq!(
            group(&weight, "cuda-tools").reasons,
            [
                "/app/run.sh: it mentions the compiler",
                "they compile and examine CUDA code"
            ]
        );
    }
}
