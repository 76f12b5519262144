//! The documents of an OCI image layout (image-spec, image-layout.md), which a folder and an archive share.

use serde_json::{Map, Value, json};

use crate::make::slim::new_image::NewImage;
use image_linkage::digest::Digest;

/// The content of the file that marks a folder as a layout.
pub(super) const LAYOUT: &[u8] = br#"{"imageLayoutVersion":"1.0.0"}"#;
/// The annotation with an image's tag in an index.
const NAME: &str = "org.opencontainers.image.ref.name";
/// The annotation with the full name, written by Docker and containerd.
const FULL_NAME: &str = "io.containerd.image.name";

/// The tag of the image in the new index: the requested one, otherwise the original's.
pub(super) fn image_name<'a>(made: &'a NewImage<'_>, tag: Option<&'a str>) -> Option<&'a str> {
    tag.or_else(|| made.original.documents.annotations.get(NAME).map(String::as_str))
}

pub(super) fn named(image: &Value) -> Option<&str> {
    image.get("annotations")?.get(NAME)?.as_str()
}

/// An index with the image after `others`.
pub(super) fn build_index(made: &NewImage<'_>, manifest: &Digest, tag: Option<&str>, others: Vec<Value>) -> Value {
    let platform = &made.platform;
    let mut described = Map::from_iter([
        ("architecture".to_owned(), platform.architecture.clone().into()),
        ("os".to_owned(), platform.os.clone().into()),
    ]);
    if let Some(variant) = &platform.variant {
        described.insert("variant".to_owned(), variant.clone().into());
    }
    let mut image = Map::from_iter([
        ("mediaType".to_owned(), made.manifest_type.into()),
        ("digest".to_owned(), manifest.to_string().into()),
        ("size".to_owned(), made.manifest.len().into()),
        ("platform".to_owned(), Value::Object(described)),
    ]);
    let mut annotations = made.original.documents.annotations.clone();
    // Omitted without a tag, because the annotation must not be empty (image-spec, annotations.md).
    if let Some(tag) = tag {
        // containerd imports an image under this name, which belongs to the original.
        annotations.remove(FULL_NAME);
        annotations.insert(NAME.to_owned(), tag.to_owned());
    }
    if !annotations.is_empty() {
        image.insert("annotations".to_owned(), json!(annotations));
    }
    let mut images = others;
    images.push(Value::Object(image));
    json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": images,
    })
}

/// The path of a blob in a layout.
pub(super) fn blob_path(digest: &Digest) -> String {
    // This program computed the digest, so it is safe in a path: a registered algorithm and hexadecimal digits.
    format!("blobs/{}/{}", digest.algorithm(), digest.digest())
}
