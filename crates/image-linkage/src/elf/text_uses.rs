//! How x86-64 code uses the texts of its object. A linker may merge a file name into the end of a longer path; a
//! reference to that end shows it. A name may also be used only with `RTLD_NOLOAD`.

use super::address_space::AddressSpace;
use super::byte_store::ByteStore;
use super::facts::ByteString;
use super::held_ranges::to_usize;
use super::mentions::NameMatcher;

/// A path in the file that ends with a requested name.
pub(super) struct PathText {
    pub text: ByteString,
    /// The file offsets of the path and of its last component.
    pub start: u64,
    pub name: u64,
}

impl PathText {
    /// The text around a hit, if the name is a file name: the whole text, or the last component of an absolute path.
    pub(super) fn new(hit: u64, text: &ByteString, names: &NameMatcher) -> Option<Self> {
        let at = names.name_start(text)?;
        let before = text.get(..at)?;
        let is_file_name = before.is_empty() || before.starts_with(b"/") && before.ends_with(b"/");
        let has_ending = text.windows(3).any(|part| part == b".so");
        (is_file_name && has_ending).then_some(())?;
        Some(Self {
            text: text.clone(),
            start: hit.checked_sub(at as u64)?,
            name: hit,
        })
    }
}

/// The result of the search.
#[derive(Default)]
pub(super) struct TextUses {
    /// Paths that are never referenced by their last component alone.
    pub whole: Vec<ByteString>,
    /// Texts that are only passed to dlopen with `RTLD_NOLOAD`.
    pub asked: Vec<ByteString>,
}

/// The maximum size of an object to search, and the maximum number of texts.
const BYTES: usize = 16 << 20;
const TEXTS: usize = 32;
/// The bytes searched at a time, and the bytes before and after a reference that are searched for dlopen's flags.
const PIECE: usize = 1 << 20;
const NEAR: (usize, usize) = (16, 24);

/// Searches the loaded bytes of an object for references to the texts.
pub(super) fn find_text_uses(bytes: &ByteStore, space: &AddressSpace, texts: Vec<PathText>) -> TextUses {
    if bytes.len() > BYTES || bytes.is_full() || texts.is_empty() || texts.len() > TEXTS {
        return TextUses::default();
    }
    let mut places: Vec<TextPlace> = texts.into_iter().map(|text| TextPlace::new(text, space)).collect();
    // The texts lie close together, so almost no other value is between their addresses.
    let addresses = || places.iter().flat_map(|place| [place.start, place.name]).flatten();
    let (first, last) = (addresses().min().unwrap_or(0), addresses().max().unwrap_or(0));
    let may_lead = |to: u32| to.wrapping_sub(first) <= last - first;
    for (from, to, shift) in space.file_parts() {
        let (from, to) = (to_usize(from), to_usize(to).min(bytes.len()));
        for from in (from..to).step_by(PIECE) {
            let piece = bytes.get(from, (from + PIECE + 3).min(to));
            for (at, word) in piece.windows(4).enumerate() {
                let Some(word) = word.first_chunk().map(|word| u32::from_le_bytes(*word)) else {
                    continue;
                };
                // A RIP-relative operand counts from the end of the instruction.
                let behind = low_half((from + at) as u64)
                    .wrapping_add(low_half(shift))
                    .wrapping_add(4);
                if !may_lead(word) && !may_lead(word.wrapping_add(behind)) {
                    continue;
                }
                for place in &mut places {
                    let leads = |to: Option<u32>| to.is_some_and(|to| word == to || word.wrapping_add(behind) == to);
                    place.is_split |= leads(place.name);
                    if leads(place.start) {
                        let near = bytes.get((from + at).saturating_sub(NEAR.0), from + at + NEAR.1);
                        place.flags.push(open_flags(&near));
                    }
                }
            }
        }
    }
    let asks = |flags: &Option<u32>| flags.is_some_and(|flags| flags & RTLD_NOLOAD != 0);
    let is_asked = |place: &&TextPlace| !place.flags.is_empty() && place.flags.iter().all(asks);
    let is_whole = |place: &&TextPlace| place.name.is_some() && !place.is_split;
    let texts = |places: Vec<&TextPlace>| places.into_iter().map(|place| place.text.clone()).collect();
    TextUses {
        whole: texts(places.iter().filter(is_whole).collect()),
        asked: texts(places.iter().filter(is_asked).collect()),
    }
}

/// The low 32 bits of a text's address, and the references found.
struct TextPlace {
    text: ByteString,
    start: Option<u32>,
    /// The address of its last component, if that is not the whole text.
    name: Option<u32>,
    is_split: bool,
    flags: Vec<Option<u32>>,
}

impl TextPlace {
    fn new(text: PathText, space: &AddressSpace) -> Self {
        let low = |place: u64| space.address_of(place).map(low_half);
        Self {
            start: low(text.start),
            name: low(text.name).filter(|_| text.name != text.start),
            text: text.text,
            is_split: false,
            flags: Vec::new(),
        }
    }
}

fn low_half(value: u64) -> u32 {
    u32::try_from(value & u64::from(u32::MAX)).unwrap_or_default()
}

/// `RTLD_NOLOAD`, and the mask of the flags that every dlopen call needs (bits/dlfcn.h).
const RTLD_NOLOAD: u32 = 4;
const RTLD_LAZY_OR_NOW: u32 = 3;

/// The flags of the dlopen call near a reference: the operand of the only `mov esi, …` around it.
fn open_flags(code: &[u8]) -> Option<u32> {
    let moves = code.windows(5).filter_map(|bytes| match bytes {
        [0xbe, low, high, 0, 0] => Some(u32::from(*low) | u32::from(*high) << 8),
        _ => None,
    });
    let mut flags = moves.filter(|flags| flags & RTLD_LAZY_OR_NOW != 0);
    let first = flags.next();
    first.filter(|_| flags.next().is_none())
}
