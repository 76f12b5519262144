//! Does the reader predict the environments that programs really get?
//!
//! The judge is the real bash, dash and `BusyBox` with real tools. Each case runs in its own root, where a probe logs
//! the loader variables it gets. A wrong prediction without an assumption fails the test, and so do too many open
//! ones. `CONTAINER_START_CASE=NAME` runs and shows only the cases of that name. Each seed inserts a statement about
//! a loader variable somewhere in a script; `CUPTI_AUDIT_CASES=FIRST-LAST` selects other seeds.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::case_file::{Case, CaseFile, Shell, read_cases};
use crate::comparison::{Agreement, compare};
use crate::real_root::{RootFiles, resolve_in};
use crate::real_run::{Judge, RealStart, environment};
use container_start::{
    ContainerCommand, ContainerStart, LOADER_VARIABLES, LauncherTable, Value, ValuePiece, read_start,
};
use testkit::parallel::in_parallel;
use testkit::random::Random;
use testkit::seeds;

/// The maximum percentage of starts that are open, or wrong under an assumption.
const OPEN_PERCENT: usize = 25;
/// Statements about loader variables.
const STATEMENTS: &str = include_str!("../data/statements.txt");

/// The prediction and the real run of one case in one shell.
struct Outcome<'a> {
    case: &'a Case,
    shell: Shell,
    start: ContainerStart,
    real: Vec<RealStart>,
    printed: String,
    agreement: Agreement,
}

#[test]
fn predicted_environments_match_real_shells() {
    let Some(judge) = Judge::new() else { return };
    let launchers = launcher_table();
    let scripts = read_cases("scripts");
    let mutants = seeds::chosen(1, 150, 500)
        .into_iter()
        .filter_map(|seed| with_statement(&scripts, seed))
        .collect();
    let sets = [
        ("idioms", read_cases("idioms")),
        ("mutants", mutants),
        ("scripts", scripts),
    ];
    let silent = sets.map(|(name, cases)| judge_cases(&judge, &launchers, name, &cases));
    assert_eq!(silent, [0, 0, 0], "starts that were read wrongly without a word");
}

/// A script with a statement before a random line, if a shell can still parse it.
fn with_statement(scripts: &[Case], seed: u64) -> Option<Case> {
    let mut random = Random::new(seed);
    let mut case = random.one_of(scripts).clone();
    let statements: Vec<&str> = STATEMENTS.split_terminator("\n\n").skip(1).collect();
    let statement = random.pick(&statements);
    let mut lines: Vec<&str> = case.script.lines().collect();
    let first = usize::from(case.script.starts_with("#!"));
    lines.insert(first + random.below(lines.len().checked_sub(first)? + 1), statement);
    case.script = lines.join("\n") + "\n";
    case.name = format!("{} (seed {seed})", case.name);
    case.files.push(CaseFile {
        path: "/opt/added/lib/env.sh".to_owned(),
        mode: 0o755,
        text: "#!/bin/sh\nexport LD_LIBRARY_PATH=\"/opt/added/lib:${LD_LIBRARY_PATH:-}\"\n".to_owned(),
    });
    parses(&case.script).then_some(case)
}

fn parses(script: &str) -> bool {
    let mut child = Command::new("bash")
        .arg("-n")
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The write fails if the shell stops at an early error.
    let _ = child.stdin.take().unwrap().write_all(script.as_bytes());
    let output = child.wait_with_output().unwrap();
    // For an unterminated heredoc, bash only prints a warning.
    output.status.success() && output.stderr.is_empty()
}

/// Runs cases. Returns the number of wrong predictions without an assumption.
fn judge_cases(judge: &Judge, launchers: &LauncherTable, name: &str, cases: &[Case]) -> usize {
    let only = std::env::var("CONTAINER_START_CASE").ok();
    let chosen = cases
        .iter()
        .filter(|case| only.as_ref().is_none_or(|only| *only == case.name));
    let runs: Vec<(&Case, Shell)> = chosen
        .flat_map(|case| case.shells.iter().map(move |shell| (case, *shell)))
        .collect();
    let outcomes = in_parallel(runs.len(), |number| {
        let (case, shell) = runs[number];
        run_case(judge, launchers, case, shell)
    });
    let skipped = outcomes.iter().filter(|outcome| outcome.is_none()).count();
    let outcomes: Vec<Outcome> = outcomes.into_iter().flatten().collect();
    let open = outcomes.iter().filter(|one| one.agreement >= Agreement::Open).count();
    assert!(
        only.is_some() || open * 100 <= outcomes.len() * OPEN_PERCENT,
        "{name}: {open} of {} starts are open",
        outcomes.len()
    );
    for outcome in &outcomes {
        let is_silent = outcome.agreement == Agreement::Silent;
        let is_listed = only.is_some()
            || std::env::var("CONTAINER_START_LIST").is_ok_and(|list| {
                list == format!("{:?}", outcome.agreement) || (list == "Nothing" && outcome.real.is_empty())
            });
        if is_silent || is_listed {
            show(outcome);
        }
    }
    summarize(name, &outcomes, skipped)
}

