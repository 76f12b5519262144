//! The only writer of shell commands: the steps of a patch, for the `RUN`s of a build or for a person at a console.

pub(crate) mod check;
pub(crate) mod command_line;
pub(crate) mod package;

use std::collections::BTreeSet;

use super::choose::PatchError;
use super::choose::image_system::ImageSystem;
use super::choose::search_path::MAIN_CONF;
use super::dockerfile::removal::RemovalPlan;
use super::patch::{GrantedRight, ImagePatch, PatchedLink, SearchPath};
use super::quote;
use super::template::fill_template;
use crate::size::format_size;
use command_line::CommandLine;
use image_linkage::escape::escape_bytes;
use image_linkage::path::RootPath;

/// Who runs the commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ShellStyle {
    /// One `RUN`, which leaves no caches behind.
    Build,
    /// A person, one line at a time.
    Console,
}

/// Commands with one purpose. A command may have several lines, which then end as `RUN` needs it.
#[derive(Debug, Default)]
pub(crate) struct ShellStep {
    /// The reasons, a line each.
    pub comments: Vec<String>,
    pub commands: Vec<String>,
}

/// The steps of a patch in their order. Copied files come between the first two.
#[derive(Debug, Default)]
pub(crate) struct PatchSteps {
    /// Deletes names and grants rights.
    pub prepare: Vec<ShellStep>,
    /// The commands that install the package; empty without one.
    pub install: Vec<String>,
    /// Makes links, and leads the loader to the files.
    pub search: Option<ShellStep>,
}

impl PatchSteps {
    /// All commands in order.
    pub(crate) fn into_commands(self) -> Vec<String> {
        let prepare = self.prepare.into_iter().flat_map(|step| step.commands);
        let search = self.search.into_iter().flat_map(|step| step.commands);
        prepare.chain(self.install).chain(search).collect()
    }
}

/// The steps of a patch in an image. The files of its drops are removed by [`removal_step`], and its copied files and the
/// variable of the search path need instructions of a Dockerfile.
///
/// Errors: [`PatchError::Name`] for a path that a command cannot contain.
pub(crate) fn shell_steps(
    patch: &ImagePatch,
    system: &ImageSystem,
    style: ShellStyle,
) -> Result<PatchSteps, PatchError> {
    let ImagePatch {
        title: _,
        soname: _,
        library,
        release: _,
        deletes,
        rights,
        source: _,
        package,
        files,
        links: _,
        search,
        // Which step runs ldconfig follows from what it does.
        rewrites_cache: _,
        library_path: _,
        drops: _,
        leaves: _,
    } = patch;
    let ldconfig = ldconfig_call(system, style)?;
    let mut steps = PatchSteps::default();
    if !deletes.is_empty() {
        let updates = files.is_empty() && system.has_cache;
        let ldconfig = Some(&*ldconfig).filter(|_| updates);
        steps.prepare.push(deletion_step(deletes, ldconfig, !files.is_empty())?);
    }
    if !rights.is_empty() {
        steps.prepare.push(rights_step(rights)?);
    }
    let asked = match search {
        SearchPath::Configured { line: Some(line), .. } if line.asks_package => Some(&line.file),
        _ => None,
    };
    if let Some(package) = package {
        steps.install = package::install_commands(package, library, asked, system, style)?;
    }
    steps.search = search_step(patch, &ldconfig, style)?;
    Ok(steps)
}

/// The ldconfig call. It names the folders that only the image's cache contains.
///
/// Errors: As [`shell_steps`].
pub(crate) fn ldconfig_call(system: &ImageSystem, style: ShellStyle) -> Result<String, PatchError> {
    let call = CommandLine::new("ldconfig").paths(&system.cache_folders)?.into();
    Ok(match style {
        ShellStyle::Build => call,
        ShellStyle::Console => with_system_path(&system.missing_path, &call),
    })
}

/// Deletes misleading names. `ldconfig` is the call that updates the cache afterwards.
fn deletion_step(paths: &[RootPath], ldconfig: Option<&str>, brings: bool) -> Result<ShellStep, PatchError> {
    let names = "Remove CUPTI names that lead nowhere, to another release, or to a file that is not a library";
    let comments = if brings {
        vec![format!("{names}, before new ones replace"), "them.".to_owned()]
    } else {
        vec![format!("{names}.")]
    };
    let delete = CommandLine::new("rm -f").paths(paths)?.into();
    let commands = std::iter::once(delete).chain(ldconfig.map(str::to_owned)).collect();
    Ok(ShellStep { comments, commands })
}

/// Grants rights on files to all users.
fn rights_step(rights: &[GrantedRight]) -> Result<ShellStep, PatchError> {
    let mut commands = Vec::new();
    for right in rights {
        let chmod = CommandLine::new("chmod ").text(right.mode).text(" ");
        commands.push(chmod.path(&right.path)?.into());
    }
    Ok(ShellStep {
        comments: vec!["The image's user may not read these files.".to_owned()],
        commands,
    })
}

/// Makes the links, and leads the loader to the files, unless a package manager's step does that.
fn search_step(patch: &ImagePatch, ldconfig: &str, style: ShellStyle) -> Result<Option<ShellStep>, PatchError> {
    let mut comments = Vec::new();
    let mut commands = link_commands(patch)?;
    if let SearchPath::Configured { folder, line, because } = &patch.search {
        let is_asked = line.as_ref().is_some_and(|line| line.asks_package) && style == ShellStyle::Build;
        let leads = !patch.files.is_empty() && !is_asked;
        if leads {
            comments.extend((!because.is_empty()).then(|| because.clone()));
            let line = line.iter().map(|line| conf_commands(folder, &line.file, style));
            commands.extend(line.collect::<Result<Vec<_>, _>>()?.concat());
        }
        commands.extend((leads || !commands.is_empty()).then(|| ldconfig.to_owned()));
    }
    comments.extend(link_comments(patch));
    Ok((!commands.is_empty()).then_some(ShellStep { comments, commands }))
}

