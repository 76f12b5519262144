//! The subjects of rules: the facts of an image as flat records with named fields.
//!
//! One file per kind of subject fills the fields from the facts. The table in `knowledge/rule/subject_kind.rs` lists
//! them.

mod build_step;
mod consumer;
mod container_runtime;
mod copies;
mod copy;
mod cuda_driver;
mod dangling;
mod dead_weight;
mod driver_stub;
mod empty_element;
mod environment;
mod evidence;
mod failure;
mod framework;
mod gpu_code;
mod host;
mod image;
mod injection;
mod ld_cache;
mod link;
mod misnamed;
mod nvperf;
mod package_files;
mod release;
mod release_mismatch;
mod replaced_files;
mod requirements;
mod rule_subject;
mod start;
mod suppression;
mod tool;
mod undecided;
mod unmet_need;

pub use build_step::BuildStepFacts;
pub use evidence::Evidence;
pub use gpu_code::gpu_code_gaps;
pub use link::link_subjects;
pub use rule_subject::{RuleSubject, StoppedWork};
pub use unmet_need::UnmetNeed;

use crate::facts::ImageFacts;
use crate::knowledge::rule::SubjectKind;

/// The subjects of an image.
pub fn image_subjects(facts: &ImageFacts) -> Vec<RuleSubject> {
    // The order is free, because findings are sorted later.
    let subjects = SubjectKind::ALL.iter().flat_map(|kind| subjects_of(*kind, facts));
    subjects
        .filter(|subject| !follows_from_command(facts, subject))
        .collect()
}

fn subjects_of(kind: SubjectKind, facts: &ImageFacts) -> Vec<RuleSubject> {
    match kind {
        SubjectKind::Image => image::subjects(facts),
        SubjectKind::Copy => copy::subjects(facts),
        SubjectKind::Copies => copies::subjects(facts),
        SubjectKind::DanglingLink => dangling::subjects(facts),
        SubjectKind::Misnamed => misnamed::subjects(facts),
        SubjectKind::Failure => failure::subjects(facts),
        SubjectKind::Start => start::of_consumers(facts),
        SubjectKind::Command => start::of_command(facts),
        SubjectKind::Undecided => undecided::subjects(facts),
        SubjectKind::Consumer => consumer::subjects(facts),
        SubjectKind::LdCache => ld_cache::subjects(facts),
        SubjectKind::EmptyElement => empty_element::subjects(facts),
        SubjectKind::Environment => environment::subjects(facts),
        SubjectKind::Injection => injection::subjects(facts),
        SubjectKind::Stub => driver_stub::subjects(facts),
        SubjectKind::Runtime => container_runtime::subjects(facts),
        SubjectKind::Cuda => cuda_driver::subjects(facts),
        SubjectKind::ReleaseFault => release::faults(facts),
        SubjectKind::NewRelease => release::newer_than_known(facts),
        SubjectKind::Host => host::subjects(facts),
        SubjectKind::Framework => framework::subjects(facts),
        SubjectKind::Nvperf => nvperf::subjects(facts),
        SubjectKind::PackageFiles => package_files::subjects(facts),
        SubjectKind::ReplacedFiles => replaced_files::subjects(facts),
        SubjectKind::Requirements => requirements::subjects(facts),
        SubjectKind::DeadWeight => dead_weight::subjects(facts),
        // Failures also produce the first. The others come from code that checks a phase, tool, GPU, link, Dockerfile
        // or config.
        SubjectKind::Unserved
        | SubjectKind::Need
        | SubjectKind::Tool
        | SubjectKind::Gpu
        | SubjectKind::GpuCode
        | SubjectKind::Rivals
        | SubjectKind::Link
        | SubjectKind::BuildStep
        | SubjectKind::Suppression => Vec::new(),
    }
}

/// Whether a subject is only a consequence of a command that does not start.
fn follows_from_command(facts: &ImageFacts, subject: &RuleSubject) -> bool {
    let ended = || facts.programs().filter(|program| facts.ends_with_command(program));
    match subject.kind {
        // No process gets the variables that the command sets.
        SubjectKind::Environment => facts.command_failure.is_some(),
        SubjectKind::Unserved | SubjectKind::Start | SubjectKind::Failure | SubjectKind::Consumer => {
            let mut places = subject.locations.iter();
            !subject.locations.is_empty() && places.all(|place| ended().any(|consumer| consumer.object == place.path))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use crate::facts::{CuptiStatus, OwnerKind};
    use crate::knowledge::rule::{FieldValue, SubjectKind};

    #[test]
    fn every_word_that_a_subject_says_can_be_asked_for() {
        let statuses = [
            CuptiStatus::Loadable,
            CuptiStatus::Unloadable,
            CuptiStatus::HeadersOnly,
            CuptiStatus::Absent,
        ];
        let owners = [
            OwnerKind::Pip,
            OwnerKind::Deb,
            OwnerKind::Rpm,
            OwnerKind::Conda,
            OwnerKind::Bundled,
            OwnerKind::Unknown,
        ];
        for (kind, field, words) in [
            (SubjectKind::Image, "status", statuses.map(CuptiStatus::name).to_vec()),
            (SubjectKind::Copy, "owner", owners.map(OwnerKind::name).to_vec()),
        ] {
            let field = kind.fields().iter().find(|known| known.name == field).unwrap();
            for word in words {
                assert!(field.allows(&FieldValue::Text(word.to_owned())), "{word}");
            }
            assert!(!field.allows(&FieldValue::Text("loadabel".to_owned())));
        }
    }
}
