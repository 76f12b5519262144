//! The members of a layer's tar in order, each with its resolved path in the layer.
//!
//! Used to rewrite a layer or to extract files. `tar_walk` builds the index.

use std::io::{BufReader, Read};

use super::changeset::Changeset;
use super::index::LayerEntry;
use super::tar_headers::{TarHeaders, TarItem};
use super::tar_member::{TarKind, TarMember};
use crate::limits::Limits;
use crate::path::RootPath;

/// The bytes read at a time.
const CHUNK: usize = 256 << 10;

/// Iterates over members. The caller must consume a member's content before the next call.
pub(super) struct TarMembers<'a, R> {
    headers: TarHeaders<BufReader<R>>,
    /// Only used to resolve the layer's links: members behind them move to the target.
    changeset: Changeset,
    limits: &'a Limits,
}

impl<'a, R: Read> TarMembers<'a, R> {
    /// The members of the tar from `reader`.
    pub(super) fn new(reader: R, limits: &'a Limits) -> Self {
        Self {
            headers: TarHeaders::new(BufReader::with_capacity(CHUNK, reader), limits),
            changeset: Changeset::default(),
            limits,
        }
    }

    /// The next member or global header.
    ///
    /// Errors: The damage and its byte offset, or an error of the reader.
    pub(super) fn next(&mut self) -> Result<TarItem, String> {
        self.headers.next()
    }

    /// The headers of the last item, unmodified.
    pub(super) fn raw(&self) -> &[u8] {
        self.headers.raw()
    }

    /// The resolved path of a member; `None` if its name is invalid.
    ///
    /// Errors: Following the layer's links takes too long.
    pub(super) fn place(&mut self, member: &TarMember) -> Result<Option<RootPath>, String> {
        let (path_bytes, links) = (self.limits.path_bytes, self.limits.links);
        self.changeset.place(&member.name, path_bytes, links)
    }

    /// Records a member, so that later ones behind a link are resolved correctly.
    pub(super) fn note(&mut self, path: &RootPath, member: &TarMember) -> Result<(), String> {
        let entry = match member.kind {
            TarKind::Symlink => LayerEntry::Symlink(member.link.as_slice().into()),
            TarKind::Directory => LayerEntry::Directory(member.access, None),
            // For other types only the path matters: they replace everything below it.
            _ => LayerEntry::Special,
        };
        self.changeset.add(path, entry);
        self.changeset.check_held(self.limits)
    }

    /// Passes the next `bytes` bytes of content to `take`.
    pub(super) fn read(&mut self, bytes: u64, take: impl FnMut(&[u8])) -> Result<(), String> {
        self.headers.input.read(bytes, take)
    }

    /// Reads to the end of the stream, so that it can be verified.
    pub(super) fn drain(&mut self) -> Result<(), String> {
        self.headers.input.drain()
    }
}
