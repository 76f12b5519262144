//! The assumption that the run neither passes nor mounts anything that the command's scripts test, with the names
//! involved.
//!
//! The names are only for display; results come from the two readings of the command.

use std::collections::{BTreeMap, BTreeSet};

use container_start::{Assumption, Hole, ValuePiece};

use crate::facts::objects::command_entry::CommandEntry;
use crate::facts::objects::process_context::ProcessContext;

/// The assumption that the command starts none of the processes at these indexes of `CommandReading::when_given`.
pub(crate) fn find_given_assumption(context: &ProcessContext, deciding: &BTreeSet<usize>) -> Option<Assumption> {
    let commands = &context.commands;
    let entries = deciding.iter().filter_map(|at| commands.when_given.get(*at));
    let mut causes = GivenCauses::default();
    for entry in entries {
        // An unknown value is more specific than the conditions before it.
        if entry.unknown.is_empty() {
            causes.add_conditions(context, entry);
        } else {
            causes.add_holes(context, entry);
        }
    }
    (!deciding.is_empty()).then(|| Assumption {
        unset: causes.variables.iter().cloned().collect(),
        ..Assumption::at("given@config".to_owned(), "config", causes.words())
    })
}

/// The inputs that a run may provide.
#[derive(Default)]
struct GivenCauses {
    /// The conditions, with the variables in each.
    conditions: BTreeMap<String, BTreeSet<String>>,
    /// The unknown values.
    holes: BTreeSet<Hole>,
    /// The variables whose values would decide.
    variables: BTreeSet<String>,
}

impl GivenCauses {
    /// Adds the conditions that depend only on the run's inputs.
    fn add_conditions(&mut self, context: &ProcessContext, entry: &CommandEntry) {
        for branch in &entry.branches {
            let mut known = context.commands.entries.iter().flat_map(|entry| &entry.branches);
            if known.any(|known| known.place == branch.place) {
                continue;
            }
            let names = tested_names(context, &branch.place);
            self.variables.extend(names.iter().cloned());
            self.conditions.insert(branch.place.clone(), names);
        }
    }

    fn add_holes(&mut self, context: &ProcessContext, entry: &CommandEntry) {
        for (variable, value) in &entry.unknown {
            for piece in &value.pieces {
                let ValuePiece::Hole(hole) = piece else { continue };
                let names = &variable_names(&hole.reason) | &tested_names(context, &hole.place);
                // The final value of the loader's variable always decides.
                let own = names.is_empty().then(|| (*variable).to_owned());
                self.variables.extend(names.into_iter().chain(own));
                self.holes.insert(hole.clone());
            }
        }
    }

    fn words(&self) -> String {
        let mut words = Vec::new();
        for (place, names) in &self.conditions {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            words.push(if names.is_empty() {
                format!("the run brings nothing that {place} tests")
            } else {
                format!("the run does not set {}, which {place} tests", names.join(" or "))
            });
        }
        for Hole { place, reason } in &self.holes {
            words.push(format!("the run does not bring {reason} ({place})"));
        }
        if words.is_empty() {
            return "the run brings nothing that the command tests".to_owned();
        }
        words.join("; ")
    }
}

/// The variables in a condition's line that neither the image nor the script sets.
fn tested_names(context: &ProcessContext, place: &str) -> BTreeSet<String> {
    let found = place.rsplit_once(':').and_then(|(path, line)| {
        let text = context.rootfs.content(path.as_bytes())?;
        Some((String::from_utf8_lossy(text), line.parse::<usize>().ok()?))
    });
    let Some((script, line)) = found else {
        return BTreeSet::new();
    };
    let mut names = variable_names(script.lines().nth(line.saturating_sub(1)).unwrap_or_default());
    names.retain(|name| !context.commands.environment.contains_key(name) && !is_assigned(&script, name));
    names
}

/// The names after `$` and `${`.
fn variable_names(text: &str) -> BTreeSet<String> {
    let expansions = text.split('$').skip(1);
    let names = expansions.map(|rest| {
        let rest = rest.strip_prefix('{').unwrap_or(rest);
        let end = rest.find(|letter: char| !is_of_name(letter)).unwrap_or(rest.len());
        rest.get(..end).unwrap_or_default().to_owned()
    });
    names
        .filter(|name| !name.is_empty() && !name.starts_with(|letter: char| letter.is_ascii_digit()))
        .collect()
}

/// Whether a script may set a variable itself, so that a passed value does not decide.
fn is_assigned(script: &str, name: &str) -> bool {
    let assignment = format!("{name}=");
    let mut found = script.match_indices(&assignment);
    let is_assigned = found.any(|(at, _)| {
        let before = script.get(..at).unwrap_or_default();
        before.is_empty() || before.ends_with(|letter: char| letter.is_whitespace() || ";(&|".contains(letter))
    });
    is_assigned || script.contains(&format!("for {name} in "))
}

fn is_of_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}
