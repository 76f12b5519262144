//! Bytes that can be read at any place.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// A source of bytes that can be read at any place.
pub trait ReadAt {
    /// The number of bytes.
    ///
    /// Errors: An error of the source.
    fn total_bytes(&self) -> io::Result<u64>;

    /// Fills `buffer` from the bytes at `offset`.
    ///
    /// Errors: The source ends before, or an error of it.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;
}

impl ReadAt for File {
    fn total_bytes(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        FileExt::read_exact_at(self, buffer, offset)
    }
}

impl ReadAt for [u8] {
    fn total_bytes(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let offset = usize::try_from(offset).ok();
        let bytes = offset.and_then(|offset| self.get(offset..offset.checked_add(buffer.len())?));
        buffer.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}
