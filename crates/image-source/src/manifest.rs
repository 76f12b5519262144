//! Manifests and indexes of the OCI image-spec (manifest.md, image-index.md) and of Docker's schema 2.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use serde::Deserialize;

use crate::config::ImageConfig;
use crate::foreign_file::{LFS_BEGIN, LFS_POINTER};
use crate::image::LayerDescriptor;
use crate::image_error::ImageError;
use crate::platform::Platform;

use image_linkage::digest::Digest;
use image_linkage::limits::Limits;

/// The fields of a manifest that this crate uses. Writing an image again starts from the original bytes instead, which
/// keep unknown fields, annotations and order.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct ImageManifest {
    /// Required by image-spec. The value is unused: schema 1 is recognized by its fields.
    #[serde(rename = "schemaVersion")]
    _schema_version: u32,
    pub config: Descriptor,
    pub layers: Vec<Descriptor>,
}

#[derive(Deserialize)]
struct ImageIndex {
    #[serde(rename = "schemaVersion")]
    _schema_version: u32,
    manifests: Vec<Descriptor>,
}

/// A reference to a blob (image-spec, descriptor.md).
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Descriptor {
    pub media_type: String,
    pub digest: Digest,
    /// The stored size in bytes.
    pub size: u64,
    pub platform: Option<Platform>,
    pub annotations: Option<BTreeMap<String, String>>,
}

/// A manifest and its original bytes.
pub(crate) struct FoundManifest {
    pub digest: Digest,
    pub manifest: ImageManifest,
    pub bytes: Vec<u8>,
    /// The annotations of its entry in `index.json`.
    pub annotations: BTreeMap<String, String>,
}

/// The two kinds of manifest document.
pub(crate) enum ManifestDocument {
    /// One image for one platform.
    Manifest(ImageManifest),
    /// Images for several platforms, or nested indexes.
    Index(Vec<Descriptor>),
}

/// Reads a manifest or an index, told apart by its fields; a server's media type may be wrong.
///
/// Errors: [`ImageError::Artifact`], or [`ImageError::NotAnImage`] if a document is both (CVE-2021-41190), neither, or
/// Docker's schema 1.
pub(crate) fn read_manifest(what: &str, bytes: &[u8]) -> Result<ManifestDocument, ImageError> {
    let not_an_image = |reason: String| ImageError::not_an_image(what, reason);
    if bytes.starts_with(LFS_BEGIN) {
        return Err(not_an_image(LFS_POINTER.to_owned()));
    }
    let value: serde_json::Value = serde_json::from_slice(bytes).map_err(|error| {
        not_an_image(format!(
            "its manifest is not JSON: {error}; it begins {:?}",
            begin(bytes)
        ))
    })?;
    let has = |key: &str| value.get(key).is_some_and(|value| !value.is_null());
    // Clients disagree about a document that is both: one checks the manifest and another runs the index
    // (CVE-2021-41190).
    let is_index = has("manifests");
    let is_manifest = has("config") || has("layers");
    if is_index && is_manifest {
        return Err(not_an_image(
            "its manifest is also an index, and no one can say which is meant".to_owned(),
        ));
    }
    // Decided by the fields or the version, because a registry's media type may be wrong.
    if has("fsLayers") || value.get("schemaVersion").and_then(serde_json::Value::as_u64) == Some(1) {
        return Err(not_an_image(
            "it has a manifest of Docker's schema 1, which registries no longer serve; push it again".to_owned(),
        ));
    }
    if is_index {
        let index: ImageIndex = serde_json::from_value(value)
            .map_err(|error| not_an_image(format!("its index cannot be read: {error}")))?;
        return Ok(ManifestDocument::Index(index.manifests));
    }
    let manifest: ImageManifest =
        serde_json::from_value(value).map_err(|error| not_an_image(format!("its manifest cannot be read: {error}")))?;
    is_image_config(&manifest).map_err(|reason| ImageError::artifact(what, reason))?;
    Ok(ManifestDocument::Manifest(manifest))
}

