//! What a Dockerfile does for one phase: the patch, and data from the image and its plan.

use super::build_check::{BuildCheck, check_patch};
use super::builder::PytorchBuilder;
use super::config_instructions;
use super::removal::{RemovalPlan, plan_removal};
use crate::judge::plan::Verdict;
use crate::knowledge::file_interest::LIBRARY_PATH;
use crate::make::choose::PatchError;
use crate::make::choose::choice::{ChosenPatch, ConsideredMethod};
use crate::make::choose::image_system::ImageSystem;
use crate::make::choose::predict::PredictedAudit;
use crate::make::choose::request::{PatchContext, PatchRequest};
use crate::make::patch::ImagePatch;
use crate::make::quote;
use image_linkage::escape;

/// The folder of the builder's PyTorch.
const PYTORCH: &str = "/opt/pytorch";
/// The variable with the folders that Python searches first.
pub(super) const PYTHON_PATH: &str = "PYTHONPATH";

/// The PyTorch that a target copies from a builder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CopiedPytorch {
    /// The stage that compiles it.
    pub stage: &'static str,
    /// Whether it links libcupti.
    pub links_cupti: bool,
    /// The `PYTHONPATH` that leads to it first.
    pub python_path: String,
}

/// One target of a Dockerfile: an image made ready for a phase.
#[derive(Clone)]
pub(crate) struct DockerfileTarget<'a> {
    pub patch: ImagePatch,
    pub predicted: PredictedAudit,
    /// The considered methods; the last is used.
    pub considered: Vec<ConsideredMethod>,
    /// The patch that installs a package in another stage, from which this target copies the files.
    pub installed: Option<ImagePatch>,
    pub system: ImageSystem,
    pub removal: Option<RemovalPlan>,
    pub check: BuildCheck,
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
    // The image's user, unless it is root. Installation needs root; the last lines restore this user, so that the
    // container does not run as root.
    pub user: Option<String>,
    // The words of the image's `SHELL`, which may be any program; the generated lines need /bin/sh.
    pub own_shell: Option<String>,
    /// The final `LD_LIBRARY_PATH`; empty if it is not set.
    pub search_path: String,
    /// The GPUs that the image is for, separated by commas; empty for all.
    pub gpus: String,
    /// The copied PyTorch.
    pub pytorch: Option<CopiedPytorch>,
    /// The lines that restore the config, which a copy of the files loses.
    pub config: Vec<String>,
}

/// The target for a chosen patch, with the PyTorch of this builder.
///
/// Errors: [`PatchError::Name`] if a Dockerfile cannot contain a name from the image.
pub(crate) fn describe_target<'a>(
    context: PatchContext<'a>,
    chosen: ChosenPatch,
    base: &str,
    builder: Option<PytorchBuilder>,
) -> Result<DockerfileTarget<'a>, PatchError> {
    let PatchRequest {
        target: facts, plan, ..
    } = context.request;
    let ChosenPatch {
        patch,
        predicted,
        considered,
    } = chosen;
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
    let user = config
        .user
        .as_deref()
        .filter(|user| !matches!(user.split(':').next(), Some("root" | "0")))
        .map(|user| quote::require_plain("the user of the image", user.as_bytes()));
    let library_path = patch.library_path.as_ref().map(|path| path.value.as_str());
    let search_path = library_path.or(config.env(LIBRARY_PATH)).unwrap_or_default();
    let removal = plan_removal(facts, &patch, predicted.adds.unwrap_or_default());
    Ok(DockerfileTarget {
        phase: &plan.phase,
        summary: &plan.summary,
        verdict: plan.verdict,
        because: &plan.because,
        image: escape::escape_bytes(facts.image.reference.as_bytes()),
        base: base.to_owned(),
        triggers: &config.settings.on_build,
        user: user.transpose()?,
        own_shell: own_shell(&config.settings.shell),
        search_path: quote::require_writable(LIBRARY_PATH, search_path)?.to_owned(),
        // A rebuilt file system loses the config of the image, so it is restored.
        config: match removal {
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
        check: check_patch(&context, &patch)?,
        system: context.system,
        removal,
        considered,
        installed: None,
        predicted,
        patch,
    })
}

/// The image's `SHELL` as JSON; `None` if it is Docker's default.
fn own_shell(words: &[String]) -> Option<String> {
    let is_usual = words.is_empty() || words == ["/bin/sh", "-c"];
    (!is_usual).then(|| config_instructions::json_array(words))
}
