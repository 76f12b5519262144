//! Images of a local engine, through Docker's HTTP API, which Podman also serves.
//!
//! The engine's address comes from environment variables and default sockets. Docker contexts are not read;
//! `DOCKER_HOST` selects another engine.

mod connection;
mod image_load;
mod kind;

pub use connection::EngineEnvironment;
pub use kind::EngineKind;

use std::io::Read;

use reqwest::StatusCode;
use reqwest::blocking::Response;
use serde::Deserialize;

use connection::{EngineConnection, connect_engine};

use crate::archive::{self, PreferredDocument, WantedImage};
use crate::config::read_image_config;
use crate::image::Image;
use crate::image_error::ImageError;
use crate::manifest;
use crate::platform::Platform;
use crate::source::{ImageSource, KeepFile, OpenRequest, OpenedImage, OpenedLayers};
use crate::verify;
use image_linkage::digest::Digest;

/// An image of a local engine, or of the one that `DOCKER_HOST` or `CONTAINER_HOST` names.
#[derive(Debug, Clone)]
pub struct EngineImage {
    /// The reference as written by the user.
    pub reference: String,
    /// The image's name or ID.
    pub name: String,
    /// Selects default sockets and the advice in errors.
    pub brand: EngineKind,
    /// The environment variables that locate engines.
    pub environment: EngineEnvironment,
}

impl ImageSource for EngineImage {
    /// Inspects the image, then reads the stream of `docker save` in one pass.
    fn open(&self, request: &OpenRequest<'_>) -> Result<OpenedImage, ImageError> {
        let (connection, facts) = self.connect(request)?;
        // Reject a wrong platform now, before the engine writes all layers to its disk.
        facts.expect_platform(&self.reference, request.platform)?;
        let mut opened = self.open_inspected(&connection, &facts, request)?;
        opened.image.repo_digests = facts.repo_digests.unwrap_or_default();
        Ok(opened)
    }

    fn list_platforms(&self, request: &OpenRequest<'_>) -> Result<Vec<Platform>, ImageError> {
        let (connection, facts) = self.connect(request)?;
        let platform = facts.platform();
        // For an index, an engine describes only one image. The saved archive lists all platforms.
        if !facts.is_index() && !platform.architecture.is_empty() {
            return Ok(vec![platform]);
        }
        let saved = self.save(&connection, &facts, request)?;
        archive::list_stream_platforms(&self.reference, saved, &self.wanted(), request)
    }

    fn open_reopenable(&self, request: &OpenRequest<'_>, keep: KeepFile<'_>) -> Result<OpenedImage, ImageError> {
        let kept = keep(&mut self.open_save_stream(request)?)?;
        archive::open_file(&kept, &self.wanted(), request)
    }
}

impl EngineImage {
    /// An image of the engine selected by this process's environment.
    pub fn new(brand: EngineKind, name: &str) -> Self {
        Self {
            reference: format!("{}:{name}", brand.kind().scheme()),
            name: name.to_owned(),
            brand,
            environment: EngineEnvironment::from_env(),
        }
    }

