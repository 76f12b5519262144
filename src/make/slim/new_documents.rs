//! The config and the manifest of an image that is written again: what is not changed stays as it is written.

use serde_json::{Map, Value, json};

use image_linkage::digest::Digest;
use image_linkage::layer::decompress::Compression;

/// The media type of Docker's config; with it come Docker's other media types.
const DOCKER_CONFIG: &str = "application/vnd.docker.container.image.v1+json";
const DOCKER_LAYER: &str = "application/vnd.docker.image.rootfs.diff.tar";
const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
const OCI_CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const OCI_LAYER: &str = "application/vnd.oci.image.layer.v1.tar";
const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// What the history says of a layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LayerHistory {
    pub created_by: String,
    pub comment: String,
}

/// The config with other layers: `diff_ids` are those of all layers, `added` says of the last one what it is
/// where it is new.
///
/// Errors: What is wrong with the config.
pub(crate) fn write_config(
    config: &[u8],
    diff_ids: &[Digest],
    added: Option<&LayerHistory>,
) -> Result<Vec<u8>, String> {
    // As a map that keeps its order, not as a type: fields that are not known here would get lost in one.
    let mut document: Map<String, Value> =
        serde_json::from_slice(config).map_err(|error| format!("the image's config cannot be read: {error}"))?;
    let ids: Vec<String> = diff_ids.iter().map(ToString::to_string).collect();
    document.insert("rootfs".to_owned(), json!({"type": "layers", "diff_ids": ids}));
    if let Some(added) = added {
        let created = created(&document);
        let history = document.entry("history").or_insert_with(|| Value::Array(Vec::new()));
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
    let known = document.get("created").filter(|created| created.is_string());
    known.cloned().unwrap_or_else(|| Value::from("1970-01-01T00:00:00Z"))
}

fn makes_layer(entry: &Value) -> bool {
    // image-spec, config.md: an entry of an empty layer, such as ENV, has no diff_id.
    entry.get("empty_layer").and_then(Value::as_bool) != Some(true)
}

/// A layer of the new manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ManifestLayer {
    /// The layer of the original manifest, from 0, whose descriptor stays as it is written; `None` for another blob.
    pub kept: Option<usize>,
    /// Its media type, where no manifest says it.
    pub media_type: String,
    /// The digest of its blob.
    pub digest: Digest,
    /// The size of its blob in bytes.
    pub size: u64,
}

/// The family of media types that an image is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MediaFamily {
    /// Those of the OCI image specification.
    Oci,
    /// Those of Docker's schema 2.
    Docker,
}

impl MediaFamily {
    /// The family of an image by its manifest as it is stored; OCI where it has none.
    pub(crate) fn of_manifest(manifest: Option<&[u8]>) -> Self {
        let document = manifest.and_then(|bytes| serde_json::from_slice::<Value>(bytes).ok());
        // Clients choose by the config's type: a manifest may leave out its own.
        let config = document
            .as_ref()
            .and_then(|document| document.pointer("/config/mediaType"));
        match config.and_then(Value::as_str) {
            Some(DOCKER_CONFIG) => Self::Docker,
            _ => Self::Oci,
        }
    }

    /// The media type of a layer compressed by gzip.
    pub(crate) fn gzip_layer_type(self) -> String {
        match self {
            Self::Oci => oci_layer_type(Compression::Gzip),
            Self::Docker => format!("{DOCKER_LAYER}.gzip"),
        }
    }

    pub(crate) fn manifest_type(self) -> &'static str {
        match self {
            Self::Oci => OCI_MANIFEST,
            Self::Docker => DOCKER_MANIFEST,
        }
    }

    fn config_type(self) -> &'static str {
        match self {
            Self::Oci => OCI_CONFIG,
            Self::Docker => DOCKER_CONFIG,
        }
    }
}

/// OCI's media type of a layer that is stored so (image-spec, layer.md).
pub(super) fn oci_layer_type(stored: Compression) -> String {
    let ending = match stored {
        Compression::None => "",
        Compression::Gzip => "+gzip",
        Compression::Zstd => "+zstd",
    };
    format!("{OCI_LAYER}{ending}")
}

