//! Reads the stages of a Dockerfile with their bases and steps, and expands the variables that it sets itself.

use std::ops::Range;
use std::rc::Rc;

use super::builder_words::{Variables, assignments, fill_word, raw_words, unquote};
use super::instructions::{Instruction, JoinedText, SyntaxError, read_instructions};

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
    /// Whether its FROM names no platform, or the usual one.
    pub is_usual_platform: bool,
    /// Whether an earlier stage has the same name.
    pub is_repeated: bool,
    pub steps: Vec<BuildStep>,
    /// The variables of its ENV instructions, and of those of its base stages.
    environment: Variables,
    /// The shell of its RUN instructions, for the stages that start from it.
    shell: Rc<StageShell>,
    /// The instructions that run in the stages that start from it.
    triggers: Vec<Instruction>,
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
    /// ARG; a name without a value may get one when the image is built.
    Arguments {
        names: Vec<String>,
        values: Variables,
    },
    /// WORKDIR.
    Directory(String),
}

/// A RUN instruction.
#[derive(Debug)]
pub(super) struct RunAction {
    pub program: RunProgram,
    /// Whether files of another stage, another image or the context are mounted.
    pub has_mounted_files: bool,
    /// The folders in which other files are mounted.
    pub mounts: Vec<String>,
}

