//! Chooses the patch of a build: the first proposal of the methods whose result passes an audit.

use super::complete::complete;
use super::methods::{METHODS, OF_CONDA, Propose, WITHOUT_INSTALL, copy, links, unread};
use super::misleading_names::misleading_names;
use super::predict::{PredictedAudit, predict};
use super::request::{MethodKind, PatchContext, PatchForm, PatchRequest, is_uncured};
use super::target::require_glibc_linker;
use super::{Obstacle, PatchError};
use crate::facts::ImageFacts;
use crate::judge::plan::{Plan, Verdict};
use crate::knowledge::Knowledge;
use crate::make::patch::ImagePatch;

/// The chosen patch.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ChosenPatch {
    pub patch: ImagePatch,
    pub predicted: PredictedAudit,
    /// The considered methods, the used one last; empty if nothing had to be installed.
    pub considered: Vec<ConsideredMethod>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConsideredMethod {
    pub name: &'static str,
    /// Why it is used, or why not.
    pub why: String,
}

/// The patch of a build that makes the image serve the phase.
///
/// Errors: A [`PatchError`] if the image cannot be fixed, or not in the requested way.
pub(crate) fn choose_patch(context: &PatchContext<'_>) -> Result<ChosenPatch, PatchError> {
    let request = &context.request;
    let lacks_cupti = request.lacks_cupti();
    if lacks_cupti {
        require_glibc_linker(request.target)?;
    }
    let is_misled = is_misled(request.target, request.knowledge, request.plan);
    // Install CUPTI only if that can change the verdict and the phase uses it.
    if (lacks_cupti || is_misled)
        && let Some(chosen) = without_install(context)
    {
        return Ok(chosen);
    }
    if lacks_cupti || (is_misled && request.plan.verdict == Verdict::Fail) {
        return choose_method(context);
    }
    predicted(context, ImagePatch::default()).map_err(|why| breaks_image(request, &why))
}

/// The patch of a layer with the files of the wanted release, for an image in which nothing can install them.
///
/// Errors: A [`PatchError`] if the image cannot be fixed, or the wanted release is unknown.
pub(crate) fn choose_outside_patch(request: PatchRequest<'_>) -> Result<ChosenPatch, PatchError> {
    require_glibc_linker(request.target)?;
    let context = PatchContext::new(request)?;
    let made = first_cure(&context, unread::propose_wheel);
    made.map_err(|why| PatchError::NoWay {
        image: request.target.image.reference.clone(),
        via: None,
        whys: vec![why],
    })
}

/// The patch of a target that copies the libraries from a stage of the build, which installs them by `installed`.
///
/// Errors: [`PatchError::BreaksImage`] for an obstacle in the image.
pub(crate) fn choose_copy_from_stage(
    context: &PatchContext<'_>,
    installed: &ImagePatch,
) -> Result<ChosenPatch, PatchError> {
    let install = &context.install;
    let search = install.search_path_because(
        "ldconfig finds it for every process",
        "the loader looks there by itself",
    );
    let mut patch = installed.copied_from_stage(&install.folder, search);
    patch
        .links
        .extend(links::bare_link(context, &install.folder, &patch.soname));
    predicted(context, patch).map_err(|why| breaks_image(&context.request, &why))
}

fn breaks_image(request: &PatchRequest<'_>, why: &Obstacle) -> PatchError {
    PatchError::BreaksImage {
        image: request.target.image.reference.clone(),
        why: why.to_string(),
    }
}

/// Whether the verdict has a reason that installing CUPTI should cure, and the image has misleading names.
pub(crate) fn is_misled(target: &ImageFacts, knowledge: &Knowledge, plan: &Plan) -> bool {
    is_uncured(knowledge, &plan.because) && !misleading_names(target).is_empty()
}

/// The first cure that only makes the image's library readable, removes misleading names, or creates links; `None` if
/// that is not enough.
pub(super) fn without_install(context: &PatchContext<'_>) -> Option<ChosenPatch> {
    let request = &context.request;
    // In a build, a requested release must be installed. An added program opens none of the links.
    let is_asked = request.source.is_some() || request.cuda.is_some() || request.added_program_lacks_cupti();
    if !context.can_link() || (is_asked && request.form == PatchForm::Build) {
        return None;
    }
    let proposals = WITHOUT_INSTALL
        .iter()
        .flat_map(|propose| propose(context).unwrap_or_default());
    let mut made = proposals.filter_map(|patch| predicted(context, patch).ok());
    made.find(|chosen| !request.is_uncured(&chosen.predicted.because))
}

