//! Decides which files of the dead weight stay in a phase and which can be removed.
//!
//! A file is removable only if the phase forbids its kind, nothing that the phase accepts uses it, and no remaining
//! file references it. A remaining file may need another one, so the decision takes several rounds.

use std::collections::{BTreeMap, BTreeSet};

use super::asked_files::AskedFiles;
use crate::facts::weight::dead_weight::HardLinks;
use crate::facts::{self, DeadWeightFile, FileReference, FileReferrer, ImageFacts, ReferenceKind};
use crate::knowledge::{Phase, Profiler};
use image_linkage::escape;
use image_linkage::path::RootPath;
use image_linkage::rootfs::NodeId;

/// A file to keep or remove.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanItem {
    /// The real path, without symlinks.
    pub path: RootPath,
    /// Its kind in `profiles/cupti/dead-weight.yaml`.
    pub kind: &'static str,
    /// Its size in bytes; 0 if the content counts at another hard link to it.
    pub bytes: u64,
    /// Its layer, counted from 0 at the bottom.
    pub layer: usize,
    /// The links to it, which are removed with it.
    pub links: Vec<RootPath>,
    /// Why it stays, or that nothing is known to need it.
    pub because: String,
}

/// The files to keep and the removable ones, each by path.
pub(super) struct RetentionSplit {
    pub keep: Vec<PlanItem>,
    pub drop: Vec<PlanItem>,
}

/// Splits the files of the kinds that the phase mentions.
pub(super) fn split_dead_weight(facts: &ImageFacts, profilers: &[Profiler], phase: &Phase) -> RetentionSplit {
    let mut stays: BTreeMap<&RootPath, String> = BTreeMap::new();
    let asked = AskedFiles::gather(facts, profilers, phase);
    for file in &facts.weight.files {
        // Reports show the first reason that holds.
        let why = allowed(facts, phase, file).or_else(|| used(facts, file));
        if let Some(why) = why.or_else(|| asked.why(file)) {
            stays.insert(&file.path, why);
        }
    }
    follow(facts, phase, &mut stays);
    if serve(facts, phase, &mut stays) {
        follow(facts, phase, &mut stays);
    }
    let users = users_of_copies(facts);
    let mut split = RetentionSplit {
        keep: Vec::new(),
        drop: Vec::new(),
    };
    for file in &facts.weight.files {
        match stays.get(&file.path) {
            Some(why) if speaks_of(phase, file) => split.keep.push(item(facts, file, why.clone())),
            None if phase.dead_weight.forbids.iter().any(|kind| *kind == file.kind) => {
                split
                    .drop
                    .push(item(facts, file, idle(facts, users.get(&file.path), file)));
            }
            // Kinds that the phase does not mention stay, without an entry in the plan.
            _ => {}
        }
    }
    count_hard_links_once(facts, &mut split);
    split
}

/// Leaves the size of a file with hard links at one of its names. Removing some of the names frees nothing.
fn count_hard_links_once(facts: &ImageFacts, split: &mut RetentionSplit) {
    let links = |item: &PlanItem| {
        let at = facts.weight.files.binary_search_by(|file| file.path.cmp(&item.path));
        facts.weight.files.get(at.ok()?)?.links
    };
    let mut dropped: BTreeMap<NodeId, usize> = BTreeMap::new();
    for HardLinks { file, .. } in split.drop.iter().filter_map(links) {
        *dropped.entry(file).or_default() += 1;
    }
    let mut counted = BTreeSet::new();
    for item in &mut split.drop {
        match links(item) {
            Some(HardLinks { file, names }) if dropped.get(&file).is_some_and(|dropped| *dropped < names) => {
                item.bytes = 0;
                item.because += "; a hard link to it stays and keeps the content";
            }
            Some(HardLinks { file, .. }) if !counted.insert(file) => item.bytes = 0,
            _ => {}
        }
    }
    for item in &mut split.keep {
        if links(item).is_some_and(|links| !counted.insert(links.file)) {
            item.bytes = 0;
        }
    }
}

fn speaks_of(phase: &Phase, file: &DeadWeightFile) -> bool {
    let mut kinds = phase.dead_weight.allows.iter().chain(&phase.dead_weight.forbids);
    kinds.any(|kind| *kind == file.kind)
}

fn item(facts: &ImageFacts, file: &DeadWeightFile, because: String) -> PlanItem {
    let links = facts.weight.links.get(&file.path);
    PlanItem {
        path: file.path.clone(),
        kind: file.kind,
        bytes: file.bytes,
        layer: file.layer,
        links: links.cloned().unwrap_or_default(),
        because,
    }
}

/// Why the phase keeps the kind: it allows the kind, or accepts a tool that uses it.
fn allowed(facts: &ImageFacts, phase: &Phase, file: &DeadWeightFile) -> Option<String> {
    if phase.dead_weight.allows.iter().any(|kind| *kind == file.kind) {
        return Some(format!("{} allows it", phase.name));
    }
    let kind = facts.tables.dead_weight.find_kind(file.kind)?;
    let mut tools = phase.profilers.accepted_ids();
    let tool = tools.find(|id| kind.profilers.iter().any(|own| own == id))?;
    Some(format!("{tool} uses it"))
}