/// The program of a RUN instruction.
#[derive(Debug)]
pub(super) enum RunProgram {
    /// A script for a POSIX shell or bash.
    Shell(JoinedText),
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

/// What reads the text of a RUN instruction.
#[derive(Debug, PartialEq, Eq)]
enum StageShell {
    Shell,
    Other(String),
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

/// The maximum number of ONBUILD instructions that a stage gets from the stages before it.
const TRIGGERS: usize = 100;

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
            let mut stage = begin_stage(instruction, &stages, &global, escape).map_err(fail)?;
            // An ARG before the first FROM applies only in stages that declare it again.
            now.clone_from(&stage.environment);
            let parent = stage.parent.and_then(|parent| stages.get(parent));
            for trigger in parent.map_or(&[][..], |parent| &parent.triggers) {
                stage.add(trigger, (&global, given), &mut now, escape);
            }
            stages.push(stage);
            continue;
        }
        match (&*instruction.keyword, stages.last_mut()) {
            ("ARG", None) => {
                let text = &instruction.arguments.text;
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
    let words: Vec<&str> = from.arguments.text.split_whitespace().collect();
    let (base, name) = match words.as_slice() {
        [base] => (base, None),
        [base, word, name] if word.eq_ignore_ascii_case("as") => (base, Some(*name)),
        _ => return Err("FROM takes an image, or an image, AS and a name"),
    };
    let base = fill_word(base, global, escape);
    let parent = find_stage(stages, &base);
    let before = parent.and_then(|parent| stages.get(parent));
    Ok(BuildStage {
        is_repeated: name.is_some_and(|name| find_stage(stages, name).is_some()),
        is_usual_platform: from.flag("platform").is_none_or(is_usual_platform),
        name: name.map_or_else(|| stages.len().to_string(), str::to_owned),
        base,
        parent,
        from: place_of(from),
        steps: Vec::new(),
        environment: before.map_or_else(Variables::new, |stage| stage.environment.clone()),
        shell: before.map_or_else(|| Rc::new(StageShell::Shell), |stage| Rc::clone(&stage.shell)),
        triggers: Vec::new(),
    })
}

/// Whether a platform is the usual one. Without `--platform`, a build has that of its two variables.
fn is_usual_platform(name: &str) -> bool {
    let name = name.trim_matches(['$', '{', '}']);
    matches!(name, "linux/amd64" | "TARGETPLATFORM" | "BUILDPLATFORM")
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
        let text = &*instruction.arguments.text;
        let action = match &*instruction.keyword {
            "ARG" => {
                let names = raw_words(text, escape).filter(|word| !word.contains('='));
                let known = names.filter_map(|name| Some((name.to_owned(), global.get(name)?.clone())));
                let own = raw_words(text, escape).filter(|word| word.contains('='));
                let own = own.flat_map(|word| assignments(word, variables, escape));
                let values: Variables = known.chain(own).chain(given_values(text, given, escape)).collect();
                extend(variables, &values);
                let names = raw_words(text, escape).filter_map(|word| word.split('=').next());
                StepAction::Arguments {
                    names: names.map(str::to_owned).collect(),
                    values,
                }
            }
            "ENV" => {
                let given = assignments(text, variables, escape);
                extend(variables, &given);
                extend(&mut self.environment, &given);
                StepAction::Environment(given)
            }
            "SHELL" => {
                self.shell = Rc::new(shell_of(&instruction.json_words().unwrap_or_default()));
                return;
            }
            "ONBUILD" => {
                let trigger = instruction.trigger(escape).filter(|_| self.triggers.len() < TRIGGERS);
                self.triggers.extend(trigger);
                return;
            }
            "WORKDIR" => StepAction::Directory(fill_word(text, variables, escape)),
            "RUN" => StepAction::Run(run_action(instruction, &self.shell, escape)),
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

fn shell_of(words: &[String]) -> StageShell {
    let is_shell = |word: &String| SHELLS.contains(&word.rsplit('/').next().unwrap_or_default());
    // The last word makes the shell read a text: `-c`, `-lc`, `-exc`.
    let reads_text = words
        .last()
        .is_some_and(|last| last.starts_with('-') && last.ends_with('c'));
    if reads_text && words.iter().any(is_shell) {
        StageShell::Shell
    } else {
        StageShell::Other(words.first().cloned().unwrap_or_default())
    }
}

fn run_action(run: &Instruction, shell: &StageShell, escape: char) -> RunAction {
    let text = &*run.arguments.text;
    let mounts = run.flags.iter().filter_map(|flag| flag.strip_prefix("--mount="));
    let targets = mounts.clone().flat_map(|mount| mount.split(',')).filter_map(|part| {
        let (name, value) = part.split_once('=')?;
        matches!(name, "target" | "dst" | "destination").then(|| value.to_owned())
    });
    let targets = targets.collect();
    let program = match (run.json_words(), shell, run.documents.as_slice()) {
        (Some(words), ..) => RunProgram::Words(words),
        (None, StageShell::Other(name), _) => RunProgram::Foreign(name.clone()),
        // The here-document is the script if there is nothing else.
        (None, _, [only]) if is_one_document(text, escape) => match only.body.text.strip_prefix("#!") {
            Some(rest) => script_program(rest.lines().next().unwrap_or_default(), &only.body),
            None => RunProgram::Shell(only.body.clone()),
        },
        (None, _, []) => RunProgram::Shell(run.arguments.clone()),
        // BuildKit gives the shell the line, and the documents behind it.
        (None, _, documents) => {
            let mut script = run.arguments.clone();
            for document in documents {
                script.text.push('\n');
                script.text.push_str(&document.raw);
                script.text.push_str(&document.name);
            }
            RunProgram::Shell(script)
        }
    };
    RunAction {
        program,
        mounts: targets,
        has_mounted_files: mounts
            .into_iter()
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

/// The program of a here-document whose first line names its interpreter.
fn script_program(first_line: &str, body: &JoinedText) -> RunProgram {
    let mut words = first_line
        .split_whitespace()
        .map(|word| word.rsplit('/').next().unwrap_or_default());
    let name = words
        .find(|word| *word != "env" && !word.starts_with('-'))
        .unwrap_or_default();
    if SHELLS.contains(&name) {
        RunProgram::Shell(body.clone())
    } else {
        RunProgram::Words(vec![name.to_owned()])
    }
}

fn copy_action(copy: &Instruction, variables: &Variables, escape: char) -> CopyAction {
    let fill = |word: &str| fill_word(word, variables, escape);
    let mut words: Vec<String> = if let Some(words) = copy.json_words() {
        words.iter().map(|word| fill(word)).collect()
    } else {
        copy.arguments.text.split_whitespace().map(fill).collect()
    };
    let target = words.pop().unwrap_or_default();
    let is_document = |word: &String| {
        copy.documents
            .iter()
            .any(|document| word.ends_with(&*document.name) && word.contains("<<"))
    };
    words.retain(|word| !is_document(word));
    CopyAction {
        from: copy
            .flag("from")
            .map(|from| fill_word(&unquote(from, escape), variables, escape)),
        sources: words,
        target,
    }
}
