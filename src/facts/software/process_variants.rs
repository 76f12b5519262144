//! The ways in which an image's processes may start.
//!
//! A result that differs between them is uncertain. A result that no environment changes needs no assumption.

use std::collections::BTreeSet;

use container_start::{Assumption, Hole, Value};

use crate::facts::objects::command_entry::CommandEntry;
use crate::facts::objects::process_context::ProcessContext;
use crate::facts::objects::resolved_objects::elf_at;
use crate::facts::software::consumer_outcome::ConsumerOutcome;
use crate::facts::software::cupti_files::CuptiFiles;
use image_linkage::elf::ByteString;
use image_linkage::escape;
use image_linkage::loader::{SearchStage, SimulatedProcess};
use image_linkage::path::RootPath;

/// The other ways in which an image's processes may start.
#[derive(Debug, Default)]
pub(crate) struct ProcessVariants {
    /// Other environments of the command's programs, each with its cause.
    contexts: Vec<(ProcessContext, String)>,
    /// Environments in which the engine passes or mounts more than the image has, each with the index of its process.
    when_given: Vec<(usize, ProcessContext)>,
    /// The environment without any search path, and one with every copy on it, if the command needed assumptions.
    extremes: Vec<ProcessContext>,
    /// Why no process can be predicted, if so.
    never: Option<String>,
}

/// The basis of a result.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AnswerBasis {
    /// Whether a different environment would change it.
    pub environment: bool,
    /// The processes that would change it through variables or mounts of the run: indexes of
    /// `CommandReading::when_given`.
    pub given: BTreeSet<usize>,
}

impl AnswerBasis {
    /// Combines the bases of two results.
    pub(crate) fn or(self, other: &Self) -> Self {
        Self {
            environment: self.environment || other.environment,
            given: &self.given | &other.given,
        }
    }
}

/// A result in the other environments.
#[derive(Debug, Default)]
pub(crate) struct VariantAnswer {
    /// Why it is uncertain.
    pub open: Option<String>,
    /// Why the copy is uncertain, if it certainly gets one.
    pub other_copies: Option<String>,
    pub basis: AnswerBasis,
}

/// The maximum number of directories to put on a search path.
const FOLDERS: usize = 16;

impl ProcessVariants {
    /// The variants of a context, with the locations of the library.
    pub(crate) fn new(context: &ProcessContext, found: &CuptiFiles) -> Self {
        let mut variants = Self {
            // Without a copy in the image, nothing can change the result.
            never: if found.files.is_empty() {
                None
            } else {
                own_dlopen(context)
            },
            ..Self::default()
        };
        let files = found.files.iter().take(FOLDERS).map(|(file, _)| file);
        let folders: BTreeSet<Vec<u8>> = files.clone().map(|file| file.parent().absolute()).collect();
        let rich = Vec::from_iter(folders).join(&b':');
        for entry in context.commands.entries.iter().skip(1) {
            let variant = context.with_entry(entry);
            variants.contexts.push((
                variant,
                branch_words(entry.branches.last().map(|branch| branch.place.as_str())),
            ));
        }
        let rich_text = String::from_utf8_lossy(&rich).into_owned();
        let unknown = context
            .commands
            .entries
            .iter()
            .filter(|entry| !entry.unknown.is_empty());
        for entry in unknown {
            let why = entry
                .first_hole()
                .map_or_else(String::new, |(name, hole)| hole_words(name, hole));
            for filled in filled_entries(entry, &rich_text) {
                variants.contexts.push((context.with_entry(&filled), why.clone()));
            }
        }
        if let Some(place) = &context.commands.start.ldconfig {
            variants
                .contexts
                .push((context.with_own_cache(), format!("{place} runs ldconfig")));
            if context.commands.changes_configuration() {
                let mut all_found = context.clone();
                all_found.environment.library_path = Some(ByteString::from(rich.clone()));
                let why = format!("{place} runs ldconfig with a configuration of its own");
                variants.contexts.push((all_found, why));
            }
        }
        for (at, entry) in context.commands.when_given.iter().enumerate() {
            let filled = filled_entries(entry, &rich_text);
            let given = filled.iter().map(|entry| (at, context.with_entry(entry)));
            variants.when_given.extend(given);
        }
        if !context.commands.assumptions().is_empty() {
            variants.extremes = [None, Some(ByteString::from(rich))]
                .into_iter()
                .map(|library_path| {
                    let mut variant = context.clone();
                    variant.environment.library_path = library_path;
                    variant.environment.preload = None;
                    variant
                })
                .collect();
        }
        variants
    }

