//! Statements: lists, pipelines, conditions, loops.

use std::rc::Rc;

use shuck_ast::{
    BinaryCommand, BinaryOp, CaseCommand, CaseTerminator, Command, CompoundCommand, ForCommand, FunctionDef, IfCommand,
    Redirect, RedirectKind, RedirectTarget, Span, Stmt, StmtSeq, StmtTerminator, Word,
};

use crate::Rank;
use crate::reader::{ROUNDS, Reader, is_volatile};
use crate::script::Shell;
use crate::state::{Flow, Function, ShellOption, State};
use crate::value::is_open;

/// The branches of one `if` or `case` that are followed.
const BRANCHES: usize = 200;

impl Reader<'_> {
    /// Runs a list in each of these states.
    pub(crate) fn run_list(&mut self, list: &StmtSeq, mut states: Vec<State>) -> Vec<State> {
        if self.is_spent() {
            // Loops within loops end with the budget, too.
            let place = states.first().map(|state| state.place(list.span)).unwrap_or_default();
            for state in &mut states {
                self.lose_variables(state, &place, "the script is too long to be followed");
            }
            return states;
        }
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
        states
    }

    fn run_statement(&mut self, statement: &Stmt, mut state: State) -> Vec<State> {
        if !self.step() {
            let place = state.place(statement.span);
            self.lose_variables(&mut state, &place, "the script is too long to be followed");
            return vec![state];
        }
        let input = state.input.clone();
        let redirection = self.redirect(&statement.redirects, &mut state);
        if redirection == Redirection::Failed {
            state.input = input;
            return state.finish(Some(false));
        }
        let has_input = redirection == Redirection::Input;
        // bash prints the file of `$(<FILE)`.
        if has_input && state.shell.is_bash() && is_bare(&statement.command) && state.output.is_some() {
            let text = state.input.take().unwrap_or_default();
            state.input = input;
            return self.print(state, &text, Some(true));
        }
        // dash reads `cmd &> FILE` as `cmd & > FILE`.
        let is_cut = state.shell == Shell::Dash
            && statement
                .redirects
                .iter()
                .any(|redirect| redirect.kind == RedirectKind::OutputBoth);
        let mut states = match statement.terminator {
            _ if is_cut => {
                let ended = self.run_command(&statement.command, state.copied());
                state.merge_touched(&ended);
                state.finish(Some(true))
            }
            Some(StmtTerminator::Background(_)) => {
                let ended = self.run_command(&statement.command, state.copied());
                state.merge_touched(&ended);
                state.finish(Some(true))
            }
            _ => self.run_redirected(statement, state),
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

    /// Runs a command; what it prints goes where the redirections say.
    fn run_redirected(&mut self, statement: &Stmt, mut state: State) -> Vec<State> {
        let Some(redirect) = statement
            .redirects
            .iter()
            .rev()
            .find(|redirect| leaves_output(redirect))
        else {
            return self.run_command(&statement.command, state);
        };
        let collected = state.output.take();
        let file = match (&redirect.target, redirect.kind) {
            (RedirectTarget::Word(word), kind) if kind != RedirectKind::DupOutput => {
                let name = self.word_text(word, &mut state);
                Some(state.absolute(&name)).filter(|path| !is_open(path) && !path.starts_with("/dev/"))
            }
            _ => None,
        };
        state.output = file.as_ref().map(|_| String::new());
        let mut ended = self.run_command(&statement.command, state);
        for state in &mut ended {
            let text = std::mem::replace(&mut state.output, collected.clone());
            if let Some(path) = &file {
                state.write(path, text, redirect.kind == RedirectKind::Append);
            }
        }
        ended
    }

    /// Notes what the redirections read and write.
    fn redirect(&mut self, redirects: &[Redirect], state: &mut State) -> Redirection {
        let mut redirection = Redirection::Plain;
        for redirect in redirects {
            match (&redirect.target, redirect.kind) {
                (RedirectTarget::Heredoc(heredoc), _) => {
                    state.input = Some(self.heredoc_text(heredoc, state));
                    redirection = Redirection::Input;
                }
                (RedirectTarget::Word(word), RedirectKind::HereString) => {
                    state.input = Some(self.word_text(word, state) + "\n");
                    redirection = Redirection::Input;
                }
                (RedirectTarget::Word(word), RedirectKind::Input) => {
                    let name = self.word_text(word, state);
                    let path = state.absolute(&name);
                    let may_come = self.is_given || is_volatile(&path) || is_open(&name) || state.is_touched(&path);
                    if !may_come && self.files.stat(&path).is_none() {
                        return Redirection::Failed;
                    }
                    if redirect.fd.unwrap_or(0) == 0 {
                        state.input = self.file_input(&name, state, redirect.span);
                        redirection = Redirection::Input;
                    }
                }
                (RedirectTarget::Word(_), RedirectKind::DupInput | RedirectKind::DupOutput) => {}
                (RedirectTarget::Word(word), _) => {
                    let name = self.word_text(word, state);
                    if !is_open(&name) {
                        let path = state.absolute(&name);
                        if !is_volatile(&path) {
                            self.changed.insert((path.clone(), state.place(redirect.span)));
                        }
                        state.touch(path);
                    }
                }
            }
        }
        redirection
    }

    fn file_input(&mut self, name: &str, state: &State, span: Span) -> Option<String> {
        let text = self.file_text(state, &state.absolute(name));
        let unknown = |reader: &mut Self| reader.hole(&state.place(span), "the standard input");
        (name != "/dev/null").then(|| text.unwrap_or_else(|| unknown(self)))
    }

    fn run_command(&mut self, command: &Command, state: State) -> Vec<State> {
        match command {
            Command::Simple(simple) => self.run_simple(simple, state),
            Command::Builtin(builtin) => self.run_control(builtin, state),
            Command::Decl(declaration) => self.run_declaration(declaration, state),
            Command::Binary(binary) => self.run_binary(binary, state),
            Command::Compound(compound) => self.run_compound(compound, state),
            Command::Function(function) => define_function(function, state),
            Command::AnonymousFunction(function) => self.skip("construct", function.span, state),
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
                let parts = [&command.init_ast, &command.condition_ast, &command.step_ast];
                for part in parts.into_iter().flatten() {
                    self.evaluate_number(part, &mut state);
                }
                self.run_some_rounds(&command.body, state, command.span)
            }
            CompoundCommand::Select(command) => {
                let hole = self.hole(&state.place(command.span), "what somebody selects");
                state.set_text(&command.variable, hole);
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
            CompoundCommand::Coproc(command) => {
                let ended = self.run_statement(&command.body, state.copied());
                state.merge_touched(&ended);
                state.finish(Some(true))
            }
            CompoundCommand::Repeat(command) => self.skip("construct", command.span, state),
            CompoundCommand::Foreach(command) => self.skip("construct", command.span, state),
            CompoundCommand::Always(command) => self.skip("construct", command.span, state),
        }
    }

    /// A construct that is not followed.
    pub(crate) fn skip(&mut self, kind: &str, span: Span, state: State) -> Vec<State> {
        let script = Rc::clone(&state.script);
        let text = format!("`{}` keeps the loader variables", script.snippet(span));
        self.assume(kind, &script, span, text);
        state.finish(None)
    }

    fn run_subshell(&mut self, list: &StmtSeq, mut state: State) -> Vec<State> {
        let ended = self.run_list(list, vec![state.copied()]);
        state.merge_touched(&ended);
        if let Some((first, others)) = ended.split_first() {
            let same = |is_same: &dyn Fn(&State) -> bool| others.iter().all(is_same);
            state.status = first.status.filter(|_| same(&|other| other.status == first.status));
            if state.output.is_some() {
                state.output = if same(&|other| other.output == first.output) {
                    first.output.clone()
                } else {
                    state
                        .output
                        .map(|text| text + &self.hole(&state.script.path, "the output of a subshell"))
                };
            }
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
            match state.status {
                _ if state.flow != Flow::Next => states.push(state),
                Some(status) if status == stop => states.push(state),
                Some(_) => {
                    let mut skipped = state.clone();
                    skipped.status = Some(stop);
                    let run = |reader: &mut Self| reader.run_statement(&command.right, state);
                    states.extend(self.disbelieve_end(run, |_| vec![skipped], command.span));
                }
                None => {
                    let mut skipped = state.clone().branch(&place, false);
                    skipped.status = Some(stop);
                    states.push(skipped);
                    states.extend(self.run_statement(&command.right, state.branch(&place, true)));
                }
            }
        }
        states
    }

    /// The left side's output is the right side's input; each runs as a process of its own.
    fn run_pipeline(&mut self, command: &BinaryCommand, mut state: State) -> Vec<State> {
        let mut left = state.copied();
        left.output = Some(String::new());
        let left = self.run_statement(&command.left, left);
        let mut right = state.copied();
        right.merge_touched(&left);
        right.input = match &*left {
            [only] => only.output.clone(),
            _ => Some(self.hole(&state.place(command.span), "the input of a pipeline")),
        };
        right.output = state.output.as_ref().map(|_| String::new());
        let right = self.run_statement(&command.right, right);
        state.merge_touched(&right);
        state.status = match &*right {
            [only] if !state.options.contains(&ShellOption::PipeFail) => only.status,
            _ => None,
        };
        if let Some(output) = state.output.take() {
            let more = match &*right {
                [only] => only.output.clone().unwrap_or_default(),
                _ => self.hole(&state.place(command.span), "the output of a pipeline"),
            };
            state.output = Some(self.bounded(&state, output + &more));
        }
        vec![state]
    }

    /// Runs what a decided condition leads to; where that only ends the script, it is not believed, and `others` run.
    fn disbelieve_end(
        &mut self,
        run: impl FnOnce(&mut Self) -> Vec<State>,
        others: impl FnOnce(&mut Self) -> Vec<State>,
        span: Span,
    ) -> Vec<State> {
        let before = self.programs.len();
        let states = run(self);
        let is_end = !states.is_empty() && states.iter().all(|state| state.flow == Flow::Exit);
        let mut started = self.programs.iter().skip(before);
        if is_end && started.all(|program| program.rank == Rank::Distribution) {
            if let Some(state) = states.first() {
                let script = Rc::clone(&state.script);
                self.assume(
                    "reaches",
                    &script,
                    span,
                    "the script goes on here and reaches its program".to_owned(),
                );
            }
            return others(self);
        }
        states
    }

    fn run_if(&mut self, command: &IfCommand, mut state: State) -> Vec<State> {
        if command.elif_branches.len() > BRANCHES {
            let place = state.place(command.span);
            self.lose_variables(&mut state, &place, "more branches than are followed");
            return state.finish(None);
        }
        let branches = command.elif_branches.iter().map(|(condition, body)| (condition, body));
        let branches: Vec<_> = [(&command.condition, &command.then_branch)]
            .into_iter()
            .chain(branches)
            .collect();
        let states = self.run_branches(&branches, command.else_branch.as_ref(), state);
        self.join(states)
    }

    fn run_branches(
        &mut self,
        branches: &[(&StmtSeq, &StmtSeq)],
        otherwise: Option<&StmtSeq>,
        mut state: State,
    ) -> Vec<State> {
        let Some(((condition, body), rest)) = branches.split_first() else {
            state.status = Some(true);
            return match otherwise {
                Some(list) => self.run_list(list, vec![state]),
                None => vec![state],
            };
        };
        self.conditions += 1;
        let decided = self.run_list(condition, vec![state]);
        self.conditions -= 1;
        let mut states = Vec::new();
        for state in decided {
            let place = state.place(condition.span);
            let then = |reader: &mut Self, state| reader.run_list(body, vec![state]);
            let other = |reader: &mut Self, state| reader.run_branches(rest, otherwise, state);
            let copy = state.clone();
            states.extend(match state.status {
                _ if state.flow != Flow::Next => vec![state],
                None => {
                    let mut both = then(self, state.branch(&place, true));
                    both.extend(other(self, copy.branch(&place, false)));
                    both
                }
                Some(true) => self.disbelieve_end(|it| then(it, state), |it| other(it, copy), condition.span),
                Some(false) => self.disbelieve_end(|it| other(it, state), |it| then(it, copy), condition.span),
            });
        }
        states
    }

    fn run_case(&mut self, command: &CaseCommand, mut state: State) -> Vec<State> {
        let subject = self.word_text(&command.word, &mut state);
        if command.cases.len() > BRANCHES {
            let place = state.place(command.span);
            self.lose_variables(&mut state, &place, "more branches than are followed");
            return state.finish(None);
        }
        let falls = command
            .cases
            .iter()
            .any(|item| item.terminator != CaseTerminator::Break);
        if falls {
            let script = Rc::clone(&state.script);
            self.assume(
                "construct",
                &script,
                command.span,
                "the branches of `case` that go on keep the loader variables".into(),
            );
        }
        let mut hits = Vec::new();
        let mut is_sure = false;
        for (number, item) in command.cases.iter().enumerate() {
            let mut matches = Vec::new();
            for pattern in &item.patterns {
                let pattern = self.case_pattern(pattern, &mut state);
                matches.push(self.match_text(&subject, &pattern, &state));
            }
            let holds = matches.contains(&Some(true));
            if holds || matches.contains(&None) || falls && !hits.is_empty() {
                hits.push(number);
            }
            if holds && !falls {
                is_sure = true;
                break;
            }
        }
        let body = |reader: &mut Self, number: usize, state: State| match command.cases.get(number) {
            Some(item) => reader.run_list(&item.body, vec![state]),
            None => vec![state],
        };
        if let (true, [only]) = (is_sure, &*hits) {
            let (copy, only) = (state.clone(), *only);
            let all = |reader: &mut Self| {
                let numbers = 0..command.cases.len();
                let states = numbers.flat_map(|number| body(reader, number, copy.clone())).collect();
                reader.join(states)
            };
            return self.disbelieve_end(|reader| body(reader, only, state), all, command.span);
        }
        let place = state.place(command.span);
        let mut states = Vec::new();
        for (at, number) in hits.iter().enumerate() {
            let span = command
                .cases
                .get(*number)
                .and_then(|item| item.patterns.first())
                .map(|first| first.span);
            let place = span.map_or_else(|| place.clone(), |span| state.place(span));
            let mut through = vec![state.clone().branch(&place, true)];
            for next in hits.iter().skip(at).take(if falls { usize::MAX } else { 1 }) {
                through = through.into_iter().flat_map(|state| body(self, *next, state)).collect();
                if falls {
                    states.extend(through.iter().cloned());
                }
            }
            states.extend(through);
        }
        if !is_sure {
            state.status = Some(true);
            states.push(if hits.is_empty() {
                state
            } else {
                state.branch(&place, false)
            });
        }
        self.join(states)
    }

    /// One round of a loop: the states that go on to the next, and those that have left.
    fn run_round(&mut self, body: &StmtSeq, states: Vec<State>) -> (Vec<State>, Vec<State>) {
        let (mut going, mut left) = (Vec::new(), Vec::new());
        for mut state in self.run_list(body, states) {
            let (flow, goes_on) = match state.flow {
                Flow::Next | Flow::Continue(0 | 1) => (Flow::Next, true),
                Flow::Break(0 | 1) => (Flow::Next, false),
                Flow::Break(levels) => (Flow::Break(levels - 1), false),
                Flow::Continue(levels) => (Flow::Continue(levels - 1), false),
                flow => (flow, false),
            };
            state.flow = flow;
            if goes_on { going.push(state) } else { left.push(state) }
        }
        (going, left)
    }

    /// A loop whose rounds are not known: none, one or two.
    fn run_some_rounds(&mut self, body: &StmtSeq, state: State, span: Span) -> Vec<State> {
        let place = state.place(span);
        let entered = state.clone().branch(&place, true);
        let (first, mut left) = self.run_round(body, vec![entered]);
        let (second, left_later) = self.run_round(body, first.clone());
        let variables = |states: &[State]| states.iter().map(|state| state.loader_key().0).collect::<Vec<_>>();
        let known = variables(&first);
        if variables(&second).iter().any(|value| !known.contains(value)) {
            let script = Rc::clone(&state.script);
            self.assume("loop", &script, span, "the loop runs at most twice".to_owned());
        }
        let mut skipped = state.branch(&place, false);
        skipped.status = Some(true);
        left.push(skipped);
        left.extend(first);
        left.extend(left_later);
        left.extend(second);
        self.join(left)
    }

    fn run_for(&mut self, command: &ForCommand, mut state: State) -> Vec<State> {
        let [target] = &*command.targets else {
            return self.skip("construct", command.span, state);
        };
        let Some(name) = target.name.as_ref().map(ToString::to_string) else {
            return self.skip("construct", command.span, state);
        };
        let items = match &command.words {
            Some(words) => self.all_fields(words, &mut state),
            None => state.arguments.iter().skip(1).cloned().collect(),
        };
        if items.len() > ROUNDS || items.iter().any(|item| is_open(item)) {
            let place = state.place(command.span);
            let given = items.iter().any(|item| self.is_given_text(item));
            let reason = format!("{name}, one of an unknown list");
            let hole = if given {
                self.given_hole(&place, &reason)
            } else {
                self.hole(&place, &reason)
            };
            state.set_text(&name, hole);
            return self.run_some_rounds(&command.body, state, command.span);
        }
        let (mut states, mut left) = (vec![state], Vec::new());
        for item in items {
            states.iter_mut().for_each(|state| state.set_text(&name, item.clone()));
            let (going, leaving) = self.run_round(&command.body, states);
            left.extend(leaving);
            states = going;
            if states.is_empty() {
                break;
            }
        }
        left.extend(states);
        self.join(left)
    }

    fn run_while(&mut self, condition: &StmtSeq, body: &StmtSeq, enters: bool, span: Span, state: State) -> Vec<State> {
        let (mut states, mut left) = (vec![state], Vec::new());
        for _ in 0..ROUNDS {
            let mut entering = Vec::new();
            let before = states.clone();
            for state in std::mem::take(&mut states) {
                self.conditions += 1;
                let decided = self.run_list(condition, vec![state]);
                self.conditions -= 1;
                for mut state in decided {
                    match state.status {
                        _ if state.flow != Flow::Next => left.push(state),
                        None => left.extend(self.run_some_rounds(body, state, span)),
                        Some(status) if status == enters => entering.push(state),
                        Some(_) => {
                            state.status = Some(true);
                            left.push(state);
                        }
                    }
                }
            }
            if entering.is_empty() {
                return self.join(left);
            }
            let (going, leaving) = self.run_round(body, entering);
            left.extend(leaving);
            states = if going.is_empty() { going } else { self.join(going) };
            states.iter_mut().for_each(|state| state.status = Some(true));
            // What changes nothing goes on for ever.
            if !states.is_empty()
                && states
                    .iter()
                    .all(|state| before.iter().any(|other| other.is_like(state)))
            {
                states.iter_mut().for_each(|state| state.flow = Flow::Replaced);
                left.append(&mut states);
                return self.join(left);
            }
            if self.is_spent() {
                break;
            }
        }
        for state in states {
            let script = Rc::clone(&state.script);
            self.assume(
                "loop",
                &script,
                span,
                "the rounds of the loop are not counted".to_owned(),
            );
            left.extend(self.run_some_rounds(body, state, span));
        }
        self.join(left)
    }

    /// The text of a word that makes one field.
    pub(crate) fn word_text(&mut self, word: &Word, state: &mut State) -> String {
        let pieces = self.word_pieces(word, state);
        crate::words::joined_text(&pieces)
    }
}

/// What the redirections of a command come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Redirection {
    Plain,
    /// They set the standard input.
    Input,
    /// A file is not there, so that the command does not run.
    Failed,
}

fn define_function(function: &FunctionDef, mut state: State) -> Vec<State> {
    for name in function.static_names() {
        let body = Function {
            script: Rc::clone(&state.script),
            body: StmtSeq {
                leading_comments: Vec::new(),
                stmts: vec![(*function.body).clone()],
                trailing_comments: Vec::new(),
                span: function.span,
            },
        };
        Rc::make_mut(&mut state.functions).insert(name.to_string(), Rc::new(body));
    }
    state.finish(Some(true))
}

/// Whether a redirection takes descriptor 1 away.
fn leaves_output(redirect: &Redirect) -> bool {
    let writes = matches!(
        redirect.kind,
        RedirectKind::Output | RedirectKind::Clobber | RedirectKind::Append | RedirectKind::DupOutput
    );
    redirect.kind == RedirectKind::OutputBoth || writes && redirect.fd.unwrap_or(1) == 1
}

/// Whether a command has no words.
fn is_bare(command: &Command) -> bool {
    matches!(command, Command::Simple(simple) if crate::words::is_absent(&simple.name) && simple.assignments.is_empty())
}
