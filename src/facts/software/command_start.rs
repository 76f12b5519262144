//! Predicts whether the first program of the container's command starts, where that is certain before any code runs.

use crate::facts::objects::process_context::ProcessContext;
use crate::facts::objects::resolved_objects::elf_at;
use crate::facts::objects::start_failure::{FailureCure, StartFailure, permission_cure};
use crate::facts::software::consumers::CuptiConsumer;
use crate::facts::software::file_owner::installed_deb_of;
use container_start::Value;
use image_linkage::elf::{ElfFacts, ElfProblem};
use image_linkage::escape;
use image_linkage::path::RootPath;
use image_linkage::rootfs::{FileUse, LookupError, NodeKind, Rootfs};
use image_source::ImageConfig;
use python_path::{DEFAULT_PATH, closed_to_import, is_interpreter_name};
use std::iter;

/// Why the container's command does not start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandFailure {
    /// The message of the engine, the kernel or the loader.
    pub words: String,
    /// The fix.
    pub cure: FailureCure,
    /// The program or script, if the image has it.
    pub program: Option<RootPath>,
    /// The program or interpreter that the image lacks; a bare name was not found on `PATH`.
    pub missing: Option<RootPath>,
    /// The installed dpkg package that lists the missing file.
    pub package: Option<String>,
}

impl CommandFailure {
    /// Sets the missing file and its places: paths that are not in the image, or dangling links.
    fn without(self, path: &[u8], rootfs: &Rootfs, mut places: impl Iterator<Item = Vec<u8>>) -> Self {
        let package = places.find_map(|place| {
            let file = rootfs.missing_target(&place).unwrap_or_else(|| RootPath::new(&place));
            installed_deb_of(rootfs, &file)
        });
        Self {
            missing: Some(RootPath::new(path)),
            package,
            ..self
        }
    }

    /// Whether this failure explains why a consumer gets nothing: its own program does not start, or the image lacks
    /// its Python.
    pub(crate) fn ends(&self, consumer: &CuptiConsumer) -> bool {
        let python = self.missing.as_ref().filter(|path| is_interpreter_name(path.name()));
        // A package is below the prefix of its Python: `/opt/venv` for `/opt/venv/bin/python3`.
        let prefix = python.map(|path| path.parent().parent().absolute());
        let object = consumer.object.absolute();
        let is_below = prefix.is_some_and(|prefix| {
            let rest = object.strip_prefix(prefix.strip_suffix(b"/").unwrap_or(&prefix));
            rest.is_some_and(|rest| rest.starts_with(b"/"))
        });
        let is_lost = consumer.has_no_python() && is_below;
        is_lost || self.ends_program_of(consumer)
    }

    fn ends_program_of(&self, consumer: &CuptiConsumer) -> bool {
        let is_of_program = self.program.is_some() && consumer.program == self.program;
        is_of_program && consumer.start_failure().is_some()
    }
}

/// The number of bytes from which the kernel detects a file's format (`BINPRM_BUF_SIZE`).
const FIRST_BLOCK: usize = 256;
/// The maximum depth of scripts that interpret each other (Linux fs/exec.c, `exec_binprm`).
const INTERPRETERS: usize = 5;
/// The kernel's limit for an argument or variable, in bytes with its NUL (Linux `MAX_ARG_STRLEN`).
const WORD: usize = 128 << 10;
/// Directories that an engine or a host fills when the container starts.
const FILLED: [&str; 8] = [
    "/proc",
    "/sys",
    "/dev",
    "/run",
    "/mnt",
    "/tmp",
    "/usr/local/nvidia",
    "/host",
];

