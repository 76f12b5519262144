//! Installed packages with missing files.

use std::collections::BTreeSet;

use super::evidence::Evidence;
use super::rule_subject::{RuleSubject, StoppedWork, count, escaped, flag, text};
use crate::facts::software::package_files::{IncompletePackage, MissingFile};
use crate::facts::{CuptiConsumer, ImageFacts, OwnerKind, RequestKind};
use crate::judge::rule::PackageRepair;
use crate::knowledge::rule::{FieldValue, SubjectKind};
use image_linkage::escape;
use image_linkage::layer::is_library_name;
use image_linkage::path::RootPath;

/// The maximum number of files in a message.
const NAMED: usize = 3;
/// The maximum number of paths shown.
const SHOWN: usize = 10;

/// The packages that lack a file which something may need. Unread layers may contain the files, so they prevent this
/// check.
pub(super) fn subjects(facts: &ImageFacts) -> Vec<RuleSubject> {
    let packages = facts.related.incomplete.iter().filter(|_| facts.unread.is_none());
    let subjects = packages.filter_map(|package| subject(facts, package, &missed_names(facts, &package.environment())));
    let mut subjects: Vec<RuleSubject> = subjects.collect();
    // The needed ones first: they give a joined finding its name.
    subjects.sort_by_key(|subject| subject.fields.get("needed") != Some(&flag(true)));
    joined(subjects.into_iter())
}

/// Joins the packages of one environment whose files are gone for the same reason.
fn joined(subjects: impl Iterator<Item = RuleSubject>) -> Vec<RuleSubject> {
    let mut joined: Vec<(RuleSubject, usize)> = Vec::new();
    for subject in subjects {
        let is_alike = |other: &RuleSubject| {
            let place = |subject: &RuleSubject| {
                let repair = subject.repair.as_ref();
                repair.map(|repair| (repair.manager, repair.environment.clone()))
            };
            let is_same = |field| other.fields.get(field) == subject.fields.get(field);
            // If packages lost their libraries together, a program that misses those of one will miss the others' next.
            let lost_libraries = |subject: &RuleSubject| subject.fields.get("libraries") != Some(&count(0));
            let lost_together = lost_libraries(other) && lost_libraries(&subject);
            place(other) == place(&subject)
                && is_same("removed")
                && (lost_together || is_same("needed") && other.stops == subject.stops)
        };
        let Some((first, more)) = joined.iter_mut().find(|(other, _)| is_alike(other)) else {
            joined.push((subject, 0));
            continue;
        };
        *more += 1;
        first.locations.extend(subject.locations);
        first.evidence.extend(subject.evidence);
        if let (Some(repair), Some(other)) = (&mut first.repair, subject.repair) {
            repair.packages.extend(other.packages);
        }
    }
    let named = joined.into_iter().map(|(mut subject, more)| {
        if let Some(FieldValue::Text(version)) = subject.fields.get_mut("version").filter(|_| more > 0) {
            let plural = if more == 1 { "" } else { "s" };
            *version = format!("{version}, like {more} other{plural},");
        }
        subject
    });
    named.collect()
}

impl RuleSubject {
    /// The packages that lack a library with one of these names.
    pub fn of_incomplete_packages(facts: &ImageFacts, names: &BTreeSet<Vec<u8>>) -> Vec<Self> {
        let packages = facts.related.incomplete.iter().filter(|_| facts.unread.is_none());
        let lacking = packages.filter(|package| names.iter().any(|name| package.lacks(name)));
        lacking.filter_map(|package| subject(facts, package, names)).collect()
    }
}

