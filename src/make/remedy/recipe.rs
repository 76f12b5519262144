//! All that a Dockerfile does to an image for one phase, and why.

use serde::Serialize;

use super::build_check::{self, BuildCheck, names_to_check};
use super::copy_plan::{CopyPlan, has_library};
use super::copy_source::CopySource;
use super::foretold_audit::{ForetoldAudit, foretell_audit};
use super::image_system::{ImageSystem, read_image_system};
use super::install_context::InstallContext;
use super::install_folder::{CacheUpdate, FolderDiscovery, InstallFolder, choose_install_folder};
use super::install_method::{InPlaceFiles, InstallMethod, MethodKind};
use super::library_stems::CUPTI;
use super::method_choice::{MethodChoice, choose_method};
use super::removal::{RemovalPlan, plan_removal};
use super::required_libraries::{NewerApi, RequiredLibrary, apis_newer_than_release};
use super::search_path_setup::{ChangedLibraryPath, SearchPathSetup, changed_library_path, set_up_search_path};
use super::target::require_glibc_linker;
use super::target_release::{TargetRelease, choose_release, known_file};
use super::{MethodObstacle, RemedyError};
use crate::judge::facts::cuda_runtime::CudaVersion;
use crate::judge::facts::{GatherOptions, ImageFacts};
use crate::judge::plan::{Plan, Verdict};
use crate::knowledge::{Knowledge, Phase, has_api};
use image_linkage::loader::DynamicLoader;
use image_linkage::path::RootPath;

/// What a recipe is asked for.
#[derive(Clone, Copy)]
pub(crate) struct RecipeRequest<'a> {
    pub target: &'a ImageFacts,
    pub phase: &'a Phase,
    /// What the image makes of the phase now.
    pub plan: &'a Plan,
    /// What is known, each rule with what cures it.
    pub knowledge: &'a Knowledge,
    /// What the processes of the image start with.
    pub conditions: &'a GatherOptions,
    /// The ways that are asked for, the best first; none for the cheapest of all.
    pub via: &'a [MethodKind],
    /// The version of CUDA that is asked for.
    pub cuda: Option<CudaVersion>,
    /// The image to copy from, where the user names one.
    pub source: Option<CopySource<'a>>,
    /// Whether what the phase has no use for goes, also where the phase does not ask for that.
    pub drops: bool,
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
    /// Names of CUPTI that lead nowhere or to another release, and would still be told of.
    pub clears: Vec<RootPath>,
    /// The bytes that are added, as far as the sizes of the release are known.
    pub adds: Option<u64>,
    /// The folder that files are copied into, and how the loader comes to look there.
    pub search: InstallFolder,
    pub lead: SearchPathSetup,
    pub library_path: Option<ChangedLibraryPath>,
    /// The dead weight that goes.
    pub fresh: Option<RemovalPlan>,
    pub proof: BuildCheck,
    pub leaves: Vec<UnsolvedPoint>,
    pub system: ImageSystem,
    /// What an audit will say of the result.
    pub foretold: ForetoldAudit,
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
    /// An API that the phase wants and the release does not have.
    Api(NewerApi),
    /// Dead weight in an image that has nothing to remove it with.
    WeightWithoutShell,
}

impl std::fmt::Display for UnsolvedPoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Api(api) => write!(f, "{api}"),
            Self::WeightWithoutShell => f.write_str(
                "the files that may go: the image has no shell to remove them with, and cupti-audit slim takes none",
            ),
        }
    }
}

impl PhaseRecipe {
    /// The dead weight that goes; of a folder nothing that it holds is named.
    pub(super) fn dropped_paths(&self) -> impl Iterator<Item = &RootPath> {
        let groups = self.fresh.iter().flat_map(|fresh| &fresh.groups);
        groups.flat_map(|group| &group.paths)
    }

