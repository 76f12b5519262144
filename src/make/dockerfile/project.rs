//! A Dockerfile with a target for each phase of a project.

use super::builder::ProjectBuilder;
use super::config_instructions::json_array;
use super::install::{install, root_stage, source_stage};
use super::instruction::{comment_list, instruction, run_commands};
use super::phase::{
    considered_lines, gpu_code_line, leaves_line, release_lines, result_words, size_lines, trigger_lines, verdict_words,
};
use super::steps::target_stages;
use super::target::DockerfileTarget;
use crate::knowledge::packages::CloudBuildMachines;
use crate::make::choose::PatchError;
use crate::make::patch::package::Package;
use crate::make::patch::{ImagePatch, SearchPath};
use crate::make::quote::{comment_line, literal_path};
use crate::make::shell::command_line::CommandLine;
use crate::make::shell::package::{for_package_files, match_stems};
use crate::make::shell::{ShellStyle, shell_steps};
use crate::make::template::{fill_template, tidy};
use image_linkage::escape::escape_bytes;

/// A Dockerfile with a target for each phase.
pub(crate) struct ProjectDockerfile<'a> {
    /// The targets of the phases in project order. Those that install CUPTI share the layers of the first of them.
    pub targets: Vec<DockerfileTarget<'a>>,
    pub builder: Option<ProjectBuilder>,
    /// The machines of Cloud Build.
    pub machines: &'a CloudBuildMachines,
}

impl ProjectDockerfile<'_> {
    /// Whether the target is the first whose PyTorch does not link libcupti. The stage that compiles it is before this
    /// target, because Docker's classic builder builds every stage up to its target.
    pub(super) fn begins_without_cupti(&self, target: &DockerfileTarget<'_>) -> bool {
        let is_without =
            |target: &&DockerfileTarget<'_>| target.pytorch.as_ref().is_some_and(|pytorch| !pytorch.links_cupti);
        self.targets
            .iter()
            .find(is_without)
            .is_some_and(|first| first.phase == target.phase)
    }

    /// The Dockerfile with a target for each phase.
    ///
    /// Errors: [`PatchError::Name`] for a name that a Dockerfile cannot contain.
    pub(crate) fn dockerfile(&self) -> Result<String, PatchError> {
        // The needs of the phases are nested, so the longest list covers all of them.
        let bringing = self.targets.iter().filter(|target| !target.patch.files.is_empty());
        let brings = bringing.max_by_key(|target| target.patch.files.len());
        let mut stages = String::new();
        let mut before: Option<&DockerfileTarget<'_>> = None;
        for target in &self.targets {
            let builder = self.builder.as_ref().filter(|_| self.begins_without_cupti(target));
            stages += &builder.map(ProjectBuilder::stage_without_cupti).unwrap_or_default();
            stages += &describe_stages(&shared(target, before))?;
            // Every target with CUPTI is based on the first of them; no other target is.
            before = before.or(Some(target).filter(|target| adds_files(target)));
        }
        let (considered, release, source_stage) = match brings {
            Some(target) => (
                considered_lines(&target.considered),
                release_lines(target.patch.release.as_ref()),
                gathering_stages(target)?,
            ),
            None => Default::default(),
        };
        let first = self.targets.first();
        let image = first.map_or("", |target| target.image.as_str());
        let gpus = first.map_or("", |target| target.gpus.as_str());
        let builder = self.builder.as_ref().map(ProjectBuilder::stage_text);
        let builds = self.builds().into_iter();
        let commands = builds.map(|build| format!("docker build --target {} .    {}", build.name, build.says));
        let values = [
            ("image", comment_line(image)),
            ("targets", comment_list(commands)),
            ("considered", considered),
            ("release", release),
            ("triggers", trigger_lines(first.map_or(&[], |target| target.triggers))),
            ("gpu_code", gpu_code_line("PHASE", gpus)),
            ("source_stage", source_stage),
            ("builder", builder.unwrap_or_default()),
            ("stages", stages),
        ];
        Ok(tidy(&fill_template("project.Dockerfile", &values)))
    }

    /// Whether a stage compiles PyTorch.
    pub(super) fn builds_pytorch(&self) -> bool {
        self.builder.as_ref().is_some_and(|builder| builder.pytorch.is_some())
    }
}

