//! Archives on disk: scanned once, then read in place.
#![expect(clippy::disallowed_methods, reason = "an image source reads the host")]

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Take};
use std::path::{Path, PathBuf};

use super::catalog::MemberCatalog;
use super::decompressed_archive::{DecompressedArchive, is_compressed};
use super::documents::{DocumentStore, OpenedDocument, missing_member, name_member};
use super::image_choice::{choose_image, list_archive_platforms};
use super::members::{ArchiveMembers, MemberKind, SeekFile};
use super::passed_archive;
use super::wanted_image::{WantedImage, sparse_reason};
use crate::image::LayerDescriptor;
use crate::image_error::ImageError;
use crate::platform::Platform;
use crate::source::{BlobStore, KeepFile, OpenRequest, OpenedImage, OpenedLayers};
use image_linkage::limits::Limits;
use image_linkage::path::RootPath;

/// The position of a member's content in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileRange {
    offset: u64,
    bytes: u64,
}

impl FileRange {
    fn open(self, path: &Path) -> io::Result<Take<File>> {
        // Open the file for each blob: threads that read layers must not share a position.
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(self.offset))?;
        Ok(file.take(self.bytes))
    }
}

/// An archive after reading all headers and no content.
struct ScannedArchive<'a> {
    path: &'a Path,
    /// `None` for a sparse file.
    catalog: MemberCatalog<Option<FileRange>>,
}

/// Opens the wanted image in the archive at `path`. A compressed or non-regular file is read in one pass.
///
/// Errors: [`ImageError::Io`] if the file is unreadable or truncated, otherwise problems of the archive.
pub(crate) fn open_file(
    path: &Path,
    wanted: &WantedImage<'_>,
    request: &OpenRequest<'_>,
) -> Result<OpenedImage, ImageError> {
    match find_archive(path, request.limits())? {
        StoredArchive::Stream(file) => passed_archive::open_stream(&path.display().to_string(), file, wanted, request),
        StoredArchive::Scanned(archive) => open_scanned(&archive, wanted, request),
    }
}

/// Opens the image so that its layers can be read repeatedly. A one-pass archive is stored decompressed with `keep`
/// first.
///
/// Errors: As [`open_file`], and those of `keep`.
pub(crate) fn open_reopenable_file(
    path: &Path,
    wanted: &WantedImage<'_>,
    request: &OpenRequest<'_>,
    keep: KeepFile<'_>,
) -> Result<OpenedImage, ImageError> {
    match find_archive(path, request.limits())? {
        StoredArchive::Stream(file) => {
            // Store it decompressed: otherwise it would still be a one-pass archive.
            let kept = keep(&mut DecompressedArchive::new(file, request.limits()))?;
            open_file(&kept, wanted, request)
        }
        StoredArchive::Scanned(archive) => open_scanned(&archive, wanted, request),
    }
}

/// The platforms of the wanted image in the archive at `path`.
pub(crate) fn list_file_platforms(
    path: &Path,
    wanted: &WantedImage<'_>,
    request: &OpenRequest<'_>,
) -> Result<Vec<Platform>, ImageError> {
    match find_archive(path, request.limits())? {
        StoredArchive::Stream(file) => {
            let what = path.display().to_string();
            passed_archive::list_stream_platforms(&what, file, wanted, request)
        }
        StoredArchive::Scanned(archive) => list_archive_platforms(&archive, wanted, request),
    }
}

/// The ways to read an archive on disk.
enum StoredArchive<'a> {
    /// Only once from its start: compressed or not a regular file.
    Stream(File),
    Scanned(ScannedArchive<'a>),
}

fn find_archive<'a>(path: &'a Path, limits: &Limits) -> Result<StoredArchive<'a>, ImageError> {
    let what = path.display().to_string();
    let io_error = ImageError::io(&what);
    let mut file = File::open(path).map_err(&io_error)?;
    let metadata = file.metadata().map_err(&io_error)?;
    if metadata.is_dir() {
        return Err(ImageError::not_an_image(
            what.as_str(),
            "it is a folder; name it as oci:DIR or rootfs:DIR",
        ));
    }
    // Peeking at a pipe would consume its bytes.
    if !metadata.is_file() {
        return Ok(StoredArchive::Stream(file));
    }
    let compressed = is_compressed(&mut file).map_err(&io_error)?;
    file.rewind().map_err(&io_error)?;
    if compressed {
        return Ok(StoredArchive::Stream(file));
    }
    let catalog = scan(&what, file, metadata.len(), limits)?;
    Ok(StoredArchive::Scanned(ScannedArchive { path, catalog }))
}

