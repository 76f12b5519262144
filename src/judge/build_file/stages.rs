//! Splits a Dockerfile into stages with their bases and steps, and expands the variables that it sets itself.

use std::collections::BTreeMap;
use std::ops::Range;

use parse_dockerfile::{Command, CopyInstruction, Dockerfile, FromInstruction, Instruction, RunInstruction, Source};

use super::shell_commands::{ShellWord, split_commands};

/// Variables and their values.
type Variables = BTreeMap<String, String>;

/// A stage of a build.
#[derive(Debug)]
pub(super) struct BuildStage {
    /// Its name, or its number.
    pub name: String,
    /// The name of its base image.
    pub base: String,
    /// The number of its base stage.
    pub parent: Option<usize>,
    pub steps: Vec<BuildStep>,
}

/// An instruction that affects the libraries of a stage, and its position in the file.
#[derive(Debug)]
pub(super) struct BuildStep {
    pub span: Range<usize>,
    pub action: StepAction,
}

#[derive(Debug)]
pub(super) enum StepAction {
    Run(Vec<Vec<ShellWord>>),
    Copy(CopyAction),
    Env(Variables),
}

#[derive(Debug)]
pub(super) struct CopyAction {
    /// `--from`, as written.
    pub from: Option<String>,
    /// The source paths.
    pub sources: Vec<String>,
    pub target: String,
}

/// The stages of a file, in order.
pub(super) fn read_stages(file: &Dockerfile<'_>) -> Vec<BuildStage> {
    let escape = file.parser_directives.escape.as_ref();
    let escape = escape.map_or('\\', |directive| directive.value.value);
    let mut global = Variables::new();
    for argument in file.global_args() {
        let given = assignments(&argument.arguments.value, &global, escape);
        global.extend(given);
    }
    let mut stages: Vec<BuildStage> = Vec::new();
    for stage in file.stages() {
        let base = fill_variables(&stage.from.image.value, &global);
        let parent = find_stage(&stages, &base);
        // An ARG before the first FROM applies only in stages that declare it again.
        let mut variables = Variables::new();
        let steps = stage
            .instructions
            .iter()
            .filter_map(|one| step(one, &global, &mut variables, escape));
        let steps = steps.collect();
        let name = stage_name(stage.from).unwrap_or_else(|| stages.len().to_string());
        stages.push(BuildStage {
            name,
            base,
            parent,
            steps,
        });
    }
    stages
}

/// The number of the stage with this name; the name may be a number.
pub(super) fn find_stage(stages: &[BuildStage], name: &str) -> Option<usize> {
    let named = stages.iter().rposition(|stage| stage.name.eq_ignore_ascii_case(name));
    named.or_else(|| name.parse().ok().filter(|number| *number < stages.len()))
}

fn stage_name(from: &FromInstruction<'_>) -> Option<String> {
    from.as_.as_ref().map(|(_, name)| name.value.to_string())
}

fn step(
    instruction: &Instruction<'_>,
    global: &Variables,
    variables: &mut Variables,
    escape: char,
) -> Option<BuildStep> {
    match instruction {
        Instruction::Arg(argument) => {
            let text = &argument.arguments.value;
            let known = global
                .get(text.trim())
                .map(|value| (text.trim().to_owned(), value.clone()));
            let given = assignments(text, variables, escape);
            variables.extend(known.into_iter().chain(given));
            None
        }
        Instruction::Env(env) => {
            let given = assignments(&env.arguments.value, variables, escape);
            variables.extend(given.clone());
            let span = env.env.span.start..env.arguments.span.end;
            Some(BuildStep {
                span,
                action: StepAction::Env(given),
            })
        }
        Instruction::Run(run) => Some(run_step(run, variables, escape)),
        Instruction::Copy(copy) => Some(copy_step(copy, variables)),
        _ => None,
    }
}

