//! Whether a loader can map an object and follow its tables (glibc elf/dl-load.c, `_dl_map_object_from_fd`,
//! elf/get-dynamic-info.h, elf/dl-setup_hash.c, elf/dynamic-link.h). What a table holds is asked only as far as
//! it leads on: a relocation may still write anywhere.

use elf::abi;
use elf::endian::EndianParse as _;
use elf::file::Class;
use elf::segment::ProgramHeader;

use super::address_space::{AddressSpace, MemoryUse, PAGE};
use super::load_fault::LoadFault;
use super::range::ElfEncoding;
use super::tables::{self, DynamicSection, DynamicTable};

/// The room that a process has on the processors here (x86-64, and `AArch64` without larger addresses).
const ADDRESSES: u64 = 1 << 47;

/// The zeros behind the bytes of a segment that any machine has memory for.
const ZEROS: u64 = 16 << 30;

/// What is wrong with the program headers, in the order in which the loader meets it.
pub(super) fn segment_faults(segments: &[ProgramHeader], space: &AddressSpace) -> Vec<LoadFault> {
    let loads = || segments.iter().filter(|segment| segment.p_type == abi::PT_LOAD);
    let mut faults: Vec<LoadFault> = loads().filter_map(alignment_fault).take(1).collect();
    // glibc since 2.35 looks at the page alone, and may meet what an older one has stopped at before.
    let shift = |segment: &ProgramHeader| segment.p_vaddr.wrapping_sub(segment.p_offset) & (PAGE - 1);
    faults.extend(
        loads()
            .any(|segment| shift(segment) != 0)
            .then_some(LoadFault::AddressAlignment),
    );
    let empty = |segment: &ProgramHeader| segment.p_type == abi::PT_DYNAMIC && segment.p_filesz == 0;
    faults.extend(segments.iter().any(empty).then_some(LoadFault::EmptyDynamic));
    let span = space.span().filter(|span| *span < ADDRESSES);
    let is_cut = loads().next_back().is_some_and(is_short);
    let is_wild = !space.fits() || space.is_cut || is_cut || loads().any(odd_segment) || share_bytes(segments);
    // glibc reserves room up to the memory of the last segment, and maps the bytes of all (elf/dl-map-segments.h).
    faults.extend((!is_cut && loads().any(is_short)).then_some(LoadFault::ShortMemory));
    let has_room = loads().next().is_none() || span.is_some() && i64::try_from(space.last_offset()).is_ok();
    faults.extend((!has_room && !loads().any(beyond_addresses)).then_some(LoadFault::NoRoom));
    let alignments = loads()
        .map(|segment| segment.p_align)
        .filter(|align| align.is_power_of_two());
    let largest = alignments.max().unwrap_or_default();
    faults.extend((largest.saturating_add(span.unwrap_or_default()) >= ADDRESSES).then_some(LoadFault::NoAlignedRoom));
    faults.extend((space.overlaps() && !loads().any(beyond_addresses)).then_some(LoadFault::Overlap));
    faults.extend(is_wild.then_some(LoadFault::Wild("a loaded segment")));
    faults.extend(segments.iter().filter_map(|segment| wild_segment(segment, space)));
    faults
}

/// Whether a segment ends where no address is: then sums wrap around, and anything may come of it.
fn beyond_addresses(segment: &ProgramHeader) -> bool {
    let data_end = segment.p_vaddr.saturating_add(segment.p_filesz);
    segment.p_vaddr >= ADDRESSES || data_end > ADDRESSES || segment.p_vaddr.checked_add(segment.p_memsz).is_none()
}

/// Whether a segment is as no linker makes one: with zeros behind bytes that may not be written, with more of them than
/// a machine has memory, or with no memory for its bytes.
fn odd_segment(segment: &ProgramHeader) -> bool {
    let zeros = segment.p_memsz.saturating_sub(segment.p_filesz);
    let is_odd = zeros > ZEROS || zeros > 0 && segment.p_flags & abi::PF_W == 0;
    beyond_addresses(segment) || is_odd || segment.p_memsz == 0 && segment.p_filesz > 0
}