/// The patch of the cheapest method that cures, with the considered methods. The first requested kind with such a method
/// wins; without a request, all are considered.
///
/// Errors: [`PatchError::NoWay`] with the reason for each considered method.
fn choose_method(context: &PatchContext<'_>) -> Result<ChosenPatch, PatchError> {
    let request = &context.request;
    let mut considered = Vec::new();
    let mut whys = Vec::new();
    let copy = [MethodKind::Copy];
    // A user who names a copy source wants its files and no package. A second copy of files already in the image would
    // be useless.
    let (via, has_them) = match request.via {
        [] if request.source.is_some() => (copy.as_slice(), copy::has_files_of_source(context)),
        asked => (asked, false),
    };
    let has_conda = context.system.conda.is_some();
    let candidates = || METHODS.iter().filter(|it| it.name != OF_CONDA || has_conda);
    let own = candidates().filter(|it| has_them && it.via.is_none());
    let ordered = via
        .iter()
        .flat_map(|kind| candidates().filter(|it| it.via == Some(*kind)));
    let all = candidates().filter(|_| via.is_empty());
    for method in own.chain(ordered).chain(all) {
        let name = method.name;
        match first_cure(context, method.propose) {
            Ok(chosen) => {
                let why = method.why.to_owned();
                considered.push(ConsideredMethod { name, why });
                return Ok(ChosenPatch { considered, ..chosen });
            }
            Err(obstacle) => {
                let why = obstacle.to_string();
                // Consecutive methods may fail for the same reason, for example because the image has no library.
                if considered.last().is_none_or(|last: &ConsideredMethod| last.why != why) {
                    considered.push(ConsideredMethod { name, why });
                }
                whys.push(obstacle);
            }
        }
    }
    let names: Vec<&str> = via.iter().map(|kind| kind.name()).collect();
    Err(PatchError::NoWay {
        image: request.target.image.reference.clone(),
        via: (!names.is_empty()).then(|| names.join(" or ")),
        whys,
    })
}

/// The first proposal of a method that cures. All but the last must leave nothing that it should cure.
fn first_cure(context: &PatchContext<'_>, propose: Propose) -> Result<ChosenPatch, Obstacle> {
    let mut proposals = propose(context)?;
    let last = proposals.pop().ok_or("nothing is proposed")?;
    for proposal in proposals {
        let chosen = predicted(context, proposal)?;
        if !context.request.is_uncured(&chosen.predicted.because) {
            return Ok(chosen);
        }
    }
    require_cured(context, predicted(context, last)?)
}

/// The patch, unless its predicted audit fails for a reason that it should cure, or says the same as before.
fn require_cured(context: &PatchContext<'_>, chosen: ChosenPatch) -> Result<ChosenPatch, Obstacle> {
    let (before, predicted) = (context.request.plan, &chosen.predicted);
    let is_same = predicted.verdict == before.verdict && predicted.because == before.because;
    if (predicted.verdict == Verdict::Fail || is_same) && context.request.is_uncured(&predicted.because) {
        let because = predicted.because.join(", ");
        return Err(format!("the result would not pass its own audit: {because}").into());
    }
    Ok(chosen)
}

/// Whether the result of a completed patch has nothing left that installing CUPTI should cure.
pub(super) fn cures(context: &PatchContext<'_>, patch: &ImagePatch) -> bool {
    predict(context, patch).is_ok_and(|predicted| !context.request.is_uncured(&predicted.because))
}

/// The completed proposal with its predicted audit.
///
/// Errors: An obstacle to a file, or an object that would no longer load.
fn predicted(context: &PatchContext<'_>, proposal: ImagePatch) -> Result<ChosenPatch, Obstacle> {
    let patch = complete(context, proposal)?;
    Ok(ChosenPatch {
        predicted: predict(context, &patch)?,
        patch,
        considered: Vec::new(),
    })
}
