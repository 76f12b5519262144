//! The predicted audit of the image that a patch makes.

use std::sync::Arc;

use super::Obstacle;
use super::request::{PatchContext, PatchRequest};
use crate::facts::{MergedLayers, gather_from_rootfs};
use crate::judge::audit::judge_image;
use crate::judge::plan::Verdict;
use crate::judge::rule::Finding;
use crate::knowledge::file_interest::LIBRARY_PATH;
use crate::make::patch::ImagePatch;
use crate::make::patch::apply::apply;
use crate::make::still_works::check_still_works;

/// The audit of the image that a patch makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PredictedAudit {
    pub verdict: Verdict,
    /// The rules that cause the verdict.
    pub because: Vec<String>,
    /// All remaining findings.
    pub findings: Vec<Finding>,
    /// The size of the files that a build adds, if known.
    pub adds: Option<u64>,
}

/// Audits the image that a patch makes, for the requested phase.
///
/// Errors: An obstacle to a file, or an object that would no longer load.
pub(super) fn predict(context: &PatchContext<'_>, patch: &ImagePatch) -> Result<PredictedAudit, Obstacle> {
    let PatchRequest {
        target,
        knowledge,
        conditions,
        ..
    } = context.request;
    let mut image = target.image.clone();
    if let Some(path) = &patch.library_path {
        image.config.set_env(LIBRARY_PATH, path.value.clone());
    }
    let before = &target.contexts.as_is.rootfs;
    let (rootfs, adds) = apply(patch, before, context.linker, target.layers.sizes.len())?;
    let layers = MergedLayers {
        rootfs: Arc::new(rootfs),
        // Unread parts of the image stay unread.
        gaps: target.gaps.clone(),
        ..target.layers.clone()
    };
    let facts = gather_from_rootfs(image, layers, knowledge, conditions);
    let phase = &context.request.phase.name;
    let audit = judge_image(facts, knowledge, std::slice::from_ref(phase), &conditions.environment);
    check_still_works(&target.contexts, &audit.facts.contexts)?;
    let plan = audit.plan(phase).unwrap_or(context.request.plan);
    Ok(PredictedAudit {
        verdict: plan.verdict,
        because: plan.because.clone(),
        adds,
        findings: audit.findings,
    })
}
