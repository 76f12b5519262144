//! Holds, while an object's bytes pass, the few ranges that its facts are read from.
//!
//! The place of each range is known only from another one: the program headers from the header, the dynamic
//! section from the program headers, the tables from the dynamic section. Linkers put the tables first and
//! the dynamic section last, patchelf moves tables behind it, and in a library of 900 MB the two are 850 MB
//! apart. So the start of the file is held up to a bound, and what lies ahead is caught when it comes.

use elf::abi;
use elf::endian::AnyEndian;
use elf::file::{Class, FileHeader};
use elf::parse::ParsingTable;
use elf::segment::ProgramHeader;

use super::mentions::{Interest, Scanner};
use super::tables::{self, Dynamic, Names, Table};
use super::{ElfFacts, ElfProblem};

/// Reads one object from a stream.
pub struct ElfStream<'a> {
    interest: &'a Interest,
    scanner: Scanner<'a>,
    held: Held,
    stage: Stage,
    facts: ElfFacts,
}

/// The next thing whose place is still unknown.
enum Stage {
    Header,
    Segments(Header),
    Dynamic(Header, Vec<ProgramHeader>),
    /// All places are known.
    Tables(Box<Layout>),
    /// Nothing more can be read.
    Stopped,
}

/// The byte order and word size that every table is read with.
#[derive(Clone, Copy)]
pub(super) struct Encoding {
    pub endian: AnyEndian,
    pub class: Class,
}

struct Header {
    encoding: Encoding,
    segments: Range,
}

struct Layout {
    encoding: Encoding,
    segments: Vec<ProgramHeader>,
    dynamic: Dynamic,
}

/// A range of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Range {
    pub what: &'static str,
    pub offset: u64,
    pub bytes: u64,
}

impl Range {
    fn end(&self) -> u64 {
        self.offset.saturating_add(self.bytes)
    }
}

/// The bytes of a step. A range whose place is found in a step may begin in the same step or the one before.
const STEP: usize = 64 << 10;

/// The interpreters, notes and properties that are read of one object; real objects have some six.
const SMALL_SEGMENTS: usize = 64;
/// The problems kept of one object.
const PROBLEMS: usize = 32;

/// The start of the file, its most recent bytes, and the ranges caught behind the start.
struct Held {
    head: Vec<u8>,
    head_limit: usize,
    recent: Vec<u8>,
    caught: Vec<(Range, Vec<u8>)>,
    position: u64,
}

/// All that is caught behind the start may be this many times as large as the start.
const CAUGHT: u64 = 2;

impl Held {
    fn push(&mut self, bytes: &[u8]) {
        let room = self.head_limit.saturating_sub(self.head.len());
        self.head
            .extend_from_slice(bytes.get(..room.min(bytes.len())).unwrap_or_default());
        if room < bytes.len() {
            let surplus = self.recent.len().saturating_sub(STEP);
            self.recent.drain(..surplus);
            self.recent.extend_from_slice(bytes);
        }
        let end = self.position + bytes.len() as u64;
        for (range, caught) in &mut self.caught {
            let from = range.offset.max(self.position);
            let to = range.end().min(end);
            if from < to {
                let slice = to_usize(from - self.position)..to_usize(to - self.position);
                caught.extend_from_slice(bytes.get(slice).unwrap_or_default());
            }
        }
        self.position = end;
    }

    /// Asks for a range: it is held already, will be caught, or is out of reach.
    fn want(&mut self, range: Range) -> Result<(), ElfProblem> {
        let limit = self.head_limit as u64;
        let caught = self.caught.iter().map(|(range, _)| range.bytes);
        let room = (CAUGHT * limit).saturating_sub(caught.sum()).min(limit);
        if range.bytes > room && range.end() > limit || range.bytes > limit {
            return Err(ElfProblem::TooLarge {
                what: range.what,
                bytes: range.bytes,
                limit: room,
            });
        }
        let in_head = range.end() <= limit || range.bytes == 0;
        if in_head || self.caught.iter().any(|(caught, _)| *caught == range) {
            return Ok(());
        }
        let so_far = self.since(range.offset).ok_or(ElfProblem::OutOfReach {
            what: range.what,
            offset: range.offset,
        })?;
        let so_far = so_far
            .get(..so_far.len().min(to_usize(range.bytes)))
            .unwrap_or_default()
            .to_vec();
        self.caught.push((range, so_far));
        Ok(())
    }

    /// What has passed since `offset`, when all of it is still held.
    fn since(&self, offset: u64) -> Option<&[u8]> {
        let recent_start = self.position - self.recent.len() as u64;
        match () {
            () if offset >= self.position => Some(&[]),
            () if self.head.len() as u64 == self.position => self.head.get(to_usize(offset)..),
            () if offset >= recent_start => self.recent.get(to_usize(offset - recent_start)..),
            () => None,
        }
    }

