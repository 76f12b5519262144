//! `dockerfile --all-phases`: one Dockerfile for all phases of a project, and its Cloud Build config.

use std::path::Path;

use crate::knowledge::packages::GitSource;
use crate::make::dockerfile::DockerfileTemplates;
use crate::make::dockerfile::project::{BuilderPage, ProjectDockerfile};
use crate::make::remedy::RemedyError;
use crate::make::remedy::builder_stage::choose_builder_stage;

use super::{CommandError, DockerfileInputs};

/// The Dockerfile, and the Cloud Build config if requested.
pub fn render_project(
    asked: &DockerfileInputs<'_>,
    templates: &DockerfileTemplates,
) -> Result<(String, Option<String>), CommandError> {
    let phases = asked.knowledge.staged_phases();
    let pages = phases.iter().map(|phase| asked.page(&phase.name));
    let project = ProjectDockerfile {
        pages: pages.collect::<Result<_, _>>()?,
        builder: builder(asked)?,
    };
    if asked.args.with_builder && project.pages.iter().any(|page| page.recipe.system.python.is_none()) {
        let image = asked.facts.image.reference.clone();
        let why = "it has no python3 on its PATH, which the PyTorch that is built is for";
        return Err(RemedyError::NoBuilder { image, why }.into());
    }
    let text = project.dockerfile(templates)?;
    let cloudbuild = asked.args.cloudbuild.as_ref();
    let cloudbuild = cloudbuild
        .map(|cloudbuild| project.cloudbuild(templates, &name_in_context(asked.args.file.as_deref(), cloudbuild)));
    Ok((text, cloudbuild.transpose()?))
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
fn builder(asked: &DockerfileInputs<'_>) -> Result<Option<BuilderPage>, CommandError> {
    let wished = asked.args.with_builder;
    let stage = match choose_builder_stage(asked.facts, asked.source, asked.cuda) {
        Ok(stage) => stage,
        // A missing builder only matters if it was requested; the other targets do not need it.
        Err(RemedyError::NoBuilder { .. }) if !wished => return Ok(None),
        Err(refusal) => return Err(refusal.into()),
    };
    let compiles = stage.has_apt || !wished;
    let builder = BuilderPage {
        stage,
        pytorch: wished.then(|| pytorch(asked)),
    };
    let why = "PyTorch is built with the compilers of Debian or Ubuntu, and the devel image has no apt-get";
    let image = asked.facts.image.reference.clone();
    let built = compiles.then_some(Some(builder));
    Ok(built.ok_or(RemedyError::NoBuilder { image, why })?)
}

/// The source of the image's PyTorch version, otherwise of the default version.
fn pytorch(asked: &DockerfileInputs<'_>) -> GitSource {
    let known = &asked.facts.tables.packages.pytorch;
    let mut installed = asked.facts.related.distributions.iter();
    let installed = installed.find(|dist| dist.name == "torch");
    // The version comes from the image and goes into a Dockerfile, so only allow digits and dots.
    let is_version = |text: &&str| text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    // The tag of `2.4.1+cu124` is `v2.4.1`; the local part is the wheel's CUDA version.
    let version = installed.and_then(|dist| dist.version.split('+').next());
    let reference = version.filter(is_version).map(|version| format!("v{version}"));
    GitSource {
        url: known.url.clone(),
        reference: reference.unwrap_or_else(|| known.reference.clone()),
    }
}
