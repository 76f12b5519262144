//! Walks a tar stream: one pass, every byte seen once, nothing held but one header.

use std::io::{self, Read};

use tar_core::parse::{Limits as TarLimits, ParseEvent, ParsedEntry, Parser};
use tar_core::{EntryType, SparseEntry};

use super::changeset::Changeset;
use super::file::FileReader;
use super::{Entry, FileFacts};
use crate::limits::Limits;
use crate::path::RootPath;
use std::sync::Arc;

/// The bytes asked for at a time.
const CHUNK: usize = 256 << 10;
/// The size of a tar block.
const BLOCK: u64 = 512;

/// Walks the tar that `reader` gives, to its end and past the end marker to the end of the stream.
///
/// # Errors
/// What is wrong and at which byte of the tar: a header that is none, a member cut short, a limit crossed, or
/// what `reader` gives.
pub fn walk(reader: impl Read, limits: &Limits) -> Result<Changeset, String> {
    let mut walk = Walk {
        input: Input::new(reader),
        changeset: Changeset::default(),
        limits,
        kept: 0,
        members: 0,
    };
    let parser_limits = TarLimits {
        max_metadata_size: u32::try_from(limits.tar_metadata).unwrap_or(u32::MAX),
        max_sparse_entries: limits.sparse_regions,
        ..TarLimits::default()
    };
    let mut parser = Parser::new(parser_limits);
    parser.set_allow_empty_path(true);
    parser.set_ignore_pax_errors(true);
    while let Some(member) = walk.next_member(&mut parser)? {
        walk.take(member)?;
    }
    walk.input.drain()?;
    Ok(walk.changeset)
}

struct Walk<'a, R> {
    input: Input<R>,
    changeset: Changeset,
    limits: &'a Limits,
    /// The bytes kept of small files so far.
    kept: u64,
    members: usize,
}

/// A member's header, taken out of the buffer.
struct Member {
    name: Vec<u8>,
    kind: EntryType,
    link: Vec<u8>,
    mode: u16,
    /// The bytes of content in the stream.
    stored: u64,
    /// Where they lie in a sparse file, and its size.
    sparse: Option<(Vec<SparseEntry>, u64)>,
}

impl Member {
    fn new(entry: &ParsedEntry<'_>, sparse: Option<(Vec<SparseEntry>, u64)>) -> Self {
        Self {
            name: entry.path.to_vec(),
            kind: entry.entry_type,
            link: entry.link_target.as_deref().unwrap_or_default().to_vec(),
            mode: u16::try_from(entry.mode & 0o7777).unwrap_or_default(),
            stored: entry.size,
            sparse,
        }
    }
}

