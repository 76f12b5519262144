//! Chooses the image in an OCI image layout (image-spec, image-layout.md), as a directory or archive.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::ops::ControlFlow;

use serde::Deserialize;

use super::documents::{self, DocumentStore, blob_name};
use super::wanted_image::{self, ChosenImage, WantedImage, name_not_found};
use crate::config::ImageConfig;
use crate::image::Image;
use crate::image_error::ImageError;
use crate::manifest::{Descriptor, FoundManifest};
use crate::platform::Platform;
use crate::source::{ImageDocuments, OpenRequest};
use crate::source_kind::SourceKind;
use crate::{config, manifest};
use image_linkage::digest::Digest;
use image_linkage::path::RootPath;

/// The maximum nesting of indexes, including `index.json`.
const MAX_DEPTH: usize = 3;

/// The maximum manifests examined for one config. Real archives have a few dozen, including attestations.
const MAX_MANIFESTS: usize = 1_000;

/// Reads the wanted image from the layout in `documents`, which has an index.
///
/// Errors: [`ImageError::NotFound`] for an unknown tag, [`ImageError::Reference`] if there are several images and no
/// name, otherwise those of [`manifest`] and [`documents`].
pub(crate) fn choose_indexed_image(
    documents: &dyn DocumentStore,
    kind: SourceKind,
    wanted: &WantedImage<'_>,
    request: &OpenRequest<'_>,
) -> Result<ChosenImage, ImageError> {
    let choose = |what: &str, index: &[Descriptor]| {
        let read = |descriptor: &Descriptor| read_platform(documents, descriptor, request);
        let chosen = manifest::choose_manifest(what, index, request.platform, &read)?;
        Ok(ControlFlow::<Infallible, _>::Continue(chosen))
    };
    let ControlFlow::Continue(found) = find_manifest(documents, wanted, request, choose)?;
    image(documents, kind, wanted, found, request)
}

/// The platforms of the wanted images.
pub(super) fn list_indexed_platforms(
    documents: &dyn DocumentStore,
    wanted: &WantedImage<'_>,
    request: &OpenRequest<'_>,
) -> Result<Vec<Platform>, ImageError> {
    let read = |descriptor: &Descriptor| read_platform(documents, descriptor, request);
    let choose = |what: &str, index: &[Descriptor]| manifest::index_platforms(what, index, &read);
    match find_manifest(documents, wanted, request, choose)? {
        ControlFlow::Break(platforms) => Ok(platforms),
        ControlFlow::Continue(found) => {
            let (_, platform, _) = read_config(documents, &found.manifest.config, request)?;
            Ok(manifest::known_platform(platform).into_iter().collect())
        }
    }
}