/// Returns why the command does not start. `None` if no failure is certain, or if the finding of a consumer reports it.
pub(crate) fn find_command_failure<'c>(
    context: &ProcessContext,
    config: &ImageConfig,
    programs: impl Iterator<Item = &'c CuptiConsumer>,
) -> Option<CommandFailure> {
    let first = context.with_environment(&context.commands.environment);
    if let Some(refusal) = &first.user.refusal {
        return Some(CommandFailure {
            cure: "create it in the image, or name a user and group that the image has, or numbers".into(),
            ..plain_failure(refusal.clone(), None)
        });
    }
    let start = CommandStart {
        context: &first,
        config,
    };
    let programs: Vec<&CuptiConsumer> = programs.collect();
    let Some(failure) = start.failure().or_else(|| start.launcher_failure()) else {
        // The finding of a package that cannot be imported says more.
        let mut consumers = programs.iter();
        if consumers.any(|program| program.python.is_some() && program.start_failure().is_some()) {
            return None;
        }
        return start.script_failure();
    };
    let ended = programs.iter().filter(|consumer| {
        let program = consumer.program.as_ref();
        failure.ends_program_of(consumer) && program.is_some_and(|program| context.is_commands(program))
    });
    // The finding of a single consumer shows the loader's search. Several such findings would repeat each other.
    (ended.count() != 1).then_some(failure)
}

struct CommandStart<'c> {
    context: &'c ProcessContext,
    config: &'c ImageConfig,
}

