//! Bytes hashed and counted on their way into something else.

use std::io::{self, Write};

use image_linkage::digest::{Digest, DigestHasher};

/// Hashes by SHA-256 and counts what `inner` takes.
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

    /// What took the bytes, their digest and their number.
    pub(super) fn finish(self) -> (W, Digest, u64) {
        (self.inner, self.hasher.finish(), self.bytes)
    }
}

impl<W: Write> Write for HashedWriter<W> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let n = self.inner.write(buf)?;
        // Only what was taken: the rest is offered again.
        self.hasher.update(buf.get(..n).unwrap_or_default());
        self.bytes += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