/// Builds the image of one manifest.
fn image(
    documents: &dyn DocumentStore,
    kind: SourceKind,
    wanted: &WantedImage<'_>,
    found: FoundManifest,
    request: &OpenRequest<'_>,
) -> Result<ChosenImage, ImageError> {
    let what = documents.what();
    let (bytes, platform, config) = read_config(documents, &found.manifest.config, request)?;
    manifest::expect_platform(what, &platform, request.platform)?;
    let layers = manifest::describe_layers(what, &found.manifest, &config, request.limits())?;
    let members = found
        .manifest
        .layers
        .iter()
        .map(|layer| blob_name(what, &layer.digest))
        .collect::<Result<_, _>>()?;
    Ok(ChosenImage {
        image: Image {
            reference: wanted.reference.to_owned(),
            source: kind,
            digest: Some(found.digest),
            repo_digests: Vec::new(),
            platform,
            config,
            layers,
        },
        documents: ImageDocuments {
            config: bytes,
            manifest: Some(found.bytes),
            annotations: found.annotations,
        },
        members,
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LayoutFile {
    image_layout_version: String,
}

/// Checks the `oci-layout` file and its version.
fn check_version(documents: &dyn DocumentStore, request: &OpenRequest<'_>) -> Result<(), ImageError> {
    let not_a_layout = |reason: String| ImageError::not_an_image(documents.what(), reason);
    let name = RootPath::from("oci-layout");
    let bytes = documents::find_document(documents, &name, None, None, request.limits().document)?
        .ok_or_else(|| not_a_layout("it has no oci-layout file".to_owned()))?;
    let file: LayoutFile = serde_json::from_slice(&bytes)
        .map_err(|error| not_a_layout(format!("its oci-layout file cannot be read: {error}")))?;
    // A later 1.x may add files but must not change existing ones.
    if file.image_layout_version.starts_with("1.") {
        return Ok(());
    }
    Err(not_a_layout(format!(
        "it is an OCI layout of version {:?}, and only 1.0.0 is known",
        file.image_layout_version
    )))
}

/// The descriptors in `index.json`.
fn index(documents: &dyn DocumentStore, request: &OpenRequest<'_>) -> Result<Vec<Descriptor>, ImageError> {
    let name = RootPath::from("index.json");
    let bytes = documents::find_document(documents, &name, None, None, request.limits().document)?
        .ok_or_else(|| ImageError::not_an_image(documents.what(), "it has no index.json"))?;
    let what = documents::name_member(documents, &name);
    match manifest::read_manifest(&what, &bytes)? {
        manifest::ManifestDocument::Index(descriptors) => Ok(descriptors),
        manifest::ManifestDocument::Manifest(_) => Err(ImageError::not_an_image(
            what,
            "it is a manifest where an index belongs",
        )),
    }
}

/// The descriptors with the wanted name. Without a name, all descriptors if they share one name.
fn named(what: &str, index: &[Descriptor], wanted: &WantedImage<'_>) -> Result<Vec<Descriptor>, ImageError> {
    let candidates: Vec<&Descriptor> = match wanted.name {
        Some(name) => index.iter().filter(|descriptor| is_named(descriptor, name)).collect(),
        None => index.iter().collect(),
    };
    let names: BTreeSet<&str> = candidates.iter().filter_map(|d| full_name(d)).collect();
    match wanted.name {
        Some(name) if candidates.is_empty() => Err(name_not_found(what, name, index.iter().filter_map(full_name))),
        // Several descriptors with the same name are one multi-platform image; some tools write no nested index.
        _ if names.len() > 1 => Err(wanted.ambiguous(names.into_iter())),
        _ => Ok(candidates.into_iter().cloned().collect()),
    }
}

/// Whether `name` is the descriptor's tag, full name or digest.
fn is_named(descriptor: &Descriptor, name: &str) -> bool {
    let annotations = ["org.opencontainers.image.ref.name", "io.containerd.image.name"];
    // Depending on the tool, ref.name contains only the tag or the full name.
    descriptor.digest.as_ref() == name
        || annotations
            .iter()
            .filter_map(|key| annotation(descriptor, key))
            .any(|found| found == name || tag(found) == Some(name) || wanted_image::same_name(found, name))
}

/// The most complete name of a descriptor. Docker and containerd write only the tag to the standard annotation and the
/// full name to their own.
fn full_name(descriptor: &Descriptor) -> Option<&str> {
    annotation(descriptor, "io.containerd.image.name")
        .or_else(|| annotation(descriptor, "org.opencontainers.image.ref.name"))
}

fn annotation<'a>(descriptor: &'a Descriptor, key: &str) -> Option<&'a str> {
    let annotations = descriptor.annotations.as_ref()?;
    annotations.get(key).map(String::as_str)
}

/// The tag in a full name.
fn tag(name: &str) -> Option<&str> {
    name.rsplit_once(':')
        .map(|(_, tag)| tag)
        .filter(|tag| !tag.contains('/'))
}

/// Reads and verifies a descriptor's document. Also returns its name in the archive.
fn read_blob(
    documents: &dyn DocumentStore,
    descriptor: &Descriptor,
    request: &OpenRequest<'_>,
) -> Result<(RootPath, Vec<u8>), ImageError> {
    let name = blob_name(documents.what(), &descriptor.digest)?;
    let bytes = documents::read_document(
        documents,
        &name,
        Some(&descriptor.digest),
        Some(descriptor.size),
        request.limits().document,
    )?;
    Ok((name, bytes))
}

/// Reads a descriptor's config: raw and parsed.
fn read_config(
    documents: &dyn DocumentStore,
    descriptor: &Descriptor,
    request: &OpenRequest<'_>,
) -> Result<(Vec<u8>, Platform, ImageConfig), ImageError> {
    let (name, bytes) = read_blob(documents, descriptor, request)?;
    let what = documents::name_member(documents, &name);
    let (platform, config) = config::read_image_config(&what, &bytes)?;
    Ok((bytes, platform, config))
}

/// Reads the platform in the config of a manifest; `None` for other documents.
fn read_platform(
    documents: &dyn DocumentStore,
    descriptor: &Descriptor,
    request: &OpenRequest<'_>,
) -> Result<Option<Platform>, ImageError> {
    let (name, bytes) = read_blob(documents, descriptor, request)?;
    let what = documents::name_member(documents, &name);
    let manifest::ManifestDocument::Manifest(manifest) = manifest::read_manifest(&what, &bytes)? else {
        return Ok(None);
    };
    let (_, platform, _) = read_config(documents, &manifest.config, request)?;
    Ok(manifest::known_platform(platform))
}

/// Applies `choose` from the wanted images through nested indexes down to one manifest, unless it breaks.
fn find_manifest<B>(
    documents: &dyn DocumentStore,
    wanted: &WantedImage<'_>,
    request: &OpenRequest<'_>,
    choose: impl Fn(&str, &[Descriptor]) -> Result<ControlFlow<B, Descriptor>, ImageError>,
) -> Result<ControlFlow<B, FoundManifest>, ImageError> {
    // Check this first: an index.json alone may belong to anything.
    check_version(documents, request)?;
    let index = index(documents, request)?;
    let candidates = named(documents.what(), &index, wanted)?;
    let mut chosen = choose(documents.what(), &candidates)?;
    let annotations = match &chosen {
        ControlFlow::Continue(descriptor) => descriptor.annotations.clone().unwrap_or_default(),
        ControlFlow::Break(_) => BTreeMap::new(),
    };
    for _ in 0..MAX_DEPTH {
        let descriptor = match chosen {
            ControlFlow::Break(why) => return Ok(ControlFlow::Break(why)),
            ControlFlow::Continue(descriptor) => descriptor,
        };
        let (name, bytes) = read_blob(documents, &descriptor, request)?;
        let what = documents::name_member(documents, &name);
        chosen = match manifest::read_manifest(&what, &bytes)? {
            manifest::ManifestDocument::Manifest(manifest) => {
                let digest = descriptor.digest;
                return Ok(ControlFlow::Continue(FoundManifest {
                    digest,
                    manifest,
                    bytes,
                    annotations,
                }));
            }
            manifest::ManifestDocument::Index(inner) => choose(&what, &inner)?,
        };
    }
    Err(ImageError::not_an_image(
        documents.what(),
        format!("its indexes lie more than {MAX_DEPTH} deep in each other"),
    ))
}

/// The only manifest with this `config`; `None` if there is none or several.
///
/// Docker 25 and later also list images in `manifest.json` and may omit manifests and indexes of other platforms, so
/// unreadable ones are skipped.
pub(super) fn manifest_of_config(
    documents: &dyn DocumentStore,
    config: &Digest,
    request: &OpenRequest<'_>,
) -> Option<FoundManifest> {
    let mut queue: Vec<(Descriptor, usize)> = index(documents, request)
        .ok()?
        .into_iter()
        .map(|descriptor| (descriptor, 0))
        .collect();
    let mut seen = BTreeSet::new();
    let mut found: Option<FoundManifest> = None;
    while let Some((descriptor, depth)) = queue.pop() {
        // An index may contain itself, or the same manifest under many tags.
        if !seen.insert(descriptor.digest.clone()) || seen.len() > MAX_MANIFESTS {
            continue;
        }
        let (digest, size) = (descriptor.digest, descriptor.size);
        // A digest that yields no safe path makes the index untrustworthy: stop.
        let name = blob_name(documents.what(), &digest).ok()?;
        let limit = request.limits().document;
        let Ok(Some(bytes)) =
            // Skip missing blobs: `docker save --platform` lists platforms but omits their blobs.
            documents::find_document(documents, &name, Some(&digest), Some(size), limit)
        else {
            continue;
        };
        match manifest::read_manifest("", &bytes) {
            Ok(manifest::ManifestDocument::Manifest(manifest)) if manifest.config.digest == *config => {
                // Two manifests with the same config differ in layer compression. Which one was meant is unknown.
                if found.is_some() {
                    return None;
                }
                found = Some(FoundManifest {
                    digest,
                    manifest,
                    bytes,
                    annotations: BTreeMap::new(),
                });
            }
            Ok(manifest::ManifestDocument::Index(inner)) if depth + 1 < MAX_DEPTH => {
                queue.extend(inner.into_iter().map(|descriptor| (descriptor, depth + 1)));
            }
            _ => {}
        }
    }
    found
}
