//! The judge: the real `ld.so` and `ldconfig` of a Debian, run in the root of a case.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::loader_case::{Case, Damage};
use super::loader_tools::{Ran, Tools};
use super::loader_tree;
use super::support;

/// Where the loader lies in every root.
pub const LOADER: &str = "usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2";
/// What lies in every root for the judge alone, and is no part of the case.
pub const OWN: [&str; 2] = ["judge", "proc"];

/// The programs that judge.
pub struct Judge {
    /// The Debian.
    debian: PathBuf,
    /// The compiled helpers.
    tools: Tools,
}

impl Judge {
    /// The judge; `None` with a word about it where a part is missing.
    pub fn new() -> Option<Self> {
        let debian = support::part("bookworm")?;
        let tools = Tools::new()?;
        Some(Self { debian, tools })
    }

    /// Fills a new root with the case and with what the judge needs.
    pub fn root(&self, case: &Case) -> tempfile::TempDir {
        let root = self.tools.folder();
        let at = root.path();
        fs::create_dir_all(at.join("proc/self")).unwrap();
        fs::create_dir_all(at.join("judge")).unwrap();
        fs::create_dir_all(at.join("lib64")).unwrap();
        fs::create_dir_all(at.join("usr/lib/x86_64-linux-gnu")).unwrap();
        fs::create_dir_all(at.join("etc/ld.so.conf.d")).unwrap();
        for directory in ["opt/a", "opt/b", "usr/bin", "tmp"] {
            fs::create_dir_all(at.join(directory)).unwrap();
        }
        // The loader asks the kernel where the program lies; without its file system it reads a link just so.
        symlink(case.program.1, at.join("proc/self/exe")).unwrap();
        self.take(
            "lib/x86_64-linux-gnu/ld-linux-x86-64.so.2",
            &at.join(LOADER),
        );
        symlink(format!("/{LOADER}"), at.join("lib64/ld-linux-x86-64.so.2")).unwrap();
        self.take("sbin/ldconfig", &at.join("judge/ldconfig"));
        case.tree.write(at);
        root
    }

    /// The bytes of a file of the Debian, which a link of the host may lead to.
    pub fn read(&self, from: &str) -> Vec<u8> {
        fs::read(self.real(from)).unwrap()
    }

    fn real(&self, path: &str) -> PathBuf {
        let path = loader_tree::host_path(&self.debian, path).unwrap();
        fs::canonicalize(path).unwrap()
    }

    /// Puts a file of the Debian into a root.
    pub fn take(&self, from: &str, to: &Path) {
        let from = self.real(from);
        if fs::hard_link(&from, to).is_err() {
            fs::copy(&from, to).unwrap();
        }
    }

    /// Runs a program in a root, with these variables alone.
    pub fn run(&self, root: &Path, dir: &str, variables: &[String], program: &[&str]) -> Ran {
        self.tools.run(root, dir, variables, program)
    }

    /// Runs the case's program as the kernel would, with one more variable if there is one.
    pub fn start(&self, case: &Case, root: &Path, more: Option<&str>) -> Ran {
        self.run(
            root,
            case.working_dir,
            &variables(case, more),
            &[case.program.0],
        )
    }

    /// Traces the case's program as an argument of the loader, as ldd may.
    pub fn list(&self, case: &Case, root: &Path) -> Ran {
        let program = ["/lib64/ld-linux-x86-64.so.2", case.program.0];
        let trace = Some("LD_TRACE_LOADED_OBJECTS=1");
        self.run(root, case.working_dir, &variables(case, trace), &program)
    }

    /// Runs the program of a dlopen case: it opens the case's names, through a library unless that is `-`.
    pub fn open(&self, case: &Case, root: &Path, caller: &str) -> Ran {
        let path = case.library_path.iter();
        let variables: Vec<String> = path.map(|path| format!("LD_LIBRARY_PATH={path}")).collect();
        let mut program = vec![case.program.0, caller];
        program.extend(case.names.iter().map(String::as_str));
        self.run(root, case.working_dir, &variables, &program)
    }