/// Whether the memory of a segment ends a page or more before its bytes do.
fn is_short(segment: &ProgramHeader) -> bool {
    segment.p_filesz.saturating_sub(segment.p_memsz) >= PAGE
}

/// Whether two loaded segments have bytes of the file in common, which no linker makes.
fn share_bytes(segments: &[ProgramHeader]) -> bool {
    let loads = segments
        .iter()
        .filter(|segment| segment.p_type == abi::PT_LOAD && segment.p_filesz > 0);
    let mut ranges: Vec<_> = loads.map(|segment| (segment.p_offset, segment.p_filesz)).collect();
    ranges.sort_unstable();
    let mut pairs = ranges.windows(2);
    pairs.any(|pair| matches!(pair, [(start, bytes), (next, _)] if start.saturating_add(*bytes) > *next))
}

/// What glibc until 2.34 says of a segment's alignment.
fn alignment_fault(segment: &ProgramHeader) -> Option<LoadFault> {
    let shift = segment.p_vaddr.wrapping_sub(segment.p_offset);
    match () {
        () if segment.p_align & (PAGE - 1) != 0 => Some(LoadFault::PageAlignment),
        () if shift & segment.p_align.wrapping_sub(1) != 0 => Some(LoadFault::SegmentAlignment),
        () => None,
    }
}

/// A segment that is read, or closed to writing, once the loaded ones are mapped.
fn wild_segment(segment: &ProgramHeader, space: &AddressSpace) -> Option<LoadFault> {
    let (start, bytes) = (segment.p_vaddr, segment.p_memsz);
    let is_read = |bytes| space.holds(start, bytes, MemoryUse::Read);
    let (what, is_there) = match segment.p_type {
        // The loader writes addresses into it, unless it says that it is read-only.
        abi::PT_DYNAMIC if segment.p_flags & abi::PF_W != 0 => {
            let is_there = space.file_place(start).is_some();
            (
                "the dynamic section",
                is_there && space.holds(start, 16, MemoryUse::Write),
            )
        }
        abi::PT_DYNAMIC => ("the dynamic section", is_read(16) && space.file_place(start).is_some()),
        abi::PT_NOTE | abi::PT_GNU_PROPERTY => ("a note", is_read(bytes)),
        abi::PT_PHDR => ("the list of segments", is_read(bytes)),
        abi::PT_TLS if bytes > 0 => {
            let sound = segment.p_filesz <= bytes && (segment.p_align == 0 || segment.p_align.is_power_of_two());
            let fits = segment.p_align < ADDRESSES && bytes < ADDRESSES;
            ("the data of threads", sound && fits && is_read(segment.p_filesz))
        }
        abi::PT_GNU_RELRO => {
            // Whole pages, and none where both ends lie in one (elf/dl-reloc.c, `_dl_protect_relro`).
            let (from, to) = (start & !(PAGE - 1), start.saturating_add(bytes) & !(PAGE - 1));
            let holds = to
                .checked_sub(from)
                .is_some_and(|bytes| space.holds(from, bytes, MemoryUse::Read));
            let is_there = bytes == 0 || holds && space.file_place(start).is_some();
            (
                "the part that is closed to writing",
                is_there && !space.closes_zeros(start, to),
            )
        }
        _ => return None,
    };
    (!is_there).then_some(LoadFault::Wild(what))
}

/// What is wrong with the dynamic section and the places of its tables.
pub(super) fn dynamic_faults(class: Class, dynamic: &DynamicSection, space: &AddressSpace) -> Vec<LoadFault> {
    let mut faults: Vec<LoadFault> = Vec::new();
    faults.extend((!dynamic.has_end).then_some(LoadFault::Wild("the dynamic section")));
    faults.extend(assertions(class, dynamic));
    let no_open = dynamic.flags_1 & DF_1_NOOPEN != 0;
    faults.extend(no_open.then_some(LoadFault::NoOpen));
    faults.extend(wild_tables(dynamic, space).map(LoadFault::Wild));
    faults.extend(wild_relocations(class, dynamic, space).map(LoadFault::Wild));
    faults.extend(wild_functions(dynamic, space).map(LoadFault::Wild));
    faults
}

