//! Does our loader agree with the real one on generated file systems?
//!
//! A seed creates a small root file system, an environment and a program. A Debian's `ld.so` and `ldconfig` run in it;
//! ours reads the same files. Loaded objects, their order and paths, failures and messages must be equal. A differing
//! case is saved in `testdata/loader/`. `CUPTI_AUDIT_CASES=FIRST-LAST` selects other seeds.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use testkit::parallel::in_parallel;
use testkit::seeds;

use crate::loader_case::Case;
use crate::loader_compare::{Difference, End, compare};
use crate::loader_world::{WORLD, World};

/// The maximum number of differing cases to save.
const KEPT: usize = 3;

#[test]
fn generated_cases_agree_with_the_real_loader() {
    let Some(world) = &*WORLD else { return };
    let seeds = seeds::chosen(1, 1000, 2000).into_iter();
    let cases: Vec<Case> = seeds.map(crate::loader_generate::make).collect();
    let run = run(world, &cases);
    let ldconfigs = cases.iter().filter(|case| case.ldconfig.is_some()).count();
    let ends = |end| run.ends.get(&end).copied().unwrap_or(0);
    println!(
        "{} of {} generated cases agree ({} load, {} miss something, {} meet a refused file, {} lack a version), ldconfig {} of {ldconfigs}",
        cases.len() - run.failures.len(),
        cases.len(),
        ends(End::Loads),
        ends(End::Misses),
        ends(End::MeetsRefused),
        ends(End::LacksVersion),
        ldconfigs - run.failed_in(crate::loader_compare::Step::Ldconfig),
    );
    report(world, &cases, &run);
}

#[test]
fn generated_dlopens_agree_with_the_real_loader() {
    let Some(world) = &*WORLD else { return };
    let seeds = seeds::chosen(1, 300, 500).into_iter();
    let cases: Vec<Case> = seeds.map(crate::loader_generate::make_open).collect();
    let run = run(world, &cases);
    println!(
        "{} of {} generated dlopens agree ({} open everything)",
        cases.len() - run.failures.len(),
        cases.len(),
        run.ends.get(&End::Loads).copied().unwrap_or(0)
    );
    report(world, &cases, &run);
}

/// The results of many cases.
struct Run {
    ends: BTreeMap<End, usize>,
    /// Keyed by case number.
    failures: BTreeMap<usize, Difference>,
}

impl Run {
    fn failed_in(&self, step: crate::loader_compare::Step) -> usize {
        let failures = self.failures.values();
        failures.filter(|difference| difference.step == step).count()
    }
}

/// Compares all cases on every processor.
fn run(world: &World, cases: &[Case]) -> Run {
    let results = in_parallel(cases.len(), |number| compare(world, &cases[number]));
    let mut run = Run {
        ends: BTreeMap::new(),
        failures: BTreeMap::new(),
    };
    for (number, result) in results.into_iter().enumerate() {
        match result {
            Ok(end) => *run.ends.entry(end).or_default() += 1,
            Err(difference) => drop(run.failures.insert(number, difference)),
        }
    }
    run
}

/// Fails if cases differ. Saves the first few and lists all seeds.
fn report(world: &World, cases: &[Case], run: &Run) {
    let mut text = String::new();
    for (number, difference) in run.failures.iter().take(KEPT) {
        let kept = crate::loader_kept::keep(world, &cases[*number], difference);
        let _ = writeln!(text, "{kept}\n");
    }
    let failures = run.failures.iter();
    let seeds: Vec<String> = failures
        .map(|(number, difference)| format!("{} {:?}", cases[*number].seed, difference.step))
        .collect();
    assert!(
        seeds.is_empty(),
        "{text}{} cases differ: {}",
        seeds.len(),
        seeds.join(", ")
    );
}
