//! The instructions that bring CUPTI into an image, and the stages that they copy from.

use super::instruction::{PLAIN_SHELL, ROOT, comment, comment_list, copy_from, run_commands};
use super::target::DockerfileTarget;
use crate::make::choose::PatchError;
use crate::make::choose::image_system::SystemInstaller;
use crate::make::patch::package::{Package, PipPackage, RepositorySetup, SystemPackage};
use crate::make::patch::{ImagePatch, PatchedFile};
use crate::make::quote;
use crate::make::shell::with_system_path;
use image_linkage::escape::escape_bytes;

/// The stage with the files to copy, or with the key of NVIDIA's repository; empty if the patch needs none.
pub(super) fn source_stage(target: &DockerfileTarget<'_>, patch: &ImagePatch) -> String {
    match (&patch.source, &patch.package) {
        (Some(from), _) => {
            let why = format!("{from} has the needed libcupti. Only the files below are copied from it.");
            format!("\n{}FROM {from} AS cupti\n", comment(&why))
        }
        (
            None,
            Some(Package::System(SystemPackage {
                manager: SystemInstaller::AptGet,
                setup: Some(RepositorySetup::Repository { url, keyring, .. }),
                ..
            })),
        ) => {
            let why = "The key of NVIDIA's repository comes in a package. Only the key is copied from this stage.";
            let install = with_system_path(&target.system.missing_path, "dpkg -i /tmp/cuda-keyring.deb");
            let add = format!("ADD {url}/{keyring} /tmp/cuda-keyring.deb\nRUN {install}\n");
            format!("\n{}{}{add}", comment(why), root_stage(target, "keyring"))
        }
        _ => String::new(),
    }
}

/// The start of a stage of the image in which root runs `/bin/sh`.
pub(super) fn root_stage(target: &DockerfileTarget<'_>, name: &str) -> String {
    let shell = target.own_shell.as_ref().map_or("", |_| PLAIN_SHELL);
    let user = target.user.as_ref().map_or("", |_| ROOT);
    format!("FROM {} AS {name}\n{shell}{user}", target.base)
}

/// The instructions that bring the files of a patch; `commands` install its package.
pub(super) fn install(
    target: &DockerfileTarget<'_>,
    patch: &ImagePatch,
    commands: &[String],
) -> Result<String, PatchError> {
    let Some(package) = &patch.package else {
        return Ok(match &patch.source {
            Some(_) => format!("\n{}", copy_files(&patch.files)?),
            None => format!("\n# The needed files are in the image:\n{}", list_present_files(patch)?),
        });
    };
    let (mut text, mut option) = (String::new(), String::new());
    match package {
        Package::System(package) => {
            text += &repository_instruction(package);
            text += &package_reasons(target, patch, &format!("{} contains", package.name), &package.spare);
            text += &system_comments(package);
        }
        Package::Pip(pip) => {
            text += &package_reasons(target, patch, "The wheel contains", &pip.spare);
            text += &pip_comments(pip);
            option = pip.target.mount.map(|mount| format!("{mount} ")).unwrap_or_default();
        }
        Package::Conda(conda) => {
            text += &package_reasons(target, patch, "conda-forge's packages contain", &conda.spare);
        }
    }
    text += &run_commands(commands, &target.system.missing_path, &option);
    if matches!(package, Package::Pip(_)) {
        text += "\n";
    }
    Ok(format!("\n{text}"))
}

/// The needed files that are in the image.
pub(super) fn list_present_files(patch: &ImagePatch) -> Result<String, PatchError> {
    let lines = patch.files.iter().map(|file| {
        let at = quote::literal_path(&file.at)?;
        Ok(format!("{at}: {}", file_words(file)))
    });
    Ok(comment_list(lines.collect::<Result<Vec<_>, PatchError>>()?))
}

/// The name and purpose of a file.
pub(super) fn file_words(file: &PatchedFile) -> String {
    format!("{}: {}", escape_bytes(&file.name), file.because)
}

/// Copies files from their stage, in one layer if all keep their names.
fn copy_files(files: &[PatchedFile]) -> Result<String, PatchError> {
    let copied = || files.iter().filter_map(|file| Some((file, file.copied_from()?)));
    let keeps_names = copied().all(|(file, from)| from.name() == file.at.name());
    let mut text = String::new();
    let mut words = Vec::new();
    for (file, from) in copied() {
        text += &comment(&file_words(file));
        words.push(quote::literal_path(from)?);
        if !keeps_names {
            words.push(quote::literal_path(&file.at)?);
            text += &copy_from("cupti", &std::mem::take(&mut words));
        }
    }
    if let Some(file) = files.first().filter(|_| keeps_names) {
        words.push(quote::literal_path(&file.at.parent())? + "/");
        text += &copy_from("cupti", &words);
    }
    Ok(text)
}

/// What a package contains for the phase, and that the rest is removed.
fn package_reasons(target: &DockerfileTarget<'_>, patch: &ImagePatch, contains: &str, spare: &[&str]) -> String {
    let mut text = comment(&format!("{contains} what {} needs:", target.phase));
    text += &comment_list(patch.files.iter().map(|file| {
        let name = file.stem.map_or_else(|| escape_bytes(&file.name), str::to_owned);
        format!("{name}: {}", file.because)
    }));
    if !spare.is_empty() {
        text += "# The same step removes the rest, so that it takes no space in the layer.\n";
    }
    text
}

fn pip_comments(pip: &PipPackage) -> String {
    let mut text = String::new();
    if pip.is_listed {
        let force = pip.target.uv.as_ref().map_or("force-", |_| "");
        text += &comment(&format!("--{force}reinstall, because pip considers it installed."));
    }
    if pip.target.mount.is_some() {
        text += "# The image has neither uv nor pip. Its Dockerfile lends uv to this step, which needs BuildKit.\n";
    }
    text
}

fn system_comments(package: &SystemPackage) -> String {
    let is_debian = package.manager == SystemInstaller::AptGet;
    let mut text = String::new();
    if is_debian && !package.spare.is_empty() {
        text += "# dpkg still lists the removed files, because it cannot forget a file of a package.\n";
    }
    text += match &package.setup {
        _ if !is_debian => "# hadolint ignore=DL3033,DL3041\n",
        Some(RepositorySetup::Repository { certificates: true, .. }) => "# hadolint ignore=DL3008\n",
        _ => "",
    };
    text
}

/// Brings the key or the file of NVIDIA's repository, if it is needed.
fn repository_instruction(package: &SystemPackage) -> String {
    let Some(RepositorySetup::Repository { url, file, folder, .. }) = &package.setup else {
        return String::new();
    };
    if package.manager == SystemInstaller::AptGet {
        let key = "/usr/share/keyrings/cuda-archive-keyring.gpg /usr/share/keyrings/";
        let why = "With this key, apt trusts the repository, which is configured only for this step.";
        return format!("{}COPY --from=keyring {key}\n", comment(why));
    }
    let why = "NVIDIA's repository file, which names its key.";
    format!("{}ADD {url}/{file} {folder}/\n", comment(why))
}
