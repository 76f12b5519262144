//! Statements: lists, pipelines, redirections, subshells.

use std::rc::Rc;

use shuck_ast::{
    BinaryCommand, BinaryOp, Command, CompoundCommand, FunctionDef, Redirect, RedirectKind, RedirectTarget, Stmt,
    StmtSeq, StmtTerminator,
};

use crate::reader::{Reader, is_volatile};
use crate::script::Shell;
use crate::state::{Flow, Function, PIPE_FAIL, State};
use crate::value::is_open;
use crate::words::is_absent;

impl Reader<'_> {
    /// Runs a list of statements in each state.
    pub(crate) fn run_list(&mut self, list: &StmtSeq, mut states: Vec<State>) -> Vec<State> {
        for statement in list.iter() {
            let mut next = Vec::new();
            for state in states {
                match state.flow {
                    Flow::Next => next.extend(self.run_statement(statement, state)),
                    _ => next.push(state),
                }
            }
            states = self.join(next);
        }
        if self.is_spent() {
            // Nested loops stop here when the budget is exhausted.
            states.iter_mut().for_each(|state| self.forget_loader_variables(state));
        }
        states
    }

    fn forget_loader_variables(&mut self, state: &mut State) {
        self.lose_variables(state, "the script is too long to be followed");
    }

    pub(crate) fn run_statement(&mut self, statement: &Stmt, state: State) -> Vec<State> {
        let (place, snippet) = (state.place(statement.span), state.script.snippet(statement.span));
        let outer = (
            std::mem::replace(&mut self.place, place),
            std::mem::replace(&mut self.snippet, snippet),
        );
        self.unset.clear();
        let states = self.run_redirected(statement, state);
        (self.place, self.snippet) = outer;
        states
    }

    fn run_redirected(&mut self, statement: &Stmt, mut state: State) -> Vec<State> {
        if !self.step() {
            self.forget_loader_variables(&mut state);
            return vec![state];
        }
        let redirects = &statement.redirects;
        // Only a redirection replaces the input, so only then must it be restored.
        let has_input = redirects.iter().any(is_input);
        let input = has_input.then(|| state.input.clone()).flatten();
        if !self.redirect(redirects, &mut state) {
            state.input = if has_input { input } else { state.input };
            return state.finish(Some(false));
        }
        // bash prints the file for `$(<FILE)`.
        let is_bare = matches!(&statement.command, Command::Simple(simple) if is_absent(&simple.name) && simple.assignments.is_empty());
        if has_input && is_bare && state.shell.is_bash() && state.output.is_some() {
            let text = std::mem::replace(&mut state.input, input).unwrap_or_default();
            return self.print(state, &text, Some(true));
        }
        // dash parses `cmd &> FILE` as `cmd & > FILE`.
        let has_both = redirects
            .iter()
            .any(|redirect| redirect.kind == RedirectKind::OutputBoth);
        let is_background = matches!(statement.terminator, Some(StmtTerminator::Background(_)));
        let connects = redirects.iter().any(|redirect| connects(redirect, &state));
        let output = state.output.clone();
        // `exec` without a command redirects the rest of the shell.
        let is_exec = matches!(&statement.command, Command::Simple(simple)
            if simple.args.is_empty() && simple.name.span.slice(&state.script.text) == "exec");
        let destination = self.output_destination(redirects, &mut state);
        if destination != OutputDestination::Kept {
            state.output = None;
        }
        let mut states = if is_background || has_both && state.shell == Shell::Dash {
            self.run_command(&statement.command, state.copied());
            state.finish(Some(true))
        } else {
            self.run_command(&statement.command, state)
        };
        for state in &mut states {
            if has_input {
                let redirected = is_exec.then(|| self.hole("the standard input"));
                state.input = redirected.or_else(|| input.clone());
            }
            if destination != OutputDestination::Kept {
                state.output.clone_from(&output);
            }
            if destination == OutputDestination::Unknown || destination == OutputDestination::Diverted && is_exec {
                let hole = self.hole("the output through a file descriptor");
                state.output.iter_mut().for_each(|output| output.push_str(&hole));
            }
            if connects {
                state.status = None;
            }
            if statement.negated {
                state.status = state.status.map(|status| !status);
            }
        }
        states
    }

    /// Applies input redirections and records written files. Returns whether the command runs.
    fn redirect(&mut self, redirects: &[Redirect], state: &mut State) -> bool {
        for redirect in redirects {
            if let Some(name) = &redirect.fd_var {
                if !state.shell.is_bash() {
                    self.assume_keeps("construct");
                }
                self.set_unknown(name, state);
            }
            let text = match &redirect.target {
                _ if redirect.kind == RedirectKind::DupInput && is_input(redirect) => {
                    state.input = Some(self.hole("the standard input"));
                    continue;
                }
                _ if matches!(redirect.kind, RedirectKind::DupInput | RedirectKind::DupOutput) => continue,
                RedirectTarget::Heredoc(heredoc) => self.heredoc_text(heredoc, state),
                RedirectTarget::Word(word) => self.word_text(word, state),
            };
            let path = state.absolute(&text);
            match redirect.kind {
                RedirectKind::HereString => state.input = Some(text + "\n"),
                RedirectKind::HereDoc | RedirectKind::HereDocStrip => state.input = Some(text),
                RedirectKind::Input => {
                    let is_unknown = is_volatile(&path) || is_open(&text) || self.is_touched(&path);
                    if !is_unknown && !self.provides_missing && self.files.stat(&path).is_none() {
                        return false;
                    }
                    if is_input(redirect) {
                        let input = self.file_text(&path).unwrap_or_else(|| self.hole("the standard input"));
                        state.input = Some(input).filter(|_| text != "/dev/null");
                    }
                }
                _ if is_open(&text) => {}
                _ => {
                    if !is_volatile(&path) {
                        self.note_change(&path);
                    }
                    self.touched.insert(path);
                }
            }
        }
        true
    }

    /// Where redirections send the standard output, if it is captured. The last one decides.
    fn output_destination(&mut self, redirects: &[Redirect], state: &mut State) -> OutputDestination {
        let mut destination = OutputDestination::Kept;
        for redirect in redirects {
            if state.output.is_none() || !redirects_stdout(redirect) {
                continue;
            }
            destination = match &redirect.target {
                RedirectTarget::Word(word) if redirect.kind == RedirectKind::DupOutput => {
                    match self.word_text(word, state).as_str() {
                        "1" => destination,
                        "2" | "-" => OutputDestination::Diverted,
                        text if is_open(text) || text.bytes().all(|byte| byte.is_ascii_digit()) => {
                            OutputDestination::Unknown
                        }
                        _ => OutputDestination::Diverted,
                    }
                }
                _ => OutputDestination::Diverted,
            };
        }
        destination
    }

    fn run_command(&mut self, command: &Command, state: State) -> Vec<State> {
        match command {
            Command::Simple(simple) => self.run_simple(simple, state),
            Command::Builtin(builtin) => self.run_control(builtin, state),
            Command::Decl(declaration) => self.run_declaration(declaration, state),
            Command::Binary(binary) => self.run_binary(binary, state),
            Command::Compound(compound) => self.run_compound(compound, state),
            Command::Function(function) => define_function(function, state),
            Command::AnonymousFunction(_) => self.skip(state),
        }
    }

    fn run_compound(&mut self, compound: &CompoundCommand, mut state: State) -> Vec<State> {
        match compound {
            CompoundCommand::If(command) => self.run_if(command, state),
            CompoundCommand::For(command) => self.run_for(command, state),
            CompoundCommand::While(command) => self.run_while(&command.condition, &command.body, true, state),
            CompoundCommand::Until(command) => self.run_while(&command.condition, &command.body, false, state),
            CompoundCommand::Case(command) => self.run_case(command, state),
            CompoundCommand::ArithmeticFor(command) => {
                let parts = [&command.init_ast, &command.condition_ast, &command.step_ast];
                for part in parts.into_iter().flatten() {
                    self.evaluate_number(part, &mut state);
                }
                self.run_some_rounds(&command.body, state)
            }
            CompoundCommand::BraceGroup(list) => self.run_list(list, vec![state]),
            CompoundCommand::Subshell(list) => self.run_subshell(list, state),
            CompoundCommand::Arithmetic(command) => {
                let expression = command.expr_ast.as_ref();
                let number = expression.and_then(|expression| self.evaluate_number(expression, &mut state));
                state.finish(number.map(|number| number != 0))
            }
            CompoundCommand::Conditional(command) => {
                let holds = self.in_condition(|reader| reader.decide_expression(&command.expression, &mut state));
                state.finish(holds)
            }
            CompoundCommand::Time(command) => match &command.command {
                Some(statement) if state.shell.is_bash() => self.run_statement(statement, state),
                // Elsewhere it is a program, so its command runs in a child.
                Some(statement) => {
                    self.run_statement(statement, state.copied());
                    state.finish(None)
                }
                None => state.finish(Some(true)),
            },
            CompoundCommand::Select(_)
            | CompoundCommand::Coproc(_)
            | CompoundCommand::Repeat(_)
            | CompoundCommand::Foreach(_)
            | CompoundCommand::Always(_) => self.skip(state),
        }
    }

    /// Skips an unsupported construct and records an assumption.
    pub(crate) fn skip(&mut self, state: State) -> Vec<State> {
        self.assume_keeps("construct");
        state.finish(None)
    }

    fn run_subshell(&mut self, list: &StmtSeq, state: State) -> Vec<State> {
        let inner = state.silent_copy();
        let ended = self.run_list(list, vec![inner]);
        let output = self.common_output(&ended, "the output of a subshell");
        self.print(state, &output, common_status(&ended))
    }

    fn run_binary(&mut self, command: &BinaryCommand, state: State) -> Vec<State> {
        let stop = match command.op {
            BinaryOp::Pipe | BinaryOp::PipeAll => return self.run_pipeline(command, state),
            BinaryOp::And => false,
            BinaryOp::Or => true,
        };
        let left = self.in_condition(|reader| reader.run_statement(&command.left, state));
        let mut states = Vec::new();
        for state in left {
            let place = state.place(command.op_span);
            let skipped = State {
                status: Some(stop),
                ..state.clone()
            };
            match state.status {
                _ if state.flow != Flow::Next => states.push(state),
                Some(holds) if holds == stop => states.push(state),
                Some(_) => {
                    states.extend(self.run_unless_dead_end(
                        |reader| reader.run_statement(&command.right, state),
                        |_| vec![skipped],
                        &place,
                    ));
                }
                None => {
                    states.push(skipped.branch(&place, false));
                    states.extend(self.run_statement(&command.right, state.branch(&place, true)));
                }
            }
        }
        states
    }

    /// Runs both sides in subshells and passes the output of the left to the right.
    fn run_pipeline(&mut self, command: &BinaryCommand, state: State) -> Vec<State> {
        let writer = State {
            output: Some(String::new()),
            ..state.copied()
        };
        let written = self.run_statement(&command.left, writer);
        let reader = State {
            input: Some(self.common_output(&written, "the input of a pipeline")),
            ..state.silent_copy()
        };
        let ends = self.run_statement(&command.right, reader);
        let status = common_status(&ends).filter(|_| !state.has(PIPE_FAIL));
        let output = self.common_output(&ends, "the output of a pipeline");
        self.print(state, &output, status)
    }

    /// The output that all states have, or a hole.
    pub(crate) fn common_output(&mut self, states: &[State], reason: &str) -> String {
        let mut outputs = states.iter().map(|state| state.output.as_deref().unwrap_or_default());
        let first = outputs.next().unwrap_or_default();
        if outputs.all(|output| output == first) {
            first.to_owned()
        } else {
            self.hole(reason)
        }
    }
}

