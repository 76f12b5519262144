//! What an audit says of the image that a recipe makes, before it is made.

use std::sync::Arc;

use super::made_rootfs::make_rootfs;
use super::phase_recipe::{ForetoldAudit, PhaseRecipe, RecipeRequest};
use crate::judge::audit::judge_image;
use crate::judge::facts::{MergedLayers, gather_from_rootfs};
use crate::make::still_works::check_still_works;
use image_linkage::loader::DynamicLoader;

/// Audits the image as the recipe leaves it, for its phase.
pub(super) fn foretell_audit(
    request: &RecipeRequest<'_>,
    linker: &DynamicLoader,
    recipe: &PhaseRecipe,
) -> ForetoldAudit {
    let RecipeRequest {
        target,
        knowledge,
        conditions,
        ..
    } = *request;
    let mut image = target.image.clone();
    if let Some(path) = &recipe.library_path {
        // The last of a name counts.
        image
            .config
            .env
            .push(("LD_LIBRARY_PATH".to_owned(), path.value.clone()));
    }
    let (rootfs, adds) = make_rootfs(target, linker, request.source, recipe);
    let layers = MergedLayers {
        rootfs: Arc::new(rootfs),
        sizes: target.layers.clone(),
        oddities: target.oddities.clone(),
        unread: target.unread.clone(),
        // What could not be read of the image stays unread.
        gaps: target.gaps.clone(),
    };
    let facts = gather_from_rootfs(image, layers, knowledge, conditions);
    let loses = check_still_works(&target.contexts, &facts.contexts).err();
    let phases = [request.phase.name.clone()];
    let audit = judge_image(facts, knowledge, &phases, &conditions.environment);
    let plan = audit.plan(&request.phase.name).unwrap_or(request.plan);
    ForetoldAudit {
        verdict: plan.verdict,
        because: plan.because.clone(),
        adds,
        loses,
    }
}
