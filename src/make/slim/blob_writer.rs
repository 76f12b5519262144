//! A layer's blob as it is made: the tar goes in, and the file has both of its digests.

use std::fs::File;
use std::io::{self, Write};

use flate2::GzBuilder;
use flate2::write::GzEncoder;

use image_linkage::digest::DigestHasher;
use image_linkage::layer::decompress::Compression;
use image_source::{Digest, ImageError};

/// The level of zstd; that of gzip is its own default.
const ZSTD_LEVEL: i32 = 3;

/// A blob that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenBlob {
    /// The digest of the bytes as stored.
    pub digest: Digest,
    /// The bytes as stored.
    pub size: u64,
    /// The digest of the tar.
    pub diff_id: Digest,
    /// The bytes of the tar.
    pub bytes: u64,
}

/// A blob under way. The same tar always gives the same bytes.
pub struct BlobWriter {
    hasher: DigestHasher,
    bytes: u64,
    encoder: BlobEncoder,
}

enum BlobEncoder {
    Plain(HashedFile),
    Gzip(GzEncoder<HashedFile>),
    Zstd(zstd::Encoder<'static, HashedFile>),
}

/// The file, counted and hashed.
struct HashedFile {
    file: File,
    hasher: DigestHasher,
    bytes: u64,
}

impl BlobWriter {
    /// Writes a blob compressed in this way to `file`.
    ///
    /// Errors: What the compressor says.
    pub fn new(file: File, compression: Compression) -> io::Result<Self> {
        let stored = HashedFile {
            file,
            hasher: hasher()?,
            bytes: 0,
        };
        let encoder = match compression {
            Compression::None => BlobEncoder::Plain(stored),
            // No name and no time in the header.
            Compression::Gzip => BlobEncoder::Gzip(
                GzBuilder::new()
                    .mtime(0)
                    .write(stored, flate2::Compression::default()),
            ),
            Compression::Zstd => BlobEncoder::Zstd(zstd::Encoder::new(stored, ZSTD_LEVEL)?),
        };
        Ok(Self {
            hasher: hasher()?,
            bytes: 0,
            encoder,
        })
    }

    /// Ends the blob.
    ///
    /// Errors: What the file gives.
    pub fn finish(self) -> Result<WrittenBlob, ImageError> {
        let end = || {
            let stored = match self.encoder {
                BlobEncoder::Plain(stored) => stored,
                BlobEncoder::Gzip(encoder) => encoder.finish()?,
                BlobEncoder::Zstd(encoder) => encoder.finish()?,
            };
            Ok::<_, io::Error>(stored)
        };
        let stored = end().map_err(|source| ImageError::Io {
            what: "a new layer".to_owned(),
            source,
        })?;
        Ok(WrittenBlob {
            digest: stored.hasher.finish(),
            size: stored.bytes,
            diff_id: self.hasher.finish(),
            bytes: self.bytes,
        })
    }
}

fn hasher() -> io::Result<DigestHasher> {
    DigestHasher::for_digest(None).map_err(io::Error::other)
}

impl Write for BlobWriter {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        super::interrupt::check_interrupt()?;
        let n = match &mut self.encoder {
            BlobEncoder::Plain(stored) => stored.write(buf)?,
            BlobEncoder::Gzip(encoder) => encoder.write(buf)?,
            BlobEncoder::Zstd(encoder) => encoder.write(buf)?,
        };
        self.hasher.update(buf.get(..n).unwrap_or_default());
        self.bytes += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Write for HashedFile {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let n = self.file.write(buf)?;
        self.hasher.update(buf.get(..n).unwrap_or_default());
        self.bytes += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
