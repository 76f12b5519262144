//! The small documents of an archive or layout.

use std::io::Read;

use crate::image_error::ImageError;
use crate::verify;
use image_linkage::digest::{Digest, DigestHasher};
use image_linkage::path::RootPath;

/// An opened document and its size in bytes.
pub(crate) type OpenedDocument<'a> = (Box<dyn Read + 'a>, u64);

/// Opens members of an archive, or files of a layout, by name.
pub(crate) trait DocumentStore {
    /// The name of the archive or layout in errors.
    fn what(&self) -> &str;

    /// Opens the member `name` after following links; `None` if there is none.
    fn open(&self, name: &RootPath) -> Result<Option<OpenedDocument<'_>>, ImageError>;
}

/// Reads the document `name` and verifies it against `digest` and `size`, if given; `None` if there is none.
///
/// Errors: As [`verify::read_document`], and those of the source.
pub(crate) fn find_document(
    documents: &dyn DocumentStore,
    name: &RootPath,
    digest: Option<&Digest>,
    size: Option<u64>,
    limit: u64,
) -> Result<Option<Vec<u8>>, ImageError> {
    let Some((reader, found)) = documents.open(name)? else {
        return Ok(None);
    };
    let what = name_member(documents, name);
    // Compare the stored size first: it reveals a damaged archive without reading and hashing.
    if let Some(expected) = size.filter(|&expected| expected != found) {
        return Err(ImageError::Size { what, expected, found });
    }
    verify::read_document(&what, reader, digest, size, limit).map(Some)
}

/// Reads the required document `name`.
///
/// Errors: [`ImageError::NotAnImage`] if it is missing, otherwise as [`find_document`].
pub(crate) fn read_document(
    documents: &dyn DocumentStore,
    name: &RootPath,
    digest: Option<&Digest>,
    size: Option<u64>,
    limit: u64,
) -> Result<Vec<u8>, ImageError> {
    find_document(documents, name, digest, size, limit)?.ok_or_else(|| missing_member(documents.what(), name))
}

/// The error for a missing member that a manifest names.
pub(crate) fn missing_member(what: &str, name: &RootPath) -> ImageError {
    ImageError::not_an_image(
        what,
        format!(
            "{} is named by its manifest and is missing; it was cut short or is damaged, save the image again",
            shown(name)
        ),
    )
}

/// The name of a member in errors.
pub(crate) fn name_member(documents: &dyn DocumentStore, name: &RootPath) -> String {
    format!("{} in {}", shown(name), documents.what())
}

fn shown(name: &RootPath) -> String {
    image_linkage::escape::escape_bytes(name.as_bytes())
}

/// The path of a blob in an image layout (image-spec, image-layout.md, "Blobs").
///
/// Errors: [`ImageError::NotAnImage`] for an unregistered algorithm, so that a path only ever contains hexadecimal
/// digits.
pub(crate) fn blob_name(what: &str, digest: &Digest) -> Result<RootPath, ImageError> {
    // The digest of an unregistered algorithm may contain dots and slashes (CVE-2024-3727).
    if DigestHasher::new(Some(digest)).is_err() {
        return Err(ImageError::not_an_image(
            what,
            format!("digest {digest} is of none of the algorithms sha256, sha384, sha512"),
        ));
    }
    Ok(RootPath::from(
        format!("blobs/{}/{}", digest.algorithm(), digest.digest()).as_str(),
    ))
}

/// The digest in a member's name: `blobs/sha256/HEX`, `sha256:HEX` or `HEX.json`.
pub(crate) fn digest_of_name(name: &RootPath) -> Option<Digest> {
    let name = std::str::from_utf8(name.as_bytes()).ok()?;
    // In this order: OCI layouts and Docker 25; crane; Docker before 25 and skopeo. `HEX.tar` is excluded, because HEX
    // is a digest or another ID depending on the writer.
    let stated = match name.strip_prefix("blobs/") {
        Some(blob) => blob.replacen('/', ":", 1),
        None if name.contains(':') => name.to_owned(),
        None => format!("sha256:{}", name.strip_suffix(".json")?),
    };
    stated.parse().ok().filter(|digest| blob_name("", digest).is_ok())
}

#[cfg(test)]
mod tests {
    use super::{blob_name, digest_of_name};
    use image_linkage::path::RootPath;

    const HEX: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn only_a_member_named_by_a_digest_has_a_stated_digest() {
        for name in [
            format!("blobs/sha256/{HEX}"),
            format!("sha256:{HEX}"),
            format!("{HEX}.json"),
        ] {
            let found = digest_of_name(&RootPath::from(name.as_str())).unwrap();
            assert_eq!(found.to_string(), format!("sha256:{HEX}"), "{name}");
        }
        for name in [
            "manifest.json",
            "repositories",
            "blobs/sha256/short",
            "blobs/md5/00",
            HEX,
        ] {
            assert_eq!(digest_of_name(&RootPath::from(name)), None, "{name}");
        }
    }

    #[test]
    fn a_digest_of_an_unknown_algorithm_never_becomes_a_path() {
        let name = blob_name("x", &format!("sha256:{HEX}").parse().unwrap()).unwrap();
        assert_eq!(name, RootPath::from(format!("blobs/sha256/{HEX}").as_str()));
        let error = blob_name("x", &"md5:a_=-".parse().unwrap()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "x is not a container image: digest md5:a_=- is of none of the algorithms sha256, sha384, sha512"
        );
    }
}
