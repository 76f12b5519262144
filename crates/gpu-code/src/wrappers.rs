//! The pointers to containers: records in the section `.nvFatBinSegment`, one for each compiled source file.

use std::collections::BTreeMap;

use crate::elf_object::{ElfObject, SHT_DYNSYM, SHT_RELA, SHT_RELR, SHT_SYMTAB, Section};
use crate::object_file::{Checked, ObjectFile, Obstacle, require, u16_at, u32_at, u64_at};
use crate::read_at::ReadAt;

/// The bytes of a record: magic number, version, pointer to a container, pointer to more of them.
const RECORD: usize = 24;
const RECORD_MAGIC: u32 = 0x4662_43b1;
/// The offset of the pointer in a record.
const POINTER: u64 = 8;
/// The version of a device-linked program (`nvcc -rdc`), whose code may be linked at run time.
const LINKED: u32 = 2;
/// The bytes of a relocation with addend, and of a symbol.
const RELOCATION: usize = 24;
const SYMBOL: usize = 24;

/// One pointer to a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ContainerPointer {
    /// The address of the record.
    pub record: u64,
    /// The file offset of the eight bytes with the container's address: a relocation's addend or the record itself.
    pub slot: u64,
    /// The container's address. It may be outside `.nv_fatbin`.
    pub container: u64,
    /// Whether its code may be linked at run time.
    pub is_linked: bool,
}

/// All pointers of an object.
#[derive(Debug)]
pub(crate) struct ContainerPointers {
    pub pointers: Vec<ContainerPointer>,
    /// Whether relocations are packed in a section whose targets are not read.
    pub has_packed_relocations: bool,
}

impl ContainerPointers {
    /// Reads the pointers of an object with the containers in `code`.
    ///
    /// Errors: A record of an unknown form, or something else that points into `code`.
    pub(crate) fn read<R: ReadAt + ?Sized>(
        file: &ObjectFile<'_, R>,
        object: &ElfObject,
        code: &Section,
    ) -> Checked<Self> {
        let (_, records) = object
            .section(".nvFatBinSegment")?
            .ok_or(Obstacle::Unexpected("no .nvFatBinSegment"))?;
        let addends = read_addends(file, object, code, records)?;
        let mut pointers = Vec::new();
        require(
            records.bytes.is_multiple_of(RECORD as u64),
            "records of an unknown size",
        )?;
        file.rows(records.offset, records.bytes, |at, record: &[u8; RECORD]| {
            let version = u32_at(record, 4);
            let is_known = u32_at(record, 0) == RECORD_MAGIC && matches!(version, 1 | LINKED);
            require(is_known, "a record of an unknown version")?;
            let address = records.address + (at - records.offset);
            let (slot, container) = addends
                .get(&address)
                .copied()
                .unwrap_or((at + POINTER, u64_at(record, 8)));
            pointers.push(ContainerPointer {
                record: address,
                slot,
                container,
                is_linked: version == LINKED,
            });
            Ok(())
        })?;
        let has_packed_relocations = object.sections.iter().any(|section| section.kind == SHT_RELR);
        Ok(Self {
            pointers,
            has_packed_relocations,
        })
    }
}

/// The addends that relocate the records' pointers, by the address of the record: file offset and value.
fn read_addends<R: ReadAt + ?Sized>(
    file: &ObjectFile<'_, R>,
    object: &ElfObject,
    code: &Section,
    records: &Section,
) -> Checked<BTreeMap<u64, (u64, u64)>> {
    let mut addends = BTreeMap::new();
    for section in object
        .sections
        .iter()
        .filter(|section| section.is_loaded() && section.has_content())
    {
        match section.kind {
            SHT_RELA => file.rows(section.offset, section.bytes, |at, row: &[u8; RELOCATION]| {
                let (place, kind, symbol, value) = (u64_at(row, 0), u32_at(row, 8), u32_at(row, 12), u64_at(row, 16));
                require(!code.has_address(place), "a relocation inside .nv_fatbin")?;
                let in_record = place.wrapping_sub(records.address);
                let is_pointer = in_record < records.bytes && in_record % RECORD as u64 == POINTER;
                if in_record < records.bytes {
                    require(kind == object.relative, "a record with an unknown relocation")?;
                }
                if is_pointer {
                    addends.insert(place - POINTER, (at + 16, value));
                } else {
                    let points_there = symbol == 0 && code.has_address(value);
                    require(!points_there, "something else points into .nv_fatbin")?;
                }
                Ok(())
            })?,
            SHT_DYNSYM => file.rows(section.offset, section.bytes, |_, row: &[u8; SYMBOL]| {
                let is_there = u16_at(row, 6) != 0 && code.has_address(u64_at(row, 8));
                require(!is_there, "a dynamic symbol in .nv_fatbin")
            })?,
            _ => {}
        }
    }
    Ok(addends)
}

/// The local symbols of section `number`, each with the file offset of its value.
pub(crate) fn local_symbols<R: ReadAt + ?Sized>(
    file: &ObjectFile<'_, R>,
    object: &ElfObject,
    number: usize,
) -> Checked<Vec<(u64, u64)>> {
    let mut symbols = Vec::new();
    for section in object.sections.iter().filter(|section| section.kind == SHT_SYMTAB) {
        file.rows(section.offset, section.bytes, |at, row: &[u8; SYMBOL]| {
            if usize::from(u16_at(row, 6)) == number {
                symbols.push((at + 8, u64_at(row, 8)));
            }
            Ok(())
        })?;
    }
    Ok(symbols)
}
