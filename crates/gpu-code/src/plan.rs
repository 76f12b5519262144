//! Plans a smaller object: which entries stay, where their bytes go, and the changed headers.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use crate::choice::PruneTarget;
use crate::container::{ALIGNMENT, CONTAINER_HEADER, CodeContainer, CodeEntry, ContainerHeader, read_containers};
use crate::device_code::DeviceCode;
use crate::elf_object::{
    ET_DYN, ElfObject, PAGE, PF_X, PT_INTERP, PT_PHDR, SECTION, SEGMENT, SHF_EXECINSTR, Section, Segment,
};
use crate::object_file::{Checked, ObjectFile, Obstacle, PIECE, require};
use crate::read_at::ReadAt;
use crate::wrappers::{ContainerPointers, local_symbols};

/// How an object is rewritten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PruneWay {
    /// The kept code moves together, and the file becomes smaller.
    Compact,
    /// The removed code becomes zeros, and the file keeps its size. A compressed layer becomes smaller.
    InPlace,
}

/// A planned object.
#[derive(Debug)]
pub struct PrunePlan {
    /// How it is rewritten.
    pub way: PruneWay,
    /// Why it is rewritten in place.
    pub in_place_because: Option<&'static str>,
    /// The size of the original in bytes.
    pub bytes_before: u64,
    /// The size of the new object in bytes.
    pub bytes_after: u64,
    /// The code of the original.
    pub code_before: DeviceCode,
    /// The code of the new object.
    pub code_after: DeviceCode,
    /// The parts of the new file, in order.
    parts: Vec<FilePart>,
    /// Bytes that differ from these parts, by offset in the new file.
    patches: BTreeMap<u64, Vec<u8>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FilePart {
    /// Bytes of the original.
    Copied {
        offset: u64,
        bytes: u64,
    },
    /// The header of a container.
    Header(ContainerHeader),
    Zeros(u64),
}

/// The containers of an object, and what stays of them.
struct Selection<'a> {
    object: &'a ElfObject,
    /// The section with the containers: its number, itself, and the number of its segment.
    code: (usize, &'a Section, usize),
    containers: Vec<(CodeContainer, Vec<CodeEntry>)>,
    pointers: &'a ContainerPointers,
    /// Whether each container has a pointer.
    all_have_pointers: bool,
}

/// Plans an object with only the code that the GPUs of `target` may load.
///
/// Errors: Why the object stays as it is.
pub fn plan_pruning<R: ReadAt + ?Sized>(
    source: &R,
    target: &PruneTarget,
    way: PruneWay,
) -> Result<PrunePlan, Obstacle> {
    let file = ObjectFile::new(source)?;
    let object = ElfObject::read(&file)?;
    let code = object.code_section()?;
    let pointers = ContainerPointers::read(&file, &object, code.1)?;
    let selection = Selection::new(&file, &object, code, &pointers, target)?;
    if selection.kept_bytes() >= selection.containers.iter().map(|(container, _)| container.bytes).sum() {
        return Err(Obstacle::NoSaving);
    }
    let compact = match way {
        PruneWay::Compact => selection.compact(&file),
        PruneWay::InPlace => Err(Obstacle::Unexpected("it was asked for")),
    };
    match compact {
        Ok(plan) => Ok(plan),
        Err(Obstacle::Io(error)) => Err(Obstacle::Io(error)),
        Err(Obstacle::Unexpected(why)) => Ok(selection.in_place(file.bytes, Some(why))),
        Err(_) => Ok(selection.in_place(file.bytes, Some("less than a page would be saved"))),
    }
}

impl<'a> Selection<'a> {
    fn new<R: ReadAt + ?Sized>(
        file: &ObjectFile<'_, R>,
        object: &'a ElfObject,
        code: (usize, &'a Section, usize),
        pointers: &'a ContainerPointers,
        target: &PruneTarget,
    ) -> Checked<Self> {
        let section = code.1;
        let read = read_containers(file, section.offset, section.bytes)?;
        let address = |container: &CodeContainer| section.address + (container.offset - section.offset);
        let mut targets: BTreeMap<u64, bool> = BTreeMap::new();
        for pointer in pointers.pointers.iter().filter(|it| section.has_address(it.container)) {
            *targets.entry(pointer.container).or_default() |= pointer.is_linked;
        }
        let starts: BTreeSet<u64> = read.iter().map(address).collect();
        let all_known = targets.keys().all(|target| starts.contains(target));
        require(all_known, "a pointer to no container")?;
        let mut all_have_pointers = true;
        let mut containers = Vec::new();
        for container in read {
            let kept = if let Some(is_linked) = targets.get(&address(&container)) {
                let choice = target.kept(&container.entries, *is_linked);
                let entries = container.entries.iter().zip(choice);
                entries
                    .filter(|(_, is_kept)| *is_kept)
                    .map(|(entry, _)| *entry)
                    .collect()
            } else {
                all_have_pointers = false;
                container.entries.clone()
            };
            containers.push((container, kept));
        }
        Ok(Self {
            object,
            code,
            containers,
            pointers,
            all_have_pointers,
        })
    }

    /// The bytes of the containers afterwards.
    fn kept_bytes(&self) -> u64 {
        let kept = self
            .containers
            .iter()
            .map(|(_, kept)| kept.iter().map(|entry| entry.bytes).sum::<u64>());
        kept.map(|bytes| bytes + CONTAINER_HEADER as u64).sum()
    }

    /// The parts of one container with the kept entries.
    fn container_parts(kept: &[CodeEntry], parts: &mut Vec<FilePart>) -> u64 {
        let content = kept.iter().map(|entry| entry.bytes).sum();
        parts.push(FilePart::Header(ContainerHeader { content }));
        parts.extend(kept.iter().map(|entry| FilePart::Copied {
            offset: entry.offset,
            bytes: entry.bytes,
        }));
        content + CONTAINER_HEADER as u64
    }

    /// Replaces removed code by zeros.
    fn in_place(&self, bytes: u64, because: Option<&'static str>) -> PrunePlan {
        let (mut parts, mut at) = (Vec::new(), 0);
        for (container, kept) in &self.containers {
            parts.push(copied(at, container.offset));
            let written = Self::container_parts(kept, &mut parts);
            parts.push(FilePart::Zeros(container.bytes - written));
            at = container.offset + container.bytes;
        }
        parts.push(copied(at, bytes));
        self.plan(PruneWay::InPlace, because, (bytes, bytes), parts, BTreeMap::new())
    }

    /// Moves the kept code together and cuts the rest out of the file.
    ///
    /// The section's segment is split in two around the cut. Addresses stay, so only the pointers to containers change.
    fn compact<R: ReadAt + ?Sized>(&self, file: &ObjectFile<'_, R>) -> Checked<PrunePlan> {
        let (object, (number, code, segment)) = (self.object, self.code);
        let is_library = object.kind == ET_DYN && !object.segments.iter().any(|it| it.kind == PT_INTERP);
        require(is_library, "it is a program")?;
        require(self.all_have_pointers, "a container has no pointer")?;
        require(!self.pointers.has_packed_relocations, "its relocations are packed")?;
        let segment = object.segments.get(segment).ok_or(Obstacle::NoCode)?;
        require(
            segment.file_bytes == segment.memory_bytes,
            "the PT_LOAD of .nv_fatbin has zeroed memory",
        )?;
        let mut parts = vec![copied(0, code.offset)];
        let mut moved = BTreeMap::new();
        let mut at = code.offset;
        for (container, kept) in &self.containers {
            moved.insert(
                code.address + (container.offset - code.offset),
                code.address + (at - code.offset),
            );
            at += Self::container_parts(kept, &mut parts);
        }
        let code_end = at;
        let headers_at = self.place_of_headers(&mut at);
        let align = object.loads().map(|load| load.align).fold(PAGE, u64::max);
        let hole = FileHole {
            start: at.next_multiple_of(align),
            end: (code.offset + code.bytes) / align * align,
        };
        // A hole of no page, or none at all.
        if hole.end <= hole.start {
            return Err(Obstacle::NoSaving);
        }
        let section_end = code.offset + code.bytes;
        parts.push(FilePart::Zeros(hole.start - code_end));
        parts.push(FilePart::Zeros(section_end - hole.end));
        parts.push(copied(section_end, file.bytes));
        let mut patches = BTreeMap::new();
        for pointer in &self.pointers.pointers {
            if let Some(address) = moved.get(&pointer.container) {
                patches.insert(hole.moved(pointer.slot), address.to_le_bytes().to_vec());
            }
        }
        for (slot, value) in local_symbols(file, object, number)? {
            let inside = code.address..code.address + (code_end - code.offset);
            let stays = if inside.contains(&value) { value } else { code.address };
            let value = moved.get(&value).copied().unwrap_or(stays);
            patches.insert(hole.moved(slot), value.to_le_bytes().to_vec());
        }
        self.patch_headers(file, headers_at, hole, code_end, &mut patches)?;
        let bytes = (file.bytes, file.bytes - hole.bytes());
        Ok(self.plan(PruneWay::Compact, None, bytes, parts, patches))
    }

    /// The offset of the program headers, one more than before. They stay if the next section leaves room; otherwise
    /// they go behind the code, which ends at `end`.
    fn place_of_headers(&self, end: &mut u64) -> u64 {
        let object = self.object;
        let used = (object.segments.len() * SEGMENT) as u64;
        let behind = object
            .sections
            .iter()
            .filter(|it| it.has_content() && it.offset >= object.segments_at + used);
        let next = behind
            .map(|section| section.offset)
            .chain([self.code.1.offset, object.sections_at])
            .filter(|offset| *offset >= object.segments_at + used)
            .min();
        if next.is_some_and(|next| object.segments_at + used + SEGMENT as u64 <= next) {
            return object.segments_at;
        }
        let at = end.next_multiple_of(ALIGNMENT);
        *end = at + used + SEGMENT as u64;
        at
    }

    /// The changed file header, program headers and section headers.
    fn patch_headers<R: ReadAt + ?Sized>(
        &self,
        file: &ObjectFile<'_, R>,
        headers_at: u64,
        hole: FileHole,
        code_end: u64,
        patches: &mut BTreeMap<u64, Vec<u8>>,
    ) -> Checked<()> {
        let (object, (number, code, _)) = (self.object, self.code);
        let segments = self.new_segments(headers_at, hole);
        let mut segment_table = Vec::new();
        for segment in &segments {
            segment.write(&mut segment_table);
        }
        if headers_at != object.segments_at {
            patches.insert(object.segments_at, vec![0; object.segments.len() * SEGMENT]);
        }
        patches.insert(headers_at, segment_table);
        let mut table = file.vec(object.sections_at, (object.sections.len() * SECTION) as u64)?;
        for (at, (row, section)) in table
            .as_chunks_mut::<SECTION>()
            .0
            .iter_mut()
            .zip(&object.sections)
            .enumerate()
        {
            let (offset, bytes) = if at == number {
                (section.offset, code_end - code.offset)
            } else {
                (hole.moved(section.offset), section.bytes)
            };
            let (_, fields) = row.split_at_mut(24);
            let (offset_field, rest) = fields.split_at_mut(8);
            offset_field.copy_from_slice(&offset.to_le_bytes());
            rest.split_at_mut(8).0.copy_from_slice(&bytes.to_le_bytes());
        }
        patches.insert(hole.moved(object.sections_at), table);
        let offsets = [headers_at, hole.moved(object.sections_at)];
        patches.insert(32, offsets.iter().flat_map(|offset| offset.to_le_bytes()).collect());
        let count = u16::try_from(segments.len()).unwrap_or(u16::MAX);
        patches.insert(56, count.to_le_bytes().to_vec());
        Ok(())
    }

    fn new_segments(&self, headers_at: u64, hole: FileHole) -> Vec<Segment> {
        let (object, (_, code, split)) = (self.object, self.code);
        let mut segments = Vec::new();
        for (number, segment) in object.segments.iter().enumerate() {
            if number != split {
                segments.push(*segment);
                continue;
            }
            let first = hole.start - segment.offset;
            segments.push(Segment {
                file_bytes: first,
                memory_bytes: first,
                ..*segment
            });
            let gone = hole.end - segment.offset;
            let rest = segment.file_bytes - gone;
            let runs =
                |it: &Section| it.flags & SHF_EXECINSTR != 0 && (hole.end..segment.file_end()).contains(&it.offset);
            let has_code = object.sections.iter().any(runs);
            if rest > 0 {
                segments.push(Segment {
                    flags: if has_code { segment.flags } else { segment.flags & !PF_X },
                    // The hole is not moved yet: this is its end in the original.
                    offset: hole.end,
                    address: segment.address + gone,
                    physical: segment.physical.wrapping_add(gone),
                    file_bytes: rest,
                    memory_bytes: rest,
                    ..*segment
                });
            }
        }
        let bytes = (segments.len() * SEGMENT) as u64;
        for segment in &mut segments {
            if segment.kind == PT_PHDR {
                let address = if headers_at == object.segments_at {
                    segment.address
                } else {
                    code.address + (headers_at - code.offset)
                };
                (segment.offset, segment.address, segment.physical) = (headers_at, address, address);
                (segment.file_bytes, segment.memory_bytes) = (bytes, bytes);
            } else {
                segment.offset = hole.moved(segment.offset);
            }
        }
        segments
    }

    fn plan(
        &self,
        way: PruneWay,
        in_place_because: Option<&'static str>,
        (bytes_before, bytes_after): (u64, u64),
        parts: Vec<FilePart>,
        patches: BTreeMap<u64, Vec<u8>>,
    ) -> PrunePlan {
        let mut codes = [DeviceCode::default(), DeviceCode::default()];
        let [code_before, code_after] = &mut codes;
        for (container, kept) in &self.containers {
            code_before.add(container.entries.iter().map(|entry| (entry.kind, entry.bytes)));
            code_after.add(kept.iter().map(|entry| (entry.kind, entry.bytes)));
        }
        let [code_before, code_after] = codes;
        PrunePlan {
            way,
            in_place_because,
            bytes_before,
            bytes_after,
            code_before,
            code_after,
            parts,
            patches,
        }
    }
}

fn copied(from: u64, to: u64) -> FilePart {
    FilePart::Copied {
        offset: from,
        bytes: to.saturating_sub(from),
    }
}

/// The bytes that are cut out of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileHole {
    start: u64,
    end: u64,
}

impl FileHole {
    fn bytes(self) -> u64 {
        self.end - self.start
    }