impl<R: Read> Walk<'_, R> {
    fn next_member(&mut self, parser: &mut Parser) -> Result<Option<Member>, String> {
        loop {
            let at = self.input.position;
            let (consumed, member) = match parser
                .parse(self.input.buffered())
                .map_err(|error| damaged(at, &error))?
            {
                ParseEvent::NeedData { min_bytes } => {
                    if !self.input.fill(min_bytes, 4 * self.limits.tar_metadata)? {
                        return self.end_without_marker();
                    }
                    continue;
                }
                ParseEvent::End { .. } => return Ok(None),
                ParseEvent::GlobalExtensions { consumed, .. } => (consumed, None),
                ParseEvent::Entry { consumed, entry } => {
                    (consumed, Some(Member::new(&entry, None)))
                }
                ParseEvent::SparseEntry {
                    consumed,
                    entry,
                    sparse_map,
                    real_size,
                } => (
                    consumed,
                    Some(Member::new(&entry, Some((sparse_map, real_size)))),
                ),
            };
            self.input.consume(consumed);
            if member.is_some() {
                return Ok(member);
            }
        }
    }

    /// A tar may end without its marker, between two members only.
    fn end_without_marker(&self) -> Result<Option<Member>, String> {
        match self.input.buffered() {
            [] => Ok(None),
            rest if rest.iter().all(|&byte| byte == 0) => Ok(None),
            rest => Err(format!(
                "the tar ends in the middle of a header, {} bytes after byte {}",
                rest.len(),
                self.input.position
            )),
        }
    }

    fn take(&mut self, member: Member) -> Result<(), String> {
        self.members += 1;
        if self.members > self.limits.layer_entries {
            return Err(format!(
                "more than the limit of {} entries",
                self.limits.layer_entries
            ));
        }
        let after = member.stored.next_multiple_of(BLOCK) - member.stored;
        let placed = self
            .changeset
            .place(&member.name, self.limits.path_bytes, self.limits.links);
        let stored = member.stored;
        let entry = match member.kind {
            EntryType::Directory => Entry::Directory,
            EntryType::Symlink => Entry::Symlink(member.link.as_slice().into()),
            EntryType::Link => self.hardlink(placed.as_ref(), &member.link),
            EntryType::Char | EntryType::Block | EntryType::Fifo => Entry::Special,
            _ => match &placed {
                Some(path) => {
                    let entry = self.file(path, &member)?;
                    self.changeset.add(path.clone(), entry);
                    return self.input.skip(after);
                }
                None => Entry::Special,
            },
        };
        if let Some(path) = placed {
            self.changeset.add(path, entry);
        }
        // NOTE: a hard link's header may carry the size of its target without any content. POSIX pax lets a
        // link have content; GNU tar and Go write none and give the size 0, so a size means content.
        self.input.skip(stored + after)
    }

    fn hardlink(&mut self, path: Option<&RootPath>, target: &[u8]) -> Entry {
        if let Some(path) = path.filter(|_| RootPath::escapes(target)) {
            self.changeset.problem(
                path,
                "the hard link leads out of the root with \"..\"; it is taken inside the root",
            );
        }
        Entry::Hardlink(RootPath::new(target))
    }

    fn file(&mut self, path: &RootPath, member: &Member) -> Result<Entry, String> {
        let mut file = FileReader::new(path, member.mode, self.limits);
        match &member.sparse {
            None => self.input.read(member.stored, |bytes| file.push(bytes))?,
            Some((regions, bytes)) => self.sparse(&mut file, member.stored, regions, *bytes)?,
        }
        let (mut facts, too_large) = file.finish();
        if too_large {
            self.changeset.problem(
                path,
                format!(
                    "larger than the limit of {} bytes; it is not read",
                    self.limits.kept_file
                ),
            );
        }
        self.limit_kept(path, &mut facts);
        Ok(Entry::File(Arc::new(facts)))
    }

    fn limit_kept(&mut self, path: &RootPath, facts: &mut FileFacts) {
        let bytes = facts.kept.as_ref().map_or(0, |kept| kept.len() as u64);
        if self.kept + bytes > self.limits.kept_total {
            facts.kept = None;
            let limit = self.limits.kept_total;
            self.changeset.problem(
                path,
                format!("the files to be read exceed the limit of {limit} bytes; it is not read"),
            );
        } else {
            self.kept += bytes;
        }
    }

    /// Reads a sparse file: regions of data in the stream, zeros between them.
    fn sparse(
        &mut self,
        file: &mut FileReader,
        stored: u64,
        regions: &[SparseEntry],
        bytes: u64,
    ) -> Result<(), String> {
        let damaged =
            |at: u64| format!("a sparse file's map does not fit its content, before byte {at}");
        let mut at = 0_u64;
        let mut left = stored;
        for region in regions {
            let gap = region
                .offset
                .checked_sub(at)
                .ok_or_else(|| damaged(self.input.position))?;
            self.zeros(file, gap)?;
            left = left
                .checked_sub(region.length)
                .ok_or_else(|| damaged(self.input.position))?;
            self.input.read(region.length, |bytes| file.push(bytes))?;
            at = region
                .offset
                .checked_add(region.length)
                .ok_or_else(|| damaged(self.input.position))?;
        }
        let end = bytes
            .checked_sub(at)
            .ok_or_else(|| damaged(self.input.position))?;
        self.zeros(file, end)?;
        self.input.skip(left)
    }

    fn zeros(&mut self, file: &mut FileReader, bytes: u64) -> Result<(), String> {
        if !file.reads_content() {
            file.skip(bytes);
            return Ok(());
        }
        self.input.holes += bytes;
        if self.input.holes > self.limits.ratio_from.max(self.input.position) {
            return Err(format!(
                "the holes of sparse libraries exceed {} bytes",
                self.limits.ratio_from
            ));
        }
        let mut left = bytes;
        while left > 0 {
            let n = left.min(ZEROS.len() as u64);
            file.push(
                ZEROS
                    .get(..usize::try_from(n).unwrap_or(ZEROS.len()))
                    .unwrap_or_default(),
            );
            left -= n;
        }
        Ok(())
    }
}

