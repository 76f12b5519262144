//! Archives read in one pass. Members come in any order, and `manifest.json` may be last.
//!
//! Possible layers are indexed as they arrive, and possible documents are kept. Which of them form the image is known
//! only at the end.

use std::io::{Cursor, Read};

use super::catalog::MemberCatalog;
use super::decompressed_archive::DecompressedArchive;
use super::documents::{DocumentStore, OpenedDocument, digest_of_name, missing_member, name_member};
use super::image_choice::{choose_image, list_archive_platforms};
use super::members::{ArchiveMembers, MemberKind, SkipStream};
use super::wanted_image::{WantedImage, sparse_reason};
use crate::image::LayerDescriptor;
use crate::image_budget::ImageBudget;
use crate::image_error::ImageError;
use crate::platform::Platform;
use crate::source::{OpenRequest, OpenedImage, OpenedLayers, ProgressReader};
use image_linkage::digest::Digest;
use image_linkage::layer::Compression;
use image_linkage::layer::{self, ExpectedBlob, LayerError, LayerIndex, is_tar};
use image_linkage::limits::Limits;
use image_linkage::path::RootPath;

/// The bytes examined to recognize a member: one tar header.
const PEEK: u64 = 512;

/// The content of a passed member.
enum MemberContent {
    Document(Vec<u8>),
    Layer(Box<Result<LayerIndex, LayerError>>),
    Sparse,
}

/// The kept parts of the stream.
type PassedMembers = MemberCatalog<MemberContent>;

/// Reads an archive from `reader` to its end and returns the wanted image with indexed layers. Errors call it `what`.
///
/// Errors: [`ImageError::Io`] if the stream breaks off or is truncated, [`ImageError::Layer`] if a layer of the image
/// is damaged, otherwise problems of the archive. Damage in unused members is ignored.
pub fn open_stream(
    what: &str,
    reader: impl Read + Send,
    wanted: &WantedImage<'_>,
    request: &OpenRequest<'_>,
) -> Result<OpenedImage, ImageError> {
    let mut passed = pass_whole(what, reader, request)?;
    let mut chosen = choose_image(&passed, wanted, request)?;
    let indexes = collect(&mut passed, &chosen.members, &mut chosen.image.layers)?;
    if let Some(cache) = request.cache {
        for index in &indexes {
            cache.keep(index);
        }
    }
    Ok(OpenedImage {
        image: chosen.image,
        documents: chosen.documents,
        layers: OpenedLayers::Indexed(indexes),
        home: None,
    })
}

/// Reads an archive from `reader` to its end and returns the platforms of the wanted image.
pub(crate) fn list_stream_platforms(
    what: &str,
    reader: impl Read + Send,
    wanted: &WantedImage<'_>,
    request: &OpenRequest<'_>,
) -> Result<Vec<Platform>, ImageError> {
    list_archive_platforms(&pass_whole(what, reader, request)?, wanted, request)
}

fn pass_whole(what: &str, reader: impl Read + Send, request: &OpenRequest<'_>) -> Result<PassedMembers, ImageError> {
    let plain = DecompressedArchive::new(reader, request.limits());
    let stream = SkipStream::new(plain, request.limits().layer_bytes);
    let mut members = ArchiveMembers::new(what, stream, request.limits());
    let passed = pass(what, &mut members, request)?;
    // Read the bytes behind the end markers, too: otherwise `docker save` reports a broken pipe.
    let drained = members.into_inner().drain();
    drained.map_err(ImageError::io(what))?;
    Ok(passed)
}

/// Reads all members and keeps those that may be needed.
fn pass<R: Read + Send>(
    what: &str,
    members: &mut ArchiveMembers<SkipStream<R>>,
    request: &OpenRequest<'_>,
) -> Result<PassedMembers, ImageError> {
    let limits = request.limits();
    let mut passed = PassedMembers::new(what, limits.links);
    let (mut layers, mut kept) = (0, 0_u64);
    let budget = ImageBudget::new(limits, None);
    while let Some(member) = members.next()? {
        match member.kind {
            MemberKind::Link(target) => passed.link(member.name, target),
            MemberKind::Sparse => passed.store(member.name, MemberContent::Sparse),
            MemberKind::Other => {}
            MemberKind::File => {
                let mut start = peek(what, members)?;
                if is_document(&start, member.size, limits) {
                    // Documents stay in memory until the end. Many small ones could exhaust it.
                    kept += member.size;
                    if kept > limits.kept_total {
                        return Err(ImageError::TooLarge {
                            what: format!("all documents of {what} together"),
                            limit: limits.kept_total,
                        });
                    }
                    read_on(what, &mut *members, &mut start)?;
                    passed.store(member.name, MemberContent::Document(start));
                } else if may_be_layer(&member.name, &start) {
                    // Count every layer: manifest.json, which tells the used ones, may come last.
                    if layers == limits.layers {
                        return Err(too_many_layers(what, limits.layers));
                    }
                    let blob = Cursor::new(start).chain(&mut *members);
                    // Keep a failed index, too: damage in an unused layer is not an error.
                    let index = index(&member.name, blob, member.size, layers, request, &budget);
                    if let Ok(index) = &index {
                        budget.count(what, index)?;
                    }
                    passed.store(member.name, MemberContent::Layer(Box::new(index)));
                    layers += 1;
                }
            }
        }
    }
    Ok(passed)
}

fn too_many_layers(what: &str, limit: usize) -> ImageError {
    ImageError::not_an_image(
        what,
        format!("it holds more layers than the limit of {limit} (layers); save fewer images at once"),
    )
}

