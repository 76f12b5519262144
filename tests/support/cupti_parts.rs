//! NVIDIA's own files, and objects that request them, compiled on this machine.

use std::path::{Path, PathBuf};
use std::process::Command;

use testkit::layer::Layer;

use crate::support;

/// The folder of an unpacked wheel.
pub fn wheel(name: &str) -> PathBuf {
    support::parts().join("wheels").join(name)
}

/// A file of `nvidia-cuda-cupti-cu12` 12.4.127, by its name in the wheel's `lib` folder.
pub fn cupti_12(file: &str) -> Vec<u8> {
    let folder = wheel("nvidia-cuda-cupti-cu12-12.4.127/nvidia/cuda_cupti/lib");
    std::fs::read(folder.join(file)).unwrap()
}

/// `libcupti.so.11.8` of `nvidia-cuda-cupti-cu11` 11.8.87.
pub fn cupti_11() -> Vec<u8> {
    let folder = wheel("nvidia-cuda-cupti-cu11-11.8.87/nvidia/cuda_cupti/lib");
    std::fs::read(folder.join("libcupti.so.11.8")).unwrap()
}

/// A layer with all files of a wheel in `folder`, as installed by pip.
pub fn pip(layer: Layer, name: &str, folder: &str) -> Layer {
    let wheel = wheel(name);
    let mut layer = layer;
    let mut pending = vec![PathBuf::new()];
    while let Some(below) = pending.pop() {
        let mut found: Vec<_> = std::fs::read_dir(wheel.join(&below))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        found.sort();
        for path in found {
            let inside = path.strip_prefix(&wheel).unwrap().to_path_buf();
            let name = format!("{folder}/{}", inside.display());
            if path.is_dir() {
                pending.push(inside);
            } else {
                layer = layer.file(name, std::fs::read(&path).unwrap());
            }
        }
    }
    layer
}

/// Compiles a shared object from C source, with these linker arguments. `LIB12`, `LIB12.1` and `LIB11` stand for the
/// real libraries.
pub fn object(source: &str, arguments: &[&str]) -> Vec<u8> {
    compile(source, &[&["-shared", "-fPIC", "-nostartfiles"], arguments].concat())
}

/// Compiles a program from C source.
pub fn program(source: &str, arguments: &[&str]) -> Vec<u8> {
    compile(source, arguments)
}

/// Compiles a program from C++ source.
pub fn cpp_program(source: &str, arguments: &[&str]) -> Vec<u8> {
    compile_with("g++", "x.cc", source, arguments)
}

fn compile(source: &str, arguments: &[&str]) -> Vec<u8> {
    compile_with("gcc", "x.c", source, arguments)
}

fn compile_with(compiler: &str, file: &str, source: &str, arguments: &[&str]) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join(file), folder.path().join("x"));
    std::fs::write(&input, source).unwrap();
    let known = |word: &&str| match *word {
        "LIB12" => wheel("nvidia-cuda-cupti-cu12-12.4.127/nvidia/cuda_cupti/lib/libcupti.so.12"),
        "LIB12.1" => wheel("nvidia-cuda-cupti-cu12-12.1.105/nvidia/cuda_cupti/lib/libcupti.so.12"),
        "LIB11" => wheel("nvidia-cuda-cupti-cu11-11.8.87/nvidia/cuda_cupti/lib/libcupti.so.11.8"),
        other => PathBuf::from(other),
    };
    let result = Command::new(compiler)
        .arg("-o")
        .arg(&output)
        .arg(&input)
        .args(arguments.iter().map(known))
        .args(["-Wl,--allow-shlib-undefined", "-ldl"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&result.stderr);
    assert!(result.status.success(), "{compiler} {arguments:?}: {said}");
    std::fs::read(&output).unwrap()
}

/// Copies an object and changes it with patchelf.
pub fn patched(object: &[u8], arguments: &[&str]) -> Vec<u8> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), object).unwrap();
    let result = Command::new("patchelf")
        .args(arguments)
        .arg(file.path())
        .output()
        .unwrap();
    assert!(result.status.success(), "patchelf {arguments:?}");
    std::fs::read(file.path()).unwrap()
}

/// Whether all parts are present. Prints the missing one.
pub fn are_there() -> bool {
    let parts = [
        "bookworm",
        "bookworm.tar",
        "debs/libcupti11.8.deb",
        "wheels/nvidia-cuda-cupti-cu12-12.4.127",
        "wheels/nvidia-cuda-cupti-cu12-12.1.105",
        "wheels/nvidia-cuda-cupti-cu11-11.8.87",
        "wheels/nvidia-cuda-runtime-cu12-12.4.127",
    ];
    let programs = [("gcc", "gcc"), ("patchelf", "patchelf"), ("tar", "tar")];
    parts.iter().all(|part| support::part(part).is_some())
        && programs
            .iter()
            .all(|(program, package)| support::have(program, package))
        && support::is_root()
}

/// Debian's CUPTI library package.
pub fn deb() -> PathBuf {
    support::parts().join(Path::new("debs/libcupti11.8.deb"))
}
