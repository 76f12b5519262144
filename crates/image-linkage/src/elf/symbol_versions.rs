//! Reads the symbol version tables as the loader does (glibc elf/dl-version.c): along their chains, ignoring the
//! counts.

use std::borrow::Cow;

use elf::endian::EndianParse as _;
use elf::{ParseError, abi};

use super::facts::{ByteString, ElfFacts, NeededVersion, VersionNeed};
use super::range::ElfEncoding;
use super::string_table::StringTable;
use super::tables::{DynamicSection, DynamicTable};

/// The maximum version names of one object. libc has the most, about fifty.
const VERSIONS: usize = 8_192;

/// An entry of a chain. Its words have a different meaning in each table.
struct ChainEntry {
    at: usize,
    /// The first four half words; only `Verdef` uses them.
    halves: [u16; 4],
    /// The words behind byte 4 of `Verneed`, or byte 8 of `Verdef`.
    words: [u32; 3],
}

/// A version table to read.
struct VersionTable<'b> {
    encoding: ElfEncoding,
    bytes: &'b [u8],
    /// The offset of the words in an entry: 4 in `Verneed`, 8 in `Verdef`.
    words: usize,
}

impl VersionTable<'_> {
    fn entry(&self, at: usize) -> Option<ChainEntry> {
        let endian = self.encoding.endian;
        // Parsing moves a place to the next number.
        let (mut half, mut word) = (at, at.checked_add(self.words)?);
        let mut halves = [0; 4];
        for number in &mut halves {
            *number = endian.parse_u16_at(&mut half, self.bytes).ok()?;
        }
        let mut words = [0; 3];
        for number in &mut words {
            *number = endian.parse_u32_at(&mut word, self.bytes).ok()?;
        }
        Some(ChainEntry { at, halves, words })
    }

    /// The entries up to the end of the chain, or to one outside the table.
    fn entries(&self, next: impl Fn(&ChainEntry) -> u32) -> Vec<ChainEntry> {
        let mut entries = Vec::new();
        let mut at = Some(0_usize);
        while let Some(place) = at {
            let Some(entry) = self.entry(place).filter(|_| entries.len() < VERSIONS) else {
                break;
            };
            at = match next(&entry) {
                0 => None,
                step => place.checked_add(step as usize),
            };
            entries.push(entry);
        }
        entries
    }
}

/// A `Vernaux` entry. It is read separately, because its half words are at other offsets.
struct NeedAux {
    hash: u32,
    flags: u16,
    index: u16,
    name: u32,
}

/// The needed versions of one file.
fn needed_versions(table: &VersionTable<'_>, need: &ChainEntry, room: usize) -> Vec<NeedAux> {
    let [_, aux, _] = need.words;
    let mut found = Vec::new();
    let mut at = need.at.checked_add(aux as usize);
    while let Some(place) = at
        && found.len() < room
        && let Ok((version, next)) = need_aux(table, place)
    {
        found.push(version);
        at = match next {
            0 => None,
            step => place.checked_add(step as usize),
        };
    }
    found
}

/// The entry at a place, and the distance to the next one.
fn need_aux(table: &VersionTable<'_>, mut at: usize) -> Result<(NeedAux, u32), ParseError> {
    let endian = table.encoding.endian;
    let version = NeedAux {
        hash: endian.parse_u32_at(&mut at, table.bytes)?,
        flags: endian.parse_u16_at(&mut at, table.bytes)?,
        index: endian.parse_u16_at(&mut at, table.bytes)?,
        name: endian.parse_u32_at(&mut at, table.bytes)?,
    };
    Ok((version, endian.parse_u32_at(&mut at, table.bytes)?))
}

/// Reads needed and defined versions.
pub(super) fn read_versions<'a>(
    encoding: ElfEncoding,
    dynamic: &DynamicSection,
    get: impl Fn(DynamicTable) -> Cow<'a, [u8]>,
    names: &mut StringTable<'_>,
    facts: &mut ElfFacts,
) {
    facts.has_verdef = dynamic.value(abi::DT_VERDEF).is_some();
    read_needs(encoding, &get, names, facts);
    read_definitions(encoding, &get, names, facts);
}

