//! Whether the container's own command starts.

use super::consumers::CuptiConsumer;
use super::entry_environment::StartedBefore;
use super::entry_problem::EntryProblem;
use super::process_context::ProcessContext;
use super::python::is_interpreter_name;
use super::resolved_objects::elf_at;
use super::start_failure::{StartFailure, permission_cure};
use image_linkage::elf::ElfFacts;
use image_linkage::path::RootPath;
use image_linkage::rootfs::{FileCredentials, FileUse};

/// Why the container's command does not start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandFailure {
    /// The words of the engine, the kernel or the loader.
    pub words: String,
    /// What is to be done about it.
    pub cure: String,
    /// Whether it is so for sure: what is not in the image may be mounted when the container starts.
    pub is_sure: bool,
    /// The program or script, where the image has it.
    pub program: Option<RootPath>,
}

/// Why the command does not start; `None` where nothing shows that, and where a program that asks for the library tells.
pub(super) fn find_command_failure(context: &ProcessContext, consumers: &[CuptiConsumer]) -> Option<CommandFailure> {
    let entry = &context.entry;
    if let Some(absent) = &entry.absent {
        return Some(CommandFailure {
            words: format!("{absent}, unless it is mounted when the container starts"),
            cure: "put it into the image, or see that it is mounted before the container starts".to_owned(),
            is_sure: false,
            program: None,
        });
    }
    let program = entry.executable.clone();
    let is_told = |consumer: &&CuptiConsumer| consumer.program == program && consumer.start_failure().is_some();
    if program.is_some() && consumers.iter().any(|consumer| is_told(&consumer)) {
        return None;
    }
    // Who starts the container may give a script what it ends for want of.
    let ends = matches!(entry.problem, Some(EntryProblem::EndsBefore(..)));
    let (words, cure) = if ends {
        let given = "give it what it asks for, in the image or when the container starts";
        (entry.problem.as_ref()?.failure()?, given.to_owned())
    } else if let Some(problem) = &entry.problem {
        let ways = [FileUse::Execute, FileUse::Read];
        let cure = program.iter().find_map(|path| permission_cure(context, path, &ways));
        let mend = || "mend the file that is named, or let the command name another one".to_owned();
        (problem.failure()?, cure.unwrap_or_else(mend))
    } else {
        if let Some((failure, path)) = launcher_failure(context) {
            return Some(CommandFailure {
                words: failure.words,
                cure: failure.cure,
                is_sure: true,
                program: Some(path),
            });
        }
        let path = program.as_ref()?;
        // What only a run could tell of the search paths may lead to what is missing.
        let is_known = entry.unknown.is_empty() && elf_at(&context.rootfs, path).is_some_and(starts);
        let failure = missing_module(context, path)
            .or_else(|| StartFailure::of_machine(context, path))
            .or_else(|| StartFailure::of_program(context, path).filter(|_| is_known))?;
        (failure.words, failure.cure)
    };
    Some(CommandFailure {
        words,
        cure,
        is_sure: !ends,
        program,
    })
}

/// What keeps a shell or a launcher from starting that is to start the program, and which.
fn launcher_failure(context: &ProcessContext) -> Option<(StartFailure, RootPath)> {
    let entry = &context.entry;
    let before = entry
        .started
        .iter()
        .filter(|started| entry.executable.as_ref() != Some(&started.path));
    let is_program = |started: &&StartedBefore| elf_at(&context.rootfs, &started.path).is_some_and(starts);
    before.filter(is_program).find_map(|started| {
        let text = |value: &Option<String>| value.as_ref().map(|value| value.as_bytes().into());
        let mut then = context.clone();
        then.environment.library_path = text(&started.library_path);
        then.environment.preload = text(&started.preload);
        if entry.user.is_some() {
            // Who takes on another user was root before, to whom no file is closed.
            then.user.credentials = FileCredentials::default();
        }
        let failure = StartFailure::of_program(&then, &started.path)?;
        Some((failure, started.path.clone()))
    })
}

/// What `python -m MODULE` does not find of its modules, or `python FOLDER` in its folder.
fn missing_module(context: &ProcessContext, program: &RootPath) -> Option<StartFailure> {
    let mut words = context.entry.program.iter().map(String::as_str);
    words
        .next()
        .filter(|name| is_interpreter_name(RootPath::from(*name).name()))?;
    let rootfs = &context.rootfs;
    let python = (program, context.entry.called.as_ref().unwrap_or(program));
    let module = loop {
        match words.next()? {
            "-m" => break words.next()?,
            "-W" | "-X" => drop(words.next()),
            word if word.starts_with("-m") => break word.get(2..)?,
            word if word.starts_with("-c") => return None,
            word if !word.starts_with('-') => {
                // Of a folder, Python runs what is in it (runpy, `run_path`).
                let path = context.path_in_working_dir(word.as_bytes());
                let main = [&path, &b"/__main__.py"[..]].concat();
                let is_folder = rootfs.file(&path).is_none() && rootfs.lookup(&path).is_ok();
                let lacks_main = is_folder && rootfs.lookup(&main).is_err();
                return lacks_main.then(|| StartFailure::of_import("can't find '__main__' module in a folder"));
            }
            _ => {}
        }
    };
    if context.python.lacks_module(rootfs, python, module) {
        return Some(StartFailure::of_import(&format!("No module named '{module}'")));
    }
    // A package is run by its module `__main__` (runpy, `_get_module_details`).
    let main = format!("{module}.__main__");
    let is_missing = context.python.lacks_module(rootfs, python, &main);
    is_missing.then(|| StartFailure::of_import(&format!("No module named '{main}'")))
}

/// Whether an object is started as a program; one that was cut off tells it by its interpreter alone.
fn starts(elf: &ElfFacts) -> bool {
    elf.is_program() || elf.interp.is_some()
}
