//! The predicted audit of the image that a recipe makes.

use std::sync::Arc;

use super::install_context::{InstallContext, RecipeRequest};
use super::made_rootfs::make_rootfs;
use super::phase_recipe::{PhaseRecipe, PredictedAudit};
use crate::facts::{MergedLayers, gather_from_rootfs};
use crate::judge::audit::judge_image;
use crate::knowledge::file_interest::LIBRARY_PATH;
use crate::make::still_works::check_still_works;

/// The predicted verdict for the phase, and the size of the files that the build writes.
///
/// Errors: An obstacle to a file, or an object that would no longer load.
pub(super) fn predict_audit(
    question: &InstallContext<'_>,
    recipe: &PhaseRecipe,
) -> Result<(PredictedAudit, u64), String> {
    let RecipeRequest {
        target,
        knowledge,
        conditions,
        ..
    } = *question.request;
    let mut image = target.image.clone();
    if let Some(path) = &recipe.library_path {
        image.config.set_env(LIBRARY_PATH, path.value.clone());
    }
    let (rootfs, adds) = make_rootfs(question, recipe)?;
    let layers = MergedLayers {
        rootfs: Arc::new(rootfs),
        sizes: target.layers.clone(),
        oddities: target.oddities.clone(),
        removals: target.removals.clone(),
        unread: target.unread.clone(),
        // Unread parts of the image stay unread.
        gaps: target.gaps.clone(),
    };
    let facts = gather_from_rootfs(image, layers, knowledge, conditions);
    let phase = &question.request.phase.name;
    let audit = judge_image(facts, knowledge, std::slice::from_ref(phase), &conditions.environment);
    check_still_works(&target.contexts, &audit.facts.contexts)?;
    let plan = audit.plan(phase).unwrap_or(question.request.plan);
    let predicted = PredictedAudit {
        verdict: plan.verdict,
        because: plan.because.clone(),
        findings: audit.findings,
    };
    Ok((predicted, adds))
}
