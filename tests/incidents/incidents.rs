//! All incidents, and their counts.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use testkit::parallel::in_parallel;

use crate::case::{Case, cases};
use crate::kit::Kit;
use crate::matrix::Matrix;
use crate::run::{Cure, Outcome, run};

/// `CUPTI_AUDIT_INCIDENT=NAME,…` runs only these incidents and prints all output.
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
    let run_cases = outcomes
        .iter()
        .map(|(name, case, outcome)| (name.as_str(), *case, outcome, is_cured(case, outcome)));
    let matrix = Matrix::of(&run_cases.collect::<Vec<_>>());
    let mut wrong = Vec::new();
    if chosen.is_some() {
        for (name, _, outcome) in &outcomes {
            println!("{name}\n{}", outcome.log);
        }
    } else {
        compare_page(&(page(&outcomes) + &matrix.page()));
        wrong.extend(matrix.complaints.iter().cloned());
    }
    for (name, case, outcome) in &outcomes {
        wrong.extend(complaint(case, outcome).map(|words| format!("{name}: {words}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    println!("{}\n{}", counts(&outcomes), matrix.counts());
}

/// The difference from the expected result.
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

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/incidents.md");

const HEAD: &str = "\
# Find your error

Each entry is a failure that people met, or its variant for other tools in the image. A test makes an image that fails in
this way, audits it, runs the printed commands, and runs the failing program again. The loader, pip, uv, apt, dpkg, dnf and
rpm are real. A small program stands in for conda, and recorded files of `/proc` and `/dev` for hosts. Your image may need
another command: `cupti-audit IMAGE` prints yours. `cupti-audit explain ERROR` explains an error text without an image.

The last section lists every fix and where it was applied.
";

/// The page of the documentation, grouped by class.
fn page(outcomes: &[(&String, &Case, Outcome)]) -> String {
    let mut classes: BTreeMap<&str, String> = BTreeMap::new();
    for (name, case, outcome) in outcomes {
        let text = classes.entry(&case.class).or_default();
        let _ = writeln!(text, "\n### {}\n\n`{}`\n", name.replace('-', " "), case.symptom);
        let link = case.link.as_ref().map(|link| format!(" ({link})"));
        let _ = writeln!(text, "{}{}\n", case.story.trim(), link.unwrap_or_default());
        let rule = &outcome.named;
        let _ = writeln!(text, "Found by [{rule}](rules.md#{rule}).");
        let _ = writeln!(text, "{}", cures(case, outcome));
        let notes = case.not_cured.iter().chain(&case.known_wrong);
        notes.for_each(|note| writeln!(text, "Note: {}.", note.trim()).unwrap());
        if !outcome.commands.is_empty() {
            let _ = writeln!(text, "\n```sh\n{}\n```", outcome.commands.join("\n"));
        }
    }
    let mut page = HEAD.to_owned();
    for (class, text) in classes {
        let mut class = class.to_owned();
        class[..1].make_ascii_uppercase();
        let _ = write!(page, "\n## {class}\n{text}");
    }
    page
}

/// The methods that fix an incident, and those that do not, with the reason.
fn cures(case: &Case, outcome: &Outcome) -> String {
    if case.host.is_some() {
        return "The fix is one of the host; with what it says, `verify` passes.".to_owned();
    }
    if case.build_file.is_some() {
        return "`check` says it of the Dockerfile; with the fix, what is built works.".to_owned();
    }
    let fix = fix(case, outcome);
    let ways = [
        (
            if case.by_hand.is_empty() {
                "the commands"
            } else {
                "what the fix says"
            },
            fix.as_str(),
        ),
        ("`dockerfile`", words(&outcome.dockerfile)),
        ("`slim`", words(&outcome.slim)),
    ];
    let (cure, not): (Vec<_>, Vec<_>) = ways.into_iter().partition(|(_, came)| *came == words(&Cure::Cures));
    let cure: Vec<&str> = cure.iter().map(|(way, _)| *way).collect();
    let not: Vec<String> = not.iter().map(|(way, why)| format!("{way} ({why})")).collect();
    let said = [("Cured by", cure.join(", ")), ("Not cured by", not.join(", "))];
    let said = said.iter().filter(|(_, ways)| !ways.is_empty());
    said.map(|(words, ways)| format!("{words} {ways}."))
        .collect::<Vec<_>>()
        .join(" ")
}

/// Compares the page with the results, or writes it.
fn compare_page(page: &str) {
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(PAGE, page).unwrap();
    }
    let there = std::fs::read_to_string(PAGE).unwrap_or_default();
    let differs = page.lines().zip(there.lines()).find(|(is, there)| is != there);
    assert!(
        page == there,
        "docs/incidents.md is not what the runs came to: {differs:?}\nUPDATE_DOCS=1 cargo test --test incidents remakes it"
    );
}

/// Whether the printed commands fix the incident and are the expected ones.
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

/// The counts of each class, and the totals.
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