fn subject(facts: &ImageFacts, package: &IncompletePackage, asked: &BTreeSet<Vec<u8>>) -> Option<RuleSubject> {
    // A link with the requested name may still exist.
    let links = facts.dangling.iter().filter(|link| asked.contains(link.path.name()));
    let targets: Vec<&[u8]> = links
        .filter_map(|link| link.target.rsplit(|&byte| byte == b'/').next())
        .collect();
    let is_asked = |file: &&MissingFile| asked.contains(file.path.name()) || targets.contains(&file.path.name());
    let needed = package.missing.iter().any(|file| is_asked(&file)) || !package.programs.is_empty();
    if !needed && package.missing.iter().all(|file| file.is_dispensable) {
        return None;
    }
    // Files that a program misses come first, then libraries.
    let mut gone: Vec<&MissingFile> = package.missing.iter().collect();
    let is_library = |file: &&MissingFile| is_library_name(file.path.name());
    gone.sort_by_key(|file| (!is_asked(file), !is_library(file)));
    let is_program = |program: &CuptiConsumer| {
        program.unloaded.breaks_program() && missed_by(program).iter().any(|name| package.lacks(name))
    };
    let stops = if !package.programs.is_empty() || facts.programs().any(is_program) {
        StoppedWork::Program
    } else {
        StoppedWork::Profiling
    };
    let libraries = gone.iter().filter(|file| is_library(file)).count();
    let subject = SubjectKind::PackageFiles.subject([
        ("manager", text(package.kind.name())),
        ("name", escaped(&package.name)),
        ("version", escaped(&package.version)),
        ("list", text(package.list.to_string())),
        ("missing", count(gone.len())),
        ("libraries", count(libraries)),
        ("listed", count(package.listed)),
        ("names", text(joined_names(gone.iter().map(|file| &file.path)))),
        ("removed", text(removed_words(facts, package, &gone))),
        ("needed", flag(needed)),
    ]);
    let shown = gone.iter().take(SHOWN);
    let shown = shown.map(|file| Evidence::Words(format!("{} is not in the image", file.path)));
    let subject = subject.at([(&package.list, Some(package.layer))]).shown_by(shown);
    Some(RuleSubject {
        repair: Some(repair(package)),
        stops,
        ..subject
    })
}

/// The names of libraries that programs below a folder request but do not get.
pub(super) fn missed_names(facts: &ImageFacts, environment: &RootPath) -> BTreeSet<Vec<u8>> {
    let inside =
        |consumer: &&CuptiConsumer| *environment == RootPath::default() || consumer.object.starts_with(environment);
    let programs = facts.programs().filter(inside);
    programs.flat_map(missed_by).collect()
}

/// The names of libraries that a program requests but does not get.
fn missed_by(program: &CuptiConsumer) -> Vec<Vec<u8>> {
    // Another missing library may hide that a program lacks the one that it links, too.
    let is_hidden = program.asks == RequestKind::Needed && program.start_failure().is_some();
    let own = (program.misses_library() || is_hidden).then(|| program.wants.to_vec());
    let failure = program.start_failure().into_iter();
    let others = failure.flat_map(|failure| &failure.missing).map(|name| name.to_vec());
    own.into_iter().chain(others).collect()
}

/// The names of the first files.
pub(super) fn joined_names<'f>(files: impl IntoIterator<Item = &'f RootPath>) -> String {
    let names = files.into_iter().map(|file| escape::escape_bytes(file.name()));
    let mut names: Vec<String> = names.collect();
    // Packages repeat names such as `__init__.py`.
    names.dedup();
    let first = names.get(..NAMED).unwrap_or(&names);
    match names.len().saturating_sub(NAMED) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

/// The reason that the files are gone, as the end of a sentence.
fn removed_words(facts: &ImageFacts, package: &IncompletePackage, gone: &[&MissingFile]) -> String {
    if gone.iter().all(|file| file.target.is_some()) {
        let list = format!("the links of {} lead to files", package.environment());
        return list + " that the image does not contain; uv makes such links into its cache with UV_LINK_MODE=symlink";
    }
    let layers: BTreeSet<usize> = gone
        .iter()
        .filter_map(|file| facts.removals.get(&file.path).copied())
        .collect();
    let numbers: Vec<String> = layers.iter().map(|layer| (layer + 1).to_string()).collect();
    match numbers.as_slice() {
        [] => "no layer has them: they were removed in the step that installed the package, or not copied with it"
            .to_owned(),
        [one] => format!("layer {one} removes them"),
        many => format!("layers {} remove them", many.join(", ")),
    }
}

fn repair(package: &IncompletePackage) -> PackageRepair {
    let IncompletePackage { name, version, .. } = package;
    let is = match package.kind {
        OwnerKind::Pip => "==",
        OwnerKind::Rpm => "-",
        _ => "=",
    };
    PackageRepair {
        manager: package.kind,
        environment: package.environment(),
        packages: vec![format!("{name}{is}{version}")],
        is_listed: true,
        // A missing cache takes the files of all packages away, also of those that are not checked.
        takes_requirements: package.missing.iter().all(|file| file.target.is_some()),
    }
}