impl CommandStart<'_> {
    fn failure(&self) -> Option<CommandFailure> {
        let mut name = self.config.command.first()?.clone();
        let mut variables = self.context.commands.environment.iter();
        if self.config.command.iter().any(|word| word.len() >= WORD)
            || variables.any(|(name, value)| name.len() + 1 + value.len() >= WORD)
        {
            return Some(plain_failure("argument list too long".to_owned(), None));
        }
        let (mut script, mut argument) = (None, None);
        for _ in 0..=INTERPRETERS {
            let path = match self.find(&name, script.as_ref()) {
                Ok(path) => path?,
                Err(failure) => return Some(*failure),
            };
            let file = self.context.rootfs.lookup(&path).ok()?;
            if let Some(failure) = self.refused(&path, &file.path) {
                return Some(failure);
            }
            if let Some(elf) = elf_at(&self.context.rootfs, &file.path) {
                // A truncated object still counts as a program if it names an interpreter.
                let failure = if elf.is_program() || elf.interp.is_some() {
                    StartFailure::of_program(self.context, &file.path)
                } else {
                    StartFailure::of_machine(self.context, &file.path)
                };
                if let Some(failure) = failure {
                    return Some(CommandFailure {
                        words: failure.words().to_owned(),
                        cure: failure.cure,
                        ..plain_failure(String::new(), Some(file.path))
                    });
                }
                // `env` starts the program that the first line of a script names next.
                name = argument.take().filter(|_| RootPath::new(&path).name() == b"env")?;
                continue;
            }
            if let Some(failure) = self.unreadable(&path, &file.path) {
                return Some(failure);
            }
            let content = self.context.rootfs.content(&path)?;
            (name, argument) = match interpreter(content, script.is_none()) {
                Ok(words) => words?,
                Err(why) => return Some(plain_failure(format!("{}: {why}", shown(&path)), Some(file.path))),
            };
            script = Some(path);
        }
        let why = "too many levels of symbolic links: scripts are each other's interpreters";
        Some(plain_failure(format!("{}: {why}", shown(&script?)), None))
    }

    /// Why a launcher in the image config, such as nsys or tini, finds no program.
    fn launcher_failure(&self) -> Option<CommandFailure> {
        let programs = &self.context.commands.start.programs;
        let [program] = programs.as_slice() else { return None };
        let words = program.words.iter().map(Value::text).collect::<Option<Vec<&str>>>()?;
        let own = self.config.command.iter().rev().map(String::as_str);
        if words.len() > self.config.command.len() || !words.iter().rev().copied().eq(own.take(words.len())) {
            return None;
        }
        let path = self.context.commands.environment.get("PATH").map(String::as_str);
        let has_own_path = program
            .environments
            .iter()
            .any(|environment| environment.variables.get("PATH").and_then(Value::text) != path);
        if program.path.is_some() || program.may_be_elsewhere || has_own_path || program.place != "config" {
            return None;
        }
        self.find(words.first()?, None).err().map(|failure| *failure)
    }

    /// The permission that a Python script in the image config lacks to be read, or to import its modules.
    fn script_failure(&self) -> Option<CommandFailure> {
        let (name, words) = self.config.command.split_first()?;
        let options = words.iter().take_while(|word| word.starts_with('-'));
        let takes_code = options.clone().any(|option| option.contains(['c', 'm']));
        let word = words.get(options.count())?.as_bytes();
        if takes_code || !word.ends_with(b".py") {
            return None;
        }
        let script = self.context.path_in_working_dir(word);
        let program = self.find(name, None).ok()??;
        let (rootfs, python) = (&self.context.rootfs, &self.context.python);
        let called = RootPath::new(&program);
        let executed = rootfs.lookup(&program).ok()?.path;
        let interpreter = python.interpreters().iter().find(|other| {
            other.program == executed && (other.path == called || other.path.parent() == called.parent())
        })?;
        let mut folders = python.folders(interpreter).map(|folder| folder.real_path.absolute());
        if self.is_filled(&script) || folders.any(|folder| self.is_filled(&folder)) {
            return None;
        }
        let file = rootfs.lookup(&script).ok()?.path;
        if let Some(failure) = self.unreadable(&script, &file) {
            return Some(failure);
        }
        let (site, why) = closed_to_import(python, interpreter, rootfs, &file)?;
        let why = format!("{why}: {} may not list {site}", self.context.user.credentials);
        Some(CommandFailure {
            cure: permission_cure(self.context, &site, &[FileUse::Execute, FileUse::Read])?,
            ..plain_failure(why, Some(file))
        })
    }

    /// The path of a program or interpreter; `None` if the engine or host may provide it.
    fn find(&self, name: &str, script: Option<&Vec<u8>>) -> Result<Option<Vec<u8>>, Box<CommandFailure>> {
        let rootfs = &self.context.rootfs;
        let shown_name = escape::escape_bytes(name.as_bytes());
        let path = if name.contains('/') {
            self.context.path_in_working_dir(name.as_bytes())
        } else {
            let path = self
                .context
                .commands
                .environment
                .get("PATH")
                .map_or(DEFAULT_PATH, String::as_str);
            let folders = path
                .split(':')
                .map(|folder| if folder.is_empty() { "." } else { folder });
            let places = folders.map(|folder| self.context.path_in_working_dir(format!("{folder}/{name}").as_bytes()));
            match places.clone().find(|place| rootfs.file(place).is_some()) {
                Some(path) => path,
                None if path.split(':').any(|folder| self.is_filled(folder.as_bytes())) => return Ok(None),
                None => {
                    let link = places
                        .clone()
                        .find_map(|place| self.dangling_link(&place))
                        .map(|link| format!(": {link}"))
                        .unwrap_or_default();
                    let words = format!("exec: \"{shown_name}\": executable file not found in $PATH{link}");
                    let failure = plain_failure(words, None).without(name.as_bytes(), rootfs, places);
                    return Err(Box::new(failure));
                }
            }
        };
        if self.is_filled(&path) {
            return Ok(None);
        }
        match (rootfs.lookup(&path), script) {
            (Ok(_) | Err(LookupError::Denied(_)), _) => Ok(Some(path)),
            (Err(_), Some(script)) => {
                let script = shown(script);
                let missing = format!("{shown_name} is not in the image");
                let link = self.dangling_link(&path).unwrap_or(missing);
                let why = format!("No such file or directory: its interpreter {link}");
                let program = rootfs.lookup(script.as_bytes()).ok().map(|found| found.path);
                let failure = plain_failure(format!("{script}: {why}"), program);
                Err(Box::new(failure.without(&path, rootfs, iter::once(path.clone()))))
            }
            (Err(error), None) => {
                let link = self
                    .dangling_link(&path)
                    .map_or_else(String::new, |link| format!(": {link}"));
                let failure = plain_failure(format!("exec: \"{shown_name}\": {error}{link}"), None);
                Err(Box::new(failure.without(&path, rootfs, iter::once(path.clone()))))
            }
        }
    }

    /// A dangling link and its target, in words.
    fn dangling_link(&self, path: &[u8]) -> Option<String> {
        let target = self.context.rootfs.missing_target(path)?;
        Some(format!(
            "{} is a link to {target}, which is not in the image",
            shown(path)
        ))
    }

    /// Whether an engine or a host may put files at a path: in one of its directories, or in a volume.
    fn is_filled(&self, path: &[u8]) -> bool {
        let path = RootPath::new(path).absolute();
        let volumes = self.config.settings.volumes.iter().map(String::as_str);
        let mut folders = FILLED.iter().copied().chain(volumes);
        folders.any(|folder| {
            let rest = path.strip_prefix(folder.trim_end_matches('/').as_bytes());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
        })
    }

    /// Why the interpreter of a script cannot read it.
    fn unreadable(&self, path: &[u8], file: &RootPath) -> Option<CommandFailure> {
        let opened = self
            .context
            .rootfs
            .open_as(path, &self.context.user.credentials, FileUse::Read);
        let Err(LookupError::Denied(denial)) = opened else {
            return None;
        };
        let cure = permission_cure(self.context, file, &[FileUse::Read])?;
        let words = format!("{}: its interpreter cannot read it: {denial}", shown(path));
        Some(CommandFailure {
            cure,
            ..plain_failure(words, Some(file.clone()))
        })
    }

    /// Why the kernel does not execute the file at a path.
    fn refused(&self, path: &[u8], file: &RootPath) -> Option<CommandFailure> {
        let rootfs = &self.context.rootfs;
        if let Err(LookupError::Denied(_)) = rootfs.open_as(path, &self.context.user.credentials, FileUse::Execute) {
            let cure = permission_cure(self.context, file, &[FileUse::Execute]);
            let failure = plain_failure(format!("{}: Permission denied", shown(path)), Some(file.clone()));
            return Some(CommandFailure {
                cure: cure.unwrap_or_else(|| failure.cure.clone()),
                ..failure
            });
        }
        let why = match &rootfs.node(rootfs.lookup(path).ok()?.node).kind {
            NodeKind::Directory(_) => "is a directory".to_owned(),
            NodeKind::File(facts) if facts.bytes == 0 => "exec format error: it is empty".to_owned(),
            NodeKind::File(facts) => format!("exec format error: {}", facts.elf.as_deref().and_then(object_fault)?),
            _ => return None,
        };
        Some(plain_failure(format!("{}: {why}", shown(path)), Some(file.clone())))
    }
}

