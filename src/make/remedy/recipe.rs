//! All changes of a Dockerfile to an image for one phase, and their reasons.

use super::build_check::{self, names_to_check};
use super::copy_plan::{CopyPlan, has_library};
use super::file_ways::{find_in_place, unread_copy};
use super::granted_rights::lacking_rights;
use super::image_system::read_image_system;
use super::install_context::{InstallContext, RecipeRequest};
use super::install_folder::{CacheUpdate, FolderDiscovery, choose_install_folder};
use super::install_method::InstallMethod;
use super::made_rootfs::unread_folder;
use super::method_choice::choose_method;
use super::misleading_names::misleading_names;
use super::opened_paths::{links_at_opened_paths, links_that_suffice, plain_link};
use super::phase_recipe::{BroughtRelease, PhaseRecipe, PredictedAudit};
use super::predicted_audit::predict_audit;
use super::removal::{is_in_volume, plan_removal};
use super::required_libraries::{RequiredLibrary, apis_newer_than_release};
use super::search_path_setup::{SearchPathSetup, changed_library_path, set_up_search_path};
use super::target::require_glibc_linker;
use super::target_release::{TargetRelease, known_file};
use super::{MethodObstacle, RemedyError};
use crate::facts::ImageFacts;
use crate::facts::software::cuda_runtime::CudaVersion;
use crate::judge::plan::{Plan, PlanItem, Verdict, unneeded_files};
use crate::judge::rule::RuleCure;
use crate::knowledge::{Knowledge, has_api};
use crate::size::format_size;
use image_linkage::path::RootPath;

/// The release whose files are listed if the image's release is unknown.
const UNKNOWN_CUDA: CudaVersion = (12, 0);

/// The recipe that makes the image serve the phase.
///
/// Errors: A [`RemedyError`] if the image cannot be fixed, or not in the requested way.
pub(crate) fn make_recipe(request: &RecipeRequest<'_>) -> Result<PhaseRecipe, RemedyError> {
    let RecipeRequest {
        target, phase, plan, ..
    } = *request;
    let lacks_cupti = request.lacks_cupti();
    let is_misled = is_misled(target, request.knowledge, plan);
    if lacks_cupti {
        require_glibc_linker(target)?;
    }
    let question = InstallContext::new(request)?;
    let mut drop = if request.drops {
        plan.drop.clone()
    } else {
        unneeded_files(target, &request.knowledge.profilers, &phase.without_drop())
    };
    if lacks_cupti {
        // No program gets these files now, but the recipe may put them on the search path.
        let placed = find_in_place(target, phase, CacheUpdate::Build);
        let placed = placed.map(|found| found.files).unwrap_or_default();
        // A package may write the library at the path of a damaged one.
        let is_library = |item: &PlanItem| target.copies.iter().any(|copy| copy.real_path == item.path);
        drop.retain(|item| !is_library(item) && !placed.iter().any(|file| file.from == item.path));
    }
    let blank = blank_recipe(&question, &drop)?;
    // Install CUPTI only if that can change the verdict and the phase uses it.
    let from_image = (lacks_cupti || is_misled).then(|| without_install(&question, &blank));
    let mut recipe = if let Some(recipe) = from_image.flatten() {
        recipe
    } else if lacks_cupti || (is_misled && plan.verdict == Verdict::Fail) {
        bring_in(&question, &blank)?
    } else {
        let image = target.image.reference.clone();
        finish(&question, blank).map_err(|why| RemedyError::BreaksImage { image, why })?
    };
    if !recipe.system.shell && !drop.is_empty() {
        recipe.leaves.push(format!(
            "unneeded files: the image has {} to remove them; cupti-audit slim needs none",
            recipe.system.lacks
        ));
    }
    let in_volumes = drop.iter().filter(|item| is_in_volume(target, item)).count();
    if recipe.system.shell && in_volumes > 0 {
        recipe.leaves.push(format!(
            "{in_volumes} unneeded files: they are in a volume of the image, where a build cannot remove them"
        ));
    }
    let left = plan
        .drop_bytes()
        .saturating_sub(drop.iter().map(|item| item.bytes).sum());
    if !phase.dead_weight.removes.is_empty() && left > 0 {
        recipe.leaves.push(format!(
            "{} of files that this phase does not need, such as compilers and stubs: --drop removes them",
            format_size(left)
        ));
    }
    Ok(recipe)
}

