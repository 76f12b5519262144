//! The objects of generated images. Each kind is compiled once, and names and search paths are written into copies.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use super::damaged;
use super::spec::{Build, ObjectSpec};
use crate::support;

/// The placeholder for a name, as in `probe.c`.
const NAME: &str =
    "@NAME@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@";
/// The placeholder for a search path.
const PATH: &str = "@PATH@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@";

/// The compiler and the objects compiled so far.
pub struct Compiler {
    folder: tempfile::TempDir,
    made: Mutex<HashMap<(Build, SearchPathTag), Vec<u8>>>,
}

/// The dynamic tag of an object's search path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum SearchPathTag {
    None,
    Rpath,
    Runpath,
}

impl Compiler {
    /// The compiler. If it is missing, prints that and returns `None`.
    pub fn new() -> Option<Self> {
        if !support::have("gcc", "gcc") {
            return None;
        }
        let compiler = Self {
            folder: tempfile::tempdir().unwrap(),
            made: Mutex::default(),
        };
        // Programs link this library, whose soname is the placeholder.
        compiler.compile("stub.so", "probe.c", &flags(Build::Cupti, &compiler.path("")));
        compiler.compile(
            "uses.so",
            "probe.c",
            &["-shared", "-fPIC", "-DLIBRARY", "-DOPEN", SONAME],
        );
        compiler.compile(
            "more.so",
            "probe.c",
            &["-shared", "-fPIC", "-DMORE_LIBRARY", "-DMORE_DATA_LIBRARY", MORE_SONAME],
        );
        let torch = "-Wl,-soname,libtorch_cpu.so";
        compiler.compile("torch.so", "probe.c", &["-shared", "-fPIC", "-DEMPTY", torch]);
        Some(compiler)
    }

    /// The bytes of an object.
    pub fn object(&self, spec: &ObjectSpec) -> Vec<u8> {
        let (tag, path) = match (&spec.rpath, &spec.runpath) {
            (Some(path), _) => (SearchPathTag::Rpath, path.as_str()),
            (None, Some(path)) => (SearchPathTag::Runpath, path.as_str()),
            (None, None) => (SearchPathTag::None, ""),
        };
        let mut bytes = self.template(spec.build, tag);
        write_into(&mut bytes, NAME, &spec.name);
        write_into(&mut bytes, PATH, path);
        if let Some(damage) = spec.damage {
            damaged::apply(&mut bytes, damage);
        }
        bytes
    }

    /// A program with another `DT_RPATH`.
    pub fn with_rpath(&self, program: &Path, rpath: &str) -> Vec<u8> {
        let to = self.path(&format!("patched{}", rpath.replace('/', "-")));
        if !Path::new(&to).exists() {
            let new = tempfile::NamedTempFile::new_in(self.folder.path()).unwrap();
            std::fs::copy(program, new.path()).unwrap();
            let mut patchelf = Command::new("patchelf");
            patchelf.args(["--force-rpath", "--set-rpath", rpath]).arg(new.path());
            assert!(patchelf.status().unwrap().success());
            new.persist(&to).unwrap();
        }
        std::fs::read(to).unwrap()
    }

    /// A program that opens its argument.
    pub fn probe(&self) -> Vec<u8> {
        std::fs::read(self.compile("probe", "probe.c", &["-DOPEN", "-DASK"])).unwrap()
    }

    /// A static program of this machine, by the name of its source.
    pub fn tool(&self, source: &str) -> PathBuf {
        self.compile(source.trim_end_matches(".c"), source, &["-static"])
    }

