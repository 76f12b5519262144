//! Holds, while an object's bytes pass, the few ranges that its facts are read from.
//!
//! The place of each range is known only from another one: the program headers from the header, the dynamic
//! section from the program headers, the tables from the dynamic section. Linkers put the tables first and
//! the dynamic section last, patchelf moves tables behind it, and in a library of 900 MB the two are 850 MB
//! apart. So the start of the file is held, as much of it as goes into a bound of memory, and what lies ahead
//! is caught when it comes. Some patchelf put the string table right before the dynamic section, at the end of a
//! library of 200 MB: behind the start, the rest of the segment with the dynamic section is caught unasked.

use std::collections::BTreeSet;

use elf::abi;
use elf::endian::{AnyEndian, EndianParse as _};
use elf::file::{Class, FileHeader};
use elf::parse::ParsingTable;
use elf::segment::ProgramHeader;

use super::address_space::AddressSpace;
use super::facts::{ByteString, ElfFacts, ElfProblem, SymbolRole};
use super::held_ranges::{HeldRanges, STEP, to_usize};
use super::link_symbol_tables::read_link_symbols;
use super::load_fault::LoadFault;
use super::mentions::{MentionScanner, NameMatcher};
use super::range::{ElfEncoding, ElfRange};
use super::string_table::StringTable;
use super::symbol_versions;
use super::tables::{self, DynamicSection, DynamicTable};
use super::text_uses::{PathText, find_text_uses};

/// Reads one object from a stream.
pub struct ElfStream<'a> {
    interest: &'a NameMatcher,
    scanner: MentionScanner<'a>,
    held: HeldRanges,
    stage: ReadStage,
    facts: ElfFacts,
}

/// The next thing whose place is still unknown.
enum ReadStage {
    Header,
    Segments(ElfHeader),
    Dynamic(ElfHeader, Vec<ProgramHeader>),
    /// All places are known.
    Tables(Box<TableLayout>),
    /// Nothing more can be read.
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

/// The interpreters, notes and properties that are read of one object; real objects have some six.
const SMALL_SEGMENTS: usize = 64;
/// The problems kept of one object.
const PROBLEMS: usize = 32;
/// A dynamic section of fewer bytes has no room for what every one has; of it, this much is read all the same.
const SMALLEST_DYNAMIC: u64 = 48;
const DYNAMIC_BYTES: u64 = 1024;

impl<'a> ElfStream<'a> {
    /// A stream at the start of an object. Its start is held in at most `limit` bytes of memory, and what lies
    /// behind it in twice as many.
    pub fn new(interest: &'a NameMatcher, limit: usize) -> Self {
        Self {
            interest,
            scanner: MentionScanner::new(interest),
            // At least one step, which the headers of every honest object fit into.
            held: HeldRanges::new(limit.max(STEP)),
            stage: ReadStage::Header,
            facts: ElfFacts::default(),
        }
    }

    /// Takes the next bytes of the object.
    pub fn push(&mut self, bytes: &[u8]) {
        for piece in bytes.chunks(STEP) {
            self.held.push(piece);
            self.scanner.push(piece);
            // Places are worked out piece by piece: what is found in one may begin in it, and is held only for two.
            self.advance();
        }
    }

