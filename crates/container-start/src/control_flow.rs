//! Conditionals and loops: decided conditions run one branch, undecided ones fork.

use shuck_ast::{CaseCommand, CaseTerminator, ForCommand, IfCommand, Span, StmtSeq};

use crate::Rank;
use crate::reader::{ROUNDS, Reader};
use crate::state::{Flow, State};
use crate::value::is_open;

/// The maximum branches of one `if` or `case`.
const BRANCHES: usize = 200;

impl Reader<'_> {
    /// Runs the branch of a decided condition. If that branch only exits, runs `others` instead: a container script is
    /// meant to reach its program.
    pub(crate) fn run_unless_dead_end(
        &mut self,
        run: impl FnOnce(&mut Self) -> Vec<State>,
        others: impl FnOnce(&mut Self) -> Vec<State>,
        place: &str,
    ) -> Vec<State> {
        let before = self.programs.len();
        let states = run(self);
        let is_end = !states.is_empty() && states.iter().all(|state| state.flow == Flow::Exit);
        let mut started = self.programs.iter().skip(before);
        if is_end && started.all(|program| program.rank == Rank::Distribution) {
            self.assume(
                "reaches",
                place,
                "the script goes on here and reaches its program".to_owned(),
            );
            return others(self);
        }
        states
    }

    pub(crate) fn run_if(&mut self, command: &IfCommand, state: State) -> Vec<State> {
        let branches = command.elif_branches.iter().map(|(condition, body)| (condition, body));
        let branches: Vec<_> = [(&command.condition, &command.then_branch)]
            .into_iter()
            .chain(branches)
            .collect();
        if branches.len() > BRANCHES {
            return self.skip_branches(command.span, state);
        }
        let states = self.run_branches(&branches, command.else_branch.as_ref(), state);
        self.join(states)
    }

    fn skip_branches(&mut self, span: Span, mut state: State) -> Vec<State> {
        let place = state.place(span);
        self.lose_variables(&mut state, &place, "more branches than are followed");
        state.finish(None)
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
                None => [
                    then(self, state.branch(&place, true)),
                    other(self, copy.branch(&place, false)),
                ]
                .concat(),
                Some(true) => self.run_unless_dead_end(|it| then(it, state), |it| other(it, copy), &place),
                Some(false) => self.run_unless_dead_end(|it| other(it, state), |it| then(it, copy), &place),
            });
        }
        states
    }

    pub(crate) fn run_case(&mut self, command: &CaseCommand, mut state: State) -> Vec<State> {
        self.conditions += 1;
        let subject = self.word_text(&command.word, &mut state);
        self.conditions -= 1;
        if command.cases.len() > BRANCHES {
            return self.skip_branches(command.span, state);
        }
        let place = state.place(command.span);
        let mut hits = Vec::new();
        let mut match_is_certain = false;
        for item in &command.cases {
            let mut holds = Some(false);
            for pattern in &item.patterns {
                let pattern = self.case_pattern(pattern, &mut state);
                let matches = self.match_text(&subject, &pattern, &state);
                holds = if holds == Some(true) || matches == Some(true) {
                    Some(true)
                } else {
                    holds.and(matches)
                };
            }
            // `;&` and `;;&` continue with the next item.
            let goes_on = item.terminator != CaseTerminator::Break;
            if goes_on {
                self.assume(
                    "construct",
                    &place,
                    "the branches of `case` that go on keep the loader variables".to_owned(),
                );
            }
            if holds != Some(false) {
                hits.push(item);
            }
            match_is_certain = holds == Some(true) && !goes_on;
            if match_is_certain {
                break;
            }
        }
        if let (true, [only]) = (match_is_certain, &*hits) {
            let copy = state.clone();
            let all = |reader: &mut Self| {
                let bodies = command.cases.iter();
                let states = bodies
                    .flat_map(|item| reader.run_list(&item.body, vec![copy.clone()]))
                    .collect();
                reader.join(states)
            };
            return self.run_unless_dead_end(|reader| reader.run_list(&only.body, vec![state]), all, &place);
        }
        let mut states = Vec::new();
        for item in &hits {
            let place = item
                .patterns
                .first()
                .map_or_else(|| place.clone(), |first| state.place(first.span));
            states.extend(self.run_list(&item.body, vec![state.clone().branch(&place, true)]));
        }
        if !match_is_certain {
            state.status = Some(true);
            states.push(if hits.is_empty() {
                state
            } else {
                state.branch(&place, false)
            });
        }
        self.join(states)
    }

    /// Runs one iteration. Returns the states that continue with the next one, and those that left the loop.
    fn run_round(&mut self, body: &StmtSeq, states: Vec<State>) -> (Vec<State>, Vec<State>) {
        let states = self.run_list(body, states).into_iter().map(|mut state| {
            let (flow, goes_on) = match state.flow {
                Flow::Next | Flow::Continue(0 | 1) => (Flow::Next, true),
                Flow::Break(0 | 1) => (Flow::Next, false),
                Flow::Break(levels) => (Flow::Break(levels - 1), false),
                Flow::Continue(levels) => (Flow::Continue(levels - 1), false),
                flow => (flow, false),
            };
            state.flow = flow;
            (state, goes_on)
        });
        let (going, left): (Vec<_>, Vec<_>) = states.partition(|(_, goes_on)| *goes_on);
        (
            going.into_iter().map(|(state, _)| state).collect(),
            left.into_iter().map(|(state, _)| state).collect(),
        )
    }

    /// Runs a loop with an unknown number of iterations: zero, one or two.
    pub(crate) fn run_some_rounds(&mut self, body: &StmtSeq, state: State, span: Span) -> Vec<State> {
        let place = state.place(span);
        let (first, mut left) = self.run_round(body, vec![state.clone().branch(&place, true)]);
        let (second, left_later) = self.run_round(body, first.clone());
        let is_new = |state: &State| !first.iter().any(|other| other.loader_key() == state.loader_key());
        if second.iter().any(is_new) {
            self.assume("loop", &place, "the loop runs at most twice".to_owned());
        }
        left.push(State {
            status: Some(true),
            ..state.branch(&place, false)
        });
        self.join([left, first, left_later, second].concat())
    }

    pub(crate) fn run_for(&mut self, command: &ForCommand, mut state: State) -> Vec<State> {
        let name = match &*command.targets {
            [target] if let Some(name) = &target.name => name.to_string(),
            _ => return self.skip(command.span, state),
        };
        let items = match &command.words {
            Some(words) => self.all_fields(words, &mut state),
            None => state.arguments.iter().skip(1).cloned().collect(),
        };
        if items.len() > ROUNDS || items.iter().any(|item| is_open(item)) {
            let place = state.place(command.span);
            let reason = format!("{name}, one of an unknown list");
            let is_given = items.iter().any(|item| self.is_given_text(item));
            let hole = if is_given {
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

    pub(crate) fn run_while(
        &mut self,
        condition: &StmtSeq,
        body: &StmtSeq,
        enters: bool,
        span: Span,
        state: State,
    ) -> Vec<State> {
        let (mut states, mut left) = (vec![state], Vec::new());
        for _ in 0..ROUNDS {
            self.conditions += 1;
            let decided = self.run_list(condition, states.clone());
            self.conditions -= 1;
            let mut entering = Vec::new();
            for state in decided {
                match state.status {
                    _ if state.flow != Flow::Next => left.push(state),
                    None => left.extend(self.run_some_rounds(body, state, span)),
                    Some(holds) if holds == enters => entering.push(state),
                    Some(_) => left.push(State {
                        status: Some(true),
                        ..state
                    }),
                }
            }
            let (going, leaving) = self.run_round(body, entering);
            left.extend(leaving);
            if going.is_empty() {
                return self.join(left);
            }
            let before = std::mem::replace(&mut states, self.join(going));
            states.iter_mut().for_each(|state| state.status = Some(true));
            // An iteration that changes nothing repeats forever.
            if states
                .iter()
                .all(|state| before.iter().any(|other| other.is_like(state)))
            {
                left.extend(states.into_iter().map(|state| State {
                    flow: Flow::Replaced,
                    ..state
                }));
                return self.join(left);
            }
            if self.is_spent() {
                break;
            }
        }
        for state in states {
            self.assume(
                "loop",
                &state.place(span),
                "the rounds of the loop are not counted".to_owned(),
            );
            left.extend(self.run_some_rounds(body, state, span));
        }
        self.join(left)
    }
}
