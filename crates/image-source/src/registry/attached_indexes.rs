//! The indexes of an image's layers beside the image in its registry: who may push there says what the layers hold, and
//! who trusts that reads no layer.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use image_linkage::digest::Digest;
use image_linkage::layer::LayerIndex;

use super::client::RepositoryClient;
use super::options::RegistryOptions;
use super::push::RegistryPush;
use super::referrers::{ArtifactBlob, ListedReferrer, artifact_blobs, list_referrers, read_artifact_blob};
use crate::image::LayerDescriptor;
use crate::image_error::ImageError;
use crate::layer_cache::{compress_index, decompress_index};
use crate::manifest::Descriptor;
use crate::registry_reference::RegistryReference;

/// What the artifact is, and what each of its blobs.
const ARTIFACT: &str = "application/vnd.image-linkage.layer-indexes.v1";
const INDEX: &str = "application/vnd.image-linkage.layer-index.v1+zstd";
/// The annotations: by what reading the indexes were made, and which blob a layer is.
const FINGERPRINT: &str = "image-linkage.fingerprint";
const LAYER: &str = "image-linkage.layer";
/// The bytes of an index as it is stored: that of a million files has some 30 MiB.
const INDEX_BYTES: u64 = 256 << 20;

/// The indexes that lie beside one image.
pub(super) struct AttachedIndexes {
    client: Arc<RepositoryClient>,
    image: Digest,
    fingerprint: Digest,
    /// Asked for when the first layer is.
    listed: OnceLock<Vec<Descriptor>>,
}

impl AttachedIndexes {
    /// Those of the image with the manifest `image` that were made with what `fingerprint` stands for.
    pub(super) fn new(client: &Arc<RepositoryClient>, image: Digest, fingerprint: Digest) -> Self {
        let (client, listed) = (Arc::clone(client), OnceLock::new());
        Self {
            client,
            image,
            fingerprint,
            listed,
        }
    }

    /// The index of a layer; none where there is none that can be had: the layer is read then.
    pub(super) fn find(&self, layer: &LayerDescriptor) -> Option<LayerIndex> {
        let digest = layer.digest.as_ref()?;
        let listed = self.listed.get_or_init(|| self.list().unwrap_or_default());
        let blob = listed.iter().find(|blob| {
            let annotations = blob.annotations.iter().flatten();
            annotations
                .into_iter()
                .any(|(key, value)| key == LAYER && value == digest.as_ref())
        })?;
        let bytes = read_artifact_blob(&self.client, blob, INDEX_BYTES).ok()?;
        let mut index = decompress_index(&bytes)?;
        (index.digest, index.compressed_bytes) = (digest.clone(), layer.size?);
        // The config says which tar the layer is: an index of another one is a mistake of who pushed it.
        (layer.diff_id.as_ref() == Some(&index.diff_id)).then_some(index)
    }

    fn list(&self) -> Result<Vec<Descriptor>, ImageError> {
        let all = list_referrers(&self.client, &self.image, &[ARTIFACT])?;
        let fingerprint = self.fingerprint.as_ref();
        let is_ours = |listed: &ListedReferrer| {
            let made_with = listed.annotations.get(FINGERPRINT);
            made_with.is_some_and(|made_with| made_with == fingerprint)
        };
        // The last that was pushed, where several were.
        let ours = all.into_iter().rev().find(is_ours);
        ours.map_or(Ok(Vec::new()), |listed| {
            artifact_blobs(&self.client, &listed.digest, &self.image)
        })
    }
}

/// Puts the indexes of the layers of `image` beside it; gives the digest of the artifact's manifest and the bytes of all
/// indexes as they are stored.
///
/// Errors: Why the registry does not take them.
pub fn push_indexes(
    reference: &RegistryReference,
    written: &str,
    options: &RegistryOptions,
    image: &Digest,
    fingerprint: &Digest,
    indexes: &[LayerIndex],
) -> Result<(Digest, u64), ImageError> {
    let mut blobs = Vec::new();
    for index in indexes {
        let mut bytes = Vec::new();
        compress_index(index, &mut bytes).map_err(ImageError::io(written))?;
        blobs.push(ArtifactBlob {
            media_type: INDEX.to_owned(),
            bytes,
            annotations: BTreeMap::from([(LAYER.to_owned(), index.digest.to_string())]),
        });
    }
    let push = RegistryPush::beside(reference, written, options)?;
    let annotations = BTreeMap::from([(FINGERPRINT.to_owned(), fingerprint.to_string())]);
    let digest = push.push_artifact(image, ARTIFACT, &annotations, &blobs)?;
    let bytes = blobs.iter().map(|blob| blob.bytes.len() as u64).sum();
    Ok((digest, bytes))
}
