//! Images with real CUPTI files, in the places where real images have them.

use testkit::elf::{Class, Elf, Machine};
use testkit::layer::Layer;

use crate::cupti_parts::{cupti_11, cupti_12, object, patched, pip, program};

/// An image.
pub struct Layout {
    /// What it is, in words.
    pub name: &'static str,
    /// The environment of its config.
    pub env: &'static [(&'static str, &'static str)],
    /// The working directory of its config.
    pub working_dir: &'static str,
    /// How it is built on top of Debian.
    pub steps: Vec<Step>,
    /// What the audit says of it: a line for a plain dlopen, one for each consumer.
    pub says: &'static str,
}

/// One step of a build; it makes a layer.
pub enum Step {
    /// Files are added and removed.
    Add(Layer),
    /// A program of the image runs.
    Run(&'static [&'static str]),
    /// Debian's package is installed by dpkg.
    InstallDeb,
}

const TOOLKIT: &str = "usr/local/cuda-12.4/targets/x86_64-linux/lib";
const EXTRAS: &str = "usr/local/cuda-12.4/extras/CUPTI/lib64";
const SITE: &str = "opt/venv/lib/python3.11/site-packages";
const LDCONFIG: Step = Step::Run(&["/sbin/ldconfig"]);
const NVIDIA: &[(&str, &str)] = &[
    ("CUDA_VERSION", "12.4.1"),
    (
        "LD_LIBRARY_PATH",
        "/usr/local/nvidia/lib:/usr/local/nvidia/lib64",
    ),
];
const WHEEL_12: &str = "nvidia-cuda-cupti-cu12-12.4.127";

/// The source of a probe: a program that opens what it is told.
pub const PROBE: &str = include_str!("probe.c");

const TORCH: &str = "unsigned cuptiGetVersion(unsigned *); unsigned torch(void) { unsigned v; return cuptiGetVersion(&v); }";
const OPENS_12: &str =
    "#include <dlfcn.h>\nvoid *open_cupti(void) { return dlopen(\"libcupti.so.12\", RTLD_LAZY); }";
const PIP_PATH: &str = "$ORIGIN/../../nvidia/cuda_cupti/lib";
const PIP_RPATH: &str = "-Wl,--disable-new-dtags,-rpath,$ORIGIN/../../nvidia/cuda_cupti/lib";
const PIP_RUNPATH: &str = "-Wl,--enable-new-dtags,-rpath,$ORIGIN/../../nvidia/cuda_cupti/lib";

/// The links that lead to the toolkit, and what its packages configure.
fn toolkit() -> Layer {
    Layer::new()
        .symlink("usr/local/cuda", "/etc/alternatives/cuda")
        .symlink("etc/alternatives/cuda", "/usr/local/cuda-12.4")
        .symlink("usr/local/cuda-12.4/lib64", "targets/x86_64-linux/lib")
        .file("etc/ld.so.conf.d/000_cuda.conf", format!("/{TOOLKIT}\n"))
}

/// A folder with CUPTI as the toolkit has it: the file by its release, links by soname and for the linker.
fn release(layer: Layer, folder: &str) -> Layer {
    layer
        .file(
            format!("{folder}/libcupti.so.2024.1.1"),
            cupti_12("libcupti.so.12"),
        )
        .symlink(format!("{folder}/libcupti.so.12"), "libcupti.so.2024.1.1")
        .symlink(format!("{folder}/libcupti.so"), "libcupti.so.12")
        .file(
            format!("{folder}/libnvperf_host.so"),
            cupti_12("libnvperf_host.so"),
        )
}

/// The wheel of CUPTI in a virtual environment without a Python of its own, whose process is the system's.
fn wheel() -> Layer {
    pip(Layer::new(), WHEEL_12, SITE)
}

fn torch(link: &[&str]) -> Layer {
    let object = object(TORCH, &[link, &["LIB12"]].concat());
    Layer::new().file(format!("{SITE}/torch/lib/libtorch_cpu.so"), object)
}

