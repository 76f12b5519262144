//! Lists the gaps that keep a verdict open.

use super::answers::Answers;
use super::rootfs_scan::{RootfsScan, ScannedImage};
use crate::facts::merged_layers::{Gap, MergedLayers};
use crate::facts::objects::process_context::ProcessContext;
use crate::facts::objects::world::ByWorld;
use crate::facts::software::cupti_files::JUDGED_FILES;
use crate::facts::weight::dead_weight::JUDGED_DEAD_WEIGHT;
use crate::knowledge::LibraryProfile;
use image_linkage::layer::ProblemKind;
use image_linkage::rootfs::ApplyProblem;

/// Lists the gaps that keep a verdict open, such as loader files without stored content, and objects around CUPTI with
/// unreadable tables.
pub(super) fn find_gaps(
    scanned: &ScannedImage,
    library: &LibraryProfile,
    answers: &Answers,
    layers: &MergedLayers,
) -> Vec<Gap> {
    let contexts = &scanned.contexts;
    let mut gaps = layers.gaps.clone();
    gaps.extend(loader_gaps(contexts, &layers.oddities));
    // If the image's own user does not exist, the command does not start, which is a finding.
    let is_of_program = contexts.as_is.entry.user.is_some();
    gaps.extend(user_gap(contexts).filter(|_| is_of_program));
    let outcomes = answers.consumers.iter().map(|consumer| &consumer.outcome.as_is);
    let unread = outcomes.flat_map(|outcome| &outcome.unread);
    for problem in answers.plain.as_is.resolution.unread.iter().chain(unread) {
        gaps.push(gap(problem.clone(), "what it needs is not known"));
    }
    // The order of the requests decides which ones the limit cuts off, so the verdict must stay open.
    let end = contexts.as_is.budget_end();
    gaps.extend(end.map(|why| gap("the dynamic loader".to_owned(), &why)));
    let mut open = answers.consumers.iter().filter_map(|consumer| consumer.open.as_ref());
    let first = open.next().or(answers.status_is_open.as_ref());
    gaps.extend(first.map(|why| gap(format!("which copy of {} each process gets", library.name), why)));
    // An undecided object is a note, but for the command's own program it affects the verdict.
    let own = answers
        .undecided
        .iter()
        .filter(|opener| contexts.as_is.is_commands(&opener.object));
    let unknown = "whether it opens the library, and by which name, is known only when it runs";
    gaps.extend(own.map(|opener| gap(format!("what {} opens", opener.object), unknown)));
    if contexts.as_is.commands.start.is_cut_short {
        let what = "what the container's command starts".to_owned();
        gaps.push(gap(what, "its scripts are too long to be followed to their end"));
    }
    gaps.extend(flood_gaps(&scanned.scan, library));
    // Both worlds report the same problem of the same file.
    gaps.sort();
    gaps.dedup();
    gaps
}

/// The gaps for files beyond the limits.
fn flood_gaps(scan: &RootfsScan, library: &LibraryProfile) -> Vec<Gap> {
    let mut gaps = Vec::new();
    if scan.found.is_cut {
        gaps.push(flood_gap(format!("the files of {}", library.name), JUDGED_FILES));
    }
    if scan.weight.is_cut {
        gaps.push(flood_gap(
            "the files that may be dead weight".to_owned(),
            JUDGED_DEAD_WEIGHT,
        ));
    }
    gaps
}

fn flood_gap(what: String, judged: usize) -> Gap {
    gap(
        what,
        &format!("there are more than {judged}, and the rest was not judged"),
    )
}

/// The gap if the user of the processes is not in the image; they are simulated as root.
pub fn user_gap(contexts: &ByWorld<ProcessContext>) -> Option<Gap> {
    let refusal = contexts.as_is.user.refusal.as_ref()?;
    Some(gap("the user of the processes".to_owned(), refusal))
}

/// The gaps that affect every result of the loader: its own files, and files in layers without stored content.
pub fn loader_gaps(contexts: &ByWorld<ProcessContext>, oddities: &[ApplyProblem]) -> Vec<Gap> {
    let mut gaps: Vec<Gap> = contexts
        .as_is
        .problems()
        .chain(contexts.nvidia.problems())
        .map(|problem| gap("the dynamic loader".to_owned(), &problem))
        .collect();
    let of_user = contexts.as_is.user.problem.iter();
    gaps.extend(of_user.map(|problem| gap("the user of the image".to_owned(), problem)));
    let mut refused = oddities.iter().filter(|problem| problem.kind == ProblemKind::Refused);
    // Report only the first, because it ends the unpacking.
    gaps.extend(refused.next().map(|problem| {
        let why = format!("no engine unpacks it: {}: {}", problem.path, problem.what);
        gap(format!("layer {}", problem.layer + 1), &why)
    }));
    gaps.extend(
        oddities
            .iter()
            // Only unread files can change a verdict; other oddities cannot.
            .filter(|problem| matches!(problem.kind, ProblemKind::Unread | ProblemKind::Hidden))
            .map(|problem| gap(problem.path.to_string(), &problem.what)),
    );
    gaps
}

fn gap(what: String, why: &str) -> Gap {
    Gap {
        what,
        why: why.to_owned(),
    }
}
