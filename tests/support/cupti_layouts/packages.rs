//! CUPTI from pip, conda and Debian, and the packages that request it.

use testkit::layer::Layer;

use super::{
    LDCONFIG, Layout, NVIDIA, OPENS_12, PIP_RPATH, PIP_RUNPATH, PROBE, SITE, Step, TOOLKIT, TORCH, layout, opener,
    release, toolkit, torch, wheel,
};
use crate::cupti_parts::{cupti_11, cupti_12, object, patched, program};

/// The images.
pub fn all() -> Vec<Layout> {
    [wheels(), debians(), mixtures()].into_iter().flatten().collect()
}

#[expect(clippy::too_many_lines, reason = "one entry per layout")]
fn wheels() -> Vec<Layout> {
    use Step::Add;
    vec![
        layout("pip, nobody asks", &[], vec![Add(wheel())]),
        layout(
            "pip, PyTorch with DT_RPATH",
            NVIDIA,
            vec![Add(wheel()), Add(torch(&[PIP_RPATH]))],
        ),
        layout(
            "pip, PyTorch with DT_RUNPATH",
            NVIDIA,
            vec![Add(wheel()), Add(torch(&[PIP_RUNPATH]))],
        ),
        layout(
            "pip, PyTorch without a search path",
            NVIDIA,
            vec![Add(wheel()), Add(torch(&[]))],
        ),
        layout(
            "pip, CUPTI deleted under PyTorch",
            NVIDIA,
            vec![
                Add(wheel()),
                Add(torch(&[PIP_RPATH])),
                Add(Layer::new().whiteout(format!("{SITE}/nvidia/cuda_cupti/lib/libcupti.so.12"))),
            ],
        ),
        layout(
            "pip, TensorFlow with DT_RUNPATH opens CUPTI",
            NVIDIA,
            vec![
                Add(wheel()),
                Add(opener("tensorflow/python/libtensorflow_cc.so.2", PIP_RUNPATH)),
            ],
        ),
        layout(
            "pip, TensorFlow opens CUPTI through another object, whose DT_RUNPATH does not lead to it",
            NVIDIA,
            vec![Add(wheel()), Add(through("-Wl,--enable-new-dtags,-rpath,$ORIGIN"))],
        ),
        layout(
            "pip, TensorFlow opens CUPTI through another object, whose DT_RUNPATH leads to it",
            NVIDIA,
            vec![Add(wheel()), Add(through(PIP_RUNPATH))],
        ),
        layout(
            "pip, JAX with DT_RPATH opens CUPTI",
            NVIDIA,
            vec![
                Add(wheel()),
                Add(opener("jax_plugins/xla_cuda12/xla_cuda_plugin.so", PIP_RPATH)),
            ],
        ),
        layout(
            "pip, a program of its own with DT_RPATH as conda's Python",
            &[],
            vec![
                Add(Layer::new().file(
                    "opt/conda/lib/libcupti.so.12",
                    patched(&cupti_12("libcupti.so.12"), &["--set-rpath", "$ORIGIN"]),
                )),
                Add(Layer::new().file("opt/conda/lib/python3.11/os.py", "")),
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
        ),
    ]
}

fn debians() -> Vec<Layout> {
    use Step::{Add, InstallDeb};
    let torch_11 = || Layer::new().file("srv/libtorch_cpu.so", object(TORCH, &["LIB11"]));
    vec![
        layout("Debian's libcupti11.8", &[], vec![InstallDeb, Add(torch_11())]),
        layout(
            "Debian's libcupti11.8 and the toolkit's 12.4",
            NVIDIA,
            vec![InstallDeb, Add(release(toolkit(), TOOLKIT)), LDCONFIG, Add(torch_11())],
        ),
        layout(
            "Debian's libcupti11.8 without libgcc_s",
            &[],
            vec![
                InstallDeb,
                Add(Layer::new().whiteout("usr/lib/x86_64-linux-gnu/libgcc_s.so.1")),
            ],
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
        ),
        layout(
            "11.8 under the name of 12 on LD_LIBRARY_PATH behind a DT_RPATH",
            &[("LD_LIBRARY_PATH", "/opt/old")],
            vec![Add(old_as_new()), Add(wheel()), Add(torch(&[PIP_RPATH]))],
        ),
        layout(
            "toolkit on LD_LIBRARY_PATH and pip: RUNPATH loses, RPATH wins",
            &[("LD_LIBRARY_PATH", "/usr/local/cuda/lib64")],
            vec![
                Add(release(toolkit(), TOOLKIT)),
                Add(wheel()),
                Add(torch(&[PIP_RPATH])),
                Add(opener("tensorflow/python/libtensorflow_cc.so.2", PIP_RUNPATH)),
                Add(opener("jax_plugins/xla_cuda12/xla_cuda_plugin.so", PIP_RPATH)),
            ],
        ),
        layout(
            "a symbol that a later CUPTI of the same soname dropped",
            NVIDIA,
            vec![Add(wheel()), Add(old_symbol())],
        ),
    ]
}

/// `TensorFlow` 2.17 from `PyPI`: `libtensorflow_cc.so.2` has CUPTI's folder in its `DT_RUNPATH`. The dlopen call is in
/// `libtensorflow_framework.so.2`, which is linked with `link`.
fn through(link: &str) -> Layer {
    let folder = tempfile::tempdir().unwrap();
    let framework = object(OPENS_12, &[link, "-Wl,-soname,libtensorflow_framework.so.2"]);
    let library = folder.path().join("libtensorflow_framework.so.2");
    std::fs::write(&library, &framework).unwrap();
    let own = format!("{PIP_RUNPATH}:$ORIGIN");
    let cc = object(
        "int tensorflow;",
        &[&own, "-Wl,--no-as-needed", library.to_str().unwrap()],
    );
    Layer::new()
        .file(
            format!("{SITE}/tensorflow/python/libtensorflow_framework.so.2"),
            framework,
        )
        .file(format!("{SITE}/tensorflow/python/libtensorflow_cc.so.2"), cc)
}

/// An object for CUPTI 12.1; CUPTI 12.2 removed its `cuptiDeviceGetTimestamp`.
fn old_symbol() -> Layer {
    let folder = tempfile::tempdir().unwrap();
    let (script, stub) = (folder.path().join("map"), folder.path().join("libcupti.so.12"));
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
