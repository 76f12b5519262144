//! Temporary files on the host.
#![expect(
    clippy::disallowed_methods,
    reason = "layers are written to files of their own before the image is put together"
)]

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::SlimError;
use image_source::ImageError;

/// A host error at `path`.
pub(super) fn io_error(path: &Path, source: io::Error) -> SlimError {
    let what = path.display().to_string();
    ImageError::Io { what, source }.into()
}

/// A file in progress. Its errors name the file, because the compressors that write to it do not.
pub(crate) struct StagingFile {
    file: File,
    path: PathBuf,
}

impl StagingFile {
    /// Creates or truncates the file.
    pub(super) fn create(path: PathBuf) -> io::Result<Self> {
        // The folder belongs to this run alone, so this never truncates another file.
        let file = File::create(&path)?;
        Ok(Self { file, path })
    }
}

impl Write for StagingFile {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.file
            .write(buf)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", self.path.display())))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

pub(super) fn open_file(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// Removes a file that is not needed any more.
pub(super) fn remove_staging_file(path: &Path) -> Result<(), SlimError> {
    std::fs::remove_file(path).map_err(|error| io_error(path, error))
}

pub(super) fn open_staging_file(path: &Path) -> Result<File, SlimError> {
    open_file(path).map_err(|error| io_error(path, error))
}
