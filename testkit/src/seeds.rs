//! Selects seeds and cases, runs many seeds in parallel, and reports failures.
#![expect(
    clippy::disallowed_methods,
    reason = "whoever runs the tests may ask for other seeds"
)]

use std::fmt::Write as _;

use crate::parallel::in_parallel;
use crate::parts::is_set;

/// The seeds of a run: those of `CUPTI_AUDIT_CASES=FIRST-LAST` if set. Otherwise `few` from `first` on (`many` with
/// `make test-all`), which are the same in every run, and a tenth of `few` that are new, if [`drawn`] says where.
pub fn chosen(first: u64, few: u64, many: u64) -> Vec<u64> {
    if let Some((first, last)) = asked() {
        return (first..=last).collect();
    }
    let count = if is_set("CUPTI_AUDIT_ALL") { many } else { few };
    let new = drawn().map_or(0..0, |new| new..new + few / 10);
    (first..first + count).chain(new).collect()
}

/// The variable `CUPTI_AUDIT_CASES`, which overrides the seeds: `FIRST-LAST`.
pub fn asked() -> Option<(u64, u64)> {
    let text = variable("CUPTI_AUDIT_CASES")?;
    let (first, last) = text.split_once('-').unwrap_or((&text, &text));
    Some((number(first), number(last)))
}

/// The first new seed, in the variable `CUPTI_AUDIT_NEW_CASES`. `make test` draws it from the clock and prints it.
pub fn drawn() -> Option<u64> {
    variable("CUPTI_AUDIT_NEW_CASES").map(|text| number(&text))
}

fn variable(name: &str) -> Option<String> {
    std::env::var_os(name).map(|text| text.into_string().expect("the seeds are numbers"))
}

fn number(text: &str) -> u64 {
    text.parse().expect("the seeds are numbers")
}

/// Whether a test asks the case of this name: `CUPTI_AUDIT_CASE=WORDS` selects those with these words in their name.
pub fn is_asked(name: &str) -> bool {
    std::env::var("CUPTI_AUDIT_CASE").map_or(true, |words| name.contains(&words))
}

/// Runs `check` on all seeds in parallel, and returns the failures in the order of the seeds.
pub fn each_seed(seeds: &[u64], check: impl Fn(u64) -> Result<(), String> + Sync) -> Vec<(u64, String)> {
    let results = in_parallel(seeds.len(), |at| {
        let seed = *seeds.get(at)?;
        Some((seed, check(seed).err()?))
    });
    results.into_iter().flatten().collect()
}

/// Panics with the first few failures in full and all failed seeds.
///
/// # Panics
///
/// If a case failed.
pub fn report(failures: &[(u64, String)]) {
    let mut text = String::new();
    let shown = if asked().is_some() { 60 } else { 6 };
    for (_, difference) in failures.iter().take(shown) {
        let _ = writeln!(text, "{difference}\n");
    }
    let seeds: Vec<u64> = failures.iter().map(|(seed, _)| *seed).collect();
    assert!(failures.is_empty(), "{text}{} cases differ: {seeds:?}", failures.len());
}
