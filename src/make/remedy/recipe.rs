//! All that a Dockerfile does to an image for one phase, and why.

use super::RemedyError;
use super::build_check::{self, BuildCheck, names_to_check};
use super::copy_plan::{CacheUpdate, CopyPlan, require_glibc_linker};
use super::image_system::{ImageSystem, read_image_system};
use super::install_folder::{FolderDiscovery, choose_install_folder};
use super::install_method::{InstallMethod, MethodKind};
use super::method_choice::{InstallContext, MethodChoice, choose_method};
use super::removal::{RemovalPlan, plan_removal};
use super::required_libraries::{self, CUPTI, RequiredLibrary};
use super::search_path_setup::{SearchPathSetup, changed_library_path, set_up_search_path};
use super::target_release::{choose_release, release_platform};
use crate::judge::facts::ImageFacts;
use crate::judge::facts::cuda_runtime::{CudaVersion, parse_cuda_version};
use crate::judge::plan::{Plan, Verdict};
use crate::judge::rule::{Rule, RuleCure};
use crate::knowledge::{Phase, has_api};
use image_linkage::loader::DynamicLoader;
use image_linkage::path::RootPath;

/// What is asked.
pub struct RecipeRequest<'a> {
    /// The image.
    pub target: &'a ImageFacts,
    /// The phase.
    pub phase: &'a Phase,
    /// What the image makes of the phase now.
    pub plan: &'a Plan,
    /// The rules, each of which says what cures it.
    pub rules: &'a [Rule],
    /// The way that is asked for; `None` for the cheapest.
    pub via: Option<MethodKind>,
    /// The version of CUDA that is asked for.
    pub cuda: Option<CudaVersion>,
    /// The image to copy from, by the name that `FROM` takes, and its facts.
    pub source: Option<(String, &'a ImageFacts)>,
}

/// What is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PhaseRecipe {
    /// How CUPTI comes in; `None` where nothing has to be brought.
    pub choice: Option<MethodChoice>,
    /// The release, where it is known, and what says so.
    pub release: Option<(String, String)>,
    /// The libraries that are needed.
    pub needs: Vec<RequiredLibrary>,
    /// The libraries of a package that are not, by their stems.
    pub spare: Vec<&'static str>,
    /// The bytes that are added, as far as the sizes of the release are known.
    pub adds: Option<u64>,
    /// The folder that files are copied into.
    pub folder: RootPath,
    /// How the loader comes to find it.
    pub lead: SearchPathSetup,
    /// What `LD_LIBRARY_PATH` is set to, and why.
    pub library_path: Option<(String, String)>,
    /// What is removed.
    pub fresh: Option<RemovalPlan>,
    /// What is asked of the image's own loader at the end of the build.
    pub proof: BuildCheck,
    /// What stays as it is: rules that made the verdict, and APIs that the release does not have.
    pub leaves: Vec<String>,
    /// The system of the image.
    pub system: ImageSystem,
}

/// What is to be done, so that the image serves the phase.
///
/// Errors: A [`RemedyError`]: the image cannot be helped, or not in the way that is asked for.
pub fn make_recipe(request: &RecipeRequest<'_>) -> Result<PhaseRecipe, RemedyError> {
    let RecipeRequest {
        target,
        phase,
        plan,
        ..
    } = *request;
    let linker = require_glibc_linker(target)?;
    let system = read_image_system(target);
    let cure = |id: &String| request.rules.iter().find(|rule| rule.id == *id)?.cured_by;
    let is_installed = |id: &String| cure(id) == Some(RuleCure::InstallCupti);
    let to_cure = plan.verdict > Verdict::Pass && plan.because.iter().any(is_installed);
    let release = choose_release(target, linker, request.cuda);
    let cuda = release.map_or((12, 0), |target| target.release.cuda);
    let needs = required_libraries::list_required_libraries(
        target.tables,
        phase,
        &target.consumers,
        |api| has_api(cuda, api),
    );
    let removes = phase.baggage.removes == Some(true);
    let mut recipe = PhaseRecipe {
        choice: None,
        release: None,
        needs: Vec::new(),
        spare: Vec::new(),
        adds: None,
        folder: choose_install_folder(target, linker, CacheUpdate::Build).folder,
        lead: SearchPathSetup::Nothing("nothing is brought".to_owned()),
        library_path: None,
        fresh: plan_removal(target, plan).filter(|_| removes && system.shell),
        proof: build_check::check_without_install(target, linker, plan, &needs),
        leaves: plan
            .because
            .iter()
            .filter(|rule| cure(rule).is_none())
            .cloned()
            .collect(),
        system: system.clone(),
    };
    if to_cure {
        bring_in(request, linker, system, &mut recipe)?;
    }
    if removes && !recipe.system.shell && !plan.drop.is_empty() {
        let why = "the files that may go: the image has no shell to remove them with, and cupti-audit slim takes none";
        recipe.leaves.push(why.to_owned());
    }
    recipe.library_path = changed_library_path(target, &recipe.lead);
    Ok(recipe)
}

