//! Statements: lists, pipelines, redirections, subshells.

use std::rc::Rc;

use shuck_ast::{
    BinaryCommand, BinaryOp, Command, CompoundCommand, FunctionDef, Redirect, RedirectKind, RedirectTarget, Span, Stmt,
    StmtSeq, StmtTerminator,
};

use crate::reader::{Reader, is_volatile};
use crate::script::Shell;
use crate::state::{Flow, Function, ShellOption, State};
use crate::value::is_open;
use crate::words::is_absent;

/// The effect of a command's redirections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Redirection {
    Plain,
    /// They set the standard input.
    Input,
    /// An input file is missing, so the command does not run.
    Failed,
}

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
            states
                .iter_mut()
                .for_each(|state| self.forget_loader_variables(list.span, state));
        }
        states
    }

    fn forget_loader_variables(&mut self, span: Span, state: &mut State) {
        let place = state.place(span);
        self.lose_variables(state, &place, "the script is too long to be followed");
    }

    pub(crate) fn run_statement(&mut self, statement: &Stmt, mut state: State) -> Vec<State> {
        if !self.step() {
            self.forget_loader_variables(statement.span, &mut state);
            return vec![state];
        }
        // Only a redirection replaces the input, so only then must it be restored.
        let has_redirects = !statement.redirects.is_empty();
        let input = has_redirects.then(|| state.input.clone()).flatten();
        let redirection = self.redirect(&statement.redirects, &mut state);
        if redirection == Redirection::Failed {
            state.input = input;
            return state.finish(Some(false));
        }
        let has_input = redirection == Redirection::Input;
        // bash prints the file for `$(<FILE)`.
        let is_bare = matches!(&statement.command, Command::Simple(simple) if is_absent(&simple.name) && simple.assignments.is_empty());
        if has_input && is_bare && state.shell.is_bash() && state.output.is_some() {
            let text = state.input.take().unwrap_or_default();
            state.input = input;
            return self.print(state, &text, Some(true));
        }
        // dash parses `cmd &> FILE` as `cmd & > FILE`.
        let is_cut = state.shell == Shell::Dash
            && statement
                .redirects
                .iter()
                .any(|redirect| redirect.kind == RedirectKind::OutputBoth);
        let mut states = if is_cut || matches!(statement.terminator, Some(StmtTerminator::Background(_))) {
            let ended = self.run_command(&statement.command, state.copied());
            state.merge_touched(&ended);
            state.finish(Some(true))
        } else if statement.redirects.iter().any(redirects_stdout) {
            let collected = state.output.take();
            let mut ended = self.run_command(&statement.command, state);
            ended.iter_mut().for_each(|state| state.output.clone_from(&collected));
            ended
        } else {
            self.run_command(&statement.command, state)
        };
        for state in &mut states {
            if has_input {
                state.input.clone_from(&input);
            }
            if statement.negated {
                state.status = state.status.map(|status| !status);
            }
        }
        states
    }

    /// Applies input redirections and records written files.
    fn redirect(&mut self, redirects: &[Redirect], state: &mut State) -> Redirection {
        let mut redirection = Redirection::Plain;
        for redirect in redirects {
            let word = match &redirect.target {
                RedirectTarget::Heredoc(heredoc) => {
                    state.input = Some(self.heredoc_text(heredoc, state));
                    redirection = Redirection::Input;
                    continue;
                }
                RedirectTarget::Word(word) => word,
            };
            if matches!(redirect.kind, RedirectKind::DupInput | RedirectKind::DupOutput) {
                continue;
            }
            let text = self.word_text(word, state);
            let path = state.absolute(&text);
            match redirect.kind {
                RedirectKind::HereString => {
                    state.input = Some(text + "\n");
                    redirection = Redirection::Input;
                }
                RedirectKind::Input => {
                    let may_come =
                        self.provides_missing || is_volatile(&path) || is_open(&text) || state.is_touched(&path);
                    if !may_come && self.files.stat(&path).is_none() {
                        return Redirection::Failed;
                    }
                    if redirect.fd.unwrap_or(0) == 0 {
                        let known = self.file_text(state, &path);
                        let input =
                            known.unwrap_or_else(|| self.hole(&state.place(redirect.span), "the standard input"));
                        state.input = Some(input).filter(|_| text != "/dev/null");
                        redirection = Redirection::Input;
                    }
                }
                _ if is_open(&text) => {}
                _ => {
                    if !is_volatile(&path) {
                        self.changed.insert((path.clone(), state.place(redirect.span)));
                    }
                    state.touch([path]);
                }
            }
        }
        redirection
    }

    fn run_command(&mut self, command: &Command, state: State) -> Vec<State> {
        match command {
            Command::Simple(simple) => self.run_simple(simple, state),
            Command::Builtin(builtin) => self.run_control(builtin, state),
            Command::Decl(declaration) => self.run_declaration(declaration, state),
            Command::Binary(binary) => self.run_binary(binary, state),
            Command::Compound(compound) => self.run_compound(compound, state),
            Command::Function(function) => define_function(function, state),
            Command::AnonymousFunction(function) => self.skip(function.span, state),
        }
    }

    fn run_compound(&mut self, compound: &CompoundCommand, mut state: State) -> Vec<State> {
        match compound {
            CompoundCommand::If(command) => self.run_if(command, state),
            CompoundCommand::For(command) => self.run_for(command, state),
            CompoundCommand::While(command) => {
                self.run_while(&command.condition, &command.body, true, command.span, state)
            }
            CompoundCommand::Until(command) => {
                self.run_while(&command.condition, &command.body, false, command.span, state)
            }
            CompoundCommand::Case(command) => self.run_case(command, state),
            CompoundCommand::ArithmeticFor(command) => {
                for part in [&command.init_ast, &command.condition_ast, &command.step_ast]
                    .into_iter()
                    .flatten()
                {
                    self.evaluate_number(part, &mut state);
                }
                self.run_some_rounds(&command.body, state, command.span)
            }
            CompoundCommand::BraceGroup(list) => self.run_list(list, vec![state]),
            CompoundCommand::Subshell(list) => self.run_subshell(list, state),
            CompoundCommand::Arithmetic(command) => {
                let number = command
                    .expr_ast
                    .as_ref()
                    .and_then(|expression| self.evaluate_number(expression, &mut state));
                state.finish(number.map(|number| number != 0))
            }
            CompoundCommand::Conditional(command) => {
                self.conditions += 1;
                let holds = self.decide_expression(&command.expression, &mut state);
                self.conditions -= 1;
                state.finish(holds)
            }
            CompoundCommand::Time(command) => match &command.command {
                Some(statement) => self.run_statement(statement, state),
                None => state.finish(Some(true)),
            },
            CompoundCommand::Select(command) => self.skip(command.span, state),
            CompoundCommand::Coproc(command) => self.skip(command.span, state),
            CompoundCommand::Repeat(command) => self.skip(command.span, state),
            CompoundCommand::Foreach(command) => self.skip(command.span, state),
            CompoundCommand::Always(command) => self.skip(command.span, state),
        }
    }

    /// Skips an unsupported construct and records an assumption.
    pub(crate) fn skip(&mut self, span: Span, state: State) -> Vec<State> {
        self.snippet = state.script.snippet(span);
        self.assume_keeps("construct", &state.place(span));
        state.finish(None)
    }

    fn run_subshell(&mut self, list: &StmtSeq, mut state: State) -> Vec<State> {
        let ended = self.run_list(list, vec![state.copied()]);
        state.merge_touched(&ended);
        let status = ended.first().and_then(|first| first.status);
        state.status = status.filter(|_| ended.iter().all(|other| other.status == status));
        if let Some(before) = &state.output {
            let outputs = ended.iter().map(|state| state.output.as_deref().unwrap_or_default());
            let outputs: Vec<&str> = outputs.map(|text| text.get(before.len()..).unwrap_or(text)).collect();
            let more = self.only_text(outputs, &state.script.path, "the output of a subshell");
            state.output = Some(format!("{before}{more}"));
        }
        vec![state]
    }

    fn run_binary(&mut self, command: &BinaryCommand, state: State) -> Vec<State> {
        let stop = match command.op {
            BinaryOp::Pipe | BinaryOp::PipeAll => return self.run_pipeline(command, state),
            BinaryOp::And => false,
            BinaryOp::Or => true,
        };
        self.conditions += 1;
        let left = self.run_statement(&command.left, state);
        self.conditions -= 1;
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
                    let run = |reader: &mut Self| reader.run_statement(&command.right, state);
                    states.extend(self.run_unless_dead_end(run, |_| vec![skipped], &place));
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
    fn run_pipeline(&mut self, command: &BinaryCommand, mut state: State) -> Vec<State> {
        let place = state.place(command.span);
        let texts = |states: &[State]| {
            states
                .iter()
                .map(|state| state.output.clone().unwrap_or_default())
                .collect::<Vec<_>>()
        };
        let left = State {
            output: Some(String::new()),
            ..state.copied()
        };
        let left = self.run_statement(&command.left, left);
        let input = self.only_text(
            texts(&left).iter().map(String::as_str),
            &place,
            "the input of a pipeline",
        );
        let mut right = State {
            input: Some(input),
            output: state.output.as_ref().map(|_| String::new()),
            ..state.copied()
        };
        right.merge_touched(&left);
        let right = self.run_statement(&command.right, right);
        state.merge_touched(&right);
        let status = match &*right {
            [only] if !state.has(ShellOption::PipeFail) => only.status,
            _ => None,
        };
        let output = self.only_text(
            texts(&right).iter().map(String::as_str),
            &place,
            "the output of a pipeline",
        );
        self.print(state, &output, status)
    }
}

fn define_function(function: &FunctionDef, mut state: State) -> Vec<State> {
    for name in function.static_names() {
        let body = StmtSeq {
            leading_comments: Vec::new(),
            stmts: vec![(*function.body).clone()],
            trailing_comments: Vec::new(),
            span: function.span,
        };
        let function = Function {
            script: Rc::clone(&state.script),
            body,
        };
        Rc::make_mut(&mut state.functions).insert(name.to_string(), Rc::new(function));
    }
    state.finish(Some(true))
}

/// Whether a redirection diverts standard output.
fn redirects_stdout(redirect: &Redirect) -> bool {
    let kinds = [
        RedirectKind::Output,
        RedirectKind::Clobber,
        RedirectKind::Append,
        RedirectKind::DupOutput,
    ];
    redirect.kind == RedirectKind::OutputBoth || kinds.contains(&redirect.kind) && redirect.fd.unwrap_or(1) == 1
}
