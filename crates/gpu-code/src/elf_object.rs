//! The headers of an ELF object, checked so that the object can be rewritten (System V gABI; Linux `elf.h`).

use crate::object_file::{Checked, ObjectFile, Obstacle, require, u16_at, u32_at, u64_at};
use crate::read_at::ReadAt;

pub(crate) const PT_LOAD: u32 = 1;
pub(crate) const PT_INTERP: u32 = 3;
pub(crate) const PT_PHDR: u32 = 6;
const PT_GNU_STACK: u32 = 0x6474_e551;
pub(crate) const PF_X: u32 = 1;
pub(crate) const PF_W: u32 = 2;

pub(crate) const SHT_PROGBITS: u32 = 1;
pub(crate) const SHT_SYMTAB: u32 = 2;
pub(crate) const SHT_RELA: u32 = 4;
const SHT_NOBITS: u32 = 8;
pub(crate) const SHT_DYNSYM: u32 = 11;
pub(crate) const SHT_RELR: u32 = 19;
const SHF_WRITE: u64 = 1;
pub(crate) const SHF_ALLOC: u64 = 2;
pub(crate) const SHF_EXECINSTR: u64 = 4;

pub(crate) const ET_DYN: u16 = 3;
const EM_X86_64: u16 = 62;
const EM_AARCH64: u16 = 183;

pub(crate) const FILE_HEADER: usize = 64;
pub(crate) const SEGMENT: usize = 56;
pub(crate) const SECTION: usize = 64;
/// The most bytes of the section names.
const NAME_BYTES: u64 = 1 << 20;
/// The most bytes of an object. A layer may hold no larger one that is known.
const OBJECT_BYTES: u64 = 4 << 30;
/// The size of the smallest page.
pub(crate) const PAGE: u64 = 4096;

/// One program header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segment {
    pub kind: u32,
    pub flags: u32,
    pub offset: u64,
    pub address: u64,
    pub physical: u64,
    pub file_bytes: u64,
    pub memory_bytes: u64,
    pub align: u64,
}

impl Segment {
    fn read(row: &[u8; SEGMENT]) -> Self {
        Self {
            kind: u32_at(row, 0),
            flags: u32_at(row, 4),
            offset: u64_at(row, 8),
            address: u64_at(row, 16),
            physical: u64_at(row, 24),
            file_bytes: u64_at(row, 32),
            memory_bytes: u64_at(row, 40),
            align: u64_at(row, 48),
        }
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.kind.to_le_bytes());
        out.extend(self.flags.to_le_bytes());
        for number in [
            self.offset,
            self.address,
            self.physical,
            self.file_bytes,
            self.memory_bytes,
            self.align,
        ] {
            out.extend(number.to_le_bytes());
        }
    }

    /// Whether the segment has all bytes of a range of the file, at the same distance from their address.
    fn maps(&self, offset: u64, bytes: u64, address: u64) -> bool {
        let end = offset.checked_add(bytes);
        self.kind == PT_LOAD
            && self.offset <= offset
            && end.is_some_and(|end| end <= self.file_end())
            && address.wrapping_sub(offset) == self.address.wrapping_sub(self.offset)
    }

    /// The end of its bytes in the file. Checked when the headers are read.
    pub(crate) fn file_end(&self) -> u64 {
        self.offset.saturating_add(self.file_bytes)
    }

    /// Its end in memory.
    pub(crate) fn memory_end(&self) -> u64 {
        self.address.saturating_add(self.memory_bytes)
    }
}

/// One section header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Section {
    pub name: Vec<u8>,
    pub kind: u32,
    pub flags: u64,
    pub address: u64,
    pub offset: u64,
    pub bytes: u64,
}

impl Section {
    /// Whether it has bytes in the file.
    pub(crate) fn has_content(&self) -> bool {
        !matches!(self.kind, 0 | SHT_NOBITS) && self.bytes > 0
    }

    pub(crate) fn is_loaded(&self) -> bool {
        self.flags & SHF_ALLOC != 0
    }

