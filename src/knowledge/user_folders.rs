//! Reads the user's folders of rules and profiles.
#![expect(clippy::disallowed_methods, reason = "the command line names paths of the host")]

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use super::catalog::{DataFile, DataKind};
use super::mistake::{FileMistake, TextMistake, TextPosition, unknown_name};
use image_linkage::escape;

/// The maximum bytes of one file. The largest built-in file has 4 kB.
const FILE_BYTES: u64 = 1 << 20;
/// The maximum number of files in one folder.
const FILES: usize = 1000;

/// The folders of `--profiles`, and the kinds of their files.
const PROFILES: [(&str, DataKind); 4] = [
    ("consumers", DataKind::Consumer),
    ("errors", DataKind::Errors),
    ("phases", DataKind::Phase),
    ("profilers", DataKind::Profiler),
];

/// The files of folders, and the mistakes in unreadable files.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct UserFolders {
    /// The files that were read.
    pub files: Vec<DataFile>,
    /// The errors for the other files.
    pub mistakes: Vec<FileMistake>,
}

impl UserFolders {
    /// Reads a rules folder. Files without `.yaml` are ignored, but a folder without any rule is a mistake.
    pub fn add_rules(&mut self, folder: &Path) {
        if folder.is_file() {
            return self.cannot(folder, "it is a file; name the folder that has it");
        }
        let before = self.files.len() + self.mistakes.len();
        self.files_of(folder, DataKind::Rule);
        if self.files.len() + self.mistakes.len() == before {
            self.cannot(folder, "it has no rule: no file whose name ends in .yaml");
        }
    }

    /// Reads a profiles folder, with one subfolder per kind.
    pub fn add_profiles(&mut self, folder: &Path) {
        let names = match list_user_folder(folder) {
            Ok(names) => names,
            Err(_) if folder.is_file() => return self.cannot(folder, "it is a file; name the folder that has it"),
            Err(error) => return self.cannot(folder, &error.to_string()),
        };
        let known = PROFILES.map(|(name, _)| name);
        let mut found = false;
        for (name, path) in names {
            // A README next to the folders is allowed.
            if !path.is_dir() {
                continue;
            }
            match PROFILES.iter().find(|(known, _)| *known == name) {
                Some((_, kind)) => {
                    found = true;
                    self.files_of(&path, *kind);
                }
                None => self.cannot(&path, &unknown_name("kind of profile", &name, &known)),
            }
        }
        // Otherwise a mistyped folder would silently add nothing.
        if !found {
            let itself = folder
                .file_name()
                .and_then(|name| PROFILES.iter().find(|(known, _)| name == *known));
            let what = match itself {
                Some((name, _)) => format!("it is itself the folder {name}; name the one above it"),
                None => format!(
                    "it has none of the folders {}; for example, a phase belongs in phases/NAME.yaml",
                    known.join(", ")
                ),
            };
            self.cannot(folder, &what);
        }
    }

    fn files_of(&mut self, folder: &Path, kind: DataKind) {
        for (name, path) in self.names_in(folder) {
            let Some((id, extension)) = name.rsplit_once('.') else {
                continue;
            };
            match extension {
                "yaml" if is_id(id) => self.add_file(&path, kind, id),
                "yaml" => self.cannot(&path, "its name is its id: lower-case letters, digits and hyphens"),
                // If ignored silently, this rule would never find anything.
                "yml" => self.cannot(&path, "its name has to end in .yaml"),
                _ => {}
            }
        }
    }

    fn names_in(&mut self, folder: &Path) -> Vec<(String, PathBuf)> {
        list_user_folder(folder).unwrap_or_else(|error| {
            self.cannot(folder, &error.to_string());
            Vec::new()
        })
    }

    fn add_file(&mut self, path: &Path, kind: DataKind, id: &str) {
        match read_text_file(path) {
            Ok(text) => self.files.push(DataFile {
                kind,
                id: id.to_owned(),
                file: escape::escape_path(path),
                text,
                json: None,
            }),
            Err(mistake) => self.mistakes.push(mistake.in_file(&escape::escape_path(path))),
        }
    }

    fn cannot(&mut self, path: &Path, what: &str) {
        let mistake = TextMistake::of_whole(what);
        self.mistakes.push(mistake.in_file(&escape::escape_path(path)));
    }
}

/// Lists a folder by name, without names that start with a dot, which belong to editors and version control.
///
/// Errors: An I/O error, more than [`FILES`] entries, or a link that leads out of the folder.
fn list_user_folder(folder: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    let mut names = Vec::new();
    let inside = fs::canonicalize(folder)?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        // A file name may contain terminal control sequences, and messages print it.
        let name = escape::escape_bytes(entry.file_name().as_encoded_bytes());
        if !name.starts_with('.') {
            // Error messages quote file content, so a link must not expose files elsewhere to whoever controls the
            // folder. Links within it are allowed, because Kubernetes mounts folders that way.
            if !fs::canonicalize(entry.path()).is_ok_and(|target| target.starts_with(&inside)) {
                let what = format!("{name} is a link that leads out of the folder");
                return Err(io::Error::other(what));
            }
            names.push((name, entry.path()));
        }
        // Checked while reading, because a folder named by mistake may have millions of entries.
        if names.len() > FILES {
            let what = format!("more than {FILES} files");
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, what));
        }
    }
    // read_dir returns file system order, which differs between hosts.
    names.sort();
    Ok(names)
}

fn is_id(text: &str) -> bool {
    let mut bytes = text.bytes();
    !text.is_empty() && bytes.all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

/// The text of a regular file of at most [`FILE_BYTES`].
///
/// Errors: As [`read_long_text_file`].
pub fn read_text_file(path: &Path) -> Result<String, TextMistake> {
    read_long_text_file(path, FILE_BYTES)
}

/// The text of a regular file of at most `limit` bytes.
///
/// Errors: The file cannot be read, is too large, or is not UTF-8.
pub fn read_long_text_file(path: &Path, limit: u64) -> Result<String, TextMistake> {
    let read = || {
        // Opening a pipe would block until its other end is opened.
        if !fs::metadata(path)?.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        let mut bytes = Vec::new();
        File::open(path)?
            // One byte above the limit distinguishes a file that just fits from a larger one.
            .take(limit + 1)
            .read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let mut bytes = read().map_err(|error| TextMistake::of_whole(error.to_string()))?;
    if bytes.len() as u64 > limit {
        let what = format!("it is larger than the limit of {limit} bytes");
        return Err(TextMistake::of_whole(what));
    }
    if bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") {
        return Err(TextMistake::of_whole(
            "it is UTF-16, as PowerShell writes; save it as UTF-8",
        ));
    }
    // Windows editors add a byte-order mark, which is not part of the text (Unicode 2.6).
    if bytes.starts_with(b"\xef\xbb\xbf") {
        bytes.drain(..3);
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid = error.as_bytes().get(..error.utf8_error().valid_up_to());
        let before = String::from_utf8_lossy(valid.unwrap_or_default());
        let number = |count: usize| u32::try_from(count + 1).unwrap_or(u32::MAX);
        let place = TextPosition {
            line: number(before.matches('\n').count()),
            // In characters, as an editor counts, not in bytes.
            column: number(before.rsplit('\n').next().unwrap_or_default().chars().count()),
        };
        let what = "a byte here is not UTF-8".to_owned();
        TextMistake { place, what }
    })
}