/// The manifest of an image with another config and other layers. Everything else stays, in the order in which it is
/// written; where nothing is changed, its bytes stay, and with them its digest.
///
/// Errors: What is wrong with the manifest.
pub(crate) fn write_manifest(
    original: Option<&[u8]>,
    config: (&Digest, usize),
    layers: &[ManifestLayer],
) -> Result<Vec<u8>, String> {
    let family = MediaFamily::of_manifest(original);
    let media_type = Value::from(family.manifest_type());
    let mut document: Map<String, Value> = match original {
        Some(bytes) => {
            serde_json::from_slice(bytes).map_err(|error| format!("the image's manifest cannot be read: {error}"))?
        }
        None => [("schemaVersion", 2.into()), ("mediaType", media_type.clone())]
            .map(|(key, value): (_, Value)| (key.to_owned(), value))
            .into_iter()
            .collect(),
    };
    let before = document.clone();
    let is_named = |named: &Value, digest: &Digest| named.get("digest") == Some(&json!(digest.as_ref()));
    if !document.get("config").is_some_and(|named| is_named(named, config.0)) {
        let named = describe_blob(family.config_type(), config.0, config.1 as u64);
        document.insert("config".to_owned(), named);
    }
    let stored = before.get("layers").and_then(Value::as_array);
    let layer = |layer: &ManifestLayer| {
        // A new blob gets no annotations: those of the old one, such as eStargz's digest of its table of contents
        // (`containerd.io/snapshot/stargz/toc.digest`), are not true of it.
        let kept = layer.kept.and_then(|number| stored?.get(number));
        kept.cloned()
            .unwrap_or_else(|| describe_blob(&layer.media_type, &layer.digest, layer.size))
    };
    document.insert("layers".to_owned(), layers.iter().map(layer).collect());
    // A manifest is sent under its family's type, and a registry refuses one that calls itself otherwise.
    let is_type = before.get("mediaType").is_none_or(|named| *named == media_type);
    match original {
        Some(bytes) if is_type && document == before => Ok(bytes.to_vec()),
        _ => {
            document.insert("mediaType".to_owned(), media_type);
            serde_json::to_vec(&document).map_err(|error| error.to_string())
        }
    }
}

fn describe_blob(media_type: &str, digest: &Digest, size: u64) -> Value {
    json!({"mediaType": media_type, "digest": digest.as_ref(), "size": size})
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

    fn kept(number: usize) -> ManifestLayer {
        ManifestLayer {
            kept: Some(number),
            ..new()
        }
    }

    fn new() -> ManifestLayer {
        ManifestLayer {
            kept: None,
            media_type: MediaFamily::Docker.gzip_layer_type(),
            digest: digest('c'),
            size: 9,
        }
    }

    /// A manifest with fields that are not known here, and an order and spaces that are nobody's default.
    fn docker() -> String {
        format!(
            r#"{{"annotations": {{"z":"1","b":"2","m":"3"}}, "extra":{{"y":1,"x":2}},"schemaVersion":2,"mediaType":"application/vnd.docker.distribution.manifest.v2+json","layers":[{{"x":0,"size":7,"digest":"{0}","mediaType":"application/vnd.docker.image.rootfs.diff.tar.gzip","annotations":{{"z":"","y":"","a":""}}}}],"config":{{"mediaType":"application/vnd.docker.container.image.v1+json","digest":"{0}","size":2}},"last":null}}"#,
            digest('a')
        )
    }

    fn written(original: &str, config: &Digest, layers: &[ManifestLayer]) -> String {
        let bytes = write_manifest(Some(original.as_bytes()), (config, 3), layers).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_manifest_keeps_its_family_and_all_that_is_not_changed_in_its_order() {
        let compact: Value = serde_json::from_str(&docker()).unwrap();
        let was = format!(r#""digest":"{}","size":2}}"#, digest('a'));
        let config = format!(r#""digest":"{}","size":3}}"#, digest('b'));
        let layer = format!(
            r#"}},{{"mediaType":"application/vnd.docker.image.rootfs.diff.tar.gzip","digest":"{}","size":9}}],"config""#,
            digest('c')
        );
        let expected = compact.to_string().replace(&was, &config);
        let expected = expected.replace(r#"}],"config""#, &layer);
        assert_eq!(written(&docker(), &digest('b'), &[kept(0), new()]), expected);
    }

    #[test]
    fn a_manifest_of_which_nothing_is_changed_keeps_its_bytes() {
        assert_eq!(written(&docker(), &digest('a'), &[kept(0)]), docker());
        let untyped = docker().replace(
            r#""mediaType":"application/vnd.docker.distribution.manifest.v2+json","#,
            "",
        );
        assert_eq!(written(&untyped, &digest('a'), &[kept(0)]), untyped);
        let of_another = docker().replace("docker.distribution.manifest.v2", "oci.image.manifest.v1");
        let expected = serde_json::from_str::<Value>(&docker()).unwrap().to_string();
        assert_eq!(written(&of_another, &digest('a'), &[kept(0)]), expected);
    }

    #[test]
    fn an_image_without_a_manifest_gets_one_of_oci() {
        let bytes = write_manifest(None, (&digest('b'), 3), &[]).unwrap();
        let document: Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(
            document["config"]["mediaType"],
            "application/vnd.oci.image.config.v1+json"
        );
        assert_eq!(document["mediaType"], "application/vnd.oci.image.manifest.v1+json");
    }
}
