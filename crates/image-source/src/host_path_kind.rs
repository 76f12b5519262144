//! Detects the kind of a host path by its content.
#![expect(clippy::disallowed_methods, reason = "the command line names paths of the host")]

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{Read as _, Seek};
use std::path::Path;

use crate::archive::{ArchiveMembers, DecompressedArchive, SeekFile, SkipRead, SkipStream, is_compressed};
use crate::foreign_file::{START, describe_foreign_file};
use crate::image_error::ImageError;
use crate::reference::PathKind;
use crate::sif_file::is_sif;
use image_linkage::limits::Limits;

/// The kind of `path`; `None` if it does not exist. An unreadable file is [`PathKind::Other`].
///
/// In a compressed archive, skipping a layer requires decompressing it, so the first blob decides. An archive with both
/// documents and one with only `index.json` are opened by the same code.
pub fn path_kind(path: &str) -> Option<PathKind> {
    let metadata = fs::metadata(path).ok()?;
    if metadata.is_dir() {
        // Do not follow a link, which could lead out of the directory. A real layout has a file.
        let layout = Path::new(path).join("oci-layout");
        return Some(match fs::symlink_metadata(layout) {
            Ok(file) if file.is_file() => PathKind::OciLayout,
            _ => PathKind::Folder,
        });
    }
    if !metadata.is_file() {
        // Reading a pipe would consume its bytes.
        return Some(PathKind::Other(None));
    }
    if metadata.len() == 0 {
        return Some(PathKind::Empty);
    }
    let archive = archive_kind(path, metadata.len()).filter(|kind| *kind != PathKind::Other(None));
    Some(archive.unwrap_or_else(|| plain_kind(path)))
}

/// The kind of a file that is no archive.
fn plain_kind(path: &str) -> PathKind {
    let mut start = Vec::new();
    let read = File::open(path).and_then(|file| file.take(START).read_to_end(&mut start));
    let words = read.ok().and_then(|_| describe_foreign_file(&start));
    PathKind::Other(words)
}

fn archive_kind(path: &str, bytes: u64) -> Option<PathKind> {
    let limits = Limits::default();
    let mut file = File::open(path).ok()?;
    if is_sif(&mut file) {
        return Some(PathKind::Sif);
    }
    file.rewind().ok()?;
    let compressed = is_compressed(&mut file).ok()?;
    file.rewind().ok()?;
    if compressed {
        // The limits for opening an archive also apply here: listing its names requires decompressing it.
        let stream = SkipStream::new(DecompressedArchive::new(file, &limits), limits.layer_bytes);
        told_by_members(ArchiveMembers::new(path, stream, &limits), DecidingMember::FirstBlob).ok()
    } else {
        told_by_members(
            ArchiveMembers::new(path, SeekFile::new(file, bytes), &limits),
            DecidingMember::Document,
        )
        .ok()
    }
}

/// Top-level directories of a root file system (hier(7)).
const ROOT_FOLDERS: [&str; 8] = ["bin", "etc", "lib", "opt", "root", "sbin", "usr", "var"];

/// Which member suffices to decide.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DecidingMember {
    Document,
    FirstBlob,
}

/// Reads members until one decides. If both documents exist, Docker wrote the archive, and its `manifest.json` may
/// follow `oci-layout`.
fn told_by_members<R: SkipRead>(mut members: ArchiveMembers<R>, at: DecidingMember) -> Result<PathKind, ImageError> {
    let mut kind = PathKind::Other(None);
    let mut folders: BTreeSet<&str> = BTreeSet::new();
    let mut has_blob = false;
    loop {
        let member = members.next();
        has_blob |= matches!(&member, Ok(Some(member)) if is_blob(member.name.as_bytes()));
        match member {
            Ok(Some(member)) => match member.name.as_bytes() {
                // Later members do not change the result.
                b"manifest.json" => return Ok(PathKind::DockerArchive),
                b"oci-layout" => kind = PathKind::OciArchive,
                name if at == DecidingMember::FirstBlob && kind == PathKind::Other(None) && is_blob(name) => {
                    return Ok(PathKind::DockerArchive);
                }
                name if kind == PathKind::Other(None) => {
                    let first = name.split(|&byte| byte == b'/').next();
                    folders.extend(ROOT_FOLDERS.iter().find(|folder| first == Some(folder.as_bytes())));
                    // No image archive has several of them, and searching on would read all of it.
                    if folders.len() >= 3 {
                        return Ok(PathKind::RootfsArchive);
                    }
                }
                _ => {}
            },
            Ok(None) => return Ok(kind),
            // Truncated: opening it reports where.
            Err(_) if kind != PathKind::Other(None) => return Ok(kind),
            Err(ImageError::Io { .. }) if has_blob => return Ok(PathKind::DockerArchive),
            Err(error) => return Err(error),
        }
    }
}

/// Whether a member's name is that of a layer, also as skopeo names it.
fn is_blob(name: &[u8]) -> bool {
    let stem = name.strip_suffix(b".tar").unwrap_or_default();
    let is_digest = stem.len() == 64 && stem.iter().all(u8::is_ascii_hexdigit);
    is_digest || name.starts_with(b"blobs/sha256/") || name.ends_with(b"/layer.tar")
}
