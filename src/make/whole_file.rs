//! Files that the user names: each is there whole or not at all.
#![expect(clippy::disallowed_methods, reason = "the files lie where the user wants them")]

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use image_store::create_unfinished_file;

/// What happens to what is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExistingOutput {
    /// It stays, and nothing is written.
    Stays,
    Replaced,
}

impl ExistingOutput {
    /// What a user's `--force` means.
    pub(crate) fn with_force(force: bool) -> Self {
        if force { Self::Replaced } else { Self::Stays }
    }
}

/// The folder that a path lies in.
pub(crate) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        // The parent of a bare name is the empty path, which no call of the host takes.
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// What stands in the place of an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutputPlace {
    Free,
    /// A file, or a link to one that is not there yet.
    File,
    /// A pipe, a device or an open file of this process: it is written into, and never replaced.
    Stream,
}

/// Looks what stands in the place of an output.
///
/// Errors: What the host says, or that nothing is written there: a folder, a socket or a disk.
pub(crate) fn look_at_place(place: &Path) -> io::Result<OutputPlace> {
    if is_open_file(place) {
        return Ok(OutputPlace::Stream);
    }
    let found = match fs::metadata(place) {
        Ok(found) => found.file_type(),
        // A name with a slash behind it is that of a folder.
        Err(error) if error.kind() == io::ErrorKind::NotFound && place.as_os_str().as_bytes().ends_with(b"/") => {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(match fs::symlink_metadata(place) {
                Ok(_) => OutputPlace::File,
                Err(_) => OutputPlace::Free,
            });
        }
        Err(error) => return Err(error),
    };
    let refused = |what: &str| Err(io::Error::other(format!("it is {what}, which is not written to")));
    match found {
        _ if found.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        _ if found.is_fifo() || found.is_char_device() => Ok(OutputPlace::Stream),
        _ if found.is_socket() => refused("a socket"),
        _ if found.is_block_device() => refused("a disk"),
        _ => Ok(OutputPlace::File),
    }
}

/// Whether a path is that of a file which this process has open, wherever it may lead to by now.
fn is_open_file(place: &Path) -> bool {
    let of_process = ["/dev/stdout", "/dev/stderr", "/dev/fd", "/proc/self/fd"];
    of_process.iter().any(|open| place.starts_with(open))
}

/// The file that a path stands for: links followed, also one to a file that is not there yet.
pub(crate) fn settle(file: &Path) -> PathBuf {
    if is_open_file(file) || file.as_os_str().as_bytes().ends_with(b"/") {
        return file.to_owned();
    }
    let mut file = file.to_owned();
    for _ in 0..LINKS {
        match fs::read_link(&file) {
            Ok(target) if !file.exists() => file = folder_of(&file).join(target),
            _ => break,
        }
    }
    let new = || Some(fs::canonicalize(folder_of(&file)).ok()?.join(file.file_name()?));
    fs::canonicalize(&file).ok().or_else(new).unwrap_or(file)
}

/// The links that are followed to a file that is not there, as Linux bounds them (`MAXSYMLINKS`).
const LINKS: usize = 40;

/// Opens a stream. A pipe is waited for until somebody reads it.
///
/// Errors: What the host says.
pub(crate) fn open_output_stream(place: &Path) -> io::Result<File> {
    // Opened anew, a file would be written from its end on, and by whoever holds it from where he was.
    match place.to_str() {
        Some("/dev/stdout" | "/dev/fd/1" | "/proc/self/fd/1") => {
            io::stdout().as_fd().try_clone_to_owned().map(File::from)
        }
        Some("/dev/stderr" | "/dev/fd/2" | "/proc/self/fd/2") => {
            io::stderr().as_fd().try_clone_to_owned().map(File::from)
        }
        _ => OpenOptions::new().append(true).open(place),
    }
}

/// Gives a file its name. A file that came there in the meantime stays where it is to stay.
///
/// Errors: What the host says; [`io::ErrorKind::AlreadyExists`] for a file that is there and stays.
pub(crate) fn put_in_place(file: NamedTempFile, place: &Path, existing: ExistingOutput) -> io::Result<()> {
    let put = match existing {
        ExistingOutput::Stays => file.persist_noclobber(place),
        ExistingOutput::Replaced => file.persist(place),
    };
    put.map(drop).map_err(|error| error.error)
}

/// Writes a file at once: a reader never sees half of it, and of a run that is cut off nothing is left in its place. A
/// stream is written into.
///
/// Errors: What the host says of the folder, the file or its name.
pub(crate) fn write_whole_file(place: &Path, content: &str, existing: ExistingOutput) -> io::Result<()> {
    if look_at_place(place)? == OutputPlace::Stream {
        return open_output_stream(place)?.write_all(content.as_bytes());
    }
    // What a link leads to is replaced, not the link.
    let place = match existing {
        ExistingOutput::Stays => place.to_owned(),
        ExistingOutput::Replaced => settle(place),
    };
    let permissions = fs::metadata(&place).ok().map(|found| found.permissions());
    let mut file = create_unfinished_file(folder_of(&place), permissions)?;
    file.write_all(content.as_bytes())?;
    put_in_place(file, &place, existing)
}

#[cfg(test)]
mod tests {
    use super::{ExistingOutput, write_whole_file};

    #[test]
    fn a_file_that_appeared_meanwhile_is_replaced_only_where_it_may_be() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("proof.json");
        write_whole_file(&file, "theirs", ExistingOutput::Stays).unwrap();
        let refused = write_whole_file(&file, "ours", ExistingOutput::Stays).unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "theirs");
        write_whole_file(&file, "ours", ExistingOutput::Replaced).unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "ours");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
