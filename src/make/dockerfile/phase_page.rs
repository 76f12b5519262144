//! The template input for a phase: its recipe, and data from the image and its plan.

use serde::Serialize;

use super::config_instructions;
use super::project::PytorchBuilder;
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

/// The folder of the builder's PyTorch.
const PYTORCH: &str = "/opt/pytorch";
const PYTHON_PATH: &str = "PYTHONPATH";

/// The PyTorch that a target copies from a builder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct CopiedPytorch {
    /// The stage that compiles it.
    pub stage: &'static str,
    /// Whether it links libcupti.
    pub links_cupti: bool,
    /// The `PYTHONPATH` that leads to it first.
    pub python_path: String,
}

/// The template input for one phase of an image.
#[derive(Clone, Serialize)]
pub(crate) struct PhasePage<'a> {
    #[serde(flatten)]
    pub recipe: PhaseRecipe,
    /// The phase, which also names its stage.
    pub phase: &'a str,
    /// The purpose of the phase.
    pub summary: &'a str,
    /// The verdict of the unchanged image.
    pub verdict: Verdict,
    /// The rules that cause the verdict.
    pub because: &'a [String],
    /// The image as the user named it.
    pub image: String,
    /// The name of the image for `FROM`.
    pub base: String,
    // The image's `ONBUILD` instructions. Every build on it runs them first.
    pub triggers: &'a [String],
    /// The ldconfig call. It names the folders that only the image's cache contains, because ldconfig would drop them
    /// otherwise.
    pub ldconfig: String,
    // The image's user, unless it is root. Installation needs root; the last lines restore this user, so that the
    // container does not run as root.
    pub user: Option<String>,
    // The words of the image's `SHELL`, which may be any program; the generated lines need /bin/sh.
    pub own_shell: Option<String>,
    /// The soname of the installed libcupti; empty if none is installed.
    pub soname: String,
    /// Whether all copied files keep their names, so that one layer is enough.
    pub keeps_names: bool,
    /// Whether the image or the base target already configures the folder of the files.
    pub is_named_below: bool,
    /// The final `LD_LIBRARY_PATH`; empty if it is not set.
    pub search_path: String,
    /// The GPUs that the image is for, separated by commas; empty for all.
    pub gpus: String,
    /// The copied PyTorch.
    pub pytorch: Option<CopiedPytorch>,
    /// The lines that restore the config, which a copy of the files loses.
    pub config: Vec<String>,
    /// The audited library.
    #[serde(skip)]
    pub library: &'static LibraryProfile,
}

/// The template input for a recipe, with the PyTorch of this builder.
///
/// Errors: [`RemedyError::Name`] if a Dockerfile cannot contain a name from the image.
pub(crate) fn fill_page<'a>(
    facts: &'a ImageFacts,
    plan: &'a Plan,
    recipe: PhaseRecipe,
    base: &str,
    builder: Option<PytorchBuilder>,
) -> Result<PhasePage<'a>, RemedyError> {
    let config = &facts.image.config;
    let pytorch = builder.map(|builder| CopiedPytorch {
        stage: builder.stage(),
        links_cupti: builder == PytorchBuilder::WithCupti,
        // The image's own folders stay behind it.
        python_path: [PYTORCH]
            .into_iter()
            .chain(config.env(PYTHON_PATH))
            .collect::<Vec<_>>()
            .join(":"),
    });
    // A group may follow a colon (image-spec, config.md, "User"). Root needs no switch.
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
        // A rebuilt file system loses the config of the image, so it is restored.
        config: match recipe.removal {
            Some(_) => {
                let python_path = pytorch
                    .as_ref()
                    .map(|pytorch| (PYTHON_PATH, pytorch.python_path.as_str()));
                let library_path = library_path.map(|path| (LIBRARY_PATH, path));
                let set: Vec<_> = library_path.into_iter().chain(python_path).collect();
                config_instructions::config_instructions(config, &set)?
            }
            None => Vec::new(),
        },
        gpus: String::new(),
        pytorch,
        library: facts.library,
        recipe,
    })
}

/// The image's `SHELL` as JSON; `None` if it is Docker's default.
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
