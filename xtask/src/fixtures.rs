//! Generates the images in `testdata/images`, or compares them.
#![expect(
    clippy::disallowed_methods,
    reason = "this chore reads and writes the repository's own folder"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use testkit::spec::{Sources, generated};

/// The bytes of every generated file, by its path in `testdata/images`.
type Files = BTreeMap<PathBuf, Vec<u8>>;

/// The folder in `testdata/images` that is not generated.
const SOURCES: &str = "src";

/// Writes every image and removes files without a source. Returns a line to print.
///
/// Errors: An invalid source, or the system's error.
pub fn write() -> Result<String, Box<dyn Error>> {
    let (folder, wanted) = (generated(), wanted()?);
    let present = present(&folder)?;
    // Unchanged files are skipped, to keep their modification time.
    for path in differing(&wanted, &present) {
        let at = folder.join(path);
        match wanted.get(path) {
            None => remove(&folder, &at)?,
            Some(bytes) => {
                fs::create_dir_all(at.parent().unwrap_or(&folder))?;
                fs::write(&at, bytes)?;
            }
        }
    }
    let bytes: usize = wanted.values().map(Vec::len).sum();
    Ok(format!("{} files, {bytes} bytes\n", wanted.len()))
}

/// Compares the images with their sources. Returns a line to print.
///
/// Errors: Every outdated file, an invalid source, or the system's error.
pub fn check() -> Result<String, Box<dyn Error>> {
    let (wanted, present) = (wanted()?, present(&generated())?);
    let lines: Vec<String> = differing(&wanted, &present)
        .map(|path| {
            let how = match (wanted.contains_key(path), present.contains_key(path)) {
                (true, true) => "differs",
                (true, false) => "is missing",
                _ => "comes from no source",
            };
            format!("testdata/images/{} {how}", path.display())
        })
        .collect();
    if lines.is_empty() {
        return Ok(format!("{} files are as their sources say\n", wanted.len()));
    }
    Err(format!("{}\nrun `cargo xtask fixtures` to remake them", lines.join("\n")).into())
}

/// The files that the sources generate.
fn wanted() -> Result<Files, Box<dyn Error>> {
    let sources = Sources::of_repository()?;
    let mut files = Files::new();
    for name in sources.fixtures().keys() {
        for (path, bytes) in sources.layout(name)?.files() {
            files.insert(Path::new(name).join(path), bytes);
        }
    }
    Ok(files)
}

/// The files in the folder, without the sources.
fn present(folder: &Path) -> io::Result<Files> {
    let mut files = Files::new();
    let mut pending = vec![PathBuf::new()];
    while let Some(below) = pending.pop() {
        for found in fs::read_dir(folder.join(&below))? {
            let found = found?;
            let path = below.join(found.file_name());
            if found.file_type()?.is_dir() {
                if path != Path::new(SOURCES) {
                    pending.push(path);
                }
            } else if below != Path::new("") {
                files.insert(path, fs::read(found.path())?);
            }
        }
    }
    Ok(files)
}

/// The paths that differ between the two.
fn differing<'a>(wanted: &'a Files, present: &'a Files) -> impl Iterator<Item = &'a PathBuf> {
    let all: BTreeSet<&PathBuf> = wanted.keys().chain(present.keys()).collect();
    all.into_iter().filter(|path| wanted.get(*path) != present.get(*path))
}

/// Removes a file and the parent folders that become empty.
fn remove(folder: &Path, file: &Path) -> io::Result<()> {
    fs::remove_file(file)?;
    let above = file.ancestors().skip(1).take_while(|dir| *dir != folder);
    for dir in above {
        // A nonempty folder cannot be removed, nor can its parents.
        if fs::remove_dir(dir).is_err() {
            break;
        }
    }
    Ok(())
}
