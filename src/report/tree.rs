//! How one object is resolved: as a tree for people, as JSON for programs.

use std::fmt::Write as _;

use serde::Serialize;

use super::text::{BOLD, DIM, styled, table};
use crate::escape;
use crate::loader::{How, Object, Outcome, Resolution, World, words};

/// The identifier of the JSON contract.
const SCHEMA: &str = "cupti-audit/tree/v1";

/// The resolution of one object in one world.
pub struct Tree<'a> {
    /// The world.
    pub world: World,
    /// The object that was started, as the user named it.
    pub root: &'a str,
    /// What the loader did.
    pub resolution: &'a Resolution,
}

/// The tree in text; with `verbose`, each object with the search that led to it.
pub fn text(tree: &Tree<'_>, verbose: bool) -> String {
    let mut out = String::new();
    let resolution = tree.resolution;
    let _ = writeln!(
        out,
        "{}  {}",
        styled(BOLD, escape::text(tree.root.as_bytes())),
        styled(DIM, format!("world {}", tree.world.name()))
    );
    let mut shown = vec![false; resolution.objects.len()];
    for preloaded in (0..resolution.objects.len()).filter(|number| is_preload(resolution, *number))
    {
        branch(&mut out, tree, preloaded, "preload", &mut shown, 0, verbose);
    }
    if let Some(root) = resolution.root {
        if let Some(shown) = shown.get_mut(root) {
            *shown = true;
        }
        below(&mut out, tree, root, &mut shown, 0, verbose);
    }
    for missing in resolution.preload_warnings.iter().chain(loose(resolution)) {
        let _ = writeln!(out, "{}", styled(BOLD, &missing.message));
        out.push_str(&table(
            &words::lines(&missing.trace, &resolution.objects),
            "  ",
        ));
    }
    let loaded = resolution.objects.len();
    let missing = super::super::facts::failures(resolution).count();
    let _ = match (resolution.loads(), missing) {
        (true, _) => writeln!(out, "\nloads, {}", super::text::count(loaded, "object")),
        (false, missing) => writeln!(
            out,
            "\ndoes not load: {} of what it needs cannot be had",
            missing.max(1)
        ),
    };
    out
}

fn is_preload(resolution: &Resolution, number: usize) -> bool {
    resolution
        .objects
        .get(number)
        .is_some_and(|object| object.how == How::Preload)
}

/// What no object of the tree asked for: the start itself, and versions.
fn loose(resolution: &Resolution) -> impl Iterator<Item = &crate::loader::Unresolved> {
    resolution
        .unresolved
        .iter()
        .filter(|missing| missing.requested_by.is_none() || missing.trace.is_empty())
}

/// The needs of one object. An object is spread out where it is met first, as the loader loads it.
fn below(
    out: &mut String,
    tree: &Tree<'_>,
    number: usize,
    shown: &mut Vec<bool>,
    depth: usize,
    verbose: bool,
) {
    let resolution = tree.resolution;
    let Some(object) = resolution.objects.get(number) else {
        return;
    };
    for (name, answer) in &object.needs {
        match answer {
            Some(answer) => branch(
                out,
                tree,
                *answer,
                &escape::text(name),
                shown,
                depth,
                verbose,
            ),
            None => missing(out, resolution, number, name, depth),
        }
    }
}

fn branch(
    out: &mut String,
    tree: &Tree<'_>,
    number: usize,
    name: &str,
    shown: &mut Vec<bool>,
    depth: usize,
    verbose: bool,
) {
    let resolution = tree.resolution;
    let Some(object) = resolution.objects.get(number) else {
        return;
    };
    let indent = "  ".repeat(depth + 1);
    let first = shown
        .get_mut(number)
        .is_some_and(|shown| !std::mem::replace(shown, true));
    if !first {
        let _ = writeln!(out, "{indent}{name} {}", styled(DIM, "(above)"));
        return;
    }
    let how = words::part(object.how, &resolution.objects);
    let _ = writeln!(
        out,
        "{indent}{name} → {} {}",
        escape::text(&object.path),
        styled(DIM, format!("[{how}]"))
    );
    if verbose {
        out.push_str(&table(
            &words::lines(&object.trace, &resolution.objects),
            &format!("{indent}    "),
        ));
    }
    below(out, tree, number, shown, depth + 1, verbose);
}

fn missing(out: &mut String, resolution: &Resolution, requester: usize, name: &[u8], depth: usize) {
    let indent = "  ".repeat(depth + 1);
    let asked = resolution
        .unresolved
        .iter()
        .find(|missing| missing.requested_by == Some(requester) && *missing.name == *name);
    let Some(missing) = asked else { return };
    let what = match missing.outcome {
        Outcome::ProvidedAtRuntime => "comes from the driver at run time",
        Outcome::Refused => "refused",
        _ => "not found",
    };
    let _ = writeln!(
        out,
        "{indent}{} → {}",
        escape::text(name),
        styled(BOLD, what)
    );
    if missing.outcome != Outcome::ProvidedAtRuntime {
        let _ = writeln!(out, "{indent}    {}", missing.message);
        out.push_str(&table(
            &words::lines(&missing.trace, &resolution.objects),
            &format!("{indent}    tried: "),
        ));
    }
}

#[derive(Serialize)]
struct Report<'a> {
    schema: &'static str,
    world: &'static str,
    root: &'a str,
    objects: Vec<ObjectReport>,
    unresolved: Vec<UnresolvedReport>,
    loads: bool,
}

#[derive(Serialize)]
struct ObjectReport {
    path: String,
    real_path: String,
    soname: Option<String>,
    requested_by: Option<String>,
    #[serde(rename = "as")]
    name: String,
    how: &'static str,
    depth: usize,
}

#[derive(Serialize)]
struct UnresolvedReport {
    name: String,
    requested_by: Option<String>,
    outcome: &'static str,
    message: String,
    trace: Vec<String>,
}

/// The tree as a line of JSON, version 1 of the contract.
///
/// # Errors
/// Never for a report made here; the signature is serde's.
pub fn json(tree: &Tree<'_>) -> serde_json::Result<String> {
    let resolution = tree.resolution;
    let path = |number: usize| {
        resolution
            .objects
            .get(number)
            .map(|object| escape::text(&object.path))
    };
    let object = |object: &Object| ObjectReport {
        path: escape::text(&object.path),
        real_path: object.real_path.to_string(),
        soname: object.soname.as_deref().map(escape::text),
        requested_by: object.requested_by.and_then(path),
        name: escape::text(&object.name),
        how: object.how.name(),
        depth: object.depth,
    };
    let unresolved = resolution
        .unresolved
        .iter()
        .map(|missing| UnresolvedReport {
            name: escape::text(&missing.name),
            requested_by: missing.requested_by.and_then(path),
            outcome: missing.outcome.name(),
            message: missing.message.clone(),
            trace: words::lines(&missing.trace, &resolution.objects)
                .iter()
                .map(words::Line::text)
                .collect(),
        });
    serde_json::to_string(&Report {
        schema: SCHEMA,
        world: tree.world.name(),
        root: tree.root,
        objects: resolution.objects.iter().map(object).collect(),
        unresolved: unresolved.collect(),
        loads: resolution.loads(),
    })
}
