//! The matrix of fixes and situations: every fix that the program can print, and the incidents that applied it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use serde::Deserialize;

use crate::case::Case;
use crate::run::Outcome;

/// `tests/incidents/fixes.yaml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct KnownFixes {
    commands: Vec<CommandKind>,
    not_applied: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CommandKind {
    name: String,
    parts: Vec<String>,
}

/// A finished incident: its name, its file, its outcome, and whether the fix worked.
pub type RunCase<'a> = (&'a str, &'a Case, &'a Outcome, bool);

/// The fixes that incidents applied.
pub struct Matrix {
    /// The rows of a table: a fix, its situations, the number of incidents that apply it, and how many of them it
    /// fixed.
    rows: Vec<(String, BTreeSet<String>, usize, usize)>,
    /// The rules whose fix no incident applies, with the reason.
    not_applied: BTreeMap<String, String>,
    /// Disagreements between `fixes.yaml` and the runs.
    pub complaints: Vec<String>,
}

impl Matrix {
    /// The matrix of all incidents.
    pub fn of(cases: &[RunCase<'_>]) -> Self {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(manifest.join("tests/incidents/fixes.yaml")).unwrap();
        let known: KnownFixes = serde_saphyr::from_str(&text).unwrap();
        let mut complaints = Vec::new();
        let kinds: Vec<(&RunCase, BTreeSet<usize>)> = (cases.iter())
            .map(|case| {
                let of_command = |command: &String| {
                    let kind = known.commands.iter().position(|kind| has_parts(command, &kind.parts));
                    kind.ok_or_else(|| format!("{}: {command} is of no kind in fixes.yaml", case.0))
                };
                let found = case.2.commands.iter().map(of_command);
                let (kinds, unknown): (Vec<_>, Vec<_>) = found.partition(Result::is_ok);
                complaints.extend(unknown.into_iter().filter_map(Result::err));
                (case, kinds.into_iter().flatten().collect())
            })
            .collect();
        let mut rows = Vec::new();
        for (number, kind) in known.commands.iter().enumerate() {
            let with = kinds.iter().filter(|(_, kinds)| kinds.contains(&number));
            rows.push(row(&kind.name, with.map(|(case, _)| **case)));
        }
        let mut not_applied = known.not_applied;
        let files = std::fs::read_dir(manifest.join("rules")).unwrap();
        let rules: BTreeSet<String> = files
            .map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
            .collect();
        for rule in rules {
            let of_rule = cases.iter().filter(|case| case.1.rule == rule);
            let mut by_hand = of_rule
                .clone()
                .filter(|case| case.2.commands.is_empty() && case.3)
                .peekable();
            let is_applied = of_rule.clone().any(|case| case.3);
            match (is_applied, not_applied.contains_key(&rule)) {
                (true, true) => complaints.push(format!("{rule} is applied: not-applied of fixes.yaml is wrong")),
                (false, false) => complaints.push(format!(
                    "no case applies the fix of {rule}, and fixes.yaml has no reason"
                )),
                _ => {}
            }
            if by_hand.peek().is_some() {
                rows.push(row(&format!("the fix text of {rule}, by hand"), by_hand.copied()));
            }
        }
        not_applied.retain(|rule, _| {
            manifest.join(format!("rules/{rule}.yaml")).exists() || {
                complaints.push(format!("fixes.yaml names {rule}, which is no rule"));
                false
            }
        });
        let none = rows.iter().filter(|row| row.2 == 0);
        complaints.extend(none.map(|(name, ..)| format!("no case applies: {name}")));
        Self {
            rows,
            not_applied,
            complaints,
        }
    }

    /// The counts in two sentences.
    fn counts(&self) -> String {
        let situations: BTreeSet<&String> = self.rows.iter().flat_map(|row| &row.1).collect();
        let pairs: usize = self.rows.iter().map(|row| row.1.len()).sum();
        let cure = self.rows.iter().filter(|row| row.3 > 0).count();
        format!(
            "{} kinds of fix are applied in {} kinds of image, {pairs} combinations; {cure} kinds cure at least once. \
             No test applies the fix of {} rules.",
            self.rows.len(),
            situations.len(),
            self.not_applied.len()
        )
    }

    /// The counts and the table, to print.
    pub fn table(&self) -> String {
        let mut text = format!("{}\n\nfix | kinds of image | cases | cured\n", self.counts());
        for (name, situations, applied, cured) in &self.rows {
            let situations: Vec<&str> = situations.iter().map(String::as_str).collect();
            let _ = writeln!(text, "{name} | {} | {applied} | {cured}", situations.join(", "));
        }
        text
    }
}

fn row<'a>(name: &str, cases: impl Iterator<Item = RunCase<'a>>) -> (String, BTreeSet<String>, usize, usize) {
    let cases: Vec<RunCase> = cases.collect();
    let situations = cases.iter().flat_map(|case| case.1.situations.iter().cloned());
    let cured = cases.iter().filter(|case| case.3).count();
    (name.to_owned(), situations.collect(), cases.len(), cured)
}

/// Whether a command contains the parts in this order.
fn has_parts(command: &str, parts: &[String]) -> bool {
    let rest = parts.iter().try_fold(command, |rest, part| {
        rest.split_once(part.as_str()).map(|(_, rest)| rest)
    });
    rest.is_some()
}
