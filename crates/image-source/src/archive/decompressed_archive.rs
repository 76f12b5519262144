//! Archives compressed as a whole, as from `docker save | gzip`.

use std::io::{self, BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use image_linkage::layer::{Compression, DecompressedReader};
use image_linkage::limits::Limits;

/// The bytes read at a time from the stored stream.
const CHUNK: usize = 128 << 10;

/// A decompressed stream with a limit on the compression ratio.
pub(crate) struct DecompressedArchive<R: Read> {
    // The counter is below the buffer and may be one chunk ahead; a limit against bombs need not be exact.
    inner: DecompressedReader<BufReader<CountingReader<R>>>,
    stored: Arc<AtomicU64>,
    bytes: u64,
    ratio: u64,
    ratio_from: u64,
}

impl<R: Read> DecompressedArchive<R> {
    /// Decompresses `reader`, detecting the compression.
    pub(crate) fn new(reader: R, limits: &Limits) -> Self {
        let stored = Arc::new(AtomicU64::new(0));
        let counted = CountingReader {
            inner: reader,
            read: Arc::clone(&stored),
        };
        Self {
            inner: DecompressedReader::new(BufReader::with_capacity(CHUNK, counted)),
            stored,
            bytes: 0,
            ratio: limits.layer_ratio,
            ratio_from: limits.ratio_from,
        }
    }
}

impl<R: Read> Read for DecompressedArchive<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buf)?;
        self.bytes += n as u64;
        let most = self.stored.load(Ordering::Relaxed).saturating_mul(self.ratio);
        // Small archives may have any ratio: one with empty files is legitimate and harmless.
        if self.bytes > self.ratio_from.max(most) {
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!(
                    "it holds more than {} bytes for each compressed one, which is the limit (layer-ratio)",
                    self.ratio
                ),
            ));
        }
        Ok(n)
    }
}

struct CountingReader<R> {
    inner: R,
    read: Arc<AtomicU64>,
}

impl<R: Read> Read for CountingReader<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buf)?;
        self.read.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}

/// Whether `reader` is compressed as a whole. Consumes its first bytes.
pub(crate) fn is_compressed(reader: &mut impl Read) -> io::Result<bool> {
    let mut start = Vec::new();
    // The longest magic number, zstd's, has four bytes (RFC 8878, section 3.1.1).
    reader.take(4).read_to_end(&mut start)?;
    Ok(Compression::of(&start) != Compression::None)
}

#[cfg(test)]
mod tests {
    use std::io::{self, Read};

    use super::DecompressedArchive;
    use image_linkage::limits::Limits;

    fn read(bytes: &[u8]) -> String {
        let limits = Limits {
            layer_ratio: 100,
            ratio_from: 10_000,
            ..Limits::default()
        };
        let result = io::copy(&mut DecompressedArchive::new(bytes, &limits), &mut io::sink());
        result.map_or_else(|error| error.to_string(), |n| format!("{n} bytes"))
    }

    #[test]
    fn a_stream_that_inflates_out_of_proportion_is_stopped() {
        let zeros = |n: u64| zstd::encode_all(io::repeat(0).take(n), 3).unwrap();
        assert_eq!(read(&vec![1; 50_000]), "50000 bytes");
        assert_eq!(read(&zeros(10_000)), "10000 bytes");
        assert_eq!(
            read(&zeros(1_000_000)),
            "it holds more than 100 bytes for each compressed one, which is the limit (layer-ratio)"
        );
    }
}