/// The status that all states have; `None` if they differ or it is unknown.
pub(crate) fn common_status(states: &[State]) -> Option<bool> {
    let first = states.first()?.status;
    first.filter(|_| states.iter().all(|state| state.status == first))
}

fn define_function(function: &FunctionDef, mut state: State) -> Vec<State> {
    for name in function.static_names() {
        let (script, body) = (Rc::clone(&state.script), (*function.body).clone());
        let function = Function { script, body };
        Rc::make_mut(&mut state.functions).insert(name.to_string(), Rc::new(function));
    }
    state.finish(Some(true))
}

/// The destination of a command's standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OutputDestination {
    Kept,
    Diverted,
    /// A copy of a file descriptor, which may be the same output.
    Unknown,
}

/// Whether a redirection replaces the standard input.
fn is_input(redirect: &Redirect) -> bool {
    use RedirectKind::{DupInput, HereDoc, HereDocStrip, HereString, Input};
    let is_input = matches!(redirect.kind, DupInput | HereDoc | HereDocStrip | HereString | Input);
    is_input && redirect.fd.unwrap_or(0) == 0 && redirect.fd_var.is_none()
}

/// Whether a redirection connects to a port (Bash manual, 3.6), which may fail.
fn connects(redirect: &Redirect, state: &State) -> bool {
    let RedirectTarget::Word(word) = &redirect.target else {
        return false;
    };
    let source = word.span.slice(&state.script.text).trim_start_matches('"');
    source.starts_with("/dev/tcp/") || source.starts_with("/dev/udp/")
}

/// Whether a redirection diverts standard output.
fn redirects_stdout(redirect: &Redirect) -> bool {
    use RedirectKind::{Append, Clobber, DupOutput, Output, OutputBoth};
    let is_output = matches!(redirect.kind, Append | Clobber | DupOutput | Output);
    redirect.kind == OutputBoth || is_output && redirect.fd.unwrap_or(1) == 1 && redirect.fd_var.is_none()
}
