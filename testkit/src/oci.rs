//! Images as an OCI layout: `oci-layout`, `index.json` and `blobs/sha256` (image-spec, image-layout.md).
#![expect(
    clippy::disallowed_methods,
    reason = "a layout is written to the folder that the test or chore names"
)]

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use serde_json::{Value, json};

use crate::layer::{Blob, Compression, Layer, sha256};

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const EPOCH: &str = "1970-01-01T00:00:00Z";

/// An image under construction.
#[derive(Debug, Clone)]
#[must_use = "an image is only written by a `Layout`"]
pub struct Image {
    os: String,
    architecture: String,
    variant: Option<String>,
    /// The `config` object of the image config.
    execution: serde_json::Map<String, Value>,
    env: Vec<String>,
    steps: Vec<(String, Option<Blob>)>,
}

impl Image {
    /// An image without layers for `os/architecture[/variant]`.
    pub fn new(platform: &str) -> Self {
        let mut parts = platform.split('/').map(str::to_owned);
        Self {
            os: parts.next().unwrap_or_default(),
            architecture: parts.next().unwrap_or_default(),
            variant: parts.next(),
            execution: serde_json::Map::new(),
            env: Vec::new(),
            steps: Vec::new(),
        }
    }

    /// Adds a variable of the environment.
    pub fn env(mut self, key: &str, value: &str) -> Self {
        self.env.push(format!("{key}={value}"));
        self
    }

    /// Sets a field of the config's `config` object, such as `Entrypoint` or `User`.
    pub fn config(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.execution.insert(key.to_owned(), value.into());
        self
    }

    /// Adds a layer and its build step.
    pub fn layer(mut self, created_by: &str, layer: &Layer, compression: Compression) -> Self {
        let blob = layer.blob(compression);
        self.steps.push((created_by.to_owned(), Some(blob)));
        self
    }

    /// Adds a finished layer.
    pub fn blob(mut self, created_by: &str, blob: Blob) -> Self {
        self.steps.push((created_by.to_owned(), Some(blob)));
        self
    }

    /// Adds a build step without a layer, such as `ENV`.
    pub fn empty_step(mut self, created_by: &str) -> Self {
        self.steps.push((created_by.to_owned(), None));
        self
    }

    /// The blobs of the layers, lowest first.
    pub fn blobs(&self) -> impl Iterator<Item = &Blob> {
        self.steps.iter().filter_map(|(_, blob)| blob.as_ref())
    }

    fn platform(&self) -> Value {
        let mut platform = json!({"architecture": self.architecture, "os": self.os});
        if let (Some(variant), Some(fields)) = (&self.variant, platform.as_object_mut()) {
            fields.insert("variant".to_owned(), json!(variant));
        }
        platform
    }

    fn image_config(&self) -> Value {
        let mut execution = self.execution.clone();
        if !self.env.is_empty() {
            execution.insert("Env".to_owned(), json!(self.env));
        }
        let history: Vec<Value> = self
            .steps
            .iter()
            .map(|(created_by, blob)| match blob {
                Some(_) => json!({"created": EPOCH, "created_by": created_by}),
                None => json!({"created": EPOCH, "created_by": created_by, "empty_layer": true}),
            })
            .collect();
        let diff_ids: Vec<&str> = self.blobs().map(|blob| blob.diff_id.as_str()).collect();
        let mut config = self.platform();
        if let Some(fields) = config.as_object_mut() {
            fields.insert("created".to_owned(), json!(EPOCH));
            fields.insert("config".to_owned(), Value::Object(execution));
            let rootfs = json!({"type": "layers", "diff_ids": diff_ids});
            fields.insert("rootfs".to_owned(), rootfs);
            fields.insert("history".to_owned(), json!(history));
        }
        config
    }
}

/// An OCI layout in memory: the path of each file in the folder, and its bytes.
#[derive(Debug, Clone, Default)]
pub struct Layout {
    files: BTreeMap<String, Vec<u8>>,
    tags: Vec<Value>,
}

