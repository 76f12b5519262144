//! Conditionals and loops: decided conditions run one branch, undecided ones fork.

use shuck_ast::{CaseCommand, CaseTerminator, ForCommand, IfCommand, StmtSeq};

use crate::Rank;
use crate::conditions::either;
use crate::reader::{ROUNDS, Reader};
use crate::state::{Flow, State};
use crate::value::is_open;

/// The maximum branches of one `if` or `case`.
const BRANCHES: usize = 200;
/// The maximum rounds of a loop with an unknown condition.
const GUESSED_ROUNDS: usize = 2;

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
            self.assume_at("reaches", place, "the script goes on here and reaches its program");
            return others(self);
        }
        states
    }

    pub(crate) fn run_if(&mut self, command: &IfCommand, state: State) -> Vec<State> {
        let mut branches = vec![(&command.condition, &command.then_branch)];
        branches.extend(command.elif_branches.iter().map(|(condition, body)| (condition, body)));
        if branches.len() > BRANCHES {
            return self.skip_branches(state);
        }
        let states = self.run_branches(&branches, command.else_branch.as_ref(), state);
        self.join(states)
    }

    fn skip_branches(&mut self, mut state: State) -> Vec<State> {
        self.lose_variables(&mut state, "more branches than are followed");
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
        let decided = self.in_condition(|reader| reader.run_list(condition, vec![state]));
        let mut states = Vec::new();
        for state in decided {
            let place = state.place(condition.span);
            let then = |reader: &mut Self, state| reader.run_list(body, vec![state]);
            let other = |reader: &mut Self, state| reader.run_branches(rest, otherwise, state);
            let copy = state.clone();
            match state.status {
                _ if state.flow != Flow::Next => states.push(state),
                None => {
                    states.extend(then(self, state.branch(&place, true)));
                    states.extend(other(self, copy.branch(&place, false)));
                }
                Some(holds) => {
                    let run = |it: &mut Self| if holds { then(it, state) } else { other(it, state) };
                    let rest = |it: &mut Self| if holds { other(it, copy) } else { then(it, copy) };
                    states.extend(self.run_unless_dead_end(run, rest, &place));
                }
            }
        }
        states
    }

    pub(crate) fn run_case(&mut self, command: &CaseCommand, mut state: State) -> Vec<State> {
        let subject = self.in_condition(|reader| reader.word_text(&command.word, &mut state));
        if command.cases.len() > BRANCHES {
            return self.skip_branches(state);
        }
        let place = self.place.clone();
        let mut hits = Vec::new();
        let mut match_is_certain = false;
        for item in &command.cases {
            let mut holds = Some(false);
            for pattern in &item.patterns {
                let pattern = self.case_pattern(pattern, &mut state);
                holds = either(holds, self.match_text(&subject, &pattern, &state));
            }
            // `;&` and `;;&` continue with the next item.
            let goes_on = item.terminator != CaseTerminator::Break;
            if goes_on {
                self.assume(
                    "construct",
                    "the branches of `case` that go on keep the loader variables",
                );
            }
            hits.extend((holds != Some(false)).then_some(item));
            match_is_certain = holds == Some(true) && !goes_on;
            if match_is_certain {
                break;
            }
        }
        if let (true, [only]) = (match_is_certain, &*hits) {
            let copy = state.clone();
            let all = |reader: &mut Self| {
                let mut states = Vec::new();
                for item in &command.cases {
                    states.extend(reader.run_list(&item.body, vec![copy.clone()]));
                }
                reader.join(states)
            };
            return self.run_unless_dead_end(|reader| reader.run_list(&only.body, vec![state]), all, &place);
        }
        let mut states = Vec::new();
        for item in &hits {
            let first = item.patterns.first();
            let place = first.map_or_else(|| place.clone(), |first| state.place(first.span));
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

    /// Runs a loop. `head` starts a round: the status of its states tells whether they enter the body. If that is
    /// unknown, zero, one and two rounds are possible.
    pub(crate) fn run_loop(
        &mut self,
        body: &StmtSeq,
        state: State,
        mut head: impl FnMut(&mut Self, Vec<State>) -> Vec<State>,
    ) -> Vec<State> {
        let place = self.place.clone();
        let (mut states, mut left, mut guesses) = (vec![state], Vec::new(), 0);
        for _ in 0..ROUNDS {
            let before = states.clone();
            let decided = head(self, states);
            guesses += usize::from(decided.iter().any(|state| state.status.is_none()));
            let mut entering = Vec::new();
            for mut state in decided {
                let enters = state.status.replace(true);
                match enters {
                    _ if state.flow != Flow::Next => left.push(state),
                    Some(true) => entering.push(state),
                    Some(false) => left.push(state),
                    None => {
                        left.push(state.clone().branch(&place, false));
                        entering.extend((guesses <= GUESSED_ROUNDS).then(|| state.branch(&place, true)));
                    }
                }
            }
            let mut going = Vec::new();
            for mut state in self.run_list(body, entering) {
                let goes_on = matches!(state.flow, Flow::Next | Flow::Continue(0 | 1));
                state.flow = match state.flow {
                    Flow::Break(levels) if levels > 1 => Flow::Break(levels - 1),
                    Flow::Continue(levels) if levels > 1 => Flow::Continue(levels - 1),
                    Flow::Break(_) | Flow::Continue(_) => Flow::Next,
                    flow => flow,
                };
                state.status = if goes_on { Some(true) } else { state.status };
                if goes_on { &mut going } else { &mut left }.push(state);
            }
            states = self.join(going);
            let mut after = states.iter().map(State::loader_key);
            if guesses == GUESSED_ROUNDS && after.any(|key| before.iter().all(|state| state.loader_key() != key)) {
                self.assume("loop", "the loop runs at most twice");
            }
            if states.is_empty() || self.is_spent() {
                break;
            }
        }
        if !states.is_empty() {
            self.assume("loop", "the rounds of the loop are not counted");
        }
        left.extend(states);
        self.join(left)
    }

    pub(crate) fn run_for(&mut self, command: &ForCommand, mut state: State) -> Vec<State> {
        let name = match &*command.targets {
            [target] if let Some(name) = &target.name => name.to_string(),
            _ => return self.skip(state),
        };
        let items = match &command.words {
            Some(words) => self.all_fields(words, &mut state),
            None => state.arguments.iter().skip(1).cloned().collect(),
        };
        if items.len() >= ROUNDS || items.iter().any(|item| is_open(item)) {
            let reason = format!("{name}, one of an unknown list");
            let is_given = items.iter().any(|item| self.is_given_text(item));
            let hole = if is_given {
                self.given_hole(&reason)
            } else {
                self.hole(&reason)
            };
            state.set_text(&name, hole);
            return self.run_some_rounds(&command.body, state);
        }
        let mut rounds = items.iter();
        self.run_loop(&command.body, state, |_, mut states| {
            let item = rounds.next();
            for state in &mut states {
                state.status = Some(item.is_some());
                item.into_iter().for_each(|item| state.set_text(&name, item));
            }
            states
        })
    }

    /// Runs a loop with an unknown number of rounds.
    pub(crate) fn run_some_rounds(&mut self, body: &StmtSeq, state: State) -> Vec<State> {
        self.run_loop(body, state, |_, mut states| {
            states.iter_mut().for_each(|state| state.status = None);
            states
        })
    }

    /// `while`, and `until` with `enters` false.
    pub(crate) fn run_while(&mut self, condition: &StmtSeq, body: &StmtSeq, enters: bool, state: State) -> Vec<State> {
        let mut before: Vec<State> = Vec::new();
        self.run_loop(body, state, |reader, mut states| {
            // A round that changes nothing repeats forever.
            if states
                .iter()
                .all(|state| before.iter().any(|other| other.is_like(state)))
            {
                states.iter_mut().for_each(|state| state.flow = Flow::Replaced);
                return states;
            }
            before.clone_from(&states);
            let mut decided = reader.in_condition(|reader| reader.run_list(condition, states));
            for state in &mut decided {
                state.status = state.status.map(|holds| holds == enters);
            }
            decided
        })
    }
}
