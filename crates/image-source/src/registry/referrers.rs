//! Documents beside an image in its repository: manifests that name it as their subject (distribution-spec 1.1,
//! "Listing Referrers" and "Pushing Manifests with Subject").

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use image_linkage::digest::Digest;
use serde::Deserialize;
use serde_json::{Value, json};

use super::blob::open_blob;
use super::client::RepositoryClient;
use super::manifest::fetch_document;
use super::push::RegistryPush;
use super::request_errors::remote_error;
use crate::image_error::ImageError;
use crate::manifest::Descriptor;
use crate::verify::read_document;

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
/// The config of a manifest that is no image (image-spec, "Guidance for an Empty Descriptor").
const EMPTY: (&str, &[u8]) = ("application/vnd.oci.empty.v1+json", b"{}");
/// How often a list that others write at the same time is written again.
const RACES: u64 = 10;
/// How long another's list, made of what was there before, may take to replace one's own.
const RACE: Duration = Duration::from_millis(300);

/// One blob of an artifact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ArtifactBlob {
    /// What the bytes are.
    pub(super) media_type: String,
    /// The bytes as they are stored.
    pub(super) bytes: Vec<u8>,
    /// What is said of the blob beside its digest.
    pub(super) annotations: BTreeMap<String, String>,
}

/// What is listed of an artifact.
#[derive(Deserialize)]
struct ArtifactManifest {
    #[serde(default)]
    layers: Vec<Descriptor>,
    subject: Option<Descriptor>,
}

/// What a list says of one artifact.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ListedReferrer {
    pub(super) digest: Digest,
    artifact_type: Option<String>,
}

impl RegistryPush {
    /// Puts an artifact beside the image whose manifest has the digest `subject`, and gives the artifact's digest.
    ///
    /// Errors: The image is not there, or why the registry does not take it.
    pub(super) fn push_artifact(
        &self,
        subject: &Digest,
        artifact_type: &str,
        annotations: &BTreeMap<String, String>,
        blobs: &[ArtifactBlob],
    ) -> Result<Digest, ImageError> {
        // It is also how the registry is first spoken to, which finds out whether it speaks TLS.
        let image = read_manifest(&self.client, subject)?;
        let mut layers = Vec::new();
        let config = ArtifactBlob {
            media_type: EMPTY.0.to_owned(),
            bytes: EMPTY.1.to_vec(),
            annotations: BTreeMap::new(),
        };
        for blob in [&config].into_iter().chain(blobs) {
            let (digest, size) = (Digest::of(&blob.bytes), blob.bytes.len() as u64);
            // A body of its own for each attempt: sending one uses it up.
            self.push_blob(&digest, size, &|| {
                Ok(Box::new(std::io::Cursor::new(blob.bytes.clone())))
            })?;
            layers.push(json!({
                "mediaType": blob.media_type, "digest": digest, "size": size, "annotations": blob.annotations,
            }));
        }
        let media_type: Value = serde_json::from_slice(&image).unwrap_or_default();
        let media_type = media_type.get("mediaType").and_then(Value::as_str).unwrap_or(MANIFEST);
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "artifactType": artifact_type,
            "config": layers.remove(0),
            "layers": layers,
            "subject": { "mediaType": media_type, "digest": subject, "size": image.len() },
            "annotations": annotations,
        });
        let bytes = manifest.to_string().into_bytes();
        let digest = Digest::of(&bytes);
        let lists_it = self.put_manifest(digest.as_ref(), MANIFEST, &bytes)?;
        if !lists_it {
            let entry = json!({
                "mediaType": MANIFEST, "digest": digest, "size": bytes.len(),
                "artifactType": artifact_type, "annotations": annotations,
            });
            self.list_by_tag(subject, &entry)?;
        }
        Ok(digest)
    }

    /// Enters an artifact into the list that a registry without the interface for referrers holds under a tag.
    fn list_by_tag(&self, subject: &Digest, entry: &Value) -> Result<(), ImageError> {
        let tag = referrers_tag(subject);
        let digest = entry.get("digest");
        for race in 0..RACES {
            let mut entries = match fetch(&self.client, &format!("manifests/{tag}"))? {
                Some(bytes) => list_entries(&bytes),
                None => Vec::new(),
            };
            if entries.iter().any(|listed| listed.get("digest") == digest) {
                return Ok(());
            }
            entries.push(entry.clone());
            let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": entries});
            self.put_manifest(&tag, INDEX, index.to_string().as_bytes())?;
            // Read again: another's list may have taken the place of this one in the meantime. Those that lost a race together
            // wait for different times, by their digests, so that they do not meet again.
            let own = digest.map_or(0, |digest| digest.to_string().bytes().map(u64::from).sum());
            std::thread::sleep(RACE + Duration::from_millis((race + 1) * (own % 97)));
        }
        Err(remote_error(format!(
            "{}: others keep writing the list of what lies beside it ({tag}); try again",
            self.client.written
        )))
    }
}