/// Chooses the way, and what follows from it.
fn bring_in(
    request: &RecipeRequest<'_>,
    linker: &DynamicLoader,
    system: ImageSystem,
    recipe: &mut PhaseRecipe,
) -> Result<(), RemedyError> {
    let RecipeRequest { target, phase, .. } = *request;
    let release = choose_release(target, linker, request.cuda);
    let question = InstallContext {
        target,
        linker,
        system,
        phase,
        release: release.clone(),
        source: request.source.clone(),
    };
    let via = request
        .via
        .or(request.source.as_ref().map(|_| MethodKind::Copy));
    let choice = choose_method(&question, via)?;
    let cuda = cuda_of(&choice.way).or(release.as_ref().map(|target| target.release.cuda));
    recipe.needs = match &choice.way {
        InstallMethod::Place(super::install_method::InPlaceFiles { bring, .. })
        | InstallMethod::Copy { bring, .. } => needs_of(target, bring),
        _ => question.needs(cuda.unwrap_or((12, 0))),
    };
    let needed = |stem: &&'static str| recipe.needs.iter().any(|need| need.stem == *stem);
    let companions = target.library.companions();
    recipe.spare = companions.filter(|stem| !needed(&stem)).collect();
    recipe.leaves.extend(cuda.iter().flat_map(|cuda| {
        required_libraries::apis_newer_than_release(target.tables, phase, |api| has_api(*cuda, api))
    }));
    recipe.release = said(&choice.way, release);
    recipe.adds = adds(target, &choice.way, recipe, linker);
    recipe.lead = set_up_search_path(&question, &choice.way, &recipe.needs);
    if !matches!(&recipe.lead, SearchPathSetup::Nothing(_)) || is_default(&choice.way) {
        recipe.proof.names = names_to_check(&choice.way, &recipe.needs);
    }
    recipe.proof.elsewhere = match (&choice.way, &request.source) {
        (InstallMethod::Copy { .. }, Some((_, source))) => read_image_system(source).shell,
        (InstallMethod::Devel { .. }, _) => true,
        _ => false,
    };
    recipe.choice = Some(choice);
    Ok(())
}

/// The needs that a list of files answers.
fn needs_of(target: &ImageFacts, bring: &CopyPlan) -> Vec<RequiredLibrary> {
    let stems = [CUPTI].into_iter().chain(target.library.companions());
    let need = |stem: &'static str| {
        let file = bring
            .files
            .iter()
            .find(|file| file.name.starts_with(stem.as_bytes()))?;
        Some(RequiredLibrary {
            stem,
            because: vec![file.because.clone()],
        })
    };
    stems.filter_map(need).collect()
}

/// The version of CUDA that a way is bound to.
fn cuda_of(way: &InstallMethod) -> Option<CudaVersion> {
    match way {
        InstallMethod::Package(package) => parse_cuda_version(&package.version),
        InstallMethod::Place(place) => parse_cuda_version(place.bring.release.as_ref()?),
        InstallMethod::Copy { bring, .. } => parse_cuda_version(bring.release.as_ref()?),
        _ => None,
    }
}

/// The release that a way brings, and what says that it is the right one.
fn said(
    way: &InstallMethod,
    release: Option<super::target_release::TargetRelease>,
) -> Option<(String, String)> {
    let is_read = matches!(way, InstallMethod::Place(_) | InstallMethod::Copy { .. });
    let certain = release.as_ref().filter(|it| !(is_read && it.is_guess));
    let because = certain.map(|release| release.because.clone());
    let version = match way {
        InstallMethod::Place(place) => place.bring.release.clone(),
        InstallMethod::Copy { bring, .. } => bring.release.clone(),
        InstallMethod::Package(package) => Some(package.version.clone()),
        InstallMethod::Pip(pip) => Some(pip.version.clone()),
        InstallMethod::Conda(_) | InstallMethod::Devel { .. } => {
            release.map(|target| target.release.wheel())
        }
    };
    let nothing = || "nothing in the image asks for another".to_owned();
    Some((version?, because.unwrap_or_else(nothing)))
}

/// The bytes that a way adds.
fn adds(
    target: &ImageFacts,
    way: &InstallMethod,
    recipe: &PhaseRecipe,
    linker: &DynamicLoader,
) -> Option<u64> {
    match way {
        InstallMethod::Place(_) => Some(0),
        InstallMethod::Copy { bring, .. } => Some(bring.files.iter().map(|file| file.bytes).sum()),
        _ => {
            let (release, _) = recipe.release.as_ref()?;
            let cuda = parse_cuda_version(release)?;
            let known = target
                .tables
                .releases
                .versions_for(release_platform(linker));
            let exact = known
                .iter()
                .rev()
                .find(|known| parse_cuda_version(known) == Some(cuda))?;
            let sizes = target
                .tables
                .releases
                .files_of(exact, release_platform(linker));
            let size = |need: &RequiredLibrary| {
                let mut files = sizes.iter();
                files
                    .find(|(name, _)| name.starts_with(need.stem))
                    .map(|(_, bytes)| *bytes)
            };
            Some(recipe.needs.iter().filter_map(size).sum())
        }
    }
}

fn is_default(way: &InstallMethod) -> bool {
    match way {
        InstallMethod::Package(package) => package.is_default_folder,
        InstallMethod::Copy { bring, .. } => bring.search.by == FolderDiscovery::Default,
        InstallMethod::Devel { .. } => true,
        _ => false,
    }
}