fn run_step(run: &RunInstruction<'_>, variables: &Variables, escape: char) -> BuildStep {
    let (mut commands, mut end) = match &run.arguments {
        Command::Shell(script) => (split_commands(script.value, script.span.start, escape), script.span.end),
        Command::Exec(words) => {
            let words_of = |word: &parse_dockerfile::UnescapedString<'_>| ShellWord {
                text: word.value.to_string(),
                span: word.span.clone(),
            };
            (vec![words.value.iter().map(words_of).collect()], words.span.end)
        }
        _ => (Vec::new(), run.run.span.end),
    };
    for document in &run.here_docs {
        // A shell reads a here-document unchanged.
        commands.extend(split_commands(&document.value, document.span.start, '\\'));
        end = end.max(document.span.end);
    }
    for word in commands.iter_mut().flatten() {
        word.text = fill_variables(&word.text, variables);
    }
    BuildStep {
        span: run.run.span.start..end,
        action: StepAction::Run(commands),
    }
}

fn copy_step(copy: &CopyInstruction<'_>, variables: &Variables) -> BuildStep {
    let from = copy.options.iter().find(|option| option.name.value == "from");
    let from = from.and_then(|option| option.value.as_ref());
    let sources = copy.src.iter().filter_map(|source| match source {
        Source::Path(path) => Some(fill_variables(&path.value, variables)),
        _ => None,
    });
    BuildStep {
        span: copy.copy.span.start..copy.dest.span.end,
        action: StepAction::Copy(CopyAction {
            from: from.map(|from| fill_variables(&from.value, variables)),
            sources: sources.collect(),
            target: fill_variables(&copy.dest.value, variables),
        }),
    }
}

/// The variables of an ARG or ENV: `NAME=VALUE …`, or `NAME VALUE`.
fn assignments(text: &str, known: &Variables, escape: char) -> Variables {
    let words = split_commands(text, 0, escape).into_iter().flatten();
    let words: Vec<String> = words.map(|word| word.text).collect();
    if let [name, value] = words.as_slice()
        && !name.contains('=')
    {
        return Variables::from([(name.clone(), fill_variables(value, known))]);
    }
    let pairs = words.iter().filter_map(|word| word.split_once('='));
    pairs
        .map(|(name, value)| (name.to_owned(), fill_variables(value, known)))
        .collect()
}

/// How many bytes expansion may add to a text. The longest search paths of images have a few hundred.
const GROWTH: usize = 2 << 10;

/// Expands the known variables. Unknown ones stay as written, so that nothing depends on them.
fn fill_variables(text: &str, known: &Variables) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let (written, behind) = match after.strip_prefix('{').and_then(|inner| inner.split_once('}')) {
            Some((inner, behind)) => (inner, behind),
            None => after.split_at(after.find(|letter| !is_name(letter)).unwrap_or(after.len())),
        };
        let (name, default) = written
            .split_once(":-")
            .map_or((written, None), |(name, value)| (name, Some(value)));
        if let Some(value) = known.get(name).map(String::as_str).or(default) {
            out.push_str(value);
            // `ARG A=$A$A` doubles the value, and a pull request's file may repeat it sixty times.
            if out.len() > text.len() + GROWTH {
                return text.to_owned();
            }
        } else {
            out.push('$');
            out.push_str(after.strip_suffix(behind).unwrap_or(after));
        }
        rest = behind;
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::{Variables, fill_variables};

    #[test]
    fn which_variables_are_filled_in() {
        let known = Variables::from([("CUDA".to_owned(), "12.4".to_owned())]);
        for (text, filled) in [
            ("nvidia/cuda:${CUDA}.1-devel", "nvidia/cuda:12.4.1-devel"),
            ("$CUDA/$OTHER", "12.4/$OTHER"),
            ("${OTHER:-x}${NEXT}", "x${NEXT}"),
            ("a$", "a$"),
            ("${unclosed", "${unclosed"),
        ] {
            assert_eq!(fill_variables(text, &known), filled, "{text}");
        }
    }

    #[test]
    fn y_10_variables_that_double_end_as_they_are_written() {
        let double = |before: &Variables| super::assignments("A=$A$A", before, '\\');
        let first = Variables::from([("A".to_owned(), "x".to_owned())]);
        let values = std::iter::successors(Some(first), |before| Some(double(before)));
        let lengths: Vec<usize> = values.take(64).map(|values| values["A"].len()).collect();
        assert_eq!((lengths[5], lengths[12]), (32, 4), "{lengths:?}");
        assert!(lengths.iter().all(|length| *length <= 1 << 12));
    }
}
