//! Are images for other processors and distributions resolved like their own loaders do?
//!
//! The judges are glibc loaders built by Debian, run by user-mode qemu if necessary: a whole Debian for arm64, those of
//! the cross-compiling packages, and the one of `libc6-amd64-i386`. The last stands in for Red Hat's systems, whose
//! packages are not available: it runs on x86-64 and has `/lib64` and `/usr/lib64` first, followed by Debian's `/lib`
//! and `/usr/lib`.

#[path = "../support/other_arm64.rs"]
mod other_arm64;
#[path = "../support/other_loaders.rs"]
mod other_loaders;
#[path = "../support/other_moved.rs"]
mod other_moved;
#[path = "../support/other_rhel.rs"]
mod other_rhel;

use image_linkage::loader::{
    Arch, CpuLevel, DynamicLoader, LoadResolution, LoaderEnvironment, ProcessSetup, SearchStage, SimulatedProcess,
    StartMode,
};
use image_linkage::rootfs::{FileCredentials, Rootfs};

/// Lists a program as an argument of the loader of `platform`.
fn ours(rootfs: &Rootfs, platform: &str, program: &str, library_path: Option<&str>) -> LoadResolution {
    let arch = Arch::of_platform(platform).unwrap();
    let linker = DynamicLoader::find_default(rootfs, arch, CpuLevel::V1).unwrap();
    assert_eq!(linker.problems, [] as [String; 0]);
    let environment = LoaderEnvironment {
        library_path: library_path.map(|path| path.as_bytes().into()),
        preload: None,
        working_dir: (*b"/").into(),
        ..LoaderEnvironment::default()
    };
    let setup = ProcessSetup {
        rootfs,
        linker: &linker,
        environment: &environment,
        user: &FileCredentials::default(),
        cpu: CpuLevel::V1,
        from_driver: &|_| false,
    };
    SimulatedProcess::new(&setup).start(program.as_bytes(), StartMode::Listed)
}

/// The environment that makes a loader list its libraries.
fn variables(library_path: Option<&str>) -> Vec<String> {
    let path = library_path.map(|path| format!("LD_LIBRARY_PATH={path}"));
    let trace = "LD_TRACE_LOADED_OBJECTS=1".to_owned();
    path.into_iter().chain([trace]).collect()
}

/// The loader's list as we predict it, without addresses and the loader itself.
fn our_list(resolution: &LoadResolution) -> Vec<String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let objects = resolution.objects.iter().skip(1);
    let loaded = objects.filter(|object| object.how != SearchStage::Interpreter);
    let loaded = loaded.map(|object| format!("{} => {}", text(&object.name), text(&object.path)));
    let missing = resolution.unresolved.iter();
    let missing = missing.map(|missing| format!("{} => not found", text(&missing.name)));
    loaded.chain(missing).collect()
}

/// The real loader's list, in the same form.
fn real_list(out: &str) -> Vec<String> {
    let lines = out.lines().map(str::trim);
    let lines = lines.map(|line| line.rsplit_once(" (0x").map_or(line, |(head, _)| head));
    lines
        .filter(|line| line.contains(" => "))
        .map(ToOwned::to_owned)
        .collect()
}
