//! A Debian for arm64 with NVIDIA's CUPTI for server Arm.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use image_linkage::layer::{self, ExpectedBlob, IndexOptions, LayerIndex};
use image_linkage::loader::{Arch, CpuLevel, DynamicLoader, run_ldconfig};
use image_linkage::rootfs::{NodeKind, Rootfs};
use testkit::elf::{Elf, Machine};

use super::{our_list, ours, real_list};
use crate::loader_tools::{Ran, Tools};
use crate::{loader_tree, support};

const LOADER: &str = "/lib/ld-linux-aarch64.so.1";
const TOOLKIT: &str = "usr/local/cuda-12.4/targets/sbsa-linux/lib";

/// The Debian root, read once.
static DEBIAN: LazyLock<LayerIndex> = LazyLock::new(|| {
    let root = support::parts().join("bookworm-arm64");
    tarred(&root, &["--exclude=./qemu", "."])
});

/// These paths of a root as a layer.
fn tarred(root: &Path, paths: &[&str]) -> LayerIndex {
    let mut tar = Command::new("tar");
    tar.arg("-C").arg(root).arg("-c").args(paths);
    let mut tar = tar.stdout(Stdio::piped()).spawn().unwrap();
    let blob = tar.stdout.take().unwrap();
    let index = layer::index_layer("arm64", blob, &ExpectedBlob::default(), &IndexOptions::default()).unwrap();
    // Status 1: a file's ctime changed while reading, because a concurrent test created a hard link to it.
    assert!(tar.wait().unwrap().code().is_some_and(|code| code <= 1));
    index
}

/// The Debian root, and the tools to run its programs.
fn parts() -> Option<(PathBuf, Tools)> {
    let root = support::part("bookworm-arm64")?;
    Some((root, Tools::new()?))
}

/// Runs a program of the root with its qemu.
fn run(tools: &Tools, root: &Path, words: &[&str]) -> Ran {
    tools.run(root, "/", &[], &[&["/qemu"], words].concat())
}

/// Traces a program as an argument of the loader.
fn trace(tools: &Tools, root: &Path, library_path: Option<&str>, program: &str) -> Ran {
    let variables = super::variables(library_path);
    tools.run(root, "/", &variables, &["/qemu", LOADER, program])
}

#[test]
fn tree_agrees_with_the_real_loader_of_arm64_on_every_executable() {
    let Some((root, tools)) = parts() else { return };
    let rootfs = loader_tree::merge([&DEBIAN, &loader_tree::index(&testkit::layer::Layer::new())]);
    let mut programs = Vec::new();
    rootfs.visit(|path, _, node| {
        if let NodeKind::File(file) = &node.kind
            && file.elf.as_ref().is_some_and(|elf| elf.interp.is_some())
        {
            programs.push(path.absolute());
        }
    });
    assert!(programs.len() > 100, "{} programs", programs.len());
    let programs: Vec<String> = programs
        .into_iter()
        .map(|path| String::from_utf8(path).unwrap())
        .collect();
    let all: Vec<u64> = (0..programs.len() as u64).collect();
    let failures = testkit::seeds::each_seed(&all, |nth| {
        let program = &programs[usize::try_from(nth).unwrap()];
        let ran = trace(&tools, &root, None, program);
        let ours = our_list(&ours(&rootfs, "arm64", program, None));
        let real = real_list(&ran.out);
        if ours == real {
            return Ok(());
        }
        Err(format!("{program}\n  ours {ours:?}\n  real {real:?}\n  {ran:?}"))
    });
    println!(
        "{} of {} executables of Debian's arm64 agree",
        programs.len() - failures.len(),
        programs.len()
    );
    testkit::seeds::report(&failures);
}

