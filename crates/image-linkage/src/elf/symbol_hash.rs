//! The hash functions of the loader's symbol lookup.

/// The hash used by `DT_GNU_HASH`.
pub(super) fn gnu_hash(name: &[u8]) -> u32 {
    let add = |hash: u32, byte: &u8| hash.wrapping_mul(33).wrapping_add(u32::from(*byte));
    name.iter().fold(5381, add)
}
