//! Many seeds at once, and what to say of those that fail.

#![allow(dead_code, reason = "each test target uses its own part of this module")]

use std::fmt::Write as _;

use testkit::parallel::in_parallel;

/// The variable `CUPTI_AUDIT_CASES`, which asks for other seeds than the usual: `FIRST-LAST`.
pub fn asked() -> Option<(u64, u64)> {
    let text = std::env::var_os("CUPTI_AUDIT_CASES")?;
    let text = text.into_string().unwrap();
    let (first, last) = text.split_once('-').unwrap_or((&text, &text));
    Some((first.parse().unwrap(), last.parse().unwrap()))
}

/// Runs `check` on all seeds, on every processor, and returns what failed in the order of the seeds.
pub fn each_seed(first: u64, last: u64, check: impl Fn(u64) -> Result<(), String> + Sync) -> Vec<(u64, String)> {
    let count = last.saturating_add(1).saturating_sub(first);
    let results = in_parallel(usize::try_from(count).unwrap(), |number| {
        let seed = first + number as u64;
        Some((seed, check(seed).err()?))
    });
    results.into_iter().flatten().collect()
}

/// Fails with the first few cases in full and the seeds of all.
pub fn report(failures: &[(u64, String)]) {
    let mut text = String::new();
    let shown = if asked().is_some() { 60 } else { 6 };
    for (_, difference) in failures.iter().take(shown) {
        let _ = writeln!(text, "{difference}\n");
    }
    let seeds: Vec<u64> = failures.iter().map(|(seed, _)| *seed).collect();
    assert!(failures.is_empty(), "{text}{} cases differ: {seeds:?}", failures.len());
}
