//! Digests, and bytes checked against the digest and size that name them.

use std::io::{self, BufRead, Read};

pub use oci_spec::image::Digest;
use oci_spec::image::DigestAlgorithm;
use sha2::{Digest as _, Sha256, Sha384, Sha512};

/// A running digest of one of the algorithms that image-spec registers (descriptor.md, "Registered
/// Algorithms").
#[derive(Clone)]
pub enum DigestHasher {
    /// SHA-256.
    Sha256(Sha256),
    /// SHA-384.
    Sha384(Sha384),
    /// SHA-512.
    Sha512(Sha512),
}

impl DigestHasher {
    /// A hasher for the algorithm of `digest`; SHA-256 when there is nothing to compare with.
    ///
    /// Errors: The algorithm, when it is not one of the registered ones.
    pub fn for_digest(digest: Option<&Digest>) -> Result<Self, String> {
        match digest.map(Digest::algorithm) {
            None | Some(DigestAlgorithm::Sha256) => Ok(Self::Sha256(Sha256::new())),
            Some(DigestAlgorithm::Sha384) => Ok(Self::Sha384(Sha384::new())),
            Some(DigestAlgorithm::Sha512) => Ok(Self::Sha512(Sha512::new())),
            Some(other) => Err(other.to_string()),
        }
    }

    /// Takes in `bytes`.
    pub fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Sha256(hasher) => hasher.update(bytes),
            Self::Sha384(hasher) => hasher.update(bytes),
            Self::Sha512(hasher) => hasher.update(bytes),
        }
    }

    /// The digest of everything taken in, as `algorithm:hex`.
    pub fn finish(self) -> String {
        match self {
            Self::Sha256(hasher) => format!("sha256:{}", to_hex(&hasher.finalize())),
            Self::Sha384(hasher) => format!("sha384:{}", to_hex(&hasher.finalize())),
            Self::Sha512(hasher) => format!("sha512:{}", to_hex(&hasher.finalize())),
        }
    }
}

/// Lowercase hexadecimal.
pub fn to_hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut out, byte| {
            let _ = write!(out, "{byte:02x}");
            out
        })
}

/// Hashes and counts the bytes that are read through it, and refuses the first byte past `limit`.
pub struct HashingReader<R> {
    inner: R,
    hasher: DigestHasher,
    read: u64,
    limit: Option<u64>,
}

impl<R> HashingReader<R> {
    /// Reads from `inner`; more than `limit` bytes are an error at the first surplus byte.
    pub fn new(inner: R, hasher: DigestHasher, limit: Option<u64>) -> Self {
        Self {
            inner,
            hasher,
            read: 0,
            limit,
        }
    }

    fn check(&self) -> io::Result<()> {
        match self.limit {
            Some(limit) if self.read > limit => Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!("more than the expected {limit} bytes"),
            )),
            _ => Ok(()),
        }
    }

    /// The bytes read so far.
    pub fn count(&self) -> u64 {
        self.read
    }

    /// The digest and the number of the bytes read.
    pub fn finish(self) -> (String, u64) {
        (self.hasher.finish(), self.read)
    }
}

impl<R: Read> Read for HashingReader<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buf)?;
        self.hasher.update(buf.get(..n).unwrap_or_default());
        self.read += n as u64;
        self.check().map(|()| n)
    }
}

impl<R: BufRead> BufRead for HashingReader<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.check()?;
        self.inner.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        // What is consumed had been filled, so this gives it once more.
        let filled = self.inner.fill_buf().unwrap_or_default();
        self.hasher.update(filled.get(..amount).unwrap_or(filled));
        self.read += amount as u64;
        self.inner.consume(amount);
    }
}

/// Reads to the end and fails there unless the bytes are those that a digest and a size name.
pub struct VerifiedReader<R> {
    inner: Option<HashingReader<R>>,
    what: String,
    digest: Digest,
    size: u64,
}

impl<R: Read> VerifiedReader<R> {
    /// Reads `inner`, named `what` in errors, whose bytes are to be those of `digest`.
    ///
    /// Errors: The algorithm, when it is not one of the registered ones.
    pub fn new(inner: R, what: String, digest: Digest, size: u64) -> Result<Self, String> {
        let hasher = DigestHasher::for_digest(Some(&digest))?;
        Ok(Self {
            inner: Some(HashingReader::new(inner, hasher, Some(size))),
            what,
            digest,
            size,
        })
    }

    fn compare(&mut self) -> io::Result<usize> {
        let Some(inner) = self.inner.take() else {
            return Ok(0);
        };
        let (found, size) = inner.finish();
        if found == self.digest.to_string() && size == self.size {
            return Ok(0);
        }
        Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!(
                "{}: expected {} of {} bytes, found {found} of {size}; the source has changed",
                self.what, self.digest, self.size
            ),
        ))
    }
}

impl<R: Read> Read for VerifiedReader<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let Some(inner) = &mut self.inner else {
            return Ok(0);
        };
        match inner.read(buf)? {
            0 if !buf.is_empty() => self.compare(),
            n => Ok(n),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::{DigestHasher, VerifiedReader};

    fn read(bytes: &[u8], expected: &[u8]) -> Result<Vec<u8>, String> {
        let mut hasher = DigestHasher::for_digest(None).unwrap();
        hasher.update(expected);
        let digest = hasher.finish().parse().unwrap();
        let size = expected.len() as u64;
        let mut reader = VerifiedReader::new(bytes, "blob".to_owned(), digest, size).unwrap();
        let mut out = Vec::new();
        let read = reader.read_to_end(&mut out);
        read.map(|_| out).map_err(|error| error.to_string())
    }

    #[test]
    fn bytes_that_are_not_those_of_the_digest_are_an_error_at_the_end() {
        assert_eq!(read(b"content", b"content"), Ok(b"content".to_vec()));
        assert_eq!(read(b"", b""), Ok(Vec::new()));
        for other in [&b"c0ntent"[..], b"conten", b""] {
            let error = read(other, b"content").unwrap_err();
            assert!(error.contains("the source has changed"), "{error}");
        }
        assert_eq!(
            read(b"contents", b"content").unwrap_err(),
            "more than the expected 7 bytes"
        );
    }
}
