//! The name of an image as `FROM` takes it.

use super::quote;
use crate::image::{Image, SourceKind};
use crate::remedy::Refusal;

/// The name that `FROM` takes for an image; `None` for an image in a file or a folder, which has none. One of a
/// registry is pinned by the digest of what was read.
///
/// # Errors
/// [`Refusal::Name`], for a name that means more than itself.
pub fn of(image: &Image) -> Result<Option<String>, Refusal> {
    let written = image.reference.as_str();
    let name = match image.source {
        SourceKind::Docker => written.strip_prefix("docker://").unwrap_or(written),
        SourceKind::DockerDaemon => written.strip_prefix("docker-daemon:").unwrap_or(written),
        SourceKind::Podman => written.strip_prefix("podman:").unwrap_or(written),
        _ => return Ok(None),
    };
    let name = quote::plain("the name of an image", name.as_bytes())?;
    Ok(Some(match &image.digest {
        Some(digest) if image.source == SourceKind::Docker && !name.contains('@') => {
            format!("{name}@{digest}")
        }
        _ => name,
    }))
}

/// The name that a user gives.
///
/// # Errors
/// [`Refusal::Name`], for a name that means more than itself.
pub fn plain(name: &str) -> Result<String, Refusal> {
    quote::plain("the name of an image", name.as_bytes())
}
