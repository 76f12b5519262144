//! The manifest of a rewritten image. Unchanged parts keep their exact text.

use serde_json::Value;
use serde_json::value::RawValue;

use super::new_config::{RawObject, field, raw};
use image_linkage::digest::Digest;
use image_linkage::layer::Compression;

/// Docker's config media type, which implies Docker's other media types.
const DOCKER_CONFIG: &str = "application/vnd.docker.container.image.v1+json";
const DOCKER_LAYER: &str = "application/vnd.docker.image.rootfs.diff.tar";
const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
const OCI_CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const OCI_LAYER: &str = "application/vnd.oci.image.layer.v1.tar";
const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// Annotations that only describe the bytes of one blob: the tables of contents of eStargz and zstd:chunked, and
/// containerd's notes about the tar.
const OF_BYTES: [&str; 5] = [
    "containerd.io/snapshot/",
    "containerd.io/uncompressed",
    "io.containers.estargz.",
    "io.containers.zstd-chunked.",
    "io.github.containers.zstd-chunked.",
];

/// A layer of the new manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ManifestLayer {
    /// The number from 0 of the original layer that it is or derives from; `None` for an added layer.
    pub of: Option<usize>,
    pub media_type: String,
    /// The digest of its blob.
    pub digest: Digest,
    /// The size of its blob in bytes.
    pub size: u64,
}

/// The family of an image's media types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MediaFamily {
    /// The OCI image specification.
    Oci,
    /// Docker's schema 2.
    Docker,
}

impl MediaFamily {
    /// The family of a stored manifest; OCI without a manifest.
    pub(crate) fn of_manifest(manifest: Option<&[u8]>) -> Self {
        let document = manifest.and_then(|bytes| serde_json::from_slice::<Value>(bytes).ok());
        // Clients go by the type of the config, because a manifest may omit its own.
        let config = document
            .as_ref()
            .and_then(|document| document.pointer("/config/mediaType"));
        match config.and_then(Value::as_str) {
            Some(DOCKER_CONFIG) => Self::Docker,
            _ => Self::Oci,
        }
    }

