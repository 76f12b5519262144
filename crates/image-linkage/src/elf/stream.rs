//! Reads an object's facts from a stream of its bytes.
//!
//! Each offset is known only after an earlier part was read: the program headers from the header, the dynamic section
//! from the program headers, the tables from the dynamic section. Linkers put the tables first and the dynamic section
//! last. patchelf moves tables behind it; in a 900 MB library the two are 850 MB apart. So the start of the file is
//! kept up to a memory limit, and later ranges are caught when they arrive. Some versions of patchelf put the string
//! table right before the dynamic section, at the end of a 200 MB library. So behind the start, the rest of the segment
//! with the dynamic section is always caught.

use std::collections::BTreeSet;

use elf::abi;
use elf::endian::{AnyEndian, EndianParse as _};
use elf::file::{Class, FileHeader};
use elf::parse::ParsingTable;
use elf::segment::ProgramHeader;
use gpu_code::DeviceCodeScanner;

use super::address_space::AddressSpace;
use super::facts::{ByteString, ElfFacts, ElfProblem, LoadFault, SymbolRole};
use super::held_ranges::{HeldRanges, STEP, to_usize};
use super::link_symbol_tables::read_link_symbols;
use super::mentions::{MentionScanner, NameMatcher};
use super::range::{ElfEncoding, ElfRange};
use super::string_table::StringTable;
use super::symbol_versions;
use super::tables::{self, DynamicSection, DynamicTable};
use super::whole_paths::{PathText, find_whole_paths};

/// Reads one object from a stream.
pub struct ElfStream<'a> {
    interest: &'a NameMatcher,
    scanner: MentionScanner<'a>,
    device_code: DeviceCodeScanner,
    held: HeldRanges,
    stage: ReadStage,
    facts: ElfFacts,
}

/// The next part whose offset is unknown.
enum ReadStage {
    Header,
    Segments(ElfHeader),
    Dynamic(ElfHeader, Vec<ProgramHeader>),
    /// All offsets are known.
    Tables(Box<TableLayout>),
    /// Reading stopped after an error.
    Stopped,
}

struct ElfHeader {
    encoding: ElfEncoding,
    segments: ElfRange,
    entry: u64,
}

struct TableLayout {
    encoding: ElfEncoding,
    segments: Vec<ProgramHeader>,
    dynamic: DynamicSection,
}

/// The smallest page of any processor that Linux runs on.
const SMALLEST_PAGE: u64 = 4096;
/// The maximum number of interpreters, notes and properties of one object. Real objects have about six.
const SMALL_SEGMENTS: usize = 64;
/// The maximum number of problems of one object.
const PROBLEMS: usize = 32;
/// The bytes of the symbol table to read at a time: a multiple of the size of a symbol, which is 16 or 24 bytes.
const SYMBOLS_AT_ONCE: usize = 768 << 10;
/// A real dynamic section is at least this large. If the header claims less, `DYNAMIC_BYTES` are read.
const SMALLEST_DYNAMIC: u64 = 48;
const DYNAMIC_BYTES: u64 = 1024;

impl<'a> ElfStream<'a> {
    /// A stream at the start of an object. The start is kept in at most `limit` bytes of memory; ranges behind it take
    /// a bounded multiple.
    pub fn new(interest: &'a NameMatcher, limit: usize) -> Self {
        Self {
            interest,
            scanner: MentionScanner::new(interest),
            device_code: DeviceCodeScanner::default(),
            // At least one step, which fits the headers of every real object.
            held: HeldRanges::new(limit.max(STEP)),
            stage: ReadStage::Header,
            facts: ElfFacts::default(),
        }
    }

    /// Reads the next bytes of the object.
    pub fn push(&mut self, bytes: &[u8]) {
        for piece in bytes.chunks(STEP) {
            self.held.push(piece);
            self.scanner.push(piece);
            self.device_code.push(piece);
            // Advance after every piece: an offset found in it may point into it, and pieces are kept for two steps
            // only.
            self.advance();
        }
    }

