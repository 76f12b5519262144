//! The proof that travels with an image: what was brought and what went, from where, and why.
//!
//! It holds nothing of the host and no time, so that the same run gives the same image.

use serde::Serialize;

use image_source::Image;

/// What was done to an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SlimProvenance {
    /// The version of this form.
    pub proof_version: u32,
    /// The program, with its version.
    pub made_by: String,
    /// The phase that the image is for.
    pub phase: String,
    pub image: ContentOrigin,
    /// The files that were brought, by path.
    pub added: Vec<AddedFile>,
    /// The links and the files that were written, by path.
    pub written: Vec<WrittenEntry>,
    /// The files that are gone, by path.
    pub dropped: Vec<DroppedFile>,
    /// The variable of the config that was changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub environment: Option<ChangedVariable>,
    /// The copies that are links to one file now, by path.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub linked: Vec<LinkedFile>,
}

/// An image, a wheel or a folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ContentOrigin {
    /// What it is: the scheme of a reference, `wheel` or `folder`.
    pub kind: String,
    /// Its name, where that is the same on every host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The digest of its manifest, or of the wheel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The digests of its uncompressed layers, of an image without a manifest.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub diff_ids: Vec<String>,
}

impl ContentOrigin {
    /// An image. Its name is left out where it is a path of this host.
    pub(crate) fn image(image: &Image) -> Self {
        let diff_ids = match image.digest {
            // The digest of the manifest stands for all layers.
            Some(_) => Vec::new(),
            None => image.config.diff_ids.iter().map(ToString::to_string).collect(),
        };
        Self {
            kind: image.source.scheme().to_owned(),
            name: image
                .source
                .shared_name(&image.reference)
                .map(|_| image.reference.clone()),
            digest: image.digest.as_ref().map(ToString::to_string),
            diff_ids,
        }
    }

    /// A wheel by its file name and its SHA-256.
    pub(crate) fn wheel(name: &str, sha256: &str) -> Self {
        Self {
            kind: "wheel".to_owned(),
            name: Some(name.to_owned()),
            digest: Some(format!("sha256:{sha256}")),
            diff_ids: Vec::new(),
        }
    }

    pub(crate) fn folder() -> Self {
        Self {
            kind: "folder".to_owned(),
            name: None,
            digest: None,
            diff_ids: Vec::new(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct AddedFile {
    /// Its place in the image.
    pub path: String,
    pub bytes: u64,
    pub sha256: String,
    // The permission bits as chmod(1) takes them. As a number of JSON, which has no octal, 755 would read 493.
    pub mode: String,
    pub from: ContentOrigin,
    /// Its place there, without links.
    pub was: String,
    pub because: String,
}

/// Something small that was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct WrittenEntry {
    /// Its place in the image.
    pub path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// The SHA-256 of a file in hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    pub because: String,
}

/// A file or a link that is gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct DroppedFile {
    pub path: String,
    /// Its size in bytes; 0 for a link.
    pub bytes: u64,
    /// The layer that held it, counted from 0 at the bottom.
    pub layer: usize,
    pub kind: String,
    pub because: String,
}

/// A variable of the image's config that has another value than before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct ChangedVariable {
    pub name: String,
    pub value: String,
    pub because: String,
}

/// A copy of a file that became a hard link to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct LinkedFile {
    pub path: String,
    /// The file that it had the bytes of.
    pub to: String,
    pub bytes: u64,
}

impl SlimProvenance {
    pub(crate) fn text(&self) -> String {
        let text = serde_json::to_string_pretty(self).unwrap_or_default();
        text + "\n"
    }
}
