//! Reads the shell text of a RUN instruction into commands, in the order in which they run. A word has no quotes. An
//! unknown variable or a computed part keeps its `$`.

use container_start::parse_script;
use shuck_ast::{
    Assignment, AssignmentValue, BinaryOp, Command, CompoundCommand, DeclOperand, HeredocBodyPart, Redirect,
    RedirectTarget, SimpleCommand, Stmt, StmtSeq, Word, WordPart, WordPartNode,
};

use super::builder_words::{Variables, fill_variables};
use super::paths::{WorkingFolder, is_known};

/// A command of a script.
#[derive(Debug, Clone, Default)]
pub(super) struct ShellCommand {
    /// The name and the arguments; empty if the script cannot be read.
    pub words: Vec<String>,
    /// The text of its standard input, if the script shows it.
    pub input: Option<String>,
    /// The command whose output it reads.
    pub reads_from: Vec<String>,
    /// Whether it runs only under a condition.
    pub is_conditional: bool,
    /// The folder in which it runs.
    pub folder: WorkingFolder,
    /// The number of scripts around it.
    pub depth: usize,
}

impl ShellCommand {
    /// An empty command that runs in a folder.
    pub(super) fn of_folder(folder: &WorkingFolder) -> Self {
        Self {
            folder: folder.clone(),
            ..Self::default()
        }
    }
}

/// Reads a script that runs in, or as, the command `outer`. `variables` are those of the build.
pub(super) fn read_script(script: &str, variables: &Variables, outer: &ShellCommand) -> Vec<ShellCommand> {
    let mut reader = ScriptReader {
        script,
        variables: variables.clone(),
        now: ShellCommand {
            is_conditional: outer.is_conditional,
            depth: outer.depth + 1,
            ..ShellCommand::of_folder(&outer.folder)
        },
        commands: Vec::new(),
    };
    match parse_script(script) {
        Some(body) => reader.list(&body),
        None => reader.commands.push(ShellCommand::default()),
    }
    reader.commands
}