    /// The media type of a layer in this family. `written` is its previous type and `stored` its compression.
    pub(crate) fn layer_type(self, written: Option<&str>, stored: Compression) -> String {
        match (self, written) {
            // An engine's archive always uses Docker's type names, even for OCI images.
            (Self::Oci, Some(written)) if !written.starts_with(DOCKER_LAYER) => written.to_owned(),
            (Self::Oci, _) => format!("{OCI_LAYER}{}", ending(stored, "+")),
            (Self::Docker, Some(written)) => written.to_owned(),
            (Self::Docker, None) => format!("{DOCKER_LAYER}{}", ending(stored, ".")),
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

/// The suffix of a layer's media type (image-spec, layer.md).
fn ending(stored: Compression, mark: &str) -> String {
    match stored {
        Compression::None => String::new(),
        Compression::Gzip => format!("{mark}gzip"),
        Compression::Zstd => format!("{mark}zstd"),
    }
}

/// The manifest with a new config and new layers, in the media types of `family`. Other fields keep their order. If
/// nothing changes, the bytes and the digest stay the same.
///
/// Errors: Why the manifest is invalid.
pub(crate) fn write_manifest(
    original: Option<&[u8]>,
    family: MediaFamily,
    config: (&Digest, usize),
    layers: &[ManifestLayer],
) -> Result<Vec<u8>, String> {
    let media_type = raw(&family.manifest_type())?;
    let before: RawObject = match original {
        Some(bytes) => {
            serde_json::from_slice(bytes).map_err(|error| format!("the image's manifest cannot be read: {error}"))?
        }
        None => [("schemaVersion", raw(&2)?), ("mediaType", media_type.clone())]
            .map(|(key, value)| (key.to_owned(), value))
            .into(),
    };
    let mut document = before.clone();
    let named = describe_blob(
        field(&before, "config"),
        family.config_type(),
        config.0,
        config.1 as u64,
    )?;
    document.insert("config".to_owned(), named);
    let stored: Vec<Box<RawValue>> = field(&before, "layers").unwrap_or_default();
    let mut described = Vec::new();
    for layer in layers {
        let old = layer
            .of
            .and_then(|number| serde_json::from_str(stored.get(number)?.get()).ok());
        described.push(describe_blob(old, &layer.media_type, &layer.digest, layer.size)?);
    }
    document.insert("layers".to_owned(), raw(&described)?);
    // A manifest is sent with its family's type, and a registry rejects one that contains another.
    if before
        .get("mediaType")
        .is_some_and(|named| named.get() != media_type.get())
    {
        document.insert("mediaType".to_owned(), media_type.clone());
    }
    // Compare by value: an unchanged descriptor may contain spaces.
    if let (Some(bytes), Ok(old), Ok(new)) = (original, serde_json::to_value(&before), serde_json::to_value(&document))
        && old == new
    {
        return Ok(bytes.to_vec());
    }
    document.insert("mediaType".to_owned(), media_type);
    serde_json::to_vec(&document).map_err(|error| error.to_string())
}

/// A descriptor with a new blob; unrelated fields stay.
fn describe_blob(
    old: Option<RawObject>,
    media_type: &str,
    digest: &Digest,
    size: u64,
) -> Result<Box<RawValue>, String> {
    let mut named = old.unwrap_or_default();
    let is_same = field::<String>(&named, "digest").is_some_and(|old| old == digest.as_ref());
    named.insert("mediaType".to_owned(), raw(&media_type)?);
    named.insert("digest".to_owned(), raw(&digest.as_ref())?);
    named.insert("size".to_owned(), raw(&size)?);
    if !is_same {
        // These contain the old bytes or their location (image-spec, descriptor.md, "Properties").
        named.shift_remove("data");
        named.shift_remove("urls");
        if let Some(mut annotations) = field::<RawObject>(&named, "annotations") {
            annotations.retain(|key, _| !OF_BYTES.iter().any(|of_bytes| key.starts_with(of_bytes)));
            named.insert("annotations".to_owned(), raw(&annotations)?);
        }
    }
    raw(&named)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::{ManifestLayer, MediaFamily, write_manifest};
    use image_linkage::digest::Digest;
    use image_linkage::layer::Compression;

    fn digest(letter: char) -> Digest {
        let hex: String = std::iter::repeat_n(letter, 64).collect();
        format!("sha256:{hex}").parse().unwrap()
    }

    fn kept(family: MediaFamily) -> ManifestLayer {
        ManifestLayer {
            of: Some(0),
            digest: digest('a'),
            size: 7,
            ..new(family)
        }
    }

    fn new(family: MediaFamily) -> ManifestLayer {
        ManifestLayer {
            of: None,
            media_type: family.layer_type(None, Compression::Gzip),
            digest: digest('c'),
            size: 9,
        }
    }

    /// A manifest with unknown fields, and with an unusual order and spacing.
    fn docker() -> String {
        format!(
            r#"{{"annotations": {{"z":"1","b":"2","m":"3"}}, "extra":{{"y":1,"x":2}},"schemaVersion":2,"mediaType":"application/vnd.docker.distribution.manifest.v2+json","layers":[{{"x":0,"size":7,"digest":"{0}","mediaType":"application/vnd.docker.image.rootfs.diff.tar.gzip","annotations":{{"z":"","y":"","a":""}}}}],"config":{{"mediaType":"application/vnd.docker.container.image.v1+json","digest":"{0}","size":2}},"last":null}}"#,
            digest('a')
        )
    }

    fn written(original: &str, family: MediaFamily, config: (&Digest, usize), layers: &[ManifestLayer]) -> String {
        let bytes = write_manifest(Some(original.as_bytes()), family, config, layers).unwrap();
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
        let layers = [kept(MediaFamily::Docker), new(MediaFamily::Docker)];
        assert_eq!(
            written(&docker(), MediaFamily::Docker, (&digest('b'), 3), &layers),
            expected
        );
    }

    #[test]
    fn a_manifest_of_which_nothing_is_changed_keeps_its_bytes() {
        let written = |original: &str| {
            let family = MediaFamily::Docker;
            written(original, family, (&digest('a'), 2), &[kept(family)])
        };
        assert_eq!(written(&docker()), docker());
        let untyped = docker().replace(
            r#""mediaType":"application/vnd.docker.distribution.manifest.v2+json","#,
            "",
        );
        assert_eq!(written(&untyped), untyped);
        let of_another = docker().replace("docker.distribution.manifest.v2", "oci.image.manifest.v1");
        let expected = serde_json::from_str::<Value>(&docker()).unwrap().to_string();
        assert_eq!(written(&of_another), expected);
    }

    #[test]
    fn a_manifest_of_docker_becomes_one_of_oci_and_nothing_else_of_it_changes() {
        let expected = serde_json::from_str::<Value>(&docker()).unwrap().to_string();
        let expected = expected
            .replace("docker.distribution.manifest.v2", "oci.image.manifest.v1")
            .replace("docker.container.image.v1", "oci.image.config.v1")
            .replace("docker.image.rootfs.diff.tar.gzip", "oci.image.layer.v1.tar+gzip");
        let layers = [kept(MediaFamily::Oci)];
        assert_eq!(
            written(&docker(), MediaFamily::Oci, (&digest('a'), 2), &layers),
            expected
        );
    }

    #[test]
    fn a_descriptor_of_other_bytes_keeps_all_but_what_is_true_of_the_old_ones() {
        let old = docker()
            .replace(
                r#""annotations":{"z":"","y":"","a":""}"#,
                r#""annotations":{"containerd.io/snapshot/stargz/toc.digest":"x","a":"b"},"urls":["u"]"#,
            )
            .replace(
                r#""size":2}"#,
                r#""size":2,"data":"e30=","annotations":{"c":"d"},"later":123456789012345678901234567890}"#,
            );
        let layer = ManifestLayer {
            of: Some(0),
            ..new(MediaFamily::Docker)
        };
        let written = written(&old, MediaFamily::Docker, (&digest('b'), 3), &[layer]);
        let described = format!(
            r#""layers":[{{"x":0,"size":9,"digest":"{}","mediaType":"application/vnd.docker.image.rootfs.diff.tar.gzip","annotations":{{"a":"b"}}}}]"#,
            digest('c')
        );
        assert!(written.contains(&described), "{written}");
        let described = format!(
            r#""digest":"{}","size":3,"annotations":{{"c":"d"}},"later":123456789012345678901234567890}}"#,
            digest('b')
        );
        assert!(written.contains(&described), "{written}");
    }

    #[test]
    fn an_image_without_a_manifest_gets_one_of_oci() {
        let bytes = write_manifest(None, MediaFamily::Oci, (&digest('b'), 3), &[]).unwrap();
        let document: Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(
            document["config"]["mediaType"],
            "application/vnd.oci.image.config.v1+json"
        );
        assert_eq!(document["mediaType"], "application/vnd.oci.image.manifest.v1+json");
    }
}