/// Checks that the config is an image's, and not a chart's, a signature's or another artifact's.
fn is_image_config(manifest: &ImageManifest) -> Result<(), String> {
    match manifest.config.media_type.as_str() {
        "application/vnd.oci.image.config.v1+json"
        | "application/vnd.docker.container.image.v1+json"
        // Early pushes of schema 2 used this type for configs (docker/distribution 1621); Docker still accepts it.
        | "application/octet-stream" => Ok(()),
        other => Err(format!("its config is of media type {other:?}")),
    }
}

fn begin(bytes: &[u8]) -> String {
    image_linkage::escape::escape_bytes(bytes.get(..bytes.len().min(60)).unwrap_or_default())
}

/// The maximum number of configs read for the platforms that an index does not state. Each costs two requests.
const UNSTATED: usize = 20;

/// Reads the platform in the config of a manifest; `None` if the config does not state it.
pub(crate) type ReadPlatform<'a> = &'a dyn Fn(&Descriptor) -> Result<Option<Platform>, ImageError>;

/// Chooses the image for `wanted` from an index, or for the host's platform if none was requested. Skips attestations.
///
/// If no stated platform fits, the configs of the other images decide. Engines differ: skopeo takes the first image
/// without a platform, containerd reads the configs, Docker 20.10 refuses all.
///
/// Errors: [`ImageError::Platform`] with the platforms in the index, or an error of `read`.
pub(crate) fn choose_manifest(
    what: &str,
    index: &[Descriptor],
    wanted: Option<&Platform>,
    read: ReadPlatform<'_>,
) -> Result<Descriptor, ImageError> {
    let mut images = images_of_index(index);
    // Not always amd64: a verdict on an image that the user's machine never runs would mislead.
    let host = Platform::host();
    let wish = wanted.unwrap_or(&host);
    if let Some(found) = find_platform(&images, wish) {
        return Ok(found.clone());
    }
    // A single image is accepted even if it does not fit the host, unless a platform was requested.
    if let [only] = images.as_slice()
        && (wanted.is_none() || only.platform.is_none())
    {
        return Ok(only.clone());
    }
    read_unstated(what, &mut images, read)?;
    find_platform(&images, wish)
        .cloned()
        .ok_or_else(|| ImageError::Platform {
            what: what.to_owned(),
            wanted: wish.to_string(),
            offered: images.iter().map(platform_words).collect(),
        })
}

/// The image for a platform. A wish without a variant accepts any, and prefers an image without one.
fn find_platform<'i>(images: &'i [Descriptor], wish: &Platform) -> Option<&'i Descriptor> {
    let mut offered = images
        .iter()
        .filter_map(|image| Some((image, image.platform.as_ref()?)));
    let exact = offered.clone().find(|(_, platform)| *platform == wish);
    let (image, _) = exact.or_else(|| offered.find(|(_, platform)| wish.accepts(platform)))?;
    Some(image)
}

fn platform_words(image: &Descriptor) -> String {
    let platform = image.platform.as_ref();
    platform.map_or_else(|| "an image without platform".to_owned(), ToString::to_string)
}

/// Fills in the platforms that an index does not state. A document that is not an image's keeps none.
///
/// Errors: [`ImageError::Artifact`] if all entries are artifacts, or an error of `read`.
fn read_unstated(what: &str, images: &mut [Descriptor], read: ReadPlatform<'_>) -> Result<(), ImageError> {
    let mut artifacts = 0;
    let unstated = images.iter_mut().filter(|image| image.platform.is_none());
    for image in unstated.take(UNSTATED) {
        image.platform = match read(image) {
            Err(ImageError::Artifact { .. }) => {
                artifacts += 1;
                None
            }
            Err(ImageError::NotAnImage { .. }) => None,
            read => read?,
        };
    }
    if artifacts > 0 && artifacts == images.len() {
        return Err(ImageError::artifact(what, "its index lists other artifacts only"));
    }
    Ok(())
}

