//! Selects seeds and cases, runs many seeds in parallel, and reports failures.
#![expect(
    clippy::disallowed_methods,
    reason = "whoever runs the tests may ask for other seeds"
)]

use std::fmt::Write as _;

use crate::parallel::in_parallel;
use crate::parts::is_set;

/// The first and last seed of a run: from `CUPTI_AUDIT_CASES=FIRST-LAST` if set, else `few` seeds from `first` on, or
/// `many` with `make test-all`.
pub fn chosen(first: u64, few: u64, many: u64) -> (u64, u64) {
    let count = if is_set("CUPTI_AUDIT_ALL") { many } else { few };
    asked().unwrap_or((first, first + count - 1))
}

/// The variable `CUPTI_AUDIT_CASES`, which overrides the seeds: `FIRST-LAST`.
pub fn asked() -> Option<(u64, u64)> {
    let text = std::env::var_os("CUPTI_AUDIT_CASES")?;
    let text = text.into_string().expect("the seeds are numbers");
    let (first, last) = text.split_once('-').unwrap_or((&text, &text));
    let number = |text: &str| text.parse().expect("the seeds are numbers");
    Some((number(first), number(last)))
}

/// Whether a test asks the case of this name: `CUPTI_AUDIT_CASE=WORDS` selects those with these words in their name.
pub fn is_asked(name: &str) -> bool {
    std::env::var("CUPTI_AUDIT_CASE").map_or(true, |words| name.contains(&words))
}

/// Runs `check` on all seeds in parallel, and returns the failures in the order of the seeds.
pub fn each_seed(first: u64, last: u64, check: impl Fn(u64) -> Result<(), String> + Sync) -> Vec<(u64, String)> {
    let count = last.saturating_add(1).saturating_sub(first);
    let results = in_parallel(usize::try_from(count).unwrap_or(usize::MAX), |number| {
        let seed = first + number as u64;
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
