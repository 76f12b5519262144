//! The members of a layer's tar one after the other, each with its headers as they are written.
//!
//! For who writes a layer again or takes files out of it; what a layer says is gathered in `tar_walk`.

use std::io::{BufReader, Read};

use tar_core::EntryType;
use tar_core::parse::{ParseEvent, Parser};

use super::changeset::Changeset;
use super::index::LayerEntry;
use super::tar_header::{BLOCK_BYTES, HeaderScan};
use super::tar_input::TarInput;
use super::tar_member::{TarMember, describe_damage, tar_parser};
use crate::limits::Limits;
use crate::path::RootPath;

/// The bytes that are read at a time.
const CHUNK: usize = 256 << 10;
/// The bytes that are first looked at for a header: with its extensions, nearly every one is shorter.
const LOOK: usize = 4096;

/// The members under way. The content of one has to be read before the next one is asked for.
pub(super) struct TarMembers<'a, R> {
    input: TarInput<BufReader<R>>,
    /// Only the links matter: members lie behind those of their layer.
    changeset: Changeset,
    parser: Parser,
    limits: &'a Limits,
}

/// One member, or what stands between two.
pub(super) enum TarItem {
    Member(Box<RawMember>),
    /// A global header, as it is written.
    Global(Vec<u8>),
    End,
}

pub(super) struct RawMember {
    /// Where it lies in the layer's tree; `None` for a name that cannot lie anywhere.
    pub path: Option<RootPath>,
    /// What its headers say.
    pub member: TarMember,
    /// Its headers as they are written, a sparse map that stands in its content included.
    pub raw: Vec<u8>,
    /// Where its own header begins in them, behind its extensions.
    pub own: usize,
}

impl RawMember {
    /// The bytes that follow the headers: content and padding.
    pub(crate) fn bytes(&self) -> u64 {
        self.member.stored + self.member.padding()
    }

    /// Whether there are headers behind its own, or a map in its content.
    pub(crate) fn is_sparse(&self) -> bool {
        self.member.is_sparse() || self.raw.len() as u64 > self.own as u64 + BLOCK_BYTES
    }
}

/// What the next headers are, still in the buffer.
enum ParsedHeaders {
    Member(TarMember, usize, usize),
    Global(usize),
    End,
}

impl<'a, R: Read> TarMembers<'a, R> {
    /// The members of the tar that `reader` gives.
    pub(crate) fn new(reader: R, limits: &'a Limits) -> Self {
        Self {
            input: TarInput::new(BufReader::with_capacity(CHUNK, reader)),
            changeset: Changeset::default(),
            parser: tar_parser(limits),
            limits,
        }
    }

    /// The next member or global header.
    ///
    /// Errors: What is wrong with its headers and at which byte, or what the reader gives.
    pub(crate) fn next(&mut self) -> Result<TarItem, String> {
        let at = self.input.position;
        let parsed = self.parse();
        match parsed.map_err(|error| describe_damage(at, &error))? {
            ParsedHeaders::End => Ok(TarItem::End),
            ParsedHeaders::Global(bytes) => Ok(TarItem::Global(self.take(bytes))),
            ParsedHeaders::Member(member, bytes, own) => {
                let raw = self.take(bytes);
                let (path_bytes, links) = (self.limits.path_bytes, self.limits.links);
                let path = self.changeset.place(&member.name, path_bytes, links)?;
                Ok(TarItem::Member(Box::new(RawMember { path, member, raw, own })))
            }
        }
    }

    /// Takes note of a member, so that those behind a link of the layer are placed behind it.
    pub(crate) fn note(&mut self, path: RootPath, member: &TarMember) -> Result<(), String> {
        let entry = match member.kind {
            EntryType::Symlink => LayerEntry::Symlink(member.link.as_slice().into()),
            EntryType::Directory => LayerEntry::Directory(member.access),
            // Of all else only the place counts: what lay below it is gone.
            _ => LayerEntry::Special,
        };
        self.changeset.add(path, entry);
        self.changeset.check_held()
    }

    /// Hands the next `bytes` of content to `take`.
    pub(crate) fn read(&mut self, bytes: u64, take: impl FnMut(&[u8])) -> Result<(), String> {
        self.input.read(bytes, take)
    }

    /// Reads to the end of the stream, so that it can be verified.
    pub(crate) fn drain(&mut self) -> Result<(), String> {
        self.input.drain()
    }

    /// Looks at the next headers on a copy, which is made plain; what is taken is as it was.
    fn parse(&mut self) -> Result<ParsedHeaders, String> {
        let mut look = LOOK;
        loop {
            let buffered = self.input.buffered();
            // The buffer holds much content behind the headers, which is not copied with them.
            let mut plain = buffered.get(..look).unwrap_or(buffered).to_vec();
            let mut headers = HeaderScan::default();
            headers.prepare(&mut plain)?;
            let event = self.parser.parse(&plain).map_err(|error| error.to_string())?;
            match event {
                ParseEvent::NeedData { min_bytes } if plain.len() < buffered.len() => {
                    look = min_bytes.max(look * 2);
                }
                ParseEvent::NeedData { min_bytes } => {
                    let limit = self.limits.tar_metadata.saturating_mul(4);
                    if !self.input.fill(min_bytes, limit)? {
                        // A tar may end without its marker; that nothing else is cut off was seen before.
                        return Ok(ParsedHeaders::End);
                    }
                    look = look.max(min_bytes);
                }
                ParseEvent::End { .. } => return Ok(ParsedHeaders::End),
                ParseEvent::GlobalExtensions { consumed, .. } => {
                    return Ok(ParsedHeaders::Global(consumed));
                }
                ParseEvent::Entry { consumed, entry } => {
                    let member = TarMember::new(&entry, None, &headers, 0)?;
                    return Ok(ParsedHeaders::Member(member, consumed, headers.entry_at()));
                }
                ParseEvent::SparseEntry {
                    consumed,
                    entry,
                    sparse_map,
                    real_size,
                } => {
                    let own = headers.entry_at();
                    // In format 1.0 the map stands in the content, and its size is counted in the member's.
                    let map = (consumed - own) as u64 - BLOCK_BYTES;
                    let member = TarMember::new(&entry, Some((sparse_map, real_size)), &headers, map)?;
                    return Ok(ParsedHeaders::Member(member, consumed, own));
                }
            }
        }
    }

    /// Takes headers out of the buffer.
    fn take(&mut self, bytes: usize) -> Vec<u8> {
        let raw = self.input.buffered().get(..bytes);
        let raw = raw.unwrap_or_default().to_vec();
        self.input.consume(bytes);
        raw
    }
}