impl Layout {
    /// A layout without images.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tag for one image, or for an index of several. Returns the digest of the manifest or index.
    pub fn add(&mut self, tag: &str, images: &[Image]) -> String {
        let manifests: Vec<Value> = images.iter().map(|image| self.image(image)).collect();
        let mut descriptor = match <[Value; 1]>::try_from(manifests) {
            Ok([manifest]) => manifest,
            Err(manifests) => {
                let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests});
                self.document(INDEX, &index)
            }
        };
        if let Some(fields) = descriptor.as_object_mut() {
            let name = json!({"org.opencontainers.image.ref.name": tag});
            fields.insert("annotations".to_owned(), name);
        }
        let digest = descriptor.get("digest").and_then(Value::as_str);
        let digest = digest.unwrap_or_default().to_owned();
        self.tags.push(descriptor);
        digest
    }

    /// All files of the layout: path in the folder, with `/`, and bytes.
    pub fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": self.tags});
        let layout = json!({"imageLayoutVersion": "1.0.0"});
        let mut files = self.files.clone();
        files.insert("index.json".to_owned(), text(&index));
        files.insert("oci-layout".to_owned(), text(&layout));
        files
    }

    /// Writes the layout to `folder`, which may not exist yet.
    ///
    /// Errors: The system's error.
    pub fn write_to(&self, folder: &Path) -> io::Result<()> {
        for (name, bytes) in self.files() {
            let path = folder.join(name);
            std::fs::create_dir_all(path.parent().unwrap_or(folder))?;
            std::fs::write(path, bytes)?;
        }
        Ok(())
    }

    /// The layout as an uncompressed `oci-archive`.
    pub fn archive(&self) -> Vec<u8> {
        tar_of(self.files())
    }

    /// The layout in the format of `docker save`: a `manifest.json` names each image `repository:TAG`.
    #[expect(clippy::indexing_slicing, reason = "the layout has all that its own documents name")]
    pub fn saved(&self, repository: &str) -> Vec<u8> {
        let blob = |descriptor: &Value| {
            let digest = descriptor["digest"].as_str().unwrap_or_default();
            format!("blobs/{}", digest.replace(':', "/"))
        };
        let mut files = self.files();
        let entry = |descriptor: &Value| {
            let manifest: Value = serde_json::from_slice(&files[&blob(descriptor)]).unwrap_or_default();
            let layers = manifest["layers"].as_array().into_iter().flatten();
            let tag = &descriptor["annotations"]["org.opencontainers.image.ref.name"];
            json!({
                "Config": blob(&manifest["config"]), "Layers": layers.map(blob).collect::<Vec<_>>(),
                "RepoTags": [format!("{repository}:{}", tag.as_str().unwrap_or_default())],
            })
        };
        let manifest: Value = self.tags.iter().map(entry).collect();
        files.insert("manifest.json".to_owned(), text(&manifest));
        tar_of(files)
    }

    /// Adds the blobs of an image; returns the descriptor of its manifest.
    fn image(&mut self, image: &Image) -> Value {
        let config = self.document(CONFIG, &image.image_config());
        let mut layers = Vec::new();
        for blob in image.blobs() {
            layers.push(self.blob(layer_type(blob.compression), blob.bytes.clone()));
        }
        let manifest = json!({
            "schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": layers,
        });
        let mut descriptor = self.document(MANIFEST, &manifest);
        if let Some(fields) = descriptor.as_object_mut() {
            fields.insert("platform".to_owned(), image.platform());
        }
        descriptor
    }

    fn document(&mut self, media_type: &str, document: &Value) -> Value {
        self.blob(media_type, text(document))
    }

    /// Adds a blob; returns its descriptor.
    fn blob(&mut self, media_type: &str, bytes: Vec<u8>) -> Value {
        let digest = sha256(&bytes);
        let size = bytes.len();
        let path = format!("blobs/{}", digest.replace(':', "/"));
        self.files.insert(path, bytes);
        json!({"mediaType": media_type, "digest": digest, "size": size})
    }
}

fn layer_type(compression: Compression) -> &'static str {
    match compression {
        Compression::None => "application/vnd.oci.image.layer.v1.tar",
        Compression::Gzip => "application/vnd.oci.image.layer.v1.tar+gzip",
        Compression::Zstd => "application/vnd.oci.image.layer.v1.tar+zstd",
    }
}

fn tar_of(files: BTreeMap<String, Vec<u8>>) -> Vec<u8> {
    let add = |layer: Layer, (name, bytes)| layer.file(name, bytes);
    files.into_iter().fold(Layer::new(), add).tar()
}

fn text(document: &Value) -> Vec<u8> {
    document.to_string().into_bytes()
}
