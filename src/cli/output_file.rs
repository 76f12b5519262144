//! Files that a command writes for the user, atomically and without replacing existing ones.
#![expect(
    clippy::disallowed_methods,
    reason = "the command line writes the files that the user names"
)]

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::make::whole_file::{ExistingOutput, OutputPlace, folder_of, look_at_place, settle, write_whole_file};

/// Checks that every file can be written, before the work is done.
///
/// Errors: The first file that cannot be written, in words.
pub fn check_writable(files: &[&Path], existing: ExistingOutput) -> Result<(), String> {
    for file in files {
        match look_at_place(file) {
            Ok(OutputPlace::Stream) => continue,
            Ok(OutputPlace::File) if existing == ExistingOutput::Stays => return Err(is_there(file)),
            Err(error) => return Err(format!("cannot write {}: {error}", file.display())),
            _ => {}
        }
        // Reported now, because reading an image may take minutes.
        let folder = folder_of(file);
        if !fs::metadata(folder).is_ok_and(|found| found.is_dir()) {
            let folder = folder.display();
            return Err(format!("cannot write {}: {folder} is no folder", file.display()));
        }
    }
    Ok(())
}

/// Checks that a file to write is none of the `inputs` of the run. `what` would replace it.
///
/// Errors: It is one of them, in words.
pub fn check_not_read(file: &Path, inputs: &[PathBuf], what: &str) -> Result<(), String> {
    // `-` is standard input for one and standard output for the other.
    let place = settle(file);
    if file.as_os_str() == "-" || inputs.iter().all(|input| settle(input) != place) {
        return Ok(());
    }
    let file = file.display();
    Err(format!(
        "{file} is read by this run, and the {what} would replace it; name another file"
    ))
}

/// Writes the file atomically.
///
/// Errors: The file exists and must stay, or it cannot be written, in words.
pub fn write_file(file: &Path, content: &str, existing: ExistingOutput) -> Result<(), String> {
    write_whole_file(file, content, existing).map_err(|error| match error.kind() {
        // The file was created by another process since the run started.
        io::ErrorKind::AlreadyExists => is_there(file),
        _ => format!("cannot write {}: {error}", file.display()),
    })
}

fn is_there(file: &Path) -> String {
    format!("{} is there already; --force writes over it", file.display())
}
