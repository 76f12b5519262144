//! Serializes a layer index for storage. Covers the uncompressed tar, not how its blob is stored.
//!
//! The format is a sequence of frames with a length prefix: a head, folders with about a thousand entries each, and an
//! empty frame. Neither side holds the whole in memory beside the index.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize};
use serde_bytes::Bytes;

use super::file_facts::{KeptFiles, PlainFile, plain_file};
use super::index::{LayerEntry, LayerIndex, LayerProblem};
use super::layer_entries::LayerEntries;
use crate::digest::Digest;
use crate::path::RootPath;

/// The number of entries that completes a frame, and the maximum of one folder's entries in it.
const FRAME_ENTRIES: usize = 1024;

/// Diff id, bytes, whiteouts, opaque directories, problems.
type LayerHead = (Digest, u64, BTreeSet<RootPath>, BTreeSet<RootPath>, Vec<LayerProblem>);

/// An entry in serialized form. Most are files without kept content and store only four numbers.
#[derive(Serialize, Deserialize)]
enum StoredEntry<E> {
    Plain(PlainFile),
    Other(E),
}

/// Folders by path, each with its entries by name or a part of them.
type StoredFolders<'f, P, E> = Vec<(P, Vec<(&'f Bytes, StoredEntry<E>)>)>;

/// Writes the index of a layer.
///
/// Errors: Those of `to`.
pub fn write_index(index: &LayerIndex, to: &mut dyn Write) -> io::Result<()> {
    let LayerIndex {
        diff_id,
        bytes,
        whiteouts,
        opaque,
        problems,
        ..
    } = index;
    write_frame(&(diff_id, bytes, whiteouts, opaque, problems), to)?;
    let mut frame: StoredFolders<&RootPath, &LayerEntry> = Vec::new();
    let mut entries = 0;
    for (folder, names) in index.entries.folders() {
        let names = names.iter().map(|(name, entry)| {
            let stored = plain_file(entry).map_or(StoredEntry::Other(entry), StoredEntry::Plain);
            (Bytes::new(name), stored)
        });
        let mut names = names.peekable();
        while names.peek().is_some() {
            let part: Vec<_> = names.by_ref().take(FRAME_ENTRIES).collect();
            entries += part.len();
            frame.push((folder, part));
            if entries >= FRAME_ENTRIES {
                write_frame(&frame, to)?;
                frame.clear();
                entries = 0;
            }
        }
    }
    if !frame.is_empty() {
        write_frame(&frame, to)?;
        frame.clear();
    }
    write_frame(&frame, to)
}

/// Reads an index written by [`write_index`], as that of an uncompressed blob.
///
/// Errors: Those of `from`, and malformed bytes. Never panics.
pub fn read_index(from: &mut dyn Read) -> io::Result<LayerIndex> {
    let head = read_frame(from)?;
    let (diff_id, bytes, whiteouts, opaque, problems): LayerHead = decode(&head)?;
    let mut entries = LayerEntries::default();
    let mut alike = KeptFiles::default();
    loop {
        let frame = read_frame(from)?;
        let folders: StoredFolders<RootPath, LayerEntry> = decode(&frame)?;
        if folders.is_empty() {
            break;
        }
        for (folder, names) in folders {
            let names = names.into_iter().map(|(name, stored)| match stored {
                StoredEntry::Plain(plain) => (&**name, alike.plain(plain)),
                StoredEntry::Other(entry) => (&**name, entry),
            });
            entries.extend(folder, names);
        }
    }
    Ok(LayerIndex {
        digest: diff_id.clone(),
        compressed_bytes: bytes,
        diff_id,
        bytes,
        entries,
        whiteouts,
        opaque,
        problems,
    })
}

fn write_frame(frame: &impl Serialize, to: &mut dyn Write) -> io::Result<()> {
    let bytes = postcard::to_stdvec(frame).map_err(io::Error::other)?;
    let length = u32::try_from(bytes.len()).map_err(io::Error::other)?;
    to.write_all(&length.to_le_bytes())?;
    to.write_all(&bytes)
}

fn read_frame(from: &mut dyn Read) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    // Do not reserve memory based on an unverified length.
    let mut bytes = Vec::new();
    from.take(u32::from_le_bytes(length).into()).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn decode<'f, T: Deserialize<'f>>(frame: &'f [u8]) -> io::Result<T> {
    postcard::from_bytes(frame).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}
