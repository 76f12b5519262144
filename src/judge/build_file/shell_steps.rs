//! Reads the shell text of a RUN instruction into commands: which run, which may run, and which cannot be followed.

use std::collections::BTreeMap;
use std::ops::Range;

use container_start::parse_script;
use shuck_ast::{
    Assignment, AssignmentValue, BinaryOp, BuiltinCommand, Command, CompoundCommand, DeclOperand, HeredocBodyPart,
    Redirect, RedirectKind, RedirectTarget, SimpleCommand, Stmt, StmtSeq, Word, WordPart, WordPartNode,
};

use super::builder_words::{Variables, fill_variables};
use super::instructions::JoinedText;

/// A word without its quotes. An unknown variable or a computed part keeps its `$`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ShellWord {
    pub text: String,
    /// Its bytes in the Dockerfile; `None` if the word is computed or nested.
    pub span: Option<Range<usize>>,
}

impl ShellWord {
    pub(super) fn plain(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            span: None,
        }
    }

    /// Whether the file shows the whole word.
    pub(super) fn is_known(&self) -> bool {
        !self.text.contains(['$', '`'])
    }
}

/// A part of a script, in the order in which it runs.
#[derive(Debug, Clone)]
pub(super) enum ShellStep {
    /// A command, and the text of its standard input if the script shows it.
    Command(Vec<ShellWord>, Option<String>),
    /// Runs in a process of its own: a change of directory ends with it.
    Subshell(Vec<Self>),
    /// May run or not: a condition, a loop, or what a failure would stop.
    Maybe(Vec<Self>),
    /// Sets a variable.
    Sets(String),
    /// Writes a file by a redirection.
    Overwrites(ShellWord),
    /// A text that the parser does not read.
    Unreadable,
}

/// The maximum number of commands of a script. A function counts each time it is called.
const COMMANDS: usize = 10_000;

/// Reads the script of a RUN, whose failure ends the build. `variables` are those of the build.
pub(super) fn read_script(script: &JoinedText, variables: &Variables) -> Vec<ShellStep> {
    read_process(script, variables, true)
}

/// Reads a script within another one, which may go on if it fails.
pub(super) fn read_inner_script(script: &JoinedText, variables: &Variables) -> Vec<ShellStep> {
    read_process(script, variables, false)
}

fn read_process(script: &JoinedText, variables: &Variables, ends_build: bool) -> Vec<ShellStep> {
    let Some(body) = parse_script(&script.text) else {
        return vec![ShellStep::Unreadable];
    };
    let mut reader = ScriptReader {
        script,
        variables: variables.clone(),
        functions: BTreeMap::new(),
        commands_left: COMMANDS,
        is_checked: ends_build,
        ends_build,
        may_have_ended: false,
    };
    reader.list(&body)
}

struct ScriptReader<'s> {
    script: &'s JoinedText,
    variables: Variables,
    functions: BTreeMap<String, Vec<ShellStep>>,
    commands_left: usize,
    /// Whether the build fails if the current statement does.
    is_checked: bool,
    /// Whether the build fails if the current process does.
    ends_build: bool,
    /// Whether an earlier statement may have ended the process, and not the build.
    may_have_ended: bool,
}

/// The programs whose failure is an answer.
const CONDITIONS: [&str; 13] = [
    "test", "[", "grep", "egrep", "fgrep", "command", "which", "type", "hash", "false", "cmp", "diff", "getent",
];

/// Whether the failure of a statement is an answer, so that what stands behind its `&&` may not run.
fn is_condition(statement: &Stmt, text: &str) -> bool {
    statement.negated
        || match &statement.command {
            Command::Simple(simple) => {
                let name = simple.name.span.slice(text);
                CONDITIONS.contains(&name) || name.starts_with(['$', '"'])
            }
            Command::Binary(binary) if matches!(binary.op, BinaryOp::Pipe | BinaryOp::PipeAll) => {
                is_condition(&binary.right, text)
            }
            Command::Binary(binary) => is_condition(&binary.left, text) || is_condition(&binary.right, text),
            Command::Compound(compound) => {
                matches!(
                    compound,
                    CompoundCommand::Arithmetic(_) | CompoundCommand::Conditional(_)
                )
            }
            _ => false,
        }
}

