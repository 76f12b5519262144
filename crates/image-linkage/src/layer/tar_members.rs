//! The members of a layer's tar one after the other, each at its place in the layer's tree.
//!
//! For who writes a layer again or takes files out of it; what a layer says is gathered in `tar_walk`.

use std::io::{BufReader, Read};

use super::changeset::Changeset;
use super::index::LayerEntry;
use super::tar_headers::{TarHeaders, TarItem};
use super::tar_member::{TarKind, TarMember};
use crate::limits::Limits;
use crate::path::RootPath;

/// The bytes that are read at a time.
const CHUNK: usize = 256 << 10;

/// The members under way. The content of one has to be read before the next one is asked for.
pub(super) struct TarMembers<'a, R> {
    headers: TarHeaders<BufReader<R>>,
    /// Only the links matter: members lie behind those of their layer.
    changeset: Changeset,
    limits: &'a Limits,
}

impl<'a, R: Read> TarMembers<'a, R> {
    /// The members of the tar that `reader` gives.
    pub(super) fn new(reader: R, limits: &'a Limits) -> Self {
        Self {
            headers: TarHeaders::new(BufReader::with_capacity(CHUNK, reader), limits),
            changeset: Changeset::default(),
            limits,
        }
    }

    /// The next member or global header.
    ///
    /// Errors: What is wrong with its headers and at which byte, or what the reader gives.
    pub(super) fn next(&mut self) -> Result<TarItem, String> {
        self.headers.next()
    }

    /// The headers of the last item, as they are written.
    pub(super) fn raw(&self) -> &[u8] {
        self.headers.raw()
    }

    /// Where a member lies in the layer's tree; `None` for a name that cannot lie anywhere.
    ///
    /// Errors: When following the links of the layer takes too long.
    pub(super) fn place(&mut self, member: &TarMember) -> Result<Option<RootPath>, String> {
        let (path_bytes, links) = (self.limits.path_bytes, self.limits.links);
        self.changeset.place(&member.name, path_bytes, links)
    }

    /// Takes note of a member, so that those behind a link of the layer are placed behind it.
    pub(super) fn note(&mut self, path: &RootPath, member: &TarMember) -> Result<(), String> {
        let entry = match member.kind {
            TarKind::Symlink => LayerEntry::Symlink(member.link.as_slice().into()),
            TarKind::Directory => LayerEntry::Directory(member.access, None),
            // Of all else only the place counts: what lay below it is gone.
            _ => LayerEntry::Special,
        };
        self.changeset.add(path, entry);
        self.changeset.check_held(self.limits)
    }

    /// Hands the next `bytes` of content to `take`.
    pub(super) fn read(&mut self, bytes: u64, take: impl FnMut(&[u8])) -> Result<(), String> {
        self.headers.input.read(bytes, take)
    }

    /// Reads to the end of the stream, so that it can be verified.
    pub(super) fn drain(&mut self) -> Result<(), String> {
        self.headers.input.drain()
    }
}