static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

fn damaged(at: u64, error: &dyn std::fmt::Display) -> String {
    format!("no tar header at byte {at} of the uncompressed layer: {error}")
}

/// A buffer over the stream that can be looked into before it is consumed.
struct Input<R> {
    reader: R,
    buffer: Vec<u8>,
    start: usize,
    position: u64,
    holes: u64,
}

impl<R: Read> Input<R> {
    fn new(reader: R) -> Self {
        Self {
            reader,
            buffer: Vec::with_capacity(CHUNK),
            start: 0,
            position: 0,
            holes: 0,
        }
    }

    fn buffered(&self) -> &[u8] {
        self.buffer.get(self.start..).unwrap_or_default()
    }

    fn consume(&mut self, bytes: usize) {
        self.start += bytes;
        self.position += bytes as u64;
    }

    /// Reads until `bytes` are buffered; false when the stream ends first.
    fn fill(&mut self, bytes: usize, limit: usize) -> Result<bool, String> {
        if bytes > limit {
            return Err(format!(
                "the header at byte {} is longer than the limit of {limit} bytes",
                self.position
            ));
        }
        self.buffer.drain(..self.start);
        self.start = 0;
        while self.buffer.len() < bytes {
            if self.read_more()? == 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn read_more(&mut self) -> Result<usize, String> {
        let held = self.buffer.len();
        self.buffer.resize(held + CHUNK, 0);
        let space = self.buffer.get_mut(held..).unwrap_or_default();
        let n = loop {
            match self.reader.read(space) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => break result,
            }
        };
        self.buffer
            .truncate(held + n.as_ref().copied().unwrap_or(0));
        n.map_err(|error| error.to_string())
    }

    /// Hands the next `bytes` to `take`, piece by piece.
    fn read(&mut self, bytes: u64, mut take: impl FnMut(&[u8])) -> Result<(), String> {
        let mut left = bytes;
        while left > 0 {
            if self.buffered().is_empty() {
                self.buffer.clear();
                self.start = 0;
                if self.read_more()? == 0 {
                    return Err(format!(
                        "the tar ends at byte {}, {left} bytes before the end of a member",
                        self.position
                    ));
                }
            }
            let n = self
                .buffered()
                .len()
                .min(usize::try_from(left).unwrap_or(usize::MAX));
            take(self.buffered().get(..n).unwrap_or_default());
            self.consume(n);
            left -= n as u64;
        }
        Ok(())
    }

    fn skip(&mut self, bytes: u64) -> Result<(), String> {
        self.read(bytes, |_| ())
    }

    /// Reads to the end of the stream: only a blob that was read whole can be verified.
    fn drain(&mut self) -> Result<(), String> {
        loop {
            self.buffer.clear();
            self.start = 0;
            if self.read_more()? == 0 {
                return Ok(());
            }
        }
    }
}
