//! Compiles helper programs, and runs programs in a root.

use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::support;
use testkit::run::run_unless_busy;

/// A directory for programs and roots, with the helper that enters a root.
pub struct Tools(tempfile::TempDir);

/// The result of a program.
#[derive(Debug, PartialEq, Eq)]
pub struct Ran {
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
    /// The exit status, or the negated signal.
    pub status: i32,
}

impl Tools {
    /// Compiles the tools; `None`, with a message, if a part is missing.
    pub fn new() -> Option<Self> {
        if !support::is_root() || !support::have("gcc", "gcc") {
            return None;
        }
        let tools = Self(tempfile::tempdir().unwrap());
        tools.compile("gcc", "in_root", &["-static"]);
        Some(tools)
    }

    /// Compiles `testdata/loader/NAME.c` with the given flags. Returns the path of the output.
    pub fn compile(&self, compiler: &str, name: &str, flags: &[&str]) -> PathBuf {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("testdata/loader/{name}.c"));
        let to = self.0.path().join(name);
        let mut command = Command::new(compiler);
        command.arg("-O1").arg("-o").arg(&to).arg(source).args(flags);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        to
    }

    /// A new directory for a root.
    pub fn folder(&self) -> tempfile::TempDir {
        let mut folder = tempfile::Builder::new();
        folder.prefix("case").tempdir_in(self.0.path()).unwrap()
    }

    /// Runs a program in a root with only these variables.
    pub fn run(&self, root: &Path, dir: &str, variables: &[String], program: &[&str]) -> Ran {
        let mut command = Command::new(self.0.path().join("in_root"));
        command.arg(root).arg(dir).arg(variables.len().to_string());
        command.args(variables).args(program);
        ran(&mut command)
    }
}

/// Runs a command that enters a root and starts a program there.
pub fn ran(command: &mut Command) -> Ran {
    let output = run_unless_busy(command);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let signal = output.status.signal().map(|signal| -signal);
    Ran {
        out: text(&output.stdout),
        err: text(&output.stderr),
        status: output.status.code().or(signal).unwrap(),
    }
}
