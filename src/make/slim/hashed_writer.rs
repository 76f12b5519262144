//! Hashes and counts bytes as they are written.

use std::io::{self, Read, Write};

use super::interrupt::copy_interruptible;
use image_linkage::digest::{Digest, DigestHasher};

/// Hashes with SHA-256 and counts the bytes that `inner` accepts.
pub(super) struct HashedWriter<W> {
    inner: W,
    hasher: DigestHasher,
    bytes: u64,
}

impl<W> HashedWriter<W> {
    pub(super) fn new(inner: W) -> Self {
        Self {
            inner,
            hasher: DigestHasher::default(),
            bytes: 0,
        }
    }

    /// The inner writer, the digest and the number of bytes.
    pub(super) fn finish(self) -> (W, Digest, u64) {
        (self.inner, self.hasher.finish(), self.bytes)
    }
}

impl<W: Write> Write for HashedWriter<W> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let n = self.inner.write(buf)?;
        // Only the accepted bytes; the caller writes the rest again.
        self.hasher.update(buf.get(..n).unwrap_or_default());
        self.bytes += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Copies `from` to `to`. Returns the hexadecimal SHA-256 and the size.
pub(super) fn copy_hashed(from: &mut dyn Read, to: &mut dyn Write) -> io::Result<(String, u64)> {
    let mut hashing = HashedWriter::new(to);
    copy_interruptible(from, &mut hashing)?;
    let (_, digest, bytes) = hashing.finish();
    Ok((digest.digest().to_owned(), bytes))
}
