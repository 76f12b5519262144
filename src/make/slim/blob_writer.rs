//! A layer's blob as it is made: the tar goes in, and the file has both of its digests.

use std::io::{self, Write};

use flate2::GzBuilder;
use flate2::write::GzEncoder;

use super::hashed_writer::HashedWriter;
use super::staging_files::StagingFile;
use image_linkage::layer::Compression;
use image_source::{Digest, ImageError};

/// The level of zstd; that of gzip is its own default.
const ZSTD_LEVEL: i32 = 3;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WrittenBlob {
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
pub(crate) struct BlobWriter(HashedWriter<BlobEncoder>);

enum BlobEncoder {
    Plain(HashedWriter<StagingFile>),
    Gzip(GzEncoder<HashedWriter<StagingFile>>),
    Zstd(zstd::Encoder<'static, HashedWriter<StagingFile>>),
}

impl BlobWriter {
    /// Writes a blob compressed in this way to `file`.
    ///
    /// Errors: What the compressor says.
    pub(crate) fn new(file: StagingFile, compression: Compression) -> io::Result<Self> {
        let stored = HashedWriter::new(file);
        let encoder = match compression {
            Compression::None => BlobEncoder::Plain(stored),
            // No name and no time in the header (RFC 1952, 2.3): they would make each run's digest another one.
            Compression::Gzip => {
                BlobEncoder::Gzip(GzBuilder::new().mtime(0).write(stored, flate2::Compression::default()))
            }
            Compression::Zstd => BlobEncoder::Zstd(zstd::Encoder::new(stored, ZSTD_LEVEL)?),
        };
        Ok(Self(HashedWriter::new(encoder)))
    }

    /// Ends the blob, and says what was written.
    ///
    /// Errors: What the file gives.
    pub(crate) fn finish(self) -> Result<WrittenBlob, ImageError> {
        let (encoder, diff_id, bytes) = self.0.finish();
        let stored = match encoder {
            BlobEncoder::Plain(stored) => Ok(stored),
            BlobEncoder::Gzip(encoder) => encoder.finish(),
            BlobEncoder::Zstd(encoder) => encoder.finish(),
        };
        let stored = stored.map_err(ImageError::io("a new layer"))?;
        let (_, digest, size) = stored.finish();
        Ok(WrittenBlob {
            digest,
            size,
            diff_id,
            bytes,
        })
    }
}

impl Write for BlobWriter {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        super::interrupt::check_interrupt()?;
        self.0.write(buf)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Write for BlobEncoder {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stored) => stored.write(buf),
            Self::Gzip(encoder) => encoder.write(buf),
            Self::Zstd(encoder) => encoder.write(buf),
        }
    }

    // A flush in the middle would end a block of the compressor, and so make other bytes of the same tar.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
