//! What of the dead weight stays and what may go in a phase.
//!
//! A file goes only when its kind is forbidden, nothing the phase welcomes uses it, and nothing that stays leads to
//! it. What stays is found in rounds, because a file that stays may need another one.

use std::collections::{BTreeMap, BTreeSet};

use super::asked_files::AskedFiles;
use crate::facts::{self, DeadWeightFile, FileReference, FileReferrer, ImageFacts, ReferenceKind};
use crate::knowledge::api::CuptiApi;
use crate::knowledge::{Phase, Profiler};
use image_linkage::escape;
use image_linkage::path::RootPath;

/// A file that stays or may go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanItem {
    /// The file, without links.
    pub path: RootPath,
    /// The kind of `profiles/cupti/dead-weight.yaml`.
    pub kind: &'static str,
    /// Its size in bytes.
    pub bytes: u64,
    /// Its layer, counted from 0 at the bottom.
    pub layer: usize,
    /// The links that lead to it: they go with it.
    pub links: Vec<RootPath>,
    /// What keeps it, or that nothing is known to need it.
    pub because: String,
}

/// The files that stay and those that may go, each by path.
pub(super) struct RetentionSplit {
    pub keep: Vec<PlanItem>,
    pub drop: Vec<PlanItem>,
}

/// Splits the files that the phase speaks of.
pub(super) fn split_dead_weight(facts: &ImageFacts, profilers: &[Profiler], phase: &Phase) -> RetentionSplit {
    let mut stays: BTreeMap<&RootPath, String> = BTreeMap::new();
    let asked = AskedFiles::gather(facts, profilers, phase);
    for file in &facts.dead_weight {
        // The first reason that holds is the one that reports show.
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
    for file in &facts.dead_weight {
        match stays.get(&file.path) {
            Some(why) if speaks_of(phase, file) => split.keep.push(item(facts, file, why.clone())),
            None if phase.dead_weight.forbids.iter().any(|kind| *kind == file.kind) => {
                split
                    .drop
                    .push(item(facts, file, idle(facts, users.get(&file.path), file)));
            }
            // Kinds that the phase does not speak of stay, and no plan lists them.
            _ => {}
        }
    }
    split
}

fn speaks_of(phase: &Phase, file: &DeadWeightFile) -> bool {
    let mut kinds = phase.dead_weight.allows.iter().chain(&phase.dead_weight.forbids);
    kinds.any(|kind| *kind == file.kind)
}

fn item(facts: &ImageFacts, file: &DeadWeightFile, because: String) -> PlanItem {
    let links = facts.dead_weight_links.get(&file.path);
    PlanItem {
        path: file.path.clone(),
        kind: file.kind,
        bytes: file.bytes,
        layer: file.layer,
        links: links.cloned().unwrap_or_default(),
        because,
    }
}

/// Whether the phase allows the kind, or welcomes a tool that uses it.
fn allowed(facts: &ImageFacts, phase: &Phase, file: &DeadWeightFile) -> Option<String> {
    if phase.dead_weight.allows.iter().any(|kind| *kind == file.kind) {
        return Some(format!("{} allows it", phase.name));
    }
    let kind = facts.tables.dead_weight.find_kind(file.kind)?;
    let uses = |id: &&str| kind.profilers.iter().any(|own| own == id);
    let tool = phase.profilers.accepted_ids().find(uses)?;
    Some(format!("{tool} uses it"))
}

/// Whether something is known to execute it, or to open it by other means than a name in an object.
fn used(facts: &ImageFacts, file: &DeadWeightFile) -> Option<String> {
    let used = facts.dead_weight_uses.iter().find(|used| used.kind == file.kind)?;
    Some(format!("{} ({})", used.why, used.by))
}

/// Keeps what a kind executes or links that stays; says whether that is anything.
fn serve<'f>(facts: &'f ImageFacts, phase: &Phase, stays: &mut BTreeMap<&'f RootPath, String>) -> bool {
    let before = stays.len();
    let is_forbidden = |file: &DeadWeightFile| phase.dead_weight.forbids.iter().any(|kind| *kind == file.kind);
    let staying = facts.dead_weight.iter();
    let staying = staying.filter(|file| stays.contains_key(&file.path) || !is_forbidden(file));
    // One file of each kind is enough for the reason.
    let staying: BTreeMap<&str, &RootPath> = staying.map(|file| (file.kind, &file.path)).collect();
    for file in &facts.dead_weight {
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
    for copy in &facts.copies {
        let names = copy.used_by.iter().filter_map(|number| facts.consumers.get(*number));
        let of_copy = users.entry(&copy.real_path).or_default();
        of_copy.extend(names.map(|user| &*user.name));
    }
    users
}

/// Why a file that may go, and that these consumers get, is not needed.
fn idle(facts: &ImageFacts, users: Option<&BTreeSet<&str>>, file: &DeadWeightFile) -> String {
    let needs = |api: &&CuptiApi| {
        let named = |stem: &str| file.path.name().starts_with(stem.as_bytes());
        // A file of an API that no process gets is told by its name, whatever folder it lies in.
        api.libraries.iter().any(|library| named(library.stem()))
    };
    let apis: Vec<&str> = facts.tables.apis.iter().filter(needs).map(|api| &*api.name).collect();
    if let Some(users) = users.filter(|users| !users.is_empty()) {
        let users: Vec<&str> = users.iter().copied().collect();
        return format!("loaded only by {}, and only to profile", users.join(", "));
    }
    if apis.is_empty() {
        return "nothing in the image is known to need it".to_owned();
    }
    let apis = apis.join(", ");
    format!("only for CUPTI's {apis}; nothing else in the image is known to need it")
}

/// Keeps what is led to by an object or a setting that stays.
fn follow<'f>(facts: &'f ImageFacts, phase: &Phase, stays: &mut BTreeMap<&'f RootPath, String>) {
    let is_forbidden = |path: &RootPath| {
        let at = facts.dead_weight.binary_search_by(|file| file.path.cmp(path));
        let file = at.ok().and_then(|at| facts.dead_weight.get(at));
        file.is_some_and(|file| phase.dead_weight.forbids.iter().any(|kind| *kind == file.kind))
    };
    // What is not forbidden stays whatever else happens, and so does all that it leads to.
    facts::keep_referenced(&facts.references, stays, is_forbidden, words);
}

/// A reference in words.
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
