//! Compares a written object with its original, and repeats the decision.
//!
//! It compares what the loader maps, address by address, so it does not depend on how the file was rewritten.

use std::collections::BTreeMap;

use crate::choice::PruneTarget;
use crate::container::{CONTAINER_HEADER, CodeContainer, read_container};
use crate::elf_object::{
    ElfObject, FILE_HEADER, PF_X, PT_LOAD, PT_PHDR, SECTION, SEGMENT, SHF_EXECINSTR, SHT_SYMTAB, Section, Segment,
};
use crate::object_file::{Checked, ObjectFile, Obstacle, PIECE, require};
use crate::read_at::ReadAt;
use crate::wrappers::ContainerPointers;

/// Checks that `pruned` is `original` without some code that no GPU of `target` needs.
///
/// Errors: The first difference that was not meant, or an object that cannot be read.
pub fn verify_pruned<A, B>(original: &A, pruned: &B, target: &PruneTarget) -> Result<(), Obstacle>
where
    A: ReadAt + ?Sized,
    B: ReadAt + ?Sized,
{
    let before = JudgedObject::read(original)?;
    let after = JudgedObject::read(pruned)?;
    same_headers(&before.object, &after.object)?;
    same_memory(&before, &after)?;
    same_sections(&before, &after)?;
    same_code(&before, &after, target)
}

/// An object with its pointers.
struct JudgedObject<'a, R: ?Sized> {
    file: ObjectFile<'a, R>,
    object: ElfObject,
    code: Section,
    pointers: ContainerPointers,
}

impl<'a, R: ReadAt + ?Sized> JudgedObject<'a, R> {
    fn read(source: &'a R) -> Checked<Self> {
        let file = ObjectFile::new(source)?;
        let object = ElfObject::read(&file)?;
        let code = object.code_section()?.1.clone();
        let pointers = ContainerPointers::read(&file, &object, &code)?;
        Ok(Self {
            file,
            object,
            code,
            pointers,
        })
    }

    /// The segment with the file bytes of an address.
    fn segment_at(&self, address: u64) -> Checked<&Segment> {
        let mut loads = self.object.loads();
        loads
            .find(|load| address.wrapping_sub(load.address) < load.file_bytes)
            .ok_or(Obstacle::Unexpected("an address is no longer mapped"))
    }

    /// The container at an address.
    fn container(&self, address: u64) -> Checked<CodeContainer> {
        let segment = self.segment_at(address)?;
        read_container(
            &self.file,
            segment.offset + (address - segment.address),
            segment.file_end(),
        )
    }
}

/// All program headers but `PT_LOAD` and `PT_PHDR` are the same in memory, and the image has the same end.
fn same_headers(before: &ElfObject, after: &ElfObject) -> Checked<()> {
    let [old, new] = [before, after].map(|object| {
        let others = object
            .segments
            .iter()
            .filter(|it| !matches!(it.kind, PT_LOAD | PT_PHDR));
        others.map(|it| (it.kind, it.flags, it.address, it.file_bytes, it.memory_bytes))
    });
    require(old.eq(new), "a program header differs")?;
    let [old_end, new_end] = [before, after].map(|object| object.loads().map(Segment::memory_end).max());
    require(old_end == new_end, "the end of the image differs")
}

/// The same bytes and rights at each address, without headers, code and pointers to it.
fn same_memory<A, B>(before: &JudgedObject<'_, A>, after: &JudgedObject<'_, B>) -> Checked<()>
where
    A: ReadAt + ?Sized,
    B: ReadAt + ?Sized,
{
    let skipped = changed_ranges(before, &after.object);
    for load in before.object.loads() {
        let end = load.address + load.file_bytes;
        let mut address = load.address;
        while address < end {
            // The last range that begins here or before. Ranges do not overlap in a sound object.
            if let Some((_, stop)) = skipped
                .range(..=address)
                .next_back()
                .filter(|(_, stop)| **stop > address)
            {
                address = *stop;
                continue;
            }
            let next = skipped.range(address..).next().map_or(end, |(start, _)| *start);
            let now = after.segment_at(address)?;
            require(now.flags | PF_X == load.flags | PF_X, "memory has other rights")?;
            require(now.flags & PF_X <= load.flags & PF_X, "memory became executable")?;
            let stop = end.min(next).min(now.address + now.file_bytes);
            let old = (before, load.offset + (address - load.address));
            let new = (after, now.offset + (address - now.address));
            require(
                same_bytes(old, new, stop - address)?,
                "bytes outside the GPU code differ",
            )?;
            address = stop;
        }
    }
    for section in &before.object.sections {
        if section.flags & SHF_EXECINSTR == 0 || !section.has_content() || !section.is_loaded() {
            continue;
        }
        let executable_before = before.segment_at(section.address)?.flags & PF_X;
        let executable_now = after.segment_at(section.address)?.flags & PF_X;
        require(executable_before == executable_now, "code is no longer executable")?;
    }
    Ok(())
}

