//! Compares the audit's prediction of `import torch` with the real Python.
//!
//! The test compiles the module and `libtorch_cpu.so`. They link the real libcupti like those of `PyPI`.

use crate::chroot::{Answer, Root, is_of_every_process};
use crate::cupti_parts::{cupti_11, object, pip};
use image_linkage::loader::{
    Arch, CpuLevel, DynamicLoader, LoaderEnvironment, ProcessSetup, SimulatedProcess, StartMode,
};
use image_linkage::rootfs::{self, FileCredentials, Rootfs};
use testkit::layer::Layer;

const SITE: &str = "opt/venv/lib/python3.11/site-packages";
const TORCH: &str = "unsigned cuptiGetVersion(unsigned *);
unsigned torch(void) { unsigned version; return cuptiGetVersion(&version); }";
/// A module that prints the mapped objects once it is imported.
const MODULE: &str = "#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
unsigned torch(void);
unsigned (*used)(void) = torch;
void *PyInit__C(void) {
  struct link_map *map = NULL;
  dlinfo(dlopen(NULL, RTLD_LAZY), RTLD_DI_LINKMAP, &map);
  for (; map != NULL; map = map->l_next) puts(map->l_name);
  fflush(stdout);
  return NULL;
}";
const CUPTI: &str = "nvidia/cuda_cupti/lib/libcupti.so.12";

#[test]
fn import_torch_ends_as_the_audit_says() {
    if !crate::cupti_parts::are_there() {
        return;
    }
    let whiteout = |path: &str| Some(Layer::new().whiteout(path));
    let cases = [
        ("as installed", None),
        ("libcupti deleted", whiteout(&format!("{SITE}/{CUPTI}"))),
        ("libgcc_s deleted", whiteout("usr/lib/x86_64-linux-gnu/libgcc_s.so.1")),
        (
            "libnvperf_host deleted",
            whiteout(&format!("{SITE}/nvidia/cuda_cupti/lib/libnvperf_host.so")),
        ),
        (
            "11.8 in the place of 12",
            Some(Layer::new().file(format!("{SITE}/{CUPTI}"), cupti_11())),
        ),
        (
            "a page of an error in the place of libcupti",
            Some(Layer::new().file(format!("{SITE}/{CUPTI}"), "<html>404</html>".repeat(9))),
        ),
    ];
    for (name, layer) in &cases {
        let mut root = Root::new(b"");
        root.add(&installed());
        if let Some(layer) = layer {
            root.add(layer);
        }
        let (rootfs, _) = rootfs::merge_layers(&root.layers);
        assert_eq!(ours(&rootfs), real(&root), "{name}");
    }
    println!("{} of {} imports agree with the real Python", cases.len(), cases.len());
}

fn installed() -> Layer {
    let folder = tempfile::tempdir().unwrap();
    let torch = object(
        TORCH,
        &[
            "-Wl,--disable-new-dtags,-rpath,$ORIGIN/../../nvidia/cuda_cupti/lib",
            "LIB12",
            "-Wl,-soname,libtorch_cpu.so",
        ],
    );
    let library = folder.path().join("libtorch_cpu.so");
    std::fs::write(&library, &torch).unwrap();
    let module = object(
        MODULE,
        &["-Wl,--disable-new-dtags,-rpath,$ORIGIN/lib", library.to_str().unwrap()],
    );
    pip(Layer::new(), "nvidia-cuda-cupti-cu12-12.4.127", SITE)
        .file(format!("{SITE}/torch/lib/libtorch_cpu.so"), torch)
        .file(format!("{SITE}/torch/_C.so"), module)
}

/// The objects that the real Python maps beyond its own, or its error.
fn real(root: &Root) -> Answer {
    let script = format!("import sys; sys.path.insert(0, '/{SITE}/torch'); import _C");
    let words = ["/usr/bin/python3.11", "-I", "-S", "-c", &script];
    let output = root.asked("/usr/bin/python3.11", &words).output().unwrap();
    let (said, mapped) = (
        String::from_utf8_lossy(&output.stderr),
        String::from_utf8_lossy(&output.stdout),
    );
    match said
        .trim_end()
        .lines()
        .last()
        .and_then(|line| line.strip_prefix("ImportError: "))
    {
        Some(words) => Answer::Failed(words.to_owned()),
        None => opened(mapped.lines().map(str::to_owned)),
    }
}

fn ours(rootfs: &Rootfs) -> Answer {
    let arch = Arch::of_platform("amd64").unwrap();
    let linker = DynamicLoader::find_default(rootfs, arch, CpuLevel::V3).unwrap();
    let environment = LoaderEnvironment::default();
    let setup = ProcessSetup {
        rootfs,
        linker: &linker,
        environment: &environment,
        user: &FileCredentials::default(),
        cpu: CpuLevel::V3,
        from_driver: &|_| false,
    };
    let mut process = SimulatedProcess::new(&setup);
    process.start(b"/usr/bin/python3.11", StartMode::Executed);
    let resolution = process.open(format!("/{SITE}/torch/_C.so").as_bytes(), None);
    match crate::judge::ours(&resolution) {
        // The real loader's link map has no name for the program itself.
        Answer::Opened { objects, .. } => opened(objects.into_iter().filter(|path| path != "/usr/bin/python3.11")),
        other => other,
    }
}

fn opened(objects: impl Iterator<Item = String>) -> Answer {
    let objects: Vec<String> = objects.filter(|path| !is_of_every_process(path)).collect();
    let path = objects.iter().find(|path| path.contains("/libcupti")).cloned();
    Answer::Opened {
        path: path.unwrap_or_default(),
        objects,
    }
}
