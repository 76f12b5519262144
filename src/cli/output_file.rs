//! Files that a command makes for the user: whole or not at all, and never over one that is there.
#![expect(
    clippy::disallowed_methods,
    reason = "the command line writes the files that the user names"
)]

use std::fs;
use std::io;
use std::path::Path;

use crate::make::whole_file::{ExistingOutput, OutputPlace, folder_of, look_at_place, write_whole_file};

/// Whether every file may be written, before the work is done.
///
/// Errors: The first that may not, in words.
pub fn check_writable(files: &[&Path], existing: ExistingOutput) -> Result<(), String> {
    for file in files {
        match look_at_place(file) {
            Ok(OutputPlace::Stream) => continue,
            Ok(OutputPlace::File) if existing == ExistingOutput::Stays => return Err(is_there(file)),
            Err(error) => return Err(format!("cannot write {}: {error}", file.display())),
            _ => {}
        }
        // Said now, because an image may take minutes to read.
        let folder = folder_of(file);
        if !fs::metadata(folder).is_ok_and(|found| found.is_dir()) {
            let folder = folder.display();
            return Err(format!("cannot write {}: {folder} is no folder", file.display()));
        }
    }
    Ok(())
}

/// Writes the file whole or not at all.
///
/// Errors: The file is there and is to stay, or it cannot be written, in words.
pub fn write_file(file: &Path, content: &str, existing: ExistingOutput) -> Result<(), String> {
    write_whole_file(file, content, existing).map_err(|error| match error.kind() {
        // It was free when the run began: somebody else has made it since.
        io::ErrorKind::AlreadyExists => is_there(file),
        _ => format!("cannot write {}: {error}", file.display()),
    })
}

fn is_there(file: &Path) -> String {
    format!("{} is there already; --force writes over it", file.display())
}