/// The ranges of addresses that may differ: start and end.
fn changed_ranges<R: ReadAt + ?Sized>(before: &JudgedObject<'_, R>, after: &ElfObject) -> BTreeMap<u64, u64> {
    let object = &before.object;
    let mut ranges = BTreeMap::from([(before.code.address, before.code.address + before.code.bytes)]);
    // A longer table in the same place, or one that moved into the range of the code.
    let is_extended = after.segments_at == object.segments_at;
    let rows = if is_extended {
        after.segments.len()
    } else {
        object.segments.len()
    };
    let segments = (rows * SEGMENT) as u64;
    let sections = (object.sections.len() * SECTION) as u64;
    let mut files = vec![
        (0, FILE_HEADER as u64),
        (object.segments_at, segments),
        // patchelf may put the section headers into a segment.
        (object.sections_at, sections),
    ];
    files.extend(before.pointers.pointers.iter().map(|pointer| (pointer.slot, 8)));
    for (offset, bytes) in files {
        let mut loads = object.loads();
        if let Some(load) = loads.find(|load| (load.offset..load.file_end()).contains(&offset)) {
            let start = load.address + (offset - load.offset);
            ranges.insert(start, start + bytes);
        }
    }
    ranges
}

/// Sections that are not loaded have the same bytes, such as names and debug data. Symbols may move.
fn same_sections<A, B>(before: &JudgedObject<'_, A>, after: &JudgedObject<'_, B>) -> Checked<()>
where
    A: ReadAt + ?Sized,
    B: ReadAt + ?Sized,
{
    let (old, new) = (&before.object.sections, &after.object.sections);
    require(old.len() == new.len(), "a section is missing")?;
    for (old, new) in old.iter().zip(new) {
        let has_same_header = (&old.name, old.kind, old.flags, old.address)
            == (&new.name, new.kind, new.flags, new.address)
            && (old.bytes == new.bytes || old.name == before.code.name);
        require(has_same_header, "a section header differs")?;
        let is_compared = old.has_content() && !old.is_loaded() && old.kind != SHT_SYMTAB;
        let is_same = !is_compared || same_bytes((before, old.offset), (after, new.offset), old.bytes)?;
        require(is_same, "a section differs")?;
    }
    Ok(())
}

/// Behind each pointer, the entries are a part of the original ones, in order, and the decision is right.
fn same_code<A, B>(before: &JudgedObject<'_, A>, after: &JudgedObject<'_, B>, target: &PruneTarget) -> Checked<()>
where
    A: ReadAt + ?Sized,
    B: ReadAt + ?Sized,
{
    let (old, new) = (&before.pointers.pointers, &after.pointers.pointers);
    require(old.len() == new.len(), "a pointer is missing")?;
    for (old, new) in old.iter().zip(new) {
        require(old.record == new.record, "a pointer is elsewhere")?;
        if !before.code.has_address(old.container) {
            require(old.container == new.container, "a pointer to other code differs")?;
            continue;
        }
        let (old_code, new_code) = (before.container(old.container)?, after.container(new.container)?);
        let mut rest = old_code.entries.iter();
        for entry in &new_code.entries {
            let mut found = false;
            // Each entry is the next equal one of the original.
            for candidate in rest
                .by_ref()
                .filter(|it| it.kind == entry.kind && it.bytes == entry.bytes)
            {
                found = same_bytes((before, candidate.offset), (after, entry.offset), entry.bytes)?;
                if found {
                    break;
                }
            }
            require(found, "an entry differs")?;
        }
        target.check(&old_code.entries, &new_code.entries)?;
        let is_header_only = new_code.bytes == CONTAINER_HEADER as u64;
        require(old_code.entries.is_empty() || !is_header_only, "a container is empty")?;
    }
    Ok(())
}

/// Whether two places have the same bytes.
fn same_bytes<A, B>(
    (before, old): (&JudgedObject<'_, A>, u64),
    (after, new): (&JudgedObject<'_, B>, u64),
    bytes: u64,
) -> Checked<bool>
where
    A: ReadAt + ?Sized,
    B: ReadAt + ?Sized,
{
    let mut at = 0;
    while at < bytes {
        let piece = PIECE.min(bytes - at);
        if before.file.vec(old + at, piece)? != after.file.vec(new + at, piece)? {
            return Ok(false);
        }
        at += piece;
    }
    Ok(true)
}