/// The stages of one target, with what the audit says before and after.
fn describe_stages(target: &DockerfileTarget<'_>) -> Result<String, PatchError> {
    let phase = target.phase;
    let before = verdict_words(target.verdict, target.because);
    let result = result_words(target);
    let mut text = format!("\n# {phase}, before: {before}\n# audit of the result for {phase}: {result}\n");
    text += &size_lines(target, target.predicted.adds.filter(|adds| *adds > 0));
    text += &leaves_line(target);
    text += &target_stages(target)?;
    if let (Some(_), Some(python)) = (&target.pytorch, &target.system.python) {
        text += "\n# Check that PyTorch was built for the Python of this image, and that its libraries are there.\n";
        let words = [literal_path(python)?, "-c".to_owned(), "import torch".to_owned()];
        text += &instruction("RUN", &json_array(&words));
    }
    Ok(text)
}

/// Whether the target has libraries that others can share.
fn adds_files(target: &DockerfileTarget<'_>) -> bool {
    !target.patch.files.is_empty() && target.removal.is_none()
}

/// The target; if it copies libraries, based on the first target that does, unless that one has another PyTorch.
fn shared<'a>(target: &DockerfileTarget<'a>, first: Option<&DockerfileTarget<'_>>) -> DockerfileTarget<'a> {
    let mut target = target.clone();
    let copies = |target: &DockerfileTarget<'_>| adds_files(target) && target.patch.source.is_some();
    if let Some(first) = first.filter(|first| copies(first) && copies(&target) && first.pytorch == target.pytorch) {
        target.patch = target.patch.without(&first.patch);
        // Based on that target, so that the shared layers are stored and pushed once.
        first.phase.clone_into(&mut target.base);
        target.pytorch = None;
    }
    target
}

/// The stage with the files: the image that contains them, or a stage that installs them.
fn gathering_stages(target: &DockerfileTarget<'_>) -> Result<String, PatchError> {
    let Some(installed) = &target.installed else {
        return Ok(source_stage(target, &target.patch));
    };
    // Only the files are copied from this stage, so it needs no cleanup and no search path.
    let bare = ImagePatch {
        package: installed.package.clone().map(Package::without_spare),
        search: SearchPath::Own { because: String::new() },
        ..installed.clone()
    };
    let install_commands = shell_steps(&bare, &target.system, ShellStyle::Build)?.install;
    let commands = ["mkdir /cupti".to_owned(), gather_files(installed)?];
    let why = "\n# CUPTI is installed in its own stage. Each phase copies the files it needs from this stage.\n";
    let install = root_stage(target, "cupti") + &install(target, &bare, &install_commands)?;
    let gather = run_commands(&commands, &target.system.missing_path, "");
    Ok(source_stage(target, installed) + why + &install + &gather)
}

/// Copies the installed files into the folder of the stage, each under the name that programs ask for.
fn gather_files(installed: &ImagePatch) -> Result<String, PatchError> {
    let soname = escape_bytes(&installed.soname);
    let stems = installed.files.iter().filter_map(|file| file.stem);
    // The library itself is copied by its soname.
    let beside: Vec<&'static str> = stems.filter(|stem| !soname.starts_with(stem)).collect();
    if let Some(Package::System(package)) = &installed.package {
        let library = CommandLine::new("*/libcupti.so.*) cp \"$file\" /cupti/").arg(&soname);
        let companions = (!beside.is_empty()).then(|| match_stems(&beside, "").text(") cp \"$file\" /cupti/"));
        return Ok(for_package_files(package, std::iter::once(library).chain(companions)));
    }
    let names = std::iter::once(soname.as_str()).chain(beside);
    let mut copy = CommandLine::new("cp ");
    for name in names {
        copy = copy.path(&installed.library.parent().join(name.as_bytes()))?.text(" ");
    }
    Ok(copy.text("/cupti/").into())
}