/// Makes the links; existing files at their paths are replaced.
fn link_commands(patch: &ImagePatch) -> Result<Vec<String>, PatchError> {
    let mut there: BTreeSet<RootPath> = patch.files.iter().map(|file| file.at.parent()).collect();
    if let SearchPath::Default { folder, .. } = &patch.search {
        there.insert(folder.clone());
    }
    let mut commands = Vec::new();
    for link in &patch.links {
        let folder = link.at.parent();
        if !there.contains(&folder) {
            commands.push(CommandLine::new("mkdir -p ").path(&folder)?.into());
            there.insert(folder);
        }
        let target = quote::require_literal("a link", &link.to)?;
        let make = CommandLine::new("ln -sf ").arg(&target).text(" ");
        commands.push(make.path(&link.at)?.into());
    }
    Ok(commands)
}

/// The reasons for the links, which the search path gives for those in its folder to files elsewhere.
fn link_comments(patch: &ImagePatch) -> Vec<String> {
    let (mut comments, mut reasons) = (Vec::new(), Vec::new());
    for link in &patch.links {
        if link.because.is_empty() || is_in_search_folder(patch, link) {
            continue;
        }
        if patch.source.is_some() && !link.to.contains(&b'/') {
            let (target, name) = (escape_bytes(&link.to), escape_bytes(link.at.name()));
            comments.push(format!("{target} as {name}: {}", link.because));
        } else if !reasons.contains(&&*link.because) {
            reasons.push(&*link.because);
        }
    }
    comments.extend((!reasons.is_empty()).then(|| reasons.join(", ")));
    comments
}

fn is_in_search_folder(patch: &ImagePatch, link: &PatchedLink) -> bool {
    let is_own = matches!(patch.search, SearchPath::Own { .. });
    !is_own && link.at.parent() == patch.folder() && patch.files.iter().any(|file| *link.to == *file.at.absolute())
}

/// Writes the folder into a file of ldconfig. In the main file it comes first; any other file is new.
fn conf_commands(folder: &RootPath, conf: &RootPath, style: ShellStyle) -> Result<Vec<String>, PatchError> {
    let echo = |before| CommandLine::new(before).path(folder);
    if *conf != RootPath::from(MAIN_CONF) {
        return Ok(vec![echo("echo ")?.text(" > ").path(conf)?.into()]);
    }
    let lines = match style {
        ShellStyle::Build => vec![
            echo("{ echo ")?.text("; cat /etc/ld.so.conf || true; } > /etc/ld.so.conf.cupti"),
            CommandLine::new("cat /etc/ld.so.conf.cupti > /etc/ld.so.conf"),
            CommandLine::new("rm /etc/ld.so.conf.cupti"),
        ],
        ShellStyle::Console => vec![
            echo("{ echo ")?
                .text("; cat /etc/ld.so.conf || true; } > /etc/ld.so.conf.new; mv /etc/ld.so.conf.new /etc/ld.so.conf"),
        ],
    };
    Ok(lines.into_iter().map(String::from).collect())
}

/// Removes dead weight, and updates the loader's cache if there is one.
///
/// Errors: As [`shell_steps`].
pub(crate) fn removal_step(phase: &str, removal: &RemovalPlan, system: &ImageSystem) -> Result<ShellStep, PatchError> {
    let mut lines = vec!["rm -rf".to_owned()];
    for group in &removal.groups {
        let (size, because) = (format_size(group.bytes), quote::comment_line(&group.because));
        let mut line = format!("    # {}, {size}: {because}\n", group.kind);
        for path in &group.paths {
            line += &String::from(CommandLine::new("    ").shell_path(path)?);
            lines.push(std::mem::take(&mut line));
        }
    }
    let mut commands = vec![lines.join(" \\\n")];
    if system.has_cache {
        let call = ldconfig_call(system, ShellStyle::Build)?;
        commands.push(format!("# the loader's cache may still name removed files\n{call}"));
    }
    if !removal.sites.is_empty() {
        let list = list_files_again(&removal.sites, "")?;
        commands.push(format!("# keep pip's lists of files correct\n{list}"));
    }
    let why = format!("Files that {phase} does not need, and that nothing else in the image is known to need:");
    Ok(ShellStep {
        comments: vec![why],
        commands,
    })
}

/// Removes lost files from pip's lists of the distributions in `sites` whose names begin with `distribution`.
fn list_files_again(sites: &[RootPath], distribution: &str) -> Result<String, PatchError> {
    let mut records: Vec<String> = Vec::new();
    for site in sites {
        let list = CommandLine::new("").path(site)?.text("/").prefix(distribution);
        records.push(list.text("*.dist-info/RECORD").into());
    }
    let text = fill_template("installed-files.sh", &[("records", records.join(" "))]);
    Ok(text.trim_end().to_owned())
}

/// A command of the system, for a shell whose `PATH` may lack folders.
pub(crate) fn with_system_path(missing_path: &str, command: &str) -> String {
    if missing_path.is_empty() {
        return command.to_owned();
    }
    format!("PATH=\"$PATH:{missing_path}\" {command}")
}
