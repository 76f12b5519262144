//! Resolves a tag or a digest to the manifest of one platform.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::ops::ControlFlow;

use reqwest::header::{ACCEPT, HeaderMap, HeaderValue};

use super::client::RepositoryClient;
use super::request_errors::{media_type, remote_error, shorten_text};
use super::retry::{AttemptFailure, retry_attempts};
use super::steady_body::{broken_body, broken_document};
use crate::image_error::ImageError;
use crate::manifest::{self, Descriptor, FoundManifest, ManifestDocument};
use crate::registry_reference::RegistryReference;
use crate::verify;
use image_linkage::digest::Digest;

/// The maximum depth of nested indexes. No index can contain itself, because its digest would depend on itself. But a
/// hostile registry can nest them arbitrarily deep.
const DEPTH: usize = 3;

/// The supported document types; Docker's schema 1 is not supported.
const MANIFESTS: &str = "application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json, \
    application/vnd.docker.distribution.manifest.v2+json, application/vnd.docker.distribution.manifest.list.v2+json";

/// The response header with a manifest's digest, on pull and push (distribution-spec, "Pulling manifests").
pub(super) const CONTENT_DIGEST: &str = "docker-content-digest";

/// A downloaded document, and its digest according to the registry.
pub(super) struct FetchedDocument {
    pub(super) bytes: Vec<u8>,
    claimed: Option<String>,
}

/// Fetches the manifest of `reference`. For an index, `choose` picks the entry or stops.
///
/// Errors: The image does not exist, is not an image or does not match its digest; or an error of `choose`.
pub(super) fn fetch_manifest<B>(
    client: &RepositoryClient,
    reference: &RegistryReference,
    limit: u64,
    choose: impl Fn(&str, &[Descriptor]) -> Result<ControlFlow<B, Descriptor>, ImageError>,
) -> Result<ControlFlow<B, FoundManifest>, ImageError> {
    let name = client.written.as_str();
    let mut digest = reference.digest().map(manifest::parse_digest).transpose()?;
    let mut size = None;
    for _ in 0..=DEPTH {
        // With both a tag and a digest the digest wins, as in `docker pull`: the tag may have moved.
        let wanted = digest
            .as_ref()
            .map(ToString::to_string)
            .or_else(|| reference.tag().map(str::to_owned))
            .unwrap_or_else(|| "latest".to_owned());
        let arrived = fetch_document(client, &format!("manifests/{wanted}"), limit)?;
        let what = format!("manifest {wanted} of {name}");
        // A document requested by digest must match it. Neither the registry nor a cache in front of it is trusted.
        let bytes = verify::read_document(&what, &*arrived.bytes, digest.as_ref(), size, limit)?;
        let found = match digest {
            Some(digest) => digest,
            None => computed(&what, &bytes, arrived.claimed.as_deref())?,
        };
        match manifest::read_manifest(name, &bytes)? {
            ManifestDocument::Manifest(manifest) => {
                return Ok(ControlFlow::Continue(FoundManifest {
                    digest: found,
                    manifest,
                    bytes,
                    annotations: BTreeMap::new(),
                }));
            }
            ManifestDocument::Index(entries) => match choose(name, &entries)? {
                ControlFlow::Break(why) => return Ok(ControlFlow::Break(why)),
                ControlFlow::Continue(chosen) => {
                    digest = Some(chosen.digest);
                    size = Some(chosen.size);
                }
            },
        }
    }
    Err(ImageError::not_an_image(
        name,
        format!("its index leads through more than {DEPTH} other indexes"),
    ))
}

/// Fetches the document that an index describes.
///
/// Errors: It does not exist, is not an image or does not match its digest.
pub(super) fn read_described(
    client: &RepositoryClient,
    described: &Descriptor,
    limit: u64,
) -> Result<ManifestDocument, ImageError> {
    let (name, digest) = (&client.written, &described.digest);
    let arrived = fetch_document(client, &format!("manifests/{digest}"), limit)?;
    let what = format!("manifest {digest} of {name}");
    let bytes = verify::read_document(&what, &*arrived.bytes, Some(digest), Some(described.size), limit)?;
    manifest::read_manifest(name, &bytes)
}

/// The digest of a document requested by tag, checked against the registry's header.
fn computed(what: &str, bytes: &[u8], claimed: Option<&str>) -> Result<Digest, ImageError> {
    if let Some(claimed) = claimed {
        let claimed: Digest = claimed.parse().map_err(|error| {
            remote_error(format!(
                "{what}: the registry names it by \"{}\", which is not a digest ({error})",
                shorten_text(claimed.as_bytes())
            ))
        })?;
        // For a tag the header is the only available digest. The check detects a proxy that rewrites documents.
        verify::check_digest(what, bytes, &claimed)?;
        return Ok(claimed);
    }
    Ok(Digest::of(bytes))
}

/// Fetches one document of the repository, such as `manifests/latest`; reads at most `limit` + 1 bytes.
///
/// Errors: Why the registry does not serve it.
pub(super) fn fetch_document(client: &RepositoryClient, part: &str, limit: u64) -> Result<FetchedDocument, ImageError> {
    retry_attempts(&client.patience, || attempt(client, part, limit))
}

fn attempt(client: &RepositoryClient, part: &str, limit: u64) -> Result<FetchedDocument, AttemptFailure> {
    let mut headers = HeaderMap::new();
    // A registry answers 404 for a type that is not accepted, or converts the document into one with another digest.
    headers.insert(ACCEPT, HeaderValue::from_static(MANIFESTS));
    let answer = client.attempt(part, headers, 0)?;
    let (status, media_type) = (answer.response.status(), media_type(&answer.response));
    let claimed = answer
        .response
        .headers()
        .get(CONTENT_DIGEST)
        .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    let mut bytes = Vec::new();
    answer
        .body(None)
        .take(limit.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(|error| {
            let what = part
                .strip_prefix("manifests/")
                .map_or_else(|| part.to_owned(), |name| format!("the manifest {name}"));
            let text = format!(
                "{}: {what} broke off after {} bytes ({}); try again later",
                client.registry,
                bytes.len(),
                broken_body(&error)
            );
            broken_document(&error, remote_error(text))
        })?;
    // Login pages of proxies and captive portals answer 200, some with no media type or a wrong one.
    if media_type == "text/html" || bytes.trim_ascii_start().starts_with(b"<") {
        return Err(remote_error(format!(
            "{} is not a registry, or a proxy answers for it: it answered {status} with {} instead of a manifest, beginning \"{}\"",
            client.registry,
            if media_type.is_empty() { "a page".to_owned() } else { shorten_text(media_type.as_bytes()) },
            shorten_text(bytes.get(..bytes.len().min(60)).unwrap_or_default())
        ))
        .into());
    }
    Ok(FetchedDocument { bytes, claimed })
}
