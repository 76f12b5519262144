//! All that a Dockerfile does to an image for one phase, and why.

use serde::Serialize;

use super::RemedyError;
use super::build_check::{self, BuildCheck, names_to_check};
use super::copy_plan::CopyPlan;
use super::copy_source::CopySource;
use super::image_system::{ImageSystem, read_image_system};
use super::install_context::InstallContext;
use super::install_folder::{CacheUpdate, FolderDiscovery, choose_install_folder};
use super::install_method::{InPlaceFiles, InstallMethod, MethodKind};
use super::library_stems::CUPTI;
use super::method_choice::{MethodChoice, choose_method};
use super::removal::{RemovalPlan, plan_removal};
use super::required_libraries::{NewerApi, RequiredLibrary, apis_newer_than_release};
use super::search_path_setup::{ChangedLibraryPath, SearchPathSetup, changed_library_path, set_up_search_path};
use super::target::require_glibc_linker;
use super::target_release::{TargetRelease, choose_release, release_platform};
use crate::judge::facts::ImageFacts;
use crate::judge::facts::cuda_runtime::{CudaVersion, parse_cuda_version};
use crate::judge::plan::Plan;
use crate::judge::rule::{Rule, RuleCure};
use crate::knowledge::{Phase, has_api};
use image_linkage::loader::DynamicLoader;
use image_linkage::path::RootPath;

/// What a recipe is asked for.
pub(crate) struct RecipeRequest<'a> {
    pub target: &'a ImageFacts,
    pub phase: &'a Phase,
    /// What the image makes of the phase now.
    pub plan: &'a Plan,
    /// The rules, each of which says what cures it.
    pub rules: &'a [Rule],
    /// The way that is asked for; `None` for the cheapest.
    pub via: Option<MethodKind>,
    /// The version of CUDA that is asked for.
    pub cuda: Option<CudaVersion>,
    /// The image to copy from, where the user names one.
    pub source: Option<CopySource<'a>>,
}

/// What a Dockerfile does to an image for one phase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PhaseRecipe {
    /// How CUPTI comes in; `None` where nothing has to be brought.
    pub choice: Option<MethodChoice>,
    /// The release that comes in, where it is known.
    pub release: Option<BroughtRelease>,
    pub needs: Vec<RequiredLibrary>,
    /// The libraries of a package that are not needed, by their stems.
    pub spare: Vec<&'static str>,
    /// The bytes that are added, as far as the sizes of the release are known.
    pub adds: Option<u64>,
    /// The folder that files are copied into.
    pub folder: RootPath,
    pub lead: SearchPathSetup,
    pub library_path: Option<ChangedLibraryPath>,
    /// The dead weight that goes.
    pub fresh: Option<RemovalPlan>,
    pub proof: BuildCheck,
    pub leaves: Vec<UnsolvedPoint>,
    pub system: ImageSystem,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct BroughtRelease {
    /// As a package manager takes it: a final `*` stands for any rest.
    pub version: String,
    /// What says that it is the right one.
    pub because: String,
}

/// Something that the Dockerfile leaves as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum UnsolvedPoint {
    /// A rule that made the verdict, and that bringing CUPTI does not satisfy.
    Rule(String),
    /// An API that the phase wants and the release does not have.
    Api(NewerApi),
    /// Dead weight in an image that has nothing to remove it with.
    WeightWithoutShell,
}

impl std::fmt::Display for UnsolvedPoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Rule(rule) => f.write_str(rule),
            Self::Api(api) => write!(f, "{api}"),
            Self::WeightWithoutShell => f.write_str(
                "the files that may go: the image has no shell to remove them with, and cupti-audit slim takes none",
            ),
        }
    }
}

/// The release whose files are listed where nothing says which one the image is for.
const UNKNOWN_CUDA: CudaVersion = (12, 0);

/// What is to be done, so that the image serves the phase.
///
/// Errors: A [`RemedyError`]: the image cannot be helped, or not in the way that is asked for.
pub(crate) fn make_recipe(request: &RecipeRequest<'_>) -> Result<PhaseRecipe, RemedyError> {
    let RecipeRequest {
        target, phase, plan, ..
    } = *request;
    let linker = require_glibc_linker(target)?;
    let system = read_image_system(target);
    // A verdict that CUPTI cannot change is no reason to bring it.
    let to_cure = plan.lacks_cupti(target);
    let cure = |id: &String| request.rules.iter().find(|rule| rule.id == *id)?.cured_by;
    let is_left = |id: &&String| match cure(id) {
        None => true,
        Some(RuleCure::InstallCupti) => !to_cure,
        Some(_) => false,
    };
    let question = InstallContext {
        target,
        linker,
        phase,
        release: choose_release(target, linker, request.cuda),
        system: system.clone(),
        source: request.source,
    };
    let cuda = question.release.as_ref().map(|it| it.release.cuda);
    let needs = question.needs(cuda.unwrap_or(UNKNOWN_CUDA));
    let rules = plan.because.iter().filter(is_left);
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
        leaves: rules.cloned().map(UnsolvedPoint::Rule).collect(),
        system,
    };
    if to_cure {
        bring_in(&question, request.via, &mut recipe)?;
    }
    if removes && !recipe.system.shell && !plan.drop.is_empty() {
        recipe.leaves.push(UnsolvedPoint::WeightWithoutShell);
    }
    // Last: whether a folder has to stand in front depends on how the loader is led to it.
    recipe.library_path = changed_library_path(target, &recipe.lead);
    Ok(recipe)
}

