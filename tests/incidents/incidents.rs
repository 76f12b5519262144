//! All cases, and what is counted of them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use testkit::parallel::in_parallel;

use crate::case::{Case, cases};
use crate::kit::Kit;
use crate::run::{Cure, Outcome, run};

/// `CUPTI_AUDIT_INCIDENT=NAME,…` runs these cases and shows all that was said.
#[test]
fn what_is_printed_names_the_cause_and_cures_it() {
    let Some(kit) = Kit::make() else { return };
    let chosen = std::env::var("CUPTI_AUDIT_INCIDENT").ok();
    let is_chosen = |name: &String| {
        chosen
            .as_ref()
            .is_none_or(|chosen| chosen.split(',').any(|chosen| chosen == name))
    };
    let cases: Vec<(String, Case)> = cases().into_iter().filter(|(name, _)| is_chosen(name)).collect();
    assert!(!cases.is_empty(), "no case is named {chosen:?}");
    let outcomes = in_parallel(cases.len(), |number| {
        let (name, case) = &cases[number];
        let folder = tempfile::tempdir_in(kit.path("")).unwrap();
        let outcome = run(&kit, case, folder.path());
        (name, case, outcome)
    });
    if chosen.is_some() {
        for (name, _, outcome) in &outcomes {
            println!("{name}\n{}", outcome.log);
        }
    } else {
        insta::assert_snapshot!(table(&outcomes));
    }
    let mut wrong = Vec::new();
    for (name, case, outcome) in &outcomes {
        wrong.extend(complaint(case, outcome).map(|words| format!("{name}: {words}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    println!("{}", counts(&outcomes));
}

/// What is not as the case says.
fn complaint(case: &Case, outcome: &Outcome) -> Option<String> {
    if !outcome.reproduced {
        return Some(format!("the symptom is another one:\n{}", outcome.log));
    }
    let named = outcome.named == case.rule;
    let cured = is_cured(case, outcome);
    match (&case.known_wrong, &case.not_cured) {
        (Some(_), Some(_)) => Some("known_wrong and not_cured exclude each other".to_owned()),
        (Some(_), None) if named && cured => Some("known_wrong no longer holds".to_owned()),
        (None, Some(_)) if cured => Some("not_cured no longer holds".to_owned()),
        (None, _) if !named => Some(format!("{} is named, not {}", outcome.named, case.rule)),
        (None, None) if !cured => Some(format!("the fix: {}\n{}", fix(case, outcome), outcome.log)),
        _ => None,
    }
}

/// A line for each case.
fn table(outcomes: &[(&String, &Case, Outcome)]) -> String {
    let mut text = String::new();
    for (name, case, outcome) in outcomes {
        let named = if outcome.named == case.rule {
            outcome.named.clone()
        } else {
            format!("{}, not {}", outcome.named, case.rule)
        };
        let [dockerfile, slim] = [&outcome.dockerfile, &outcome.slim].map(words);
        let fix = fix(case, outcome);
        let _ = writeln!(text, "{name} ({}): {named}", case.class);
        let _ = writeln!(text, "    fix: {fix}; dockerfile: {dockerfile}; slim: {slim}");
        for command in &outcome.commands {
            let _ = writeln!(text, "    $ {command}");
        }
    }
    text
}

/// Whether what is printed cures it, and is what is called for.
fn is_cured(case: &Case, outcome: &Outcome) -> bool {
    let is_called_for = |cure: &String| outcome.commands.iter().any(|command| command.contains(cure));
    outcome.fix == Cure::Cures && case.cure.as_ref().is_none_or(is_called_for)
}

fn fix(case: &Case, outcome: &Outcome) -> String {
    match &outcome.fix {
        Cure::Cures if !is_cured(case, outcome) => "cures by other means than are called for".to_owned(),
        cure => words(cure).to_owned(),
    }
}

fn words(cure: &Cure) -> &str {
    match cure {
        Cure::Cures => "cures",
        Cure::Not(why) => why,
    }
}

/// The numbers of each class, and of all.
fn counts(outcomes: &[(&String, &Case, Outcome)]) -> String {
    let mut classes: BTreeMap<&str, Vec<&(&String, &Case, Outcome)>> = BTreeMap::new();
    for outcome in outcomes {
        classes.entry(&outcome.1.class).or_default().push(outcome);
        classes.entry("all incidents").or_default().push(outcome);
    }
    let line = |(class, of): (&&str, &Vec<&(&String, &Case, Outcome)>)| {
        let count =
            |holds: fn(&Case, &Outcome) -> bool| of.iter().filter(|(_, case, outcome)| holds(case, outcome)).count();
        format!(
            "{} of {} {class} agree with the real loader on the cause; {} symptoms reproduced, {} fixes printed, {} cure, {} Dockerfiles cure, {} slim images",
            count(|case, outcome| outcome.named == case.rule),
            of.len(),
            count(|_, outcome| outcome.reproduced),
            count(|_, outcome| !outcome.commands.is_empty()),
            count(is_cured),
            count(|_, outcome| outcome.dockerfile == Cure::Cures),
            count(|_, outcome| outcome.slim == Cure::Cures),
        )
    };
    classes.iter().map(line).collect::<Vec<_>>().join("\n")
}
