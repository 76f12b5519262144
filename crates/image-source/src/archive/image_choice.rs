//! Chooses an image from the documents of an archive or layout, in either format.

use super::documents::{self, DocumentStore};
use super::wanted_image::{ChosenImage, PreferredDocument, WantedImage};
use super::{docker_manifest, oci_index};
use crate::image_error::ImageError;
use crate::platform::Platform;
use crate::source::OpenRequest;
use crate::source_kind::SourceKind;

/// The documents that describe an archive's images.
enum ArchiveFormat {
    /// The content of `manifest.json`.
    Docker(Vec<u8>),
    /// An OCI layout with `oci-layout` and `index.json`.
    Oci,
}

/// Errors: [`ImageError::NotAnImage`] if no document defines the layers and their order.
fn archive_format(
    documents: &dyn DocumentStore,
    wanted: &WantedImage<'_>,
    request: &OpenRequest<'_>,
) -> Result<ArchiveFormat, ImageError> {
    let limit = request.limits().document;
    let manifest = documents::find_document(documents, &"manifest.json".into(), None, None, limit)?;
    let layout = documents::find_document(documents, &"oci-layout".into(), None, None, limit)?.is_some();
    match manifest {
        // Docker 25 writes both. `docker load` reads manifest.json, skopeo's oci-archive reads the index; the user's
        // scheme decides.
        Some(manifest) if !layout || wanted.first == PreferredDocument::DockerManifest => {
            Ok(ArchiveFormat::Docker(manifest))
        }
        _ if layout => Ok(ArchiveFormat::Oci),
        // The layer order is never guessed from names or positions: another order is another image.
        _ => Err(ImageError::not_an_image(
            documents.what(),
            "it has neither a manifest.json nor an index.json, so the layer order is unknown; \
            what docker export writes is read as rootfs-archive:FILE, in a pipe as rootfs-archive:/dev/stdin",
        )),
    }
}

/// Reads the wanted image from the documents of an archive.
///
/// Errors: As [`archive_format`] and the two formats.
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

/// The platforms of the wanted image.
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

/// Reads the wanted image from an OCI layout directory.
///
/// Errors: Those of the format.
pub(crate) fn choose_layout_image(
    documents: &dyn DocumentStore,
    kind: SourceKind,
    wanted: &WantedImage<'_>,
    request: &OpenRequest<'_>,
) -> Result<ChosenImage, ImageError> {
    oci_index::choose_indexed_image(documents, kind, wanted, request)
}

/// The platforms of the wanted image in an OCI layout directory.
///
/// Errors: Those of the format.
pub(crate) fn list_layout_platforms(
    documents: &dyn DocumentStore,
    wanted: &WantedImage<'_>,
    request: &OpenRequest<'_>,
) -> Result<Vec<Platform>, ImageError> {
    oci_index::list_indexed_platforms(documents, wanted, request)
}
