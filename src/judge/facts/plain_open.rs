//! A plain dlopen of the library: what a process without search paths of its own gets.

use super::process_context::ProcessContext;
use crate::knowledge::LibraryProfile;
use image_linkage::elf::ByteString;
use image_linkage::loader::LoadResolution;

/// What a plain dlopen of one name gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlainOpen {
    /// The soname that was opened.
    pub name: ByteString,
    /// What the loader does.
    pub resolution: LoadResolution,
}

/// Opens the sonames one after the other, as a process without search paths would; the first that opens
/// counts, else the first that is expected.
pub(super) fn open_first(context: &ProcessContext, library: &LibraryProfile, sonames: &[ByteString]) -> PlainOpen {
    let open = |name: &ByteString| PlainOpen {
        name: name.clone(),
        resolution: context.open_plain(name),
    };
    // One after the other: each open maps a whole process, and the first mostly succeeds.
    let mut opened = sonames.iter().map(open);
    let first = opened.next().unwrap_or_else(|| open(&library.stem.as_bytes().into()));
    if first.resolution.loads() {
        return first;
    }
    opened.find(|plain| plain.resolution.loads()).unwrap_or(first)
}