#[test]
fn the_simulated_ldconfig_agrees_with_the_real_one_of_arm64() {
    let Some((root, tools)) = parts() else { return };
    let rootfs = loader_tree::merge([&DEBIAN, &loader_tree::index(&testkit::layer::Layer::new())]);
    let linker = linker(&rootfs);
    let made = run_ldconfig(&rootfs, &linker, Vec::new());
    let mut ours: Vec<String> = made
        .cache
        .iter()
        .map(|(name, entry)| {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            format!("{} => {}", text(name), text(&entry.path))
        })
        .collect();
    ours.sort();
    let ran = run(&tools, &root, &["/sbin/ldconfig", "-p"]);
    let mut real: Vec<String> = ran
        .out
        .lines()
        .filter_map(|line| {
            let (name, path) = line.trim().split_once(" => ")?;
            Some(format!("{} => {path}", name.split(" (").next()?))
        })
        .collect();
    real.sort();
    assert!(real.len() > 50, "{ran:?}");
    assert_eq!(ours, real);
    println!("{} entries of arm64's ld.so.cache agree", real.len());
}

fn linker(rootfs: &Rootfs) -> DynamicLoader {
    let arch = Arch::of_platform("arm64").unwrap();
    DynamicLoader::find_default(rootfs, arch, CpuLevel::V1).unwrap()
}

/// A root with the real CUPTI in the layout of NVIDIA's packages, and a program that needs its libraries.
struct Layout {
    folder: tempfile::TempDir,
    tools: Tools,
    program: Elf,
}

impl Layout {
    fn new() -> Option<Self> {
        let (debian, tools) = parts()?;
        let wheel = support::part("wheels/nvidia-cuda-cupti-cu12-12.4.127-aarch64")?;
        let mut folder = tempfile::Builder::new();
        let folder = folder.prefix("root-").tempdir_in(support::parts()).unwrap();
        let mut copy = Command::new("cp");
        copy.args(["-al"]).arg(debian.join(".")).arg(folder.path());
        assert!(copy.status().unwrap().success());
        let to = folder.path().join(TOOLKIT);
        fs::create_dir_all(&to).unwrap();
        let from = wheel.join("nvidia/cuda_cupti/lib");
        fs::copy(from.join("libcupti.so.12"), to.join("libcupti.so.2024.1.1")).unwrap();
        for name in ["libnvperf_host.so", "libnvperf_target.so"] {
            fs::copy(from.join(name), to.join(name)).unwrap();
        }
        let cuda = folder.path().join("usr/local");
        symlink("cuda-12.4", cuda.join("cuda")).unwrap();
        symlink("targets/sbsa-linux/lib", cuda.join("cuda-12.4/lib64")).unwrap();
        fs::create_dir(folder.path().join("app")).unwrap();
        let program = Elf::executable()
            .machine(Machine::Aarch64)
            .interp(LOADER)
            .needed("libcupti.so.12")
            .needed("libnvperf_host.so");
        Some(Self { folder, tools, program })
    }

    fn file(self, path: &str, text: &str) -> Self {
        fs::write(self.folder.path().join(path), text).unwrap();
        self
    }

    /// The soname link that NVIDIA's packages contain.
    fn soname_link(self) -> Self {
        let link = self.folder.path().join(TOOLKIT).join("libcupti.so.12");
        symlink("libcupti.so.2024.1.1", link).unwrap();
        self
    }

    fn ldconfig(self) -> Self {
        // The file is a hard link to the original; replace it.
        fs::remove_file(self.folder.path().join("etc/ld.so.cache")).unwrap();
        let ran = run(&self.tools, self.folder.path(), &["/sbin/ldconfig"]);
        assert_eq!(ran.status, 0, "{ran:?}");
        self
    }

    /// Compares the libraries that both loaders load for the program.
    fn check(self, library_path: Option<&str>, expected: &[&str]) {
        let root = self.folder.path();
        fs::write(root.join("app/prog"), self.program.build()).unwrap();
        let ran = trace(&self.tools, root, library_path, "/app/prog");
        let added = tarred(root, &["./usr/local", "./etc", "./app"]);
        let rootfs = loader_tree::merge([&DEBIAN, &added]);
        let ours = our_list(&ours(&rootfs, "arm64", "/app/prog", library_path));
        assert_eq!(ours, real_list(&ran.out), "{ran:?}");
        let asked = ours
            .iter()
            .filter(|line| ["libcupti", "libnvperf"].iter().any(|name| line.starts_with(name)));
        assert_eq!(asked.collect::<Vec<_>>(), expected);
    }
}

const NOTHING: [&str; 2] = ["libcupti.so.12 => not found", "libnvperf_host.so => not found"];