    /// The addresses of its bytes.
    pub(crate) fn has_address(&self, address: u64) -> bool {
        address.wrapping_sub(self.address) < self.bytes
    }
}

/// The checked headers of an object.
#[derive(Debug)]
pub(crate) struct ElfObject {
    pub kind: u16,
    /// The relocation that adds the load address: `R_X86_64_RELATIVE`, `R_AARCH64_RELATIVE`.
    pub relative: u32,
    pub segments_at: u64,
    pub sections_at: u64,
    pub segments: Vec<Segment>,
    pub sections: Vec<Section>,
}

impl ElfObject {
    /// Reads the headers.
    ///
    /// Errors: A header that is damaged, or one that no linker of today writes.
    pub(crate) fn read<R: ReadAt + ?Sized>(file: &ObjectFile<'_, R>) -> Checked<Self> {
        require(file.bytes >= FILE_HEADER as u64, "no ELF object")?;
        require(file.bytes <= OBJECT_BYTES, "larger than 4 GiB")?;
        let header: [u8; FILE_HEADER] = file.array(0)?;
        require(
            header.starts_with(b"\x7fELF\x02\x01"),
            "not a 64-bit little-endian object",
        )?;
        let relative = match u16_at(&header, 18) {
            EM_X86_64 => 8,
            EM_AARCH64 => 1027,
            _ => return Err(Obstacle::Unexpected("a processor other than x86-64 and aarch64")),
        };
        let (segment_count, section_count) = (u16_at(&header, 56), u16_at(&header, 60));
        let is_usual = u16_at(&header, 54) == 56
            && u16_at(&header, 58) == 64
            && (1..0xfffe).contains(&segment_count)
            && (1..0xff00).contains(&section_count);
        require(is_usual, "header tables of an unusual form")?;
        let (segments_at, sections_at) = (u64_at(&header, 32), u64_at(&header, 40));
        let mut segments = Vec::new();
        file.rows(segments_at, u64::from(segment_count) * SEGMENT as u64, |_, row| {
            segments.push(Segment::read(row));
            Ok(())
        })?;
        let mut rows = Vec::new();
        let size = u64::from(section_count) * SECTION as u64;
        file.rows(sections_at, size, |_, row: &[u8; SECTION]| {
            rows.push((u32_at(row, 0), read_section(row)));
            Ok(())
        })?;
        let Some((_, table)) = rows.get(usize::from(u16_at(&header, 62))) else {
            return Err(Obstacle::Unexpected("no section names"));
        };
        require(table.bytes <= NAME_BYTES, "section names of more than 1 MiB")?;
        let names = file.vec(table.offset, table.bytes)?;
        let sections = rows.into_iter().map(|(at, section)| Section {
            name: name_at(&names, at),
            ..section
        });
        let object = Self {
            kind: u16_at(&header, 16),
            relative,
            segments_at,
            sections_at,
            sections: sections.collect(),
            segments,
        };
        object.check_segments(file)?;
        object.check_sections(file)?;
        Ok(object)
    }

    fn check_segments<R: ReadAt + ?Sized>(&self, file: &ObjectFile<'_, R>) -> Checked<()> {
        for load in self.loads() {
            let is_sound = file.holds(load.offset, load.file_bytes)
                && load.memory_bytes >= load.file_bytes
                && load.align.is_power_of_two()
                && load.address.wrapping_sub(load.offset).is_multiple_of(load.align)
                && load
                    .address
                    .checked_add(load.memory_bytes)
                    .is_some_and(|end| end < 1 << 62);
            require(is_sound, "a damaged PT_LOAD")?;
        }
        let pairs = self.loads().zip(self.loads().skip(1));
        for (one, next) in pairs {
            let is_sorted = one.memory_end() <= next.address && one.file_end() <= next.offset;
            require(is_sorted, "PT_LOADs that overlap or are not in order")?;
        }
        for other in self
            .segments
            .iter()
            .filter(|it| !matches!(it.kind, PT_LOAD | PT_GNU_STACK))
        {
            let is_inside = other.file_bytes == 0 || self.maps(other.offset, other.file_bytes, other.address);
            require(is_inside, "a program header outside all PT_LOADs")?;
        }
        Ok(())
    }

