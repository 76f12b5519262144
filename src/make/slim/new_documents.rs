//! The config and the manifest of an image that is written again: what is not changed stays as it is written.

use oci_spec::image::{
    Descriptor, DescriptorBuilder, ImageManifest, ImageManifestBuilder, MediaType,
};
use serde_json::{Map, Value, json};

use image_linkage::digest::Digest;

/// The media type of Docker's config; with it come Docker's other media types.
const DOCKER_CONFIG: &str = "application/vnd.docker.container.image.v1+json";
const DOCKER_LAYER: &str = "application/vnd.docker.image.rootfs.diff.tar";
const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
const OCI_LAYER: &str = "application/vnd.oci.image.layer.v1.tar";
const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// What the history says of a layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerHistory {
    /// What made it.
    pub created_by: String,
    /// Why.
    pub comment: String,
}

/// The config with other layers: `diff_ids` are those of all layers, `added` says of the last one what it is where it
/// is new.
///
/// Errors: What is wrong with the config.
pub fn write_config(
    config: &[u8],
    diff_ids: &[Digest],
    added: Option<&LayerHistory>,
) -> Result<Vec<u8>, String> {
    let mut document: Map<String, Value> = serde_json::from_slice(config)
        .map_err(|error| format!("the image's config cannot be read: {error}"))?;
    let ids: Vec<String> = diff_ids.iter().map(ToString::to_string).collect();
    document.insert(
        "rootfs".to_owned(),
        json!({"type": "layers", "diff_ids": ids}),
    );
    if let Some(added) = added {
        let created = created(&document);
        let history = document
            .entry("history")
            .or_insert_with(|| Value::Array(Vec::new()));
        if history.is_null() {
            *history = Value::Array(Vec::new());
        }
        let history = history
            .as_array_mut()
            .ok_or("the history of the image's config is no list")?;
        // An entry counts for the layer of its place: those that are missing before it are put in.
        let told = history.iter().filter(|entry| makes_layer(entry)).count();
        for _ in told + 1..diff_ids.len() {
            history.push(json!({"created": created}));
        }
        history.push(json!({
            "created": created,
            "created_by": added.created_by,
            "comment": added.comment,
        }));
    }
    serde_json::to_vec(&document).map_err(|error| error.to_string())
}

/// The time of the image as it is: that of this run would make every result another one.
fn created(document: &Map<String, Value>) -> Value {
    let known = document
        .get("created")
        .filter(|created| created.is_string());
    known
        .cloned()
        .unwrap_or_else(|| Value::from("1970-01-01T00:00:00Z"))
}

fn makes_layer(entry: &Value) -> bool {
    entry.get("empty_layer").and_then(Value::as_bool) != Some(true)
}

/// A layer of a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ManifestLayer {
    /// As it was: its descriptor stays as it is written, where there is one.
    Kept(Box<Descriptor>),
    /// Another blob.
    New {
        /// Its digest.
        digest: Digest,
        /// Its size in bytes.
        size: u64,
        /// Its media type.
        media_type: String,
    },
}

/// The family of media types that an image is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MediaFamily {
    /// Those of the OCI image specification.
    Oci,
    /// Those of Docker's schema 2.
    Docker,
}

impl MediaFamily {
    /// The family of an image: its manifest's, OCI where it has none.
    pub fn of_manifest(manifest: Option<&ImageManifest>) -> Self {
        let config = manifest.map(|manifest| manifest.config().media_type().to_string());
        match config.as_deref() {
            Some(DOCKER_CONFIG) => Self::Docker,
            _ => Self::Oci,
        }
    }

    /// The media type of a layer compressed by gzip.
    pub fn gzip_layer_type(self) -> String {
        match self {
            Self::Oci => format!("{OCI_LAYER}+gzip"),
            Self::Docker => format!("{DOCKER_LAYER}.gzip"),
        }
    }

    /// The media type of a manifest.
    pub fn write_manifest(self) -> &'static str {
        match self {
            Self::Oci => OCI_MANIFEST,
            Self::Docker => DOCKER_MANIFEST,
        }
    }

    fn write_config(self) -> MediaType {
        match self {
            Self::Oci => MediaType::ImageConfig,
            Self::Docker => MediaType::Other(DOCKER_CONFIG.to_owned()),
        }
    }
}

