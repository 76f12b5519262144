//! The stages of one target: its steps in the order of the build.

use super::install::install;
use super::instruction::{PLAIN_SHELL, ROOT, comment, instruction, run_step, set_variable};
use super::removal::RemovalPlan;
use super::target::{CopiedPytorch, DockerfileTarget, PYTHON_PATH};
use super::without_shell::stages_without_shell;
use crate::knowledge::file_interest::LIBRARY_PATH;
use crate::make::choose::PatchError;
use crate::make::patch::SearchPath;
use crate::make::shell::check::check_step;
use crate::make::shell::{ShellStyle, removal_step, shell_steps};
use crate::make::template::fill_template;

/// The stages of a target; the last one has its name.
pub(super) fn target_stages(target: &DockerfileTarget<'_>) -> Result<String, PatchError> {
    let has_shell = target.system.shell;
    if !has_shell && !target.patch.files.is_empty() {
        return stages_without_shell(target);
    }
    let mut text = changing_stage(target)?;
    if target.removal.is_some() {
        text += &flat_stage(target);
    }
    text += &check_result(target)?;
    if let Some(shell) = target.own_shell.as_ref().filter(|_| has_shell) {
        text += "\n";
        text += &instruction("SHELL", shell);
    }
    Ok(text)
}

/// The last step: the image's loader checks the result.
fn check_result(target: &DockerfileTarget<'_>) -> Result<String, PatchError> {
    if !target.check.asks_loader() {
        return Ok(String::new());
    }
    if target.system.shell {
        return Ok(run_step(&check_step(&target.check)?, ""));
    }
    let lacks = &target.system.lacks;
    Ok(format!(
        "\n# The image has {lacks}, so the build cannot check the result: audit the built image.\n"
    ))
}

/// The stage that changes the image.
fn changing_stage(target: &DockerfileTarget<'_>) -> Result<String, PatchError> {
    let removal = target.removal.as_ref();
    let full = removal.map_or("", |_| "full-");
    let mut text = format!("\nFROM {} AS {full}{}\n", target.base, target.phase);
    if target.own_shell.is_some() && target.system.shell {
        text += "# the steps below are for this shell; the end restores the image's own\n";
        text += PLAIN_SHELL;
    }
    let needs_root = target.patch.brings_library() || removal.is_some();
    let user = target.user.as_ref().filter(|_| needs_root);
    if user.is_some() {
        text += "# Installing needs root, by number for images without /etc/passwd. The image's own user is restored below.\n";
        text += ROOT;
    }
    text += &target.pytorch.as_ref().map(copy_pytorch).unwrap_or_default();
    text += &bring_library(target)?;
    if let Some(removal) = removal {
        return Ok(text + &remove_files(target, removal)?);
    }
    text += "\n";
    text += &set_library_path(target);
    if let Some(user) = user {
        text += "\n# the image's own user, under its own name\n# hadolint ignore=DL3066\n";
        text += &instruction("USER", user);
    }
    Ok(text)
}

/// The steps that make CUPTI reachable.
fn bring_library(target: &DockerfileTarget<'_>) -> Result<String, PatchError> {
    let (patch, missing_path) = (&target.patch, &target.system.missing_path);
    let steps = shell_steps(patch, &target.system, ShellStyle::Build)?;
    let mut text: String = steps.prepare.iter().map(|step| run_step(step, missing_path)).collect();
    if !patch.files.is_empty() {
        text += &install(target, patch, &steps.install)?;
        if matches!(patch.search, SearchPath::Own { .. } | SearchPath::Default { .. }) {
            text += &comment(patch.search.because());
        }
    }
    if let Some(step) = &steps.search {
        text += &run_step(step, missing_path);
    }
    Ok(text)
}

/// The changed `LD_LIBRARY_PATH`.
pub(super) fn set_library_path(target: &DockerfileTarget<'_>) -> String {
    let changed = target.patch.library_path.as_ref().map(|path| {
        let variable = set_variable(LIBRARY_PATH, &path.value);
        format!("{}{variable}", comment(&path.because))
    });
    changed.unwrap_or_default()
}

/// The PyTorch of a builder.
pub(super) fn copy_pytorch(pytorch: &CopiedPytorch) -> String {
    let stage = pytorch.stage;
    let links = if pytorch.links_cupti {
        "It links"
    } else {
        "It does not link"
    };
    format!(
        "\n# PyTorch from the builder, with its dependencies, for the Python version of the builder. {links} libcupti.\n\
         COPY --from={stage} /opt/pytorch /opt/pytorch\n{}",
        set_variable(PYTHON_PATH, &pytorch.python_path)
    )
}

fn remove_files(target: &DockerfileTarget<'_>, removal: &RemovalPlan) -> Result<String, PatchError> {
    let step = removal_step(target.phase, removal, &target.system)?;
    let mut text = run_step(&step, &target.system.missing_path);
    if removal.has_dpkg_lists {
        text += "# dpkg's lists may still name these files; cupti-audit slim removes such lines.\n";
    }
    if removal.unwritable > 0 {
        let count = removal.unwritable;
        text += &comment(&format!(
            "{count} more stay, because a Dockerfile cannot contain their names"
        ));
    }
    Ok(text)
}

/// The stage that copies the remaining files into one layer.
fn flat_stage(target: &DockerfileTarget<'_>) -> String {
    let config = target.config.iter().map(|line| match line {
        line if line.starts_with("USER ") => format!("# hadolint ignore=DL3066\n{line}\n"),
        line if target.own_shell.is_some() && line.starts_with("SHELL ") => PLAIN_SHELL.to_owned(),
        line => format!("{line}\n"),
    });
    let values = [("phase", target.phase.to_owned()), ("config", config.collect())];
    fill_template("removal.Dockerfile", &values)
}
