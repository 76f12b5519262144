//! Generated cases for musl's loader: a small root file system, an environment and a program.

use std::fmt::{self, Write as _};
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use testkit::elf::{Class, Elf, Endian, Kind, Machine, df_1};

use super::loader_tree::host_path;
use testkit::random::Random;

/// The path of musl's loader in every root.
pub const LOADER: &str = "/lib/ld-musl-x86_64.so.1";
/// The file with the default directories.
pub const PATH_FILE: &str = "/etc/ld-musl-x86_64.path";

/// An entry of a case.
#[derive(Debug, Clone)]
pub enum Content {
    /// A directory.
    Folder,
    /// A file and its description.
    File(Vec<u8>, String),
    /// A symbolic link.
    Link(String),
    /// A hard link to this path.
    Same(String),
}

/// The case of one seed.
#[derive(Debug, Clone)]
pub struct Case {
    /// The seed.
    pub seed: u64,
    /// The entries. The first one at a path wins.
    pub files: Vec<(String, Content)>,
    /// `LD_LIBRARY_PATH`.
    pub library_path: Option<String>,
    /// `LD_PRELOAD`.
    pub preload: Option<String>,
    /// The working directory.
    pub working_dir: &'static str,
    /// The program: the path used to start it, and its real path.
    pub program: (&'static str, &'static str),
    /// Names that a program may open.
    pub names: Vec<String>,
}

/// The directories that may get libraries.
const DIRECTORIES: &[&str] = &[
    "/opt/a",
    "/opt/b",
    "/opt/a/sub",
    "/app/lib",
    "/app/bin",
    "/lib",
    "/usr/local/lib",
    "/usr/lib",
];

/// The names that objects need.
const NAMES: &[&str] = &[
    "liba.so.1",
    "libb.so.1",
    "libc1.so.10",
    "libd.so",
    "libmx.so.2",
    "libcrypt.so.1",
];

/// The names reserved by musl, and some lookalikes.
const OWN: &[&str] = &[
    "libc.so.6",
    "libc.so",
    "libc.musl-x86_64.so.1",
    "libpthread.so.0",
    "librt.so.1",
    "libm.so.6",
    "libdl.so.2",
    "libutil.so.1",
    "libxnet.so",
    "ld-musl-x86_64.so.1",
    LOADER,
    "libresolv.so.2",
    "libcc.so",
    "Libc.so",
];

/// Search path elements other than the directories.
const ELEMENTS: &[&str] = &[
    "$ORIGIN",
    "${ORIGIN}",
    "$ORIGIN/../a",
    "${ORIGIN}/../../opt/b",
    "$ORIGIN/../lib",
    "$ORIGINAL/a",
    "/opt/$LIB",
    "/opt/$",
    "${ORIGIN",
    "/opt/a/",
    "/opt/b///",
    "",
    ".",
    "opt/a",
    "../opt/b",
    "/",
    "/opt/missing",
    "/opt/link",
    "/opt/loop",
    "/opt/dangling",
    "/app/bin/prog",
    "/opt/a;/opt/b",
];

/// Possible contents of the file with the default directories.
const PATH_FILES: &[&str] = &[
    "",
    "\n",
    "/opt/a:/opt/b\n",
    "\n/opt/b\n\n/usr/lib/\n",
    "/opt/a/sub",
    "opt/b:/lib",
    "/lib:/usr/local/lib:/usr/lib\n",
    "/opt/a\0:/opt/b",
    "# none\n/opt/link\n/lib",
];

impl Case {
    /// A handmade case: a program started in `/`.
    pub fn by_hand(program: &Elf) -> Self {
        let case = Self {
            seed: 0,
            files: Vec::new(),
            library_path: None,
            preload: None,
            working_dir: "/",
            program: ("/app/bin/prog", "/app/bin/prog"),
            names: Vec::new(),
        };
        case.file("/app/bin/prog", program.build())
    }

    /// Adds a file.
    pub fn file(mut self, path: &str, bytes: impl AsRef<[u8]>) -> Self {
        let content = Content::File(bytes.as_ref().to_vec(), String::new());
        self.add(path, content);
        self
    }

    /// Adds a symbolic link.
    pub fn link(mut self, path: &str, target: &str) -> Self {
        self.add(path, Content::Link(target.to_owned()));
        self
    }

    fn add(&mut self, path: &str, content: Content) {
        if !self.files.iter().any(|(taken, _)| taken == path) {
            self.files.push((path.to_owned(), content));
        }
    }

    /// Writes the files under `root`.
    pub fn write(&self, root: &Path) {
        for (path, content) in &self.files {
            let Some(at) = host_path(root, path) else {
                continue;
            };
            if fs::symlink_metadata(&at).is_ok() {
                continue;
            }
            match content {
                Content::Folder => fs::create_dir(&at).unwrap(),
                Content::File(bytes, _) => {
                    fs::write(&at, bytes).unwrap();
                    fs::set_permissions(&at, fs::Permissions::from_mode(0o755)).unwrap();
                }
                Content::Link(target) => symlink(target, &at).unwrap(),
                Content::Same(target) => {
                    if let Some(from) = host_path(root, target) {
                        drop(fs::hard_link(from, &at));
                    }
                }
            }
        }
    }
}

