//! The headers for the loader: file header, program headers, dynamic section.

use super::layout::{Layout, Part, Place};
use super::tables::Tables;
use super::write::{Writer, wide};
use super::{Class, Elf, Endian, Hash, Kind, Linking, Machine, StringPlace};

/// One program header.
pub struct Segment {
    kind: u32,
    flags: u32,
    place: Place,
    align: u64,
}

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const PT_INTERP: u32 = 3;
const PT_NOTE: u32 = 4;
const PT_PHDR: u32 = 6;
const PT_GNU_STACK: u32 = 0x6474_e551;
const PT_GNU_PROPERTY: u32 = 0x6474_e553;
const R: u32 = 4;
const RW: u32 = 6;
const RWX: u32 = 7;

/// The file header.
pub fn header(elf: &Elf, layout: &Layout, segments: u16) -> Vec<u8> {
    let (class, header, segment) = match elf.class {
        Class::Elf32 => (1, 52, 32),
        Class::Elf64 => (2, 64, 56),
    };
    let endian = match elf.endian {
        Endian::Little => 1,
        Endian::Big => 2,
    };
    let kind = match elf.kind {
        Kind::Exec => 2,
        Kind::Dyn => 3,
    };
    let mut out = Writer::new(elf);
    out.raw(b"\x7fELF").raw(&[class, endian, 1]).raw(&[0; 9]);
    out.half(kind).half(elf.machine.number()).word(1);
    out.address(layout.address(Part::Code));
    out.address(layout.place(Part::Segments).offset).address(0);
    out.word(0).half(header).half(segment).half(segments);
    out.half(0).half(0).half(0);
    out.into_bytes()
}

/// The program headers of `elf`. Their number does not depend on the layout.
pub fn segments(elf: &Elf, layout: &Layout) -> Vec<Segment> {
    let at = |kind, part, align| Segment {
        kind,
        flags: R,
        place: layout.place(part),
        align,
    };
    let load = |flags, place| Segment {
        kind: PT_LOAD,
        flags,
        place,
        align: elf.machine.page(),
    };
    let mut all = Vec::new();
    if elf.interp.is_some() {
        all.push(at(PT_PHDR, Part::Segments, 8));
        all.push(at(PT_INTERP, Part::Interp, 1));
    }
    all.push(load(RWX, layout.main));
    if elf.linking == Linking::Dynamic {
        if elf.strings == StringPlace::OwnSegment {
            all.push(load(RW, layout.place(Part::Strings)));
        }
        all.push(Segment {
            flags: RW,
            ..at(PT_DYNAMIC, Part::Dynamic, 8)
        });
    }
    for (nth, note) in elf.notes.iter().enumerate() {
        all.push(at(PT_NOTE, Part::Note(nth), note.align(elf)));
        if note.is_property() {
            all.push(at(PT_GNU_PROPERTY, Part::Note(nth), note.align(elf)));
        }
    }
    let place = Place::default();
    all.push(Segment {
        kind: PT_GNU_STACK,
        flags: RW,
        place,
        align: 16,
    });
    all
}

/// The program header table.
pub fn table(elf: &Elf, segments: &[Segment]) -> Vec<u8> {
    let mut out = Writer::new(elf);
    for Segment {
        kind,
        flags,
        place,
        align,
    } in segments
    {
        out.word(*kind);
        if elf.class == Class::Elf64 {
            out.word(*flags);
        }
        out.address(place.offset).address(place.address).address(place.address);
        out.address(place.bytes).address(place.bytes);
        if elf.class == Class::Elf32 {
            out.word(*flags);
        }
        out.address(*align);
    }
    out.into_bytes()
}

/// The dynamic section.
pub fn dynamic(elf: &Elf, layout: &Layout, tables: &Tables) -> Vec<u8> {
    let address = |part| layout.address(part);
    let mut entries: Vec<(u64, u64)> = Vec::new();
    let names = elf.names.iter().map(|(tag, _)| *tag);
    entries.extend(names.zip(tables.name_offsets.iter().copied()));
    entries.push(match elf.hash {
        Hash::Sysv => (4, address(Part::Hash)),
        Hash::Gnu => (0x6fff_fef5, address(Part::Hash)),
    });
    let symbol_bytes = match elf.class {
        Class::Elf32 => 16,
        Class::Elf64 => 24,
    };
    entries.push((5, address(Part::Strings)));
    entries.push((6, address(Part::Symbols)));
    entries.push((10, wide(tables.strings.len())));
    entries.push((11, symbol_bytes));
    if elf.interp.is_some() {
        entries.push((21, 0)); // DT_DEBUG, which the loader fills in
    }
    if !tables.relocations.is_empty() {
        entries.push((7, address(Part::Relocations)));
        entries.push((8, wide(tables.relocations.len())));
        entries.push((9, 24));
    }
    if !tables.versym.is_empty() {
        entries.push((0x6fff_fff0, address(Part::Versym)));
    }
    if tables.verdef_count > 0 {
        entries.push((0x6fff_fffc, address(Part::Verdef)));
        entries.push((0x6fff_fffd, wide(tables.verdef_count)));
    }
    if tables.verneed_count > 0 {
        entries.push((0x6fff_fffe, address(Part::Verneed)));
        entries.push((0x6fff_ffff, wide(tables.verneed_count)));
    }
    entries.extend(&elf.numbers);
    entries.push((0, 0));
    let mut out = Writer::new(elf);
    for (tag, value) in entries {
        out.address(tag).address(value);
    }
    out.into_bytes()
}

/// The entry code of an executable, which exits with 0; or a function that returns at once.
pub fn code(elf: &Elf) -> &'static [u8] {
    use Machine::{Aarch64, I386, X86_64};
    let runs = elf.interp.is_some() || elf.linking == Linking::Static;
    match (elf.machine, elf.endian, runs) {
        // mov eax, 60; xor edi, edi; syscall
        (X86_64, Endian::Little, true) => b"\xb8\x3c\x00\x00\x00\x31\xff\x0f\x05",
        // mov eax, 1; xor ebx, ebx; int 0x80
        (I386, Endian::Little, true) => b"\xb8\x01\x00\x00\x00\x31\xdb\xcd\x80",
        // mov w8, 93; mov w0, 0; svc 0
        (Aarch64, Endian::Little, true) => b"\xa8\x0b\x80\x52\x00\x00\x80\x52\x01\x00\x00\xd4",
        // ret
        (Aarch64, Endian::Little, false) => b"\xc0\x03\x5f\xd6",
        _ => b"\xc3\xc3\xc3\xc3",
    }
}

impl Machine {
    /// The value of `e_machine`.
    fn number(self) -> u16 {
        match self {
            Self::I386 => 3,
            Self::Ppc64 => 21,
            Self::S390 => 22,
            Self::Arm => 40,
            Self::X86_64 => 62,
            Self::Aarch64 => 183,
            Self::Other(number) => number,
        }
    }

    /// The largest page size of the machine, which segments are aligned to.
    fn page(self) -> u64 {
        match self {
            Self::Aarch64 | Self::Ppc64 | Self::Arm => 0x1_0000,
            _ => 0x1000,
        }
    }
}
