//! Lays out the parts of an object, and builds the file.
//!
//! The sizes of the parts do not depend on their addresses. So the parts are built twice: first for their sizes, then
//! with the resulting addresses.

use std::collections::BTreeMap;

use super::write::{half, wide};
use super::{Elf, HeaderPlace, Kind, Linking, StringPlace, program, tables};

/// A part of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    Header,
    Segments,
    Interp,
    Note(usize),
    Symbols,
    Hash,
    Versym,
    Verneed,
    Verdef,
    Relocations,
    Strings,
    Code,
    Rodata,
    Padding,
    Dynamic,
    Got,
}

/// The location of a part.
#[derive(Debug, Clone, Copy, Default)]
pub struct Place {
    pub offset: u64,
    pub address: u64,
    pub bytes: u64,
}

/// The locations of all parts; empty in the first pass.
#[derive(Debug, Default)]
pub struct Layout {
    places: BTreeMap<Part, Place>,
    /// The segment that contains everything, except a relocated string table.
    pub main: Place,
}

impl Layout {
    /// The location of a part; all zero if the part does not exist.
    pub fn place(&self, part: Part) -> Place {
        self.places.get(&part).copied().unwrap_or_default()
    }

    /// The address of a part.
    pub fn address(&self, part: Part) -> u64 {
        self.place(part).address
    }
}

/// The difference between addresses and offsets of the relocated string table; a multiple of any page size.
const PATCH_SHIFT: u64 = 0x20_0000;

/// A part with its alignment and bytes.
type Piece = (Part, u64, Vec<u8>);

/// The bytes of the file.
pub fn build(elf: &Elf) -> Vec<u8> {
    let layout = place(elf, &pieces(elf, &Layout::default()));
    let mut file = Vec::new();
    for (part, _, bytes) in pieces(elf, &layout) {
        let offset = usize::try_from(layout.place(part).offset).expect("the file fits into memory");
        file.resize(offset, 0);
        file.extend_from_slice(&bytes);
    }
    file
}

fn place(elf: &Elf, pieces: &[Piece]) -> Layout {
    let base = match elf.kind {
        Kind::Dyn => 0,
        Kind::Exec => 0x40_0000,
    };
    let mut layout = Layout::default();
    let mut offset = 0_u64;
    for (part, align, bytes) in pieces {
        offset = offset.next_multiple_of(*align);
        let moved = *part == Part::Strings && elf.strings == StringPlace::OwnSegment;
        let shift = if moved { PATCH_SHIFT } else { 0 };
        let place = Place {
            offset,
            address: base + offset + shift,
            bytes: wide(bytes.len()),
        };
        layout.places.insert(*part, place);
        offset += place.bytes;
        if !moved {
            layout.main = Place {
                offset: 0,
                address: base,
                bytes: offset,
            };
        }
    }
    layout
}

/// All parts in the order of the file.
fn pieces(elf: &Elf, layout: &Layout) -> Vec<Piece> {
    let segments = program::segments(elf, layout);
    let headers = (Part::Segments, 8, program::table(elf, &segments));
    let mut pieces = vec![(Part::Header, 1, program::header(elf, layout, half(segments.len())))];
    let mut last = Vec::new();
    match elf.headers {
        HeaderPlace::First => pieces.push(headers),
        HeaderPlace::Last => last.push(headers),
    }
    if let Some(interp) = &elf.interp {
        pieces.push((Part::Interp, 1, [interp, b"\0".as_slice()].concat()));
    }
    for (nth, note) in elf.notes.iter().enumerate() {
        pieces.push((Part::Note(nth), note.align(elf), note.bytes(elf)));
    }
    let plain = vec![
        (Part::Code, 16, program::code(elf).to_vec()),
        (Part::Rodata, 1, rodata(elf)),
        (Part::Padding, 1, vec![0; elf.padding]),
    ];
    match elf.linking {
        Linking::Static => pieces.extend(plain),
        Linking::Dynamic => dynamic(elf, layout, plain, &mut pieces, &mut last),
    }
    pieces.extend(last);
    pieces
}

/// Adds the parts of a dynamically linked object around its code and data.
fn dynamic(elf: &Elf, layout: &Layout, plain: Vec<Piece>, pieces: &mut Vec<Piece>, last: &mut Vec<Piece>) {
    let made = tables::make(elf, layout.address(Part::Code), layout.address(Part::Got));
    let dynamic = program::dynamic(elf, layout, &made);
    pieces.extend([
        (Part::Symbols, 8, made.symbols),
        (Part::Hash, 8, made.hash),
        (Part::Versym, 2, made.versym),
        (Part::Verneed, 4, made.verneed),
        (Part::Verdef, 4, made.verdef),
        (Part::Relocations, 8, made.relocations),
    ]);
    let strings = (Part::Strings, 1, made.strings);
    match elf.strings {
        StringPlace::WithTables => pieces.push(strings),
        StringPlace::OwnSegment => last.push(strings),
    }
    pieces.extend(plain);
    pieces.push((Part::Dynamic, 8, dynamic));
    pieces.push((Part::Got, 8, vec![0; made.got_bytes]));
}

fn rodata(elf: &Elf) -> Vec<u8> {
    let terminated = elf.rodata.iter().map(|text| [text, b"\0".as_slice()].concat());
    terminated.collect::<Vec<_>>().concat()
}
