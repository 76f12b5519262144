//! Reads the stages of a Dockerfile with their bases and steps, and expands the variables that it sets itself.

use std::ops::Range;

use super::builder_words::{Variables, assignments, fill_word, raw_words, unquote};
use super::instructions::{Instruction, SyntaxError, read_instructions};

/// A stage of a build.
#[derive(Debug)]
pub(super) struct BuildStage {
    /// Its name, or its number.
    pub name: String,
    /// The name of its base image.
    pub base: String,
    /// The number of its base stage.
    pub parent: Option<usize>,
    /// Its FROM.
    pub from: StepPlace,
    /// Whether the usual wheels are others or none there: on Arm, and with musl.
    pub has_other_wheels: bool,
    pub steps: Vec<BuildStep>,
    /// The variables of its ENV instructions, and of those of its base stages.
    environment: Variables,
    /// The program that reads its RUN instructions, and those of the stages that start from it, if it is no shell.
    foreign: Option<String>,
}

/// The position of an instruction.
#[derive(Debug, Clone)]
pub(super) struct StepPlace {
    pub span: Range<usize>,
    pub line: usize,
}

/// An instruction that affects the libraries of a stage.
#[derive(Debug)]
pub(super) struct BuildStep {
    pub place: StepPlace,
    pub action: StepAction,
}

#[derive(Debug)]
pub(super) enum StepAction {
    Run(RunAction),
    Copy(CopyAction),
    /// ENV.
    Environment(Variables),
    /// The known values of an ARG.
    Arguments(Variables),
    /// WORKDIR.
    Directory(String),
    /// USER.
    User(String),
}

/// A RUN instruction.
#[derive(Debug)]
pub(super) struct RunAction {
    pub program: RunProgram,
    /// Whether files of another stage, another image or the context are mounted.
    pub has_mounted_files: bool,
}

/// The program of a RUN instruction.
#[derive(Debug)]
pub(super) enum RunProgram {
    /// A script for a POSIX shell or bash.
    Shell(String),
    /// The words of a command.
    Words(Vec<String>),
    /// A text for another program, named in SHELL.
    Foreign(String),
}

/// A COPY or ADD instruction.
#[derive(Debug)]
pub(super) struct CopyAction {
    /// `--from`.
    pub from: Option<String>,
    /// The source paths, without here-documents.
    pub sources: Vec<String>,
    pub target: String,
}

/// The names that a shell may have.
pub(super) const SHELLS: [&str; 7] = ["sh", "bash", "dash", "ash", "ksh", "zsh", "busybox"];

/// The keywords of Dockerfiles.
const KEYWORDS: [&str; 18] = [
    "ADD",
    "ARG",
    "CMD",
    "COPY",
    "ENTRYPOINT",
    "ENV",
    "EXPOSE",
    "FROM",
    "HEALTHCHECK",
    "LABEL",
    "MAINTAINER",
    "ONBUILD",
    "RUN",
    "SHELL",
    "STOPSIGNAL",
    "USER",
    "VOLUME",
    "WORKDIR",
];

/// The maximum number of stages in a file; each may start from any earlier one.
const STAGES: usize = 1000;

/// The maximum number of variables of a stage; others keep their `$`.
const VARIABLES: usize = 1000;

