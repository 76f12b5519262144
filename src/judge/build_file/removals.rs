//! Steps that take the library away: by its name, by its package, or with a folder around it.

use super::paths::{
    LibraryPlace, PathOverlap, WorkingFolder, compare_path, is_link, may_hold_library, may_reach, names_library,
};
use super::stage_end::{LibrarySource, StageEnd, StepProblem};
use super::stage_walk::{CurrentRun, StageWalk};
use super::stages::StepPlace;
use super::trap::{StepFacts, StepTrap};
use crate::knowledge::packages::PackageManager;
use python_path::normal_name;

impl StageWalk<'_> {
    /// Notes a deleted path.
    pub(super) fn delete(&self, now: &mut StageEnd, path: &str, run: &mut CurrentRun<'_>, folder: &WorkingFolder) {
        let resolved = folder.resolve(path);
        if names_library(resolved.as_deref().unwrap_or(path), self.known) {
            self.remove(now, path, run, folder);
            return;
        }
        let Some(path) = resolved else {
            return;
        };
        let toolkit = &self.known.tables.packages.toolkit;
        let is_reached = |source: &LibrarySource| match &source.place {
            LibraryPlace::Folder(folder) if !is_link(&path, source.cuda, toolkit) => {
                let overlap = compare_path(&path, folder, source.cuda, self.known);
                matches!(overlap, PathOverlap::Around(_))
            }
            _ => false,
        };
        let what = format!("deletes {path} with {}", self.known.library.file_stem());
        now.lose(is_reached, removed(run.place, &what));
    }

    /// Notes that a step deletes the library by name, at or below a path.
    pub(super) fn remove(&self, now: &mut StageEnd, path: &str, run: &mut CurrentRun<'_>, folder: &WorkingFolder) {
        let path = folder.resolve(path).unwrap_or_else(|| path.to_owned());
        if may_hold_library(&path, self.known) {
            let problem = removed(run.place, &format!("deletes {}", self.known.library.file_stem()));
            run.problems.extend(now.take_away(
                |source| may_reach(&path, &source.place, source.cuda, self.known),
                problem,
            ));
        }
    }

    /// Notes packages that are removed.
    pub(super) fn uninstall(
        &self,
        now: &mut StageEnd,
        manager: PackageManager,
        words: &[String],
        run: &mut CurrentRun<'_>,
    ) {
        let tables = &self.known.tables;
        let mut names = Vec::new();
        for word in words {
            let name = removed_name(manager, word);
            let is_own = tables.packages.own.iter().any(|own| own.package == name);
            if is_own || tables.build_steps.package_with_library(manager, &name) {
                names.push(word.as_str());
            } else if self.is_around_package(&name) {
                let problem = removed(run.place, &format!("removes {word}"));
                now.lose(|source| source.place != LibraryPlace::Environment, problem);
            }
        }
        // PyTorch goes, too.
        if names.is_empty() || words.iter().any(|word| removed_name(manager, word) == "torch") {
            return;
        }
        let majors: Vec<u32> = names
            .iter()
            .filter_map(|name| self.wheel_major(&removed_name(manager, name)))
            .collect();
        let is_reached = |source: &LibrarySource| match (manager, &source.place) {
            (PackageManager::System, place) => *place != LibraryPlace::Environment,
            (PackageManager::Conda, place) => *place == LibraryPlace::Environment,
            (PackageManager::Pip, LibraryPlace::Folder(_)) => false,
            // pip skips a package that is not installed.
            (PackageManager::Pip, _) => source.cuda.is_none_or(|(major, _)| majors.contains(&major)),
        };
        let is_certain = now.sources.is_empty()
            || manager != PackageManager::Pip
            || now
                .sources
                .iter()
                .any(|source| source.cuda.is_some() && is_reached(source));
        let problem = removed(run.place, &format!("removes {}", names.join(" ")));
        if let Some(mut problem) = now.take_away(is_reached, problem) {
            problem.facts.is_last &= is_certain;
            run.problems.push(problem);
        }
    }

    /// The CUDA major version of the library in a wheel.
    fn wheel_major(&self, name: &str) -> Option<u32> {
        (11..20).find(|major| {
            self.known
                .library
                .wheel_of(*major)
                .is_some_and(|wheel| wheel.name == name)
        })
    }

    /// Whether a name stands for many packages, and that of the library is one of them, such as `cuda-*`.
    fn is_around_package(&self, name: &str) -> bool {
        let own = self.known.library.package.as_deref().unwrap_or_default();
        let stem = name.strip_suffix('*').filter(|stem| !stem.is_empty());
        stem.is_some_and(|stem| own.starts_with(stem))
    }
}

/// The problem of a step that takes the library away.
fn removed(place: &StepPlace, what: &str) -> StepProblem {
    StepProblem::new(place, StepFacts::new(StepTrap::Removed, what))
}

/// The name of a package to remove, without version and processor.
fn removed_name(manager: PackageManager, word: &str) -> String {
    let name = word.split(['=', ':', '<', '>']).next().unwrap_or_default();
    match manager {
        PackageManager::Pip => normal_name(name),
        // apt takes a regular expression, too.
        _ => name.trim_start_matches('^').trim_end_matches('$').replace(".*", "*"),
    }
}