    /// The new offset of something behind or before the hole.
    fn moved(self, offset: u64) -> u64 {
        if offset >= self.end {
            offset - self.bytes()
        } else {
            offset
        }
    }
}

impl PrunePlan {
    /// Writes the new object.
    ///
    /// Errors: An error of `source` or `out`.
    pub fn write<R: ReadAt + ?Sized>(&self, source: &R, out: &mut dyn Write) -> io::Result<()> {
        let mut out = PatchedWriter {
            out,
            position: 0,
            patches: &self.patches,
        };
        let mut buffer = Vec::new();
        for part in &self.parts {
            match *part {
                FilePart::Header(header) => {
                    buffer.clear();
                    buffer.extend(header.bytes());
                    out.write(&mut buffer)?;
                }
                FilePart::Zeros(bytes) => {
                    in_pieces(bytes, |_, n| {
                        buffer.clear();
                        buffer.resize(n, 0);
                        out.write(&mut buffer)
                    })?;
                }
                FilePart::Copied { offset, bytes } => in_pieces(bytes, |at, n| {
                    buffer.resize(n, 0);
                    source.read_exact_at(&mut buffer, offset + at)?;
                    out.write(&mut buffer)
                })?,
            }
        }
        Ok(())
    }
}

/// Calls `step` with offset and size of each piece of a range.
fn in_pieces(bytes: u64, mut step: impl FnMut(u64, usize) -> io::Result<()>) -> io::Result<()> {
    let mut at = 0;
    while at < bytes {
        let piece = PIECE.min(bytes - at);
        step(at, usize::try_from(piece).unwrap_or_default())?;
        at += piece;
    }
    Ok(())
}

/// Writes a file in order, with patches.
struct PatchedWriter<'a> {
    out: &'a mut dyn Write,
    position: u64,
    patches: &'a BTreeMap<u64, Vec<u8>>,
}

impl PatchedWriter<'_> {
    /// Writes the next bytes after changing those that have a patch.
    fn write(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        let end = self.position + bytes.len() as u64;
        let before = self.patches.range(..self.position).rev().take_while(|(at, patch)| {
            // Patches do not overlap, so only the last one before this piece may reach into it.
            **at + patch.len() as u64 > self.position
        });
        for (at, patch) in before.chain(self.patches.range(self.position..end)) {
            for (place, byte) in (*at..).zip(patch) {
                let place = place
                    .checked_sub(self.position)
                    .and_then(|place| usize::try_from(place).ok());
                if let Some(target) = place.and_then(|place| bytes.get_mut(place)) {
                    *target = *byte;
                }
            }
        }
        self.out.write_all(bytes)?;
        self.position = end;
        Ok(())
    }
}
