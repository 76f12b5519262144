//! The documents of an OCI image layout (image-spec, image-layout.md): a folder and an archive hold the same.

use serde_json::{Map, Value, json};

use crate::make::slim::new_image::NewImage;
use image_linkage::digest::Digest;

/// The file that says that a folder is a layout.
pub(super) const LAYOUT: &[u8] = br#"{"imageLayoutVersion":"1.0.0"}"#;
/// The annotation that names an image in an index.
const NAME: &str = "org.opencontainers.image.ref.name";
/// That in which Docker and containerd write the whole name.
const FULL_NAME: &str = "io.containerd.image.name";

/// The name that an image gets in an index: the one that is asked for, or else the one that the original has in its own.
pub(super) fn image_name<'a>(made: &'a NewImage<'_>, tag: Option<&'a str>) -> Option<&'a str> {
    tag.or_else(|| made.original.documents.annotations.get(NAME).map(String::as_str))
}

pub(super) fn named(image: &Value) -> Option<&str> {
    image.get("annotations")?.get(NAME)?.as_str()
}

/// An index with the image behind `others`.
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
    // The grammar of the annotation has no empty name (image-spec, annotations.md): without a tag there is none.
    if let Some(tag) = tag {
        // containerd imports an image by it, and the original has that name already.
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

/// The name of a blob in a layout.
pub(super) fn blob_path(digest: &Digest) -> String {
    // The digest was computed by this program: its algorithm is a registered one, and the rest is hexadecimal.
    format!("blobs/{}/{}", digest.algorithm(), digest.digest())
}
