//! The container command, its environment and the loader's cache.

use super::evidence::Evidence;
use super::{Hit, PackageRepair, Shown, StoppedWork};
use crate::facts::objects::ld_cache::{self, StaleEntry, StaleReason};
use crate::facts::software::search_path;
use crate::facts::{CommandFailure, ImageFacts, OwnerKind, ProcessContext};
use crate::shell_quote::quote_path;
use container_start::LOADER_VARIABLES;
use image_linkage::escape;
use image_linkage::loader::folders_of_cache;
use image_linkage::path::RootPath;

/// Checks the command and what every process gets.
pub(super) fn check(facts: &ImageFacts) -> Vec<Hit> {
    let mut hits = Vec::new();
    if let Some(failure) = &facts.answers.command_failure {
        hits.push(cannot_start(failure));
    } else {
        hits.extend(starts_nothing(facts));
        // Otherwise no process gets the variables that the command sets.
        hits.extend(environment(facts));
    }
    hits.extend(empty_elements(facts));
    hits.extend(stale_cache(facts));
    hits
}

fn cannot_start(failure: &CommandFailure) -> Hit {
    let cure = match &failure.package {
        Some(name) => format!("reinstall {name}, which lists the missing file"),
        None => failure.cure.words.clone(),
    };
    let mut hit = Hit::new("command-cannot-start")
        .value("words", Shown::known(failure.words.clone()))
        .value("cure", Shown::known(cure))
        .stopping(StoppedWork::Command)
        .cured_by(failure.cure.commands.clone())
        .at(failure.program.iter().map(|program| (program, None)));
    hit.repair = failure.package.clone().map(reinstall);
    hit
}

fn reinstall(package: String) -> PackageRepair {
    PackageRepair {
        manager: OwnerKind::Deb,
        environment: RootPath::default(),
        packages: vec![package],
        is_listed: true,
        takes_requirements: false,
    }
}

/// A command that runs only a utility, such as `sleep`: users start other programs next to it.
fn starts_nothing(facts: &ImageFacts) -> Option<Hit> {
    let context = &facts.contexts.as_is;
    let name = context.entry.program.first()?.rsplit('/').next()?;
    let is_alone = context.commands.start.programs.len() == 1;
    if facts.answers.consumers.is_empty() || !is_alone || !context.tables.launchers.is_utility(name) {
        return None;
    }
    let hit = Hit::new("command-starts-nothing").value("words", Shown::untrusted(name));
    Some(hit.stopping(StoppedWork::Command))
}

/// Loader variables that the command sets, if the program's variables are known and differ from the image's.
fn environment(facts: &ImageFacts) -> Option<Hit> {
    let context = &facts.contexts.as_is;
    let (entry, before) = (&context.entry, &context.commands.environment);
    let mut changed = Vec::new();
    let mut shown = Vec::new();
    for name in LOADER_VARIABLES {
        let value = entry.variables.get(name);
        if value == before.get(name) || entry.unknown.contains_key(name) {
            continue;
        }
        changed.push(name);
        shown.push(Evidence::Words(match value {
            Some(value) => escape::escape_bytes(format!("{name}={value}").as_bytes()),
            None => format!("{name} is not set"),
        }));
    }
    if changed.is_empty() {
        return None;
    }
    let hit = Hit::new("environment-set-at-start").value("variables", Shown::untrusted(&changed.join(" and ")));
    Some(hit.shown_by(shown))
}

/// The search paths with an empty element.
fn empty_elements(facts: &ImageFacts) -> Vec<Hit> {
    let mut hits = Vec::new();
    for element in
        search_path::find_empty_elements(&facts.contexts.as_is, &facts.answers.consumers, &facts.answers.copies)
    {
        let hit = Hit::new("empty-search-path-element")
            .value("of", Shown::known(element.of.as_str()))
            .value("value", Shown::untrusted_bytes(&element.value))
            .at(element.object.iter().map(|object| (object, None)));
        hits.push(hit);
    }
    hits
}

/// The entries of `ld.so.cache` whose file is gone, and those that a fresh `ldconfig` run would add or change.
fn stale_cache(facts: &ImageFacts) -> Vec<Hit> {
    let stale = ld_cache::find_stale_entries(facts.library, &facts.contexts);
    let mut hits = Vec::new();
    for kind in [StaleReason::Gone, StaleReason::NotEntered] {
        let of_kind: Vec<&StaleEntry> = stale.iter().filter(|entry| entry.kind == kind).collect();
        // An unread part of the image may contain the file.
        let is_open = kind == StaleReason::Gone && facts.layers.unread.is_some();
        if !of_kind.is_empty() && !is_open {
            hits.push(stale_entries(facts, kind, &of_kind));
        }
    }
    hits
}

fn stale_entries(facts: &ImageFacts, kind: StaleReason, entries: &[&StaleEntry]) -> Hit {
    let shown_names: Vec<String> = entries.iter().map(|entry| escape::escape_bytes(&entry.name)).collect();
    let names = shown_names.join(", ");
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
    let lines = entries
        .iter()
        .map(|entry| Evidence::Words(format!("{} {shown}", escape::escape_bytes(&entry.path))));
    let cache = RootPath::from("etc/ld.so.cache");
    let rootfs = &facts.contexts.as_is.rootfs;
    // The topmost cache hides those below, so its layer needs the fix.
    let found = rootfs.lookup(&cache.absolute()).ok();
    let layer = found.map(|found| rootfs.node(found.node).layer);
    let hit = Hit::new("stale-ld-so-cache")
        .value("words", Shown::known(words))
        .at(layer.map(|layer| (&cache, Some(layer))))
        .shown_by(lines);
    match kind {
        // If the file is gone, ldconfig only removes the entry; the library stays missing.
        StaleReason::Gone => hit,
        StaleReason::NotEntered => hit.cured_by(ldconfig(&facts.contexts.as_is).into_iter().collect()),
    }
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