/// Chooses the way, and what follows from it.
fn bring_in(
    question: &InstallContext<'_>,
    via: Option<MethodKind>,
    recipe: &mut PhaseRecipe,
) -> Result<(), RemedyError> {
    // Who names an image to copy from wants its files, and no package.
    let via = via.or(question.source.map(|_| MethodKind::Copy));
    let choice = choose_method(question, via)?;
    let release = question.release.as_ref();
    let cuda = choice.way.cuda().or(release.map(|it| it.release.cuda));
    recipe.needs = match choice.way.copy_plan() {
        Some(bring) => needs_of(question.target, bring),
        None => question.needs(cuda.unwrap_or(UNKNOWN_CUDA)),
    };
    let needed = |stem: &&'static str| recipe.needs.iter().any(|need| need.stem == *stem);
    // A package brings all of them; what nothing needs is removed in the same layer.
    let companions = question.target.library.companions();
    recipe.spare = companions.filter(|stem| !needed(stem)).collect();
    if let Some(cuda) = cuda {
        let newer = apis_newer_than_release(question.target.tables, question.phase, |api| has_api(cuda, api));
        recipe.leaves.extend(newer.map(UnsolvedPoint::Api));
    }
    recipe.release = brought_release(&choice.way, release);
    recipe.adds = adds(question.target, &choice.way, cuda, &recipe.needs, question.linker);
    recipe.lead = set_up_search_path(question, &choice.way, &recipe.needs);
    // A bare name is asked for only where every process is to find it: what lies beside its one user is not.
    if !matches!(&recipe.lead, SearchPathSetup::Nothing(_)) || is_default(&choice.way) {
        recipe.proof.names = names_to_check(&choice.way, &recipe.needs);
    }
    recipe.proof.elsewhere = match (&choice.way, question.source) {
        (InstallMethod::Copy { .. }, Some(source)) => read_image_system(source.facts).shell,
        // NVIDIA's devel images are Ubuntu and Rocky Linux, and have one.
        (InstallMethod::Devel { .. }, _) => true,
        _ => false,
    };
    recipe.choice = Some(choice);
    Ok(())
}

/// The needs that a list of files answers.
fn needs_of(target: &ImageFacts, bring: &CopyPlan) -> Vec<RequiredLibrary> {
    // What else was brought, such as libgcc_s, is no library of CUPTI's packages.
    let stems = [CUPTI].into_iter().chain(target.library.companions());
    let need = |stem: &'static str| {
        let file = bring.files.iter().find(|file| file.name.starts_with(stem.as_bytes()))?;
        Some(RequiredLibrary {
            stem,
            is_numbered: false,
            because: file.because.clone(),
        })
    };
    stems.filter_map(need).collect()
}

/// The release that a way brings, and what says that it is the right one.
fn brought_release(way: &InstallMethod, release: Option<&TargetRelease>) -> Option<BroughtRelease> {
    // Files that were read show their release; what the release of their soname was guessed from says nothing of them.
    let certain = release.filter(|it| !(way.copy_plan().is_some() && it.is_guess));
    let because = certain.map(|release| release.because.clone());
    let version = match way {
        InstallMethod::Place(InPlaceFiles { bring, .. }) | InstallMethod::Copy { bring, .. } => bring.release.clone(),
        InstallMethod::Package(package) => Some(package.version.clone()),
        InstallMethod::Pip(pip) => Some(pip.version.clone()),
        InstallMethod::Conda(_) | InstallMethod::Devel { .. } => release.map(|it| it.release.wheel()),
    };
    Some(BroughtRelease {
        version: version?,
        because: because.unwrap_or_else(|| "nothing in the image asks for another".to_owned()),
    })
}

/// The bytes that a way adds: those of the files that were read, else those of the newest release of this CUDA.
fn adds(
    target: &ImageFacts,
    way: &InstallMethod,
    cuda: Option<CudaVersion>,
    needs: &[RequiredLibrary],
    linker: &DynamicLoader,
) -> Option<u64> {
    match way {
        InstallMethod::Place(_) => Some(0),
        InstallMethod::Copy { bring, .. } => Some(bring.files.iter().map(|file| file.bytes).sum()),
        _ => {
            let cuda = cuda?;
            let platform = release_platform(linker);
            let known = target.tables.releases.versions_for(platform);
            let mut same = known.iter().rev();
            let exact = same.find(|known| parse_cuda_version(known) == Some(cuda))?;
            let sizes = target.tables.releases.files_of(exact, platform);
            let size = |need: &RequiredLibrary| {
                let mut files = sizes.iter();
                let (_, bytes) = files.find(|(name, _)| name.starts_with(need.stem))?;
                Some(*bytes)
            };
            Some(needs.iter().filter_map(size).sum())
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
