//! What an audit says of the image that a recipe makes, before it is made.

use std::sync::Arc;

use super::RemedyError;
use super::made_rootfs::make_rootfs;
use super::phase_recipe::{ForetoldAudit, PhaseRecipe, RecipeRequest};
use super::target::require_glibc_linker;
use crate::judge::audit::judge_image;
use crate::judge::facts::{LayerSize, MergedLayers, gather_from_rootfs};
use crate::judge::outcome::AuditedImage;
use crate::make::still_works::check_still_works;
use image_linkage::loader::DynamicLoader;
use image_source::LayerDescriptor;

/// The verdict on the image as the recipe leaves it, for its phase.
pub(super) fn foretell_audit(
    request: &RecipeRequest<'_>,
    linker: &DynamicLoader,
    recipe: &PhaseRecipe,
) -> ForetoldAudit {
    let (audit, adds) = audit_made(request, linker, recipe);
    let loses = check_still_works(&request.target.contexts, &audit.facts.contexts).err();
    let plan = audit.plan(&request.phase.name).unwrap_or(request.plan);
    ForetoldAudit {
        verdict: plan.verdict,
        because: plan.because.clone(),
        adds,
        loses,
    }
}

/// The image as the recipe leaves it, audited for its phase, with the layers that a build would give it.
///
/// Errors: [`RemedyError`] where the image has no loader that a recipe could be made for.
pub(crate) fn foretell_image(request: &RecipeRequest<'_>, recipe: &PhaseRecipe) -> Result<AuditedImage, RemedyError> {
    let (mut audit, adds) = audit_made(request, require_glibc_linker(request.target)?, recipe);
    let facts = &mut audit.facts;
    facts.image.digest = None;
    facts.image.repo_digests.clear();
    // What is removed is gone only from a file system that is built anew, which is one layer.
    let bytes = match &recipe.removal {
        Some(removal) => {
            facts.layers.clear();
            facts.image.layers.clear();
            removal.after
        }
        None => adds,
    };
    if recipe.removal.is_some() || adds > 0 {
        facts.layers.push(LayerSize { compressed: 0, bytes });
        facts.image.layers.push(LayerDescriptor {
            digest: None,
            diff_id: None,
            media_type: "foretold".to_owned(),
            size: None,
            created_by: Some(format!("what dockerfile --phase {} writes", request.phase.name)),
        });
    }
    Ok(audit)
}

/// The audit of the file system that the recipe makes, and the bytes of the files that its build writes.
fn audit_made(request: &RecipeRequest<'_>, linker: &DynamicLoader, recipe: &PhaseRecipe) -> (AuditedImage, u64) {
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
    let phases = [request.phase.name.clone()];
    (judge_image(facts, knowledge, &phases, &conditions.environment), adds)
}