fn opener(path: &str, link: &str) -> Layer {
    Layer::new().file(format!("{SITE}/{path}"), object(OPENS_12, &[link]))
}

fn layout(
    name: &'static str,
    env: &'static [(&'static str, &'static str)],
    steps: Vec<Step>,
    says: &'static str,
) -> Layout {
    Layout {
        name,
        env,
        working_dir: "/",
        steps,
        says,
    }
}

/// Every layout, with what the audit says of it.
pub fn all() -> Vec<Layout> {
    [
        toolkits(),
        wheels(),
        debians(),
        mixtures(),
        damages(),
        oddities(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn toolkits() -> Vec<Layout> {
    use Step::Add;
    let cudart = || {
        let lib = crate::cupti_parts::wheel(
            "nvidia-cuda-runtime-cu12-12.4.127/nvidia/cuda_runtime/lib/libcudart.so.12",
        );
        toolkit().file(
            format!("{TOOLKIT}/libcudart.so.12"),
            std::fs::read(lib).unwrap(),
        )
    };
    let header = |name: &str| {
        std::fs::read(
            crate::cupti_parts::wheel(WHEEL_12)
                .join("nvidia/cuda_cupti/include")
                .join(name),
        )
        .unwrap()
    };
    let headers = || {
        let folder = "usr/local/cuda-12.4/targets/x86_64-linux/include";
        let named = |layer: Layer, name: &str| layer.file(format!("{folder}/{name}"), header(name));
        named(named(Layer::new(), "cupti.h"), "cupti_version.h")
    };
    vec![
        layout(
            "runtime image, no CUPTI",
            NVIDIA,
            vec![Add(cudart()), LDCONFIG],
            "",
        ),
        layout(
            "devel image",
            NVIDIA,
            vec![Add(cudart()), Add(release(headers(), TOOLKIT)), LDCONFIG],
            "",
        ),
        layout(
            "devel image, ldconfig not run",
            NVIDIA,
            vec![Add(release(cudart(), TOOLKIT))],
            "",
        ),
        layout(
            "devel image of 12.8.1: lib64 on LD_LIBRARY_PATH",
            &[("LD_LIBRARY_PATH", "/usr/local/cuda/lib64")],
            vec![Add(release(toolkit(), TOOLKIT))],
            "",
        ),
        layout(
            "headers alone",
            NVIDIA,
            vec![Add(cudart()), Add(headers()), LDCONFIG],
            "",
        ),
        layout(
            "extras/CUPTI alone",
            NVIDIA,
            vec![Add(release(toolkit(), EXTRAS)), LDCONFIG],
            "",
        ),
        layout(
            "extras/CUPTI on LD_LIBRARY_PATH",
            &[(
                "LD_LIBRARY_PATH",
                "/usr/local/cuda/extras/CUPTI/lib64:/usr/local/cuda/lib64",
            )],
            vec![Add(release(toolkit(), EXTRAS))],
            "",
        ),
        layout(
            "soname link missing",
            NVIDIA,
            vec![Add(toolkit().file(
                format!("{TOOLKIT}/libcupti.so.2024.1.1"),
                cupti_12("libcupti.so.12"),
            ))],
            "",
        ),
        layout(
            "dangling soname link",
            NVIDIA,
            vec![
                Add(toolkit().symlink(format!("{TOOLKIT}/libcupti.so.12"), "libcupti.so.2024.1.1")),
                LDCONFIG,
            ],
            "",
        ),
        layout(
            "copy deleted, cache stale",
            NVIDIA,
            vec![
                Add(release(toolkit(), TOOLKIT)),
                LDCONFIG,
                Add(Layer::new().whiteout(format!("{TOOLKIT}/libcupti.so.2024.1.1"))),
            ],
            "",
        ),
        layout(
            "copy moved to extras, cache stale",
            NVIDIA,
            vec![
                Add(release(toolkit(), TOOLKIT)),
                LDCONFIG,
                Add(release(
                    Layer::new().whiteout(format!("{TOOLKIT}/libcupti.so.2024.1.1")),
                    EXTRAS,
                )),
            ],
            "",
        ),
    ]
}

fn wheels() -> Vec<Layout> {
    use Step::Add;
    vec![
        layout("pip, nobody asks", &[], vec![Add(wheel())], ""),
        layout(
            "pip, PyTorch with DT_RPATH",
            NVIDIA,
            vec![Add(wheel()), Add(torch(&[PIP_RPATH]))],
            "",
        ),
        layout(
            "pip, PyTorch with DT_RUNPATH",
            NVIDIA,
            vec![Add(wheel()), Add(torch(&[PIP_RUNPATH]))],
            "",
        ),
        layout(
            "pip, PyTorch without a search path",
            NVIDIA,
            vec![Add(wheel()), Add(torch(&[]))],
            "",
        ),
        layout(
            "pip, CUPTI deleted under PyTorch",
            NVIDIA,
            vec![
                Add(wheel()),
                Add(torch(&[PIP_RPATH])),
                Add(Layer::new().whiteout(format!("{SITE}/nvidia/cuda_cupti/lib/libcupti.so.12"))),
            ],
            "",
        ),
        layout(
            "pip, TensorFlow with DT_RUNPATH opens CUPTI",
            NVIDIA,
            vec![
                Add(wheel()),
                Add(opener(
                    "tensorflow/python/libtensorflow_cc.so.2",
                    PIP_RUNPATH,
                )),
            ],
            "",
        ),
        layout(
            "pip, JAX with DT_RPATH opens CUPTI",
            NVIDIA,
            vec![
                Add(wheel()),
                Add(opener(
                    "jax_plugins/xla_cuda12/xla_cuda_plugin.so",
                    PIP_RPATH,
                )),
            ],
            "",
        ),
        layout(
            "pip, a program of its own with DT_RPATH as conda's Python",
            &[],
            vec![
                Add(Layer::new().file(
                    "opt/conda/lib/libcupti.so.12",
                    patched(&cupti_12("libcupti.so.12"), &["--set-rpath", "$ORIGIN"]),
                )),
                Add(Layer::new().executable(
                    "opt/conda/bin/python3.11",
                    program(PROBE, &["-Wl,--disable-new-dtags,-rpath,$ORIGIN/../lib"]),
                )),
                Add(Layer::new().file(
                    "opt/conda/lib/python3.11/site-packages/torch/lib/libtorch_cpu.so",
                    object(TORCH, &["LIB12"]),
                )),
                Add(Layer::new().file(
                    "opt/conda/lib/python3.11/site-packages/x/libx.so",
                    object(OPENS_12, &[]),
                )),
            ],
            "",
        ),
    ]
}

fn debians() -> Vec<Layout> {
    use Step::{Add, InstallDeb};
    let torch_11 = || Layer::new().file("srv/libtorch_cpu.so", object(TORCH, &["LIB11"]));
    vec![
        layout(
            "Debian's libcupti11.8",
            &[],
            vec![InstallDeb, Add(torch_11())],
            "",
        ),
        layout(
            "Debian's libcupti11.8 and the toolkit's 12.4",
            NVIDIA,
            vec![
                InstallDeb,
                Add(release(toolkit(), TOOLKIT)),
                LDCONFIG,
                Add(torch_11()),
            ],
            "",
        ),
        layout(
            "Debian's libcupti11.8 without libgcc_s",
            &[],
            vec![
                InstallDeb,
                Add(Layer::new().whiteout("usr/lib/x86_64-linux-gnu/libgcc_s.so.1")),
            ],
            "",
        ),
    ]
}

fn mixtures() -> Vec<Layout> {
    use Step::Add;
    let old_as_new = || {
        Layer::new()
            .file("opt/old/libcupti.so.11.8", cupti_11())
            .symlink("opt/old/libcupti.so.12", "libcupti.so.11.8")
    };
    vec![
        layout(
            "11.8 under the name of 12 first on LD_LIBRARY_PATH",
            &[("LD_LIBRARY_PATH", "/opt/old")],
            vec![Add(old_as_new()), Add(wheel()), Add(torch(&[PIP_RUNPATH]))],
            "",
        ),
        layout(
            "11.8 under the name of 12 on LD_LIBRARY_PATH behind a DT_RPATH",
            &[("LD_LIBRARY_PATH", "/opt/old")],
            vec![Add(old_as_new()), Add(wheel()), Add(torch(&[PIP_RPATH]))],
            "",
        ),
        layout(
            "toolkit on LD_LIBRARY_PATH and pip: RUNPATH loses, RPATH wins",
            &[("LD_LIBRARY_PATH", "/usr/local/cuda/lib64")],
            vec![
                Add(release(toolkit(), TOOLKIT)),
                Add(wheel()),
                Add(torch(&[PIP_RPATH])),
                Add(opener(
                    "tensorflow/python/libtensorflow_cc.so.2",
                    PIP_RUNPATH,
                )),
                Add(opener(
                    "jax_plugins/xla_cuda12/xla_cuda_plugin.so",
                    PIP_RPATH,
                )),
            ],
            "",
        ),
        layout(
            "a symbol that a later CUPTI of the same soname dropped",
            NVIDIA,
            vec![Add(wheel()), Add(old_symbol())],
            "",
        ),
    ]
}

/// An object built against CUPTI 12.1, whose `cuptiDeviceGetTimestamp` is gone from 12.2 on.
fn old_symbol() -> Layer {
    let folder = tempfile::tempdir().unwrap();
    let (script, stub) = (
        folder.path().join("map"),
        folder.path().join("libcupti.so.12"),
    );
    std::fs::write(&script, "libcupti.so.12 { global: *; };").unwrap();
    let script = format!("-Wl,--version-script={}", script.display());
    let bytes = object(
        "unsigned cuptiDeviceGetTimestamp(void) { return 0; }",
        &["-Wl,-soname,libcupti.so.12", &script],
    );
    std::fs::write(&stub, bytes).unwrap();
    let source = "unsigned cuptiDeviceGetTimestamp(void); unsigned torch(void) { return cuptiDeviceGetTimestamp(); }";
    let torch = object(source, &[PIP_RPATH, "-Wl,-z,lazy", stub.to_str().unwrap()]);
    Layer::new().file(format!("{SITE}/torch/lib/libtorch_cpu.so"), torch)
}

fn damages() -> Vec<Layout> {
    use Step::Add;
    const PATH: &[(&str, &str)] = &[("LD_LIBRARY_PATH", "/opt/first:/opt/second")];
    let damaged = |name, first: Vec<u8>| {
        let layer = Layer::new()
            .file("opt/first/libcupti.so.12", first)
            .file("opt/second/libcupti.so.12", cupti_12("libcupti.so.12"));
        layout(name, PATH, vec![Add(layer)], "")
    };
    let cut = |bytes: usize| {
        let mut whole = cupti_12("libcupti.so.12");
        whole.truncate(bytes);
        whole
    };
    let whole = cupti_12("libcupti.so.12").len();
    vec![
        damaged(
            "a text file first",
            b"this stands in for a library and is long enough to be one, almost\n".repeat(3),
        ),
        damaged("an empty file first", Vec::new()),
        damaged("a copy of 40 bytes first", cut(40)),
        damaged("a copy of 1000 bytes first", cut(1000)),
        damaged("half a copy first", cut(whole / 2)),
        damaged(
            "a copy that lacks its section headers first",
            cut(whole - 64),
        ),
        damaged(
            "a copy for 32 bits first",
            Elf::library("libcupti.so.12")
                .class(Class::Elf32)
                .machine(Machine::I386)
                .build(),
        ),
        damaged(
            "a copy for AArch64 first",
            Elf::library("libcupti.so.12")
                .machine(Machine::Aarch64)
                .build(),
        ),
        damaged(
            "a copy that needs a newer glibc first",
            Elf::library("libcupti.so.12")
                .needed("libc.so.6")
                .verneed("libc.so.6", "GLIBC_2.99")
                .build(),
        ),
        layout(
            "a folder of that name first",
            PATH,
            vec![Add(Layer::new().dir("opt/first/libcupti.so.12").file(
                "opt/second/libcupti.so.12",
                cupti_12("libcupti.so.12"),
            ))],
            "",
        ),
        layout(
            "only a copy for 32 bits",
            PATH,
            vec![Add(Layer::new().file(
                "opt/second/libcupti.so.12",
                Elf::library("libcupti.so.12")
                    .class(Class::Elf32)
                    .machine(Machine::I386)
                    .build(),
            ))],
            "",
        ),
    ]
}

fn oddities() -> Vec<Layout> {
    use Step::Add;
    let one = |path: &str| Layer::new().file(path, cupti_12("libcupti.so.12"));
    let at = |name, env, path: &str| layout(name, env, vec![Add(one(path))], "");
    vec![
        at(
            "an empty element of LD_LIBRARY_PATH is the working directory",
            &[("LD_LIBRARY_PATH", "/nowhere:")],
            "libcupti.so.12",
        ),
        Layout {
            working_dir: "/srv",
            ..at(
                "the working directory of the config",
                &[("LD_LIBRARY_PATH", "/nowhere:")],
                "srv/libcupti.so.12",
            )
        },
        Layout {
            working_dir: "/srv",
            ..at(
                "a relative LD_LIBRARY_PATH",
                &[("LD_LIBRARY_PATH", "x/lib")],
                "srv/x/lib/libcupti.so.12",
            )
        },
        at(
            "a subdirectory for a level of the processor",
            &[("LD_LIBRARY_PATH", "/opt/lib")],
            "opt/lib/glibc-hwcaps/x86-64-v2/libcupti.so.12",
        ),
        at(
            "a subdirectory that glibc searched before 2.37",
            &[("LD_LIBRARY_PATH", "/opt/lib")],
            "opt/lib/tls/libcupti.so.12",
        ),
        at(
            "LD_PRELOAD",
            &[("LD_PRELOAD", "/opt/lib/libcupti.so.12")],
            "opt/lib/libcupti.so.12",
        ),
        layout(
            "ld.so.preload",
            &[],
            vec![Add(one("opt/lib/libcupti.so.12")
                .file("etc/ld.so.preload", "/opt/lib/libcupti.so.12\n"))],
            "",
        ),
        layout(
            "libgcc_s deleted under pip and PyTorch",
            NVIDIA,
            vec![
                Add(wheel()),
                Add(torch(&[PIP_RPATH])),
                Add(Layer::new().whiteout("usr/lib/x86_64-linux-gnu/libgcc_s.so.1")),
            ],
            "",
        ),
        layout(
            "a hard link as soname",
            &[("LD_LIBRARY_PATH", "/opt/lib")],
            vec![Add(one("opt/lib/libcupti.so.2024.1.1").hardlink(
                "opt/lib/libcupti.so.12",
                "opt/lib/libcupti.so.2024.1.1",
            ))],
            "",
        ),
        layout(
            "a default directory through the usr-merge",
            &[],
            vec![Add(one("usr/lib/x86_64-linux-gnu/libcupti.so.12"))],
            "",
        ),
        layout(
            "a folder hidden by an opaque mark",
            &[("LD_LIBRARY_PATH", "/opt/lib")],
            vec![
                Add(one("opt/lib/libcupti.so.12")),
                Add(Layer::new().whiteout("opt/lib")),
            ],
            "",
        ),
        layout(
            "a conf file that includes others",
            &[],
            vec![
                Add(release(
                    Layer::new()
                        .file(
                            "etc/ld.so.conf.d/a.conf",
                            "include /etc/cuda/*.conf # of ours\n",
                        )
                        .file("etc/cuda/x.conf", "/opt/x/\n"),
                    "opt/x",
                )),
                LDCONFIG,
            ],
            "",
        ),
    ]
}
const _: &str = PIP_PATH;