/// The stages of a file, in order. Its ARG instructions take the `given` values.
///
/// Errors: The line of something that is no Dockerfile. Most that only a builder refuses is left to it.
pub(super) fn read_stages(text: &str, given: &Variables) -> Result<Vec<BuildStage>, SyntaxError> {
    let file = read_instructions(text)?;
    let escape = file.escape;
    let mut global = Variables::new();
    let mut stages: Vec<BuildStage> = Vec::new();
    let mut now = Variables::new();
    for instruction in &file.instructions {
        let fail = |what| SyntaxError {
            line: instruction.line,
            what,
        };
        if !KEYWORDS.contains(&&*instruction.keyword) {
            return Err(fail("there is no such instruction"));
        }
        if instruction.keyword == "FROM" {
            if stages.len() >= STAGES {
                return Err(fail("there are too many stages"));
            }
            let stage = begin_stage(instruction, &stages, &global, escape).map_err(fail)?;
            // An ARG before the first FROM applies only in stages that declare it again.
            now.clone_from(&stage.environment);
            stages.push(stage);
            continue;
        }
        match (&*instruction.keyword, stages.last_mut()) {
            ("ARG", None) => {
                let text = &instruction.arguments;
                global.extend(assignments(text, &global, escape));
                global.extend(given_values(text, given, escape));
            }
            (_, None) => return Err(fail("no FROM comes before it")),
            (_, Some(stage)) => stage.add(instruction, (&global, given), &mut now, escape),
        }
    }
    if stages.is_empty() {
        return Err(SyntaxError {
            line: 1,
            what: "it has no FROM",
        });
    }
    Ok(stages)
}

/// The number of the stage with this name; the name may be a number.
pub(super) fn find_stage(stages: &[BuildStage], name: &str) -> Option<usize> {
    let named = stages.iter().rposition(|stage| stage.name.eq_ignore_ascii_case(name));
    named.or_else(|| name.parse().ok().filter(|number| *number < stages.len()))
}

fn begin_stage(
    from: &Instruction,
    stages: &[BuildStage],
    global: &Variables,
    escape: char,
) -> Result<BuildStage, &'static str> {
    let words: Vec<&str> = from.arguments.split_whitespace().collect();
    let (base, name) = match words.as_slice() {
        [base] => (base, None),
        [base, word, name] if word.eq_ignore_ascii_case("as") => (base, Some(*name)),
        _ => return Err("FROM takes an image, or an image, AS and a name"),
    };
    let base = fill_word(base, global, escape);
    let parent = find_stage(stages, &base);
    let before = parent.and_then(|parent| stages.get(parent));
    Ok(BuildStage {
        has_other_wheels: base.contains("alpine") || from.flag("platform").is_some_and(|name| name.contains("arm")),
        name: name.map_or_else(|| stages.len().to_string(), str::to_owned),
        base,
        parent,
        from: place_of(from),
        steps: Vec::new(),
        environment: before.map_or_else(Variables::new, |stage| stage.environment.clone()),
        foreign: before.and_then(|stage| stage.foreign.clone()),
    })
}

fn place_of(instruction: &Instruction) -> StepPlace {
    StepPlace {
        span: instruction.span.clone(),
        line: instruction.line,
    }
}

impl BuildStage {
    fn add(
        &mut self,
        instruction: &Instruction,
        (global, given): (&Variables, &Variables),
        variables: &mut Variables,
        escape: char,
    ) {
        let text = &*instruction.arguments;
        let action = match &*instruction.keyword {
            "ARG" => {
                let names = raw_words(text, escape).filter(|word| !word.contains('='));
                let known = names.filter_map(|name| Some((name.to_owned(), global.get(name)?.clone())));
                let own = raw_words(text, escape)
                    .filter(|word| word.contains('='))
                    .flat_map(|word| assignments(word, variables, escape));
                let values: Variables = known.chain(own).chain(given_values(text, given, escape)).collect();
                extend(variables, &values);
                StepAction::Arguments(values)
            }
            "ENV" => {
                let given = assignments(text, variables, escape);
                extend(variables, &given);
                extend(&mut self.environment, &given);
                StepAction::Environment(given)
            }
            "SHELL" => {
                self.foreign = foreign_shell(&instruction.json_words().unwrap_or_default());
                return;
            }
            "WORKDIR" => StepAction::Directory(fill_word(text, variables, escape)),
            "USER" => StepAction::User(fill_word(text, variables, escape)),
            "RUN" => StepAction::Run(run_action(instruction, self.foreign.as_ref(), escape)),
            "COPY" | "ADD" => StepAction::Copy(copy_action(instruction, variables, escape)),
            _ => return,
        };
        self.steps.push(BuildStep {
            place: place_of(instruction),
            action,
        });
    }
}

