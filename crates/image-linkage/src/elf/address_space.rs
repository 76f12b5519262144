//! Maps addresses of an object to file offsets (glibc elf/dl-map-segments.h, `_dl_map_segments`).

use elf::abi;
use elf::segment::ProgramHeader;

/// The smallest page size of the supported processors.
pub(crate) const PAGE: u64 = 4096;
/// The maximum number of `PT_LOAD` segments. Linkers write four or five; each patchelf run adds one.
const SEGMENTS: usize = 256;

/// The `PT_LOAD` segments of an object, relative to its load base.
pub(super) struct AddressSpace {
    segments: Vec<MappedSegment>,
}

/// One `PT_LOAD`, rounded to whole pages.
#[derive(Clone, Copy)]
struct MappedSegment {
    start: u64,
    /// The end address of the bytes from the file.
    data_end: u64,
    /// The end address of the last page.
    end: u64,
    /// The file offset of `start`.
    offset: u64,
}

impl AddressSpace {
    pub(crate) fn new(segments: &[ProgramHeader]) -> Self {
        let loads = segments.iter().filter(|segment| segment.p_type == abi::PT_LOAD);
        let segments = loads.take(SEGMENTS).map(MappedSegment::new).collect();
        Self { segments }
    }

    /// The segment that contains an address. The last mapped one wins an overlap.
    fn segment(&self, address: u64) -> Option<&MappedSegment> {
        let mut segments = self.segments.iter();
        segments.rfind(|segment| (segment.start..segment.end).contains(&address))
    }

    /// The file offset of an address, and how many bytes from there on are contiguous both in the file and in memory;
    /// `None` for an unmapped address.
    pub(crate) fn file_place(&self, address: u64) -> Option<(u64, u64)> {
        let segment = self.segment(address)?;
        let rest = segment.data_end.checked_sub(address).filter(|rest| *rest > 0)?;
        let place = segment.offset.checked_add(address - segment.start)?;
        // patchelf can extend a program's string table from its own segment into the next one.
        let (mut end, mut file_end) = (segment.data_end, place.checked_add(rest)?);
        for next in &self.segments {
            if (next.start, next.offset) == (end, file_end) && next.data_end > end {
                file_end = file_end.saturating_add(next.data_end - end);
                end = next.data_end;
            }
        }
        Some((place, end - address))
    }

    /// The address of a file offset.
    pub(crate) fn address_of(&self, place: u64) -> Option<u64> {
        let mut segments = self.segments.iter();
        segments.find_map(|segment| {
            let into = place.checked_sub(segment.offset)?;
            let address = segment.start.checked_add(into)?;
            (address < segment.data_end).then_some(address)
        })
    }

    /// The loaded parts of the file: start and end offset, and the difference between address and offset.
    pub(crate) fn file_parts(&self) -> impl Iterator<Item = (u64, u64, u64)> {
        self.segments.iter().map(|segment| {
            let bytes = segment.data_end.saturating_sub(segment.start);
            let shift = segment.start.wrapping_sub(segment.offset);
            (segment.offset, segment.offset.saturating_add(bytes), shift)
        })
    }
}

impl MappedSegment {
    fn new(segment: &ProgramHeader) -> Self {
        // Sums in damaged headers may exceed 2^64. Saturating them is as useless as glibc's wrapped value, but safe.
        let data_end = segment.p_vaddr.saturating_add(segment.p_filesz);
        let memory_end = segment.p_vaddr.saturating_add(segment.p_memsz);
        Self {
            start: segment.p_vaddr & !(PAGE - 1),
            data_end,
            end: page_up(data_end.max(memory_end)),
            offset: segment.p_offset & !(PAGE - 1),
        }
    }
}

/// Rounds an address up to a page boundary.
fn page_up(address: u64) -> u64 {
    address.checked_next_multiple_of(PAGE).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(offset: u64, address: u64, bytes: u64) -> ProgramHeader {
        ProgramHeader {
            p_type: abi::PT_LOAD,
            p_offset: offset,
            p_vaddr: address,
            p_paddr: address,
            p_filesz: bytes,
            p_memsz: bytes,
            p_flags: abi::PF_R,
            p_align: PAGE,
        }
    }

    #[test]
    fn a_table_may_span_two_segments_that_are_adjacent_in_the_file() {
        // Debian's python3.11 after patchelf lengthened DT_RPATH.
        let patched = AddressSpace::new(&[load(0, 0x3f_f000, 0x1000), load(0x1000, 0x40_0000, 0x1_e3e8)]);
        assert_eq!(patched.file_place(0x3f_f598), Some((0x598, 0xa68 + 0x1_e3e8)));
        let apart = AddressSpace::new(&[load(0, 0x3f_f000, 0x1000), load(0x2000, 0x40_0000, 0x1_e3e8)]);
        assert_eq!(apart.file_place(0x3f_f598), Some((0x598, 0xa68)));
    }
}