    /// Reads the tables after the last byte.
    pub fn finish(mut self) -> ElfFacts {
        self.advance();
        let bytes = self.held.position;
        match std::mem::replace(&mut self.stage, ReadStage::Stopped) {
            ReadStage::Header => self.truncated("the header", 64, bytes),
            ReadStage::Segments(header) => {
                self.truncated("the program headers", header.segments.end(), bytes);
            }
            ReadStage::Dynamic(header, segments) => {
                let range = dynamic_range(&segments);
                self.truncated("the dynamic section", range.map_or(0, |range| range.end()), bytes);
                // Report the segments anyway: a truncated segment matters more than the missing table.
                self.segment_facts(header.encoding, &segments);
            }
            ReadStage::Tables(layout) => {
                self.segment_facts(layout.encoding, &layout.segments);
                self.table_facts(&layout);
            }
            ReadStage::Stopped => {}
        }
        self.facts.device_code = self.device_code.finish().map(Box::new);
        self.facts
    }

    fn truncated(&mut self, what: &'static str, end: u64, bytes: u64) {
        self.problem(ElfProblem::Truncated { what, end, bytes });
    }

    /// Records ranges that have passed but were not kept completely.
    fn lost(&mut self, ranges: impl IntoIterator<Item = ElfRange>) {
        for range in ranges {
            if let Some(problem) = self.held.lost(&range) {
                self.problem(problem);
            }
        }
    }

    fn problem(&mut self, problem: ElfProblem) {
        let problems = &self.facts.problems;
        // Tables are checked in several steps, and a damaged file may have thousands of segments.
        if problems.len() < PROBLEMS && !problems.contains(&problem) {
            self.facts.problems.push(problem);
        }
    }

    /// Reads on as far as the received bytes allow.
    fn advance(&mut self) {
        loop {
            let next = match &self.stage {
                // The 64-bit header. A shorter file has nothing to load in either class.
                ReadStage::Header if self.held.position >= 64 => self.read_header(),
                ReadStage::Segments(_) if self.has_awaited() => Ok(self.read_segments()),
                ReadStage::Dynamic(..) if self.has_awaited() => Ok(self.read_dynamic()),
                _ => return,
            };
            self.stage = next.unwrap_or_else(|problem| {
                self.problem(problem);
                ReadStage::Stopped
            });
            self.held.awaited = match &self.stage {
                ReadStage::Segments(header) => Some(header.segments),
                ReadStage::Dynamic(_, segments) => dynamic_range(segments),
                _ => None,
            };
        }
    }

    /// Whether the range that reveals the next offsets has passed. True if there is no such range.
    fn has_awaited(&self) -> bool {
        self.held.awaited.is_none_or(|range| self.held.passed(&range))
    }

    fn read_header(&mut self) -> Result<ReadStage, ElfProblem> {
        let malformed = ElfProblem::Malformed { what: "ELF header" };
        let head = self.held.head.get(0, 64).into_owned();
        self.facts.ident = head.first_chunk().copied().ok_or(malformed.clone())?;
        self.read_kind(&head);
        let ident = elf::file::parse_ident::<AnyEndian>(&self.facts.ident).map_err(|_unreadable| malformed.clone())?;
        let tail = match ident.1 {
            Class::ELF32 => head.get(16..52),
            Class::ELF64 => head.get(16..64),
        };
        let header =
            FileHeader::parse_tail(ident, tail.unwrap_or_default()).map_err(|_unreadable| malformed.clone())?;
        self.facts.phentsize = header.e_phentsize;
        let segments = ElfRange {
            what: "the program headers",
            offset: header.e_phoff,
            bytes: u64::from(header.e_phnum) * u64::from(header.e_phentsize),
        };
        // The kernel and ld.so refuse any other size (elf/dl-load.c, `open_verify`).
        if header.e_phnum > 0 && usize::from(header.e_phentsize) != tables::segment_size(header.class) {
            return Err(malformed);
        }
        self.held.want(segments)?;
        Ok(ReadStage::Segments(ElfHeader {
            encoding: ElfEncoding {
                endian: header.endianness,
                class: header.class,
            },
            segments,
            entry: header.e_entry,
        }))
    }

    /// Reads the fields whose position is the same in both classes, even if the identification is invalid.
    fn read_kind(&mut self, head: &[u8]) {
        let [_, _, _, _, _, data, ..] = self.facts.ident;
        let endian = if data == abi::ELFDATA2MSB {
            AnyEndian::Big
        } else {
            AnyEndian::Little
        };
        self.facts.kind = endian.parse_u16_at(&mut 16, head).unwrap_or_default();
        self.facts.machine = endian.parse_u16_at(&mut 18, head).unwrap_or_default();
        self.facts.version = endian.parse_u32_at(&mut 20, head).unwrap_or_default();
    }

