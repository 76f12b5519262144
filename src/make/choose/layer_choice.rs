//! Chooses the patch of a layer that `slim` writes.

use super::Obstacle;
use super::choice::{cures, is_misled, without_install};
use super::complete::complete;
use super::methods::{Propose, copy, in_place};
use super::request::{PatchContext, PatchRequest};
use super::search_path::changed_library_path;
use crate::make::patch::{ImagePatch, SearchPath};

/// The patch of a layer, and what becomes of the image's own files.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct ChosenLayer {
    pub patch: ImagePatch,
    /// A search path to the image's own files, if the patch brings others on request.
    pub own: Option<ImagePatch>,
    /// Why the image's own files do not help.
    pub own_obstacle: Option<Obstacle>,
}

/// The patch of a layer. Without one that helps, it only removes files. What is copied or led to is not audited here, but
/// the new image is.
///
/// Errors: Why the requested source has no files for the image.
pub(crate) fn choose_layer(request: PatchRequest<'_>) -> Result<ChosenLayer, Obstacle> {
    let only = |patch| ChosenLayer {
        patch,
        ..ChosenLayer::default()
    };
    let lacks_cupti = request.lacks_cupti();
    let context = match PatchContext::new(request) {
        Ok(context) => context,
        Err(refusal) if lacks_cupti && request.source.is_some() => return Err(refusal.into()),
        // Nothing can be loaded, but files can be removed.
        Err(_) => {
            let patch = ImagePatch {
                library_path: changed_library_path(request.target, None, &[]),
                drops: request.wanted_drops(),
                ..ImagePatch::default()
            };
            return Ok(only(patch));
        }
    };
    if (lacks_cupti || is_misled(request.target, request.knowledge, request.plan))
        && let Some(chosen) = without_install(&context)
    {
        return Ok(only(chosen.patch));
    }
    if !lacks_cupti {
        return Ok(only(complete(&context, ImagePatch::default())?));
    }
    let own = first_completed(&context, in_place::propose).and_then(|own| match own.search {
        SearchPath::Configured { .. } => Ok(own),
        _ => Err(context.install.because.clone().into()),
    });
    // A second copy of the same files would be dead weight, if those of the image help.
    let helps = match &own {
        Ok(own) => copy::has_files_of_source(&context) && cures(&context, own),
        Err(_) => false,
    };
    if request.source.is_some() && !helps {
        return Ok(ChosenLayer {
            patch: first_completed(&context, copy::propose)?,
            own: own.ok(),
            own_obstacle: None,
        });
    }
    match own {
        Ok(own) => Ok(only(own)),
        Err(obstacle) => Ok(ChosenLayer {
            patch: complete(&context, ImagePatch::default())?,
            own: None,
            own_obstacle: Some(obstacle),
        }),
    }
}

fn first_completed(context: &PatchContext<'_>, propose: Propose) -> Result<ImagePatch, Obstacle> {
    let first = propose(context)?.into_iter().next();
    complete(context, first.ok_or("nothing is proposed")?)
}
