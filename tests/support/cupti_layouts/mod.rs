//! Images with real CUPTI files at the paths that real images use.

mod damage;
mod odd;
mod packages;
mod toolkit;

use testkit::layer::Layer;

use crate::cupti_parts::{cupti_12, object, pip};

/// An image.
pub struct Layout {
    /// The description.
    pub name: &'static str,
    /// The environment of its config.
    pub env: &'static [(&'static str, &'static str)],
    /// The working directory of its config.
    pub working_dir: &'static str,
    /// The build steps on top of Debian.
    pub steps: Vec<Step>,
}

/// A build step; each makes a layer.
pub enum Step {
    /// Adds and removes files.
    Add(Layer),
    /// Runs a program of the image.
    Run(&'static [&'static str]),
    /// Installs Debian's package with dpkg.
    InstallDeb,
}

const TOOLKIT: &str = "usr/local/cuda-12.4/targets/x86_64-linux/lib";
const EXTRAS: &str = "usr/local/cuda-12.4/extras/CUPTI/lib64";
const SITE: &str = "opt/venv/lib/python3.11/site-packages";
const LDCONFIG: Step = Step::Run(&["/sbin/ldconfig"]);
const NVIDIA: &[(&str, &str)] = &[
    ("CUDA_VERSION", "12.4.1"),
    ("LD_LIBRARY_PATH", "/usr/local/nvidia/lib:/usr/local/nvidia/lib64"),
];
const WHEEL_12: &str = "nvidia-cuda-cupti-cu12-12.4.127";

/// The source of a probe: a program that opens its argument.
pub const PROBE: &str = include_str!("../probe.c");

const TORCH: &str =
    "unsigned cuptiGetVersion(unsigned *); unsigned torch(void) { unsigned v; return cuptiGetVersion(&v); }";
const OPENS_12: &str = "#include <dlfcn.h>\nvoid *open_cupti(void) { return dlopen(\"libcupti.so.12\", RTLD_LAZY); }";
const PIP_RPATH: &str = "-Wl,--disable-new-dtags,-rpath,$ORIGIN/../../nvidia/cuda_cupti/lib";
const PIP_RUNPATH: &str = "-Wl,--enable-new-dtags,-rpath,$ORIGIN/../../nvidia/cuda_cupti/lib";

/// The links to the toolkit, and the configuration of its packages.
fn toolkit() -> Layer {
    Layer::new()
        .symlink("usr/local/cuda", "/etc/alternatives/cuda")
        .symlink("etc/alternatives/cuda", "/usr/local/cuda-12.4")
        .symlink("usr/local/cuda-12.4/lib64", "targets/x86_64-linux/lib")
        .file("etc/ld.so.conf.d/000_cuda.conf", format!("/{TOOLKIT}\n"))
}

/// A folder with CUPTI like the toolkit's: a file named by release, with a link per soname and one for the linker.
fn release(layer: Layer, folder: &str) -> Layer {
    layer
        .file(format!("{folder}/libcupti.so.2024.1.1"), cupti_12("libcupti.so.12"))
        .symlink(format!("{folder}/libcupti.so.12"), "libcupti.so.2024.1.1")
        .symlink(format!("{folder}/libcupti.so"), "libcupti.so.12")
        .file(format!("{folder}/libnvperf_host.so"), cupti_12("libnvperf_host.so"))
}

/// The CUPTI wheel in a virtual environment that uses the system's Python.
fn wheel() -> Layer {
    pip(Layer::new(), WHEEL_12, SITE)
}

fn torch(link: &[&str]) -> Layer {
    let object = object(TORCH, &[link, &["LIB12"]].concat());
    Layer::new().file(format!("{SITE}/torch/lib/libtorch_cpu.so"), object)
}

fn opener(path: &str, link: &str) -> Layer {
    // In this version JAX opened nothing before its plug-in.
    let jax = "Metadata-Version: 2.1\nName: jax-cuda12-pjrt\nVersion: 0.4.35\n";
    Layer::new()
        .file(format!("{SITE}/jax_cuda12_pjrt-0.4.35.dist-info/METADATA"), jax)
        .file(format!("{SITE}/{path}"), object(OPENS_12, &[link]))
}

fn layout(name: &'static str, env: &'static [(&'static str, &'static str)], steps: Vec<Step>) -> Layout {
    Layout {
        name,
        env,
        working_dir: "/",
        steps,
    }
}

/// Every layout.
pub fn all() -> Vec<Layout> {
    [toolkit::all(), packages::all(), damage::all(), odd::all()]
        .into_iter()
        .flatten()
        .collect()
}