    fn read_segments(&mut self) -> ReadStage {
        let ReadStage::Segments(header) = std::mem::replace(&mut self.stage, ReadStage::Stopped) else {
            return ReadStage::Stopped;
        };
        let ElfHeader {
            encoding,
            segments,
            entry,
        } = header;
        self.lost([segments]);
        let bytes = self.held.get(&segments);
        let table = ParsingTable::<_, ProgramHeader>::new(encoding.endian, encoding.class, &bytes);
        let mut small = 0;
        let segments_read: Vec<ProgramHeader> = table
            .iter()
            .filter(|segment| {
                // Drop excess notes but keep every loaded segment: they decide whether the object can be mapped.
                small += usize::from(small_segment(segment).is_some());
                small_segment(segment).is_none() || small <= SMALL_SEGMENTS
            })
            .collect();
        if small > SMALL_SEGMENTS {
            self.problem(ElfProblem::Malformed { what: "list of notes" });
        }
        // Table offsets become known only with the dynamic section, after the bytes before it have passed. patchelf
        // leaves 26 MB of names there in cuSPARSELt 0.7. Half of the room stays for ranges requested later.
        let foreseen = self.held.limit as u64 / 2 * 3;
        self.held.foreseen = before_dynamic(&segments_read, foreseen);
        self.held.code = code_begin(&segments_read, entry);
        let wanted: Vec<ElfRange> = segments_read
            .iter()
            .filter_map(small_segment)
            .chain(dynamic_range(&segments_read))
            .collect();
        for range in wanted {
            if let Err(problem) = self.held.want(range) {
                self.problem(problem);
            }
        }
        ReadStage::Dynamic(header, segments_read)
    }

    fn read_dynamic(&mut self) -> ReadStage {
        let ReadStage::Dynamic(header, segments) = std::mem::replace(&mut self.stage, ReadStage::Stopped) else {
            return ReadStage::Stopped;
        };
        self.lost(dynamic_range(&segments));
        let bytes = dynamic_range(&segments)
            .map(|range| self.held.get(&range))
            .unwrap_or_default();
        let dynamic = tables::read_dynamic(header.encoding, &bytes, &AddressSpace::new(&segments));
        for range in dynamic.ranges() {
            if let Err(problem) = self.held.want(range) {
                self.problem(problem);
            }
        }
        for range in dynamic.checked_ranges() {
            // Optional: no fact depends on these tables.
            drop(self.held.want(range));
        }
        ReadStage::Tables(Box::new(TableLayout {
            encoding: header.encoding,
            segments,
            dynamic,
        }))
    }

    fn segment_facts(&mut self, encoding: ElfEncoding, segments: &[ProgramHeader]) {
        let bytes = self.held.position;
        for segment in segments {
            let end = segment.p_offset.saturating_add(segment.p_filesz);
            if segment.p_type == abi::PT_LOAD {
                self.facts.loads += 1;
                // Touching a mapped page behind the end of the file raises SIGBUS (mmap(2)).
                if end > bytes {
                    self.truncated("a loaded segment", end, bytes);
                }
            }
            let Some(range) = small_segment(segment) else {
                continue;
            };
            self.lost([range]);
            let content = self.held.get(&range);
            if segment.p_type == abi::PT_INTERP {
                self.facts.interp = Some(tables::until_nul(&content).into());
            } else if let Err(problem) = tables::read_notes(encoding, segment, &content, &mut self.facts) {
                self.problem(problem);
            }
        }
        self.facts.dynamic = dynamic_range(segments).is_some();
        let mut stacks = segments.iter().filter(|segment| segment.p_type == abi::PT_GNU_STACK);
        let stack = stacks.next_back().map(|stack| stack.p_flags);
        // Without the header, the processor's ABI supplement decides (glibc sysdeps/*/stackinfo.h).
        let unsaid = matches!(self.facts.machine, abi::EM_X86_64 | abi::EM_386);
        self.facts.executable_stack = stack.map_or(unsaid, |flags| flags & abi::PF_X != 0);
        let mut dynamic = segments.iter().filter(|segment| segment.p_type == abi::PT_DYNAMIC);
        if dynamic.any(|segment| segment.p_filesz == 0) {
            self.problem(ElfProblem::Unloadable(LoadFault::EmptyDynamic));
        }
        if let Some(fault) = segments.iter().find_map(page_fault) {
            self.problem(ElfProblem::Unloadable(fault));
        }
    }