const DF_1_NOOPEN: u64 = 0x40;

/// What `elf_get_dynamic_info` asserts, for the processors whose relocations have an addend.
fn assertions(class: Class, dynamic: &DynamicSection) -> Option<LoadFault> {
    let differs = |tag: i64, value: u64| dynamic.value(tag).is_some_and(|found| found != value);
    let words = match () {
        // The 32-bit processors have relocations of both kinds and other sizes.
        () if class == Class::ELF32 => return None,
        () if differs(abi::DT_PLTREL, abi::DT_RELA.cast_unsigned()) => "info[DT_PLTREL]->d_un.d_val == DT_RELA",
        () if dynamic.value(abi::DT_RELA).is_some() && differs(abi::DT_RELAENT, 24) => {
            "info[DT_RELAENT]->d_un.d_val == sizeof (ElfW(Rela))"
        }
        () => return None,
    };
    Some(LoadFault::Assertion(words))
}

/// Tables that every library has, and those that belong together.
fn wild_tables(dynamic: &DynamicSection, space: &AddressSpace) -> impl Iterator<Item = &'static str> {
    let value = |tag| dynamic.value(tag);
    let hash = value(abi::DT_GNU_HASH).or(value(abi::DT_HASH));
    let has_versions = value(abi::DT_VERNEED).or(value(abi::DT_VERDEF)).is_some();
    let needed = [
        (DynamicTable::Strings.what(), value(abi::DT_STRTAB), true),
        (DynamicTable::Symbols.what(), value(abi::DT_SYMTAB), true),
        ("the hash table", hash, true),
        (DynamicTable::VersionIndexes.what(), value(abi::DT_VERSYM), has_versions),
        (DynamicTable::VersionNeeds.what(), value(abi::DT_VERNEED), false),
        (DynamicTable::VersionDefinitions.what(), value(abi::DT_VERDEF), false),
    ];
    let wild = needed.into_iter().filter(|(_, place, is_needed)| match place {
        Some(address) => space.file_place(*address).is_none(),
        None => *is_needed,
    });
    wild.map(|(what, _, _)| what)
}

/// Tables of relocations with their sizes, and what they write to for sure.
fn wild_relocations(
    class: Class,
    dynamic: &DynamicSection,
    space: &AddressSpace,
) -> impl Iterator<Item = &'static str> {
    let value = |tag| dynamic.value(tag);
    let places = [
        ("the relocations", abi::DT_RELA, abi::DT_RELASZ),
        ("the relocations", abi::DT_REL, abi::DT_RELSZ),
        ("the relocations", tables::DT_RELR, tables::DT_RELRSZ),
        ("the relocations of functions", abi::DT_JMPREL, abi::DT_PLTRELSZ),
    ];
    let is_wild = move |place: Option<u64>, size: Option<u64>| match (place, size) {
        (Some(address), Some(bytes)) => bytes > 0 && space.file_place(address).is_none_or(|(_, rest)| rest < bytes),
        // The loader asks for the size without looking whether there is one.
        (Some(_), None) => true,
        (None, bytes) => bytes.is_some_and(|bytes| bytes > 0),
    };
    let wild = places
        .into_iter()
        .filter(move |(_, place, size)| is_wild(value(*place), value(*size)));
    let odd_size = [abi::DT_RELASZ, abi::DT_PLTRELSZ].map(|tag| value(tag).is_some_and(|bytes| bytes % 24 != 0));
    let is_uneven = class == Class::ELF64 && odd_size.contains(&true);
    let too_many = value(abi::DT_RELACOUNT).is_some_and(|count| count > value(abi::DT_RELASZ).unwrap_or_default() / 24);
    let halves = value(abi::DT_JMPREL).is_some() != value(abi::DT_PLTREL).is_some()
        || value(abi::DT_RELA).is_some() && value(abi::DT_RELAENT).is_none();
    let got = value(abi::DT_PLTGOT).filter(|_| value(abi::DT_JMPREL).is_some());
    let closed = got.is_some_and(|got| !space.holds(got, 24, MemoryUse::Write));
    let more = [
        halves.then_some("the relocations of functions"),
        (is_uneven || class == Class::ELF64 && too_many).then_some("the relocations"),
        closed.then_some("the table of addresses of functions"),
    ];
    wild.map(|(what, _, _)| what).chain(more.into_iter().flatten())
}

