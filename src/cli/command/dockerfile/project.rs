//! `dockerfile --all-phases`: one Dockerfile for all phases of a project, and its Cloud Build config.

use std::path::Path;

use crate::facts::ImageFacts;
use crate::facts::software::cuda_runtime::CudaVersion;
use crate::judge::plan::Verdict;
use crate::knowledge::Phase;
use crate::make::choose::PatchError;
use crate::make::choose::choice::ChosenPatch;
use crate::make::dockerfile::DockerfileTarget;
use crate::make::dockerfile::builder::{ProjectBuilder, PytorchBuild, PytorchBuilder};
use crate::make::dockerfile::builder_stage::choose_builder_stage;
use crate::make::dockerfile::project::ProjectDockerfile;
use image_linkage::escape;
use python_path::PythonDistribution;

use super::{CommandError, DockerfileInputs};

/// The Dockerfile with these targets, and the Cloud Build config if requested.
pub fn write_project(
    asked: &DockerfileInputs<'_>,
    targets: Vec<DockerfileTarget<'_>>,
) -> Result<(String, Option<String>), CommandError> {
    let project = ProjectDockerfile {
        targets,
        builder: builder(asked)?,
        machines: &asked.facts.tables.packages.cloud_build,
    };
    if asked.args.with_builder && project.targets.iter().any(|target| target.system.python.is_none()) {
        let image = asked.facts.image.reference.clone();
        let why = "it has no python3 on its PATH, which the PyTorch that is built is for";
        return Err(PatchError::NoBuilder { image, why }.into());
    }
    let text = project.dockerfile()?;
    let build_steps = asked.args.cloudbuild.as_ref().map(|file| {
        let dockerfile = name_in_context(asked.args.file.as_deref(), file);
        project.cloudbuild(&dockerfile, asked.args.vertex.image_uri.as_deref())
    });
    Ok((text, build_steps))
}

/// The path of the Dockerfile for the build steps, which run in the config's folder. It contains no path of this host.
fn name_in_context(file: Option<&Path>, cloudbuild: &Path) -> String {
    let file = file.unwrap_or(Path::new("Dockerfile"));
    let folder = cloudbuild
        .parent()
        .filter(|folder| folder.is_absolute() == file.is_absolute());
    let below = folder.and_then(|folder| file.strip_prefix(folder).ok());
    let name = || file.file_name().map_or(file, Path::new);
    let named = below.unwrap_or_else(|| if file.is_absolute() { name() } else { file });
    named.to_string_lossy().into_owned()
}

/// The stage that compiles; `None` if no builder image is known and none was requested.
fn builder(asked: &DockerfileInputs<'_>) -> Result<Option<ProjectBuilder>, CommandError> {
    let wished = asked.args.with_builder;
    let stage = match choose_builder_stage(asked.facts, asked.source, asked.cuda) {
        Ok(stage) => stage,
        // A missing builder only matters if it was requested; the other targets do not need it.
        Err(PatchError::NoBuilder { .. }) if !wished => return Ok(None),
        Err(refusal) => return Err(refusal.into()),
    };
    if let Some(cuda) = stage.cuda {
        check_gpus(asked, cuda)?;
    }
    if !wished {
        return Ok(Some(ProjectBuilder { stage, pytorch: None }));
    }
    let no_builder = |why| PatchError::NoBuilder {
        image: asked.facts.image.reference.clone(),
        why,
    };
    if !stage.has_apt {
        let why = "PyTorch is built with the compilers of Debian or Ubuntu, and the devel image has no apt-get";
        return Err(no_builder(why).into());
    }
    let cuda = stage
        .cuda
        .ok_or_else(|| no_builder("the image to copy from does not show its CUDA version; pass --cuda"))?;
    Ok(Some(ProjectBuilder {
        stage,
        pytorch: Some(pytorch(asked, cuda)),
    }))
}

/// Checks that a toolkit can compile for the GPUs of --gpu.
fn check_gpus(asked: &DockerfileInputs<'_>, cuda: CudaVersion) -> Result<(), String> {
    for name in &asked.args.target.gpus {
        let gpu = asked.knowledge.tables.gpus.find(name)?;
        if !gpu.is_supported_by(cuda) {
            let ((major, minor), releases) = (cuda, gpu.releases());
            return Err(format!(
                "CUDA {major}.{minor} does not support {name}, which needs {releases}; choose another GPU, or another release with --cuda or --from"
            ));
        }
    }
    Ok(())
}

/// The builder of a phase: PyTorch links libcupti only if the phase needs it.
pub fn pytorch_builder(phase: &Phase) -> PytorchBuilder {
    if phase.apis.needs.is_empty() {
        PytorchBuilder::WithoutCupti
    } else {
        PytorchBuilder::WithCupti
    }
}

/// Notes that the built PyTorch hides the image's own, of which the audit warns.
pub fn note_hidden_pytorch(facts: &ImageFacts, chosen: &mut ChosenPatch) {
    if let Some(hidden) = installed_pytorch(facts) {
        chosen.patch.leaves.push(format!(
            "PyTorch {} of the image, which Python no longer imports",
            escape::escape_bytes(hidden.version.as_bytes())
        ));
        if chosen.predicted.verdict == Verdict::Pass {
            chosen.predicted.verdict = Verdict::Warn;
        }
    }
}

fn installed_pytorch(facts: &ImageFacts) -> Option<&PythonDistribution> {
    facts.related.distributions.iter().find(|dist| dist.name == "torch")
}

/// How to build the image's PyTorch version, otherwise the default version, for the GPUs of --gpu, otherwise the usual
/// GPUs that a toolkit supports.
fn pytorch(asked: &DockerfileInputs<'_>, cuda: CudaVersion) -> PytorchBuild {
    let tables = asked.facts.tables;
    let known = &tables.packages.pytorch;
    let installed = installed_pytorch(asked.facts);
    // The version comes from the image and goes into a Dockerfile, so only allow digits and dots.
    let is_version = |text: &&str| text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    // The tag of `2.4.1+cu124` is `v2.4.1`; the local part is the wheel's CUDA version.
    let version = installed.and_then(|dist| dist.version.split('+').next());
    let reference = version.filter(is_version).map(|version| format!("v{version}"));
    let gpus = match asked.gpus.as_slice() {
        [] => tables.gpus.supported(&known.capabilities, cuda).collect(),
        chosen => chosen.to_vec(),
    };
    let machine = tables.packages.cloud_build.compiles.clone();
    PytorchBuild {
        url: known.url.clone(),
        reference: reference.unwrap_or_else(|| known.reference.clone()),
        capabilities: gpus
            .iter()
            .map(|gpu| (gpu.capability.clone(), gpu.architecture.clone()))
            .collect(),
        has_chosen_gpus: !asked.gpus.is_empty(),
        jobs: machine.memory.checked_div(known.job_memory).unwrap_or_default().max(1),
        job_memory: known.job_memory,
        machine,
    }
}