    fn template(&self, build: Build, tag: SearchPathTag) -> Vec<u8> {
        let mut made = self.made.lock().unwrap();
        let compile = || {
            let dtags = match tag {
                SearchPathTag::None => None,
                SearchPathTag::Rpath => Some("disable"),
                SearchPathTag::Runpath => Some("enable"),
            };
            let path = dtags.map(|what| format!("-Wl,--{what}-new-dtags,-rpath,{PATH}"));
            let here = self.path("");
            let mut all = flags(build, &here);
            all.extend(path.as_deref());
            std::fs::read(self.compile("object", "probe.c", &all)).unwrap()
        };
        made.entry((build, tag)).or_insert_with(compile).clone()
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn compile(&self, name: &str, source: &str, flags: &[&str]) -> PathBuf {
        let source = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/support/processes")
            .join(source);
        let to = self.folder.path().join(name);
        let mut gcc = Command::new("gcc");
        gcc.args(["-O2", "-s", "-w", "-o"]).arg(&to).arg(source).args(flags);
        let output = gcc.output().unwrap();
        assert!(
            output.status.success(),
            "{gcc:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        to
    }
}

const SONAME: &str = "-Wl,-soname,@NAME@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@";

const MORE_SONAME: &str = "-Wl,-soname,libmore.so.1";
const FOREIGN_LOADER: &str = "-Wl,--dynamic-linker=/opt/loader/ld.so";

/// The compiler's arguments; `here` is the folder of the linked libraries.
fn flags(build: Build, here: &str) -> Vec<&'static str> {
    let kind: &[&str] = match build {
        Build::Cupti => &["-DCUPTI", SONAME],
        Build::CuptiStaticTls => &["-DCUPTI", "-DSTORAGE=1<<20", SONAME],
        Build::CuptiSomeTls => &["-DCUPTI", "-DSTORAGE=1600", SONAME],
        Build::CuptiUnboundNow => &["-DCUPTI", "-DUNBOUND", "-Wl,-z,now", SONAME],
        Build::CuptiUnbound => &["-DCUPTI", "-DUNBOUND", "-Wl,-z,lazy", SONAME],
        Build::Empty => &["-DEMPTY", SONAME],
        Build::Needs => &["-DEMPTY", "-Wl,--no-as-needed", "-l:stub.so"],
        Build::More => &["-DMORE_LIBRARY", SONAME],
        Build::MoreData => &["-DMORE_LIBRARY", "-DMORE_DATA_LIBRARY", SONAME],
        Build::UnboundData => &["-DUNBOUND_DATA"],
        Build::LinkData => &[
            "-DLINK",
            "-DPROGRAM",
            "-DMORE_DATA",
            "-no-pie",
            "-Wl,-z,lazy",
            "-l:stub.so",
            "-l:more.so",
        ],
        Build::OpenData => &["-DOPEN", "-DPROGRAM", "-DMORE_DATA", "-Wl,-z,lazy", "-l:more.so"],
        Build::ModuleUnbound => &["-DLINK", "-DMODULE", "-DUNBOUND", "-l:stub.so"],
        Build::LinkMore => &[
            "-DLINK",
            "-DPROGRAM",
            "-DMORE",
            "-Wl,-z,lazy",
            "-l:stub.so",
            "-l:more.so",
        ],
        Build::OpenMore => &["-DOPEN", "-DPROGRAM", "-DMORE", "-Wl,-z,lazy", "-l:more.so"],
        Build::LinkForeign => &["-DLINK", "-DPROGRAM", FOREIGN_LOADER, "-l:stub.so"],
        Build::OpenForeign => &["-DOPEN", "-DPROGRAM", FOREIGN_LOADER],
        Build::ModuleLinksMore => &["-DLINK", "-DMODULE", "-Wl,--no-as-needed", "-l:stub.so", "-l:more.so"],
        Build::Link => &["-DLINK", "-DPROGRAM", "-l:stub.so"],
        Build::Open => &["-DOPEN", "-DPROGRAM"],
        Build::OpenPattern => &["-DOPEN", "-DPATTERN", "-DPROGRAM"],
        Build::OpenImmediate => &["-DOPEN", "-DIMMEDIATE=\"libcupti.so.12\"", "-DPROGRAM"],
        Build::OpenBareImmediate => &["-DOPEN", "-DIMMEDIATE=\"libcupti.so\"", "-DPROGRAM"],
        Build::OpenNamespace => &["-DOPEN", "-DOTHER_NAMESPACE", "-DPROGRAM"],
        Build::OpenStatic => &["-DOPEN", "-DPROGRAM", "-static"],
        Build::OpenStaticPie => &["-DOPEN", "-DPROGRAM", "-static-pie", "-fPIE"],
        Build::Wrapper => &["-DWRAPPER"],
        Build::LibraryLinks => &["-DLINK", "-DLIBRARY", "-l:stub.so"],
        Build::LibraryOpens => &["-DOPEN", "-DLIBRARY"],
        Build::UsesLibrary => &["-DUSES", "-DPROGRAM", "-l:uses.so"],
        Build::ModuleLinks => &["-DLINK", "-DMODULE", "-l:stub.so"],
        Build::ModuleLinksTorch => &["-DLINK", "-DMODULE", "-Wl,--no-as-needed", "-l:stub.so", "-l:torch.so"],
        Build::ModuleOpens => &["-DOPEN", "-DMODULE"],
        Build::ModuleUsesLibrary => &["-DUSES", "-DMODULE", "-l:uses.so"],
    };
    let mut all = Vec::new();
    if !kind.contains(&"-DPROGRAM") && !kind.contains(&"-DWRAPPER") {
        all.extend(["-shared", "-fPIC"]);
    }
    all.extend(kind);
    // Leaked: there is only one folder per process.
    all.push(Box::leak(format!("-L{here}").into_boxed_str()));
    all
}

/// Replaces a placeholder by a text, if the object contains it.
fn write_into(bytes: &mut [u8], room: &str, text: &str) {
    assert!(text.len() < room.len(), "{text} is too long");
    let mut from = 0;
    while let Some(at) = find(&bytes[from..], room.as_bytes()) {
        let place = &mut bytes[from + at..from + at + room.len()];
        place.fill(0);
        place[..text.len()].copy_from_slice(text.as_bytes());
        from += at + room.len();
    }
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}
