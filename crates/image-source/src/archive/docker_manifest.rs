//! Chooses the image in an archive of `docker save` by its `manifest.json`.
//!
//! Docker 25 and later, and every engine with the containerd store, save an OCI layout with a `manifest.json`. Older
//! versions store uncompressed layers as `ID/layer.tar`.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::documents::{self, DocumentStore, digest_of_name};
use super::oci_index;
use super::wanted_image::{ChosenImage, WantedImage, name_not_found, same_name};
use crate::config::ImageConfig;
use crate::image::{Image, LayerDescriptor};
use crate::image_error::ImageError;
use crate::platform::Platform;
use crate::source::{ImageDocuments, OpenRequest};
use crate::{config, manifest};
use image_linkage::digest::Digest;
use image_linkage::path::RootPath;

/// The media type of layers saved by `docker save`: plain tar, unless the magic number says otherwise.
const LAYER_MEDIA_TYPE: &str = "application/vnd.docker.image.rootfs.diff.tar";

/// One image in `manifest.json`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct SavedImage {
    config: String,
    repo_tags: Option<Vec<String>>,
    layers: Option<Vec<String>>,
}

/// An entry and its parsed config.
struct ImageCandidate<'a> {
    entry: &'a SavedImage,
    digest: Digest,
    platform: Platform,
    config: ImageConfig,
    /// The raw config.
    document: Vec<u8>,
}

/// Reads the image that `wanted` names. `manifest` is the content of `manifest.json`.
///
/// Errors: [`ImageError::NotFound`] for an unknown name, [`ImageError::Reference`] if there are several images and no
/// name, [`ImageError::NotAnImage`] for an unreadable one.
pub(super) fn choose_saved_image(
    documents: &dyn DocumentStore,
    manifest: &[u8],
    wanted: &WantedImage<'_>,
    request: &OpenRequest<'_>,
) -> Result<ChosenImage, ImageError> {
    let what = documents.what();
    let entries = read_entries(what, manifest)?;
    let candidates = candidates(documents, &entries, wanted, request)?;
    let chosen = choose(what, candidates, request)?;
    manifest::expect_platform(what, &chosen.platform, request.platform)?;
    image(documents, chosen, wanted, request)
}

/// The platforms of the wanted image. Several entries with the same name are one multi-platform image.
pub(super) fn list_saved_platforms(
    documents: &dyn DocumentStore,
    entries: &[u8],
    wanted: &WantedImage<'_>,
    request: &OpenRequest<'_>,
) -> Result<Vec<Platform>, ImageError> {
    let entries = read_entries(documents.what(), entries)?;
    let candidates = candidates(documents, &entries, wanted, request)?;
    let platforms = candidates.into_iter().map(|candidate| candidate.platform);
    Ok(platforms.filter_map(manifest::known_platform).collect())
}

fn read_entries(what: &str, manifest: &[u8]) -> Result<Vec<SavedImage>, ImageError> {
    serde_json::from_slice(manifest)
        .map_err(|error| ImageError::not_an_image(what, format!("its manifest.json cannot be read: {error}")))
}

fn candidates<'a>(
    documents: &dyn DocumentStore,
    entries: &'a [SavedImage],
    wanted: &WantedImage<'_>,
    request: &OpenRequest<'_>,
) -> Result<Vec<ImageCandidate<'a>>, ImageError> {
    named(documents, entries, wanted, request.limits().document)?
        .into_iter()
        .map(|entry| candidate(documents, entry, request))
        .collect()
}

/// The entries without repetitions: a config listed twice is one image.
fn each_once(mut entries: Vec<&SavedImage>) -> Vec<&SavedImage> {
    let mut seen = BTreeSet::new();
    entries.retain(|entry| seen.insert(&entry.config));
    entries
}

/// The entries with the wanted name. Without a name, all entries if they share one name.
fn named<'a>(
    documents: &dyn DocumentStore,
    entries: &'a [SavedImage],
    wanted: &WantedImage<'_>,
    limit: u64,
) -> Result<Vec<&'a SavedImage>, ImageError> {
    let what = documents.what();
    let Some(name) = wanted.name else {
        let entries = each_once(entries.iter().collect());
        let names: BTreeSet<&str> = entries.iter().map(|entry| name(entry)).collect();
        return match names.len() {
            0 => Err(ImageError::not_an_image(what, "its manifest.json lists no image")),
            1 => Ok(entries),
            _ => Err(wanted.ambiguous(names.into_iter())),
        };
    };
    // A name takes precedence over an ID, as in engines: `cafe` may be either.
    let tagged = entries
        .iter()
        .filter(|entry| tags(entry).any(|tag| same_name(tag, name)));
    let by_tag = each_once(tagged.collect());
    if !by_tag.is_empty() {
        return Ok(by_tag);
    }
    let mut identified = Vec::new();
    for entry in entries {
        if has_id(documents, entry, name, limit)? {
            identified.push(entry);
        }
    }
    let by_id = each_once(identified);
    match by_id.len() {
        0 => Err(name_not_found(what, name, entries.iter().map(self::name))),
        1 => Ok(by_id),
        _ => Err(wanted.ambiguous(by_id.iter().map(|entry| entry.config.as_str()))),
    }
}

