//! The corpus: a text file per entry point. The fields of the image's config come first, then its files.
//!
//! ```text
//! A description of the entry point.
//! cmd: ["train"]                 entrypoint: is ["/entry.sh"] unless it is given
//! user: app
//! workdir: /workspace
//! env: NAME=VALUE                once for each variable
//! folder: /opt/x/lib             the folder that the script itself adds to LD_LIBRARY_PATH
//! dir: /data 1777                an empty folder, with its mode
//! -- /entry.sh 755 --
//! the file's text
//! ```
//!
//! Exactly one line in the files is `#@here`, where images can insert a statement.

use std::fs;
use std::path::Path;

/// The line that marks the place for an added statement.
pub const HERE: &str = "#@here";

/// A file of an image.
#[derive(Debug, Clone)]
pub struct File {
    /// The path, with a leading `/`.
    pub path: String,
    /// The permission bits.
    pub mode: u32,
    /// The content.
    pub text: String,
}

/// An entry point with its config and files.
#[derive(Debug, Clone, Default)]
pub struct Case {
    /// The name of its file, without the extension.
    pub name: String,
    /// The image's Entrypoint.
    pub entrypoint: Vec<String>,
    /// The image's Cmd.
    pub cmd: Vec<String>,
    /// The image's User.
    pub user: Option<String>,
    /// The image's `WorkingDir`.
    pub workdir: Option<String>,
    /// The image's Env.
    pub env: Vec<(String, String)>,
    /// The folder that only the script adds to the path.
    pub folder: Option<String>,
    /// Empty folders and their modes.
    pub dirs: Vec<(String, u32)>,
    /// The files.
    pub files: Vec<File>,
}

/// All cases, by name.
pub fn corpus() -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/commands");
    let entries = fs::read_dir(folder).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let cases = paths.iter().map(|path| {
        let name = path.file_stem().unwrap().to_str().unwrap();
        parse(name, &fs::read_to_string(path).unwrap())
    });
    cases.collect()
}

fn parse(name: &str, text: &str) -> Case {
    let mut case = Case {
        name: name.to_owned(),
        entrypoint: vec!["/entry.sh".to_owned()],
        ..Case::default()
    };
    for line in text.lines() {
        if let Some(file) = file_header(line) {
            case.files.push(file);
        } else if let Some(file) = case.files.last_mut() {
            file.text.push_str(line);
            file.text.push('\n');
        } else if let Some((key, value)) = line.split_once(": ") {
            field(&mut case, key, value);
        }
    }
    let marks = case.files.iter().flat_map(|file| file.text.lines());
    let marks = marks.filter(|line| line.trim() == HERE).count();
    assert_eq!(marks, 1, "{name}: one place for an added statement");
    case
}

fn file_header(line: &str) -> Option<File> {
    let (path, mode) = line.strip_prefix("-- /")?.strip_suffix(" --")?.split_once(' ')?;
    Some(File {
        path: format!("/{path}"),
        mode: u32::from_str_radix(mode, 8).unwrap(),
        text: String::new(),
    })
}

fn field(case: &mut Case, key: &str, value: &str) {
    let words = || serde_json::from_str(value).unwrap();
    match key {
        "entrypoint" => case.entrypoint = words(),
        "cmd" => case.cmd = words(),
        "user" => case.user = Some(value.to_owned()),
        "workdir" => case.workdir = Some(value.to_owned()),
        "folder" => case.folder = Some(value.to_owned()),
        "env" => {
            let (name, value) = value.split_once('=').unwrap();
            case.env.push((name.to_owned(), value.to_owned()));
        }
        "dir" => {
            let (path, mode) = value.split_once(' ').unwrap();
            case.dirs.push((path.to_owned(), u32::from_str_radix(mode, 8).unwrap()));
        }
        // A colon in the description of the case.
        _ => assert!(case.entrypoint == ["/entry.sh"], "{}: {key}", case.name),
    }
}
