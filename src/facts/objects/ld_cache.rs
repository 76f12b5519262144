//! Compares `ld.so.cache` with the result of a fresh `ldconfig`, for CUPTI's libraries.

use std::collections::BTreeSet;

use crate::facts::objects::process_context::ProcessContext;
use crate::facts::objects::resolved_objects::opened_object;
use crate::facts::objects::world::ByWorld;
use crate::knowledge::LibraryProfile;
use image_linkage::elf::ByteString;
use image_linkage::loader::LdCache;
use image_linkage::path::RootPath;

/// A name whose entry in the cache is stale.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StaleEntry {
    /// The requested name.
    pub name: ByteString,
    /// The path in the image's cache, or the one that a fresh `ldconfig` would add.
    pub path: ByteString,
    /// The reason.
    pub kind: StaleReason,
}

/// Why an entry is stale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum StaleReason {
    /// Its file is missing, and no other file satisfies the name.
    Gone,
    /// `ldconfig` would add the name, but the loader currently finds nothing or another file.
    NotEntered,
}

/// Finds the stale entries for CUPTI's libraries, sorted by name.
pub fn find_stale_entries(library: &LibraryProfile, contexts: &ByWorld<ProcessContext>) -> Vec<StaleEntry> {
    // Entries with missing files are in the image's cache; missing entries are only in the new one.
    let caches = [&contexts.as_is, &contexts.nvidia]
        .into_iter()
        .filter_map(|context| context.linker.as_ref()?.cache.as_deref());
    let mut names = BTreeSet::new();
    for (name, _) in caches.flat_map(LdCache::iter) {
        let mut family = library.family.iter().filter(|member| member.cached);
        if family.any(|member| name.starts_with(member.stem.as_bytes())) {
            names.insert(name);
        }
    }
    names
        .into_iter()
        .filter_map(|name| stale_name(contexts, name))
        .collect()
}

fn stale_name(contexts: &ByWorld<ProcessContext>, name: &[u8]) -> Option<StaleEntry> {
    let now = found(&contexts.as_is, name);
    let fresh = found(&contexts.nvidia, name);
    if let Some((path, real_path)) = fresh
        // Not stale if the loader finds the same file in a default directory.
        && now.as_ref().is_none_or(|(_, now)| *now != real_path)
    {
        return Some(StaleEntry {
            name: name.into(),
            path,
            kind: StaleReason::NotEntered,
        });
    }
    let cached = contexts.as_is.linker.as_ref()?.cached_path(name)?;
    // A missing file does no harm if another directory satisfies the name.
    if now.is_some() || contexts.as_is.rootfs.lookup(cached).is_ok() {
        return None;
    }
    Some(StaleEntry {
        name: name.into(),
        path: cached.into(),
        kind: StaleReason::Gone,
    })
}

/// The result of a plain dlopen of `name`, even if its dependencies fail.
fn found(context: &ProcessContext, name: &[u8]) -> Option<(ByteString, RootPath)> {
    let resolution = context.open_plain(name);
    opened_object(&resolution).map(|object| (object.path.clone(), object.real_path.clone()))
}