fn images_of_index(index: &[Descriptor]) -> Vec<Descriptor> {
    let mut images = index.to_vec();
    // BuildKit lists an attestation as platform unknown/unknown. Its annotation is specific to BuildKit.
    images.retain(|image| image.platform.as_ref().is_none_or(|platform| platform.os != "unknown"));
    images
}

/// The platforms in an index and in the configs of the other images; or its only image, if the index gives no platform.
///
/// Errors: An error of `read`.
pub(crate) fn index_platforms(
    what: &str,
    index: &[Descriptor],
    read: ReadPlatform<'_>,
) -> Result<ControlFlow<Vec<Platform>, Descriptor>, ImageError> {
    let mut images = images_of_index(index);
    if let [only] = images.as_slice()
        && only.platform.is_none()
    {
        return Ok(ControlFlow::Continue(only.clone()));
    }
    read_unstated(what, &mut images, read)?;
    let named = images.into_iter().filter_map(|image| image.platform);
    Ok(ControlFlow::Break(named.collect()))
}

/// The platform in a config; `None` if the config does not state it.
pub(crate) fn known_platform(platform: Platform) -> Option<Platform> {
    Some(platform).filter(|platform| !platform.architecture.is_empty())
}

/// Checks that a single image has the requested platform.
///
/// Errors: [`ImageError::Platform`] with the image's own platform.
pub(crate) fn expect_platform(what: &str, found: &Platform, wanted: Option<&Platform>) -> Result<(), ImageError> {
    match wanted {
        // Old and hand-made configs lack the architecture, so nothing contradicts the request.
        Some(wanted) if !found.architecture.is_empty() && !wanted.accepts(found) => Err(ImageError::Platform {
            what: what.to_owned(),
            wanted: wanted.to_string(),
            offered: vec![found.to_string()],
        }),
        // Without a request, any Linux platform is accepted. Windows images have no loader that this crate simulates.
        None if !found.os.is_empty() && found.os != "linux" => Err(ImageError::Platform {
            what: what.to_owned(),
            wanted: "linux".to_owned(),
            offered: vec![found.to_string()],
        }),
        _ => Ok(()),
    }
}

/// Combines the manifest's layers with the config's diff ids and history.
///
/// Errors: [`ImageError::NotAnImage`] if manifest and config differ in the number of layers or if there are too many
/// layers, [`ImageError::Artifact`] if a layer's media type is not a file system's.
pub(crate) fn describe_layers(
    what: &str,
    manifest: &ImageManifest,
    config: &ImageConfig,
    limits: &Limits,
) -> Result<Vec<LayerDescriptor>, ImageError> {
    let not_an_image = |reason: String| ImageError::not_an_image(what, reason);
    // Build caches and damaged images have fewer diff ids than layers. Pairing what exists would leave layers unread.
    let (in_manifest, in_config) = (manifest.layers.len(), config.diff_ids.len());
    if in_manifest != in_config {
        return Err(not_an_image(format!(
            "its manifest has {in_manifest} layers and its config {in_config}"
        )));
    }
    // Checked before any download: each layer costs a request and an index in memory.
    if in_manifest > limits.layers {
        return Err(not_an_image(format!(
            "it has {in_manifest} layers, more than the limit of {} (layers)",
            limits.layers
        )));
    }
    manifest
        .layers
        .iter()
        .zip(&config.diff_ids)
        .enumerate()
        .map(|(index, (layer, diff_id))| {
            // ocicrypt appends this suffix to the type (containers/ocicrypt, spec.go).
            if layer.media_type.ends_with("+encrypted") {
                return Err(not_an_image(format!(
                    "its layer {index} is encrypted ({:?}), and what is in it cannot be read",
                    layer.media_type
                )));
            }
            if !is_layer(&layer.media_type) {
                let reason = format!("its layer {index} is of media type {:?}", layer.media_type);
                return Err(ImageError::artifact(what, reason));
            }
            Ok(LayerDescriptor {
                digest: Some(layer.digest.clone()),
                diff_id: Some(diff_id.clone()),
                media_type: layer.media_type.clone(),
                size: Some(layer.size),
                created_by: config.created_by.get(index).cloned(),
            })
        })
        .collect()
}