    /// Whether the build runs `ldconfig`.
    pub(crate) fn runs_ldconfig(&self) -> bool {
        let installs = |choice: &MethodChoice| matches!(choice.way, InstallMethod::Package(_));
        !matches!(self.lead, SearchPathSetup::Nothing(_))
            || self.choice.as_ref().is_some_and(installs)
            || (self.fresh.is_some() && self.system.has_cache)
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
    let removes = request.drops || phase.baggage.removes == Some(true);
    let blank = PhaseRecipe {
        choice: None,
        release: None,
        needs: Vec::new(),
        spare: Vec::new(),
        clears: Vec::new(),
        adds: None,
        search: choose_install_folder(target, linker, CacheUpdate::Build),
        lead: SearchPathSetup::Nothing("nothing is brought".to_owned()),
        library_path: None,
        fresh: plan_removal(target, plan).filter(|_| removes && system.shell),
        proof: build_check::check_without_install(target, linker, plan, &needs),
        leaves: Vec::new(),
        system,
        foretold: ForetoldAudit {
            verdict: plan.verdict,
            because: plan.because.clone(),
            lacks_cupti: plan.lacks_cupti(target),
            adds: 0,
            loses: None,
        },
    };
    // A verdict that CUPTI cannot change is no reason to bring it, and neither is one of a phase without a use for it.
    let mut recipe = if plan.lacks_cupti(target) {
        bring_in(request, &question, &blank)?
    } else {
        finish(request, linker, blank)
    };
    if let Some(why) = recipe.foretold.loses.take() {
        let image = target.image.reference.clone();
        return Err(RemedyError::BreaksImage { image, why });
    }
    if removes && !recipe.system.shell && !plan.drop.is_empty() {
        recipe.leaves.push(UnsolvedPoint::WeightWithoutShell);
    }
    Ok(recipe)
}

/// Takes the cheapest way whose result passes an audit, with what follows from it.
fn bring_in(
    request: &RecipeRequest<'_>,
    question: &InstallContext<'_>,
    blank: &PhaseRecipe,
) -> Result<PhaseRecipe, RemedyError> {
    let copy = [MethodKind::Copy];
    // Who names an image to copy from wants its files, and no package.
    let via = match request.via {
        [] if question.source.is_some() => copy.as_slice(),
        asked => asked,
    };
    let mut made = None;
    let choice = choose_method(question, via, |way| {
        let recipe = finish(request, question.linker, recipe_of(question, way, blank)?);
        let foretold = &recipe.foretold;
        if let Some(why) = &foretold.loses {
            return Err(why.clone().into());
        }
        if foretold.verdict == Verdict::Fail && foretold.lacks_cupti {
            let because = foretold.because.join(", ");
            return Err(format!("what it makes would not pass its own audit: {because}").into());
        }
        made = Some(recipe);
        Ok(())
    })?;
    let mut recipe = made.unwrap_or_else(|| blank.clone());
    recipe.choice = Some(choice);
    Ok(recipe)
}

/// What one way comes to.
fn recipe_of(
    question: &InstallContext<'_>,
    way: &InstallMethod,
    blank: &PhaseRecipe,
) -> Result<PhaseRecipe, MethodObstacle> {
    let target = question.target;
    let mut recipe = blank.clone();
    let release = question.release.as_ref();
    let cuda = way.cuda().or(release.map(|it| it.release.cuda));
    recipe.needs = match way.copy_plan() {
        Some(bring) => needs_of(target, bring),
        None => question.needs(cuda.unwrap_or(UNKNOWN_CUDA)),
    };
    require_system_libraries(target, way)?;
    let needed = |stem: &&'static str| recipe.needs.iter().any(|need| need.stem == *stem);
    // A package brings all of them; what nothing needs is removed in the same layer.
    let companions = target.library.companions();
    recipe.spare = companions.filter(|stem| !needed(stem)).collect();
    if let Some(cuda) = cuda {
        let newer = apis_newer_than_release(target.tables, question.phase, |api| has_api(cuda, api));
        recipe.leaves.extend(newer.map(UnsolvedPoint::Api));
    }
    if recipe.system.shell {
        recipe.clears = misleading_names(target);
    }
    recipe.release = brought_release(way, release);
    // The size of files that nobody has read, and of a release that is not known, cannot be said.
    let is_known = |need: &RequiredLibrary| {
        way.copy_plan().is_some()
            || cuda.is_some_and(|cuda| known_file(target, question.linker, cuda, need.stem).is_some())
    };
    // What conda resolves besides, nobody knows.
    let is_sized = !matches!(way, InstallMethod::Conda(_)) && recipe.needs.iter().all(is_known);
    recipe.adds = is_sized.then_some(0);
    recipe.lead = set_up_search_path(question, &recipe.search, way, &recipe.needs);
    // A bare name is asked for only where every process is to find it: what lies beside its one user is not.
    if !matches!(&recipe.lead, SearchPathSetup::Nothing(_)) || is_default(way) {
        recipe.proof.names = names_to_check(way, &recipe.needs);
    }
    recipe.proof.elsewhere = match (way, question.source) {
        (InstallMethod::Copy { .. }, Some(source)) => read_image_system(source.facts).shell,
        // NVIDIA's devel images are Ubuntu and Rocky Linux, and have one.
        (InstallMethod::Devel { .. }, _) => true,
        _ => false,
    };
    recipe.choice = Some(MethodChoice {
        way: way.clone(),
        considered: Vec::new(),
    });
    Ok(recipe)
}

/// That the image has what CUPTI needs beside glibc: whatever has apt or dnf has it, and nothing else brings it.
fn require_system_libraries(target: &ImageFacts, way: &InstallMethod) -> Result<(), MethodObstacle> {
    let brought = way.copy_plan().into_iter().flat_map(|bring| &bring.files);
    let brought: Vec<&[u8]> = brought.map(|file| &*file.name).collect();
    let mut needed = target.library.needed.iter();
    let lacking = needed.find(|name| !brought.contains(&name.as_bytes()) && !has_library(target, name.as_bytes()));
    lacking.map_or(Ok(()), |name| {
        Err(format!("libcupti needs {name}, which the image lacks: --from an image that has both brings both").into())
    })
}

/// The names of CUPTI in the image that are not true: links to nothing, and names of another release.
fn misleading_names(target: &ImageFacts) -> Vec<RootPath> {
    // A compiler's name is no program's, and is told of by nobody once CUPTI is found.
    let links = target.dangling.iter().map(|link| &link.path);
    let links = links.filter(|path| path.name() != CUPTI.as_bytes());
    let misnamed = target.related.misnamed.iter().map(|name| &name.path);
    let mut all: Vec<RootPath> = links.chain(misnamed).cloned().collect();
    all.sort();
    all.dedup();
    all
}

/// What is known only when all is decided: the search path, the sizes, and what an audit will say.
fn finish(request: &RecipeRequest<'_>, linker: &DynamicLoader, mut recipe: PhaseRecipe) -> PhaseRecipe {
    // Whether a folder has to stand in front depends on how the loader is led to it.
    recipe.library_path = changed_library_path(request.target, &recipe.lead);
    recipe.foretold = foretell_audit(request, linker, &recipe);
    recipe.adds = recipe.adds.map(|_| recipe.foretold.adds);
    if let Some(fresh) = &mut recipe.fresh {
        fresh.after += recipe.adds.unwrap_or_default();
    }
    recipe
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

fn is_default(way: &InstallMethod) -> bool {
    match way {
        InstallMethod::Package(package) => package.folder.is_none(),
        InstallMethod::Copy { bring, .. } => bring.search.by == FolderDiscovery::Default,
        InstallMethod::Devel { .. } => true,
        _ => false,
    }
}