/// The artifacts of some types that name an image as their subject, each with its annotations.
///
/// Errors: Why the registry does not list them. One that lists none has none.
pub(super) fn list_referrers(
    client: &RepositoryClient,
    subject: &Digest,
    artifact_types: &[&str],
) -> Result<Vec<ListedReferrer>, ImageError> {
    // Before 1.1 registries know no such address (distribution-spec, "Unavailable Referrers API").
    let bytes = match fetch(client, &format!("referrers/{subject}"))? {
        Some(bytes) => Some(bytes),
        None => fetch(client, &format!("manifests/{}", referrers_tag(subject)))?,
    };
    let entries = bytes.map(|bytes| list_entries(&bytes)).unwrap_or_default();
    // What cannot be read is of another kind than what is asked for.
    let read = entries
        .into_iter()
        .filter_map(|entry| serde_json::from_value(entry).ok());
    Ok(read
        .filter(|referrer: &ListedReferrer| {
            let listed_as = referrer.artifact_type.as_deref();
            listed_as.is_some_and(|listed_as| artifact_types.contains(&listed_as))
        })
        .collect())
}

/// What names the blobs of an artifact of `subject`.
///
/// Errors: Why it cannot be had, and that it is about another image.
pub(super) fn artifact_blobs(
    client: &RepositoryClient,
    artifact: &Digest,
    subject: &Digest,
) -> Result<Vec<Descriptor>, ImageError> {
    let what = format!("artifact {artifact} of {}", client.written);
    let bytes = read_manifest(client, artifact)?;
    let manifest: ArtifactManifest = serde_json::from_slice(&bytes)
        .map_err(|error| ImageError::not_an_image(&what, format!("its manifest cannot be read: {error}")))?;
    if manifest.subject.is_none_or(|named| named.digest != *subject) {
        return Err(ImageError::not_an_image(&what, "it is about another image".to_owned()));
    }
    Ok(manifest.layers)
}

/// The bytes of a blob of an artifact, at most `limit` of them.
///
/// Errors: Why it cannot be had, and that it is another one.
pub(super) fn read_artifact_blob(
    client: &Arc<RepositoryClient>,
    blob: &Descriptor,
    limit: u64,
) -> Result<Vec<u8>, ImageError> {
    let what = format!("blob {} of {}", blob.digest, client.written);
    let open = open_blob(client, &blob.digest, Some(blob.size))?;
    read_document(&what, open, Some(&blob.digest), Some(blob.size), limit)
}

fn read_manifest(client: &RepositoryClient, digest: &Digest) -> Result<Vec<u8>, ImageError> {
    let arrived = fetch_document(client, &format!("manifests/{digest}"), DOCUMENT)?;
    let what = format!("manifest {digest} of {}", client.written);
    read_document(&what, &*arrived.bytes, Some(digest), None, DOCUMENT)
}

/// The bytes of a list or of an artifact's manifest that are read: what distribution-spec asks registries to take.
const DOCUMENT: u64 = 4 << 20;

/// A list; nothing where there is none.
fn fetch(client: &RepositoryClient, part: &str) -> Result<Option<Vec<u8>>, ImageError> {
    match fetch_document(client, part, DOCUMENT) {
        Ok(arrived) => Ok(Some(arrived.bytes)),
        Err(ImageError::NotFound(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The entries of a list; a document that is none has none.
fn list_entries(bytes: &[u8]) -> Vec<Value> {
    let index: Value = serde_json::from_slice(bytes).unwrap_or_default();
    index
        .get("manifests")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default()
}

/// The tag of the list where a registry has no interface for it (distribution-spec, "Referrers Tag Schema").
fn referrers_tag(subject: &Digest) -> String {
    format!("{}-{}", subject.algorithm(), subject.digest())
}