    /// Whether every byte of the range has passed.
    fn passed(&self, range: &Range) -> bool {
        range.end() <= self.position
    }

    /// The bytes of a range that was wanted; fewer when the file ended first.
    fn get(&self, range: &Range) -> &[u8] {
        if let Some((_, bytes)) = self.caught.iter().find(|(caught, _)| caught == range) {
            return bytes;
        }
        let end = to_usize(range.end()).min(self.head.len());
        self.head
            .get(to_usize(range.offset)..end)
            .unwrap_or_default()
    }
}

fn to_usize(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

impl<'a> ElfStream<'a> {
    /// A stream at the start of an object. At most `head_limit` bytes of its start are held, and as many of
    /// each table behind them.
    pub fn new(interest: &'a Interest, head_limit: usize) -> Self {
        Self {
            interest,
            scanner: Scanner::new(interest),
            held: Held {
                head: Vec::new(),
                head_limit: head_limit.max(4096),
                recent: Vec::new(),
                caught: Vec::new(),
                position: 0,
            },
            stage: Stage::Header,
            facts: ElfFacts::default(),
        }
    }

    /// Takes the next bytes of the object.
    pub fn push(&mut self, bytes: &[u8]) {
        for piece in bytes.chunks(STEP) {
            self.held.push(piece);
            self.scanner.push(piece);
            self.advance();
        }
    }

    /// Reads the tables once the last byte has passed.
    pub fn finish(mut self) -> ElfFacts {
        self.advance();
        let bytes = self.held.position;
        match std::mem::replace(&mut self.stage, Stage::Stopped) {
            Stage::Header => self.truncated("the header", 64, bytes),
            Stage::Segments(header) => {
                self.truncated("the program headers", header.segments.end(), bytes);
            }
            Stage::Dynamic(header, segments) => {
                let range = dynamic_range(&segments);
                self.truncated(
                    "the dynamic section",
                    range.map_or(0, |range| range.end()),
                    bytes,
                );
                self.segment_facts(header.encoding, &segments);
            }
            Stage::Tables(layout) => {
                self.segment_facts(layout.encoding, &layout.segments);
                self.table_facts(&layout);
            }
            Stage::Stopped => {}
        }
        self.facts
    }

    fn truncated(&mut self, what: &'static str, end: u64, bytes: u64) {
        self.problem(ElfProblem::Truncated { what, end, bytes });
    }

    fn problem(&mut self, problem: ElfProblem) {
        let problems = &self.facts.problems;
        if problems.len() < PROBLEMS && !problems.contains(&problem) {
            self.facts.problems.push(problem);
        }
    }

    /// Goes on as far as the bytes that have passed allow.
    fn advance(&mut self) {
        loop {
            let next = match &self.stage {
                Stage::Header if self.held.position >= 64 => self.read_header(),
                Stage::Segments(header) if self.held.passed(&header.segments) => {
                    Ok(self.read_segments())
                }
                Stage::Dynamic(_, segments)
                    if dynamic_range(segments).is_none_or(|range| self.held.passed(&range)) =>
                {
                    Ok(self.read_dynamic())
                }
                _ => return,
            };
            self.stage = next.unwrap_or_else(|problem| {
                self.problem(problem);
                Stage::Stopped
            });
        }
    }

    fn read_header(&mut self) -> Result<Stage, ElfProblem> {
        let malformed = ElfProblem::Malformed { what: "ELF header" };
        let head = self.held.head.as_slice();
        self.facts.ident = head.first_chunk().copied().ok_or(malformed.clone())?;
        let ident = elf::file::parse_ident::<AnyEndian>(&self.facts.ident)
            .map_err(|_unreadable| malformed.clone())?;
        let tail = match ident.1 {
            Class::ELF32 => head.get(16..52),
            Class::ELF64 => head.get(16..64),
        };
        let header = FileHeader::parse_tail(ident, tail.unwrap_or_default())
            .map_err(|_unreadable| malformed.clone())?;
        self.facts.kind = header.e_type;
        self.facts.machine = header.e_machine;
        self.facts.version = header.version;
        self.facts.phentsize = header.e_phentsize;
        let segments = Range {
            what: "the program headers",
            offset: header.e_phoff,
            bytes: u64::from(header.e_phnum) * u64::from(header.e_phentsize),
        };
        if header.e_phnum > 0
            && usize::from(header.e_phentsize) != tables::segment_size(header.class)
        {
            return Err(malformed);
        }
        self.held.want(segments)?;
        Ok(Stage::Segments(Header {
            encoding: Encoding {
                endian: header.endianness,
                class: header.class,
            },
            segments,
        }))
    }

    fn read_segments(&mut self) -> Stage {
        let Stage::Segments(Header { encoding, segments }) =
            std::mem::replace(&mut self.stage, Stage::Stopped)
        else {
            return Stage::Stopped;
        };
        let table = ParsingTable::<_, ProgramHeader>::new(
            encoding.endian,
            encoding.class,
            self.held.get(&segments),
        );
        let mut small = 0;
        let segments_read: Vec<ProgramHeader> = table
            .iter()
            .filter(|segment| {
                small += usize::from(small_segment(segment).is_some());
                small_segment(segment).is_none() || small <= SMALL_SEGMENTS
            })
            .collect();
        if small > SMALL_SEGMENTS {
            self.problem(ElfProblem::Malformed {
                what: "list of notes",
            });
        }
        let wanted: Vec<Range> = segments_read
            .iter()
            .filter_map(small_segment)
            .chain(dynamic_range(&segments_read))
            .collect();
        for range in wanted {
            if let Err(problem) = self.held.want(range) {
                self.problem(problem);
            }
        }
        Stage::Dynamic(Header { encoding, segments }, segments_read)
    }

    fn read_dynamic(&mut self) -> Stage {
        let Stage::Dynamic(header, segments) = std::mem::replace(&mut self.stage, Stage::Stopped)
        else {
            return Stage::Stopped;
        };
        let bytes = dynamic_range(&segments)
            .map(|range| self.held.get(&range))
            .unwrap_or_default();
        let dynamic = tables::dynamic(header.encoding, bytes, &segments);
        for range in dynamic.ranges() {
            if let Err(problem) = self.held.want(range) {
                self.problem(problem);
            }
        }
        Stage::Tables(Box::new(Layout {
            encoding: header.encoding,
            segments,
            dynamic,
        }))
    }

    fn segment_facts(&mut self, encoding: Encoding, segments: &[ProgramHeader]) {
        let bytes = self.held.position;
        for segment in segments {
            let end = segment.p_offset.saturating_add(segment.p_filesz);
            if segment.p_type == abi::PT_LOAD {
                self.facts.loads += 1;
                if end > bytes {
                    self.truncated("a loaded segment", end, bytes);
                }
            }
            let Some(range) = small_segment(segment) else {
                continue;
            };
            let content = self.held.get(&range);
            if segment.p_type == abi::PT_INTERP {
                self.facts.interp = Some(tables::until_nul(content).into());
            } else if let Err(problem) = tables::notes(encoding, segment, content, &mut self.facts)
            {
                self.problem(problem);
            }
        }
        self.facts.dynamic = dynamic_range(segments).is_some();
    }

    fn table_facts(&mut self, layout: &Layout) {
        let wants_symbols = self.scanner.saw_symbols();
        let get = |table: Table| {
            layout
                .dynamic
                .range(table)
                .map(|range| self.held.get(&range))
                .unwrap_or_default()
        };
        let mut names = Names::new(get(Table::Strings));
        let facts = &mut self.facts;
        tables::strings(&layout.dynamic, &mut names, facts);
        tables::versions(layout.encoding, &layout.dynamic, get, &mut names, facts);
        if wants_symbols {
            tables::symbols(layout.encoding, get, self.interest, &mut names, facts);
        }
        if let Some(problem) = names.problem() {
            self.problem(problem);
        }
        self.mention_facts(layout.dynamic.range(Table::Strings));
    }

    /// The strings found, but for those of the dynamic string table, which are read as what they are.
    fn mention_facts(&mut self, names: Option<Range>) {
        let scanner = std::mem::replace(&mut self.scanner, Scanner::new(self.interest));
        let in_table =
            |offset: u64| names.is_some_and(|range| (range.offset..range.end()).contains(&offset));
        let mut mentions: Vec<_> = scanner
            .finish()
            .into_iter()
            .filter(|(offset, _)| !in_table(*offset))
            .map(|(_, text)| text)
            .collect();
        mentions.sort();
        mentions.dedup();
        self.facts.mentions = mentions;
    }
}

/// The range of `PT_DYNAMIC`. The loader takes the last one (glibc elf/dl-load.c, "case `PT_DYNAMIC`").
fn dynamic_range(segments: &[ProgramHeader]) -> Option<Range> {
    let segment = segments
        .iter()
        .rfind(|segment| segment.p_type == abi::PT_DYNAMIC)?;
    Some(Range {
        what: "the dynamic section",
        offset: segment.p_offset,
        bytes: segment.p_filesz,
    })
}

/// The range of a segment that is small and kept whole: the interpreter, notes and properties.
fn small_segment(segment: &ProgramHeader) -> Option<Range> {
    let (what, limit) = match segment.p_type {
        abi::PT_INTERP => ("the interpreter", 4096),
        abi::PT_NOTE | abi::PT_GNU_PROPERTY => ("a note", 64 << 10),
        _ => return None,
    };
    Some(Range {
        what,
        offset: segment.p_offset,
        bytes: segment.p_filesz.min(limit),
    })
}