/// Indexes a member as a layer.
fn index(
    name: &RootPath,
    blob: impl Read + Send,
    bytes: u64,
    number: usize,
    request: &OpenRequest<'_>,
    budget: &ImageBudget<'_>,
) -> Result<LayerIndex, LayerError> {
    // Only a blob's name tells the expected digest. Diff IDs are compared at the end.
    let stated = digest_of_name(name);
    let expected = ExpectedBlob {
        digest: stated.as_ref(),
        size: Some(bytes),
        diff_id: None,
    };
    request.progress.start(number, Some(bytes));
    let blob = ProgressReader {
        inner: blob,
        number,
        progress: request.progress,
    };
    let shown = image_linkage::escape::escape_bytes(name.as_bytes());
    let index = layer::index_layer(&shown, blob, &expected, &budget.next_options(request.index));
    request.progress.finish(number);
    index
}

/// The first bytes of the current member.
fn peek(what: &str, members: &mut impl Read) -> Result<Vec<u8>, ImageError> {
    let mut start = Vec::new();
    read_on(what, members.take(PEEK), &mut start)?;
    Ok(start)
}

fn read_on(what: &str, mut reader: impl Read, bytes: &mut Vec<u8>) -> Result<(), ImageError> {
    let read = reader.read_to_end(bytes);
    read.map(drop).map_err(ImageError::io(what))
}

/// Whether a member is a JSON document within the size limit, and not a tar whose first name looks like one.
fn is_document(start: &[u8], bytes: u64, limits: &Limits) -> bool {
    let first = start.iter().find(|byte| !byte.is_ascii_whitespace());
    // Decide by content: configs are named `HEX.json`, `sha256:HEX` or `blobs/sha256/HEX`.
    matches!(first, Some(b'{' | b'[')) && bytes <= limits.document && !is_tar(start)
}

/// Whether a member may be a layer, by its path or its first bytes.
fn may_be_layer(name: &RootPath, start: &[u8]) -> bool {
    // Check the path first: a layer that is damaged at its start must be reported, not skipped.
    name.as_bytes().starts_with(b"blobs/")
        || name.as_bytes().ends_with(b".tar")
        || Compression::of(start) != Compression::None
        || is_tar(start)
}

/// Takes the indexes of the image's layers and compares them with manifest and config.
fn collect(
    passed: &mut PassedMembers,
    names: &[RootPath],
    layers: &mut [LayerDescriptor],
) -> Result<Vec<LayerIndex>, ImageError> {
    // Resolve all names before taking the first index: two names may lead to the same layer.
    let mut stored = Vec::with_capacity(names.len());
    for name in names {
        let found = passed.follow(name)?;
        stored.push(found.ok_or_else(|| missing_member(passed.what(), name))?.clone());
    }
    let mut indexes: Vec<LayerIndex> = Vec::with_capacity(names.len());
    for (at, (name, layer)) in stored.iter().zip(layers).enumerate() {
        // An image may contain the same layer twice.
        let earlier = stored.iter().take(at).position(|other| other == name);
        let index = match earlier.and_then(|earlier| indexes.get(earlier)) {
            Some(index) => index.clone(),
            None => take(passed, name)?,
        };
        compare(&name_member(passed, name), layer, &index)?;
        layer.size = Some(index.compressed_bytes);
        indexes.push(index);
    }
    Ok(indexes)
}

fn take(passed: &mut PassedMembers, name: &RootPath) -> Result<LayerIndex, ImageError> {
    let layer_error = |reason: String| {
        let layer = image_linkage::escape::escape_bytes(name.as_bytes());
        ImageError::Layer(LayerError { layer, reason })
    };
    match passed.take(name) {
        Some(MemberContent::Layer(index)) => Ok((*index)?),
        Some(MemberContent::Document(_)) => Err(layer_error("it is a JSON document and no tar archive".to_owned())),
        Some(MemberContent::Sparse) => Err(layer_error(sparse_reason(name))),
        None => Err(missing_member(passed.what(), name)),
    }
}

/// Compares an index with its descriptor.
fn compare(what: &str, layer: &LayerDescriptor, index: &LayerIndex) -> Result<(), ImageError> {
    // Compare the size first: for a truncated layer it says more than different digests.
    if let Some(expected) = layer.size.filter(|&size| size != index.compressed_bytes) {
        return Err(ImageError::Size {
            what: what.to_owned(),
            expected,
            found: index.compressed_bytes,
        });
    }
    same_digest(what, layer.digest.as_ref(), &index.digest)?;
    same_digest(&format!("{what}, uncompressed"), layer.diff_id.as_ref(), &index.diff_id)
}

fn same_digest(what: &str, expected: Option<&Digest>, found: &Digest) -> Result<(), ImageError> {
    match expected {
        // Docker before 25 has no blob digests. Then only the diff ID is compared.
        Some(expected) if expected != found => Err(ImageError::Digest {
            what: what.to_owned(),
            expected: expected.clone(),
            found: found.to_string(),
        }),
        _ => Ok(()),
    }
}

impl DocumentStore for PassedMembers {
    fn what(&self) -> &str {
        MemberCatalog::what(self)
    }

    fn open(&self, name: &RootPath) -> Result<Option<OpenedDocument<'_>>, ImageError> {
        let reason = match self.get(name)? {
            None => return Ok(None),
            Some(MemberContent::Document(bytes)) => {
                return Ok(Some((Box::new(&**bytes), bytes.len() as u64)));
            }
            Some(MemberContent::Layer(_)) => {
                "it is not a JSON document within the limit of bytes (document)".to_owned()
            }
            Some(MemberContent::Sparse) => sparse_reason(name),
        };
        Err(ImageError::not_an_image(name_member(self, name), reason))
    }
}
