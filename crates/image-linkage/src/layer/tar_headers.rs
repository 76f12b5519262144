//! The headers of a tar, one member after the other: the one loop over what `tar-core` makes of them.

use std::io::BufRead;

use tar_core::parse::{ParseEvent, Parser};

use super::pax;
use super::tar_header::{BLOCK, HeaderScan};
use super::tar_input::TarInput;
use super::tar_member::{TarMember, tar_parser};
use crate::limits::Limits;

/// What the next headers of a tar are.
pub enum TarItem {
    /// The headers of one member; its content follows.
    Member(TarMember),
    /// A global header, which changes no member, as in Go's archive/tar.
    Global,
    /// The marker behind the last member.
    End,
}

/// What bytes come to that should begin with headers.
pub enum HeaderStep {
    /// The headers go on: this many bytes of them have to be there, from their start.
    More(usize),
    /// The headers, and how many bytes they take.
    Whole(TarItem, usize),
}

/// Understands headers as engines do, and reads nothing itself.
pub struct HeaderParser {
    parser: Parser,
    scan: HeaderScan,
}

impl HeaderParser {
    /// For a tar under these limits, none of whose headers was seen.
    pub fn new(limits: &Limits) -> Self {
        Self {
            parser: tar_parser(limits),
            scan: HeaderScan::default(),
        }
    }

    /// What `ahead` begins with. After [`HeaderStep::More`] it must be given again, with more bytes behind it.
    ///
    /// Errors: What is wrong with the headers. The fields that nobody asks for are blanked in `ahead`.
    pub fn step(&mut self, ahead: &mut [u8]) -> Result<HeaderStep, String> {
        self.scan.prepare(ahead)?;
        let scan = &self.scan;
        let (item, consumed) = match self.parser.parse(ahead).map_err(|error| error.to_string())? {
            ParseEvent::NeedData { min_bytes } => return Ok(HeaderStep::More(min_bytes)),
            ParseEvent::End { consumed } => (TarItem::End, consumed),
            ParseEvent::GlobalExtensions { consumed, pax_data } => {
                // The records count for nothing, but damage in them does.
                pax::read_records(pax_data)?;
                (TarItem::Global, consumed)
            }
            ParseEvent::Entry { consumed, entry } => {
                let member = TarMember::new(&entry, None, scan, 0)?;
                (TarItem::Member(member), consumed)
            }
            ParseEvent::SparseEntry {
                consumed,
                entry,
                sparse_map,
                real_size,
            } => {
                // In format 1.0 the map stands in the content, and its size is counted in the member's.
                let own_map = (consumed - scan.entry_at() - BLOCK) as u64;
                let member = TarMember::new(&entry, Some((sparse_map, real_size)), scan, own_map)?;
                (TarItem::Member(member), consumed)
            }
        };
        self.scan = HeaderScan::default();
        Ok(HeaderStep::Whole(item, consumed))
    }
}

/// The headers of a layer. The content of a member has to be read or skipped before the next one is asked for.
pub(super) struct TarHeaders<R> {
    /// The stream behind the headers that were read last.
    pub input: TarInput<R>,
    /// The headers that were read last, as they are written; a sparse map that stands in the content is one of them.
    pub raw: Vec<u8>,
    parser: HeaderParser,
    /// The bytes that the headers of one member may have.
    limit: usize,
}

impl<R: BufRead> TarHeaders<R> {
    /// The headers of the tar that `reader` gives.
    pub(super) fn new(reader: R, limits: &Limits) -> Self {
        Self {
            input: TarInput::new(reader),
            raw: Vec::new(),
            parser: HeaderParser::new(limits),
            // A long name, a long link target and records may each reach the limit before the header comes.
            limit: limits.tar_metadata.saturating_mul(4),
        }
    }

    /// The next member or global header.
    ///
    /// Errors: What is wrong with its headers and at which byte, or what the reader gives.
    pub(super) fn next(&mut self) -> Result<TarItem, String> {
        self.raw.clear();
        loop {
            // Before they are blanked, which happens in place: who writes a layer again writes them as they were.
            let more = self.input.buffered().get(self.raw.len()..);
            self.raw.extend_from_slice(more.unwrap_or_default());
            let at = self.input.position;
            let step = self.parser.step(self.input.buffered_mut());
            match step.map_err(|error| format!("damaged tar header at byte {at} of the uncompressed layer: {error}"))? {
                HeaderStep::Whole(item, consumed) => {
                    self.input.consume(consumed);
                    self.raw.truncate(consumed);
                    return Ok(item);
                }
                HeaderStep::More(bytes) if self.input.fill(bytes, self.limit)? => {}
                HeaderStep::More(_) => return self.end_without_marker(),
            }
        }
    }

    /// A tar may end without its marker or in the middle of it, between two members only.
    fn end_without_marker(&self) -> Result<TarItem, String> {
        match self.input.buffered() {
            [] => Ok(TarItem::End),
            rest if rest.len() == BLOCK && rest.iter().all(|&byte| byte == 0) => Ok(TarItem::End),
            rest => Err(format!(
                "the tar ends in the middle of a header, {} bytes after byte {}",
                rest.len(),
                self.input.position
            )),
        }
    }
}
