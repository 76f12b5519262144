//! Does our musl search agree with the real `ld-musl`?
//!
//! Each question is a small root file system, an environment and a program. Debian's musl 1.2 lists and starts the
//! program, and a compiled program opens libraries; ours reads the same files. Loaded objects, failures and messages
//! must be equal.

#[path = "../support/musl_questions.rs"]
mod musl_questions;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::loader_tools::{Ran, Tools};
use crate::loader_tree::{host_path, write_file};
use image_linkage::layer::LayerIndex;
use image_linkage::loader::{
    Arch, CpuLevel, DynamicLoader, Libc, LoadResolution, LoaderEnvironment, ProcessSetup, SimulatedProcess, StartMode,
};
use image_linkage::rootfs::{FileCredentials, Rootfs};
use testkit::elf::Elf;
use testkit::layer::Layer;

/// The path of musl's loader in every root.
const LOADER: &str = "/lib/ld-musl-x86_64.so.1";
/// The path of the program.
const PROGRAM: &str = "/app/bin/prog";

/// A root file system with a program, and the environment.
#[derive(Debug, Clone, Default)]
struct Case {
    files: Vec<(String, Vec<u8>)>,
    links: Vec<(String, String)>,
    library_path: Option<String>,
    preload: Option<String>,
}

impl Case {
    fn by_hand(program: &Elf) -> Self {
        Self::default().file(PROGRAM, program.build())
    }

    fn file(mut self, path: &str, bytes: impl AsRef<[u8]>) -> Self {
        self.files.push((path.to_owned(), bytes.as_ref().to_vec()));
        self
    }

    fn link(mut self, path: &str, target: &str) -> Self {
        self.links.push((path.to_owned(), target.to_owned()));
        self
    }
}

/// The real loader.
struct Judge {
    tools: Tools,
    loader: PathBuf,
    /// The loader, as a layer.
    base: LayerIndex,
}

impl Judge {
    /// Builds the judge; `None`, with a message, if a part is missing.
    fn new() -> Option<Self> {
        let tools = Tools::new()?;
        let Ok(loader) = fs::canonicalize(LOADER) else {
            crate::support::missing(&format!("{LOADER} (Debian package musl)"));
            return None;
        };
        let base = Layer::new().executable(&LOADER[1..], fs::read(&loader).unwrap());
        Some(Self {
            base: crate::loader_tree::index(&base),
            tools,
            loader,
        })
    }

    /// Fills a new root with the case and the loader.
    fn root(&self, case: &Case) -> tempfile::TempDir {
        let root = self.tools.folder();
        let at = root.path();
        for folder in ["proc/self", "lib", "etc", "opt/a", "usr/bin", "app/bin"] {
            fs::create_dir_all(at.join(folder)).unwrap();
        }
        // The loader reads /proc/self/exe; without procfs a plain link works as well.
        symlink(PROGRAM, at.join("proc/self/exe")).unwrap();
        fs::copy(&self.loader, at.join(&LOADER[1..])).unwrap();
        for (path, bytes) in &case.files {
            write_file(&host_path(at, path).unwrap(), bytes);
        }
        for (path, target) in &case.links {
            symlink(target, host_path(at, path).unwrap()).unwrap();
        }
        root
    }

    /// The root as ours reads it.
    fn read(&self, root: &Path) -> Rootfs {
        let case = crate::loader_tree::read(root, &["proc", &LOADER[1..]]);
        crate::loader_tree::merge([&self.base, &case])
    }

    fn run(&self, case: &Case, root: &Path, program: &[&str]) -> Ran {
        self.tools.run(root, "/opt", &variables(case), program)
    }
}

fn variables(case: &Case) -> Vec<String> {
    let own = [("LD_LIBRARY_PATH", &case.library_path), ("LD_PRELOAD", &case.preload)];
    own.iter()
        .filter_map(|(name, value)| Some(format!("{name}={}", value.as_ref()?)))
        .collect()
}

/// Runs a simulated process in a root.
fn process<T>(rootfs: &Rootfs, case: &Case, act: impl FnOnce(&mut SimulatedProcess<'_>) -> T) -> T {
    let arch = Arch::of_platform("amd64").unwrap();
    let linker = DynamicLoader::find_default(rootfs, arch, CpuLevel::V1).unwrap();
    assert_eq!((linker.libc, &linker.problems), (Libc::Musl, &Vec::new()));
    let bytes = |text: &String| text.as_bytes().into();
    let environment = LoaderEnvironment {
        library_path: case.library_path.as_ref().map(bytes),
        preload: case.preload.as_ref().map(bytes),
        working_dir: "/opt".as_bytes().into(),
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
    act(&mut SimulatedProcess::new(&setup))
}

/// Compares a case, listed and started, and returns our result.
fn check(judge: &Judge, case: &Case) -> LoadResolution {
    let root = judge.root(case);
    let rootfs = judge.read(root.path());
    let [listed, started] = [StartMode::Listed, StartMode::Executed]
        .map(|start| process(&rootfs, case, |process| process.start(PROGRAM.as_bytes(), start)));
    let ran = judge.run(case, root.path(), &[LOADER, "--list", PROGRAM]);
    let mut real: Vec<&str> = ran.out.lines().filter_map(listed_path).collect();
    real.sort_unstable();
    assert_eq!(
        (loaded(&listed), errors(&listed)),
        (real.iter().map(|path| (*path).to_owned()).collect(), said(&ran)),
        "{case:?}"
    );
    let ran = judge.run(case, root.path(), &[PROGRAM]);
    let status = if started.loads() { 0 } else { 127 };
    assert_eq!((errors(&started), status), (said(&ran), ran.status), "{case:?}");
    started
}

/// The paths of the loaded objects without program and loader, sorted.
fn loaded(resolution: &LoadResolution) -> Vec<String> {
    let objects = resolution.objects.iter().enumerate();
    let others =
        objects.filter(|(number, object)| resolution.root != Some(*number) && *object.path != *LOADER.as_bytes());
    let mut paths: Vec<String> = others
        .map(|(_, object)| object.path.escape_ascii().to_string())
        .collect();
    paths.sort();
    paths
}

/// The path in a line of the list; `None` for the loader.
fn listed_path(line: &str) -> Option<&str> {
    let (_, path) = line
        .rsplit_once(" (")
        .map_or(line, |(head, _)| head)
        .split_once(" => ")?;
    (path != LOADER).then_some(path)
}

/// Our messages about missing and refused libraries.
fn errors(resolution: &LoadResolution) -> Vec<String> {
    let missing = resolution.unresolved.iter();
    missing.map(|missing| shortened(&missing.message)).collect()
}

/// The real loader's messages.
fn said(ran: &Ran) -> Vec<String> {
    let mut errors: Vec<String> = ran.err.lines().map(shortened).collect();
    // An object that cannot be relocated may have many relocations.
    errors.dedup_by(|one, other| one == other && one.starts_with("Error relocating "));
    errors
}

/// The line up to the path of an object that cannot be relocated.
fn shortened(line: &str) -> String {
    let end = line.find(": ").filter(|_| line.starts_with("Error relocating "));
    line[..end.unwrap_or(line.len())].to_owned()
}
