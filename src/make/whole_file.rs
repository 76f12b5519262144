//! Writes output files atomically: each is complete or absent.
#![expect(clippy::disallowed_methods, reason = "the files lie where the user wants them")]

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use tempfile::NamedTempFile;

use image_store::create_unfinished_file;

/// The treatment of an existing output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExistingOutput {
    /// It stays, and nothing is written.
    Stays,
    Replaced,
}

impl ExistingOutput {
    /// The meaning of the user's `--force`.
    pub(crate) fn with_force(force: bool) -> Self {
        if force { Self::Replaced } else { Self::Stays }
    }
}

/// The folder that contains a path.
pub(crate) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        // The parent of a bare name is the empty path, which system calls reject.
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// The kind of file at an output path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutputPlace {
    /// Nothing, or a link to nothing.
    Free,
    File,
    /// A pipe, a device or an open file of this process. It is written to and never replaced.
    Stream,
}

/// The kind of file at an output path.
///
/// Errors: A host error, or a place that cannot be written to: a folder, a socket or a disk.
pub(crate) fn look_at_place(place: &Path) -> io::Result<OutputPlace> {
    if is_open_file(place) {
        return Ok(OutputPlace::Stream);
    }
    let found = match fs::metadata(place) {
        Ok(found) => found.file_type(),
        // A name with a trailing slash means a folder.
        Err(error) if error.kind() == io::ErrorKind::NotFound && place.as_os_str().as_bytes().ends_with(b"/") => {
            return Err(is_folder());
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(OutputPlace::Free),
        Err(error) => return Err(error),
    };
    let refused = |what: &str| Err(io::Error::other(format!("it is {what}, which is not written to")));
    match found {
        _ if found.is_dir() => Err(is_folder()),
        _ if found.is_fifo() || found.is_char_device() => Ok(OutputPlace::Stream),
        _ if found.is_socket() => refused("a socket"),
        _ if found.is_block_device() => refused("a disk"),
        _ => Ok(OutputPlace::File),
    }
}

fn is_folder() -> io::Error {
    io::Error::new(io::ErrorKind::IsADirectory, "it is a folder; name a file in it")
}

/// Whether a path refers to an open file of this process, whatever its target.
fn is_open_file(place: &Path) -> bool {
    let of_process = ["/dev/stdout", "/dev/stderr", "/dev/fd", "/proc/self/fd"];
    of_process.iter().any(|open| place.starts_with(open))
}

/// The file that a path stands for, with links followed, even to a missing file.
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
    if let Ok(existing) = fs::canonicalize(&file) {
        return existing;
    }
    match (fs::canonicalize(folder_of(&file)), file.file_name()) {
        (Ok(folder), Some(name)) => folder.join(name),
        _ => file,
    }
}

/// The number of links followed to a missing file, the limit of Linux (`MAXSYMLINKS`).
const LINKS: usize = 40;

/// Opens a stream. Opening a named pipe waits a few seconds for its reader.
///
/// Errors: A host error, or the pipe has no reader.
pub(crate) fn open_output_stream(place: &Path) -> io::Result<File> {
    // Duplicate the descriptor: opening the path again would have its own offset, and two writers would overwrite each
    // other.
    match place.to_str() {
        Some("/dev/stdout" | "/dev/fd/1" | "/proc/self/fd/1") => {
            io::stdout().as_fd().try_clone_to_owned().map(File::from)
        }
        Some("/dev/stderr" | "/dev/fd/2" | "/proc/self/fd/2") => {
            io::stderr().as_fd().try_clone_to_owned().map(File::from)
        }
        _ => open_with_reader(place),
    }
}

/// How often the reader of a named pipe is looked for, and the wait in between.
const READER: (usize, Duration) = (50, Duration::from_millis(100));

fn open_with_reader(place: &Path) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CLOEXEC;
    for _ in 0..READER.0 {
        match rustix::fs::open(place, flags | OFlags::NONBLOCK, Mode::empty()) {
            // fifo(7): the pipe has no reader yet.
            Err(Errno::NXIO) => thread::sleep(READER.1),
            opened => {
                let opened = opened?;
                rustix::fs::fcntl_setfl(&opened, flags)?;
                return Ok(opened.into());
            }
        }
    }
    Err(io::Error::other("no program reads this pipe; start its reader first"))
}

/// Renames a file into place. With [`ExistingOutput::Stays`], a file that has appeared meanwhile is kept.
///
/// Errors: A host error; [`io::ErrorKind::AlreadyExists`] if an existing file stays.
pub(crate) fn put_in_place(file: NamedTempFile, place: &Path, existing: ExistingOutput) -> io::Result<()> {
    let put = match existing {
        ExistingOutput::Stays => file.persist_noclobber(place),
        ExistingOutput::Replaced => file.persist(place),
    };
    put.map(drop).map_err(|error| error.error)
}

/// Writes a file atomically: a reader never sees a part of it, and an interrupted run leaves nothing behind. A stream
/// is written directly.
///
/// Errors: A host error for the folder, the file or its name.
pub(crate) fn write_whole_file(place: &Path, content: &str, existing: ExistingOutput) -> io::Result<()> {
    if look_at_place(place)? == OutputPlace::Stream {
        return open_output_stream(place)?.write_all(content.as_bytes());
    }
    // Write the target of a link, and keep the link.
    let place = settle(place);
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