    /// Runs `ldconfig` in a root.
    pub fn ldconfig(&self, root: &Path, arguments: &[&str]) -> Ran {
        let program = [&["/judge/ldconfig"], arguments].concat();
        self.run(root, "/", &[], &program)
    }
}

/// Where the C library of the programs that open lies.
pub const LIBC: &str = "usr/lib/x86_64-linux-gnu/libc.so.6";

/// Where it lies in the Debian.
pub const DEBIAN_LIBC: &str = "lib/x86_64-linux-gnu/libc.so.6";

/// The ways to write a search path into an object: none, `DT_RPATH`, `DT_RUNPATH`.
const PATHS: [&str; 9] = [
    "",
    "-Wl,--disable-new-dtags,-rpath,$ORIGIN/../lib:/opt/a",
    "-Wl,--disable-new-dtags,-rpath,/opt/b/:/srv/$PLATFORM:/usr/local/lib",
    "-Wl,--disable-new-dtags,-rpath,/opt/missing:.",
    "-Wl,--enable-new-dtags,-rpath,$ORIGIN/../lib:/opt/b",
    "-Wl,--enable-new-dtags,-rpath,/opt/${LIB}:/opt/a/sub:/usr/local/lib",
    "-Wl,--enable-new-dtags,-rpath,/usr/lib",
    "-Wl,-z,nodefaultlib,--disable-new-dtags,-rpath,/opt/a:/usr/lib/x86_64-linux-gnu",
    "-Wl,-z,nodefaultlib,--enable-new-dtags,-rpath,/opt/b:/usr/lib/x86_64-linux-gnu",
];

impl Judge {
    /// Programs that open libraries, and libraries that do, one for each kind of search path.
    pub fn openers(&self) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
        let build = |name, more: &[&str]| {
            PATHS.map(|path| {
                let flags: Vec<&str> = [&[path], more]
                    .concat()
                    .into_iter()
                    .filter(|flag| !flag.is_empty())
                    .collect();
                fs::read(self.tools.compile("gcc", name, &flags)).unwrap()
            })
        };
        (
            build("opener", &[]).into(),
            build("caller", &["-shared", "-fPIC"]).into(),
        )
    }
}

/// The environment of a case, with one more variable if there is one.
fn variables(case: &Case, more: Option<&str>) -> Vec<String> {
    let mut variables: Vec<String> = more.map(ToOwned::to_owned).into_iter().collect();
    let own = [
        ("LD_LIBRARY_PATH", &case.library_path),
        ("LD_PRELOAD", &case.preload),
    ];
    for (name, value) in own {
        variables.extend(value.as_ref().map(|value| format!("{name}={value}")));
    }
    variables
}

/// Changes a root as the case does after `ldconfig` ran.
pub fn change(case: &Case, root: &Path) {
    for path in &case.deleted {
        if let Some(at) = loader_tree::host_path(root, path) {
            drop(fs::remove_file(at));
        }
    }
    case.added.write(root);
    if let Some(damage) = case.damage {
        let at = root.join("etc/ld.so.cache");
        let cache = fs::read(&at).unwrap();
        fs::write(at, damaged(cache, damage)).unwrap();
    }
}

/// A cache in the new format with damage.
fn damaged(mut cache: Vec<u8>, damage: Damage) -> Vec<u8> {
    match damage {
        Damage::Cut(part) => {
            let count = u32::from_le_bytes(cache[20..24].try_into().unwrap());
            let entries = 48 + 24 * usize::try_from(count).unwrap();
            cache.truncate(entries * part / 100);
        }
        Damage::Magic => cache[0] ^= 1,
        Damage::Count => cache[20..24].copy_from_slice(&1_000_000_u32.to_le_bytes()),
        Damage::Order => cache[28] = 3,
    }
    cache
}
