//! Where the bytes of an object lie once it is mapped (glibc elf/dl-map-segments.h, `_dl_map_segments`).

use elf::abi;
use elf::segment::ProgramHeader;

/// The smallest page of all processors here.
pub(crate) const PAGE: u64 = 4096;
/// The loaded segments that are followed; linkers make four or five, patchelf adds one at each call.
const SEGMENTS: usize = 256;

/// The loaded segments of an object, as they lie in memory relative to its base.
pub(super) struct AddressSpace {
    segments: Vec<MappedSegment>,
}

/// One `PT_LOAD` in whole pages.
#[derive(Clone, Copy)]
struct MappedSegment {
    start: u64,
    /// The end of the bytes of the file.
    data_end: u64,
    /// The end of the pages that are there in the end.
    end: u64,
    /// Where `start` lies in the file.
    offset: u64,
}

impl AddressSpace {
    pub(crate) fn new(segments: &[ProgramHeader]) -> Self {
        let loads = segments.iter().filter(|segment| segment.p_type == abi::PT_LOAD);
        let segments = loads.take(SEGMENTS).map(MappedSegment::new).collect();
        Self { segments }
    }

    /// The segment that an address belongs to: of several, the one that was mapped last.
    fn segment(&self, address: u64) -> Option<&MappedSegment> {
        let mut segments = self.segments.iter();
        segments.rfind(|segment| (segment.start..segment.end).contains(&address))
    }

    /// The place in the file of what lies at an address, with the bytes from there on that lie behind each other in
    /// the file as they do in memory; `None` where nothing of a segment lies.
    pub(crate) fn file_place(&self, address: u64) -> Option<(u64, u64)> {
        let segment = self.segment(address)?;
        let rest = segment.data_end.checked_sub(address).filter(|rest| *rest > 0)?;
        let place = segment.offset.checked_add(address - segment.start)?;
        // patchelf lets the string table of a program grow from a segment of its own into the one behind it.
        let (mut end, mut file_end) = (segment.data_end, place.checked_add(rest)?);
        for next in &self.segments {
            if (next.start, next.offset) == (end, file_end) && next.data_end > end {
                file_end = file_end.saturating_add(next.data_end - end);
                end = next.data_end;
            }
        }
        Some((place, end - address))
    }

    /// The address at which a place of the file lies.
    pub(crate) fn address_of(&self, place: u64) -> Option<u64> {
        let mut segments = self.segments.iter();
        segments.find_map(|segment| {
            let into = place.checked_sub(segment.offset)?;
            let address = segment.start.checked_add(into)?;
            (address < segment.data_end).then_some(address)
        })
    }

    /// The loaded parts of the file, from and to, each with what is added to a place to make it an address.
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
        // Sums of damaged headers may pass 2^64; glibc's wrap, and lead to nowhere just the same.
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

/// The end of the page of the last byte before `address`.
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
    fn a_table_may_go_on_in_the_segment_behind_where_both_lie_behind_each_other_in_the_file() {
        // As patchelf leaves Debian's python3.11 with a longer DT_RPATH.
        let patched = AddressSpace::new(&[load(0, 0x3f_f000, 0x1000), load(0x1000, 0x40_0000, 0x1_e3e8)]);
        assert_eq!(patched.file_place(0x3f_f598), Some((0x598, 0xa68 + 0x1_e3e8)));
        let apart = AddressSpace::new(&[load(0, 0x3f_f000, 0x1000), load(0x2000, 0x40_0000, 0x1_e3e8)]);
        assert_eq!(apart.file_place(0x3f_f598), Some((0x598, 0xa68)));
    }
}