/// Generates the case of a seed.
pub fn make(seed: u64) -> Case {
    let mut random = Random::new(seed);
    let random = &mut random;
    let mut case = Case {
        seed,
        files: Vec::new(),
        library_path: random.chance(50).then(|| search_path(random, ":\n")),
        preload: random.chance(15).then(|| preload(random)),
        working_dir: random.weighted(&[(4, "/"), (2, "/opt"), (1, "/opt/a")]),
        program: ("/app/bin/prog", "/app/bin/prog"),
        names: Vec::new(),
    };
    if random.chance(20) {
        case.add("/opt/loop", Content::Link("loop".to_owned()));
    }
    if random.chance(40) {
        let target = random.pick(&["a", "/opt/b", "../app/lib", "nowhere"]);
        case.add("/opt/link", Content::Link(target.to_owned()));
    }
    path_file(random, &mut case);
    for name in NAMES {
        for _ in 0..random.weighted(&[(1, 0), (4, 1), (4, 2), (2, 3)]) {
            copy(random, &mut case, name);
        }
    }
    if random.chance(70) {
        for name in NAMES {
            let (elf, words) = library(random, name);
            let path = format!("{}/{name}", random.pick(&["/lib", "/usr/lib"]));
            case.add(&path, Content::File(elf.build(), words));
        }
    }
    program(random, &mut case);
    for _ in 0..=random.below(3) {
        case.names.push(needed(random));
    }
    case
}

/// The same files with another program, and a library that calls dlopen for it.
pub fn make_open(seed: u64, program: Vec<u8>, caller: Vec<u8>) -> Case {
    let mut case = make(seed);
    case.files.retain(|(path, _)| *path != case.program.1);
    case.preload = None;
    case.program.0 = case.program.1;
    case.file("/app/bin/prog", program)
        .file("/app/caller/libcaller.so", caller)
}

fn path_file(random: &mut Random, case: &mut Case) {
    let content = match random.below(20) {
        0 => Content::Folder,
        1 => Content::Link("nowhere".to_owned()),
        2 => Content::Link("ld-musl-x86_64.path".to_owned()),
        3..11 => {
            let text = random.pick(PATH_FILES);
            Content::File(text.as_bytes().to_vec(), format!("{text:?}"))
        }
        _ => return,
    };
    case.add(PATH_FILE, content);
}

/// Adds a copy of a library to a directory, as a file or behind links.
fn copy(random: &mut Random, case: &mut Case, name: &str) {
    let own = format!("{}/{name}", random.pick(DIRECTORIES));
    let content = content(random, name);
    match random.below(14) {
        0 | 1 => {
            let target = format!("{}/{name}.0", random.pick(DIRECTORIES));
            case.add(&own, Content::Link(target.clone()));
            case.add(&target, content);
        }
        2 => case.add(&own, Content::Link("nowhere.so".to_owned())),
        3 => case.add(&own, Content::Link(name.to_owned())),
        4 => case.add(&own, Content::Folder),
        5 => case.add(&own, Content::Link("/app/bin/prog/x".to_owned())),
        6 => case.add(&own, Content::Link(LOADER.to_owned())),
        7 | 8 => {
            let other = format!("{}/{}", random.pick(DIRECTORIES), random.pick(NAMES));
            case.add(&own, content);
            case.add(&other, Content::Same(own));
        }
        _ => case.add(&own, content),
    }
}

/// A library or a lookalike.
fn content(random: &mut Random, name: &str) -> Content {
    let (elf, words) = library(random, name);
    let (elf, what) = match random.below(80) {
        0 => return Content::File(Vec::new(), "empty".to_owned()),
        1 => return Content::File(b"INPUT(liba.so.1)\n".to_vec(), "short text".to_owned()),
        2 => {
            let text = "GROUP ( /opt/a/liba.so.1 )".repeat(9);
            return Content::File(text.into_bytes(), "a linker script".to_owned());
        }
        3 => return Content::File(b"\x7fELF\x02\x01\x01".to_vec(), "cut".to_owned()),
        4 => (elf.class(Class::Elf32).machine(Machine::I386), "for i386"),
        5 => (elf.class(Class::Elf32), "for x32"),
        // musl detects the wrong machine at the first relocation.
        6 | 7 => (elf.machine(Machine::Aarch64).import("away"), "for aarch64"),
        8 => (elf.endian(Endian::Big).machine(Machine::Ppc64), "big-endian"),
        9 if name == "liba.so.1" => (elf.kind(Kind::Exec), "an executable at a fixed address"),
        10 => (elf.flags_1(df_1::PIE), "a program"),
        11 => (elf.statically_linked(), "without a dynamic section"),
        12 => {
            let mut bytes = elf.padding(0x4000).build();
            bytes.truncate(0x2000);
            return Content::File(bytes, format!("{words} truncated"));
        }
        13 => (elf.patched(), "patched"),
        14 => (elf.late_headers(), "late headers"),
        _ => (elf, ""),
    };
    Content::File(elf.build(), format!("{words} {what}"))
}

