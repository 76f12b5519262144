//! Documents checked against the digest and size that name them.

use std::io::Read;

use image_linkage::digest::{Digest, DigestHasher};

use crate::image_error::ImageError;

/// Reads a whole small document and verifies it against `digest` and `size`, where they are given.
///
/// Errors: [`ImageError::TooLarge`] past `limit` bytes, [`ImageError::Size`] and [`ImageError::Digest`] on a
/// mismatch, [`ImageError::Io`] when reading fails.
pub(crate) fn read_document(
    what: &str,
    reader: impl Read,
    digest: Option<&Digest>,
    size: Option<u64>,
    limit: u64,
) -> Result<Vec<u8>, ImageError> {
    let mut bytes = Vec::new();
    // One byte more than the limit tells a document that is too large from one that just fits.
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
    // The size first: a document that was cut short is told as that, and not as one that was tampered with.
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

/// Compares `bytes` with the digest that names them.
///
/// Errors: [`ImageError::Digest`] on a mismatch, [`ImageError::NotAnImage`] for an algorithm nobody registered.
pub(crate) fn check_digest(what: &str, bytes: &[u8], expected: &Digest) -> Result<(), ImageError> {
    // An algorithm that cannot be computed is an error, and never a document that passes unchecked.
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
