//! Tar archives that hold an image: what `docker save`, `podman save`, skopeo and `docker buildx` write.
//!
//! A file is scanned once for what it holds and its layers are opened where they lie; what cannot be read
//! twice (standard input, an engine's answer, a compressed archive) is read in one pass, and its layers are
//! indexed while they flow by. In both cases the same code chooses the image, from the documents by name.

mod catalog;
mod decompressed_archive;
mod docker_manifest;
mod documents;
mod members;
mod oci_index;
mod passed_archive;
mod scanned_archive;

pub use decompressed_archive::{DecompressedArchive, is_compressed};
pub(crate) use documents::{DocumentStore, OpenedDocument, missing_member};
pub(crate) use members::{ArchiveMembers, MemberKind, SeekFile, SkipRead, SkipStream};
pub(crate) use passed_archive::list_stream_platforms;
pub use passed_archive::open_stream;
pub(crate) use scanned_archive::{list_file_platforms, open_file, open_reopenable_file};

use super::{Image, ImageError, OpenRequest, Platform, RegistryReference, SourceKind};

use image_linkage::path::RootPath;

/// Which image of an archive is asked for, and by whom.
#[derive(Debug, Clone, Copy)]
pub struct WantedImage<'a> {
    /// The reference as the user wrote it, for errors and reports.
    pub reference: &'a str,
    /// The name, tag, digest or id of the image; needed only when there are several.
    pub name: Option<&'a str>,
    /// The kind of source that is reported for an image found through `manifest.json`.
    pub docker: SourceKind,
    /// Which of the two documents is believed first where an archive has both.
    pub first: PreferredDocument,
}

/// The document that says which images there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PreferredDocument {
    /// `manifest.json`, as `docker load` reads.
    DockerManifest,
    /// `index.json`, as the image-spec says.
    OciIndex,
}

impl WantedImage<'_> {
    fn ambiguous<'a>(&self, there: impl Iterator<Item = &'a str>) -> ImageError {
        ImageError::Reference {
            reference: self.reference.to_owned(),
            reason: format!("it holds several images, name one of {}", listed(there)),
        }
    }
}

/// The error for a name that no image of the archive has.
fn not_found<'a>(what: &str, name: &str, there: impl Iterator<Item = &'a str>) -> ImageError {
    let there = listed(there);
    ImageError::NotFound(format!("{what} has no image {name:?}; it has {there}"))
}

/// At most twenty names, escaped.
fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut names: Vec<String> = names
        .map(|name| image_linkage::escape::escape_bytes(name.as_bytes()))
        .collect();
    let more = names.len().saturating_sub(20);
    names.truncate(20);
    if more > 0 {
        names.push(format!("{more} more"));
    }
    if names.is_empty() {
        return "none with a name".to_owned();
    }
    names.join(", ")
}

/// An image and the member that holds each of its layers.
pub(crate) struct ChosenImage {
    /// The image.
    pub image: Image,
    /// The documents that describe it.
    pub documents: crate::ImageDocuments,
    /// One member per layer, in the same order.
    pub members: Vec<RootPath>,
}

/// Which documents of an archive say what images it holds.
enum ArchiveFormat {
    /// The bytes of `manifest.json`.
    Docker(Vec<u8>),
    /// `oci-layout` and `index.json`.
    Oci,
}

/// Errors: [`ImageError::NotAnImage`] when nothing says which layers an image has and in which order.
fn archive_format(
    documents: &dyn DocumentStore,
    wanted: &WantedImage<'_>,
    request: &OpenRequest<'_>,
) -> Result<ArchiveFormat, ImageError> {
    let find = |name: &str| {
        documents::find_document(
            documents,
            &name.into(),
            None,
            None,
            request.limits().document,
        )
    };
    let manifest = find("manifest.json")?;
    let layout = find("oci-layout")?.is_some();
    match manifest {
        Some(manifest) if !layout || wanted.first == PreferredDocument::DockerManifest => {
            Ok(ArchiveFormat::Docker(manifest))
        }
        _ if layout => Ok(ArchiveFormat::Oci),
        _ => Err(ImageError::NotAnImage {
            what: documents.what().to_owned(),
            reason:
                "it has neither a manifest.json nor an index.json, so the layer order is unknown"
                    .to_owned(),
        }),
    }
}