/// A valid library.
fn library(random: &mut Random, name: &str) -> (Elf, String) {
    let elf = match random.below(10) {
        0 => Elf::new(),
        1 => Elf::library("libz.so.9"),
        2 => Elf::library(random.pick(NAMES)),
        _ => Elf::library(name),
    };
    let needs = random.weighted(&[(4, 0), (3, 1), (2, 2), (1, 3)]);
    let (elf, words) = with_needs(random, elf, needs);
    with_paths(random, elf, words, 45)
}

fn program(random: &mut Random, case: &mut Case) {
    let elf = Elf::executable().interp(LOADER);
    let needs = random.below(4) + 1;
    let (elf, words) = with_needs(random, elf, needs);
    let (elf, words) = with_paths(random, elf, words, 60);
    case.add("/app/bin/prog", Content::File(elf.build(), words));
    if random.chance(20) {
        let target = "/app/bin/prog".to_owned();
        case.add("/usr/bin/prog", Content::Link(target));
        case.program.0 = "/usr/bin/prog";
    }
}

fn with_needs(random: &mut Random, mut elf: Elf, count: usize) -> (Elf, String) {
    let mut words = String::new();
    for _ in 0..count {
        let name = needed(random);
        let _ = write!(words, " needs {name:?}");
        elf = elf.needed(&name);
        // musl ignores versions.
        if !name.contains(['/', '$']) && random.chance(10) {
            elf = elf.verneed(&name, "V_9");
        }
    }
    (elf, words)
}

fn with_paths(random: &mut Random, mut elf: Elf, mut words: String, percent: usize) -> (Elf, String) {
    if random.chance(percent) {
        let path = search_path(random, ":");
        let which = random.below(9);
        if which != 0 && which < 5 {
            let _ = write!(words, " rpath {path:?}");
            elf = elf.rpath(path);
        } else {
            let _ = write!(words, " runpath {path:?}");
            elf = elf.runpath(path);
        }
        if which == 0 {
            let path = search_path(random, ":");
            let _ = write!(words, " rpath {path:?}");
            elf = elf.rpath(path);
        }
    }
    (elf, words)
}

fn needed(random: &mut Random) -> String {
    let name = random.pick(NAMES);
    match random.below(60) {
        0 => "libmissing.so.1".to_owned(),
        1 => format!("{}/{name}", random.pick(DIRECTORIES)),
        2 => format!("./{name}"),
        3 => format!("a/{name}"),
        4 => format!("$ORIGIN/{name}"),
        5 => format!("/opt/a/../b//{name}"),
        6 => format!("/opt/link/{name}"),
        7 => "libz.so.9".to_owned(),
        8 => "ld-linux-x86-64.so.2".to_owned(),
        9 => String::new(),
        10..18 => random.pick(OWN).to_owned(),
        _ => name.to_owned(),
    }
}

fn preload(random: &mut Random) -> String {
    let separator = random.pick(&[" ", ":", "\t", " :\n"]);
    let names: Vec<String> = (0..=random.below(2))
        .map(|_| needed(random))
        .filter(|name| !name.is_empty())
        .collect();
    names.join(separator)
}

/// A random search path.
fn search_path(random: &mut Random, separators: &str) -> String {
    let mut path = String::new();
    for nth in 0..random.weighted(&[(1, 0), (4, 1), (4, 2), (2, 3), (1, 5)]) {
        if nth > 0 {
            path.push(if random.chance(85) {
                ':'
            } else {
                separators.chars().next_back().unwrap()
            });
        }
        let plain = random.chance(65);
        path.push_str(random.pick(if plain { DIRECTORIES } else { ELEMENTS }));
    }
    path
}

impl fmt::Display for Case {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (program, directory) = (self.program.0, self.working_dir);
        writeln!(to, "seed {}: {program} in {directory}", self.seed)?;
        writeln!(to, "  LD_LIBRARY_PATH={:?}", self.library_path)?;
        writeln!(to, "  LD_PRELOAD={:?}", self.preload)?;
        for (path, content) in &self.files {
            match content {
                Content::Folder => writeln!(to, "  {path}/")?,
                Content::File(_, words) => writeln!(to, "  {path}:{words}")?,
                Content::Link(target) => writeln!(to, "  {path} -> {target}")?,
                Content::Same(target) => writeln!(to, "  {path} == {target}")?,
            }
        }
        Ok(())
    }
}