/// A recipe that installs nothing and removes `drop`.
fn blank_recipe(question: &InstallContext<'_>, drop: &[PlanItem]) -> Result<PhaseRecipe, RemedyError> {
    let RecipeRequest { target, plan, .. } = *question.request;
    let cuda = question.release.as_ref().map(|it| it.release.cuda);
    let needs = question.needs(cuda.unwrap_or(UNKNOWN_CUDA));
    let system = &question.system;
    Ok(PhaseRecipe {
        way: None,
        considered: Vec::new(),
        release: None,
        needs: Vec::new(),
        spare: Vec::new(),
        clears: Vec::new(),
        adds: None,
        search: choose_install_folder(target, question.linker, CacheUpdate::Build),
        search_setup: SearchPathSetup::nothing("nothing is added"),
        library_path: None,
        path_links: Vec::new(),
        rights: Vec::new(),
        removal: plan_removal(target, drop).filter(|_| system.shell),
        check: build_check::check_without_install(target, question.linker, plan, &needs)?,
        leaves: Vec::new(),
        system: system.clone(),
        predicted: PredictedAudit {
            verdict: plan.verdict,
            because: plan.because.clone(),
            findings: Vec::new(),
        },
    })
}

/// The recipe for `slim` if nothing in the image can install CUPTI: the files of the wanted release, from outside.
///
/// Errors: A [`RemedyError`] if the image cannot be fixed, or the wanted release is unknown.
pub(crate) fn make_outside_recipe(request: &RecipeRequest<'_>) -> Result<PhaseRecipe, RemedyError> {
    let target = request.target;
    require_glibc_linker(target)?;
    let mut question = InstallContext::new(request)?;
    // `slim` writes the layer, so no program of the image is needed.
    question.system.shell = true;
    let blank = blank_recipe(&question, &[])?;
    let made = || -> Result<PhaseRecipe, MethodObstacle> {
        let way = unread_copy(&question, String::new(), question.release()?, &RootPath::default());
        let recipe = finish(
            &question,
            with_search_path(&question, recipe_of(&question, way, &blank)?),
        )?;
        require_cured(&question, recipe)
    };
    made().map_err(|why| RemedyError::NoWay {
        image: target.image.reference.clone(),
        via: None,
        whys: vec![why],
    })
}

/// The recipe that only makes the image's library readable, removes misleading names, or creates links; `None` if that
/// is not enough.
fn without_install(question: &InstallContext<'_>, blank: &PhaseRecipe) -> Option<PhaseRecipe> {
    let RecipeRequest { target, plan, .. } = *question.request;
    // This needs a shell, and a requested release must be installed. An added program opens none of the links.
    let is_asked = question.request.source.is_some()
        || question.request.cuda.is_some()
        || question.request.added_program_lacks_cupti();
    if !blank.system.shell || is_asked {
        return None;
    }
    let readable = lacking_rights(target).map(|rights| PhaseRecipe {
        rights,
        ..blank.clone()
    });
    let cleared = PhaseRecipe {
        clears: misleading_names(target),
        ..blank.clone()
    };
    let linked = PhaseRecipe {
        path_links: links_that_suffice(target, plan),
        ..blank.clone()
    };
    let others = [cleared, linked].into_iter().filter(PhaseRecipe::changes_names);
    let mut finished = readable
        .chain(others)
        .filter_map(|recipe| finish(question, recipe).ok());
    finished.find(|recipe| !is_uncured(question.request.knowledge, &recipe.predicted.because))
}

/// Whether the verdict has a reason that installing CUPTI should cure, and the image has misleading names.
pub(crate) fn is_misled(target: &ImageFacts, knowledge: &Knowledge, plan: &Plan) -> bool {
    is_uncured(knowledge, &plan.because) && !misleading_names(target).is_empty()
}

/// Whether these rules include one that installing CUPTI should cure.
fn is_uncured(knowledge: &Knowledge, because: &[String]) -> bool {
    let is_installed = |id: &String| knowledge.rule(id).and_then(|rule| rule.cured_by) == Some(RuleCure::InstallCupti);
    because.iter().any(is_installed)
}

