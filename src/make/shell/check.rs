//! The check of a build by the image's own loader.

use super::ShellStep;
use super::command_line::CommandLine;
use crate::make::choose::PatchError;
use crate::make::dockerfile::build_check::{BuildCheck, LinkedObject};
use crate::make::patch::{PatchedFile, PatchedLink};
use crate::make::quote;
use crate::make::template::{fill_template, indent_lines};
use image_linkage::path::RootPath;

/// Asks the image's loader for the names, and for the objects linked with the library.
pub(crate) fn check_step(check: &BuildCheck) -> Result<ShellStep, PatchError> {
    let path = check.library_path.iter().map(|path| {
        let export = CommandLine::new("# as the container command sets it\nexport LD_LIBRARY_PATH=");
        export.arg(path).into()
    });
    let mut commands: Vec<String> = path.collect();
    if !check.names.is_empty() {
        let preload = preload(check, CommandLine::new("LD_PRELOAD="));
        let list = preload.text(" ").arg(&check.loader).text(" --list ").arg(&check.libc);
        commands.extend(name_checks(check, list));
    }
    for linked in &check.linked {
        commands.push(linked_check(check, linked)?);
    }
    let comments = [
        "Check with the image's own loader: a program that opens these names finds them and all their dependencies. If not, the",
        "build fails.",
    ];
    Ok(ShellStep {
        comments: comments.map(str::to_owned).to_vec(),
        commands,
    })
}

/// Makes the links in the copy of the image in `/made`, and in `/links`, from which they are copied back.
pub(crate) fn links_in_copy(links: &[PatchedLink], folder: &RootPath) -> Result<Vec<String>, PatchError> {
    let mut commands = vec!["mkdir /links".to_owned()];
    for link in links {
        let target = quote::require_literal("a link", &link.to)?;
        let make = CommandLine::new("ln -s ").arg(&target).text(" ");
        commands.push(make.path(&RootPath::from("links").join(link.at.name()))?.into());
    }
    commands.push(CommandLine::new("cp -a /links/. ").path(&in_copy(folder))?.into());
    Ok(commands)
}

/// Copies files of this stage into the copy of the image in `/made`.
pub(crate) fn files_in_copy(files: &[PatchedFile], folder: &RootPath) -> Result<Vec<String>, PatchError> {
    let mut commands = vec![CommandLine::new("mkdir -p ").path(&in_copy(folder))?.into()];
    for file in files {
        if let Some(from) = file.copied_from() {
            let copy = CommandLine::new("cp ").path(from)?.text(" ");
            commands.push(copy.path(&in_copy(&file.at))?.into());
        }
    }
    Ok(commands)
}

/// A path of the image in its copy.
pub(crate) fn in_copy(path: &RootPath) -> RootPath {
    RootPath::from("made").join(path.as_bytes())
}

/// Asks the loader of the copy of the image for the names.
pub(crate) fn copy_check(check: &BuildCheck, search_path: &str) -> Vec<String> {
    let chroot = CommandLine::new("LD_LIBRARY_PATH=")
        .arg(search_path)
        .text(" chroot /made ");
    let preloaded = preload(check, chroot.arg(&check.loader).text(" --preload "));
    name_checks(check, preloaded.text(" --list ").arg(&check.libc))
}

/// Appends the preloads and the checked name.
fn preload(check: &BuildCheck, line: CommandLine) -> CommandLine {
    let line = if check.preloads.is_empty() {
        line
    } else {
        line.arg(&check.preloads)
    };
    line.text("\"$name\"")
}

/// Runs `list` for each name, and fails if the loader does not find the name or a dependency of it.
fn name_checks(check: &BuildCheck, list: CommandLine) -> Vec<String> {
    // The loader only warns of a preload that fails.
    let (failed_preload, found) = if check.preloads.is_empty() {
        ("", r#"*"$name => /"*"#)
    } else {
        (r#"|*"object '$name' from"*"#, r#"*" (0x"*"#)
    };
    let values = [
        ("command", list.into()),
        ("failed_preload", failed_preload.to_owned()),
        ("found", found.to_owned()),
    ];
    let text = fill_template("loader-check.sh", &values);
    match check.names.as_slice() {
        [name] => vec![CommandLine::new("name=").arg(name).into(), text.trim_end().to_owned()],
        names => {
            let names: String = CommandLine::new("for name in").args(names).text("; do \\\n").into();
            vec![
                format!("{names}{}", indent_lines(&text, 4).trim_end()),
                "done".to_owned(),
            ]
        }
    }
}

/// Fails if the loader does not find the library for a linked object, or another dependency of its program.
fn linked_check(check: &BuildCheck, linked: &LinkedObject) -> Result<String, PatchError> {
    let object = quote::literal_path(&linked.object)?;
    let list = match &linked.program {
        Some(program) => {
            let preloads = format!("{}{object}", check.preloads);
            let preload = CommandLine::new("LD_PRELOAD=").arg(&preloads).text(" ");
            preload.arg(&check.loader).text(" --list ").path(program)?
        }
        None => CommandLine::new("").arg(&check.loader).text(" --list ").arg(&object),
    };
    let mut case = CommandLine::new("case \"$said\" in ");
    if !check.preloads.is_empty() {
        case = case.text(r#"*"not found"*) echo "#).arg(&object);
        case = case.text(r#": "$said" >&2; exit 1 ;; *" (0x"*|"#);
    }
    case = case.text("*").arg(&format!("{} => /", linked.library));
    case = case
        .text("*|*")
        .arg(&format!("/{} (", linked.library))
        .text("*) ;; *) echo ");
    case = case.arg(&object).text(r#": "$said" >&2; exit 1 ;; esac"#);
    let (list, case) = (String::from(list), String::from(case));
    let name = quote::comment_line(&linked.name);
    Ok(format!("# {name}\nsaid=$({list} 2>&1) || true; \\\n{case}"))
}
