//! Shows how one object is resolved: as a tree, and as JSON.

use crate::size::count_words;
use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::{Value, json};

use super::text_layout::{BOLD, DIM, DOUBTFUL, search_table, styled};
use crate::facts::{self, World};
use image_linkage::escape;
use image_linkage::loader::{
    LoadResolution, LoadedObject, RequestOutcome, SearchStage, TraceLine, UnresolvedRequest, trace_lines,
};

/// The identifier of the JSON contract.
const SCHEMA: &str = "cupti-audit/tree/v1";

/// The resolution of one object in one world.
pub(crate) struct ResolutionTree<'a> {
    /// The unchanged image, or the image under the container runtime.
    pub world: World,
    /// The started object, as the user named it.
    pub root: &'a str,
    /// The loader's result.
    pub resolution: &'a LoadResolution,
}

/// The tree as text; with `verbose`, each object with its search.
pub(crate) fn tree_text(tree: &ResolutionTree<'_>, verbose: bool) -> String {
    let resolution = tree.resolution;
    let title = format!(
        "{}  {}\n",
        styled(BOLD, escape::escape_bytes(tree.root.as_bytes())),
        styled(DIM, format!("world {}", tree.world.name()))
    );
    let mut walk = TreeWriter {
        tree,
        shown: BTreeSet::new(),
        verbose,
        out: title,
    };
    // The loader maps preloaded objects before the program's dependencies, so they come first.
    for number in (0..resolution.objects.len()).filter(|number| is_preload(resolution, *number)) {
        walk.branch(number, "preload", 0);
    }
    if let Some(root) = resolution.root {
        walk.root(root);
    }
    let mut out = walk.out;
    // Requests without a requesting object are listed below the tree.
    for missing in resolution.preload_warnings.iter().chain(loose(resolution)) {
        let _ = writeln!(out, "{}", styled(BOLD, &missing.message));
        out.push_str(&search_table(&trace_lines(&missing.trace, &resolution.objects), "  "));
    }
    for unread in &resolution.unread {
        let _ = writeln!(out, "{} {unread}", styled(DOUBTFUL, "not checked:"));
    }
    let loaded = resolution.objects.len();
    let missing = facts::unresolved_objects(resolution).count();
    let summary = if resolution.loads() {
        format!("loads, {}", count_words(loaded, "object"))
    } else if resolution.root.is_none() {
        "does not load".to_owned()
    } else {
        format!("does not load: {missing} of what it needs cannot be had")
    };
    let _ = writeln!(out, "\n{summary}");
    out
}

fn is_preload(resolution: &LoadResolution, number: usize) -> bool {
    resolution
        .objects
        .get(number)
        .is_some_and(|object| object.how == SearchStage::Preload)
}

/// Failed requests that are not part of the tree: the start itself, and versions.
fn loose(resolution: &LoadResolution) -> impl Iterator<Item = &UnresolvedRequest> {
    resolution
        .unresolved
        .iter()
        .filter(|missing| missing.requested_by.is_none() || missing.trace.is_empty())
}

/// The unfinished tree. An object is expanded at its first occurrence, in load order.
struct TreeWriter<'a> {
    tree: &'a ResolutionTree<'a>,
    shown: BTreeSet<usize>,
    verbose: bool,
    out: String,
}

