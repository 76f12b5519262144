//! Images in a registry, over the OCI distribution specification.
//!
//! Makes as few requests as possible: one GET for the manifest without a HEAD first, and one token for the whole image.
//! Sends credentials only to their registry and its token server, never to the target of a redirect.

mod address_guard;
mod blob;
mod catalog;
mod challenge;
mod checked_names;
mod client;
mod credential_files;
mod credentials;
mod manifest;
mod push;
mod request_errors;
mod retry;
mod session;
mod steady_body;
mod token_exchange;
mod transport;

use std::convert::Infallible;
use std::io::Read;
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::config::ImageConfig;
use crate::image::{Image, LayerDescriptor};
use crate::image_error::ImageError;
use crate::manifest::{
    Descriptor, ImageManifest, ManifestDocument, choose_manifest, describe_layers, expect_platform, index_platforms,
    known_platform,
};
use crate::platform::Platform;
use crate::registry_reference::RegistryReference;
use crate::source::{BlobStore, ImageDocuments, ImageSource, KeepFile, OpenRequest, OpenedImage, OpenedLayers};
use crate::source_kind::SourceKind;
use crate::{config, verify};
pub use catalog::{list_repositories, list_tags};
use client::RepositoryClient;
pub use credential_files::CredentialSource;
pub use push::{PushOutcome, RegistryPush};
pub use request_errors::{connection_failure, remote_error, shorten_text};
pub use retry::{AttemptFailure, RetryPolicy, retry_attempts};
pub use transport::{RegistryOptions, client_builder};

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

impl RegistrySource {
    fn client(&self) -> Result<RepositoryClient, ImageError> {
        let (registry, repository) = (self.reference.registry(), self.reference.repository());
        RepositoryClient::new(registry, repository, &self.written, &self.options)
    }

    /// The config of a manifest, as bytes and parsed.
    fn config(
        &self,
        client: &Arc<RepositoryClient>,
        manifest: &ImageManifest,
        limit: u64,
    ) -> Result<(Vec<u8>, Platform, ImageConfig), ImageError> {
        let described = &manifest.config;
        let bytes = verify::read_document(
            &format!("config {} of {}", described.digest, self.written),
            blob::open_blob(client, &described.digest, Some(described.size))?,
            Some(&described.digest),
            Some(described.size),
            limit,
        )?;
        let (platform, config) = config::read_image_config(&self.written, &bytes)?;
        Ok((bytes, platform, config))
    }

    /// The platform in the config of a manifest; `None` for other documents.
    fn read_platform(
        &self,
        client: &Arc<RepositoryClient>,
        described: &Descriptor,
        limit: u64,
    ) -> Result<Option<Platform>, ImageError> {
        let ManifestDocument::Manifest(manifest) = manifest::read_described(client, described, limit)? else {
            return Ok(None);
        };
        let (_, platform, _) = self.config(client, &manifest, limit)?;
        Ok(known_platform(platform))
    }
}

impl ImageSource for RegistrySource {
    fn open(&self, request: &OpenRequest<'_>) -> Result<OpenedImage, ImageError> {
        let written = self.written.as_str();
        let client = Arc::new(self.client()?);
        let limit = request.limits().document;
        let choose = |what: &str, index: &[Descriptor]| {
            let read = |descriptor: &Descriptor| self.read_platform(&client, descriptor, limit);
            let chosen = choose_manifest(what, index, request.platform, &read)?;
            Ok(ControlFlow::<Infallible, _>::Continue(chosen))
        };
        let ControlFlow::Continue(found) = manifest::fetch_manifest(&client, &self.reference, limit, choose)?;
        let (bytes, platform, config) = self.config(&client, &found.manifest, limit)?;
        // First: an artifact has no platform.
        let layers = describe_layers(written, &found.manifest, &config, request.limits())?;
        // A manifest without an index states its platform only in the config.
        expect_platform(written, &platform, request.platform)?;
        Ok(OpenedImage {
            image: Image {
                reference: self.written.clone(),
                source: SourceKind::Docker,
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
            layers: OpenedLayers::Blobs(Box::new(RegistryBlobs { client })),
            home: Some(self.reference.clone()),
        })
    }

    fn list_platforms(&self, request: &OpenRequest<'_>) -> Result<Vec<Platform>, ImageError> {
        let client = Arc::new(self.client()?);
        let limit = request.limits().document;
        let read = |descriptor: &Descriptor| self.read_platform(&client, descriptor, limit);
        let choose = |what: &str, index: &[Descriptor]| index_platforms(what, index, &read);
        match manifest::fetch_manifest(&client, &self.reference, limit, choose)? {
            ControlFlow::Break(platforms) => Ok(platforms),
            ControlFlow::Continue(found) => {
                let (_, platform, _) = self.config(&client, &found.manifest, limit)?;
                Ok(known_platform(platform).into_iter().collect())
            }
        }
    }

    fn open_reopenable(&self, request: &OpenRequest<'_>, _keep: KeepFile<'_>) -> Result<OpenedImage, ImageError> {
        self.open(request)
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
            return Err(ImageError::not_an_image(name, "a layer has no digest"));
        };
        // The `urls` of a foreign layer may name any host. Other clients were tricked into sending their credentials
        // there (CVE-2020-15157).
        if layer.is_foreign() {
            return Err(ImageError::NotFound(format!(
                "layer {digest} of {name} is foreign: its bytes are not in {}, and no other host is contacted",
                self.client.registry
            )));
        }
        Ok(Box::new(blob::open_blob(&self.client, digest, layer.size)?))
    }

    fn find(&self, _layer: &LayerDescriptor) -> Result<(), ImageError> {
        Ok(())
    }
}