    fn wanted(&self) -> WantedImage<'_> {
        WantedImage {
            reference: &self.reference,
            // The engine returns one image, possibly under another name: `localhost/app:latest` for `app`.
            name: None,
            docker: self.brand.kind(),
            first: PreferredDocument::DockerManifest,
        }
    }

    fn open_inspected(
        &self,
        connection: &EngineConnection,
        facts: &InspectedImage,
        request: &OpenRequest<'_>,
    ) -> Result<OpenedImage, ImageError> {
        let id = facts.kept_id(self.brand, request.platform);
        if let Some(known) = id.as_ref().and_then(|id| self.find_known(id, request)) {
            return Ok(known);
        }
        let saved = self.save(connection, facts, request)?;
        let opened = self.open_saved(saved, request)?;
        // The name may refer to another image by now.
        if let Some((cache, id)) = request.cache.zip(id)
            && self.inspect(connection, request)?.id == facts.id
        {
            cache.keep_image(&id, &opened.image, &opened.documents);
        }
        Ok(opened)
    }

    /// Opens an image from an archive in this engine's format.
    ///
    /// Errors: Problems of the archive or of reading it.
    pub fn open_saved(&self, saved: impl Read + Send, request: &OpenRequest<'_>) -> Result<OpenedImage, ImageError> {
        archive::open_stream(&self.reference, saved, &self.wanted(), request)
    }

    /// Opens the image from the cache if all of it is known; `docker save` is not needed then.
    fn find_known(&self, id: &Digest, request: &OpenRequest<'_>) -> Option<OpenedImage> {
        let cache = request.cache?;
        let known = cache.find_image(id)?;
        let (platform, config) = read_image_config(&self.reference, &known.documents.config).ok()?;
        let indexes = known
            .layers
            .iter()
            .map(|layer| cache.find(layer))
            .collect::<Option<_>>()?;
        Some(OpenedImage {
            image: Image {
                reference: self.reference.clone(),
                source: self.brand.kind(),
                digest: known.digest,
                repo_digests: Vec::new(),
                platform,
                config,
                layers: known.layers,
            },
            documents: known.documents,
            layers: OpenedLayers::Indexed(indexes),
            home: None,
        })
    }

    /// The stream of `docker save`.
    fn open_save_stream(&self, request: &OpenRequest<'_>) -> Result<Response, ImageError> {
        let (connection, facts) = self.connect(request)?;
        facts.expect_platform(&self.reference, request.platform)?;
        self.save(&connection, &facts, request)
    }

    fn connect(&self, request: &OpenRequest<'_>) -> Result<(EngineConnection, InspectedImage), ImageError> {
        check_name(&self.reference, &self.name)?;
        let connection = connect_engine(self.brand, &self.environment)?;
        let facts = self.inspect(&connection, request)?;
        Ok((connection, facts))
    }

    fn save(
        &self,
        connection: &EngineConnection,
        facts: &InspectedImage,
        request: &OpenRequest<'_>,
    ) -> Result<Response, ImageError> {
        let name = facts.one_image(&self.name);
        request.progress.wait(&format!(
            "{} writes the image to its disk before it sends a byte",
            self.brand.name()
        ));
        let response = connection.get(&format!("images/{name}/get"))?;
        connection.accept(response, request.limits().document)
    }

    fn inspect(&self, connection: &EngineConnection, request: &OpenRequest<'_>) -> Result<InspectedImage, ImageError> {
        let response = connection.get(&format!("images/{}/json", self.name))?;
        // Never pull: an audit must not change the engine's images.
        if response.status() == StatusCode::NOT_FOUND {
            let (name, brand) = (&self.name, self.brand);
            return Err(ImageError::NotFound(format!(
                "no such image in {}: {name}; fetch it with: {} pull {name}, or leave out {}: to ask the registry",
                connection.what,
                brand.command(),
                brand.kind().scheme(),
            )));
        }
        let limit = request.limits().document;
        let document = connection.accept(response, limit)?;
        let bytes = verify::read_document(&connection.what, document, None, None, limit)?;
        serde_json::from_slice(&bytes).map_err(|error| {
            ImageError::Remote(format!(
                "{} describes the image in a way that cannot be read: {error}",
                connection.what
            ))
        })
    }
}

/// The engine's description of an image.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct InspectedImage {
    /// The config digest, or with the containerd store the digest of the named object.
    id: Option<String>,
    os: Option<String>,
    architecture: Option<String>,
    variant: Option<String>,
    repo_tags: Option<Vec<String>>,
    repo_digests: Option<Vec<String>>,
    /// The object that the name refers to, with the containerd store.
    descriptor: Option<InspectedDescriptor>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct InspectedDescriptor {
    media_type: Option<String>,
}

impl InspectedImage {
    /// The cache key of the image. Engines identify an image by a digest of its whole content.
    fn kept_id(&self, brand: EngineKind, platform: Option<&Platform>) -> Option<Digest> {
        let platform = platform.map(ToString::to_string).unwrap_or_default();
        let text = format!("{} {} {platform}", brand.kind().scheme(), self.id.as_ref()?);
        Some(Digest::of(text.as_bytes()))
    }