    fn table_facts(&mut self, layout: &TableLayout) {
        self.lost(layout.dynamic.ranges());
        let flags = layout.dynamic.value(abi::DT_FLAGS).unwrap_or_default();
        let mut storage = layout.segments.iter().filter(|segment| segment.p_type == abi::PT_TLS);
        if flags & abi::DF_STATIC_TLS.cast_unsigned() != 0 {
            self.facts.static_tls = storage.next_back().map_or(0, |segment| segment.p_memsz);
        }
        self.cut_tables(&layout.dynamic);
        // The symbol table of a large library is the slowest part. Skip it if no requested prefix was seen.
        let wants_symbols = self.scanner.saw_symbols();
        let get = |table: DynamicTable| {
            layout
                .dynamic
                .range(table)
                .map(|range| self.held.get(&range))
                .unwrap_or_default()
        };
        let strings = layout.dynamic.range(DynamicTable::Strings);
        let (store, start) = strings.map_or((&self.held.head, 0), |range| self.held.find(&range));
        let length = strings.map_or(0, |range| to_usize(range.bytes));
        let mut names = StringTable::new(store, start, length);
        let facts = &mut self.facts;
        tables::read_strings(&layout.dynamic, &mut names, facts);
        symbol_versions::read_versions(layout.encoding, &layout.dynamic, get, &mut names, facts);
        if wants_symbols {
            let symbols = layout.dynamic.range(DynamicTable::Symbols);
            let pieces = symbols
                .iter()
                .flat_map(|range| self.held.pieces(range, SYMBOLS_AT_ONCE));
            tables::read_symbols(layout.encoding, get, pieces, self.interest, &mut names, facts);
        }
        let versions = symbol_versions::version_names(layout.encoding, &get, &mut names);
        facts.link_symbols = read_link_symbols(layout.encoding, &layout.dynamic, &versions, get).map(Box::new);
        if let Some(problem) = names.problem() {
            self.problem(problem);
        }
        if layout.dynamic.flags_1 & abi::DF_1_NOOPEN.cast_unsigned() != 0 {
            self.problem(ElfProblem::Unloadable(LoadFault::NoOpen));
        }
        self.mention_facts(strings, &AddressSpace::new(&layout.segments));
    }

    /// Records required tables that begin behind the end of the file.
    fn cut_tables(&mut self, dynamic: &DynamicSection) {
        let bytes = self.held.position;
        for table in [DynamicTable::Strings, DynamicTable::Hash, DynamicTable::Relocations] {
            let cut = dynamic
                .range(table)
                .filter(|range| range.bytes > 0 && range.offset >= bytes);
            if let Some(range) = cut {
                self.truncated(range.what, range.offset.saturating_add(1), bytes);
            }
        }
    }

    /// Records the texts found outside the dynamic string table, which is read separately.
    fn mention_facts(&mut self, names: Option<ElfRange>, space: &AddressSpace) {
        let scanner = std::mem::replace(&mut self.scanner, MentionScanner::new(self.interest));
        let in_table = |offset: u64| names.is_some_and(|range| (range.offset..range.end()).contains(&offset));
        let outside = |texts: Vec<(u64, ByteString)>| {
            let outside = texts.into_iter().filter(|(offset, _)| !in_table(*offset));
            let mut seen = BTreeSet::new();
            // File order, because compilers emit the strings of a function in the order of use.
            let texts = outside.map(|(_, text)| text);
            texts.filter(|text| seen.insert(text.clone())).collect()
        };
        let found = scanner.finish();
        let opens = self
            .facts
            .symbols
            .iter()
            .any(|symbol| symbol.role != SymbolRole::Export);
        if opens && self.facts.machine == abi::EM_X86_64 && self.held.head.len() as u64 == self.held.position {
            let whole = found.strings.iter().filter(|(offset, _)| !in_table(*offset));
            let texts = whole.filter_map(|(offset, text)| PathText::new(*offset, text, self.interest));
            self.facts.whole_paths = find_whole_paths(&self.held.head, space, texts.collect());
        }
        self.facts.mentions = outside(found.strings);
        self.facts.fragments = outside(found.parts);
    }
}

