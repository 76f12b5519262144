//! What the templates have to say of a phase: its recipe, and what the image and its plan add to it.

use serde::Serialize;

use super::config_instructions;
use crate::facts::ImageFacts;
use crate::judge::plan::{Plan, Verdict};
use crate::knowledge::LibraryProfile;
use crate::knowledge::file_interest::LIBRARY_PATH;
use crate::make::quote;
use crate::make::remedy::RemedyError;
use crate::make::remedy::install_folder::reads_folder;
use crate::make::remedy::install_method::InstallMethod;
use crate::make::remedy::phase_recipe::PhaseRecipe;
use crate::shell_quote::quote_shell;
use image_linkage::escape;
use image_linkage::loader::folders_of_cache;
use image_linkage::path::RootPath;

/// What is said of one phase of an image.
#[derive(Clone, Serialize)]
pub(crate) struct PhasePage<'a> {
    #[serde(flatten)]
    pub recipe: PhaseRecipe,
    /// The phase, and the name of its stage.
    pub phase: &'a str,
    /// What is done in the phase.
    pub summary: &'a str,
    /// What the image makes of the phase now.
    pub verdict: Verdict,
    /// The rules that say so.
    pub because: &'a [String],
    /// The image as the user named it.
    pub image: String,
    /// The name of the image for `FROM`.
    pub base: String,
    // Instructions of the image's own that every build on it runs first, whatever stands here.
    pub triggers: &'a [String],
    /// The call of ldconfig, with the folders that the image's cache alone knows: without them it would forget them.
    pub ldconfig: String,
    // The image's own user, where that is not root. What is installed is installed as root; the last lines go back to this
    // user, or the container would run as root.
    pub user: Option<String>,
    // The words of the image's `SHELL`, which may name anything: what is written here is for /bin/sh.
    pub own_shell: Option<String>,
    /// The soname of the libcupti that comes in; empty where none does.
    pub soname: String,
    /// Whether all files that are copied keep their names, and so come in one layer.
    pub keeps_names: bool,
    /// Whether the folder of the files is named by the image or the target below.
    pub is_named_below: bool,
    /// `LD_LIBRARY_PATH` as it is in the end; empty where it is not set.
    pub search_path: String,
    /// Whether the PyTorch of the builder is taken over.
    pub pytorch: bool,
    /// The lines that set what a copy of the files does not bring along.
    pub config: Vec<String>,
    /// The library that is looked for.
    #[serde(skip)]
    pub library: &'static LibraryProfile,
}

/// What there is to say of a recipe.
///
/// Errors: [`RemedyError::Name`], when a name of the image cannot be written into a Dockerfile.
pub(crate) fn fill_page<'a>(
    facts: &'a ImageFacts,
    plan: &'a Plan,
    recipe: PhaseRecipe,
    base: &str,
) -> Result<PhasePage<'a>, RemedyError> {
    let config = &facts.image.config;
    // A group may stand behind a colon (image-spec, config.md, "User"). Who is root already need not become it.
    let user = config.user.as_deref();
    let user = user.filter(|user| !matches!(user.split(':').next(), Some("root" | "0")));
    let user = user.map(|user| quote::require_plain("the user of the image", user.as_bytes()));
    let library_path = recipe.library_path.as_ref().map(|path| path.value.as_str());
    let search_path = library_path.or(config.env(LIBRARY_PATH)).unwrap_or_default();
    let copied = recipe.way.iter().filter_map(InstallMethod::copy_plan);
    Ok(PhasePage {
        phase: &plan.phase,
        summary: &plan.summary,
        verdict: plan.verdict,
        because: &plan.because,
        image: escape::escape_bytes(facts.image.reference.as_bytes()),
        base: base.to_owned(),
        triggers: &config.settings.on_build,
        ldconfig: ldconfig_call(facts)?,
        user: user.transpose()?,
        own_shell: own_shell(&config.settings.shell),
        soname: recipe.way.as_ref().map(InstallMethod::soname).unwrap_or_default(),
        keeps_names: copied
            .flat_map(|copy_plan| &copy_plan.files)
            .all(|file| file.from.name() == file.to.name()),
        is_named_below: recipe
            .search_setup
            .named_folder()
            .is_some_and(|folder| reads_folder(&facts.contexts.as_is.rootfs, folder)),
        search_path: quote::require_writable(LIBRARY_PATH, search_path)?.to_owned(),
        // Set later: only a project builds PyTorch.
        pytorch: false,
        // A file system that is built anew has lost the config of the image, which is written out again.
        config: match recipe.removal {
            Some(_) => config_instructions::config_instructions(config, library_path)?,
            None => Vec::new(),
        },
        library: facts.library,
        recipe,
    })
}

/// The image's own words for a `RUN`, as JSON; `None` where they are Docker's.
fn own_shell(words: &[String]) -> Option<String> {
    let is_usual = words.is_empty() || words == ["/bin/sh", "-c"];
    (!is_usual).then(|| config_instructions::array(words))
}

fn ldconfig_call(facts: &ImageFacts) -> Result<String, RemedyError> {
    let context = &facts.contexts.as_is;
    let linker = context.linker.iter();
    let mut words = vec!["ldconfig".to_owned()];
    for folder in linker.flat_map(|linker| folders_of_cache(&context.rootfs, linker)) {
        let folder = quote::require_literal("a path", &RootPath::new(&folder).absolute())?;
        words.push(quote_shell(&folder));
    }
    Ok(words.join(" "))
}