/// Uses the cheapest method whose result passes an audit, and completes the recipe.
fn bring_in(question: &InstallContext<'_>, blank: &PhaseRecipe) -> Result<PhaseRecipe, RemedyError> {
    let (mut recipe, considered) = choose_method(question, |way| {
        let recipe = recipe_of(question, way, blank)?;
        if let Some(recipe) = without_search_path(question, &recipe)? {
            return Ok(recipe);
        }
        let recipe = finish(question, with_search_path(question, recipe))?;
        require_cured(question, recipe)
    })?;
    recipe.considered = considered;
    Ok(recipe)
}

/// The recipe, unless its predicted audit fails for a reason that it should cure, or says the same as before.
fn require_cured(question: &InstallContext<'_>, recipe: PhaseRecipe) -> Result<PhaseRecipe, MethodObstacle> {
    let (before, predicted) = (question.request.plan, &recipe.predicted);
    let is_same = predicted.verdict == before.verdict && predicted.because == before.because;
    if (predicted.verdict == Verdict::Fail || is_same) && is_uncured(question.request.knowledge, &predicted.because) {
        let because = predicted.because.join(", ");
        return Err(format!("the result would not pass its own audit: {because}").into());
    }
    Ok(recipe)
}

/// The recipe without a search path of its own, if the requesting programs find the library on theirs.
fn without_search_path(
    question: &InstallContext<'_>,
    recipe: &PhaseRecipe,
) -> Result<Option<PhaseRecipe>, MethodObstacle> {
    let own_folder = recipe.way.as_ref().and_then(InstallMethod::own_folder);
    let Some(folder) = own_folder.filter(|_| !question.request.adds_linked_program) else {
        return Ok(None);
    };
    let recipe = PhaseRecipe {
        search_setup: SearchPathSetup::nothing(format!("the program's own search path leads to {folder}")),
        ..recipe.clone()
    };
    let recipe = finish(question, recipe)?;
    Ok((!is_uncured(question.request.knowledge, &recipe.predicted.because)).then_some(recipe))
}

/// The recipe with a search path that all processes use.
fn with_search_path(question: &InstallContext<'_>, mut recipe: PhaseRecipe) -> PhaseRecipe {
    if let Some(way) = &recipe.way {
        recipe.search_setup = set_up_search_path(question, &recipe.search, way, &recipe.needs);
        // Check the bare name only if every process should find it, not if only one program has it on its own path.
        if !matches!(&recipe.search_setup, SearchPathSetup::Nothing { .. }) || is_default(way) {
            let target = question.request.target;
            recipe.check.names = names_to_check(target.library, way, &recipe.needs);
            if recipe.makes_plain_link(&target.library.stem) {
                recipe.check.names.push(target.library.stem.clone());
            }
        }
    }
    recipe
}

/// The recipe of one method, without the search path.
fn recipe_of(
    question: &InstallContext<'_>,
    way: InstallMethod,
    blank: &PhaseRecipe,
) -> Result<PhaseRecipe, MethodObstacle> {
    let target = question.request.target;
    let mut recipe = blank.clone();
    let release = question.release.as_ref();
    let cuda = way.cuda().or(release.map(|it| it.release.cuda));
    recipe.needs = match way.read_plan() {
        Some(copy_plan) => needs_of(target, copy_plan),
        None => question.needs(cuda.unwrap_or(UNKNOWN_CUDA)),
    };
    require_system_libraries(target, &way)?;
    let needed = |stem: &&'static str| recipe.needs.iter().any(|need| need.stem == *stem);
    // A package contains all of them; unneeded ones are removed in the same layer.
    let companions = target.library.companions();
    recipe.spare = companions.filter(|stem| !needed(stem)).collect();
    if let Some(cuda) = cuda {
        let newer = apis_newer_than_release(target.tables, question.request.phase, |api| has_api(cuda, api));
        recipe.leaves.extend(newer);
    }
    if recipe.system.shell {
        recipe.clears = misleading_names(target);
        let folder = unread_folder(question, &way, &recipe);
        let library = match way.read_plan().and_then(|copy_plan| copy_plan.files.first()) {
            Some(file) if matches!(way, InstallMethod::Place(_)) => file.from.clone(),
            Some(file) => file.to.clone(),
            None => folder.unwrap_or_default().join(way.soname().as_bytes()),
        };
        recipe.path_links = links_at_opened_paths(target, way.soname().as_bytes(), &library);
        if way.copy_plan().is_none() {
            let link = plain_link(target, question.request.phase, &library.parent(), library.name());
            recipe.path_links.extend(link);
        }
    }
    recipe.release = brought_release(&way, release);
    // The size of unread files and of an unknown release is unknown.
    let is_known = |need: &RequiredLibrary| {
        way.read_plan().is_some()
            || cuda.is_some_and(|cuda| known_file(target, question.linker, cuda, need.stem).is_some())
    };
    // conda may install further packages.
    let is_sized = !matches!(way, InstallMethod::Conda(_)) && recipe.needs.iter().all(is_known);
    recipe.adds = is_sized.then_some(0);
    recipe.check.elsewhere = match (&way, question.request.source) {
        (InstallMethod::Copy { is_read: true, .. }, Some(source)) => read_image_system(source.facts).shell,
        // NVIDIA's devel images are Ubuntu and Rocky Linux, which have a shell.
        (InstallMethod::Copy { .. }, _) => true,
        _ => false,
    };
    recipe.way = Some(way);
    Ok(recipe)
}

