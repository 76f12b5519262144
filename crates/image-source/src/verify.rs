//! Reads documents and checks them against their digest and size; reads small files of the host.
#![expect(clippy::disallowed_methods, reason = "the user names these files")]

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use image_linkage::digest::{Digest, DigestHasher};

use crate::image_error::ImageError;

/// Reads a small document and verifies it against `digest` and `size`, if given.
///
/// Errors: [`ImageError::TooLarge`] past `limit` bytes, [`ImageError::Size`] and [`ImageError::Digest`] on a mismatch,
/// [`ImageError::Io`] if reading fails.
pub(crate) fn read_document(
    what: &str,
    reader: impl Read,
    digest: Option<&Digest>,
    size: Option<u64>,
    limit: u64,
) -> Result<Vec<u8>, ImageError> {
    let mut bytes = Vec::new();
    // One byte past the limit separates a document that is too large from one that just fits.
    reader
        .take(limit.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(ImageError::io(what))?;
    let found = bytes.len() as u64;
    if found > limit {
        return Err(ImageError::TooLarge {
            what: what.to_owned(),
            limit,
        });
    }
    // Checked before the digest, so that a truncated document is not reported as tampered with.
    if let Some(expected) = size.filter(|&expected| expected != found) {
        return Err(ImageError::Size {
            what: what.to_owned(),
            expected,
            found,
        });
    }
    if let Some(expected) = digest {
        check_digest(what, &bytes, expected)?;
    }
    Ok(bytes)
}

/// Compares `bytes` with their expected digest.
///
/// Errors: [`ImageError::Digest`] on a mismatch, [`ImageError::NotAnImage`] for an unknown algorithm.
pub(crate) fn check_digest(what: &str, bytes: &[u8], expected: &Digest) -> Result<(), ImageError> {
    // An unsupported algorithm is an error, so that no document passes unchecked.
    let mut hasher = DigestHasher::new(Some(expected)).map_err(|algorithm| {
        ImageError::not_an_image(
            what,
            format!("digest algorithm {algorithm:?} is not one of sha256, sha384, sha512"),
        )
    })?;
    hasher.update(bytes);
    let found = hasher.finish();
    if found == *expected {
        Ok(())
    } else {
        Err(ImageError::Digest {
            what: what.to_owned(),
            expected: expected.clone(),
            found: found.to_string(),
        })
    }
}

/// The size limit. All certificate authorities of a Debian system are 220 kB.
const SMALL_FILE: u64 = 4 << 20;

/// Reads a file of at most 4 MiB.
///
/// Errors: The system's error, or that the file is larger; a device has no end.
pub fn read_small_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(SMALL_FILE + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > SMALL_FILE {
        let what = format!("it is larger than the limit of {SMALL_FILE} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, what));
    }
    Ok(bytes)
}