/// The functions that run when an object is loaded and when the process ends.
fn wild_functions(dynamic: &DynamicSection, space: &AddressSpace) -> impl Iterator<Item = &'static str> {
    let one = [abi::DT_INIT, abi::DT_FINI];
    let lists = [
        (abi::DT_INIT_ARRAY, abi::DT_INIT_ARRAYSZ),
        (abi::DT_FINI_ARRAY, abi::DT_FINI_ARRAYSZ),
        // Linkers put it into programs alone, and glibc runs that of whatever is opened (elf/dl-init.c, `_dl_init`).
        (abi::DT_PREINIT_ARRAY, abi::DT_PREINIT_ARRAYSZ),
    ];
    // The shortest, of musl, saves a register, restores it and returns.
    let is_code = |start| {
        let is_there = space.file_place(start).is_some_and(|(_, rest)| rest >= 3);
        is_there && space.holds(start, 1, MemoryUse::Run)
    };
    let is_wild = |tag| dynamic.value(tag).is_some_and(|start| !is_code(start));
    // Their addresses are put there by relocations, so that reading is not enough.
    let is_wild_list = |(place, size)| match (dynamic.value(place), dynamic.value(size)) {
        (Some(start), Some(bytes)) => start % 4 != 0 || !space.holds(start, bytes, MemoryUse::Write),
        (Some(_), None) => place != abi::DT_PREINIT_ARRAY,
        (None, _) => false,
    };
    let wild = one.into_iter().any(is_wild) || lists.into_iter().any(is_wild_list);
    wild.then_some("a function that runs at load").into_iter()
}

/// What is wrong with the start of a `DT_GNU_HASH` or `DT_HASH` table, whose first bytes these are.
pub(super) fn hash_fault(
    encoding: ElfEncoding,
    dynamic: &DynamicSection,
    space: &AddressSpace,
    bytes: &[u8],
) -> Option<LoadFault> {
    let mut at = 0;
    let mut word = || encoding.endian.parse_u32_at(&mut at, bytes).ok().map(u64::from);
    let wild = |address: u64, bytes: u64| {
        (!space.holds(address, bytes, MemoryUse::Read)).then_some(LoadFault::Wild("the hash table"))
    };
    let Some(gnu) = dynamic.value(abi::DT_GNU_HASH) else {
        let address = dynamic.value(abi::DT_HASH)?;
        let (buckets, chains) = (word()?, word()?);
        return wild(address, 8 + 4 * (buckets + chains));
    };
    let (buckets, _bias, filter) = (word()?, word()?, word()?);
    match () {
        () if filter > 0 && !filter.is_power_of_two() => {
            Some(LoadFault::Assertion("(bitmask_nwords & (bitmask_nwords - 1)) == 0"))
        }
        // Without a word of the filter, its index is any of 2^32.
        () if filter == 0 || gnu % 4 != 0 => Some(LoadFault::Wild("the hash table")),
        () => {
            let word_size = if encoding.class == Class::ELF32 { 4 } else { 8 };
            wild(gnu, 16 + word_size * filter + 4 * buckets)
        }
    }
}