/// Checks that the image has the libraries that CUPTI needs beside glibc. Images with apt or dnf have them; no other
/// method installs them.
fn require_system_libraries(target: &ImageFacts, way: &InstallMethod) -> Result<(), MethodObstacle> {
    let brought = way.read_plan().into_iter().flat_map(|copy_plan| &copy_plan.files);
    let brought: Vec<&[u8]> = brought.map(|file| &*file.name).collect();
    let mut needed = target.library.needed.iter();
    let lacking = needed.find(|name| !brought.contains(&name.as_bytes()) && !has_library(target, name.as_bytes()));
    lacking.map_or(Ok(()), |name| {
        Err(format!("libcupti needs {name}, which the image lacks: pass an image that has both with --from").into())
    })
}

/// Fills in the parts that depend on all others: the search path, the sizes and the predicted audit.
///
/// Errors: An obstacle to a file, or an object that would no longer load.
fn finish(question: &InstallContext<'_>, mut recipe: PhaseRecipe) -> Result<PhaseRecipe, String> {
    // Whether `LD_LIBRARY_PATH` needs the folder depends on the search path setup.
    let folder = recipe.search_setup.named_folder();
    recipe.library_path = changed_library_path(question.request.target, folder, &recipe.clears);
    let adds;
    (recipe.predicted, adds) = predict_audit(question, &recipe)?;
    recipe.adds = recipe.adds.map(|_| adds);
    if let Some(removal) = &mut recipe.removal {
        removal.after += recipe.adds.unwrap_or_default();
    }
    Ok(recipe)
}

/// The needs that the file list covers.
fn needs_of(target: &ImageFacts, copy_plan: &CopyPlan) -> Vec<RequiredLibrary> {
    // Other files, such as libgcc_s, are not from CUPTI's packages.
    let stems = std::iter::once(&*target.library.stem).chain(target.library.companions());
    let need = |stem: &'static str| {
        let file = copy_plan
            .files
            .iter()
            .find(|file| file.name.starts_with(stem.as_bytes()))?;
        Some(RequiredLibrary {
            stem,
            is_numbered: false,
            because: file.because.clone(),
        })
    };
    stems.filter_map(need).collect()
}

/// The release that a method installs, and the evidence for it.
fn brought_release(way: &InstallMethod, release: Option<&TargetRelease>) -> Option<BroughtRelease> {
    // Files that were read show their own release; a guess from the soname does not apply to them.
    let certain = release.filter(|it| !(way.read_plan().is_some() && it.is_guess));
    let because = certain.map(|release| release.because.clone());
    let version = match way {
        InstallMethod::Package(package) => Some(package.version.clone()),
        InstallMethod::Pip(pip) => Some(pip.version.clone()),
        _ => match way.read_plan() {
            Some(copy_plan) => copy_plan.release.clone(),
            None => release.map(|it| it.release.wheel()),
        },
    };
    Some(BroughtRelease {
        version: version?,
        because: because.unwrap_or_else(|| "nothing in the image asks for another".to_owned()),
    })
}

fn is_default(way: &InstallMethod) -> bool {
    match way {
        InstallMethod::Package(package) => package.folder.is_none(),
        _ => way
            .copy_plan()
            .is_some_and(|plan| plan.search.by == FolderDiscovery::Default),
    }
}
