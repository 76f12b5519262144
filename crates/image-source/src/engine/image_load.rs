//! Loads an image into an engine, like `docker load`.

use std::io::Read;

use reqwest::StatusCode;
use reqwest::blocking::Body;
use serde::Deserialize;

use super::connection::connect_engine;
use super::{EngineImage, check_name};
use crate::image_error::ImageError;
use image_linkage::escape;
use image_linkage::limits::Limits;

/// A line of an engine's response to an archive.
#[derive(Deserialize)]
struct LoadMessage {
    error: Option<String>,
}

impl EngineImage {
    /// Whether the engine has an image with this name.
    ///
    /// Errors: The engine cannot be reached.
    pub fn exists(&self, limits: &Limits) -> Result<bool, ImageError> {
        // The name becomes part of the URL and may come from the command line or an image.
        check_name(&self.reference, &self.name)?;
        let connection = connect_engine(self.brand, &self.environment)?;
        let response = connection.get(&format!("images/{}/json", self.name))?;
        if response.status() == StatusCode::NOT_FOUND {
            return Ok(false);
        }
        connection.accept(response, limits.document).map(|_| true)
    }

    /// Loads an archive in the format of `docker save`.
    ///
    /// Errors: Why the engine rejects it.
    pub fn load(&self, archive: impl Read + Send + 'static, limits: &Limits) -> Result<(), ImageError> {
        let connection = connect_engine(self.brand, &self.environment)?;
        let response = connection.send("images/load?quiet=1", Body::new(archive))?;
        let mut said = Vec::new();
        connection
            .accept(response, limits.document)?
            // The engine may be remote, so limit its response like other input.
            .take(limits.document)
            .read_to_end(&mut said)
            .map_err(ImageError::io(&connection.what))?;
        // It responds before reading the archive, so later errors are in the body.
        let failed = said
            .split(|&byte| byte == b'\n')
            .find_map(|line| serde_json::from_slice::<LoadMessage>(line).ok()?.error);
        match failed {
            Some(error) => Err(ImageError::Remote(format!(
                "{} did not take the image: {}",
                connection.what,
                escape::escape_bytes(error.as_bytes())
            ))),
            None => Ok(()),
        }
    }
}
