//! Digests, and readers that verify bytes against a digest and a size.

use crate::escape::escape_bytes;
use std::fmt;
use std::io::{self, Read};
use std::str::FromStr;

use sha2::digest::DynDigest;
use sha2::{Sha256, Sha384, Sha512};

/// The algorithms registered by image-spec (descriptor.md, "Registered Algorithms"), each with its number of
/// hexadecimal digits.
const REGISTERED: [(&str, usize); 3] = [("sha256", 64), ("sha384", 96), ("sha512", 128)];

/// A digest as in a descriptor, `algorithm:encoded` (image-spec, descriptor.md, "Digests").
///
/// A digest with a registered algorithm is lowercase hexadecimal of the right length, so it is safe in a file name.
/// Other algorithms are accepted and compared as text but cannot be computed: an index may list images with them that
/// are never read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(Box<str>);

impl Digest {
    /// The SHA-256 digest of `bytes`. Every client must support SHA-256 (image-spec, descriptor.md).
    pub fn of(bytes: &[u8]) -> Self {
        let mut hasher = DigestHasher::default();
        hasher.update(bytes);
        hasher.finish()
    }

    /// The name before the colon, such as `sha256`.
    pub fn algorithm(&self) -> &str {
        self.parts().0
    }

    /// The part behind the colon: hexadecimal digits for a registered algorithm.
    pub fn digest(&self) -> &str {
        self.parts().1
    }

    fn parts(&self) -> (&str, &str) {
        self.0.split_once(':').expect("a parsed digest contains a colon")
    }
}

impl FromStr for Digest {
    /// Why the text is not a digest.
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (algorithm, encoded) = text.split_once(':').ok_or("missing ':' in digest")?;
        // Grammar of descriptor.md: components of lowercase letters and digits, joined by single separators.
        for part in algorithm.split(['+', '.', '_', '-']) {
            if part.is_empty() {
                return Err("Empty algorithm component".to_owned());
            }
            if !part.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9')) {
                return Err(format!(
                    "Invalid algorithm component: {}",
                    escape_bytes(part.as_bytes())
                ));
            }
        }
        if encoded.is_empty() {
            return Err("Empty algorithm value".to_owned());
        }
        if !encoded
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"=_-".contains(&b))
        {
            return Err(format!("Invalid encoded value {}", escape_bytes(encoded.as_bytes())));
        }
        // Unknown algorithms pass if they follow the grammar (image-spec, descriptor.md, "Digests").
        if let Some((_, expected)) = REGISTERED.iter().find(|(name, _)| *name == algorithm) {
            let found = encoded.len();
            if found != *expected {
                return Err(format!("Invalid digest length {found} expected {expected}"));
            }
            // Digests are compared as text, so uppercase digits would make equal digests differ.
            if !encoded.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
                return Err(format!("Invalid non-hexadecimal character in digest: {encoded}"));
            }
        }
        Ok(Self(text.into()))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl AsRef<str> for Digest {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl<'de> serde::Deserialize<'de> for Digest {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl serde::Serialize for Digest {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A running digest of one of the registered algorithms (image-spec, descriptor.md).
pub struct DigestHasher {
    algorithm: &'static str,
    hasher: Box<dyn DynDigest + Send>,
}

impl Default for DigestHasher {
    /// SHA-256, the default of every engine and registry.
    fn default() -> Self {
        Self {
            algorithm: "sha256",
            hasher: Box::new(Sha256::default()),
        }
    }
}

impl DigestHasher {
    /// A hasher for the algorithm of `digest`; SHA-256 if there is no digest.
    ///
    /// Errors: The name of an unregistered algorithm.
    pub fn new(digest: Option<&Digest>) -> Result<Self, String> {
        let (algorithm, hasher): (_, Box<dyn DynDigest + Send>) = match digest.map_or("sha256", Digest::algorithm) {
            "sha256" => return Ok(Self::default()),
            "sha384" => ("sha384", Box::new(Sha384::default())),
            "sha512" => ("sha512", Box::new(Sha512::default())),
            other => return Err(other.to_owned()),
        };
        Ok(Self { algorithm, hasher })
    }

    /// Hashes the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
    }

    /// The digest of all bytes so far.
    pub fn finish(self) -> Digest {
        Digest(format!("{}:{}", self.algorithm, to_hex(&self.hasher.finalize())).into())
    }
}

/// Lowercase hexadecimal, two digits for each byte.
pub fn to_hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut out, byte| {
            let _ = write!(out, "{byte:02x}");
            out
        })
}

