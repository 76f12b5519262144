//! The Dockerfile for one phase.

use super::install::source_stage;
use super::instruction::{comment, comment_list};
use super::steps::target_stages;
use super::target::DockerfileTarget;
use crate::judge::plan::Verdict;
use crate::make::choose::PatchError;
use crate::make::choose::choice::ConsideredMethod;
use crate::make::patch::BroughtRelease;
use crate::make::quote;
use crate::make::template::{fill_template, tidy};
use crate::shell_quote::quote_shell;
use crate::size::{count_words, format_size};

/// The Dockerfile for one phase.
///
/// Errors: [`PatchError::Name`] for a name that a Dockerfile cannot contain.
pub(crate) fn write_phase(target: &DockerfileTarget<'_>) -> Result<String, PatchError> {
    let fails = target.predicted.verdict == Verdict::Fail;
    let gpus = if fails { "" } else { target.gpus.as_str() };
    let values = [
        ("phase", target.phase.to_owned()),
        ("image", quote::comment_line(&target.image)),
        ("summary", quote::comment_line(target.summary)),
        ("before", verdict_words(target.verdict, target.because)),
        ("what_it_does", what_it_does(target)),
        ("considered", considered_lines(&target.considered)),
        ("release", release_lines(target.patch.release.as_ref())),
        ("sizes", size_lines(target, target.predicted.adds)),
        ("result", result_words(target)),
        ("triggers", trigger_lines(target.triggers)),
        ("gpu_code", gpu_code_line(target.phase, gpus)),
        ("leaves", leaves_line(target)),
        ("source_stage", source_stage(target, &target.patch)),
        ("target", target_stages(target)?),
    ];
    Ok(tidy(&fill_template("phase.Dockerfile", &values)))
}

/// A verdict and the rules that cause it.
pub(super) fn verdict_words(verdict: Verdict, because: &[String]) -> String {
    match because {
        [] => verdict.name().to_owned(),
        because => format!("{} ({})", verdict.name(), because.join(", ")),
    }
}

/// The predicted verdict.
pub(super) fn result_words(target: &DockerfileTarget<'_>) -> String {
    let predicted = &target.predicted;
    verdict_words(predicted.verdict, &predicted.because)
}

/// What the file does if no installation says it.
fn what_it_does(target: &DockerfileTarget<'_>) -> String {
    let patch = &target.patch;
    let is_checked = target.system.shell && target.check.asks_loader();
    let words = if patch.files.is_empty() && !patch.links.is_empty() {
        "CUPTI is in the image. Links lead programs to it that open it by path."
    } else if !patch.rights.is_empty() {
        "CUPTI is in the image. Its user gets the right to read it."
    } else if patch.files.is_empty() && !patch.deletes.is_empty() {
        "CUPTI is in the image. Names that mislead programs are removed."
    } else if !target.considered.is_empty() || target.removal.is_some() {
        return String::new();
    } else if target.verdict != Verdict::Pass {
        "Nothing to add: the verdict has another reason than CUPTI."
    } else if is_checked {
        "Nothing to do: the loader finds everything that the phase needs. The check below keeps it that way."
    } else {
        "Nothing to do: the loader finds everything that the phase needs."
    };
    comment(words)
}

/// The considered methods; the last is used.
pub(super) fn considered_lines(considered: &[ConsideredMethod]) -> String {
    comment_list(considered.iter().enumerate().map(|(number, method)| {
        let is_used = number + 1 == considered.len();
        let answer = if is_used { "used" } else { "no" };
        format!("{}: {answer}, {}", method.name, method.why)
    }))
}

/// The installed release, if known, and its licence.
pub(super) fn release_lines(release: Option<&BroughtRelease>) -> String {
    let Some(release) = release else {
        return String::new();
    };
    let licence = "licence: NVIDIA's allows to redistribute libcupti.so; it does not name the other files of CUPTI \
                   (CUDA EULA, Attachment A)";
    comment(&format!("release {}: {}", release.version, release.because)) + &comment(licence)
}

/// The added bytes, and the sizes before and after a removal.
pub(super) fn size_lines(target: &DockerfileTarget<'_>, adds: Option<u64>) -> String {
    let with = target.pytorch.as_ref().map_or("", |_| ", and PyTorch");
    let mut text = String::new();
    if let Some(adds) = adds {
        text += &comment(&format!("adds {}{with}", format_size(adds)));
    }
    if let Some(removal) = &target.removal {
        let (before, after) = (format_size(removal.before), format_size(removal.after));
        let layers = count_words(removal.layers, "layer");
        let change = format!("size before: {before} in {layers}, uncompressed; after: about {after} in one{with}");
        text += &comment(&change);
    }
    text
}

/// The image's triggers.
pub(super) fn trigger_lines(triggers: &[String]) -> String {
    if triggers.is_empty() {
        return String::new();
    }
    comment("the image has triggers; every build on it runs them first, and their effect is unknown:")
        + &comment_list(triggers.iter().map(|line| format!("ONBUILD {line}")))
}

/// The command that removes GPU code for GPUs other than `gpus`, which a Dockerfile cannot do.
pub(super) fn gpu_code_line(phase: &str, gpus: &str) -> String {
    if gpus.is_empty() {
        return String::new();
    }
    let slim = format!(
        "cupti-audit slim IMAGE --phase {phase} --gpu {} -o OUTPUT",
        quote_shell(gpus)
    );
    comment(&format!("To remove GPU code for other GPUs after the build: {slim}"))
}

/// The problems that stay.
pub(super) fn leaves_line(target: &DockerfileTarget<'_>) -> String {
    let leaves = &target.patch.leaves;
    if leaves.is_empty() {
        return String::new();
    }
    format!("# not changed by this file: {}\n", leaves.join(", "))
}
