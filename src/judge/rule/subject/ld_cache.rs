//! Entries of `ld.so.cache` that differ from a fresh `ldconfig` run.

use super::evidence::Evidence;
use super::rule_subject::{RuleSubject, flag, text};
use crate::facts::ImageFacts;
use crate::facts::ProcessContext;
use crate::facts::objects::ld_cache::{self, StaleEntry, StaleReason};
use crate::knowledge::rule::SubjectKind;
use crate::shell_quote::quote_path;
use image_linkage::escape;
use image_linkage::loader::folders_of_cache;
use image_linkage::path::RootPath;

/// One subject for entries whose file is gone, and one for entries that a fresh run would add or change.
pub(super) fn subjects(facts: &ImageFacts) -> Vec<RuleSubject> {
    let stale = ld_cache::find_stale_entries(facts.library, &facts.contexts);
    [StaleReason::Gone, StaleReason::NotEntered]
        .into_iter()
        // An unread part of the image may contain the file.
        .filter(|kind| facts.unread.is_none() || *kind != StaleReason::Gone)
        .filter_map(|kind| {
            let of_kind: Vec<&StaleEntry> = stale.iter().filter(|entry| entry.kind == kind).collect();
            (!of_kind.is_empty()).then(|| subject(facts, kind, &of_kind))
        })
        .collect()
}

/// The command that refreshes the cache, if the image has it. It includes the folders that only the cache knows,
/// because ldconfig would drop them otherwise.
pub(super) fn ldconfig(context: &ProcessContext) -> Option<String> {
    let mut places = ["/sbin/ldconfig", "/usr/sbin/ldconfig"].into_iter();
    let program = places.find(|path| context.rootfs.file(path.as_bytes()).is_some())?;
    let linkers = context.linker.iter();
    let folders = linkers.flat_map(|linker| folders_of_cache(&context.rootfs, linker));
    folders
        .map(|folder| quote_path(&RootPath::new(&folder)))
        .try_fold(program.to_owned(), |command, folder| Some(command + " " + &folder?))
}

fn subject(facts: &ImageFacts, kind: StaleReason, entries: &[&StaleEntry]) -> RuleSubject {
    let names: Vec<String> = entries.iter().map(|entry| escape::escape_bytes(&entry.name)).collect();
    let names = names.join(", ");
    let (words, shown) = match kind {
        StaleReason::Gone => (
            format!("names {names}, but the file is no longer in the image"),
            "is in the cache, but not in the image",
        ),
        StaleReason::NotEntered => (
            format!("does not lead to {names}, but would after a run of ldconfig"),
            "would be in the cache after a run of ldconfig",
        ),
    };
    let line = |entry: &&StaleEntry| Evidence::Words(format!("{} {shown}", escape::escape_bytes(&entry.path)));
    let cache = RootPath::from("etc/ld.so.cache");
    let rootfs = &facts.contexts.as_is.rootfs;
    // The topmost cache hides those below, so its layer needs the fix.
    let layer = rootfs
        .lookup(&cache.absolute())
        .ok()
        .map(|found| rootfs.node(found.node).layer);
    let repair = ldconfig(&facts.contexts.as_is).filter(|_| kind == StaleReason::NotEntered);
    SubjectKind::LdCache
        .subject([
            ("words", text(words)),
            (
                // If the file is gone, ldconfig only removes the entry; the library stays missing.
                "repaired_by_ldconfig",
                flag(kind == StaleReason::NotEntered),
            ),
        ])
        .at(layer.map(|layer| (&cache, Some(layer))))
        .shown_by(entries.iter().map(line))
        .cured_by(repair.into_iter().collect())
}
