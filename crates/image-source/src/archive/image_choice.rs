//! From the documents of an archive or a layout to one image, by whichever format says what it holds.

use super::documents::{self, DocumentStore};
use super::wanted_image::{ChosenImage, PreferredDocument, WantedImage};
use super::{docker_manifest, oci_index};
use crate::image_error::ImageError;
use crate::platform::Platform;
use crate::source::OpenRequest;
use crate::source_kind::SourceKind;

/// Which documents of an archive say what images it holds.
enum ArchiveFormat {
    /// The bytes of `manifest.json`.
    Docker(Vec<u8>),
    /// The layout of `oci-layout` and `index.json`.
    Oci,
}

/// Errors: [`ImageError::NotAnImage`] when nothing says which layers an image has and in which order.
fn archive_format(
    documents: &dyn DocumentStore,
    wanted: &WantedImage<'_>,
    request: &OpenRequest<'_>,
) -> Result<ArchiveFormat, ImageError> {
    let find = |name: &str| documents::find_document(documents, &name.into(), None, None, request.limits().document);
    let manifest = find("manifest.json")?;
    let layout = find("oci-layout")?.is_some();
    match manifest {
        // Docker 25 writes both documents. `docker load` reads manifest.json and skopeo's oci-archive reads the index,
        // and the user says which of them is meant.
        Some(manifest) if !layout || wanted.first == PreferredDocument::DockerManifest => {
            Ok(ArchiveFormat::Docker(manifest))
        }
        _ if layout => Ok(ArchiveFormat::Oci),
        // Layers applied in another order are another image, so their order is never guessed from names or places.
        _ => Err(ImageError::not_an_image(
            documents.what(),
            "it has neither a manifest.json nor an index.json, so the layer order is unknown",
        )),
    }
}

/// Reads the image that `wanted` names, from whichever documents the archive has.
///
/// Errors: As [`archive_format`] and as the two formats say.
pub(super) fn choose_image(
    documents: &dyn DocumentStore,
    wanted: &WantedImage<'_>,
    request: &OpenRequest<'_>,
) -> Result<ChosenImage, ImageError> {
    match archive_format(documents, wanted, request)? {
        ArchiveFormat::Docker(manifest) => docker_manifest::choose_saved_image(documents, &manifest, wanted, request),
        ArchiveFormat::Oci => oci_index::choose_indexed_image(documents, SourceKind::OciArchive, wanted, request),
    }
}

/// The platforms of the image that `wanted` names.
pub(super) fn list_archive_platforms(
    documents: &dyn DocumentStore,
    wanted: &WantedImage<'_>,
    request: &OpenRequest<'_>,
) -> Result<Vec<Platform>, ImageError> {
    match archive_format(documents, wanted, request)? {
        ArchiveFormat::Docker(manifest) => docker_manifest::list_saved_platforms(documents, &manifest, wanted, request),
        ArchiveFormat::Oci => oci_index::list_indexed_platforms(documents, wanted, request),
    }
}

/// Reads the image that `wanted` names from an OCI layout that is no archive.
///
/// Errors: As the format says.
pub(crate) fn choose_layout_image(
    documents: &dyn DocumentStore,
    kind: SourceKind,
    wanted: &WantedImage<'_>,
    request: &OpenRequest<'_>,
) -> Result<ChosenImage, ImageError> {
    oci_index::choose_indexed_image(documents, kind, wanted, request)
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
