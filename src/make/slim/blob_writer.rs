//! Writes a layer's blob to a file and computes both of its digests from the tar.

use std::io::{self, Write};

use flate2::GzBuilder;
use flate2::write::GzEncoder;

use super::hashed_writer::HashedWriter;
use super::staging_files::StagingFile;
use image_linkage::layer::Compression;
use image_source::{Digest, ImageError};

/// The zstd level; gzip uses its default.
const ZSTD_LEVEL: i32 = 3;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WrittenBlob {
    /// The digest of the stored bytes.
    pub digest: Digest,
    /// The number of stored bytes.
    pub size: u64,
    /// The digest of the tar.
    pub diff_id: Digest,
    /// The size of the tar in bytes.
    pub bytes: u64,
}

/// A blob in progress. The same tar always gives the same bytes.
pub(crate) struct BlobWriter(HashedWriter<BlobEncoder>);

enum BlobEncoder {
    Plain(HashedWriter<StagingFile>),
    Gzip(GzEncoder<HashedWriter<StagingFile>>),
    Zstd(zstd::Encoder<'static, HashedWriter<StagingFile>>),
}

impl BlobWriter {
    /// Starts a blob in `file` with this compression.
    ///
    /// Errors: An error of the compressor.
    pub(crate) fn new(file: StagingFile, compression: Compression) -> io::Result<Self> {
        let stored = HashedWriter::new(file);
        let encoder = match compression {
            Compression::None => BlobEncoder::Plain(stored),
            // The header has no name and no time (RFC 1952, 2.3), because they would change the digest with each run.
            Compression::Gzip => {
                BlobEncoder::Gzip(GzBuilder::new().mtime(0).write(stored, flate2::Compression::default()))
            }
            Compression::Zstd => BlobEncoder::Zstd(zstd::Encoder::new(stored, ZSTD_LEVEL)?),
        };
        Ok(Self(HashedWriter::new(encoder)))
    }

    /// Ends the blob and describes it.
    ///
    /// Errors: An error of the file.
    pub(crate) fn finish(self) -> Result<WrittenBlob, ImageError> {
        let (encoder, diff_id, bytes) = self.0.finish();
        let stored = match encoder {
            BlobEncoder::Plain(stored) => Ok(stored),
            BlobEncoder::Gzip(encoder) => encoder.finish(),
            BlobEncoder::Zstd(encoder) => encoder.finish(),
        }
        .map_err(ImageError::io("a new layer"))?;
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

    // A flush would end a compressor block, so the same tar would give different bytes.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