    /// Whether the name refers to a multi-platform image, of which the engine describes one.
    fn is_index(&self) -> bool {
        let described = self.descriptor.as_ref();
        let media_type = described.and_then(|descriptor| descriptor.media_type.as_deref());
        // OCI's media type contains "index", Docker's "manifest.list".
        media_type.is_some_and(|it| it.contains("index") || it.contains("list"))
    }

    fn platform(&self) -> Platform {
        Platform {
            // Engines omit fields that old configs lack. The default is linux.
            os: self.os.clone().unwrap_or_else(|| "linux".to_owned()),
            architecture: self.architecture.clone().unwrap_or_default(),
            variant: self.variant.clone().filter(|variant| !variant.is_empty()),
        }
    }

    /// Checks the platform before gigabytes are transferred.
    fn expect_platform(&self, what: &str, wanted: Option<&Platform>) -> Result<(), ImageError> {
        if self.is_index() {
            return Ok(());
        }
        manifest::expect_platform(what, &self.platform(), wanted)
    }

    /// The name to save. Without a tag, all tags of the repository would be saved.
    fn one_image(&self, name: &str) -> String {
        let tagged = format!("{name}:latest");
        // Podman lists `localhost/app:latest` for `app` and accepts both.
        let below = format!("/{tagged}");
        let tags = self.repo_tags.iter().flatten();
        if tags.into_iter().any(|tag| *tag == tagged || tag.ends_with(&below)) {
            tagged
        } else {
            name.to_owned()
        }
    }
}

/// Rejects a name that would change the meaning of the URL.
fn check_name(reference: &str, name: &str) -> Result<(), ImageError> {
    // `../containers` would address another API endpoint.
    let steps = name.split('/').any(|part| matches!(part, "" | "." | ".."));
    if name
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || b"._-/:@+".contains(&b))
        && !steps
    {
        return Ok(());
    }
    Err(ImageError::reference(
        reference,
        "expected NAME[:TAG], NAME@DIGEST or an id",
    ))
}

#[cfg(test)]
mod tests {
    use super::{InspectedImage, check_name};
    use crate::Platform;

    fn inspected(json: &str) -> InspectedImage {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn only_names_of_images_become_part_of_a_url() {
        for name in ["app", "ghcr.io/a/b:1", "a@sha256:00ff", "3f2a1b"] {
            assert!(check_name("r", name).is_ok(), "{name}");
        }
        for name in ["", "../containers", "a/./b", "a//b", "a?b", "a#b", "a b", "a%2fb"] {
            assert_eq!(
                check_name("r", name).unwrap_err().to_string(),
                "invalid reference \"r\": expected NAME[:TAG], NAME@DIGEST or an id",
                "{name}"
            );
        }
    }

    #[test]
    fn a_name_without_a_tag_is_saved_as_one_image() {
        let image = inspected(r#"{"RepoTags":["app:1","localhost/app:latest"]}"#);
        assert_eq!(image.one_image("app"), "app:latest");
        assert_eq!(image.one_image("app:1"), "app:1");
        assert_eq!(image.one_image("3f2a"), "3f2a");
        assert_eq!(inspected(r#"{"RepoTags":null}"#).one_image("app"), "app");
    }

    #[test]
    fn another_platform_is_refused_before_anything_is_sent() {
        let wanted = Platform::parse("linux/arm64").unwrap();
        let amd64 = r#"{"Os":"linux","Architecture":"amd64""#;
        let image = inspected(&format!("{amd64}}}"));
        assert!(image.expect_platform("x", None).is_ok());
        assert!(image.expect_platform("x", Some(&wanted)).is_err());
        let arm = inspected(r#"{"Os":"linux","Architecture":"arm64","Variant":"v8"}"#);
        assert!(arm.expect_platform("x", Some(&wanted)).is_ok());
        let index = r#""Descriptor":{"mediaType":"application/vnd.oci.image.index.v1+json"}"#;
        let several = inspected(&format!("{amd64},{index}}}"));
        assert!(several.expect_platform("x", Some(&wanted)).is_ok());
    }
}