impl ElfFacts {
    /// The facts of an object in memory.
    pub fn of_bytes(bytes: &[u8], interest: &NameMatcher) -> Self {
        let mut stream = ElfStream::new(interest, bytes.len());
        stream.push(bytes);
        stream.finish()
    }
}

/// The first fault of a segment that glibc refuses to map, whatever the page size of the machine.
fn page_fault(segment: &ProgramHeader) -> Option<LoadFault> {
    if segment.p_type != abi::PT_LOAD {
        return None;
    }
    if !segment.p_align.is_multiple_of(SMALLEST_PAGE) {
        return Some(LoadFault::AlignmentOffPage);
    }
    let shift = segment.p_vaddr.wrapping_sub(segment.p_offset);
    (!shift.is_multiple_of(SMALLEST_PAGE)).then_some(LoadFault::OffsetOffPage)
}

/// The file range of the dynamic section, taken from its address. The loader uses the last `PT_DYNAMIC` with file
/// content (glibc elf/dl-load.c, "case `PT_DYNAMIC`").
fn dynamic_range(segments: &[ProgramHeader]) -> Option<ElfRange> {
    let mut dynamic = segments.iter().filter(|segment| segment.p_type == abi::PT_DYNAMIC);
    let segment = dynamic
        .clone()
        .rfind(|segment| segment.p_filesz > 0)
        .or(dynamic.next_back())?;
    let place = AddressSpace::new(segments).file_place(segment.p_vaddr);
    let (offset, rest) = place.unwrap_or((segment.p_offset, segment.p_filesz));
    Some(ElfRange {
        what: "the dynamic section",
        offset,
        // The loader ignores the size and reads up to DT_NULL.
        bytes: match segment.p_filesz {
            bytes if bytes < SMALLEST_DYNAMIC => DYNAMIC_BYTES,
            bytes => bytes,
        }
        .min(rest),
    })
}

/// The file offset where a library's code begins, if the headers tell. ld, gold and lld put code behind the tables. If
/// both share a segment, ld uses the first code byte as the entry point. Go's linker puts a program's tables behind the
/// code, so programs are skipped.
fn code_begin(segments: &[ProgramHeader], entry: u64) -> Option<u64> {
    if segments.iter().any(|segment| segment.p_type == abi::PT_INTERP) {
        return None;
    }
    let mut loaded = segments.iter().filter(|segment| segment.p_type == abi::PT_LOAD);
    let code = loaded.find(|segment| segment.p_flags & abi::PF_X != 0)?;
    if code.p_offset > 0 {
        return Some(code.p_offset);
    }
    let place = entry.checked_sub(code.p_vaddr)?;
    (1..code.p_filesz).contains(&place).then_some(place)
}

/// The dynamic section and up to `limit` bytes before it, back to the code or constants. Some versions of patchelf put
/// grown tables there, and each of its runs adds a segment.
fn before_dynamic(segments: &[ProgramHeader], limit: u64) -> Option<ElfRange> {
    let dynamic = dynamic_range(segments)?;
    let fixed = segments
        .iter()
        .filter(|segment| segment.p_type == abi::PT_LOAD && segment.p_flags & abi::PF_W == 0);
    let ends = fixed.map(|segment| segment.p_offset.saturating_add(segment.p_filesz));
    let begin = ends.filter(|end| *end <= dynamic.offset).max().unwrap_or(0);
    let offset = begin.max(dynamic.offset.saturating_sub(limit));
    Some(ElfRange {
        offset,
        bytes: dynamic.end() - offset,
        ..dynamic
    })
}

/// The range of a small segment that is kept whole: interpreter, notes and properties.
fn small_segment(segment: &ProgramHeader) -> Option<ElfRange> {
    let (what, limit) = match segment.p_type {
        // PATH_MAX: the kernel does not start programs with a longer interpreter path (Linux fs/binfmt_elf.c).
        abi::PT_INTERP => ("the interpreter", 4096),
        abi::PT_NOTE | abi::PT_GNU_PROPERTY => ("a note", 64 << 10),
        _ => return None,
    };
    Some(ElfRange {
        what,
        offset: segment.p_offset,
        bytes: segment.p_filesz.min(limit),
    })
}
