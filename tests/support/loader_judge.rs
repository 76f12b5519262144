//! The judge: the real `ld.so` and `ldconfig` of a Debian, run in the root of a case.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::loader_case::Case;
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
    tools: tempfile::TempDir,
}

/// What came of a program.
#[derive(Debug, PartialEq, Eq)]
pub struct Ran {
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
    /// The exit status, or minus the signal.
    pub status: i32,
}

impl Judge {
    /// The judge; `None` with a word about it where a part is missing.
    pub fn new() -> Option<Self> {
        let debian = support::part("bookworm")?;
        if !support::is_root() || !support::have("gcc", "gcc") {
            return None;
        }
        let judge = Self {
            debian,
            tools: tempfile::tempdir().unwrap(),
        };
        judge.compile("in_root", &["-static"]);
        Some(judge)
    }

    /// Compiles `testdata/loader/NAME.c` to a program, or to whatever the flags say, and returns its path.
    pub fn compile(&self, name: &str, flags: &[&str]) -> PathBuf {
        let source =
            Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("testdata/loader/{name}.c"));
        self.compile_as(&source, name, flags)
    }

    /// Compiles `source` to `name`.
    pub fn compile_as(&self, source: &Path, name: &str, flags: &[&str]) -> PathBuf {
        let to = self.tools.path().join(name);
        let mut gcc = Command::new("gcc");
        gcc.arg("-O1").arg("-o").arg(&to).arg(source).args(flags);
        let output = gcc.output().unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        to
    }

    /// Fills a new root with the case and with what the judge needs.
    pub fn root(&self, case: &Case) -> tempfile::TempDir {
        let root = tempfile::Builder::new()
            .prefix("case")
            .tempdir_in(self.tools.path())
            .unwrap();
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

    /// Puts a file of the Debian into a root.
    pub fn take(&self, from: &str, to: &Path) {
        let from = fs::canonicalize(self.debian.join(from)).unwrap();
        if fs::hard_link(&from, to).is_err() {
            fs::copy(&from, to).unwrap();
        }
    }

    /// Runs a program in a root, with these variables alone.
    pub fn run(&self, root: &Path, dir: &str, variables: &[String], program: &[&str]) -> Ran {
        let mut command = Command::new(self.tools.path().join("in_root"));
        command.arg(root).arg(dir).arg(variables.len().to_string());
        command.args(variables).args(program);
        ran(&command.output().unwrap())
    }

    /// Runs the case's program as the kernel would, with one more variable if there is one.
    pub fn start(&self, case: &Case, root: &Path, more: Option<&str>) -> Ran {
        let mut variables: Vec<String> = more.map(ToOwned::to_owned).into_iter().collect();
        let own = [
            ("LD_LIBRARY_PATH", &case.library_path),
            ("LD_PRELOAD", &case.preload),
        ];
        for (name, value) in own {
            variables.extend(value.as_ref().map(|value| format!("{name}={value}")));
        }
        self.run(root, case.working_dir, &variables, &[case.program.0])
    }

    /// Runs `ldconfig` in a root.
    pub fn ldconfig(&self, root: &Path, arguments: &[&str]) -> Ran {
        let program = [&["/judge/ldconfig"], arguments].concat();
        self.run(root, "/", &[], &program)
    }
}

/// Changes a root as the case does after `ldconfig` ran.
pub fn change(case: &Case, root: &Path) {
    for path in &case.deleted {
        if let Some(at) = loader_tree::host_path(root, path) {
            drop(fs::remove_file(at));
        }
    }
    case.added.write(root);
}

fn ran(output: &Output) -> Ran {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let signal = output.status.signal().map(|signal| -signal);
    Ran {
        out: text(&output.stdout),
        err: text(&output.stderr),
        status: output.status.code().or(signal).unwrap(),
    }
}

/// The variable `CUPTI_AUDIT_CASES`, which asks for other seeds than the usual: `FIRST-LAST`.
pub fn asked_seeds() -> Option<(u64, u64)> {
    let text: OsString = std::env::var_os("CUPTI_AUDIT_CASES")?;
    let text = text.into_string().unwrap();
    let (first, last) = text.split_once('-').unwrap_or((&text, &text));
    Some((first.parse().unwrap(), last.parse().unwrap()))
}
