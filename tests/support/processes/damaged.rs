//! Damages 64-bit objects, at the offsets of the gABI's structures.

use super::spec::Damage;

/// `PT_DYNAMIC`, and a segment type without a meaning.
const DYNAMIC: u32 = 2;
const UNKNOWN: u64 = 0x6000_0000;

/// Damages an object.
pub fn apply(bytes: &mut Vec<u8>, damage: Damage) {
    let (at, value, size) = match damage {
        Damage::Cut(part) => {
            bytes.truncate(bytes.len() * part / 1000);
            return;
        }
        Damage::NoDynamic => (dynamic_segment(bytes), UNKNOWN, 4),
        Damage::Type(kind) => (16, kind.into(), 2),
        Damage::Machine(machine) => (18, machine.into(), 2),
        Damage::Version(version) => (6, version.into(), 1),
        Damage::Abi(abi) => (7, abi.into(), 1),
    };
    bytes[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
}

fn read(bytes: &[u8], at: usize, size: usize) -> u64 {
    let mut value = [0; 8];
    value[..size].copy_from_slice(&bytes[at..at + size]);
    u64::from_le_bytes(value)
}

/// The offset of the program header for the dynamic section.
fn dynamic_segment(bytes: &[u8]) -> usize {
    let [start, count] = [(32, 8), (56, 2)].map(|(at, size)| usize::try_from(read(bytes, at, size)).unwrap());
    let mut all = (0..count).map(|nth| start + 56 * nth);
    all.find(|at| read(bytes, *at, 4) == u64::from(DYNAMIC)).unwrap()
}