/// Why it is used: something executes it, or opens it other than by a name in an object.
fn used(facts: &ImageFacts, file: &DeadWeightFile) -> Option<String> {
    let used = facts.weight.uses.iter().find(|used| used.kind == file.kind)?;
    Some(format!("{} ({})", used.why, used.by))
}

/// Keeps files that a remaining kind executes or links. Returns whether it kept any.
fn serve<'f>(facts: &'f ImageFacts, phase: &Phase, stays: &mut BTreeMap<&'f RootPath, String>) -> bool {
    let before = stays.len();
    let is_forbidden = |file: &DeadWeightFile| phase.dead_weight.forbids.iter().any(|kind| *kind == file.kind);
    // One file per kind is enough for the reason.
    let staying: BTreeMap<&str, &RootPath> = facts
        .weight
        .files
        .iter()
        .filter(|file| stays.contains_key(&file.path) || !is_forbidden(file))
        .map(|file| (file.kind, &file.path))
        .collect();
    for file in &facts.weight.files {
        let kind = facts.tables.dead_weight.find_kind(file.kind);
        let mut served = kind.into_iter().flat_map(|kind| &kind.serves);
        if let Some(user) = served.find_map(|kind| staying.get(kind.as_str())) {
            stays
                .entry(&file.path)
                .or_insert_with(|| format!("{user} stays, and works with it"));
        }
    }
    stays.len() > before
}

/// The names of the consumers that get each copy.
fn users_of_copies(facts: &ImageFacts) -> BTreeMap<&RootPath, BTreeSet<&str>> {
    let mut users: BTreeMap<&RootPath, BTreeSet<&str>> = BTreeMap::new();
    for copy in &facts.answers.copies {
        let names = copy
            .used_by
            .iter()
            .filter_map(|number| facts.answers.consumers.get(*number));
        let of_copy = users.entry(&copy.real_path).or_default();
        of_copy.extend(names.map(|user| &*user.name));
    }
    users
}

/// Why a removable file, loaded by these consumers, is not needed.
fn idle(facts: &ImageFacts, users: Option<&BTreeSet<&str>>, file: &DeadWeightFile) -> String {
    let mut apis: Vec<&str> = Vec::new();
    for api in &facts.tables.apis {
        let mut libraries = api.libraries.iter();
        // No process gets this API, so its file is recognized by name alone.
        if libraries.any(|library| file.path.name().starts_with(library.stem().as_bytes())) {
            apis.push(&api.name);
        }
    }
    if let Some(users) = users.filter(|users| !users.is_empty()) {
        let users: Vec<&str> = users.iter().copied().collect();
        return format!("loaded only by {}, and only to profile", users.join(", "));
    }
    if apis.is_empty() {
        return "nothing in the image is known to need it".to_owned();
    }
    format!(
        "only for CUPTI's {}; nothing else in the image is known to need it",
        apis.join(", ")
    )
}

/// Keeps files that a remaining object or setting references.
fn follow<'f>(facts: &'f ImageFacts, phase: &Phase, stays: &mut BTreeMap<&'f RootPath, String>) {
    let is_forbidden = |path: &RootPath| {
        let at = facts.weight.files.binary_search_by(|file| file.path.cmp(path));
        let file = at.ok().and_then(|at| facts.weight.files.get(at));
        file.is_some_and(|file| phase.dead_weight.forbids.iter().any(|kind| *kind == file.kind))
    };
    // Files that are not forbidden always stay, and so do all files that they reference.
    facts::keep_referenced(&facts.weight.references, stays, is_forbidden, words);
}

/// A reference as text.
fn words(reference: &FileReference) -> String {
    let by = match &reference.by {
        FileReferrer::Object(path) => path.to_string(),
        FileReferrer::Setting(setting) => escape::escape_bytes(setting.as_bytes()),
    };
    let name = escape::escape_bytes(&reference.name);
    match reference.how {
        ReferenceKind::Needs => format!("{by} needs {name}"),
        ReferenceKind::Opens => format!("{by} opens {name} and uses no GPU without it"),
        ReferenceKind::MayNeed => format!("{by} needs {name}, and may get this one"),
        ReferenceKind::Holds => format!("{by} holds the name {name} and may open it"),
        ReferenceKind::Names => format!("{by} names it"),
        ReferenceKind::NamesFolder => format!("{by} names {name}, and its files may be opened by any name"),
        ReferenceKind::Unexplained => {
            "no search path, package or toolkit explains its place, so a program may open it by its path".to_owned()
        }
        ReferenceKind::OtherProcessor => format!("{by} asks for {name}, and gets this one on another processor"),
    }
}