/// Reads the image that `wanted` names, from whichever documents the archive has.
///
/// Errors: As [`archive_format`] and as the two formats say.
fn choose_image(
    documents: &dyn DocumentStore,
    wanted: &WantedImage<'_>,
    request: &OpenRequest<'_>,
) -> Result<ChosenImage, ImageError> {
    match archive_format(documents, wanted, request)? {
        ArchiveFormat::Docker(manifest) => {
            docker_manifest::choose_saved_image(documents, &manifest, wanted, request)
        }
        ArchiveFormat::Oci => {
            oci_index::choose_indexed_image(documents, SourceKind::OciArchive, wanted, request)
        }
    }
}

/// The platforms of the image that `wanted` names.
///
/// Errors: As [`choose_image`].
fn list_archive_platforms(
    documents: &dyn DocumentStore,
    wanted: &WantedImage<'_>,
    request: &OpenRequest<'_>,
) -> Result<Vec<Platform>, ImageError> {
    match archive_format(documents, wanted, request)? {
        ArchiveFormat::Docker(manifest) => {
            docker_manifest::list_saved_platforms(documents, &manifest, wanted, request)
        }
        ArchiveFormat::Oci => oci_index::list_indexed_platforms(documents, wanted, request),
    }
}

/// Reads the image that `wanted` names from an OCI layout that is no archive.
///
/// Errors: As the format says.
pub(crate) fn choose_layout_image(
    documents: &dyn DocumentStore,
    wanted: &WantedImage<'_>,
    request: &OpenRequest<'_>,
) -> Result<ChosenImage, ImageError> {
    oci_index::choose_indexed_image(documents, SourceKind::Oci, wanted, request)
}

/// The platforms of the image that `wanted` names in an OCI layout that is no archive.
///
/// Errors: As the format says.
pub(crate) fn list_layout_platforms(
    documents: &dyn DocumentStore,
    wanted: &WantedImage<'_>,
    request: &OpenRequest<'_>,
) -> Result<Vec<Platform>, ImageError> {
    oci_index::list_indexed_platforms(documents, wanted, request)
}

/// Why a sparse member cannot be read.
fn sparse_reason(name: &RootPath) -> String {
    format!(
        "its member {} is stored as a sparse file; pack the archive without --sparse",
        image_linkage::escape::escape_bytes(name.as_bytes())
    )
}

/// Whether two names mean one image, once Docker Hub's defaults are filled in.
fn same_name(one: &str, other: &str) -> bool {
    let whole = |name: &str| {
        name.parse::<RegistryReference>()
            .map(|reference| reference.to_string())
    };
    one == other
        || match (whole(one), whole(other)) {
            (Ok(one), Ok(other)) => one == other,
            _ => false,
        }
}

#[cfg(test)]
mod tests {
    use super::{listed, same_name};

    #[test]
    fn names_are_compared_with_docker_hubs_defaults() {
        for (one, other, same) in [
            ("ubuntu", "docker.io/library/ubuntu:latest", true),
            ("app:1", "docker.io/library/app:1", true),
            ("localhost/app:1", "app:1", false),
            ("app:1", "app:2", false),
            ("<none>:<none>", "<none>:<none>", true),
            ("<none>", "app", false),
        ] {
            assert_eq!(same_name(one, other), same, "{one} {other}");
            assert_eq!(same_name(other, one), same, "{other} {one}");
        }
    }

    #[test]
    fn long_lists_are_cut_and_names_are_escaped() {
        assert_eq!(listed(["a", "b\x1b"].into_iter()), "a, b\\x1b");
        assert_eq!(listed(std::iter::empty()), "none with a name");
        let many = vec!["x"; 25];
        assert!(listed(many.into_iter()).ends_with("x, 5 more"));
    }
}
