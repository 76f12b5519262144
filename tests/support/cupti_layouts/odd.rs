//! Unusual search paths.

use testkit::layer::Layer;

use super::{LDCONFIG, Layout, NVIDIA, PIP_RPATH, Step, TORCH, layout, release, torch, wheel};
use crate::cupti_parts::{cupti_12, object, patched};

/// The images.
#[expect(clippy::too_many_lines, reason = "one entry per layout")]
pub fn all() -> Vec<Layout> {
    use Step::Add;
    let one = |path: &str| Layer::new().file(path, cupti_12("libcupti.so.12"));
    let at = |name, env, path: &str| layout(name, env, vec![Add(one(path))]);
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
            vec![Add(
                one("opt/lib/libcupti.so.12").file("etc/ld.so.preload", "/opt/lib/libcupti.so.12\n")
            )],
        ),
        layout(
            "libgcc_s deleted under pip and PyTorch",
            NVIDIA,
            vec![
                Add(wheel()),
                Add(torch(&[PIP_RPATH])),
                Add(Layer::new().whiteout("usr/lib/x86_64-linux-gnu/libgcc_s.so.1")),
            ],
        ),
        layout(
            "a hard link as soname",
            &[("LD_LIBRARY_PATH", "/opt/lib")],
            vec![Add(
                one("opt/lib/libcupti.so.2024.1.1").hardlink("opt/lib/libcupti.so.12", "opt/lib/libcupti.so.2024.1.1")
            )],
        ),
        layout(
            "a default directory through the usr-merge",
            &[],
            vec![Add(one("usr/lib/x86_64-linux-gnu/libcupti.so.12"))],
        ),
        layout(
            "a folder hidden by an opaque mark",
            &[("LD_LIBRARY_PATH", "/opt/lib")],
            vec![
                Add(one("opt/lib/libcupti.so.12")),
                Add(one("opt/lib/other/libcupti.so.12").opaque("opt/lib")),
            ],
        ),
        layout(
            "LD_PRELOAD of a copy that lacks what it needs: no program starts",
            &[("LD_PRELOAD", "/opt/lib/libcupti.so.12")],
            vec![
                Add(one("opt/lib/libcupti.so.12")),
                Add(Layer::new().whiteout("usr/lib/x86_64-linux-gnu/libgcc_s.so.1")),
            ],
        ),
        layout(
            "LD_PRELOAD of a copy that is not there",
            &[
                ("LD_PRELOAD", "/opt/nowhere/libcupti.so.12"),
                ("LD_LIBRARY_PATH", "/opt/lib"),
            ],
            vec![Add(one("opt/lib/libcupti.so.12"))],
        ),
        layout(
            "two releases of one soname in one folder: ldconfig links the newer",
            &[],
            vec![
                Add(one("opt/lib/libcupti.so.2024.1.1").file("etc/ld.so.conf.d/x.conf", "/opt/lib\n")),
                Add(one("opt/lib/libcupti.so.2023.3.1").symlink("opt/lib/libcupti.so.12", "libcupti.so.2023.3.1")),
            ],
        ),
        layout(
            "two folders with one soname: the first in the order of the conf files wins",
            &[],
            vec![
                Add(one("opt/a/libcupti.so.12").file("etc/ld.so.conf.d/988_a.conf", "/opt/a\n")),
                Add(one("opt/b/libcupti.so.12").file("etc/ld.so.conf.d/000_b.conf", "/opt/b\n")),
                LDCONFIG,
            ],
        ),
        layout(
            "a level of the processor through the cache",
            &[],
            vec![
                Add(one("opt/lib/libcupti.so.12").file("etc/ld.so.conf.d/x.conf", "/opt/lib\n")),
                Add(one("opt/lib/glibc-hwcaps/x86-64-v2/libcupti.so.12")),
                LDCONFIG,
            ],
        ),
        layout(
            "a text file in a folder of ldconfig",
            &[],
            vec![
                Add(Layer::new()
                    .file("opt/a/libcupti.so.12", "a text\n".repeat(20))
                    .file("etc/ld.so.conf.d/x.conf", "/opt/a\n/opt/b\n")),
                Add(one("opt/b/libcupti.so.12")),
                LDCONFIG,
            ],
        ),
        layout(
            "a consumer that must not use the default directories",
            &[],
            vec![
                Add(one("usr/lib/x86_64-linux-gnu/libcupti.so.12")),
                LDCONFIG,
                Add(Layer::new().file("srv/libnodeflib.so", object(TORCH, &["-Wl,-z,nodefaultlib", "LIB12"]))),
            ],
        ),
        layout(
            "a consumer that was linked with a path",
            &[],
            vec![
                Add(one("opt/lib/libcupti.so.12")),
                Add(Layer::new().file(
                    "srv/libpath.so",
                    patched(
                        &object(TORCH, &["LIB12"]),
                        &["--replace-needed", "libcupti.so.12", "/opt/lib/libcupti.so.12"],
                    ),
                )),
            ],
        ),
        layout(
            "semicolons in LD_LIBRARY_PATH",
            &[("LD_LIBRARY_PATH", "/nowhere;/opt/lib/;/opt/lib")],
            vec![Add(one("opt/lib/libcupti.so.12"))],
        ),
        layout(
            "a conf file that includes others",
            &[],
            vec![
                Add(release(
                    Layer::new()
                        .file("etc/ld.so.conf.d/a.conf", "include /etc/cuda/*.conf # of ours\n")
                        .file("etc/cuda/x.conf", "/opt/x/\n"),
                    "opt/x",
                )),
                LDCONFIG,
            ],
        ),
    ]
}
