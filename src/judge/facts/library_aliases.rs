//! Other names of the library: links that lead to it, and files that hold it, under a name of their own.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::cupti_files::CuptiFiles;
use super::file_references::ObjectInventory;
use crate::knowledge::LibraryProfile;
use image_linkage::elf::ByteString;
use image_linkage::layer::FileFacts;
use image_linkage::path::RootPath;

/// The links that may lead to another link, at most: those of a chain that Linux follows (`MAXSYMLINKS`).
const CHAIN: usize = 40;

/// The file names under which the library can be opened, but for its own.
pub(super) fn find_library_aliases(
    library: &LibraryProfile,
    found: &CuptiFiles,
    inventory: &ObjectInventory,
) -> BTreeSet<ByteString> {
    let is_alias = |name: &&[u8]| !library.is_name(name);
    let files = found.files.iter().map(|(path, _)| path.name()).filter(is_alias);
    let mut aliases: BTreeSet<ByteString> = files.map(Into::into).collect();
    for _ in 0..CHAIN {
        let before = aliases.len();
        // By names alone: where a link leads is asked of the loader, by whoever opens it.
        for (link, target) in &inventory.links {
            let target = last_part(target);
            if is_alias(&link.name()) && (library.is_name(target) || aliases.contains(target)) {
                aliases.insert(link.name().into());
            }
        }
        if aliases.len() == before {
            break;
        }
    }
    aliases
}

/// The objects that hold such a name as a string; none of the library's own files.
pub(super) fn alias_holders(
    aliases: &BTreeSet<ByteString>,
    found: &CuptiFiles,
    inventory: &ObjectInventory,
) -> Vec<RootPath> {
    if aliases.is_empty() {
        return Vec::new();
    }
    let own: BTreeSet<&RootPath> = found.files.iter().map(|(path, _)| path).collect();
    let holds = |(path, facts): &&(RootPath, Arc<FileFacts>)| {
        let mut texts = facts.elf.iter().flat_map(|elf| &elf.mentions);
        texts.any(|text| aliases.contains(last_part(text))) && !own.contains(path)
    };
    let objects = inventory.objects.iter().filter(holds);
    objects.map(|(path, _)| path.clone()).collect()
}

/// The file name in a path.
pub(super) fn last_part(path: &[u8]) -> &[u8] {
    path.rsplit(|&byte| byte == b'/').next().unwrap_or_default()
}
