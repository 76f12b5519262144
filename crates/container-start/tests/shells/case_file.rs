//! The format of the cases under `tests/data`. A file has several cases; each has its requirements and a script.
//!
//! ```text
//! === NAME [| SHELL...]         bash, dash, busybox, posix (bash as sh); default: the first three
//! env: NAME=VALUE               a variable of the image
//! user: 1000                    the user of the command
//! dir: /path                    the working directory
//! run: WORD...                  the command; default: /entry.sh. Single quotes keep a word together
//! needs: /path                  a program that some roots lack; without it the case is skipped
//! folder: /path [MODE [USER]]
//! link: /path TARGET
//! crlf:                         the lines of the script end in CR LF
//! file: /path MODE <<END        a file, up to the line END; `#!SHELL` at its start is replaced by the case's shell
//! any other line starts /entry.sh, up to the next case; it gets a `#!` line unless it has one
//! ```

use std::fs;
use std::path::{Path, PathBuf};

/// A shell that runs a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shell {
    /// bash; `sh` is dash.
    Bash,
    /// dash as `sh`.
    Dash,
    /// `BusyBox` for `sh` and every other program.
    Busybox,
    /// bash as `sh`.
    Posix,
}

impl Shell {
    /// The name in a case file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bash => "bash",
            Self::Dash => "dash",
            Self::Busybox => "busybox",
            Self::Posix => "posix",
        }
    }

    /// The interpreter path for its scripts.
    pub fn interpreter(self) -> &'static str {
        match self {
            Self::Bash => "/bin/bash",
            Self::Dash | Self::Busybox | Self::Posix => "/bin/sh",
        }
    }

    fn named(name: &str) -> Option<Self> {
        let all = [Self::Bash, Self::Dash, Self::Busybox, Self::Posix];
        all.into_iter().find(|shell| shell.name() == name)
    }
}

/// A file of a case.
#[derive(Debug, Clone)]
pub struct CaseFile {
    /// Its absolute path.
    pub path: String,
    /// The permission bits.
    pub mode: u32,
    /// The text; `#!SHELL` is not replaced yet.
    pub text: String,
}

/// A directory of a case.
#[derive(Debug, Clone)]
pub struct CaseFolder {
    /// Its absolute path.
    pub path: String,
    /// The permission bits.
    pub mode: u32,
    /// The owner's user ID.
    pub owner: u32,
}

/// A command with its files and variables.
#[derive(Debug, Clone, Default)]
pub struct Case {
    /// The question it answers.
    pub name: String,
    /// The shells that run it.
    pub shells: Vec<Shell>,
    /// The variables of the image.
    pub environment: Vec<(String, String)>,
    /// The user ID.
    pub user: u32,
    /// The working directory.
    pub directory: String,
    /// The command.
    pub words: Vec<String>,
    /// Paths that the case needs. Without them it is skipped.
    pub needs: Vec<String>,
    /// Directories, created before the files.
    pub folders: Vec<CaseFolder>,
    /// Files, without the entry script.
    pub files: Vec<CaseFile>,
    /// Links and their targets.
    pub links: Vec<(String, String)>,
    /// Whether the lines of the script end in CR LF.
    pub has_carriage_returns: bool,
    /// The content of `/entry.sh`; empty if there is none.
    pub script: String,
}

impl Case {
    /// All files with the shell's interpreter filled in.
    pub fn files_for(&self, shell: Shell) -> Vec<CaseFile> {
        let mut files = self.files.clone();
        if !self.script.is_empty() {
            let head = if self.script.starts_with("#!") { "" } else { "#!SHELL\n" };
            files.push(CaseFile {
                path: "/entry.sh".to_owned(),
                mode: 0o755,
                text: format!("{head}{}", self.script),
            });
        }
        for file in &mut files {
            if let Some(rest) = file.text.strip_prefix("#!SHELL") {
                file.text = format!("#!{}{rest}", shell.interpreter());
            }
            if self.has_carriage_returns && file.path == "/entry.sh" {
                let (head, body) = file.text.split_once('\n').unwrap();
                file.text = format!("{head}\n{}", body.replace('\n', "\r\n"));
            }
        }
        files
    }
}