/// Whether a media type is a layer's: an OCI or Docker tar in any compression.
fn is_layer(media_type: &str) -> bool {
    // Only the prefix counts: the suffix names the compression, which the bytes show themselves.
    media_type.starts_with("application/vnd.oci.image.layer.")
        || media_type.starts_with("application/vnd.docker.image.rootfs.")
}

/// Parses a digest.
///
/// Errors: [`ImageError::Reference`] if `text` is not `algorithm:hex`.
pub(crate) fn parse_digest(text: &str) -> Result<Digest, ImageError> {
    text.parse()
        .map_err(|error| ImageError::reference(text, format!("not a digest of the form algorithm:hex ({error})")))
}

#[cfg(test)]
mod tests {
    use super::{ManifestDocument, choose_manifest, read_manifest};
    use crate::Platform;

    const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn reason(json: &str) -> String {
        match read_manifest("x", json.as_bytes()) {
            Ok(_) => "accepted".to_owned(),
            Err(error) => error.to_string(),
        }
    }

    fn manifest(config_type: &str) -> String {
        format!(
            r#"{{"schemaVersion":2,"config":{{"mediaType":"{config_type}","digest":"{DIGEST}","size":2}},"layers":[]}}"#
        )
    }

    #[test]
    fn only_images_and_indexes_are_accepted() {
        assert_eq!(
            reason(&manifest("application/vnd.oci.image.config.v1+json")),
            "accepted"
        );
        assert_eq!(
            reason(&manifest("application/vnd.docker.container.image.v1+json")),
            "accepted"
        );
        assert_eq!(
            reason(&manifest("application/vnd.cncf.helm.config.v1+json")),
            "x is not a container image: its config is of media type \"application/vnd.cncf.helm.config.v1+json\""
        );
        assert!(reason(r#"{"manifests":[],"layers":[],"config":{}}"#).contains("also an index"));
        assert!(reason(r#"{"schemaVersion":1,"fsLayers":[]}"#).contains("schema 1"));
        assert!(reason("<html>").contains("it begins \"<html>\""));
        assert!(
            reason(&manifest("application/vnd.oci.image.config.v1+json").replace(DIGEST, "../../etc"))
                .contains("cannot be read")
        );
    }

    #[test]
    fn an_index_gives_the_requested_platform_or_lists_its_own() {
        let entry = |os: &str, arch: &str| {
            format!(
                r#"{{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"{DIGEST}","size":1,"platform":{{"os":"{os}","architecture":"{arch}"}}}}"#
            )
        };
        let json = format!(
            r#"{{"schemaVersion":2,"manifests":[{},{},{}]}}"#,
            entry("linux", "amd64"),
            entry("linux", "arm64"),
            entry("unknown", "unknown")
        );
        let ManifestDocument::Index(index) = read_manifest("x", json.as_bytes()).unwrap() else {
            panic!("an index")
        };
        let wanted = |text: &str| {
            choose_manifest("x", &index, Some(&Platform::parse(text).unwrap()), &|_| Ok(None))
                .map(|descriptor| descriptor.platform.as_ref().map(ToString::to_string))
        };
        let arm64 = wanted("linux/arm64").unwrap();
        assert_eq!(arm64.as_deref(), Some("linux/arm64"));
        assert_eq!(
            wanted("linux/s390x").unwrap_err().to_string(),
            "no image for platform linux/s390x in x; it offers linux/amd64, linux/arm64; choose one with --platform"
        );
    }
}