fn tags(entry: &SavedImage) -> impl Iterator<Item = &str> {
    entry.repo_tags.iter().flatten().map(String::as_str)
}

/// The name of an entry in errors: its first tag or its config.
fn name(entry: &SavedImage) -> &str {
    tags(entry).next().unwrap_or(&entry.config)
}

/// Whether `id` is the config's digest or a prefix of it, as engines show.
fn has_id(documents: &dyn DocumentStore, entry: &SavedImage, id: &str, limit: u64) -> Result<bool, ImageError> {
    // Shorter prefixes would match by chance.
    let hex = id.strip_prefix("sha256:").unwrap_or(id);
    if hex.len() < 4 || !hex.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return Ok(false);
    }
    let config = documents::find_document(documents, &RootPath::from(entry.config.as_str()), None, None, limit)?;
    Ok(config.is_some_and(|config| Digest::of(&config).digest().starts_with(hex)))
}

fn candidate<'a>(
    documents: &dyn DocumentStore,
    entry: &'a SavedImage,
    request: &OpenRequest<'_>,
) -> Result<ImageCandidate<'a>, ImageError> {
    // Engines compute the digest and ignore the name (Docker 20.10, skopeo 1.9).
    let name = RootPath::from(entry.config.as_str());
    let bytes = documents::read_document(documents, &name, None, None, request.limits().document)?;
    let digest = Digest::of(&bytes);
    let (platform, config) = config::read_image_config(&documents::name_member(documents, &name), &bytes)?;
    Ok(ImageCandidate {
        entry,
        digest,
        platform,
        config,
        document: bytes,
    })
}

/// The only candidate, or the one for the wanted platform.
fn choose<'a>(
    what: &str,
    mut candidates: Vec<ImageCandidate<'a>>,
    request: &OpenRequest<'_>,
) -> Result<ImageCandidate<'a>, ImageError> {
    let host = Platform::host();
    let wish = request.platform.unwrap_or(&host);
    let at = match candidates.len() {
        // A single candidate is taken for any platform. The caller checks it.
        1 => Some(0),
        _ => candidates
            .iter()
            .position(|candidate| wish.accepts(&candidate.platform)),
    };
    match at {
        Some(at) => Ok(candidates.swap_remove(at)),
        None => Err(ImageError::Platform {
            what: what.to_owned(),
            wanted: wish.to_string(),
            offered: candidates
                .iter()
                .map(|candidate| candidate.platform.to_string())
                .collect(),
        }),
    }
}

fn image(
    documents: &dyn DocumentStore,
    chosen: ImageCandidate<'_>,
    wanted: &WantedImage<'_>,
    request: &OpenRequest<'_>,
) -> Result<ChosenImage, ImageError> {
    let what = documents.what();
    let not_an_image = |reason: String| ImageError::not_an_image(what, reason);
    let names = chosen.entry.layers.as_deref().unwrap_or_default();
    let (in_manifest, in_config) = (names.len(), chosen.config.diff_ids.len());
    // Each layer needs a diff ID. A saved build cache has fewer, which crashed other readers.
    if in_manifest != in_config {
        return Err(not_an_image(format!(
            "its manifest.json has {in_manifest} layers and the config {in_config}"
        )));
    }
    if in_manifest > request.limits().layers {
        return Err(not_an_image(format!(
            "it has {in_manifest} layers, more than the limit of {} (layers)",
            request.limits().layers
        )));
    }
    let members: Vec<RootPath> = names.iter().map(|name| name.as_str().into()).collect();
    let mut layers = layers(&members, &chosen.config);
    // The OCI manifest adds what manifest.json lacks: digests, media types and sizes as in the registry.
    let found = oci_index::manifest_of_config(documents, &chosen.digest, request);
    if let Some(found) = &found {
        let described = manifest::describe_layers(what, &found.manifest, &chosen.config, request.limits())?;
        // Otherwise a hostile archive could show different images to `docker load` and to tools that read the index.
        if !described.iter().map(|l| &l.digest).eq(layers.iter().map(|l| &l.digest)) {
            return Err(not_an_image(
                "its manifest.json and its index.json name different layers, and no one can say which are meant"
                    .to_owned(),
            ));
        }
        layers = described;
    }
    let (digest, manifest) = found.map(|found| (found.digest, found.bytes)).unzip();
    Ok(ChosenImage {
        image: Image {
            reference: wanted.reference.to_owned(),
            source: wanted.docker,
            digest,
            repo_digests: Vec::new(),
            platform: chosen.platform,
            config: chosen.config,
            layers,
        },
        documents: ImageDocuments {
            config: chosen.document,
            manifest,
            annotations: BTreeMap::new(),
        },
        members,
    })
}

/// The layers in `manifest.json`. Only the name of an OCI blob contains a digest.
fn layers(members: &[RootPath], config: &ImageConfig) -> Vec<LayerDescriptor> {
    let layers = config.diff_ids.iter().zip(members).enumerate();
    let described = layers.map(|(index, (diff_id, member))| LayerDescriptor {
        digest: digest_of_name(member).filter(|_| member.as_bytes().starts_with(b"blobs/")),
        diff_id: Some(diff_id.clone()),
        media_type: LAYER_MEDIA_TYPE.to_owned(),
        size: None,
        created_by: config.created_by.get(index).cloned(),
    });
    described.collect()
}
