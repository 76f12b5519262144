//! Installed packages whose libraries another package replaced.

use super::evidence::Evidence;
use super::package_files::joined_names;
use super::rule_subject::{RuleSubject, escaped, text};
use crate::facts::software::replaced_files::ReplacedFiles;
use crate::facts::{CuptiConsumer, ImageFacts, OwnerKind};
use crate::judge::rule::PackageRepair;
use crate::knowledge::rule::SubjectKind;

/// The packages with replaced libraries whose libcupti a program gets.
pub(super) fn subjects(facts: &ImageFacts) -> Vec<RuleSubject> {
    let rootfs = &facts.contexts.as_is.rootfs;
    let gets = |found: &ReplacedFiles, consumer: &CuptiConsumer| {
        let path = consumer.outcome.as_is.path.as_ref();
        let file = path.and_then(|path| rootfs.lookup(path).ok());
        file.is_some_and(|file| found.intact.contains(&file.path))
    };
    let replaced = facts.related.replaced.iter();
    replaced
        .filter(|found| facts.consumers.iter().any(|consumer| gets(found, consumer)))
        .map(subject)
        .collect()
}

fn subject(found: &ReplacedFiles) -> RuleSubject {
    let (lost, by) = (&found.distribution, &found.by);
    let subject = SubjectKind::ReplacedFiles.subject([
        ("name", escaped(&lost.name)),
        ("version", escaped(&lost.version)),
        ("names", text(joined_names(&found.files))),
        ("by", escaped(&format!("{} {}", by.name, by.version))),
    ]);
    let shown = found.files.iter().map(|file| {
        let (own, other) = (lost.metadata.parent(), by.metadata.parent());
        Evidence::Words(format!(
            "{file} has the hash in {other}/RECORD, not the one in {own}/RECORD"
        ))
    });
    let subject = subject.at([(&lost.metadata, Some(lost.layer))]).shown_by(shown);
    RuleSubject {
        repair: Some(PackageRepair {
            manager: OwnerKind::Pip,
            environment: lost.site.clone(),
            packages: vec![format!("{}=={}", lost.name, lost.version)],
            is_listed: true,
            takes_requirements: false,
        }),
        ..subject
    }
}