fn launcher_table() -> LauncherTable {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../profiles/launchers.yaml");
    let text = fs::read_to_string(path).unwrap();
    serde_saphyr::from_str(&text).unwrap()
}

/// Reads a case's start and then runs it; `None` if the root lacks something it needs.
fn run_case<'a>(judge: &Judge, launchers: &LauncherTable, case: &'a Case, shell: Shell) -> Option<Outcome<'a>> {
    let overlay = judge.overlay(case, shell);
    let upper = overlay.path().join("upper");
    let roots = [&*upper, &*judge.template(shell).path];
    if case.needs.iter().any(|path| resolve_in(&roots, path).is_none()) {
        return None;
    }
    let files = RootFiles::new(&upper, judge.template(shell), case, shell);
    let command = ContainerCommand {
        words: case.words.clone(),
        environment: environment(case).into_iter().collect::<BTreeMap<_, _>>(),
        user: if case.user == 0 {
            String::new()
        } else {
            case.user.to_string()
        },
        directory: case.directory.clone(),
        machine: std::env::consts::ARCH.to_owned(),
    };
    // Read before the run, which may change the files.
    let start = read_start(&command, &files, launchers);
    let (real, printed) = judge.run(overlay.path(), case, shell);
    let agreement = compare(&start, &real, &roots);
    Some(Outcome {
        case,
        shell,
        start,
        real,
        printed,
        agreement,
    })
}

/// Prints the counts. Returns the number of `Silent` results.
fn summarize(name: &str, outcomes: &[Outcome], skipped: usize) -> usize {
    let count = |agreement: Agreement| outcomes.iter().filter(|outcome| outcome.agreement == agreement).count();
    let cases: BTreeSet<&str> = outcomes.iter().map(|outcome| &*outcome.case.name).collect();
    let shells: BTreeSet<Shell> = outcomes.iter().map(|outcome| outcome.shell).collect();
    let changed = outcomes.iter().filter(|outcome| is_changed(outcome)).count();
    let without = outcomes.iter().filter(|outcome| outcome.real.is_empty()).count();
    println!(
        "{name}: {} cases in {} shells, {} runs: proved {}, one of several {}, assumed right {}, open {}, open misfit {}, assumed {}, \
         silent {}; {changed} change a loader variable, {without} start nothing, {skipped} skipped",
        cases.len(),
        shells.len(),
        outcomes.len(),
        count(Agreement::Proved),
        count(Agreement::OneOfSeveral),
        count(Agreement::AssumedRight),
        count(Agreement::Open),
        count(Agreement::OpenMisfit),
        count(Agreement::Assumed),
        count(Agreement::Silent),
    );
    count(Agreement::Silent)
}

/// Whether a program gets other loader variables than those of the image.
fn is_changed(outcome: &Outcome) -> bool {
    let image: BTreeMap<String, String> = environment(outcome.case).into_iter().collect();
    let image = LOADER_VARIABLES.map(|name| image.get(name).cloned());
    outcome.real.iter().any(|real| real.variables != image)
}

fn show(outcome: &Outcome) {
    let Outcome { case, shell, start, .. } = outcome;
    println!("---- {:?}: {} ({})", outcome.agreement, case.name, shell.name());
    for (name, value) in &case.environment {
        println!("  env {name}={value}");
    }
    println!("  run {:?}", case.words);
    for file in case.files_for(*shell) {
        println!("  {}:", file.path);
        file.text.lines().for_each(|line| println!("    {line}"));
    }
    for real in &outcome.real {
        let variables = LOADER_VARIABLES.iter().zip(&real.variables);
        let variables = variables.filter_map(|(name, value)| Some(format!(" {name}={:?}", value.as_ref()?)));
        println!(
            "  real {} (user {}, in {}):{}",
            real.path,
            real.user,
            real.directory,
            variables.collect::<String>()
        );
    }
    for program in &start.programs {
        let words: Vec<String> = program.words.iter().map(text_of).collect();
        println!(
            "  read {:?} {words:?} from {}, {:?}",
            program.path, program.place, program.rank
        );
        for environment in &program.environments {
            let variables = LOADER_VARIABLES
                .iter()
                .filter_map(|name| Some((name, environment.variables.get(*name)?)));
            let variables = variables.map(|(name, value)| format!("{name}={:?}", text_of(value)));
            let variables: Vec<String> = variables.collect();
            println!("    with {}", variables.join(" "));
        }
        for assumption in &program.assumptions {
            println!("    assumes {}: {}", assumption.id, assumption.text);
        }
    }
    outcome
        .printed
        .lines()
        .take(8)
        .for_each(|line| println!("  said {line}"));
}

/// The value as text, with holes in angle brackets.
fn text_of(value: &Value) -> String {
    let pieces = value.pieces.iter().map(|piece| match piece {
        ValuePiece::Text(text) => text.clone(),
        ValuePiece::Hole(hole) => format!("<{} {}>", hole.place, hole.reason),
    });
    pieces.collect()
}
