//! Images in a registry, over the OCI distribution specification.
//!
//! As few requests as possible are made: the manifest is fetched once, no HEAD comes before it, and a token
//! serves the whole image. Credentials go to the registry they belong to and to the token server it names,
//! never to the place a redirect leads to.

mod address_guard;
mod blob;
mod challenge;
mod client;
mod credential_files;
mod credentials;
mod manifest;
mod push;
mod request_errors;
mod retry;
mod token_exchange;
mod transport;

use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;

use super::manifest::{describe_layers, expect_platform};
use super::{
    BlobStore, Image, ImageDocuments, ImageError, ImageSource, LayerDescriptor, OpenRequest,
    OpenedImage, OpenedLayers, RegistryReference, SourceKind, config, verify,
};
use client::RepositoryClient;
pub use credential_files::CredentialSource;
pub use push::{PushOutcome, RegistryPush};
pub use retry::RetryPolicy;

/// How a registry is asked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RegistryOptions {
    /// Hosts, as `HOST` or `HOST:PORT`, that may be asked by plain HTTP and whose certificate is not checked.
    /// This machine may be asked by plain HTTP without being named.
    pub insecure: Vec<String>,
    /// A PEM file of certificates that are trusted besides the system's.
    pub ca_cert: Option<PathBuf>,
    /// Where credentials are looked up, once the registry asks for them.
    pub credentials: CredentialSource,
    /// How long and how often to try.
    pub patience: RetryPolicy,
}

/// An image in a registry.
pub struct RegistrySource {
    reference: RegistryReference,
    written: String,
    options: RegistryOptions,
}

impl RegistrySource {
    /// The image `reference`, which the user wrote as `written`.
    pub fn new(reference: RegistryReference, written: String, options: RegistryOptions) -> Self {
        Self {
            reference,
            written,
            options,
        }
    }
}

impl ImageSource for RegistrySource {
    fn open(&self, request: &OpenRequest<'_>) -> Result<OpenedImage, ImageError> {
        let written = self.written.as_str();
        let client = Arc::new(RepositoryClient::new(
            self.reference.registry(),
            self.reference.repository(),
            written,
            &self.options,
        )?);
        let found = manifest::fetch_manifest(&client, &self.reference, request)?;
        let described = &found.manifest.config;
        let bytes = verify::read_document(
            &format!("config {} of {written}", described.digest),
            blob::open_blob(&client, &described.digest, Some(described.size))?,
            Some(&described.digest),
            Some(described.size),
            request.limits().document,
        )?;
        let (platform, config) = config::read_image_config(written, &bytes)?;
        expect_platform(written, &platform, request.platform)?;
        let layers = describe_layers(written, &found.manifest, &config, request.limits())?;
        Ok(OpenedImage {
            image: Image {
                reference: self.written.clone(),
                source: SourceKind::Docker,
                digest: Some(found.digest),
                platform,
                config,
                layers,
            },
            documents: ImageDocuments {
                config: bytes,
                manifest: Some(found.bytes),
            },
            layers: OpenedLayers::Blobs(Box::new(RegistryBlobs { client })),
        })
    }
}

/// The layers of one image in a registry.
struct RegistryBlobs {
    client: Arc<RepositoryClient>,
}

impl BlobStore for RegistryBlobs {
    fn open(&self, layer: &LayerDescriptor) -> Result<Box<dyn Read + Send>, ImageError> {
        let name = &self.client.written;
        let Some(digest) = &layer.digest else {
            return Err(ImageError::NotAnImage {
                what: name.clone(),
                reason: "a layer has no digest".to_owned(),
            });
        };
        if layer.is_foreign() {
            return Err(ImageError::NotFound(format!(
                "layer {digest} of {name} is foreign: its bytes are not in {}, and other places are never asked",
                self.client.registry
            )));
        }
        Ok(Box::new(blob::open_blob(&self.client, digest, layer.size)?))
    }
}
