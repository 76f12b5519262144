//! Finds the parts of profiling tools in an image: Python distributions, programs, libraries and settings.

use std::collections::{BTreeMap, BTreeSet};

use crate::facts::ImageFacts;
use crate::knowledge::{Profiler, ToolCondition, matches_name_pattern};
use image_linkage::path::RootPath;
use image_linkage::rootfs::{NodeKind, Rootfs};
use python_path::DEFAULT_PATH;

/// The parts found for a list of profilers, with their locations.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InstalledTools {
    /// ELF objects by the requested name or pattern, by path.
    pub objects: BTreeMap<String, Vec<RootPath>>,
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

/// The maximum number of objects to remember under one name. An image has few installations of a tool.
const ALIKE: usize = 16;

impl InstalledTools {
    /// The first object that meets the condition: beside an object of another name, if the condition names one.
    pub fn object(&self, condition: &ToolCondition) -> Option<&RootPath> {
        let found = |name: &String| self.objects.get(name).into_iter().flatten();
        let is_placed = |path: &&RootPath| {
            let beside = condition.beside.as_ref();
            beside.is_none_or(|name| found(name).any(|other| is_of_installation(path, other)))
        };
        condition.objects.iter().flat_map(found).find(is_placed)
    }
}

/// Whether two files are in the same folder, or in folders next to each other.
fn is_of_installation(path: &RootPath, other: &RootPath) -> bool {
    let (folder, others) = (path.parent(), other.parent());
    folder == others || folder.parent() == others.parent()
}

/// Looks for the parts that `profilers` name. `over` overrides variables of the image config.
pub fn find_installed_tools(facts: &ImageFacts, profilers: &[Profiler], over: &[(String, String)]) -> InstalledTools {
    let rootfs = &facts.contexts.as_is.rootfs;
    let environment: BTreeMap<String, String> =
        // Later pairs win, as with `--env` over the image config.
        facts.image.config.env.iter().chain(over).cloned().collect();
    let conditions: Vec<&ToolCondition> = profilers
        .iter()
        .flat_map(|profiler| profiler.profile.applies.iter().chain(&profiler.profile.needs))
        .collect();
    let mut tools = InstalledTools {
        distributions: facts
            .related
            .distributions
            .iter()
            .map(|distribution| (distribution.name.clone(), distribution.version.clone()))
            .collect(),
        ..InstalledTools::default()
    };
    let path = environment.get("PATH").map_or(DEFAULT_PATH, String::as_str);
    // A program elsewhere has to be called by its path, so PATH comes first.
    for name in conditions.iter().flat_map(|condition| &condition.executables) {
        // A relative element depends on the shell's working directory, which no image shows.
        let mut folders = path.split(':').filter(|folder| folder.starts_with('/'));
        if let Some(path) = folders.find_map(|folder| program(rootfs, folder, name)) {
            let place = ProgramPlace::Path;
            tools.executables.insert(name.clone(), ToolProgram { path, place });
        }
    }
    add_files(facts, &conditions, &mut tools);
    tools.environment = environment;
    tools
}

/// Adds the objects by the requested name or pattern, and the programs in any folder.
fn add_files(facts: &ImageFacts, conditions: &[&ToolCondition], tools: &mut InstalledTools) {
    let objects: BTreeSet<&String> = conditions
        .iter()
        .flat_map(|condition| condition.objects.iter().chain(&condition.beside))
        .collect();
    let programs = conditions.iter().flat_map(|condition| &condition.executables);
    let executables: BTreeSet<&str> = programs.map(String::as_str).collect();
    facts.contexts.as_is.rootfs.visit(|path, _, node| {
        let NodeKind::File(file) = &node.kind else { return };
        if facts.related.unused_packages.contain(path) {
            return;
        }
        let named = objects
            .iter()
            .filter(|pattern| file.elf.is_some() && matches_name_pattern(path.name(), pattern));
        for pattern in named {
            let found = tools.objects.entry((*pattern).clone()).or_default();
            if found.len() < ALIKE {
                found.push(path.clone());
            }
        }
        if file.mode & 0o111 != 0
            && let Ok(name) = std::str::from_utf8(path.name())
            && executables.contains(name)
        {
            tools.executables.entry(name.to_owned()).or_insert_with(|| ToolProgram {
                path: path.clone(),
                place: ProgramPlace::Folder,
            });
        }
    });
}

/// The program `name` in a folder: a file with any execute bit.
fn program(rootfs: &Rootfs, folder: &str, name: &str) -> Option<RootPath> {
    let found = rootfs.lookup(format!("{folder}/{name}").as_bytes()).ok()?;
    match &rootfs.node(found.node).kind {
        NodeKind::File(facts) if facts.mode & 0o111 != 0 => Some(found.path),
        _ => None,
    }
}
