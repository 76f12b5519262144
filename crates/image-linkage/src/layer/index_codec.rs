//! The index of a layer as bytes, for who keeps it: what the uncompressed tar says, not how the blob is stored.
//!
//! Frames follow each other, each with its length in front: the head, then folders with a thousand entries together, and
//! an empty frame at the end. Neither way is the whole ever held beside the index.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize};
use serde_bytes::Bytes;

use super::file_facts::{KeptFiles, PlainFile, plain_file};
use super::index::{LayerEntry, LayerIndex, LayerProblem};
use super::layer_entries::LayerEntries;
use crate::digest::Digest;
use crate::path::RootPath;

/// The entries of one frame, at least, where there are more behind it; of one folder in it, at most.
const FRAME_ENTRIES: usize = 1024;

/// Diff id, bytes, whiteouts, opaque directories, problems.
type LayerHead = (Digest, u64, BTreeSet<RootPath>, BTreeSet<RootPath>, Vec<LayerProblem>);

/// An entry as it is written: most are files without content, which take no more than is known of them.
#[derive(Serialize, Deserialize)]
enum StoredEntry<E> {
    Plain(PlainFile),
    Other(E),
}

/// Folders by path, each with its entries, or a part of them, by name.
type StoredFolders<'f, P, E> = Vec<(P, Vec<(&'f Bytes, StoredEntry<E>)>)>;

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
    let mut frame: StoredFolders<&RootPath, &LayerEntry> = Vec::new();
    let mut entries = 0;
    for (folder, names) in index.entries.folders() {
        let stored = |entry| plain_file(entry).map_or(StoredEntry::Other(entry), StoredEntry::Plain);
        let names = names.iter().map(|(name, entry)| (Bytes::new(name), stored(entry)));
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

/// Reads what [`write_index`] has written, as the index of a blob that is not compressed.
///
/// Errors: What `from` gives, and bytes that are no index; none make it panic.
pub fn read_index(from: &mut impl Read) -> io::Result<LayerIndex> {
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
            let mut entry = |stored| match stored {
                StoredEntry::Plain(plain) => alike.plain(plain),
                StoredEntry::Other(entry) => entry,
            };
            let names = names.into_iter().map(|(name, stored)| (&**name, entry(stored)));
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

fn write_frame(frame: &impl Serialize, to: &mut impl Write) -> io::Result<()> {
    let bytes = postcard::to_stdvec(frame).map_err(io::Error::other)?;
    let length = u32::try_from(bytes.len()).map_err(io::Error::other)?;
    to.write_all(&length.to_le_bytes())?;
    to.write_all(&bytes)
}

fn read_frame(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    // No room is made for what the length only promises.
    let mut bytes = Vec::new();
    from.take(u32::from_le_bytes(length).into()).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn decode<'f, T: Deserialize<'f>>(frame: &'f [u8]) -> io::Result<T> {
    postcard::from_bytes(frame).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}