fn open_scanned(
    archive: &ScannedArchive<'_>,
    wanted: &WantedImage<'_>,
    request: &OpenRequest<'_>,
) -> Result<OpenedImage, ImageError> {
    let mut chosen = choose_image(archive, wanted, request)?;
    let ranges = chosen
        .members
        .iter()
        .zip(&mut chosen.image.layers)
        .map(|(member, layer)| locate(archive, member, layer))
        .collect::<Result<_, _>>()?;
    let blobs = FileBlobs {
        path: archive.path.to_owned(),
        layers: chosen.image.layers.clone(),
        ranges,
    };
    Ok(OpenedImage {
        image: chosen.image,
        documents: chosen.documents,
        layers: OpenedLayers::Blobs(Box::new(blobs)),
        home: None,
    })
}

fn scan(what: &str, file: File, bytes: u64, limits: &Limits) -> Result<MemberCatalog<Option<FileRange>>, ImageError> {
    let mut catalog = MemberCatalog::new(what, limits.links);
    let mut members = ArchiveMembers::new(what, SeekFile::new(file, bytes), limits);
    while let Some(member) = members.next()? {
        let range = FileRange {
            offset: member.offset,
            bytes: member.size,
        };
        match member.kind {
            MemberKind::File => catalog.store(member.name, Some(range)),
            MemberKind::Sparse => catalog.store(member.name, None),
            MemberKind::Link(target) => catalog.link(member.name, target),
            // Directories and devices have no use in an image archive.
            MemberKind::Other => {}
        }
    }
    Ok(catalog)
}

/// Finds a layer's bytes and sets its size. A foreign layer may be missing.
fn locate(
    archive: &ScannedArchive<'_>,
    name: &RootPath,
    layer: &mut LayerDescriptor,
) -> Result<Option<FileRange>, ImageError> {
    let range = match archive.catalog.get(name)? {
        // Non-distributable layers are omitted on save. Their absence matters only when they are read.
        None if layer.is_foreign() => return Ok(None),
        None => return Err(missing_member(archive.what(), name)),
        Some(range) => range.ok_or_else(|| sparse(archive, name))?,
    };
    match layer.size {
        Some(expected) if expected != range.bytes => Err(ImageError::Size {
            what: name_member(archive, name),
            expected,
            found: range.bytes,
        }),
        _ => {
            // Docker before 25 declares no sizes. The real size is used to verify the end and show progress.
            layer.size = Some(range.bytes);
            Ok(Some(range))
        }
    }
}

fn sparse(documents: &dyn DocumentStore, name: &RootPath) -> ImageError {
    ImageError::not_an_image(documents.what(), sparse_reason(name))
}

impl DocumentStore for ScannedArchive<'_> {
    fn what(&self) -> &str {
        self.catalog.what()
    }

    fn open(&self, name: &RootPath) -> Result<Option<OpenedDocument<'_>>, ImageError> {
        let Some(range) = self.catalog.get(name)? else {
            return Ok(None);
        };
        let range = range.ok_or_else(|| sparse(self, name))?;
        let reader = range.open(self.path).map_err(ImageError::io(name_member(self, name)))?;
        Ok(Some((Box::new(reader), range.bytes)))
    }
}

/// The layers of an image in an archive on disk.
struct FileBlobs {
    path: PathBuf,
    layers: Vec<LayerDescriptor>,
    /// One range per layer; `None` for an omitted foreign layer.
    ranges: Vec<Option<FileRange>>,
}

impl BlobStore for FileBlobs {
    fn open(&self, layer: &LayerDescriptor) -> Result<Box<dyn Read + Send>, ImageError> {
        let what = self.path.display().to_string();
        // Equal descriptors have the same diff ID, so the first one has the right bytes for all.
        let position = self.layers.iter().position(|known| known == layer);
        let range = position.and_then(|at| self.ranges.get(at).copied().flatten());
        let Some(range) = range else {
            return Err(ImageError::NotFound(format!(
                "{what} does not hold the foreign layer {}; ask the registry for the image",
                layer.digest.as_ref().map_or("without digest", AsRef::as_ref)
            )));
        };
        let reader = range.open(&self.path).map_err(ImageError::io(what))?;
        Ok(Box::new(reader))
    }

    fn find(&self, layer: &LayerDescriptor) -> Result<(), ImageError> {
        self.open(layer).map(drop)
    }
}
