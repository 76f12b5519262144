//! Python packages: frameworks with a profiler, unmet requirements and replaced libraries.

use super::evidence::Evidence;
use super::package_files::{joined_names, missed_names};
use super::{Hit, PackageRepair, Shown, StoppedWork};
use crate::facts::software::replaced_files::ReplacedFiles;
use crate::facts::software::requirements::UnmetRequirement;
use crate::facts::{ImageFacts, OwnerKind};
use crate::knowledge::ProfiledFramework;
use image_linkage::path::RootPath;
use python_path::PythonDistribution;

/// The maximum number of requirements in a message.
const NAMED: usize = 4;

/// Checks the packages of all environments.
pub(super) fn check(facts: &ImageFacts) -> Vec<Hit> {
    let mut hits = Vec::new();
    for dist in &facts.related.distributions {
        let mut frameworks = facts.tables.frameworks.iter();
        if let Some(framework) = frameworks.find(|known| known.distributions.contains(&dist.name)) {
            hits.extend(daemon_off(facts, dist, framework));
            hits.extend(plugin_missing(facts, dist, framework));
        }
    }
    if facts.layers.unread.is_none() {
        let (missing, other_version): (Vec<_>, Vec<_>) =
            facts.related.unmet.iter().partition(|one| one.installed.is_none());
        // The requirements of one interpreter are adjacent.
        for group in missing.chunk_by(|a, b| a.interpreter == b.interpreter) {
            let modules = group.iter().any(|one| !one.is_libraries);
            hits.push(unmet("required-package-missing", facts, group).raise_if("modules", modules));
        }
        for group in other_version.chunk_by(|a, b| a.interpreter == b.interpreter) {
            let wheel = facts.library.wheels.pin.as_deref().unwrap_or_default();
            let is_library = |one: &&UnmetRequirement| !wheel.is_empty() && one.requirement.name.starts_with(wheel);
            let contains_library = group.iter().any(is_library);
            hits.push(unmet("required-version-differs", facts, group).raise_if("contains-library", contains_library));
        }
    }
    for found in &facts.related.replaced {
        if is_loaded(facts, found) {
            hits.push(replaced(found));
        }
    }
    hits
}

/// PyTorch whose environment lets no daemon start profiles.
fn daemon_off(facts: &ImageFacts, torch: &PythonDistribution, known: &ProfiledFramework) -> Option<Hit> {
    let variable = known.daemon.as_deref();
    let is_set = variable.is_some_and(|name| facts.image.config.env(name).is_some());
    let mut consumers = facts.answers.consumers.iter();
    let requests_cupti = consumers.any(|consumer| consumer.profile.as_ref() == Some(&known.consumer));
    if torch.name != "torch" || is_set || !requests_cupti {
        return None;
    }
    let hit = Hit::new("kineto-daemon-off").value("version", Shown::untrusted(&torch.version));
    Some(hit.at([(&torch.metadata, Some(torch.layer))]))
}

/// A framework beside a `TensorBoard` that cannot show its profiles.
fn plugin_missing(facts: &ImageFacts, framework: &PythonDistribution, known: &ProfiledFramework) -> Option<Hit> {
    // TensorBoard finds only the plugins of its own environment.
    let has = |name: &str| {
        let mut all = facts.related.distributions.iter();
        all.any(|dist| dist.site == framework.site && dist.name == name)
    };
    if !has(&known.viewer) || known.plugins.iter().any(|plugin| has(plugin)) {
        return None;
    }
    let plugin = known.plugins.first().cloned().unwrap_or_default();
    let hit = Hit::new("profiler-plugin-missing")
        .value("name", Shown::known(framework.name.clone()))
        .value("version", Shown::untrusted(&framework.version))
        .value("plugin", Shown::known(plugin))
        .at([(&framework.metadata, Some(framework.layer))]);
    Some(hit)
}

/// The unmet requirements of packages in one environment.
fn unmet(rule: &'static str, facts: &ImageFacts, unmet: &[&UnmetRequirement]) -> Hit {
    let mut by: Vec<String> = unmet.iter().map(|one| format!("{} {}", one.by.0, one.by.1)).collect();
    by.dedup();
    let mut what: Vec<String> = unmet.iter().map(|one| said(one)).collect();
    what.dedup();
    let environment = unmet.first().map(|one| one.interpreter.to_string()).unwrap_or_default();
    let mut places: Vec<&RootPath> = unmet.iter().map(|one| &one.metadata).collect();
    places.dedup();
    let breaks = unmet.iter().any(|one| breaks_program(facts, one));
    let shown = unmet.iter().map(|one| {
        let words = format!("{} {} requires {}", one.by.0, one.by.1, said(one));
        Evidence::Words(image_linkage::escape::escape_bytes(words.as_bytes()))
    });
    let mut hit = Hit::new(rule)
        .value("by", Shown::untrusted(&by.join(", ")))
        .value("what", Shown::untrusted(&some(&what)))
        .value("environment", Shown::known(environment))
        .raise_if("breaks-program", breaks)
        .at(places.into_iter().map(|path| (path, None)))
        .shown_by(shown);
    hit.repair = repair(unmet);
    if breaks {
        hit.stopping(StoppedWork::Program)
    } else {
        hit
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

/// Whether a program gets its libcupti from a package with replaced libraries.
fn is_loaded(facts: &ImageFacts, found: &ReplacedFiles) -> bool {
    let rootfs = &facts.contexts.as_is.rootfs;
    facts.answers.consumers.iter().any(|consumer| {
        let loaded = consumer.outcome.as_is.answer.file();
        let file = loaded.and_then(|loaded| rootfs.lookup(&loaded.path).ok());
        file.is_some_and(|file| found.intact.contains(&file.path))
    })
}

fn replaced(found: &ReplacedFiles) -> Hit {
    let (lost, by) = (&found.distribution, &found.by);
    let shown = found.files.iter().map(|file| {
        let (own, other) = (lost.metadata.parent(), by.metadata.parent());
        Evidence::Words(format!(
            "{file} has the hash in {other}/RECORD, not the one in {own}/RECORD"
        ))
    });
    let mut hit = Hit::new("package-files-replaced")
        .value("name", Shown::untrusted(&lost.name))
        .value("version", Shown::untrusted(&lost.version))
        .value("names", Shown::known(joined_names(&found.files)))
        .value("by", Shown::untrusted(&format!("{} {}", by.name, by.version)))
        .at([(&lost.metadata, Some(lost.layer))])
        .shown_by(shown);
    hit.repair = Some(PackageRepair {
        manager: OwnerKind::Pip,
        environment: lost.site.clone(),
        packages: vec![format!("{}=={}", lost.name, lost.version)],
        is_listed: true,
        takes_requirements: false,
    });
    hit
}