/// The manifest of an image with another config and other layers; annotations stay.
///
/// Errors: When it cannot be written.
pub fn write_manifest(
    original: Option<&ImageManifest>,
    config: (&Digest, u64),
    layers: &[ManifestLayer],
) -> Result<Vec<u8>, String> {
    let family = MediaFamily::of_manifest(original);
    let descriptor = |media_type: MediaType, digest: &Digest, size: u64| {
        let digest: oci_spec::image::Digest = digest
            .as_ref()
            .parse()
            .map_err(|error| format!("{error}"))?;
        DescriptorBuilder::default()
            .media_type(media_type)
            .digest(digest)
            .size(size)
            .build()
            .map_err(|error| error.to_string())
    };
    let layers = layers
        .iter()
        .map(|layer| match layer {
            ManifestLayer::Kept(descriptor) => Ok((**descriptor).clone()),
            ManifestLayer::New {
                digest,
                size,
                media_type,
            } => descriptor(MediaType::from(media_type.as_str()), digest, *size),
        })
        .collect::<Result<Vec<_>, _>>()?;
    let config = descriptor(family.write_config(), config.0, config.1)?;
    let made = ImageManifestBuilder::default()
        .schema_version(2_u32)
        .media_type(MediaType::from(family.write_manifest()))
        .config(config.clone())
        .layers(layers.clone())
        .build();
    let mut manifest = match original {
        Some(original) => original.clone(),
        None => made.map_err(|error| error.to_string())?,
    };
    manifest.set_media_type(Some(MediaType::from(family.write_manifest())));
    manifest.set_config(config);
    manifest.set_layers(layers);
    serde_json::to_vec(&manifest).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::{LayerHistory, ManifestLayer, MediaFamily, write_config, write_manifest};
    use image_linkage::digest::Digest;

    fn digest(letter: char) -> Digest {
        let hex: String = std::iter::repeat_n(letter, 64).collect();
        format!("sha256:{hex}").parse().unwrap()
    }

    fn added() -> LayerHistory {
        LayerHistory {
            created_by: "cupti-audit slim".to_owned(),
            comment: "adds a file".to_owned(),
        }
    }

    fn changed(document: &str) -> String {
        let ids = [digest('a'), digest('b')];
        let bytes = write_config(document.as_bytes(), &ids, Some(&added())).unwrap();
        String::from_utf8(bytes)
            .unwrap()
            .replace(&ids[0].to_string(), "A")
            .replace(&ids[1].to_string(), "B")
    }

    #[test]
    fn a_config_keeps_what_it_says_and_gains_layers_and_history() {
        assert_eq!(
            changed(
                r#"{"os":"linux","created":"2024-05-01T00:00:00Z","x":{"b":1,"a":2},"history":[{"created_by":"one"},{"created_by":"ENV","empty_layer":true}],"rootfs":{"type":"layers","diff_ids":["old"]}}"#
            ),
            r#"{"os":"linux","created":"2024-05-01T00:00:00Z","x":{"b":1,"a":2},"history":[{"created_by":"one"},{"created_by":"ENV","empty_layer":true},{"created":"2024-05-01T00:00:00Z","created_by":"cupti-audit slim","comment":"adds a file"}],"rootfs":{"type":"layers","diff_ids":["A","B"]}}"#
        );
    }

    #[test]
    fn a_history_that_lacks_layers_is_filled_up_so_that_the_new_entry_stands_at_its_layer() {
        for document in [r#"{"rootfs":{}}"#, r#"{"rootfs":{},"history":null}"#] {
            let document: Value = serde_json::from_str(&changed(document)).unwrap();
            let history = document["history"].as_array().unwrap();
            assert_eq!(history.len(), 2);
            assert_eq!(history[1]["comment"], "adds a file");
        }
        assert!(write_config(b"[]", &[], None).is_err());
        assert!(write_config(br#"{"history":7}"#, &[], Some(&added())).is_err());
    }

    #[test]
    fn a_manifest_keeps_its_family_and_its_annotations() {
        let docker = format!(
            r#"{{"schemaVersion":2,"mediaType":"application/vnd.docker.distribution.manifest.v2+json","config":{{"mediaType":"application/vnd.docker.container.image.v1+json","digest":"{0}","size":2}},"layers":[{{"mediaType":"application/vnd.docker.image.rootfs.diff.tar.gzip","digest":"{0}","size":7}}],"annotations":{{"a":"b"}}}}"#,
            digest('a')
        );
        let original = serde_json::from_str(&docker).unwrap();
        let family = MediaFamily::of_manifest(Some(&original));
        let kept = ManifestLayer::Kept(Box::new(original.layers()[0].clone()));
        let new = ManifestLayer::New {
            digest: digest('c'),
            size: 9,
            media_type: family.gzip_layer_type(),
        };
        let bytes = write_manifest(Some(&original), (&digest('b'), 3), &[kept, new]).unwrap();
        let mut expected: Value = serde_json::from_str(&docker).unwrap();
        expected["config"]["digest"] = digest('b').to_string().into();
        expected["config"]["size"] = 3.into();
        let mut layer = expected["layers"][0].clone();
        layer["digest"] = digest('c').to_string().into();
        layer["size"] = 9.into();
        expected["layers"].as_array_mut().unwrap().push(layer);
        assert_eq!(serde_json::from_slice::<Value>(&bytes).unwrap(), expected);
    }

    #[test]
    fn an_image_without_a_manifest_gets_one_of_oci() {
        let bytes = write_manifest(None, (&digest('b'), 3), &[]).unwrap();
        let document: Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(
            document["config"]["mediaType"],
            "application/vnd.oci.image.config.v1+json"
        );
        assert_eq!(
            document["mediaType"],
            "application/vnd.oci.image.manifest.v1+json"
        );
    }
}
