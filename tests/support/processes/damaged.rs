//! Damage to 64-bit objects, by the places of the gABI's structures.

use super::spec::Damage;

/// `PT_LOAD`, and `PT_DYNAMIC`.
const LOAD: u32 = 1;
const DYNAMIC: u32 = 2;
/// `DT_VERNEED`.
const VERNEED: u64 = 0x6fff_fffe;
/// A tag and a kind of segment that nobody knows.
const UNKNOWN: u64 = 0x6000_0000;

/// Damages an object.
pub fn apply(bytes: &mut Vec<u8>, damage: Damage) {
    let (at, value, size) = match damage {
        Damage::Cut(part) => {
            bytes.truncate(bytes.len() * part / 1000);
            return;
        }
        Damage::LoadAlignment => (last_load(bytes) + 48, 0x1003, 8),
        Damage::LoadAddress => {
            let at = last_load(bytes) + 16;
            (at, read(bytes, at, 8) + 8, 8)
        }
        Damage::LoadKind => (last_load(bytes), UNKNOWN, 4),
        Damage::NoDynamic => (segments(bytes, DYNAMIC)[0], UNKNOWN, 4),
        Damage::NoEntry(tag) => (entry(bytes, tag), UNKNOWN, 8),
        Damage::Entry(tag, value) => (entry(bytes, tag) + 8, value, 8),
        Damage::VersionNext(next) => (versions(bytes) + 12, next.into(), 4),
        Damage::VersionNameNext(next) => {
            let record = versions(bytes);
            let name = record + number(read(bytes, record + 8, 4));
            (name + 12, next.into(), 4)
        }
        Damage::Type(kind) => (16, kind.into(), 2),
        Damage::Machine(machine) => (18, machine.into(), 2),
        Damage::HeaderCount(count) => (56, count.into(), 2),
        Damage::Version(version) => (6, version.into(), 1),
        Damage::Abi(abi) => (7, abi.into(), 1),
    };
    bytes[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
}

fn number(value: u64) -> usize {
    usize::try_from(value).unwrap()
}

fn read(bytes: &[u8], at: usize, size: usize) -> u64 {
    let mut value = [0; 8];
    value[..size].copy_from_slice(&bytes[at..at + size]);
    u64::from_le_bytes(value)
}

/// The places of the program headers of a kind.
fn segments(bytes: &[u8], kind: u32) -> Vec<usize> {
    let (start, count) = (number(read(bytes, 32, 8)), number(read(bytes, 56, 2)));
    let all = (0..count).map(|nth| start + 56 * nth);
    all.filter(|at| read(bytes, *at, 4) == u64::from(kind)).collect()
}

fn last_load(bytes: &[u8]) -> usize {
    *segments(bytes, LOAD).last().unwrap()
}

/// The place of an entry of the dynamic section.
fn entry(bytes: &[u8], tag: u64) -> usize {
    let header = segments(bytes, DYNAMIC)[0];
    let (start, size) = (number(read(bytes, header + 8, 8)), number(read(bytes, header + 32, 8)));
    let mut entries = (start..start + size).step_by(16);
    entries.find(|at| read(bytes, *at, 8) == tag).unwrap()
}

/// The place of the first record of needed versions; the tables lie where they are mapped.
fn versions(bytes: &[u8]) -> usize {
    number(read(bytes, entry(bytes, VERNEED) + 8, 8))
}