    fn check_sections<R: ReadAt + ?Sized>(&self, file: &ObjectFile<'_, R>) -> Checked<()> {
        for section in self.sections.iter().filter(|section| section.has_content()) {
            require(
                file.holds(section.offset, section.bytes),
                "a section ends behind the file",
            )?;
            let is_mapped = !section.is_loaded() || self.maps(section.offset, section.bytes, section.address);
            require(is_mapped, "a section outside all PT_LOADs")?;
        }
        Ok(())
    }

    fn maps(&self, offset: u64, bytes: u64, address: u64) -> bool {
        self.segments.iter().any(|segment| segment.maps(offset, bytes, address))
    }

    pub(crate) fn loads(&self) -> impl Iterator<Item = &Segment> {
        self.segments.iter().filter(|segment| segment.kind == PT_LOAD)
    }

    /// The section of this name, and its number.
    ///
    /// Errors: Two have it.
    pub(crate) fn section(&self, name: &str) -> Checked<Option<(usize, &Section)>> {
        let mut named = self
            .sections
            .iter()
            .enumerate()
            .filter(|(_, it)| it.name == name.as_bytes());
        let first = named.next();
        require(named.next().is_none(), "two sections of one name")?;
        Ok(first)
    }

    /// The section with the containers: constant data in one `PT_LOAD`, and nothing else overlaps it.
    ///
    /// Errors: There is none, or it is of another form.
    pub(crate) fn code_section(&self) -> Checked<(usize, &Section, usize)> {
        let (number, code) = self.section(".nv_fatbin")?.ok_or(Obstacle::NoCode)?;
        require(code.has_content(), "an empty .nv_fatbin")?;
        let is_constant = code.kind == SHT_PROGBITS && code.flags & (SHF_WRITE | SHF_EXECINSTR) == 0;
        require(is_constant && code.is_loaded(), ".nv_fatbin is not constant data")?;
        let end = code.offset + code.bytes;
        let overlaps =
            |offset: u64, bytes: u64| bytes > 0 && offset < end && code.offset < offset.saturating_add(bytes);
        let others = self
            .sections
            .iter()
            .enumerate()
            .filter(|(other, it)| *other != number && it.has_content());
        let mut ranges: Vec<(u64, u64)> = others.map(|(_, other)| (other.offset, other.bytes)).collect();
        let headers = self.segments.iter().filter(|segment| segment.kind != PT_LOAD);
        ranges.extend(headers.map(|header| (header.offset, header.file_bytes)));
        ranges.push((0, FILE_HEADER as u64));
        ranges.push((self.segments_at, (self.segments.len() * SEGMENT) as u64));
        ranges.push((self.sections_at, (self.sections.len() * SECTION) as u64));
        let is_alone = !ranges.into_iter().any(|(offset, bytes)| overlaps(offset, bytes));
        require(is_alone, "something else overlaps .nv_fatbin")?;
        let segments = self.segments.iter().enumerate();
        let mut holding = segments.filter(|(_, segment)| segment.maps(code.offset, code.bytes, code.address));
        match (holding.next(), holding.next()) {
            (Some((segment, load)), None) if load.flags & PF_W == 0 => Ok((number, code, segment)),
            _ => Err(Obstacle::Unexpected(".nv_fatbin is not in one constant PT_LOAD")),
        }
    }
}

fn read_section(row: &[u8; SECTION]) -> Section {
    Section {
        name: Vec::new(),
        kind: u32_at(row, 4),
        flags: u64_at(row, 8),
        address: u64_at(row, 16),
        offset: u64_at(row, 24),
        bytes: u64_at(row, 32),
    }
}

fn name_at(names: &[u8], at: u32) -> Vec<u8> {
    let rest = usize::try_from(at).ok().and_then(|at| names.get(at..));
    let name = rest.unwrap_or_default().split(|byte| *byte == 0).next();
    name.unwrap_or_default().to_vec()
}
