//! CUPTI from the CUDA toolkit, and images from which it was removed.

use testkit::layer::Layer;

use super::{EXTRAS, LDCONFIG, Layout, NVIDIA, Step, TOOLKIT, WHEEL_12, layout, release, toolkit};
use crate::cupti_parts::cupti_12;

/// The images.
#[expect(clippy::too_many_lines, reason = "one entry per layout")]
pub fn all() -> Vec<Layout> {
    use Step::Add;
    let cudart = || {
        let lib =
            crate::cupti_parts::wheel("nvidia-cuda-runtime-cu12-12.4.127/nvidia/cuda_runtime/lib/libcudart.so.12");
        toolkit().file(format!("{TOOLKIT}/libcudart.so.12"), std::fs::read(lib).unwrap())
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
        layout("runtime image, no CUPTI", NVIDIA, vec![Add(cudart()), LDCONFIG]),
        layout(
            "devel image",
            NVIDIA,
            vec![Add(cudart()), Add(release(headers(), TOOLKIT)), LDCONFIG],
        ),
        layout(
            "devel image, ldconfig not run",
            NVIDIA,
            vec![Add(release(cudart(), TOOLKIT))],
        ),
        layout(
            "devel image of 12.8.1: lib64 on LD_LIBRARY_PATH",
            &[("LD_LIBRARY_PATH", "/usr/local/cuda/lib64")],
            vec![Add(release(toolkit(), TOOLKIT))],
        ),
        layout("headers alone", NVIDIA, vec![Add(cudart()), Add(headers()), LDCONFIG]),
        layout(
            "extras/CUPTI alone",
            NVIDIA,
            vec![Add(release(toolkit(), EXTRAS)), LDCONFIG],
        ),
        layout(
            "extras/CUPTI on LD_LIBRARY_PATH",
            &[(
                "LD_LIBRARY_PATH",
                "/usr/local/cuda/extras/CUPTI/lib64:/usr/local/cuda/lib64",
            )],
            vec![Add(release(toolkit(), EXTRAS))],
        ),
        layout(
            "soname link missing",
            NVIDIA,
            vec![Add(toolkit().file(
                format!("{TOOLKIT}/libcupti.so.2024.1.1"),
                cupti_12("libcupti.so.12"),
            ))],
        ),
        layout(
            "dangling soname link",
            NVIDIA,
            vec![
                Add(toolkit().symlink(format!("{TOOLKIT}/libcupti.so.12"), "libcupti.so.2024.1.1")),
                LDCONFIG,
            ],
        ),
        layout(
            "dangling soname link, ldconfig not run",
            NVIDIA,
            vec![Add(
                toolkit().symlink(format!("{TOOLKIT}/libcupti.so.12"), "libcupti.so.2024.1.1")
            )],
        ),
        layout(
            "copy deleted, cache stale",
            NVIDIA,
            vec![
                Add(release(toolkit(), TOOLKIT)),
                LDCONFIG,
                Add(Layer::new().whiteout(format!("{TOOLKIT}/libcupti.so.2024.1.1"))),
            ],
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
        ),
    ]
}