#[test]
fn is_the_sbsa_toolkit_searched_without_being_told() {
    let Some(layout) = Layout::new() else { return };
    layout.soname_link().check(None, &NOTHING);
}

#[test]
fn is_a_configured_sbsa_toolkit_found_before_ldconfig_ran() {
    let Some(layout) = Layout::new() else { return };
    let conf = "/usr/local/cuda/targets/sbsa-linux/lib\n";
    layout
        .soname_link()
        .file("etc/ld.so.conf.d/000_cuda.conf", conf)
        .check(None, &NOTHING);
}

#[test]
fn is_a_configured_sbsa_toolkit_found_after_ldconfig_made_the_link() {
    let Some(layout) = Layout::new() else { return };
    let conf = "/usr/local/cuda/targets/sbsa-linux/lib\n";
    layout.file("etc/ld.so.conf.d/000_cuda.conf", conf).ldconfig().check(
        None,
        &[
            "libcupti.so.12 => /usr/local/cuda/targets/sbsa-linux/lib/libcupti.so.12",
            "libnvperf_host.so => /usr/local/cuda/targets/sbsa-linux/lib/libnvperf_host.so",
        ],
    );
}

#[test]
fn is_the_sbsa_toolkit_found_by_the_variable() {
    let Some(layout) = Layout::new() else { return };
    layout.soname_link().check(
        Some("/usr/local/cuda/lib64"),
        &[
            "libcupti.so.12 => /usr/local/cuda/lib64/libcupti.so.12",
            "libnvperf_host.so => /usr/local/cuda/lib64/libnvperf_host.so",
        ],
    );
}

#[test]
fn does_a_search_path_lead_through_the_names_of_the_platform() {
    let Some(mut layout) = Layout::new() else {
        return;
    };
    let path = "/opt/$PLATFORM:$ORIGIN/../usr/local/cuda/targets/sbsa-linux/lib:/opt/$LIB";
    layout.program = layout.program.runpath(path);
    layout.soname_link().check(
        None,
        &[
            "libcupti.so.12 => /app/../usr/local/cuda/targets/sbsa-linux/lib/libcupti.so.12",
            "libnvperf_host.so => /app/../usr/local/cuda/targets/sbsa-linux/lib/libnvperf_host.so",
        ],
    );
}

/// The subdirectories that glibc 2.36 searches on arm64, unordered.
const HARDWARE: [&str; 7] = [
    "atomics",
    "tls",
    "aarch64/atomics",
    "tls/aarch64",
    "aarch64",
    "tls/aarch64/atomics",
    "tls/atomics",
];

#[test]
fn which_subdirectory_of_the_hardware_comes_first_on_arm64() {
    let Some((debian, tools)) = parts() else {
        return;
    };
    let folder = tools.folder();
    let root = folder.path();
    for folder in ["lib/aarch64-linux-gnu", "app", "opt/a"] {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    fs::copy(debian.join("qemu"), root.join("qemu")).unwrap();
    fs::copy(debian.join(&LOADER[1..]), root.join(&LOADER[1..])).unwrap();
    let elf = |elf: Elf| elf.machine(Machine::Aarch64);
    let program = Elf::executable().interp(LOADER).runpath("/opt/a");
    fs::write(root.join("app/prog"), elf(program.needed("libx.so")).build()).unwrap();
    let library = elf(Elf::library("libx.so")).build();
    for below in HARDWARE {
        let folder = root.join("opt/a").join(below);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("libx.so"), &library).unwrap();
    }
    // Remove the loaded one until none is left.
    let mut taken = 0;
    loop {
        let ran = trace(&tools, root, None, "/app/prog");
        let real = real_list(&ran.out);
        let rootfs = loader_tree::merge([
            &loader_tree::index(&testkit::layer::Layer::new()),
            &loader_tree::read(root, &["qemu"]),
        ]);
        let ours = our_list(&ours(&rootfs, "arm64", "/app/prog", None));
        assert_eq!(ours, real, "{ran:?}");
        let path = real[0].strip_prefix("libx.so => ").unwrap();
        if path == "not found" {
            break;
        }
        fs::remove_file(root.join(&path[1..])).unwrap();
        taken += 1;
    }
    assert_eq!(taken, HARDWARE.len());
}
