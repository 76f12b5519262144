//! The image that an OCI image layout holds (image-spec, image-layout.md), in a folder or an archive.

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

/// Indexes in indexes, `index.json` included.
const MAX_DEPTH: usize = 3;

/// Manifests that are looked through for one config: honest archives have a few dozen, with those of attestations.
const MAX_MANIFESTS: usize = 1_000;

/// Reads the image that `wanted` names from the layout in `documents`; its index is there.
///
/// Errors: [`ImageError::NotFound`] for an unknown tag, [`ImageError::Reference`] when several images are there and
/// none was named, else what [`manifest`] and [`documents`] say.
pub(crate) fn choose_indexed_image(
    documents: &dyn DocumentStore,
    kind: SourceKind,
    wanted: &WantedImage<'_>,
    request: &OpenRequest<'_>,
) -> Result<ChosenImage, ImageError> {
    let choose = |what: &str, index: &[Descriptor]| {
        let chosen = manifest::choose_manifest(what, index, request.platform)?;
        Ok(ControlFlow::<Infallible, _>::Continue(chosen.clone()))
    };
    let ControlFlow::Continue(found) = find_manifest(documents, wanted, request, choose)?;
    image(documents, kind, wanted, found, request)
}

/// The platforms of the images that `wanted` names.
pub(super) fn list_indexed_platforms(
    documents: &dyn DocumentStore,
    wanted: &WantedImage<'_>,
    request: &OpenRequest<'_>,
) -> Result<Vec<Platform>, ImageError> {
    let choose = |_: &str, index: &[Descriptor]| Ok(manifest::index_platforms(index));
    match find_manifest(documents, wanted, request, choose)? {
        ControlFlow::Break(platforms) => Ok(platforms),
        ControlFlow::Continue(found) => {
            let (_, platform, _) = read_config(documents, &found.manifest.config, request)?;
            Ok(manifest::known_platform(platform))
        }
    }
}

/// The image of one manifest.
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

/// Checks the `oci-layout` file, which says that this is a layout and of which version.
fn check_version(documents: &dyn DocumentStore, request: &OpenRequest<'_>) -> Result<(), ImageError> {
    let not_a_layout = |reason: String| ImageError::not_an_image(documents.what(), reason);
    let name = RootPath::from("oci-layout");
    let bytes = documents::find_document(documents, &name, None, None, request.limits().document)?
        .ok_or_else(|| not_a_layout("it has no oci-layout file".to_owned()))?;
    let file: LayoutFile = serde_json::from_slice(&bytes)
        .map_err(|error| not_a_layout(format!("its oci-layout file cannot be read: {error}")))?;
    // A later 1.x may add files and must not change those that are read here.
    if file.image_layout_version.starts_with("1.") {
        return Ok(());
    }
    Err(not_a_layout(format!(
        "it is an OCI layout of version {:?}, and only 1.0.0 is known",
        file.image_layout_version
    )))
}

/// The descriptors of `index.json`.
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

/// The descriptors that carry the wanted name, or all of them when nothing was named and all have one name.
fn named(what: &str, index: &[Descriptor], wanted: &WantedImage<'_>) -> Result<Vec<Descriptor>, ImageError> {
    let candidates: Vec<&Descriptor> = match wanted.name {
        Some(name) => index.iter().filter(|descriptor| is_named(descriptor, name)).collect(),
        None => index.iter().collect(),
    };
    let names: BTreeSet<&str> = candidates.iter().filter_map(|d| full_name(d)).collect();
    match wanted.name {
        Some(name) if candidates.is_empty() => Err(name_not_found(what, name, index.iter().filter_map(full_name))),
        // Several descriptors of one name are one image for several platforms, as tools write that make no inner index.
        _ if names.len() > 1 => Err(wanted.ambiguous(names.into_iter())),
        _ => Ok(candidates.into_iter().cloned().collect()),
    }
}

/// Whether `name` is the tag, the full name or the digest of `descriptor`.
fn is_named(descriptor: &Descriptor, name: &str) -> bool {
    let annotations = ["org.opencontainers.image.ref.name", "io.containerd.image.name"];
    // By the tool that wrote it, ref.name holds the tag alone or the whole name.
    descriptor.digest.as_ref() == name
        || annotations
            .iter()
            .filter_map(|key| annotation(descriptor, key))
            .any(|found| found == name || tag(found) == Some(name) || wanted_image::same_name(found, name))
}

/// The most complete name of `descriptor`. Docker and containerd write only the tag into the annotation of
/// the specification, and the whole name into their own.
fn full_name(descriptor: &Descriptor) -> Option<&str> {
    annotation(descriptor, "io.containerd.image.name")
        .or_else(|| annotation(descriptor, "org.opencontainers.image.ref.name"))
}

fn annotation<'a>(descriptor: &'a Descriptor, key: &str) -> Option<&'a str> {
    let annotations = descriptor.annotations.as_ref()?;
    annotations.get(key).map(String::as_str)
}

/// The tag of a full name.
fn tag(name: &str) -> Option<&str> {
    name.rsplit_once(':')
        .map(|(_, tag)| tag)
        .filter(|tag| !tag.contains('/'))
}

/// The document that a descriptor names, verified, and its name in the archive.
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

/// The config that a descriptor names, as it is stored and as it is read.
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

/// Follows `choose` from the images that `wanted` names, through indexes in indexes, to one manifest,
/// unless it breaks off.
fn find_manifest<B>(
    documents: &dyn DocumentStore,
    wanted: &WantedImage<'_>,
    request: &OpenRequest<'_>,
    choose: impl Fn(&str, &[Descriptor]) -> Result<ControlFlow<B, Descriptor>, ImageError>,
) -> Result<ControlFlow<B, FoundManifest>, ImageError> {
    // Before the index: an index.json alone may belong to anything.
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

/// The one manifest of the layout whose config is `config`; `None` where there is none, or more than one.
///
/// An archive of Docker 25 or later lists its images in `manifest.json` too, and may leave out manifests and
/// indexes of other platforms: what cannot be read here is passed over.
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
        // An index may name itself, or the same manifest under many tags.
        if !seen.insert(descriptor.digest.clone()) || seen.len() > MAX_MANIFESTS {
            continue;
        }
        let (digest, size) = (descriptor.digest, descriptor.size);
        // One digest that makes no safe path ends the search: nothing that such an index says is believed.
        let name = blob_name(documents.what(), &digest).ok()?;
        let limit = request.limits().document;
        let Ok(Some(bytes)) =
            // What is missing is passed over: `docker save --platform` lists platforms whose blobs it leaves out.
            documents::find_document(documents, &name, Some(&digest), Some(size), limit)
        else {
            continue;
        };
        match manifest::read_manifest("", &bytes) {
            Ok(manifest::ManifestDocument::Manifest(manifest)) if manifest.config.digest == *config => {
                // Two manifests of one config differ in how their layers are compressed, and which was
                // meant is not known.
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
