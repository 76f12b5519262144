//! The index of a layer as bytes, for who keeps it: what the uncompressed tar says, not how the blob is stored.
//!
//! Frames follow each other, each with its length in front: the head, then entries by the thousand, and an empty frame
//! at the end. Neither way is the whole ever held beside the index.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::index::{LayerEntry, LayerIndex, LayerProblem};
use crate::digest::Digest;
use crate::path::RootPath;

/// The entries of one frame.
const FRAME_ENTRIES: usize = 1024;

/// Diff id, bytes, whiteouts, opaque directories, problems.
type LayerHead = (Digest, u64, BTreeSet<RootPath>, BTreeSet<RootPath>, Vec<LayerProblem>);

/// Writes what the tar of a layer says.
///
/// Errors: What `to` gives.
pub fn write_index(index: &LayerIndex, to: &mut impl Write) -> io::Result<()> {
    let LayerIndex {
        diff_id,
        bytes,
        whiteouts,
        opaque,
        problems,
        ..
    } = index;
    write_frame(&(diff_id, bytes, whiteouts, opaque, problems), to)?;
    let mut entries = index.entries.iter();
    loop {
        let frame: Vec<_> = entries.by_ref().take(FRAME_ENTRIES).collect();
        write_frame(&frame, to)?;
        if frame.is_empty() {
            return Ok(());
        }
    }
}

/// Reads what [`write_index`] has written, as the index of a blob that is not compressed.
///
/// Errors: What `from` gives, and bytes that are no index; none make it panic.
pub fn read_index(from: &mut impl Read) -> io::Result<LayerIndex> {
    let (diff_id, bytes, whiteouts, opaque, problems): LayerHead = read_frame(from)?;
    let mut entries: Vec<(RootPath, LayerEntry)> = Vec::new();
    loop {
        let frame: Vec<_> = read_frame(from)?;
        if frame.is_empty() {
            break;
        }
        entries.extend(frame);
    }
    Ok(LayerIndex {
        digest: diff_id.clone(),
        compressed_bytes: bytes,
        diff_id,
        bytes,
        entries: entries.into_iter().collect(),
        whiteouts,
        opaque,
        problems,
    })
}

fn write_frame(frame: &impl Serialize, to: &mut impl Write) -> io::Result<()> {
    let bytes = postcard::to_stdvec(frame).map_err(io::Error::other)?;
    let length = u32::try_from(bytes.len()).map_err(io::Error::other)?;
    to.write_all(&length.to_le_bytes())?;
    to.write_all(&bytes)
}

fn read_frame<T: DeserializeOwned>(from: &mut impl Read) -> io::Result<T> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    // No room is made for what the length only promises.
    let mut bytes = Vec::new();
    from.take(u32::from_le_bytes(length).into()).read_to_end(&mut bytes)?;
    postcard::from_bytes(&bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}
