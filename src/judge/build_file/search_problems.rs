//! Settings of the loader's search path that have no effect.

use super::paths::{LibraryPlace, is_below, is_environment};
use super::stage_end::{StageEnd, StepEdit, StepProblem};
use super::stage_walk::StageWalk;
use super::stages::StepAction;
use super::trap::{StepFacts, StepTrap};
use crate::facts::software::cuda_runtime::parse_cuda_version;
use crate::knowledge::packages::ToolkitLayout;

/// The files in `/etc/ld.so.conf.d` that no run of ldconfig reads, not even the one of the command.
pub(super) fn unread_confs<'e>(walk: &'e StageWalk<'_>, end: &'e StageEnd) -> impl Iterator<Item = StepProblem> + 'e {
    end.search
        .unread_confs
        .iter()
        .filter(|(_, place)| {
            let rest = walk.text.get(place.span.end..).unwrap_or_default();
            !rest.contains("ldconfig")
        })
        .map(|(file, place)| StepProblem {
            edit: Some(StepEdit::Append("RUN ldconfig".to_owned())),
            ..StepProblem::new(place, StepFacts::new(StepTrap::UnreadConf, file))
        })
}

/// The folders for the library on `LD_LIBRARY_PATH` that no step makes.
pub(super) fn missing_folders(walk: &StageWalk<'_>, chain: &[usize], end: &StageEnd) -> Vec<StepProblem> {
    let toolkit = &walk.known.tables.packages.toolkit;
    let mut problems = Vec::new();
    for (folder, place) in &end.search.set {
        let Some(made) = own_part(folder, &walk.known.library.package_word) else {
            continue;
        };
        let is_made = walk.steps_of(chain).any(|step| {
            let text = walk.text_of(&step.place);
            let is_copied = matches!(&step.action, StepAction::Copy(copy) if is_below(folder, &copy.target));
            let mut words = text.split([' ', '\t', '\n', ';']);
            let is_named =
                text.contains(made) || words.any(|word| word.starts_with('/') && word != "/" && is_below(folder, word));
            is_copied || (step.place.line != place.line && is_named)
        });
        // The loader expands no wildcards. A package manager makes the folders of an environment.
        let may_exist =
            !folder.contains('*') && (is_made || is_environment(folder) || is_of_toolkit(folder, end, toolkit));
        if !may_exist {
            problems.push(StepProblem::new(place, StepFacts::new(StepTrap::MissingFolder, folder)));
        }
    }
    problems
}

/// Whether a toolkit of the image may have a folder.
fn is_of_toolkit(folder: &str, end: &StageEnd, toolkit: &ToolkitLayout) -> bool {
    let Some(rest) = folder.strip_prefix(&toolkit.folder) else {
        return false;
    };
    let version = rest
        .strip_prefix('-')
        .and_then(|rest| parse_cuda_version(rest.split('/').next()?));
    let has_toolkit = end
        .sources
        .iter()
        .any(|source| source.place != LibraryPlace::Environment);
    let may_have_toolkit = has_toolkit || !end.is_known_base || !end.unseen.is_empty();
    may_have_toolkit && version.is_none_or(|version| end.cuda.is_empty() || end.cuda.contains(&version))
}

/// The path up to the part that names the library.
fn own_part<'f>(folder: &'f str, word: &str) -> Option<&'f str> {
    let start = folder.to_lowercase().find(word)?;
    let rest = folder.get(start..)?;
    folder.get(..start + rest.find('/').unwrap_or(rest.len()))
}
