//! Finds paths that x86-64 code uses only as a whole. A linker may merge a file name into the end of a longer path; a
//! reference to that end shows it.

use super::address_space::AddressSpace;
use super::byte_store::ByteStore;
use super::facts::ByteString;
use super::held_ranges::to_usize;
use super::mentions::NameMatcher;

/// An absolute path whose last component is a requested name.
pub(super) struct PathText {
    text: ByteString,
    /// The file offset of the last component.
    name: u64,
}

impl PathText {
    /// The text around a hit.
    pub(super) fn new(hit: u64, text: &ByteString, names: &NameMatcher) -> Option<Self> {
        let folder = text.get(..names.name_start(text)?)?;
        let has_ending = text.windows(3).any(|part| part == b".so");
        if !has_ending || !folder.starts_with(b"/") || !folder.ends_with(b"/") {
            return None;
        }
        let text = text.clone();
        Some(Self { text, name: hit })
    }
}

/// The maximum size of an object to search, and the maximum number of texts.
const BYTES: usize = 16 << 20;
const TEXTS: usize = 32;
/// The bytes searched at a time.
const PIECE: usize = 1 << 20;

/// The paths that the loaded bytes of an object never reference by their last component alone.
pub(super) fn find_whole_paths(bytes: &ByteStore, space: &AddressSpace, texts: Vec<PathText>) -> Vec<ByteString> {
    if bytes.len() > BYTES || bytes.is_full() || texts.len() > TEXTS {
        return Vec::new();
    }
    let mut whole: Vec<(u32, ByteString)> = Vec::new();
    for text in texts {
        whole.extend(space.address_of(text.name).map(|name| (low_half(name), text.text)));
    }
    for (from, to, shift) in space.file_parts() {
        let (from, to) = (to_usize(from), to_usize(to).min(bytes.len()));
        for from in (from..to).step_by(PIECE) {
            // The texts lie close together, so almost no other value is between their addresses.
            let (Some(first), Some(last)) = (
                whole.iter().map(|(name, _)| *name).min(),
                whole.iter().map(|(name, _)| *name).max(),
            ) else {
                return Vec::new();
            };
            let may_lead = |to: u32| to.wrapping_sub(first) <= last - first;
            let piece = bytes.get(from, (from + PIECE + 3).min(to));
            for (at, word) in piece.windows(4).enumerate() {
                let Some(word) = word.first_chunk().map(|word| u32::from_le_bytes(*word)) else {
                    continue;
                };
                // A RIP-relative operand counts from the end of the instruction.
                let behind = low_half((from + at) as u64)
                    .wrapping_add(low_half(shift))
                    .wrapping_add(4);
                let relative = word.wrapping_add(behind);
                if may_lead(word) || may_lead(relative) {
                    whole.retain(|(name, _)| *name != word && *name != relative);
                }
            }
        }
    }
    whole.into_iter().map(|(_, text)| text).collect()
}

fn low_half(value: u64) -> u32 {
    u32::try_from(value & u64::from(u32::MAX)).unwrap_or_default()
}
