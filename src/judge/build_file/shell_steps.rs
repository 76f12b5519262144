//! Reads the shell text of a RUN instruction into commands: which run, which may run, and which cannot be followed.

use std::collections::BTreeMap;
use std::ops::Range;

use container_start::parse_script;
use shuck_ast::{
    Assignment, AssignmentValue, BinaryOp, Command, CompoundCommand, DeclOperand, HeredocBodyPart, Redirect,
    RedirectTarget, SimpleCommand, Stmt, StmtSeq, Word, WordPart, WordPartNode,
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
    /// A text that the parser does not read.
    Unreadable,
}

/// The maximum number of commands of a script. A function counts each time it is called.
const COMMANDS: usize = 10_000;

/// Reads a script. `variables` are those of the build.
pub(super) fn read_script(script: &JoinedText, variables: &Variables) -> Vec<ShellStep> {
    let Some(body) = parse_script(&script.text) else {
        return vec![ShellStep::Unreadable];
    };
    let mut reader = ScriptReader {
        script,
        variables: variables.clone(),
        functions: BTreeMap::new(),
        commands_left: COMMANDS,
    };
    reader.list(&body)
}

struct ScriptReader<'s> {
    script: &'s JoinedText,
    variables: Variables,
    functions: BTreeMap<String, Vec<ShellStep>>,
    commands_left: usize,
}

impl ScriptReader<'_> {
    fn list(&mut self, list: &StmtSeq) -> Vec<ShellStep> {
        list.stmts
            .iter()
            .flat_map(|statement| self.statement(statement))
            .collect()
    }

    /// Steps that may not run: what they set is unknown afterwards.
    fn maybe(&mut self, read: impl FnOnce(&mut Self) -> Vec<ShellStep>) -> ShellStep {
        let before = self.variables.clone();
        let steps = read(self);
        self.variables.retain(|name, value| before.get(name) == Some(value));
        ShellStep::Maybe(steps)
    }

    fn statement(&mut self, statement: &Stmt) -> Vec<ShellStep> {
        let input = self.input_text(&statement.redirects);
        match &statement.command {
            Command::Simple(simple) => self.simple(simple, input),
            Command::Decl(declaration) => {
                for operand in &declaration.operands {
                    if let DeclOperand::Assignment(assignment) = operand {
                        self.assign(assignment);
                    }
                }
                Vec::new()
            }
            Command::Builtin(_) => Vec::new(),
            Command::Binary(binary) => match binary.op {
                BinaryOp::Or => {
                    let left = self.maybe(|reader| reader.statement(&binary.left));
                    vec![left, self.maybe(|reader| reader.statement(&binary.right))]
                }
                BinaryOp::And | BinaryOp::Pipe | BinaryOp::PipeAll => {
                    let mut steps = self.statement(&binary.left);
                    steps.extend(self.statement(&binary.right));
                    steps
                }
            },
            Command::Compound(compound) => self.compound(compound),
            Command::Function(function) => {
                let before = self.variables.clone();
                let body = self.statement(&function.body);
                self.variables = before;
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
            CompoundCommand::Subshell(list) => {
                let before = self.variables.clone();
                let steps = self.list(list);
                self.variables = before;
                vec![ShellStep::Subshell(steps)]
            }
            CompoundCommand::BraceGroup(list) => self.list(list),
            CompoundCommand::Time(time) => time.command.iter().flat_map(|own| self.statement(own)).collect(),
            CompoundCommand::If(branches) => {
                let mut steps = self.list(&branches.condition);
                steps.push(self.maybe(|reader| reader.list(&branches.then_branch)));
                for (condition, body) in &branches.elif_branches {
                    steps.push(self.maybe(|reader| reader.list(condition)));
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
            CompoundCommand::While(each) => vec![self.maybe(|reader| {
                let mut steps = reader.list(&each.condition);
                steps.extend(reader.list(&each.body));
                steps
            })],
            CompoundCommand::Until(each) => vec![self.maybe(|reader| {
                let mut steps = reader.list(&each.condition);
                steps.extend(reader.list(&each.body));
                steps
            })],
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
            for assignment in &simple.assignments {
                self.assign(assignment);
            }
            return steps;
        }
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

    fn assign(&mut self, assignment: &Assignment) {
        let name = assignment.target.name.to_string();
        let value = match &assignment.value {
            AssignmentValue::Scalar(word) if !assignment.append => Some(self.text_of(&word.parts)),
            _ => None,
        };
        match value.filter(|value| !value.contains(['$', '`'])) {
            Some(value) => drop(self.variables.insert(name, value)),
            None => drop(self.variables.remove(&name)),
        }
    }

    /// The commands in `$(…)`.
    fn substitutions(&mut self, parts: &[WordPartNode], steps: &mut Vec<ShellStep>) {
        for part in parts {
            match &part.kind {
                WordPart::CommandSubstitution { body, .. } | WordPart::ProcessSubstitution { body, .. } => {
                    let before = self.variables.clone();
                    steps.push(ShellStep::Subshell(self.list(body)));
                    self.variables = before;
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
        ShellStep::Unreadable => true,
    })
}

/// The number of commands in steps.
fn count(steps: &[ShellStep]) -> usize {
    let each = steps.iter().map(|step| match step {
        ShellStep::Subshell(steps) | ShellStep::Maybe(steps) => 1 + count(steps),
        ShellStep::Command(..) | ShellStep::Unreadable => 1,
    });
    each.sum()
}
