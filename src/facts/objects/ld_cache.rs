//! Where `ld.so.cache` is not what a fresh `ldconfig` would make it, as far as CUPTI is concerned.

use std::collections::BTreeSet;

use crate::facts::objects::process_context::ProcessContext;
use crate::facts::objects::resolved_objects::opened_object;
use crate::facts::objects::world::ByWorld;
use crate::knowledge::LibraryProfile;
use image_linkage::elf::ByteString;
use image_linkage::path::RootPath;

/// A name for which the cache is stale.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StaleEntry {
    /// The name that is asked for.
    pub name: ByteString,
    /// The path in the cache of the image, or that a fresh `ldconfig` would put there.
    pub path: ByteString,
    /// What is wrong with it.
    pub kind: StaleReason,
}

/// What is wrong with an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum StaleReason {
    /// Its file is gone, and nothing else answers to the name.
    Gone,
    /// `ldconfig` would find the name, and the loader does not, or gets another file.
    NotEntered,
}

/// The stale names of CUPTI's libraries, by name.
pub fn find_stale_entries(library: &LibraryProfile, contexts: &ByWorld<ProcessContext>) -> Vec<StaleEntry> {
    let is_ours = |name: &&[u8]| {
        let mut family = library.family.iter().filter(|member| member.cached);
        family.any(|member| name.starts_with(member.stem.as_bytes()))
    };
    // What is gone stands in the image's own cache, what was never entered in the new one alone.
    let caches = [&contexts.as_is, &contexts.nvidia]
        .into_iter()
        .filter_map(|context| context.linker.as_ref()?.cache.as_deref());
    let names: BTreeSet<&[u8]> = caches
        .flat_map(|cache| cache.iter().map(|(name, _)| name))
        .filter(is_ours)
        .collect();
    names
        .into_iter()
        .filter_map(|name| stale_name(contexts, name))
        .collect()
}

fn stale_name(contexts: &ByWorld<ProcessContext>, name: &[u8]) -> Option<StaleEntry> {
    let now = found(&contexts.as_is, name);
    let fresh = found(&contexts.nvidia, name);
    let entry = |path: &[u8], kind| StaleEntry {
        name: name.into(),
        path: path.into(),
        kind,
    };
    if let Some((path, real_path)) = &fresh
        // A default directory may lead to the same file without the cache: then nothing is stale.
        && now.as_ref().is_none_or(|(_, now)| now != real_path)
    {
        return Some(entry(path, StaleReason::NotEntered));
    }
    let cached = contexts.as_is.linker.as_ref()?.cached_path(name)?;
    let gone = contexts.as_is.rootfs.lookup(cached).is_err();
    // An entry without a file does no harm where another directory answers to the name.
    (gone && now.is_none()).then(|| entry(cached, StaleReason::Gone))
}

/// What a plain dlopen of `name` ends at, whether or not it has all it needs.
fn found(context: &ProcessContext, name: &[u8]) -> Option<(ByteString, RootPath)> {
    let resolution = context.open_plain(name);
    opened_object(&resolution).map(|object| (object.path.clone(), object.real_path.clone()))
}
