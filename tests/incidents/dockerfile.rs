//! Builds the Dockerfiles that the program writes, as an engine would: stages, commands, and copies between stages.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::image::Image;
use crate::run::{as_root, said};

/// Variables that let pip, uv and apt find NVIDIA's packages without a network. No image contains them.
const STAND_INS: [(&str, &str); 10] = [
    ("PIP_NO_INDEX", "1"),
    ("PIP_FIND_LINKS", "/mnt/wheelhouse"),
    ("PIP_DISABLE_PIP_VERSION_CHECK", "1"),
    ("PIP_ROOT_USER_ACTION", "ignore"),
    ("PIP_NO_CACHE_DIR", "1"),
    ("UV_OFFLINE", "1"),
    ("UV_NO_CACHE", "1"),
    ("UV_FIND_LINKS", "/mnt/wheelhouse"),
    ("APT_CONFIG", "/mnt/apt/apt.conf"),
    ("DEBIAN_FRONTEND", "noninteractive"),
];
/// Prints each command and runs it, as the lines of a shell script.
const EACH: &str = r#"for command; do printf "$ %s\n" "$command"; /bin/sh -ec "$command"; done"#;

/// Builds the last stage of a Dockerfile. Instructions without a FROM start from the image.
///
/// Errors: the reason for a failed build.
pub fn build<'kit>(image: &Image<'kit>, instructions: &[String], log: &mut String) -> Result<Image<'kit>, String> {
    let mut stages: BTreeMap<String, Image> = BTreeMap::new();
    let mut current = ("last".to_owned(), image.branch("stage"));
    let mut commands = Vec::new();
    for instruction in instructions {
        let (word, rest) = instruction.split_once(' ').unwrap_or((instruction, ""));
        if word == "RUN" {
            commands.push(lend_uv(rest));
            continue;
        }
        run(&mut current.1, &mut commands, log)?;
        match word {
            "FROM" => {
                let (base, name) = rest.split_once(" AS ").unwrap_or((rest, "last"));
                let folder = format!("stage-{name}");
                let begun = match stages.get(base) {
                    Some(stage) => stage.branch(&folder),
                    None => known_image(image, base, &folder),
                };
                let (name, stage) = std::mem::replace(&mut current, (name.to_owned(), begun));
                stages.insert(name, stage);
            }
            "COPY" => {
                let (from, paths) = rest
                    .strip_prefix("--from=")
                    .and_then(|rest| rest.split_once(' '))
                    .unwrap();
                let other = known_image(image, from, "other");
                let stage = stages.get(from).unwrap_or(&other);
                let paths = serde_json::from_str(paths).unwrap_or_else(|_| shlex::split(paths).unwrap());
                current.1.copy(stage, &paths)?;
            }
            // The kit has the files of NVIDIA's server.
            "ADD" => {
                let (address, path) = rest.split_once(' ').unwrap();
                let file = address.rsplit('/').next().unwrap();
                commands.push(format!("cp /mnt/*/{file} {path}"));
            }
            "ENV" => set(&mut current.1, rest),
            "USER" | "SHELL" | "WORKDIR" | "CMD" | "ENTRYPOINT" | "LABEL" => {}
            _ => return Err(format!("not applied: {word}")),
        }
    }
    run(&mut current.1, &mut commands, log)?;
    Ok(current.1)
}

/// The command of a `RUN`. uv's public image lends uv, which the kit has.
fn lend_uv(command: &str) -> String {
    let mount = "--mount=from=ghcr.io/astral-sh/uv,source=/uv,target=/bin/uv ";
    let lent = command.strip_prefix(mount);
    lent.map_or(command.to_owned(), |command| {
        format!("ln -s /mnt/bin/uv /bin/uv; {command}; rm /bin/uv")
    })
}

/// The image with this name, from layers of the kit. Any other name means the image to build on.
fn known_image<'kit>(image: &Image<'kit>, name: &str, folder: &str) -> Image<'kit> {
    let branch = image.branch(folder);
    match name.split_once(':') {
        _ if name == "scratch" => branch.of_layers(&[]),
        // 12.4.1-devel-ubuntu22.04
        Some(("nvidia/cuda", tag)) if tag.contains("-devel") => {
            let toolkit = tag.split('.').take(2).collect::<Vec<_>>().join(".");
            branch.of_layers(&["debian", &format!("toolkit-{toolkit}")])
        }
        Some(("nvidia/cuda" | "busybox" | "debian", _)) => branch.of_layers(&["debian"]),
        _ => branch,
    }
}

/// Runs the collected commands as one layer.
fn run(image: &mut Image, commands: &mut Vec<String>, log: &mut String) -> Result<(), String> {
    if commands.is_empty() {
        return Ok(());
    }
    let words = ["/bin/sh", "-ec", EACH, "sh"].map(str::to_owned).into_iter();
    let words: Vec<String> = words.chain(commands.drain(..)).collect();
    let mut start = as_root(image.start.env.clone());
    start
        .env
        .extend(STAND_INS.map(|(name, value)| (name.to_owned(), value.to_owned())));
    let output = image.add(&start, &words);
    let _ = writeln!(log, "{}{}", said(&output), output.status);
    if output.status.success() {
        Ok(())
    } else {
        Err("a command fails".to_owned())
    }
}

fn set(image: &mut Image, pairs: &str) {
    for pair in shlex::split(pairs).unwrap() {
        let (name, value) = pair.split_once('=').unwrap();
        let before = image.start.env.get(name).cloned().unwrap_or_default();
        let value = value.replace(&format!("${{{name}}}"), &before);
        image.start.env.insert(name.to_owned(), value);
    }
}

/// The instructions of a Dockerfile, without comments and with continued lines joined.
pub fn instructions(text: &str) -> Vec<String> {
    let mut instructions = Vec::new();
    let mut lines = text
        .lines()
        .filter(|line| !line.trim_start().starts_with('#') && !line.trim().is_empty());
    while let Some(line) = lines.next() {
        let mut instruction = line.to_owned();
        while let Some(more) = instruction.strip_suffix('\\') {
            instruction = format!("{more}{}", lines.next().unwrap_or_default());
        }
        instructions.push(instruction);
    }
    instructions
}
