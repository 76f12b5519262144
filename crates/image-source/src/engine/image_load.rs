//! Gives an engine an image, as `docker load` does.

use std::io::Read;

use reqwest::StatusCode;
use reqwest::blocking::Body;
use serde::Deserialize;

use super::connection::connect_engine;
use super::{EngineImage, check_name};
use crate::image_error::ImageError;
use image_linkage::escape;
use image_linkage::limits::Limits;

/// A line of an engine's answer to an archive.
#[derive(Deserialize)]
struct LoadMessage {
    error: Option<String>,
}

impl EngineImage {
    /// Whether the engine has an image of this name.
    ///
    /// Errors: Why it cannot be asked.
    pub fn exists(&self, limits: &Limits) -> Result<bool, ImageError> {
        // The name becomes part of the URL, and comes from the command line or from an image.
        check_name(&self.reference, &self.name)?;
        let connection = connect_engine(self.brand, &self.environment)?;
        let response = connection.get(&format!("images/{}/json", self.name))?;
        if response.status() == StatusCode::NOT_FOUND {
            return Ok(false);
        }
        connection.accept(response, limits.document).map(|_| true)
    }

    /// Loads an archive as `docker save` writes it.
    ///
    /// Errors: Why the engine does not take it.
    pub fn load(&self, archive: impl Read + Send + 'static, limits: &Limits) -> Result<(), ImageError> {
        let connection = connect_engine(self.brand, &self.environment)?;
        let response = connection.send("images/load?quiet=1", Body::new(archive))?;
        let response = connection.accept(response, limits.document)?;
        let mut said = Vec::new();
        response
            // The engine may be another machine's: its answer is read to a limit, as
            // everything that comes from outside.
            .take(limits.document)
            .read_to_end(&mut said)
            .map_err(ImageError::io(&connection.what))?;
        // It answers before it has read the archive: what goes wrong then is in the body.
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