    /// Reads the tables once the last byte has passed.
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
                // The segments are known even so: that one is cut short tells more than the missing table.
                self.segment_facts(header.encoding, &segments);
            }
            ReadStage::Tables(layout) => {
                self.segment_facts(layout.encoding, &layout.segments);
                self.table_facts(&layout);
            }
            ReadStage::Stopped => {}
        }
        self.facts
    }

    fn truncated(&mut self, what: &'static str, end: u64, bytes: u64) {
        self.problem(ElfProblem::Truncated { what, end, bytes });
    }

    /// Records which of the ranges have passed and are not held whole.
    fn lost(&mut self, ranges: impl IntoIterator<Item = ElfRange>) {
        for range in ranges {
            if let Some(problem) = self.held.lost(&range) {
                self.problem(problem);
            }
        }
    }

    fn problem(&mut self, problem: ElfProblem) {
        let problems = &self.facts.problems;
        // A table is asked for in several steps, and a damaged file may have thousands of segments.
        if problems.len() < PROBLEMS && !problems.contains(&problem) {
            self.facts.problems.push(problem);
        }
    }

    /// Goes on as far as the bytes that have passed allow.
    fn advance(&mut self) {
        loop {
            let next = match &self.stage {
                // The longer of the two headers: an object of fewer bytes has nothing to load in either class.
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

    /// Whether what tells the next places has passed; without a dynamic section nothing has to.
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
        // The kernel refuses any other size, and so does ld.so (elf/dl-load.c, `open_verify`).
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

    /// What comes before everything whose size the class decides; it is read also where the identification is odd.
    fn read_kind(&mut self, head: &[u8]) {
        let [_, _, _, _, _, data, ..] = self.facts.ident;
        let endian = if data == abi::ELFDATA2MSB {
            AnyEndian::Big
        } else {
            AnyEndian::Little
        };
        let half = |at: usize| endian.parse_u16_at(&mut at.clone(), head).unwrap_or_default();
        self.facts.kind = half(16);
        self.facts.machine = half(18);
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
                // Surplus notes go, loaded segments stay: they decide whether the object can be mapped at all.
                small += usize::from(small_segment(segment).is_some());
                small_segment(segment).is_none() || small <= SMALL_SEGMENTS
            })
            .collect();
        if small > SMALL_SEGMENTS {
            self.problem(ElfProblem::Malformed { what: "list of notes" });
        }
        // The places of tables are known with the dynamic section only, when the bytes before it have passed.
        // patchelf leaves 26 MB of names there in cuSPARSELt 0.7; half of the room stays for what is asked for by then.
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
            // Nobody misses what is not held of these.
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
                // A page of a mapping that no byte of the file backs is SIGBUS when it is touched (mmap(2)).
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
        // Without the header the stack is as the processor's ABI supplement says (glibc sysdeps/*/stackinfo.h).
        let unsaid = matches!(self.facts.machine, abi::EM_X86_64 | abi::EM_386);
        self.facts.executable_stack = stack.map_or(unsaid, |flags| flags & abi::PF_X != 0);
        let is_empty = |segment: &ProgramHeader| segment.p_type == abi::PT_DYNAMIC && segment.p_filesz == 0;
        if segments.iter().any(is_empty) {
            self.problem(ElfProblem::Unloadable(LoadFault::EmptyDynamic));
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
        // The symbol table of a large library takes longest to read; without a byte of a wanted name it holds none.
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
            tables::read_symbols(layout.encoding, get, self.interest, &mut names, facts);
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

    /// Records the tables that every loader reads and that begin behind the end of the file.
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

    /// The texts found, but for those of the dynamic string table, which are read as what they are.
    fn mention_facts(&mut self, names: Option<ElfRange>, space: &AddressSpace) {
        let scanner = std::mem::replace(&mut self.scanner, MentionScanner::new(self.interest));
        let in_table = |offset: u64| names.is_some_and(|range| (range.offset..range.end()).contains(&offset));
        let outside = |texts: Vec<(u64, ByteString)>| {
            let outside = texts.into_iter().filter(|(offset, _)| !in_table(*offset));
            let mut seen = BTreeSet::new();
            // Compilers keep the strings of a function in the order in which it uses them.
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
            let uses = find_text_uses(&self.held.head, space, texts.collect());
            (self.facts.whole_paths, self.facts.asked_names) = (uses.whole, uses.asked);
        }
        self.facts.mentions = outside(found.strings);
        self.facts.fragments = outside(found.parts);
    }
}

impl ElfFacts {
    /// The facts of a whole object held in memory.
    pub fn of_bytes(bytes: &[u8], interest: &NameMatcher) -> Self {
        let mut stream = ElfStream::new(interest, bytes.len());
        stream.push(bytes);
        stream.finish()
    }
}

/// Where the dynamic section is read: at its address in memory. The loader takes the last one that has bytes in the
/// file (glibc elf/dl-load.c, "case `PT_DYNAMIC`").
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
        // Its size is nothing to the loader, which reads on to DT_NULL.
        bytes: match segment.p_filesz {
            bytes if bytes < SMALLEST_DYNAMIC => DYNAMIC_BYTES,
            bytes => bytes,
        }
        .min(rest),
    })
}

/// Where the code of a library begins in its file, as far as the headers tell: behind its tables, where ld, gold and lld
/// put it. Where it shares a segment with them, ld names its first byte as the entry. Go's linker has the tables of a
/// program behind the code.
fn code_begin(segments: &[ProgramHeader], entry: u64) -> Option<u64> {
    if segments.iter().any(|segment| segment.p_type == abi::PT_INTERP) {
        return None;
    }
    let runs = |segment: &&ProgramHeader| segment.p_type == abi::PT_LOAD && segment.p_flags & abi::PF_X != 0;
    let code = segments.iter().find(runs)?;
    if code.p_offset > 0 {
        return Some(code.p_offset);
    }
    let place = entry.checked_sub(code.p_vaddr)?;
    (1..code.p_filesz).contains(&place).then_some(place)
}

/// The dynamic section and what lies before it in the same loaded segment, of that at most `limit` bytes. It is
/// where some versions of patchelf put the string table when it has to grow.
fn before_dynamic(segments: &[ProgramHeader], limit: u64) -> Option<ElfRange> {
    let dynamic = dynamic_range(segments)?;
    let loaded = segments.iter().find(|segment| {
        let range = ElfRange {
            what: dynamic.what,
            offset: segment.p_offset,
            bytes: segment.p_filesz,
        };
        segment.p_type == abi::PT_LOAD && range.holds(&dynamic)
    })?;
    let offset = loaded.p_offset.max(dynamic.offset.saturating_sub(limit));
    Some(ElfRange {
        offset,
        bytes: dynamic.end() - offset,
        ..dynamic
    })
}

/// The range of a segment that is small and kept whole: the interpreter, notes and properties.
fn small_segment(segment: &ProgramHeader) -> Option<ElfRange> {
    let (what, limit) = match segment.p_type {
        // PATH_MAX: the kernel starts no program with a longer one (Linux fs/binfmt_elf.c).
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
