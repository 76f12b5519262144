//! Signed statements beside an image in its registry, in the form of Sigstore's bundles, as cosign writes and reads them.

use std::collections::BTreeMap;
use std::sync::Arc;

use image_linkage::digest::Digest;

use super::client::RepositoryClient;
use super::options::RegistryOptions;
use super::push::RegistryPush;
use super::referrers::{ArtifactBlob, artifact_blobs, list_referrers, read_artifact_blob};
use crate::image_error::ImageError;
use crate::registry_reference::RegistryReference;

/// The form of a bundle, and the type of an artifact that is one.
pub const BUNDLE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";
/// What cosign 3 enters in the place of that into the list under a tag: the media type of the config.
const LISTED_AS: &str = "application/vnd.oci.empty.v1+json";
/// The annotations that cosign chooses bundles by.
const CONTENT: (&str, &str) = ("dev.sigstore.bundle.content", "dsse-envelope");
const PREDICATE: &str = "dev.sigstore.bundle.predicateType";
/// The bytes of a bundle that are read.
const BUNDLE_BYTES: u64 = 16 << 20;
/// The bundles of one image that are read, the newest: others have nothing to say that counts.
const BUNDLES: usize = 64;

/// Puts a bundle beside the image with the manifest `image`, and gives the digest of the artifact.
///
/// Errors: Why the registry does not take it.
pub fn push_bundle(
    reference: &RegistryReference,
    written: &str,
    options: &RegistryOptions,
    image: &Digest,
    (predicate_type, bundle): (&str, &str),
) -> Result<Digest, ImageError> {
    let push = RegistryPush::beside(reference, written, options)?;
    let annotations = [CONTENT, (PREDICATE, predicate_type)];
    let annotations = annotations.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let blob = ArtifactBlob {
        media_type: BUNDLE.to_owned(),
        bytes: bundle.as_bytes().to_vec(),
        annotations: BTreeMap::new(),
    };
    push.push_artifact(image, BUNDLE, &BTreeMap::from(annotations), &[blob])
}

/// The bundles beside the image with the manifest `image`, in the order in which the registry lists them. What they say is
/// not verified.
///
/// Errors: Why the registry does not give them; of some of them only where none can be read.
pub fn read_bundles(
    reference: &RegistryReference,
    written: &str,
    options: &RegistryOptions,
    image: &Digest,
) -> Result<Vec<Vec<u8>>, ImageError> {
    let client = RepositoryClient::new(reference.registry(), reference.repository(), written, options)?;
    let client = Arc::new(client);
    let mut listed = list_referrers(&client, image, &[BUNDLE, LISTED_AS])?;
    let old = listed.len().saturating_sub(BUNDLES);
    let (mut bundles, mut unreadable) = (Vec::new(), None);
    for artifact in listed.drain(old..) {
        match read_artifact(&client, &artifact.digest, image) {
            Ok(found) => bundles.extend(found),
            // Who may push may put anything beside an image, which must not hide what is signed.
            Err(error) => unreadable = Some(error),
        }
    }
    match unreadable {
        Some(error) if bundles.is_empty() => Err(error),
        _ => Ok(bundles),
    }
}

fn read_artifact(
    client: &Arc<RepositoryClient>,
    artifact: &Digest,
    image: &Digest,
) -> Result<Vec<Vec<u8>>, ImageError> {
    let blobs = artifact_blobs(client, artifact, image)?.into_iter();
    let bundles = blobs.filter(|blob| blob.media_type == BUNDLE);
    bundles
        .map(|blob| read_artifact_blob(client, &blob, BUNDLE_BYTES))
        .collect()
}
