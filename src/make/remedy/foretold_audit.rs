//! What an audit says of the image that a recipe makes, before it is made.

use std::sync::Arc;

use super::made_rootfs::make_rootfs;
use super::phase_recipe::{ForetoldAudit, PhaseRecipe, RecipeRequest};
use crate::judge::audit::judge_image;
use crate::judge::facts::{MergedLayers, gather_from_rootfs};
use crate::judge::outcome::AuditedImage;
use crate::make::still_works::check_still_works;
use image_linkage::loader::DynamicLoader;

/// The verdict on the image as the recipe leaves it, for its phase.
///
/// Errors: What stands in the way of a file.
pub(super) fn foretell_audit(
    request: &RecipeRequest<'_>,
    linker: &DynamicLoader,
    recipe: &PhaseRecipe,
) -> Result<ForetoldAudit, String> {
    let (audit, adds) = audit_made(request, linker, recipe)?;
    let loses = check_still_works(&request.target.contexts, &audit.facts.contexts).err();
    let plan = audit.plan(&request.phase.name).unwrap_or(request.plan);
    Ok(ForetoldAudit {
        verdict: plan.verdict,
        because: plan.because.clone(),
        adds,
        loses,
    })
}

/// The audit of the file system that the recipe makes, and the bytes of the files that its build writes.
fn audit_made(
    request: &RecipeRequest<'_>,
    linker: &DynamicLoader,
    recipe: &PhaseRecipe,
) -> Result<(AuditedImage, u64), String> {
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
    let (rootfs, adds) = make_rootfs(target, linker, request.source, recipe)?;
    let layers = MergedLayers {
        rootfs: Arc::new(rootfs),
        sizes: target.layers.clone(),
        oddities: target.oddities.clone(),
        unread: target.unread.clone(),
        // What could not be read of the image stays unread.
        gaps: target.gaps.clone(),
    };
    let facts = gather_from_rootfs(image, layers, knowledge, conditions);
    let phases = [request.phase.name.clone()];
    Ok((judge_image(facts, knowledge, &phases, &conditions.environment), adds))
}
