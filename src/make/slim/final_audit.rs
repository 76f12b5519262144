//! Audits a new image like any other, and compares it with the original.

use std::collections::{BTreeMap, BTreeSet};

use super::SlimError;
use super::added_layer::{SlimInput, predict_image};
use super::new_image::NewImage;
use super::output::ReadImage;
use crate::facts::{self, ImageFacts, ReadLayers};
use crate::judge::audit::judge_image;
use crate::judge::outcome::AuditedImage;
use crate::judge::plan::Verdict;
use crate::make::still_works;
use image_linkage::path::RootPath;
use image_linkage::rootfs::{NodeKind, Rootfs};

/// Audits a new image for its phase after reading it back.
///
/// Errors: The verdict is unknown or a failure, or there is an unintended change. Nothing is output then.
pub(crate) fn audit_new_image(
    making: &SlimInput<'_>,
    made: &NewImage<'_>,
    read: ReadImage,
) -> Result<AuditedImage, SlimError> {
    let facts = gather_facts(making, read);
    // First, because an unintended change is wrong with any verdict.
    same_but(making, made, &facts)?;
    judge_new_image(making, facts)
}

/// Audits the predicted image for its phase.
///
/// Errors: Those of [`audit_new_image`], or why the image could not be written.
pub(crate) fn audit_predicted_image(making: &SlimInput<'_>) -> Result<AuditedImage, SlimError> {
    judge_new_image(making, gather_facts(making, predict_image(making)?))
}

fn gather_facts(making: &SlimInput<'_>, read: ReadImage) -> ImageFacts {
    let layers = read.layers.into_iter().map(Ok).collect();
    let options = making.options;
    facts::gather_facts(
        read.image,
        ReadLayers { layers },
        options.knowledge,
        &options.conditions,
    )
}

/// Errors: An object no longer loads, or the verdict is unknown or a failure.
fn judge_new_image(making: &SlimInput<'_>, facts: ImageFacts) -> Result<AuditedImage, SlimError> {
    still_works::check_still_works(&making.facts.contexts, &facts.contexts)
        .map_err(|why| SlimError::Cannot(format!("nothing was written: {why}")))?;
    let phase = &making.plan.phase;
    let environment = &making.options.conditions.environment;
    let audit = judge_image(
        facts,
        making.options.knowledge,
        std::slice::from_ref(phase),
        environment,
    );
    match audit.plan(phase) {
        // An unknown verdict is rejected like a failure, because the image may not serve the phase.
        Some(plan) if matches!(plan.verdict, Verdict::Pass | Verdict::Warn) => Ok(audit),
        Some(plan) => {
            let gaps = audit.facts.gaps.iter();
            let unchecked = gaps.map(|gap| format!("{} was not checked", gap.what));
            let why: Vec<String> = plan.because.iter().cloned().chain(unchecked).collect();
            let own = match &making.decision.own_obstacle {
                Some(why) if making.facts.own_copies().next().is_some() => {
                    format!("; the image's own copy does not help: {why}")
                }
                _ => String::new(),
            };
            let advice = match making.supplier {
                None => "; --cupti-from IMAGE|WHEEL|DIR brings CUPTI where it is missing",
                Some(_) => "",
            };
            Err(SlimError::Unfit(format!(
                "nothing was written: the audit of the new image for {phase} says {}: {}{own}{advice}",
                plan.verdict.name(),
                why.join(", ")
            )))
        }
        None => Err(SlimError::Cannot(format!("there is no phase {phase}"))),
    }
}

/// Checks that the new image only differs by intended changes: removed paths and added members.
fn same_but(making: &SlimInput<'_>, made: &NewImage<'_>, after: &ImageFacts) -> Result<(), SlimError> {
    let decision = making.decision;
    let gone = decision.removed_paths();
    let layers = made.added.iter();
    let added = layers.flat_map(|layer| layer.members().map(|(path, _)| path).chain(layer.folders()));
    let lists: Vec<RootPath> = decision.changed_lists(&making.original.layers).collect();
    let meant: BTreeSet<&RootPath> = added.chain(&gone).chain(&lists).collect();
    // A folder without its own layer entry only exists because of its contents.
    let paths = gone.iter().chain(decision.hidden.iter().map(|item| &item.path));
    let implied: BTreeSet<RootPath> = paths.flat_map(RootPath::folders).collect();
    let [mut before, after] = [making.facts, after].map(|facts| tree(&facts.contexts.as_is.rootfs, &meant));
    for object in decision.pruned_objects() {
        for path in object.paths() {
            // The rest of the object was compared when it was written.
            if let Some(NodeSummary { bytes, sha256, .. }) = before.get_mut(path) {
                (*bytes, *sha256) = (object.bytes_after, Some(object.sha256_after.clone()));
            }
        }
    }
    let is_other = |path: &RootPath, node: &NodeSummary| match after.get(path) {
        Some(now) => !now.is_same(node),
        None => !implied.contains(path),
    };
    let different = before
        .iter()
        .find(|(path, node)| is_other(path, node))
        .or_else(|| after.iter().find(|(path, _)| !before.contains_key(*path)));
    match different {
        None => Ok(()),
        Some((path, _)) => Err(SlimError::Cannot(format!(
            "nothing was written: {path} would be another one than before"
        ))),
    }
}

/// The compared properties of a file system node.
struct NodeSummary {
    what: String,
    bytes: u64,
    /// Only files with relevant names have one.
    sha256: Option<String>,
}

impl NodeSummary {
    fn is_same(&self, other: &Self) -> bool {
        // A hard link that became the file has another name, which may not be hashed.
        let is_hashed = self.sha256.is_some() && other.sha256.is_some();
        self.what == other.what && self.bytes == other.bytes && (!is_hashed || self.sha256 == other.sha256)
    }
}

/// The nodes by path, without those that are meant to change.
fn tree(rootfs: &Rootfs, meant: &BTreeSet<&RootPath>) -> BTreeMap<RootPath, NodeSummary> {
    let mut tree = BTreeMap::new();
    rootfs.visit(|path, _, node| {
        if meant.contains(path) {
            return;
        }
        let (what, bytes, sha256) = match &node.kind {
            NodeKind::Directory(_) => ("a folder".to_owned(), 0, None),
            NodeKind::File(facts) => {
                let elf = facts.elf.as_ref().map(|elf| (&elf.soname, &elf.needed));
                let what = format!("a file {:o} {elf:?}", facts.mode);
                (what, facts.bytes, facts.sha256.as_deref().map(str::to_owned))
            }
            NodeKind::Symlink(target) => (format!("-> {}", image_linkage::escape::escape_bytes(target)), 0, None),
            NodeKind::Special => ("special".to_owned(), 0, None),
        };
        tree.insert(path.clone(), NodeSummary { what, bytes, sha256 });
    });
    tree
}