    /// Checks a program's outcome in the variants.
    pub(crate) fn judge_outcome(
        &self,
        outcome: &ConsumerOutcome,
        ask: impl Fn(&ProcessContext) -> ConsumerOutcome,
    ) -> VariantAnswer {
        let (is_loaded, copy) = (outcome.answer.is_loaded(), outcome.answer.real_path());
        let mut answer = VariantAnswer {
            open: self.find_doubt(|context| ask(context).answer.is_loaded() != is_loaded),
            other_copies: None,
            basis: self.find_basis(|context| ask(context).answer.real_path() != copy),
        };
        // If the process fails to start in every variant, the result is certain.
        if outcome.start_failure.is_some() && self.contexts.is_empty() {
            answer.open = None;
        }
        if answer.open.is_none() && is_loaded {
            let other = self.find_other(|context| ask(context).answer.real_path() != copy);
            answer.other_copies = other.map(|why| format!("which copy it gets is not known: {why}"));
        }
        answer
    }

    /// Checks a result in the variants.
    pub(crate) fn judge(&self, is_so: bool, ask: impl Fn(&ProcessContext) -> bool) -> VariantAnswer {
        VariantAnswer {
            open: self.find_doubt(|context| ask(context) != is_so),
            other_copies: None,
            basis: self.find_basis(|context| ask(context) != is_so),
        }
    }

    /// Why a result is uncertain, if it differs in some context.
    fn find_doubt(&self, differs: impl Fn(&ProcessContext) -> bool) -> Option<String> {
        self.never.clone().or_else(|| self.find_other(differs).cloned())
    }

    /// The cause of the first context in which a result differs.
    fn find_other(&self, differs: impl Fn(&ProcessContext) -> bool) -> Option<&String> {
        let mut contexts = self.contexts.iter();
        contexts.find(|(context, _)| differs(context)).map(|(_, why)| why)
    }

    /// What a result rests on, if it differs in some context.
    fn find_basis(&self, differs: impl Fn(&ProcessContext) -> bool) -> AnswerBasis {
        let given = self.when_given.iter().filter(|(_, context)| differs(context));
        AnswerBasis {
            environment: self.extremes.iter().any(&differs),
            given: given.map(|(at, _)| *at).collect(),
        }
    }
}

/// The process with unknown values replaced by either extreme: nothing, or every directory with a copy.
fn filled_entries(entry: &CommandEntry, rich: &str) -> Vec<CommandEntry> {
    if entry.unknown.is_empty() {
        return vec![entry.clone()];
    }
    let mut extremes = Vec::new();
    for text in ["", rich] {
        let mut filled = entry.clone();
        for (name, value) in &entry.unknown {
            filled.variables.insert((*name).to_owned(), fill_elements(value, text));
        }
        extremes.push(filled);
    }
    extremes
}

/// A directory list with its unknown elements replaced entirely by `by`, because links may lead anywhere.
fn fill_elements(value: &Value, by: &str) -> String {
    let mark = "\0";
    let text = value.filled(mark);
    let elements = text
        .split(':')
        .map(|element| if element.contains(mark) { by } else { element });
    elements.collect::<Vec<_>>().join(":")
}

/// The condition that decides.
fn branch_words(place: Option<&str>) -> String {
    match place {
        Some(place) => format!("it depends on the condition in {place}"),
        None => "the programs that the command starts have different environments".to_owned(),
    }
}

/// The unknown part of a variable.
fn hole_words(name: &str, hole: &Hole) -> String {
    let Hole { place, reason } = hole;
    escape::escape_bytes(format!("{place} sets {name} to a value that is known only at run time ({reason})").as_bytes())
}

/// The assumptions that the command does not change files of the library or of the loader.
pub(crate) fn file_assumptions(context: &ProcessContext, found: &CuptiFiles) -> Vec<Assumption> {
    let mut assumptions = Vec::new();
    for change in &context.commands.start.changed_files {
        let changed = RootPath::new(change.path.as_bytes()).absolute();
        let is_of_loader = change.path.starts_with("/etc/ld.so") && !found.files.is_empty();
        if is_of_loader || found.files.iter().any(|(file, _)| is_at_or_below(file, &changed)) {
            let id = format!("files:{}@{}", change.path, change.place);
            let text = format!("what is done to {} changes no library", change.path);
            assumptions.push(Assumption::at(id, &change.place, text));
        }
    }
    assumptions
}

fn is_at_or_below(file: &RootPath, path: &[u8]) -> bool {
    let file = file.absolute();
    let rest = file.strip_prefix(path);
    path == b"/" || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

/// A preloaded object that defines dlopen, whose behaviour is unknown.
fn own_dlopen(context: &ProcessContext) -> Option<String> {
    let started = context.with_setup(|setup| SimulatedProcess::new(setup).start_unknown())?;
    let object = started.objects.iter().find(|object| {
        let elf = elf_at(&context.rootfs, &object.real_path);
        let symbols = elf.and_then(|elf| elf.link_symbols.as_deref());
        object.how == SearchStage::Preload && symbols.is_some_and(|symbols| symbols.defines(b"dlopen"))
    })?;
    Some(format!(
        "{}, which is preloaded, has a dlopen of its own",
        object.real_path
    ))
}