struct ScriptReader<'s> {
    script: &'s str,
    variables: Variables,
    /// What the next command begins with.
    now: ShellCommand,
    commands: Vec<ShellCommand>,
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
    fn list(&mut self, list: &StmtSeq) {
        for statement in &list.stmts {
            self.statement(statement);
        }
    }

    /// Runs in its own process: its variables and its folder end with it.
    fn subshell(&mut self, list: &StmtSeq) {
        let before = (self.variables.clone(), self.now.folder.clone());
        self.list(list);
        (self.variables, self.now.folder) = before;
    }

    /// Reads steps that may not run. The variables and the folder that they set are unknown afterwards.
    fn maybe(&mut self, read: impl FnOnce(&mut Self)) {
        let before = (self.variables.clone(), self.now.clone());
        self.now.is_conditional = true;
        read(self);
        self.variables.retain(|name, value| before.0.get(name) == Some(value));
        let is_moved = self.now.folder != before.1.folder;
        self.now = before.1;
        if is_moved {
            self.now.folder.path = None;
        }
    }

    fn maybe_list(&mut self, list: &StmtSeq) {
        self.maybe(|reader| reader.list(list));
    }

    fn statement(&mut self, statement: &Stmt) {
        match &statement.command {
            Command::Simple(simple) => self.simple(simple, self.input_text(&statement.redirects)),
            Command::Decl(declaration) => {
                for operand in &declaration.operands {
                    if let DeclOperand::Assignment(assignment) = operand {
                        self.assign(assignment);
                    }
                }
            }
            Command::Binary(binary) => {
                self.statement(&binary.left);
                match binary.op {
                    BinaryOp::And if !is_condition(&binary.left, self.script) => self.statement(&binary.right),
                    BinaryOp::Or | BinaryOp::And => self.maybe(|reader| reader.statement(&binary.right)),
                    BinaryOp::Pipe | BinaryOp::PipeAll => {
                        let left = self
                            .commands
                            .last()
                            .map_or_else(Vec::new, |command| command.words.clone());
                        let outer = std::mem::replace(&mut self.now.reads_from, left);
                        self.statement(&binary.right);
                        self.now.reads_from = outer;
                    }
                }
            }
            Command::Compound(compound) => self.compound(compound),
            // Whether it is called is not followed.
            Command::Function(function) => self.maybe(|reader| reader.statement(&function.body)),
            Command::Builtin(_) => {}
            Command::AnonymousFunction(_) => self.commands.push(ShellCommand::default()),
        }
    }

    fn compound(&mut self, compound: &CompoundCommand) {
        match compound {
            CompoundCommand::Subshell(list) => self.subshell(list),
            CompoundCommand::BraceGroup(list) => self.list(list),
            CompoundCommand::Time(time) => {
                if let Some(command) = &time.command {
                    self.statement(command);
                }
            }
            CompoundCommand::If(branches) => {
                self.list(&branches.condition);
                self.maybe_list(&branches.then_branch);
                for (condition, body) in &branches.elif_branches {
                    self.maybe_list(condition);
                    self.maybe_list(body);
                }
                if let Some(body) = &branches.else_branch {
                    self.maybe_list(body);
                }
            }
            CompoundCommand::For(each) => {
                for name in each.targets.iter().filter_map(|target| target.name.as_ref()) {
                    self.variables.remove(name.as_str());
                }
                self.list(&each.body);
            }
            CompoundCommand::While(each) => self.list(&each.body),
            CompoundCommand::Until(each) => self.list(&each.body),
            CompoundCommand::ArithmeticFor(each) => self.list(&each.body),
            CompoundCommand::Case(case) => {
                for item in &case.cases {
                    self.maybe_list(&item.body);
                }
            }
            CompoundCommand::Arithmetic(_) | CompoundCommand::Conditional(_) => {}
            _ => self.commands.push(ShellCommand::default()),
        }
    }

    fn simple(&mut self, simple: &SimpleCommand, input: Option<String>) {
        let mut words: Vec<String> = Vec::new();
        for word in std::iter::once(&simple.name).chain(&simple.args) {
            self.substitutions(&word.parts);
            words.extend(self.words_of(word));
        }
        match words.first().map_or("", String::as_str) {
            // The parser inserts an empty name if there are assignments only.
            "" => simple.assignments.iter().for_each(|assignment| self.assign(assignment)),
            "cd" => self.now.folder.path = self.now.folder.resolve(words.get(1).map_or("~", String::as_str)),
            _ => self.commands.push(ShellCommand {
                words,
                input,
                ..self.now.clone()
            }),
        }
    }

    fn assign(&mut self, assignment: &Assignment) {
        let name = assignment.target.name.to_string();
        self.variables.remove(&name);
        if let AssignmentValue::Scalar(word) = &assignment.value {
            self.substitutions(&word.parts);
            let value = self.text_of(&word.parts);
            if !assignment.append && is_known(&value) {
                self.variables.insert(name, value);
            }
        }
    }

    /// The commands in `$(…)`.
    fn substitutions(&mut self, parts: &[WordPartNode]) {
        for part in parts {
            match &part.kind {
                WordPart::CommandSubstitution { body, .. } | WordPart::ProcessSubstitution { body, .. } => {
                    self.subshell(body);
                }
                WordPart::DoubleQuoted { parts, .. } => self.substitutions(parts),
                _ => {}
            }
        }
    }

    /// The fields of a word: the value of an unquoted variable is split at blanks.
    fn words_of(&self, word: &Word) -> Vec<String> {
        let source = word.span.slice(self.script);
        let text = self.text_of(&word.parts);
        let is_quoted = source.contains(['"', '\'', '\\']);
        if source.starts_with('$') && !is_quoted && source != text && is_known(&text) {
            return text.split_whitespace().map(str::to_owned).collect();
        }
        // Braces stand for several words.
        let braces = if word.brace_syntax.is_empty() { "" } else { "$" };
        vec![format!("{text}{braces}")]
    }

    fn text_of(&self, parts: &[WordPartNode]) -> String {
        let texts = parts.iter().map(|part| {
            let source = part.span.slice(self.script);
            match &part.kind {
                WordPart::Literal(literal) => unescape(literal.syntax_str(self.script, part.span)),
                WordPart::SingleQuoted { value, .. } => value.slice(self.script).to_owned(),
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
                    HeredocBodyPart::Literal(literal) => literal.syntax_str(self.script, part.span).to_owned(),
                    _ => part.span.slice(self.script).to_owned(),
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
