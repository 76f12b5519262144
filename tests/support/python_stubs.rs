//! Stubs for real modules and libraries, compiled once for all cases.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// The source of the objects.
const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/python_stubs.c");

/// The objects by name.
pub struct Stubs(BTreeMap<&'static str, Vec<u8>>);

impl Stubs {
    /// Compiles all objects.
    pub fn make() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut compiled = BTreeMap::new();
        let mut make = |name: &'static str, file: &str, arguments: &[&str]| {
            let path = folder.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            compile(folder.path(), &path, arguments);
            compiled.insert(name, std::fs::read(path).unwrap());
        };
        make("cupti12", "libcupti.so.12", &["-DCUPTI", "-Wl,-soname,libcupti.so.12"]);
        make("cupti13", "libcupti.so.13", &["-DCUPTI", "-Wl,-soname,libcupti.so.13"]);
        make("cudart", "libcudart.so.12", &["-Wl,-soname,libcudart.so.12"]);
        make("other", "other.so", &[]);
        make("nvperf", "libnvperf_host.so", &["-Wl,-soname,libnvperf_host.so"]);
        let takes = |name: &str| format!("-DMODULE={name}");
        let cupti = ["-DTAKES_CUPTI", "libcupti.so.12"];
        let own = "-Wl,--disable-new-dtags,-rpath,$ORIGIN/../nvidia/cuda_cupti/lib";
        make("_x", "_x.so", &[&[&*takes("_x")], &cupti[..]].concat());
        make(
            "_x-rpath",
            "_x-rpath.so",
            &[&[&*takes("_x")], &cupti[..], &[own]].concat(),
        );
        make(
            "nvrx",
            "nvrx.so",
            &[&[&*takes("nvrx_cupti_module")], &cupti[..]].concat(),
        );
        make("pathfinder", "pathfinder.so", &[&takes("cupti")]);
        let rpath = "-Wl,--disable-new-dtags,-rpath,$ORIGIN:$ORIGIN/../../nvidia/cuda_cupti/lib:$ORIGIN/../../nvidia/cuda_runtime/lib";
        make("deps", "libtorch_global_deps.so", &["libcudart.so.12", rpath]);
        let soname = "-Wl,-soname,libtorch_cpu.so";
        make(
            "torch_cpu",
            "libtorch_cpu.so",
            &[
                "-DMODULE=torch_cpu",
                "-DTAKES_CUPTI",
                "libcupti.so.12",
                "libcudart.so.12",
                rpath,
                soname,
            ],
        );
        let linked = [&*takes("own_op"), "libtorch_cpu.so", "libcupti.so.12", "-DTAKES_CUPTI"];
        make("own_op", "own_op.so", &linked);
        let lib = "-Wl,--disable-new-dtags,-rpath,$ORIGIN/lib";
        make("_C", "_C.so", &[&takes("_C"), "libtorch_cpu.so", lib]);
        let python = folder.path().join("python3.11");
        std::fs::copy(crate::support::parts().join("bookworm/usr/bin/python3.11"), &python).unwrap();
        let result = Command::new("patchelf")
            .args(["--force-rpath", "--set-rpath", "$ORIGIN/../lib"])
            .arg(&python)
            .output()
            .unwrap();
        assert!(result.status.success(), "patchelf");
        compiled.insert("conda-python", std::fs::read(python).unwrap());
        Self(compiled)
    }

    /// The bytes of one object.
    pub fn get(&self, name: &str) -> &[u8] {
        &self.0[name]
    }
}

fn compile(folder: &Path, output: &Path, arguments: &[&str]) {
    let result = Command::new("gcc")
        .current_dir(folder)
        .args(["-shared", "-fPIC", "-nostartfiles", "-o"])
        .arg(output)
        .arg(SOURCE)
        .args(["-Wl,--no-as-needed", "-Wl,--allow-shlib-undefined"])
        .args(arguments)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&result.stderr);
    assert!(result.status.success(), "gcc {arguments:?}: {said}");
}