fn read_needs<'a>(
    encoding: ElfEncoding,
    get: &impl Fn(DynamicTable) -> Cow<'a, [u8]>,
    names: &mut StringTable<'_>,
    facts: &mut ElfFacts,
) {
    let bytes = get(DynamicTable::VersionNeeds);
    let table = VersionTable {
        encoding,
        bytes: &bytes,
        words: 4,
    };
    let mut room = VERSIONS;
    for need in &table.entries(|need| need.words[2]) {
        let wanted = needed_versions(&table, need, room);
        let [file, ..] = need.words;
        let Some(file) = names.string(u64::from(file)) else {
            continue;
        };
        // Each file counts, too: a chain of files without versions takes as long to read.
        room = room.saturating_sub(wanted.len() + 1);
        let versions = wanted
            .iter()
            .filter_map(|version| needed_version(version, names))
            .collect();
        facts.verneed.push(VersionNeed { file, versions });
    }
}

fn needed_version(version: &NeedAux, names: &mut StringTable<'_>) -> Option<NeededVersion> {
    let name = names.string(u64::from(version.name))?;
    Some(NeededVersion {
        weak: version.flags & abi::VER_FLG_WEAK != 0,
        hash_fits: elf_hash(&name) == version.hash,
        name,
    })
}

fn read_definitions<'a>(
    encoding: ElfEncoding,
    get: &impl Fn(DynamicTable) -> Cow<'a, [u8]>,
    names: &mut StringTable<'_>,
    facts: &mut ElfFacts,
) {
    let bytes = get(DynamicTable::VersionDefinitions);
    let table = VersionTable {
        encoding,
        bytes: &bytes,
        words: 8,
    };
    for definition in &table.entries(|definition| definition.words[2]) {
        let [hash, ..] = definition.words;
        let name = first_name(&table, definition).and_then(|place| names.string(u64::from(place)));
        facts.verdef.extend(name.filter(|name| elf_hash(name) == hash));
    }
}

/// The first name of a definition is its own. The others are its parents.
fn first_name(table: &VersionTable<'_>, definition: &ChainEntry) -> Option<u32> {
    let [_, aux, _] = definition.words;
    let mut at = definition.at.checked_add(aux as usize)?;
    table.encoding.endian.parse_u32_at(&mut at, table.bytes).ok()
}

/// Version indexes of symbols with the offsets of their names: `vna_other` for needed versions, `vd_ndx` for defined
/// ones.
fn indexes<'a>(encoding: ElfEncoding, get: &impl Fn(DynamicTable) -> Cow<'a, [u8]>) -> Vec<(u16, u32)> {
    let needs = VersionTable {
        encoding,
        bytes: &get(DynamicTable::VersionNeeds),
        words: 4,
    };
    let definitions = VersionTable {
        encoding,
        bytes: &get(DynamicTable::VersionDefinitions),
        words: 8,
    };
    let mut found = Vec::new();
    for need in needs.entries(|need| need.words[2]) {
        let versions = needed_versions(&needs, &need, VERSIONS - found.len());
        found.extend(versions.iter().map(|version| (version.index, version.name)));
    }
    for definition in definitions.entries(|definition| definition.words[2]) {
        let [_, _, index, _] = definition.halves;
        found.extend(first_name(&definitions, &definition).map(|name| (index, name)));
    }
    found.truncate(VERSIONS);
    for (index, _) in &mut found {
        // The highest bit marks a hidden version.
        *index &= 0x7fff;
    }
    found
}

/// Maps the version indexes of symbols to names.
pub(super) fn version_names<'a>(
    encoding: ElfEncoding,
    get: &impl Fn(DynamicTable) -> Cow<'a, [u8]>,
    names: &mut StringTable<'_>,
) -> Vec<(u16, ByteString)> {
    let all = indexes(encoding, get).into_iter();
    all.filter_map(|(index, name)| Some((index, names.string(u64::from(name))?)))
        .collect()
}

/// The hash function of the System V ABI ("Hash Table").
pub(super) fn elf_hash(name: &[u8]) -> u32 {
    name.iter().fold(0_u32, |hash, byte| {
        let hash = (hash << 4).wrapping_add(u32::from(*byte));
        let high = hash & 0xf000_0000;
        (hash ^ high >> 24) & !high
    })
}
