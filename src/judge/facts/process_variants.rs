//! The ways in which the processes of an image may start, where what its command makes of the environment is not
//! known: an outcome that is not the same in all of them can be told by a run alone.

use super::consumer_outcome::ConsumerOutcome;
use super::cupti_files::CuptiFiles;
use super::entry_environment::{CacheChange, FileChange, WorkingDirectory};
use super::process_context::ProcessContext;
use super::resolved_objects::elf_at;
use crate::knowledge::file_interest::EXECUTES;
use image_linkage::elf::ByteString;
use image_linkage::escape;
use image_linkage::loader::{LoadedObject, RequestOutcome, SearchStage, SimulatedProcess};
use image_linkage::path::RootPath;
use std::collections::BTreeSet;

/// How else the processes of an image may start.
#[derive(Debug, Default)]
pub(super) struct ProcessVariants {
    /// The image as it is with other environments.
    pub contexts: Vec<ProcessContext>,
    /// What decides which of them it is, in words.
    why: String,
    /// Why none of them starts, or none in this root, if that is known.
    never: Option<String>,
    /// The program that is started as it is known, and starts others as it likes.
    launcher: Option<RootPath>,
    /// Whether one of those may be itself.
    may_restart: bool,
}

/// The folders that are put on a search path, or may be the working directory.
const FOLDERS: usize = 16;

impl ProcessVariants {
    /// The variants of a context, by the places of the library.
    pub(super) fn new(context: &ProcessContext, found: &CuptiFiles) -> Self {
        let entry = &context.entry;
        let never = entry
            .problem
            .as_ref()
            .map(ToString::to_string)
            .or_else(|| entry.doubt.clone());
        let never = never
            .or_else(|| changed_file(context, found))
            .or_else(|| own_dlopen(context));
        let is_unknown = |name: &str| entry.unknown.iter().any(|unknown| unknown == name);
        let unknown = ["LD_LIBRARY_PATH", "LD_PRELOAD"].map(is_unknown);
        let is_lost = entry.working_dir == WorkingDirectory::Unknown;
        let is_remade = entry.cache == CacheChange::Unknown;
        let what: Vec<&str> = [
            unknown.first().filter(|unknown| **unknown).map(|_| "LD_LIBRARY_PATH"),
            unknown.last().filter(|unknown| **unknown).map(|_| "LD_PRELOAD"),
            is_lost.then_some("the working directory"),
            is_remade.then_some("ld.so.cache"),
        ]
        .into_iter()
        .flatten()
        .collect();
        let by = entry.by.as_deref().unwrap_or("the container's command");
        let why = format!("it depends on {}, which {by} may set at run time", what.join(", "));
        let mut variants = Self {
            contexts: Vec::new(),
            why,
            never,
            may_restart: entry.launcher.as_ref().is_some_and(|path| executes(context, path)),
            launcher: entry.launcher.clone(),
        };
        if unknown.contains(&true) {
            variants.add_environments(context, found, unknown);
        } else if is_remade {
            // What ldconfig may find anywhere, a search path that leads to every copy finds as well.
            variants.add_environments(context, found, [true, false]);
        }
        if is_lost {
            variants.add_directories(context, found);
        }
        // Each program is asked in each of them.
        if found.askers.len() > MANY {
            variants.contexts.truncate(2);
        }
        variants
    }

    /// The poorest environment, and the one that leads to every copy.
    fn add_environments(&mut self, context: &ProcessContext, found: &CuptiFiles, [path, preload]: [bool; 2]) {
        let files = found.files.iter().take(FOLDERS).map(|(file, _)| file);
        let folders: BTreeSet<Vec<u8>> = files.clone().map(|file| file.parent().absolute()).collect();
        let folders: Vec<Vec<u8>> = folders.into_iter().collect();
        let files: Vec<Vec<u8>> = files.map(RootPath::absolute).collect();
        for lists in [None, Some([folders, files])] {
            let mut variant = context.clone();
            let joined = |at: usize| {
                let list = lists.as_ref()?.get(at)?;
                Some(ByteString::from(list.join(&b':')))
            };
            if path {
                variant.environment.library_path = joined(0);
            }
            if preload {
                variant.environment.preload = joined(1);
            }
            self.contexts.push(variant);
        }
    }

    /// A working directory in which nothing lies, and those above each copy.
    fn add_directories(&mut self, context: &ProcessContext, found: &CuptiFiles) {
        let mut folders: BTreeSet<Vec<u8>> = BTreeSet::from([b"/proc".to_vec()]);
        for (file, _) in found.files.iter().take(FOLDERS) {
            let mut folder = file.parent();
            while !folder.as_bytes().is_empty() && folders.len() < FOLDERS {
                folders.insert(folder.absolute());
                folder = folder.parent();
            }
        }
        self.contexts.extend(folders.into_iter().map(|folder| {
            let mut variant = context.clone();
            variant.environment.working_dir = folder.into();
            variant
        }));
    }

