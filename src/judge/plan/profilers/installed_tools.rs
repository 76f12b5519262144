//! Finds the parts of profiling tools in an image: Python distributions, programs, libraries and settings.

use std::collections::{BTreeMap, BTreeSet};

use crate::facts::ImageFacts;
use crate::knowledge::{Profiler, ToolCondition, matches_name_pattern};
use image_linkage::path::RootPath;
use image_linkage::rootfs::{NodeId, NodeKind, Rootfs};
use python_path::DEFAULT_PATH;

/// The parts found for a list of profilers, with their locations.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InstalledTools {
    /// ELF objects by the requested name or pattern; the first by path wins.
    pub objects: BTreeMap<String, RootPath>,
    /// Python distributions and their versions, by normalized name.
    pub distributions: BTreeMap<String, String>,
    /// Programs by the requested name.
    pub executables: BTreeMap<String, ToolProgram>,
    /// The environment of the process.
    pub environment: BTreeMap<String, String>,
}

/// A program in the image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolProgram {
    /// The file, with links resolved.
    pub path: RootPath,
    /// The kind of folder it is in.
    pub place: ProgramPlace,
}

/// The kind of folder a program is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramPlace {
    /// A folder on the image's `PATH`.
    Path,
    /// Another folder.
    Folder,
}

/// Looks for the parts that `profilers` name. `over` overrides variables of the image config.
pub fn find_installed_tools(facts: &ImageFacts, profilers: &[Profiler], over: &[(String, String)]) -> InstalledTools {
    let rootfs = &facts.contexts.as_is.rootfs;
    let environment: BTreeMap<String, String> =
        // Later pairs win, as with `--env` over the image config.
        facts.image.config.env.iter().chain(over).cloned().collect();
    let conditions = || {
        profilers
            .iter()
            .flat_map(|profiler| profiler.profile.applies.iter().chain(&profiler.profile.needs))
    };
    let path = environment.get("PATH").map_or(DEFAULT_PATH, String::as_str);
    let distributions = facts
        .related
        .distributions
        .iter()
        .map(|distribution| (distribution.name.clone(), distribution.version.clone()))
        .collect();
    InstalledTools {
        objects: objects(rootfs, conditions()),
        distributions,
        executables: conditions()
            .flat_map(|condition| executables(rootfs, path, condition))
            .collect(),
        environment,
    }
}

/// The objects by the requested name or pattern.
fn objects<'c>(rootfs: &Rootfs, conditions: impl Iterator<Item = &'c ToolCondition>) -> BTreeMap<String, RootPath> {
    let wanted: BTreeSet<&String> = conditions.flat_map(|condition| &condition.objects).collect();
    let mut objects = BTreeMap::new();
    rootfs.visit(|path, _, node| {
        let is_object = matches!(&node.kind, NodeKind::File(facts) if facts.elf.is_some());
        let named = wanted
            .iter()
            .filter(|pattern| is_object && matches_name_pattern(path.name(), pattern));
        for pattern in named {
            objects.entry((*pattern).clone()).or_insert_with(|| path.clone());
        }
    });
    objects
}

fn executables(rootfs: &Rootfs, path: &str, condition: &ToolCondition) -> Vec<(String, ToolProgram)> {
    // A relative element depends on the shell's working directory, which no image shows.
    let on_path = path.split(':').filter(|folder| folder.starts_with('/'));
    let on_path: Vec<Vec<u8>> = on_path.map(|folder| folder.as_bytes().to_vec()).collect();
    let folders: Vec<Vec<u8>> = condition
        .folders
        .iter()
        .flat_map(|pattern| matching(rootfs, pattern))
        .collect();
    // PATH comes first, because a program elsewhere has to be called by its path.
    let places = [(ProgramPlace::Path, on_path), (ProgramPlace::Folder, folders)];
    let locate = |name: &String| {
        places.iter().find_map(|(place, folders)| {
            let path = folders.iter().find_map(|folder| program(rootfs, folder, name))?;
            let place = *place;
            Some((name.clone(), ToolProgram { path, place }))
        })
    };
    condition.executables.iter().filter_map(locate).collect()
}

/// The program `name` in a folder: a file with any execute bit.
fn program(rootfs: &Rootfs, folder: &[u8], name: &str) -> Option<RootPath> {
    let found = rootfs.lookup(&[folder, b"/", name.as_bytes()].concat()).ok()?;
    match &rootfs.node(found.node).kind {
        NodeKind::File(facts) if facts.mode & 0o111 != 0 => Some(found.path),
        _ => None,
    }
}

/// The folders that match a pattern.
fn matching(rootfs: &Rootfs, pattern: &str) -> Vec<Vec<u8>> {
    let mut folders = vec![Vec::new()];
    for part in pattern.split('/').filter(|part| !part.is_empty()) {
        let below = |folder: &Vec<u8>| -> Vec<Vec<u8>> {
            let child = |name: &[u8]| [folder, &b"/"[..], name].concat();
            // Patterns come from profiles, never from the image, and have a `*` only at the end of a component.
            if part.ends_with('*') {
                names(rootfs, folder)
                    .filter(|name| matches_name_pattern(name, part))
                    .map(child)
                    .collect()
            } else {
                vec![child(part.as_bytes())]
            }
        };
        folders = folders.iter().flat_map(below).collect();
    }
    folders
}

fn names<'r>(rootfs: &'r Rootfs, folder: &[u8]) -> impl Iterator<Item = &'r [u8]> + use<'r> {
    let node: Option<NodeId> = rootfs
        // An empty path means the root.
        .lookup(&[folder, b"/"].concat())
        .ok()
        .map(|found| found.node);
    node.into_iter()
        .flat_map(|node| rootfs.children(node))
        .map(|(name, _)| name)
}
