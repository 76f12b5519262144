//! The stages for an image without a shell: another stage checks a copy of the image.

use super::install::{file_words, list_present_files};
use super::instruction::{comment, copy_from};
use super::steps::{copy_pytorch, set_library_path};
use super::target::DockerfileTarget;
use crate::make::choose::PatchError;
use crate::make::quote::literal_path;
use crate::make::shell::check::{copy_check, files_in_copy, in_copy, links_in_copy};
use crate::make::template::fill_template;

/// The parts that differ between files of the image and files of a source.
#[derive(Default)]
struct CheckedFiles {
    /// The list of the files that are in the image.
    present: String,
    /// The `COPY`s into the copy of the image.
    copies: String,
    /// The commands that add to the copy of the image.
    commands: Vec<String>,
    /// The `COPY`s of the checked files into the image.
    checked: String,
}

/// The stages of a target whose image has no shell.
pub(super) fn stages_without_shell(target: &DockerfileTarget<'_>) -> Result<String, PatchError> {
    let mut files = match target.patch.source {
        Some(_) => check_copies(target)?,
        None => check_links(target)?,
    };
    files.commands.extend(copy_check(&target.check, &target.search_path));
    let helper = if target.check.elsewhere {
        "cupti"
    } else {
        "busybox:1.37"
    };
    let values = [
        ("base", target.base.clone()),
        ("phase", target.phase.to_owned()),
        ("lacks", target.system.lacks.clone()),
        ("present_files", files.present),
        ("helper", helper.to_owned()),
        ("copies", files.copies),
        ("check", files.commands.join("; \\\n")),
        ("because", comment(target.patch.search.because())),
        ("checked_files", files.checked),
        ("pytorch", target.pytorch.as_ref().map(copy_pytorch).unwrap_or_default()),
        ("library_path", set_library_path(target)),
    ];
    Ok(fill_template("without-shell.Dockerfile", &values))
}

fn check_links(target: &DockerfileTarget<'_>) -> Result<CheckedFiles, PatchError> {
    let (patch, folder) = (&target.patch, target.patch.folder());
    let stage = format!("proof-{}", target.phase);
    let words = ["/links/".to_owned(), literal_path(&folder)? + "/"];
    Ok(CheckedFiles {
        present: comment("The needed files are in the image. Each gets a link where the loader searches:")
            + &list_present_files(patch)?,
        commands: links_in_copy(&patch.links, &folder)?,
        checked: comment("only links; copying their directory keeps them as links") + &copy_from(&stage, &words),
        copies: String::new(),
    })
}

fn check_copies(target: &DockerfileTarget<'_>) -> Result<CheckedFiles, PatchError> {
    let stage = format!("proof-{}", target.phase);
    let elsewhere = target.check.elsewhere;
    let mut files = CheckedFiles::default();
    if elsewhere {
        files.commands = files_in_copy(&target.patch.files, &target.patch.folder())?;
    }
    let copied = target.patch.files.iter();
    for (file, from) in copied.filter_map(|file| Some((file, file.copied_from()?))) {
        let (from, to) = (literal_path(from)?, literal_path(&file.at)?);
        let made = literal_path(&in_copy(&file.at))?;
        if !elsewhere {
            files.copies += &copy_from("cupti", &[from, made.clone()]);
        }
        files.checked += &comment(&file_words(file));
        files.checked += &copy_from(&stage, &[made, to]);
    }
    Ok(files)
}