impl ScriptReader<'_> {
    fn list(&mut self, list: &StmtSeq) -> Vec<ShellStep> {
        let is_checked = self.is_checked;
        let mut steps = Vec::new();
        for (at, statement) in list.stmts.iter().enumerate() {
            self.is_checked = is_checked && at + 1 == list.stmts.len();
            if self.may_have_ended {
                steps.push(self.maybe(|reader| reader.statement(statement)));
            } else {
                steps.extend(self.statement(statement));
            }
        }
        self.is_checked = is_checked;
        steps
    }

    /// A process of its own: what it sets ends with it, as it does itself.
    fn subshell(&mut self, list: &StmtSeq, is_checked: bool) -> ShellStep {
        let flags = (self.is_checked, self.ends_build, self.may_have_ended);
        let variables = self.variables.clone();
        self.is_checked &= is_checked;
        self.ends_build &= self.is_checked;
        let steps = self.list(list);
        self.variables = variables;
        (self.is_checked, self.ends_build, self.may_have_ended) = flags;
        ShellStep::Subshell(steps)
    }

    /// A condition: the script goes on if it fails.
    fn condition(&mut self, list: &StmtSeq) -> Vec<ShellStep> {
        let is_checked = std::mem::replace(&mut self.is_checked, false);
        let steps = self.list(list);
        self.is_checked = is_checked;
        steps
    }

    /// Steps that may not run: what they set is unknown afterwards.
    fn maybe(&mut self, read: impl FnOnce(&mut Self) -> Vec<ShellStep>) -> ShellStep {
        let before = self.variables.clone();
        let steps = read(self);
        self.variables.retain(|name, value| before.get(name) == Some(value));
        ShellStep::Maybe(steps)
    }

    fn statement(&mut self, statement: &Stmt) -> Vec<ShellStep> {
        let mut steps = self.command(statement);
        let written = statement
            .redirects
            .iter()
            .filter_map(|redirect| match &redirect.target {
                RedirectTarget::Word(word) if redirect.kind != RedirectKind::Input => Some(word),
                _ => None,
            });
        let written: Vec<ShellWord> = written.flat_map(|word| self.words_of(word)).collect();
        steps.extend(written.into_iter().map(ShellStep::Overwrites));
        steps
    }

    fn command(&mut self, statement: &Stmt) -> Vec<ShellStep> {
        let input = self.input_text(&statement.redirects);
        match &statement.command {
            Command::Simple(simple) => self.simple(simple, input),
            Command::Decl(declaration) => {
                let operands = declaration.operands.iter();
                let assignments = operands.filter_map(|operand| match operand {
                    DeclOperand::Assignment(assignment) => Some(self.assign(assignment)),
                    _ => None,
                });
                assignments.collect()
            }
            Command::Builtin(builtin) => {
                let code = match builtin {
                    BuiltinCommand::Exit(exit) => exit.code.as_ref(),
                    BuiltinCommand::Return(end) => end.code.as_ref(),
                    _ => return Vec::new(),
                };
                let code = code.and_then(|code| code.span.slice(&self.script.text).parse::<u8>().ok());
                self.may_have_ended |= !self.ends_build || code.is_none_or(|code| code == 0);
                Vec::new()
            }
            Command::Binary(binary) => match binary.op {
                BinaryOp::Or => {
                    let left = self.maybe(|reader| reader.statement(&binary.left));
                    vec![left, self.maybe(|reader| reader.statement(&binary.right))]
                }
                BinaryOp::And => {
                    let mut steps = self.statement(&binary.left);
                    let is_open = !self.is_checked && is_condition(&binary.left, &self.script.text);
                    if is_open || self.may_have_ended {
                        steps.push(self.maybe(|reader| reader.statement(&binary.right)));
                    } else {
                        steps.extend(self.statement(&binary.right));
                    }
                    steps
                }
                BinaryOp::Pipe | BinaryOp::PipeAll => {
                    let is_checked = std::mem::replace(&mut self.is_checked, false);
                    let mut steps = self.statement(&binary.left);
                    self.is_checked = is_checked;
                    steps.extend(self.statement(&binary.right));
                    steps
                }
            },
            Command::Compound(compound) => self.compound(compound),
            Command::Function(function) => {
                let before = (self.variables.clone(), self.may_have_ended);
                let body = self.statement(&function.body);
                (self.variables, self.may_have_ended) = before;
                let names: Vec<String> = function.static_names().map(ToString::to_string).collect();
                self.functions
                    .extend(names.into_iter().map(|name| (name, body.clone())));
                Vec::new()
            }
            Command::AnonymousFunction(_) => vec![ShellStep::Unreadable],
        }
    }

    fn compound(&mut self, compound: &CompoundCommand) -> Vec<ShellStep> {
        match compound {
            CompoundCommand::Subshell(list) => vec![self.subshell(list, true)],
            CompoundCommand::BraceGroup(list) => self.list(list),
            CompoundCommand::Time(time) => time.command.iter().flat_map(|own| self.statement(own)).collect(),
            CompoundCommand::If(branches) => {
                let mut steps = self.condition(&branches.condition);
                steps.push(self.maybe(|reader| reader.list(&branches.then_branch)));
                for (condition, body) in &branches.elif_branches {
                    steps.push(self.maybe(|reader| reader.condition(condition)));
                    steps.push(self.maybe(|reader| reader.list(body)));
                }
                if let Some(body) = &branches.else_branch {
                    steps.push(self.maybe(|reader| reader.list(body)));
                }
                steps
            }
            CompoundCommand::For(each) => {
                for name in each.targets.iter().filter_map(|target| target.name.as_ref()) {
                    self.variables.remove(name.as_str());
                }
                vec![self.maybe(|reader| reader.list(&each.body))]
            }
            CompoundCommand::While(each) => vec![self.repeated(&each.condition, &each.body)],
            CompoundCommand::Until(each) => vec![self.repeated(&each.condition, &each.body)],
            CompoundCommand::Case(case) => {
                let bodies = case.cases.iter();
                bodies
                    .map(|item| self.maybe(|reader| reader.list(&item.body)))
                    .collect()
            }
            CompoundCommand::Arithmetic(_) | CompoundCommand::Conditional(_) => Vec::new(),
            CompoundCommand::ArithmeticFor(each) => vec![self.maybe(|reader| reader.list(&each.body))],
            CompoundCommand::Select(_)
            | CompoundCommand::Coproc(_)
            | CompoundCommand::Repeat(_)
            | CompoundCommand::Foreach(_)
            | CompoundCommand::Always(_) => vec![ShellStep::Unreadable],
        }
    }

    fn repeated(&mut self, condition: &StmtSeq, body: &StmtSeq) -> ShellStep {
        self.maybe(|reader| [reader.list(condition), reader.list(body)].concat())
    }

    fn simple(&mut self, simple: &SimpleCommand, input: Option<String>) -> Vec<ShellStep> {
        let mut steps = Vec::new();
        let mut words: Vec<ShellWord> = Vec::new();
        for word in std::iter::once(&simple.name).chain(&simple.args) {
            self.substitutions(&word.parts, &mut steps);
            words.extend(self.words_of(word));
        }
        // The parser inserts an empty name if there are assignments only.
        if words
            .first()
            .is_none_or(|name| name.text.is_empty() && name.span.is_none())
        {
            steps.extend(simple.assignments.iter().map(|assignment| self.assign(assignment)));
            return steps;
        }
        // Those in front of a command are only its own.
        let own = simple
            .assignments
            .iter()
            .map(|assignment| assignment.target.name.to_string());
        steps.extend(own.map(ShellStep::Sets));
        let name = words.first().map_or("", |name| &name.text);
        let body = self.functions.get(name).cloned();
        let cost = body.as_ref().map_or(1, |body| count(body));
        let Some(left) = self.commands_left.checked_sub(cost) else {
            return vec![ShellStep::Unreadable];
        };
        self.commands_left = left;
        match body {
            // Its parameters are unknown, and it may return early.
            Some(body) => steps.push(ShellStep::Maybe(body)),
            None => steps.push(ShellStep::Command(words, input)),
        }
        steps
    }

    fn assign(&mut self, assignment: &Assignment) -> ShellStep {
        let name = assignment.target.name.to_string();
        let value = match &assignment.value {
            AssignmentValue::Scalar(word) if !assignment.append => Some(self.text_of(&word.parts)),
            _ => None,
        };
        match value.filter(|value| !value.contains(['$', '`'])) {
            Some(value) => drop(self.variables.insert(name.clone(), value)),
            None => drop(self.variables.remove(&name)),
        }
        ShellStep::Sets(name)
    }

    /// The commands in `$(…)`.
    fn substitutions(&mut self, parts: &[WordPartNode], steps: &mut Vec<ShellStep>) {
        for part in parts {
            match &part.kind {
                WordPart::CommandSubstitution { body, .. } | WordPart::ProcessSubstitution { body, .. } => {
                    steps.push(self.subshell(body, false));
                }
                WordPart::DoubleQuoted { parts, .. } => self.substitutions(parts, steps),
                _ => {}
            }
        }
    }

    /// The fields of a word: the value of an unquoted variable is split at blanks.
    fn words_of(&self, word: &Word) -> Vec<ShellWord> {
        let source = word.span.slice(&self.script.text);
        let text = self.text_of(&word.parts);
        let is_quoted = source.contains(['"', '\'', '\\']);
        let range = word.span.start.offset()..word.span.end.offset();
        if source.starts_with('$') && !is_quoted && source != text && !text.contains(['$', '`']) {
            return text.split_whitespace().map(ShellWord::plain).collect();
        }
        // Braces stand for several words.
        let braces = if word.brace_syntax.is_empty() { "" } else { "$" };
        let span = if source.is_empty() {
            None
        } else {
            self.script.origin(&range)
        };
        vec![ShellWord {
            text: format!("{text}{braces}"),
            span,
        }]
    }

    fn text_of(&self, parts: &[WordPartNode]) -> String {
        let texts = parts.iter().map(|part| {
            let source = part.span.slice(&self.script.text);
            match &part.kind {
                WordPart::Literal(literal) => unescape(literal.syntax_str(&self.script.text, part.span)),
                WordPart::SingleQuoted { value, .. } => value.slice(&self.script.text).to_owned(),
                WordPart::DoubleQuoted { parts, .. } => self.text_of(parts),
                _ => fill_variables(source, &self.variables),
            }
        });
        texts.collect()
    }

    /// The text of a here-document for the standard input.
    fn input_text(&self, redirects: &[Redirect]) -> Option<String> {
        redirects.iter().find_map(|redirect| match &redirect.target {
            RedirectTarget::Heredoc(document) => {
                let parts = document.body.parts.iter().map(|part| match &part.kind {
                    HeredocBodyPart::Literal(literal) => literal.syntax_str(&self.script.text, part.span).to_owned(),
                    _ => part.span.slice(&self.script.text).to_owned(),
                });
                Some(parts.collect())
            }
            RedirectTarget::Word(_) => None,
        })
    }
}

/// Unquoted text without its backslashes.
fn unescape(text: &str) -> String {
    let mut letters = text.chars();
    let mut out = String::new();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => out.extend(letters.next().filter(|next| *next != '\n')),
            letter => out.push(letter),
        }
    }
    out
}

/// Whether a command of the steps fulfils a condition. A text that nobody can read does, too.
pub(super) fn any_command(steps: &[ShellStep], is_it: &impl Fn(&[ShellWord], Option<&str>) -> bool) -> bool {
    steps.iter().any(|step| match step {
        ShellStep::Command(words, input) => is_it(words, input.as_deref()),
        ShellStep::Subshell(steps) | ShellStep::Maybe(steps) => any_command(steps, is_it),
        ShellStep::Sets(_) | ShellStep::Overwrites(_) => false,
        ShellStep::Unreadable => true,
    })
}

/// The number of commands in steps.
fn count(steps: &[ShellStep]) -> usize {
    let each = steps.iter().map(|step| match step {
        ShellStep::Subshell(steps) | ShellStep::Maybe(steps) => 1 + count(steps),
        ShellStep::Command(..) | ShellStep::Sets(_) | ShellStep::Overwrites(_) | ShellStep::Unreadable => 1,
    });
    each.sum()
}