/// The given values of the names that an ARG declares.
fn given_values(text: &str, given: &Variables, escape: char) -> Variables {
    let names = raw_words(text, escape).filter_map(|word| word.split('=').next());
    names
        .filter_map(|name| Some((name.to_owned(), given.get(name)?.clone())))
        .collect()
}

/// Adds variables up to the limit.
pub(super) fn extend(variables: &mut Variables, more: &Variables) {
    for (name, value) in more {
        if variables.len() < VARIABLES || variables.contains_key(name) {
            variables.insert(name.clone(), value.clone());
        }
    }
}

/// The program of a SHELL instruction, if it is no shell that reads a text.
fn foreign_shell(words: &[String]) -> Option<String> {
    // The last word makes the shell read a text: `-c`, `-lc`, `-exc`.
    let reads_text = words
        .last()
        .is_some_and(|last| last.starts_with('-') && last.ends_with('c'));
    let mut names = words.iter().map(|word| word.rsplit('/').next().unwrap_or_default());
    if reads_text && names.any(|name| SHELLS.contains(&name)) {
        return None;
    }
    words.first().cloned()
}

fn run_action(run: &Instruction, foreign: Option<&String>, escape: char) -> RunAction {
    let text = &*run.arguments;
    let mut mounts = run.flags.iter().filter_map(|flag| flag.strip_prefix("--mount="));
    let program = match (run.json_words(), foreign, run.documents.as_slice()) {
        (Some(words), ..) => RunProgram::Words(words),
        (None, Some(name), _) => RunProgram::Foreign(name.clone()),
        // The here-document is the script if there is nothing else.
        (None, _, [only]) if is_one_document(text, escape) => {
            let first = only.body.lines().next().unwrap_or_default();
            match first.strip_prefix("#!") {
                Some(program) if !program.ends_with("sh") => RunProgram::Foreign(program.to_owned()),
                _ => RunProgram::Shell(only.body.clone()),
            }
        }
        (None, _, []) => RunProgram::Shell(run.arguments.clone()),
        // BuildKit gives the shell the line, and the documents behind it.
        (None, _, documents) => {
            let mut script = run.arguments.clone();
            for document in documents {
                script.push('\n');
                script.push_str(&document.raw);
                script.push_str(&document.name);
            }
            RunProgram::Shell(script)
        }
    };
    RunAction {
        program,
        has_mounted_files: mounts
            .any(|mount| !mount.contains("type=") || mount.contains("from=") || mount.contains("type=bind")),
    }
}

/// Whether the text of a RUN is the announcement of a here-document alone.
fn is_one_document(text: &str, escape: char) -> bool {
    let rest = text
        .trim_start_matches(|letter: char| letter.is_ascii_digit())
        .strip_prefix("<<");
    rest.is_some_and(|rest| {
        let rest = rest.strip_prefix('-').unwrap_or(rest);
        raw_words(rest, escape).count() == 1
    })
}

fn copy_action(copy: &Instruction, variables: &Variables, escape: char) -> CopyAction {
    let mut words = copy
        .json_words()
        .unwrap_or_else(|| copy.arguments.split_whitespace().map(str::to_owned).collect());
    for word in &mut words {
        *word = fill_word(word, variables, escape);
    }
    let target = words.pop().unwrap_or_default();
    words.retain(|word| {
        let mut documents = copy.documents.iter();
        !documents.any(|document| word.ends_with(&*document.name) && word.contains("<<"))
    });
    CopyAction {
        from: copy
            .flag("from")
            .map(|from| fill_word(&unquote(from, escape), variables, escape)),
        sources: words,
        target,
    }
}
