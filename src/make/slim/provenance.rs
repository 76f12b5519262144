//! The provenance record in an image: the added and removed files, their sources, and the reasons.
//!
//! It contains no host data and no time, so that the same run gives the same image.

use serde::Serialize;

use image_source::Image;

/// The changes to an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SlimProvenance {
    /// The version of this format.
    pub proof_version: u32,
    /// The program with its version.
    pub made_by: String,
    /// The phase that the image is for.
    pub phase: String,
    pub image: ContentOrigin,
    /// The copied files, by path.
    pub added: Vec<AddedFile>,
    /// The written links and files, by path.
    pub written: Vec<WrittenEntry>,
    /// The removed files, by path.
    pub dropped: Vec<DroppedFile>,
    /// The changed variable of the config.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub environment: Option<ChangedVariable>,
    /// The copies that became hard links to one file, by path.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub linked: Vec<LinkedFile>,
    /// The removed GPU code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_code: Option<RemovedGpuCode>,
}

/// The GPU code that was removed from objects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RemovedGpuCode {
    /// The GPUs whose code is complete, such as `sm_90`.
    pub kept_for: Vec<String>,
    /// The objects that changed, by path.
    pub objects: Vec<RewrittenObject>,
}

/// An object without some GPU code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RewrittenObject {
    pub path: String,
    /// The layer that contains it, counted from 0 at the bottom.
    pub layer: usize,
    /// Its other paths, which are hard links.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<String>,
    /// The open package that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub package: Option<String>,
    pub bytes_before: u64,
    pub bytes_after: u64,
    pub sha256_before: String,
    pub sha256_after: String,
    /// The removed code: its kind, the number of entries, and their bytes.
    pub removed: Vec<RemovedKind>,
}

/// Removed code of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct RemovedKind {
    pub kind: String,
    pub entries: u32,
    pub bytes: u64,
}

/// An image, a wheel or a folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ContentOrigin {
    /// The scheme of an image reference, `wheel` or `folder`.
    pub kind: String,
    /// Its name, if that is the same on every host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The digest of its manifest, or of the wheel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The diff ids of an image without a manifest.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub diff_ids: Vec<String>,
}

impl ContentOrigin {
    /// An image. The name is omitted if it is a path on this host.
    pub(crate) fn image(image: &Image) -> Self {
        let diff_ids = match image.digest {
            // The digest of the manifest covers all layers.
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

    /// A wheel, by its file name and SHA-256.
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
    /// The path in the image.
    pub path: String,
    pub bytes: u64,
    pub sha256: String,
    // The permission bits in the notation of chmod(1). JSON has no octal numbers, so mode 755 would read 493.
    pub mode: String,
    pub from: ContentOrigin,
    /// The path in the source, with links resolved.
    pub was: String,
    pub because: String,
}

/// A small written file, or a link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct WrittenEntry {
    /// The path in the image.
    pub path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// The hexadecimal SHA-256 of a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    pub because: String,
}

/// A removed file or link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct DroppedFile {
    pub path: String,
    /// Its size in bytes; 0 for a link.
    pub bytes: u64,
    /// The layer that contained it, counted from 0 at the bottom.
    pub layer: usize,
    pub kind: String,
    pub because: String,
}

/// A config variable with a new value.
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
    /// The file with the same bytes.
    pub to: String,
    pub bytes: u64,
}

impl SlimProvenance {
    pub(crate) fn text(&self) -> String {
        let text = serde_json::to_string_pretty(self).unwrap_or_default();
        text + "\n"
    }
}