    /// Why only a run could tell whether a program gets the library, and else which copy; nothing where it is the same
    /// in all variants.
    pub(super) fn open_reasons(
        &self,
        object: &RootPath,
        gets: &ConsumerOutcome,
        ask: impl Fn(&ProcessContext) -> ConsumerOutcome,
    ) -> (Option<String>, Option<String>) {
        let is_loaded = |gets: &ConsumerOutcome| gets.outcome == RequestOutcome::Loaded;
        let is_known = self.launcher.as_ref() == Some(object) && (is_loaded(gets) || !self.may_restart);
        let contexts = self.contexts.iter().filter(|_| !is_known);
        let others: Vec<ConsumerOutcome> = contexts.map(ask).collect();
        let differs = others.iter().any(|other| is_loaded(other) != is_loaded(gets));
        // Who does not start in any of them is lost, whoever starts it.
        let never = self.never.clone().filter(|_| gets.start_failure.is_none());
        let open = never.or_else(|| differs.then(|| self.why.clone()));
        let is_other = |other: &ConsumerOutcome| other.real_path != gets.real_path;
        let which = open.is_none() && is_loaded(gets) && others.iter().any(is_other);
        (
            open,
            which.then(|| format!("which copy it gets is not known: {}", self.why)),
        )
    }

    /// Why only a run could tell whether something is so.
    pub(super) fn difference(&self, is_so: bool, ask: impl Fn(&ProcessContext) -> bool) -> Option<String> {
        if let Some(never) = &self.never {
            return Some(never.clone());
        }
        let mut contexts = self.contexts.iter();
        contexts.any(|context| ask(context) != is_so).then(|| self.why.clone())
    }
}

/// Whether a program takes another in its own place (exec(3)).
fn executes(context: &ProcessContext, program: &RootPath) -> bool {
    let mut symbols = elf_at(&context.rootfs, program)
        .into_iter()
        .flat_map(|elf| &elf.symbols);
    symbols.any(|symbol| EXECUTES.iter().any(|name| name.as_bytes() == &*symbol.name))
}

/// A script that removes or replaces a copy, its folder or one that is searched, or lets others read what they may not.
fn changed_file(context: &ProcessContext, found: &CuptiFiles) -> Option<String> {
    let files = found.files.iter().map(|(file, _)| file);
    let is_of_files = |path: &str, is_content: bool| {
        let real = context.rootfs.lookup(path.as_bytes()).ok();
        let real = real.and_then(|found| String::from_utf8(found.path.absolute()).ok());
        let paths = [Some(path.to_owned()), real].into_iter().flatten();
        let covers = |path: String, file: &RootPath| {
            let change = FileChange { path, is_content };
            let is_above = String::from_utf8(file.absolute()).is_ok_and(|file| change.covers(&file));
            is_above && (is_content || context.is_unreadable(file))
        };
        let mut paths = paths;
        paths.any(|path| files.clone().any(|file| covers(path.clone(), file)))
    };
    let folders = context.environment.library_path.as_deref().unwrap_or_default();
    let is_searched = |change: &FileChange| {
        let mut folders = folders.split(|byte| *byte == b':');
        folders.any(|folder| str::from_utf8(folder).is_ok_and(|folder| !folder.is_empty() && change.covers(folder)))
    };
    // Under the begin of its name, another of its versions may be put anywhere.
    let stem = files
        .clone()
        .next()
        .and_then(|file| str::from_utf8(file.name()).ok()?.split('.').next());
    let is_named = |change: &FileChange| {
        let name = change.path.rsplit('/').next().unwrap_or_default();
        stem.is_some_and(|stem| name.starts_with(stem))
    };
    let mut changes = context.entry.changes.iter();
    let change = changes.find(|change| {
        is_of_files(&change.path, change.is_content) || change.is_content && (is_searched(change) || is_named(change))
    })?;
    let path = escape::escape_bytes(change.path.as_bytes());
    Some(format!(
        "the container's command changes {path} before it starts its program"
    ))
}

/// A preloaded object that stands in for dlopen: what that does nobody knows.
fn own_dlopen(context: &ProcessContext) -> Option<String> {
    let started = context.with_setup(|setup| SimulatedProcess::new(setup).start_unknown())?;
    let stands_in = |object: &&LoadedObject| {
        let elf = elf_at(&context.rootfs, &object.real_path);
        let symbols = elf.and_then(|elf| elf.link_symbols.as_deref());
        object.how == SearchStage::Preload && symbols.is_some_and(|symbols| symbols.defines(b"dlopen"))
    };
    let object = started.objects.iter().find(stands_in)?;
    Some(format!(
        "{}, which is preloaded, has a dlopen of its own",
        object.real_path
    ))
}

/// The programs from which on an image has many.
const MANY: usize = 100;