impl TreeWriter<'_> {
    /// The root object: how it was found, if it was given by name, and its dependencies.
    fn root(&mut self, number: usize) {
        self.shown.insert(number);
        if let Some(object) = self.tree.resolution.objects.get(number)
            // A path is already the headline.
            && object.how != SearchStage::Start
        {
            self.found(object, "", 0);
        }
        self.below(number, 0);
    }

    fn below(&mut self, number: usize, depth: usize) {
        let Some(object) = self.tree.resolution.objects.get(number) else {
            return;
        };
        let mut above = Vec::new();
        for (name, answer) in &object.needs {
            match answer {
                // Nearly everything needs libc, so its subtree is shown once.
                Some(answer) if self.shown.contains(answer) => above.push(escape::escape_bytes(name)),
                Some(answer) => self.branch(*answer, &escape::escape_bytes(name), depth),
                None => self.missing(number, name, depth),
            }
        }
        if !above.is_empty() {
            let indent = "  ".repeat(depth + 1);
            let line = format!("{indent}and, from above: {}", above.join(" "));
            let _ = writeln!(self.out, "{}", styled(DIM, line));
        }
    }

    fn branch(&mut self, number: usize, name: &str, depth: usize) {
        let Some(object) = self.tree.resolution.objects.get(number) else {
            return;
        };
        // Marked before its dependencies, because libraries may need each other in a cycle.
        self.shown.insert(number);
        self.found(object, name, depth);
        self.below(number, depth + 1);
    }

    fn found(&mut self, object: &LoadedObject, name: &str, depth: usize) {
        let objects = &self.tree.resolution.objects;
        let indent = "  ".repeat(depth + 1);
        let how = styled(DIM, format!("[{}]", object.how.text(objects)));
        let name = if name.is_empty() {
            String::new()
        } else {
            format!("{name} ")
        };
        let _ = writeln!(self.out, "{indent}{name}→ {} {how}", escape::escape_bytes(&object.path));
        if self.verbose {
            let lines = trace_lines(&object.trace, objects);
            self.out.push_str(&search_table(&lines, &format!("{indent}    ")));
        }
    }

    fn missing(&mut self, requester: usize, name: &[u8], depth: usize) {
        let resolution = self.tree.resolution;
        let indent = "  ".repeat(depth + 1);
        let asked = |missing: &&UnresolvedRequest| missing.requested_by == Some(requester) && *missing.name == *name;
        let Some(missing) = resolution.unresolved.iter().find(asked) else {
            return;
        };
        let what = match missing.outcome {
            RequestOutcome::ProvidedAtRuntime => "comes from the driver at run time",
            RequestOutcome::Refused => "refused",
            _ => "not found",
        };
        let _ = writeln!(
            self.out,
            "{indent}{} → {}",
            escape::escape_bytes(name),
            styled(BOLD, what)
        );
        // The search for a driver library fails in every image, and says nothing about this one.
        if missing.outcome != RequestOutcome::ProvidedAtRuntime {
            let _ = writeln!(self.out, "{indent}    {}", missing.message);
            let lines = trace_lines(&missing.trace, &resolution.objects);
            self.out
                .push_str(&search_table(&lines, &format!("{indent}    tried: ")));
        }
    }
}

/// The tree as JSON, version 1 of the contract.
pub(crate) fn tree_json(tree: &ResolutionTree<'_>) -> Value {
    let resolution = tree.resolution;
    let objects = &resolution.objects;
    let path = |number: usize| objects.get(number).map(|object| escape::escape_bytes(&object.path));
    let object = |object: &LoadedObject| {
        json!({
            "path": escape::escape_bytes(&object.path),
            "real_path": object.real_path.to_string(),
            "soname": object.soname.as_deref().map(escape::escape_bytes),
            "requested_by": object.requested_by.and_then(path),
            "as": escape::escape_bytes(&object.name),
            "how": object.how.name(),
            "depth": object.depth,
        })
    };
    let unresolved = |missing: &UnresolvedRequest| {
        let trace = trace_lines(&missing.trace, objects);
        json!({
            "name": escape::escape_bytes(&missing.name),
            "requested_by": missing.requested_by.and_then(path),
            "outcome": missing.outcome.name(),
            "message": missing.message,
            "trace": trace.iter().map(TraceLine::text).collect::<Value>(),
        })
    };
    json!({
        "schema": SCHEMA,
        "world": tree.world.name(),
        "root": tree.root,
        "objects": objects.iter().map(object).collect::<Value>(),
        "unresolved": resolution.unresolved.iter().map(unresolved).collect::<Value>(),
        "loads": resolution.loads(),
        "gaps": resolution.unread,
    })
}