/// Hashes and counts the bytes read through it. Fails at the first byte past `limit`.
pub(crate) struct HashingReader<R> {
    inner: R,
    hasher: DigestHasher,
    read: u64,
    limit: Option<u64>,
}

impl<R> HashingReader<R> {
    /// Reads from `inner`. The first byte past `limit` is an error.
    pub(crate) fn new(inner: R, hasher: DigestHasher, limit: Option<u64>) -> Self {
        Self {
            inner,
            hasher,
            read: 0,
            limit,
        }
    }

    fn check(&self) -> io::Result<()> {
        match self.limit {
            // Stop at the first extra byte; the source may never end.
            Some(limit) if self.read > limit => Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!("more than the expected {limit} bytes"),
            )),
            _ => Ok(()),
        }
    }

    /// The digest and number of the bytes read.
    pub(crate) fn finish(self) -> (Digest, u64) {
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

/// Reads to the end, then fails unless digest and size match.
pub struct VerifiedReader<R> {
    inner: Option<HashingReader<R>>,
    what: String,
    digest: Digest,
    size: u64,
}

impl<R: Read> VerifiedReader<R> {
    /// Verifies the bytes of `inner` against `digest` and `size`. Errors call it `what`.
    ///
    /// Errors: The name of an unregistered algorithm.
    pub fn new(inner: R, what: String, digest: Digest, size: u64) -> Result<Self, String> {
        let hasher = DigestHasher::new(Some(&digest))?;
        Ok(Self {
            inner: Some(HashingReader::new(inner, hasher, Some(size))),
            what,
            digest,
            size,
        })
    }

    fn compare(&mut self) -> io::Result<usize> {
        // Taken, so that another read after the end returns 0 again instead of hashing nothing.
        let Some(inner) = self.inner.take() else {
            return Ok(0);
        };
        let (found, size) = inner.finish();
        if found == self.digest && size == self.size {
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
            // A read into an empty buffer also returns 0.
            0 if !buf.is_empty() => self.compare(),
            n => Ok(n),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::{Digest, DigestHasher, VerifiedReader};

    fn read(bytes: &[u8], expected: &[u8]) -> Result<Vec<u8>, String> {
        let digest = Digest::of(expected);
        let size = expected.len() as u64;
        let mut reader = VerifiedReader::new(bytes, "blob".to_owned(), digest, size).unwrap();
        let mut out = Vec::new();
        let read = reader.read_to_end(&mut out);
        read.map(|_| out).map_err(|error| error.to_string())
    }

    #[test]
    fn a_digest_mismatch_is_an_error_at_the_end() {
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

    #[test]
    fn digests_follow_the_specification() {
        let hex = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let parsed = |text: &str| text.parse::<Digest>();
        let digest = parsed(&format!("sha256:{hex}")).unwrap();
        assert_eq!((digest.algorithm(), digest.digest()), ("sha256", hex));
        assert!(DigestHasher::new(Some(&digest)).is_ok());
        let other = parsed("multihash+base58:QmRZxt2b1FVZPNqd8hsiykDL3TdBDeTSPX9Kv46HmX4Gx8");
        assert!(DigestHasher::new(Some(&other.unwrap())).is_err());
        for text in [
            hex,
            ":abc",
            "sha256:",
            "sha256:abc",
            "sha256+:abc",
            "SHA256:abc",
            "md5:a/b",
            "md5:../x",
            "md5:a:b",
            &format!("sha512:{hex}"),
            &format!("sha256:{}", hex.to_uppercase()),
        ] {
            assert!(parsed(text).is_err(), "{text}");
        }
    }
}
