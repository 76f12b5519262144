//! Unmet requirements of packages in a Python environment.

use super::evidence::Evidence;
use super::package_files::missed_names;
use super::rule_subject::{RuleSubject, StoppedWork, escaped, flag, text};
use crate::facts::software::requirements::UnmetRequirement;
use crate::facts::{ImageFacts, OwnerKind};
use crate::judge::rule::PackageRepair;
use crate::knowledge::rule::SubjectKind;
use image_linkage::path::RootPath;

/// The maximum number of requirements in a message.
const NAMED: usize = 4;

/// One subject for everything that an environment lacks, and one for packages of another version.
pub(super) fn subjects(facts: &ImageFacts) -> Vec<RuleSubject> {
    let unmet: Vec<&UnmetRequirement> = facts.related.unmet.iter().filter(|_| facts.unread.is_none()).collect();
    let states = ["missing", "other-version"];
    let groups = states.iter().flat_map(|state| {
        let of_state = unmet
            .iter()
            .filter(|one| one.installed.is_none() == (*state == "missing"));
        let of_state: Vec<&UnmetRequirement> = of_state.copied().collect();
        // The requirements of one interpreter are adjacent.
        let groups = of_state.chunk_by(|a, b| a.interpreter == b.interpreter);
        groups.map(|group| subject(facts, state, group)).collect::<Vec<_>>()
    });
    groups.collect()
}

fn subject(facts: &ImageFacts, state: &str, unmet: &[&UnmetRequirement]) -> RuleSubject {
    let mut by: Vec<String> = unmet.iter().map(|one| format!("{} {}", one.by.0, one.by.1)).collect();
    by.dedup();
    let mut what: Vec<String> = unmet.iter().map(|one| said(one)).collect();
    what.dedup();
    let wheel = facts.library.wheels.pin.as_deref().unwrap_or_default();
    let is_library = |one: &&UnmetRequirement| !wheel.is_empty() && one.requirement.name.starts_with(wheel);
    let environment = unmet.first().map(|one| one.interpreter.to_string()).unwrap_or_default();
    let metadata: Vec<&RootPath> = unmet.iter().map(|one| &one.metadata).collect();
    let breaks = unmet.iter().any(|one| breaks_program(facts, one));
    let subject = SubjectKind::Requirements.subject([
        ("state", text(state)),
        ("by", escaped(&by.join(", "))),
        ("what", escaped(&some(&what))),
        ("environment", text(environment)),
        ("breaks", flag(breaks)),
        ("modules", flag(unmet.iter().any(|one| !one.is_libraries))),
        ("library", flag(unmet.iter().any(is_library))),
    ]);
    let mut places = metadata;
    places.dedup();
    let shown = unmet.iter().map(|one| {
        let words = format!("{} {} requires {}", one.by.0, one.by.1, said(one));
        Evidence::Words(image_linkage::escape::escape_bytes(words.as_bytes()))
    });
    let subject = subject.at(places.into_iter().map(|path| (path, None))).shown_by(shown);
    RuleSubject {
        repair: repair(unmet),
        stops: if breaks { StoppedWork::Program } else { subject.stops },
        ..subject
    }
}

fn said(one: &UnmetRequirement) -> String {
    match &one.installed {
        Some(version) => format!("{} ({version} is installed)", one.requirement),
        None => one.requirement.to_string(),
    }
}

fn some(what: &[String]) -> String {
    let named: Vec<&str> = what.iter().take(NAMED).map(String::as_str).collect();
    match what.len().saturating_sub(NAMED) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

/// Whether a program next to the requiring package misses a library of the requirement.
fn breaks_program(facts: &ImageFacts, one: &UnmetRequirement) -> bool {
    let missed = missed_names(facts, &one.metadata.parent().parent());
    let mut libraries = one.libraries.iter();
    libraries.any(|library| missed.iter().any(|name| name.starts_with(library.as_bytes())))
}

fn repair(unmet: &[&UnmetRequirement]) -> Option<PackageRepair> {
    let mut packages: Vec<String> = unmet.iter().map(|one| one.requirement.to_string()).collect();
    packages.sort();
    packages.dedup();
    Some(PackageRepair {
        manager: OwnerKind::Pip,
        // The folder of the package that requires them.
        environment: unmet.first()?.metadata.parent().parent(),
        packages,
        is_listed: false,
        takes_requirements: true,
    })
}
