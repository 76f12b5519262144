//! Runs a case's command in a root and reads the probe's log.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::RwLock;

use container_start::LOADER_VARIABLES;
use testkit::parts;

use super::case_file::{Case, Shell};
use super::real_root::Template;

/// The PATH and HOME that engines set if the image does not.
const DEFAULTS: [(&str, &str); 2] = [
    ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
    ("HOME", "/root"),
];
/// The time limit of a run in seconds.
const TIME_LIMIT: &str = "10";

/// A file open for writing cannot be executed (ETXTBSY), and a forked child inherits open files. So only one thread
/// fills a root at a time, and no process starts meanwhile.
static WRITING: RwLock<()> = RwLock::new(());

/// A program that a real run started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RealStart {
    /// The absolute path, links resolved.
    pub path: String,
    /// The user ID.
    pub user: String,
    /// Its working directory.
    pub directory: String,
    /// The loader variables, in the order of [`LOADER_VARIABLES`].
    pub variables: [Option<String>; 4],
}

/// The templates, and the helper that starts a command in a root.
pub struct Judge {
    folder: tempfile::TempDir,
    debian: Template,
    debian_with_bash: Template,
    busybox: Template,
}

impl Judge {
    /// Builds the templates; `None`, with a message, if a part is missing.
    pub fn new() -> Option<Self> {
        let debian = parts::part("bookworm")?;
        let launchers = parts::part("launchers")?;
        if !parts::is_root() || !parts::have_all(&[("gcc", "gcc"), ("chroot", "coreutils"), ("find", "findutils")]) {
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let probe = compile(folder.path(), "probe", "probe", &["-static"]);
        let dynamic = compile(folder.path(), "probe", "dynamic", &[]);
        compile(folder.path(), "launch", "launch", &["-static"]);
        let judge = Self {
            debian: Template::debian(at("debian"), &debian, &launchers, "dash"),
            debian_with_bash: Template::debian(at("debian-bash"), &debian, &launchers, "bash"),
            busybox: Template::busybox(at("busybox"), &launchers),
            folder,
        };
        judge.debian.add_probes(&probe, Some(&dynamic));
        judge.debian_with_bash.add_probes(&probe, Some(&dynamic));
        judge.busybox.add_probes(&probe, None);
        Some(judge)
    }

    /// The template for a shell.
    pub fn template(&self, shell: Shell) -> &Template {
        match shell {
            Shell::Bash | Shell::Dash => &self.debian,
            Shell::Posix => &self.debian_with_bash,
            Shell::Busybox => &self.busybox,
        }
    }

    /// The overlay of a case: a directory with `upper` (the files of the case), `work` and `root`.
    pub fn overlay(&self, case: &Case, shell: Shell) -> tempfile::TempDir {
        let folder = tempfile::Builder::new()
            .prefix("case")
            .tempdir_in(self.folder.path())
            .unwrap();
        for name in ["upper", "work", "root"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let _alone = WRITING.write().unwrap();
        self.template(shell).fill(&folder.path().join("upper"), case, shell);
        folder
    }

    /// Runs the case's command. Returns the probe's records and the output.
    pub fn run(&self, overlay: &Path, case: &Case, shell: Shell) -> (Vec<RealStart>, String) {
        let mut command = Command::new(self.folder.path().join("launch"));
        let variables = environment(case);
        command
            .arg(overlay)
            .arg(&self.template(shell).path)
            .arg(&case.directory)
            .arg(case.user.to_string())
            .arg(TIME_LIMIT);
        command.arg(variables.len().to_string());
        command
            .args(variables.iter().map(|(name, value)| format!("{name}={value}")))
            .args(&case.words);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let started = {
            let _shared = WRITING.read().unwrap();
            command.spawn().unwrap()
        };
        let output = started.wait_with_output().unwrap();
        let printed = [output.stdout, output.stderr].concat();
        let printed = String::from_utf8_lossy(&printed).into_owned();
        let status = output.status.code();
        assert!(
            !matches!(status, Some(124 | 125)),
            "{}: status {status:?}: {printed}",
            case.name
        );
        (read_log(&fs::read(overlay.join("upper/probe.log")).unwrap()), printed)
    }
}

/// The environment of the command.
pub fn environment(case: &Case) -> Vec<(String, String)> {
    let defaults = DEFAULTS
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let mut variables: Vec<_> = defaults
        .filter(|(name, _)| case.environment.iter().all(|(own, _)| own != name))
        .collect();
    variables.extend(case.environment.iter().cloned());
    variables
}

fn compile(folder: &Path, source: &str, name: &str, flags: &[&str]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/judge/{source}.c"));
    let to = folder.join(name);
    let mut command = Command::new("gcc");
    let output = command
        .arg("-O1")
        .arg("-o")
        .arg(&to)
        .arg(source)
        .args(flags)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    to
}

fn read_log(log: &[u8]) -> Vec<RealStart> {
    let text = String::from_utf8_lossy(log).into_owned();
    let fields: Vec<&str> = text.split_terminator('\0').collect();
    let value = |field: &str| field.strip_prefix('=').map(str::to_owned);
    let records = fields.chunks(3 + LOADER_VARIABLES.len()).map(|record| RealStart {
        path: record[0].to_owned(),
        user: record[1].to_owned(),
        directory: record[2].to_owned(),
        variables: [record[3], record[4], record[5], record[6]].map(value),
    });
    records.collect()
}