/// The interpreter in a script's first line (Linux `fs/binfmt_script.c`), and the program that it starts if it is `env`.
/// `None` for a file without `#!` that a shell may still run.
fn interpreter(content: &[u8], is_first: bool) -> Result<Option<(String, Option<String>)>, &'static str> {
    let Some(line) = content.strip_prefix(b"#!") else {
        let why = "exec format error: its first line names no interpreter";
        return if is_first && !content.is_empty() {
            Err(why)
        } else {
            Ok(None)
        };
    };
    let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let begin = line.trim_ascii_start();
    let mut words = begin.split(|byte| b" \t".contains(byte));
    let name: &[u8] = words.next().unwrap_or_default();
    if line.len() - begin.len() + name.len() + 2 >= FIRST_BLOCK {
        return Err("exec format error: its first line is longer than the kernel reads");
    }
    if line.ends_with(b"\r") {
        return Err("No such file or directory: its first line ends in a carriage return");
    }
    let argument = words.find(|word| !word.is_empty()).and_then(text_of);
    // Options and variables of `env` are not followed.
    let followed = argument.filter(|word| !word.starts_with('-') && !word.contains('='));
    Ok(text_of(name).map(|name| (name, followed)))
}

fn text_of(word: &[u8]) -> Option<String> {
    let text = String::from_utf8(word.to_vec()).ok()?;
    Some(text).filter(|text| !text.is_empty())
}

/// Why the kernel does not accept an object as a program (Linux `fs/binfmt_elf.c`, `load_elf_binary`).
fn object_fault(elf: &ElfFacts) -> Option<&'static str> {
    let is_cut = elf.problems.iter().any(|problem| match problem {
        ElfProblem::Truncated { what, .. } => ["the header", "the program headers"].contains(what),
        _ => false,
    });
    match elf.kind {
        _ if is_cut => Some("the object is cut off"),
        EXECUTABLE | MOVABLE => None,
        _ => Some("the object is no program"),
    }
}

/// `ET_EXEC` and `ET_DYN`.
const EXECUTABLE: u16 = 2;
const MOVABLE: u16 = 3;

fn shown(path: &[u8]) -> String {
    escape::escape_bytes(path)
}

fn plain_failure(words: String, program: Option<RootPath>) -> CommandFailure {
    CommandFailure {
        words,
        cure: "put the named file into the image, or name another program in ENTRYPOINT or CMD".into(),
        program,
        missing: None,
        package: None,
    }
}
