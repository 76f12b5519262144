//! What an audit says of the image that a recipe makes, before it is made.

use std::sync::Arc;

use super::made_rootfs::make_rootfs;
use super::recipe::{PhaseRecipe, RecipeRequest};
use crate::judge::audit::judge_image;
use crate::judge::facts::{MergedLayers, gather_from_rootfs};
use crate::judge::plan::Verdict;
use crate::make::still_works::check_still_works;
use image_linkage::loader::DynamicLoader;

/// The verdict of an audit that is still to come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ForetoldAudit {
    pub verdict: Verdict,
    /// The rules that make it.
    pub because: Vec<String>,
    /// Whether CUPTI would still have to be brought in, or led to.
    pub lacks_cupti: bool,
    /// The bytes of the files that the build writes.
    pub adds: u64,
    /// What loads in the image and would no longer load, in a sentence.
    pub loses: Option<String>,
}

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
        lacks_cupti: plan.lacks_cupti(&audit.facts),
        adds,
        loses,
    }
}
