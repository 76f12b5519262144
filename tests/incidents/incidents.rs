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
        compare_page(&page(&outcomes));
        wrong.extend(matrix.complaints.iter().cloned());
    }
    for (name, case, outcome) in &outcomes {
        wrong.extend(complaint(case, outcome).map(|words| format!("{name}: {words}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    println!("{}\n{}", counts(&outcomes), matrix.table());
}

/// The difference from the expected result.
fn complaint(case: &Case, outcome: &Outcome) -> Option<String> {
    if !outcome.reproduced {
        return Some(format!("the symptom is another one:\n{}", outcome.log));
    }
    let named = outcome.named == case.rule;
    let cured = is_cured(case, outcome);
    if !case.by_hand.is_empty() && !outcome.commands.is_empty() {
        return Some("commands are printed, so by_hand is not used".to_owned());
    }
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

Search this page for your error text, or run `cupti-audit explain ERROR`. Different failures end in the same error text.
`cupti-audit IMAGE` tells you which one you have, and prints the commands that fit your image.

The commands of an entry are for the image of its test. Most of these images are Debian 12, also those that stand for
NVIDIA's images. So for your image, use the commands that `cupti-audit IMAGE` prints.

Run the commands as root in the image, for example in a `RUN` step. Run `cupti-audit` and `pip download` on your machine.
*`dockerfile` fixes it* means [`cupti-audit dockerfile IMAGE --phase PHASE`](dockerfile.md). *`slim` fixes it* means
[`cupti-audit slim IMAGE --phase PHASE`](slim.md), with `--cupti-from` if the library is missing. Unless
the entry says otherwise, its commands fix it, too.

A test makes each image and starts the failing program with the real loader. It applies the fix that the audit prints,
starts the program again, and audits the image again. pip, uv, apt, dpkg, dnf and rpm are real. conda is a stand-in, and the host
is a set of recorded files in `/proc` and `/dev`. A name with a number in brackets is a GitHub issue; PR marks a pull
request.
";

/// The page of the documentation, grouped by class.
fn page(outcomes: &[(&String, &Case, Outcome)]) -> String {
    let mut classes: BTreeMap<&str, String> = BTreeMap::new();
    for (_, case, outcome) in outcomes {
        *classes.entry(&case.class).or_default() += &entry(case, outcome);
    }
    let mut page = HEAD.to_owned();
    for (class, text) in classes {
        let _ = write!(page, "\n## {class}\n{text}");
    }
    page
}

/// One incident: the error, its cause, the rule and the fix.
fn entry(case: &Case, outcome: &Outcome) -> String {
    let mut text = format!("\n### {}\n\n", case.title);
    if !case.symptom_is_of_probe {
        let _ = writeln!(text, "`{}`\n", case.symptom);
    }
    let link = case.link.as_ref().map(|link| format!(" ({link})"));
    let _ = writeln!(text, "{}{}\n", case.story.trim(), link.unwrap_or_default());
    let rule = &outcome.named;
    let _ = writeln!(text, "Rule: [{rule}](rules.md#{rule}).{}", programs(case, outcome));
    let note = case.not_cured.as_ref().or(case.known_wrong.as_ref());
    let words = outcome.commands.is_empty().then(|| format!("{}.", outcome.fix_text));
    if let Some(fix) = note.map(|note| note.trim().to_owned()).or(words) {
        let _ = writeln!(text, "\n**Fix:** {fix}");
    }
    let (instructions, commands): (Vec<_>, Vec<_>) =
        (outcome.commands.iter().cloned()).partition(|command| command.starts_with("ENV "));
    for (lines, language) in [(commands, "sh"), (instructions, "dockerfile")] {
        if !lines.is_empty() {
            let _ = writeln!(text, "\n```{language}\n{}\n```", lines.join("\n"));
        }
    }
    text
}

/// Whether `dockerfile` and `slim` fix an incident, as sentences. Empty for a Dockerfile or a host, which they do not get.
fn programs(case: &Case, outcome: &Outcome) -> String {
    if case.host.is_some() || case.build_file.is_some() {
        return String::new();
    }
    match (&outcome.dockerfile, &outcome.slim) {
        (Cure::Cures, Cure::Cures) => " `dockerfile` and `slim` fix it.",
        (Cure::Cures, Cure::Not(_)) => " `dockerfile` fixes it, `slim` does not.",
        (Cure::Not(_), Cure::Cures) => " `slim` fixes it, `dockerfile` does not.",
        (Cure::Not(_), Cure::Not(_)) => " `dockerfile` and `slim` do not fix it.",
    }
    .to_owned()
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
        "docs/incidents.md differs from the runs: {differs:?}\nUPDATE_DOCS=1 cargo test --test incidents writes it"
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