/// The cases of all files `tests/data/FOLDER/*.cases`, ordered by name.
pub fn read_cases(folder: &str) -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(folder);
    let mut paths: Vec<PathBuf> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "cases"))
        .collect();
    paths.sort();
    let cases: Vec<Case> = paths.iter().flat_map(|path| read_file(path)).collect();
    for (number, case) in cases.iter().enumerate() {
        let is_new = cases.iter().take(number).all(|other| other.name != case.name);
        assert!(is_new, "two cases have the name `{}`", case.name);
    }
    cases
}

fn read_file(path: &Path) -> Vec<Case> {
    let text = fs::read_to_string(path).unwrap();
    let mut cases: Vec<Case> = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(head) = line.strip_prefix("=== ") {
            cases.push(new_case(head));
            continue;
        }
        let Some(case) = cases.last_mut() else { continue };
        if !case.script.is_empty() {
            case.script += line;
            case.script += "\n";
        } else if let Some(file) = line.strip_prefix("file: ") {
            let words: Vec<&str> = file.split_whitespace().collect();
            let [path, mode, end] = words[..] else {
                panic!("{}: `{line}` is not `file: PATH MODE <<END`", case.name)
            };
            let end = end.strip_prefix("<<").unwrap();
            let text: String = lines
                .by_ref()
                .take_while(|line| *line != end)
                .flat_map(|line| [line, "\n"])
                .collect();
            case.files.push(CaseFile {
                path: path.to_owned(),
                mode: mode_of(mode),
                text,
            });
        } else if !line.is_empty() && !read_directive(case, line) {
            case.script = format!("{line}\n");
        }
    }
    for case in &mut cases {
        // Blank lines separate cases.
        case.script.truncate(case.script.trim_end_matches('\n').len());
        if !case.script.is_empty() {
            case.script += "\n";
        }
    }
    cases
}

fn new_case(head: &str) -> Case {
    let (name, shells) = head.split_once(" | ").unwrap_or((head, "bash dash busybox"));
    let named = |shell: &str| Shell::named(shell).unwrap_or_else(|| panic!("{name}: no shell `{shell}`"));
    Case {
        name: name.to_owned(),
        shells: shells.split_whitespace().map(named).collect(),
        directory: "/".to_owned(),
        words: vec!["/entry.sh".to_owned()],
        ..Case::default()
    }
}

/// Parses a line before the script. Returns false if it is the first line of the script.
fn read_directive(case: &mut Case, line: &str) -> bool {
    let Some((key, value)) = line.split_once(':') else {
        return false;
    };
    let value = value.trim_start();
    match key {
        "env" => {
            let (name, value) = value.split_once('=').unwrap();
            case.environment.push((name.to_owned(), value.to_owned()));
        }
        "user" => case.user = value.parse().unwrap(),
        "dir" => value.clone_into(&mut case.directory),
        "run" => case.words = words_of(value),
        "needs" => case.needs.push(value.to_owned()),
        "folder" => {
            let mut words = value.split_whitespace();
            case.folders.push(CaseFolder {
                path: words.next().unwrap().to_owned(),
                mode: words.next().map_or(0o755, mode_of),
                owner: words.next().map_or(0, |owner| owner.parse().unwrap()),
            });
        }
        "link" => {
            let (path, target) = value.split_once(' ').unwrap();
            case.links.push((path.to_owned(), target.to_owned()));
        }
        "crlf" => case.has_carriage_returns = true,
        _ => return false,
    }
    true
}

fn mode_of(text: &str) -> u32 {
    u32::from_str_radix(text, 8).unwrap()
}

fn words_of(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let (word, after) = match rest.strip_prefix('\'') {
            Some(quoted) => quoted.split_once('\'').unwrap(),
            None => rest.split_once(' ').unwrap_or((rest, "")),
        };
        words.push(word.to_owned());
        rest = after.trim_start();
    }
    words
}
