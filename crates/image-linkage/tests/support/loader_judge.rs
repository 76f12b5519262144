//! The judge: a Debian's real `ld.so` and `ldconfig`, run in the root of a case.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use super::loader_case::{CALLER, Case, Damage, PROGRAM, Paths};
use super::loader_tools::{Ran, Tools};
use super::loader_tree;
use super::support;

/// The loader's path in every root.
pub const LOADER: &str = "usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2";
/// Paths in every root that belong to the judge, not the case.
pub const OWN: [&str; 2] = ["judge", "proc"];

/// The real programs.
pub struct Judge {
    /// The Debian root.
    debian: PathBuf,
    /// The compiled helpers.
    tools: Tools,
    /// The compiled programs and libraries that call dlopen, by source and search paths.
    openers: Mutex<HashMap<(&'static str, Paths), Vec<u8>>>,
}

impl Judge {
    /// Builds the judge; `None`, with a message, if a part is missing.
    pub fn new() -> Option<Self> {
        let debian = support::part("bookworm")?;
        let tools = Tools::new()?;
        let openers = Mutex::default();
        Some(Self { debian, tools, openers })
    }

    /// Fills a new root with the case and the judge's files.
    pub fn root(&self, case: &Case) -> tempfile::TempDir {
        let root = self.tools.folder();
        let at = root.path();
        for directory in [
            "proc/self",
            "judge",
            "usr/lib/x86_64-linux-gnu",
            "etc/ld.so.conf.d",
            "opt/a",
            "opt/b",
            "usr/bin",
            "usr/lib64",
            "tmp",
        ] {
            fs::create_dir_all(at.join(directory)).unwrap();
        }
        // The loader reads /proc/self/exe; without procfs a plain link works as well.
        symlink(PROGRAM, at.join("proc/self/exe")).unwrap();
        self.take("lib/x86_64-linux-gnu/ld-linux-x86-64.so.2", &at.join(LOADER));
        self.take("sbin/ldconfig", &at.join("judge/ldconfig"));
        case.files.write(at);
        let interpreter = loader_tree::host_path(at, "/lib64/ld-linux-x86-64.so.2").unwrap();
        symlink(format!("/{LOADER}"), interpreter).unwrap();
        if let Some(opens) = &case.opens {
            self.take(DEBIAN_LIBC, &at.join(LIBC));
            let place = |path: &str, bytes: &[u8]| {
                loader_tree::write_file(&loader_tree::host_path(at, path).unwrap(), bytes);
            };
            place(PROGRAM, &self.opener("opener", &opens.program));
            if let Some(paths) = &opens.through {
                place(CALLER, &self.opener("caller", paths));
            }
        }
        root
    }

    /// The content of a Debian file, possibly behind a link.
    pub fn read(&self, from: &str) -> Vec<u8> {
        fs::read(self.real(from)).unwrap()
    }

    fn real(&self, path: &str) -> PathBuf {
        let path = loader_tree::host_path(&self.debian, path).unwrap();
        fs::canonicalize(path).unwrap()
    }

    /// Copies a Debian file into a root.
    pub fn take(&self, from: &str, to: &Path) {
        let from = self.real(from);
        if fs::hard_link(&from, to).is_err() {
            fs::copy(&from, to).unwrap();
        }
    }

    /// Runs a program in a root with only these variables.
    pub fn run(&self, root: &Path, dir: &str, variables: &[String], program: &[&str]) -> Ran {
        self.tools.run(root, dir, variables, program)
    }

    /// Runs the case's program like the kernel, with an optional extra variable.
    pub fn start(&self, case: &Case, root: &Path, more: Option<&str>) -> Ran {
        let variables = variables(case, more);
        self.run(root, case.working_dir(), &variables, &[case.program()])
    }

    /// Traces the case's program as an argument of the loader, as ldd may do.
    pub fn list(&self, case: &Case, root: &Path) -> Ran {
        let program = ["/lib64/ld-linux-x86-64.so.2", case.program()];
        let variables = variables(case, Some("LD_TRACE_LOADED_OBJECTS=1"));
        self.run(root, case.working_dir(), &variables, &program)
    }

    /// Runs the case's program that calls dlopen.
    pub fn open(&self, case: &Case, root: &Path) -> Ran {
        let opens = case.opens.as_ref().unwrap();
        let caller = if opens.through.is_some() { CALLER } else { "-" };
        let mut program = vec![case.program(), caller];
        program.extend(opens.names.iter().map(String::as_str));
        self.run(root, case.working_dir(), &variables(case, None), &program)
    }

    /// Runs `ldconfig` in a root.
    pub fn ldconfig(&self, root: &Path, arguments: &[&str]) -> Ran {
        let program = [&["/judge/ldconfig"], arguments].concat();
        self.run(root, "/", &[], &program)
    }
}

/// The path of the C library for programs that call dlopen.
pub const LIBC: &str = "usr/lib/x86_64-linux-gnu/libc.so.6";

/// Its path in the Debian root.
pub const DEBIAN_LIBC: &str = "lib/x86_64-linux-gnu/libc.so.6";

impl Judge {
    /// Compiles a program or library that calls dlopen, with these search paths.
    fn opener(&self, name: &'static str, paths: &Paths) -> Vec<u8> {
        let mut openers = self.openers.lock().unwrap();
        let build = || {
            let mut flags = paths.flags();
            if name == "caller" {
                flags.extend(["-shared".to_owned(), "-fPIC".to_owned()]);
            }
            let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
            fs::read(self.tools.compile("gcc", name, &flags)).unwrap()
        };
        let known = openers.entry((name, paths.clone()));
        known.or_insert_with(build).clone()
    }
}

impl Paths {
    /// The linker flags.
    fn flags(&self) -> Vec<String> {
        let dtags = [("disable", &self.rpath), ("enable", &self.runpath)];
        let mut flags: Vec<String> = dtags
            .into_iter()
            .filter_map(|(what, path)| Some(format!("-Wl,--{what}-new-dtags,-rpath,{}", path.as_ref()?)))
            .collect();
        if self.nodeflib {
            flags.push("-Wl,-z,nodefaultlib".to_owned());
        }
        flags
    }
}

/// The environment of a case, with an optional extra variable.
fn variables(case: &Case, more: Option<&str>) -> Vec<String> {
    let mut variables: Vec<String> = more.map(ToOwned::to_owned).into_iter().collect();
    variables.extend(case.processor.variable());
    let own = [("LD_LIBRARY_PATH", &case.library_path), ("LD_PRELOAD", &case.preload)];
    for (name, value) in own {
        variables.extend(value.as_ref().map(|value| format!("{name}={value}")));
    }
    variables
}

/// Applies the changes of a case after `ldconfig`.
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

/// Damages a cache in the new format.
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
