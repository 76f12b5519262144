//! Installed packages with missing files.

use std::collections::BTreeSet;

use super::evidence::Evidence;
use super::{Hit, PackageRepair, Shown, StoppedWork};
use crate::facts::software::package_files::{IncompletePackage, MissingFile};
use crate::facts::{CuptiConsumer, ImageFacts, OwnerKind, RequestKind};
use image_linkage::escape;
use image_linkage::layer::is_library_name;
use image_linkage::path::RootPath;

/// The maximum number of files in a message.
const NAMED: usize = 3;
/// The maximum number of paths shown.
const SHOWN: usize = 10;

/// Checks the packages for files that something may need.
pub(super) fn check(facts: &ImageFacts) -> Vec<Hit> {
    // Unread layers may contain the files.
    if facts.layers.unread.is_some() {
        return Vec::new();
    }
    let mut losses = Vec::new();
    for package in &facts.related.incomplete {
        losses.extend(PackageLoss::find(
            facts,
            package,
            &missed_names(facts, &package.environment()),
        ));
    }
    // The needed ones first: they give a joined finding its name.
    losses.sort_by_key(|loss| !loss.is_needed);
    join_alike(losses)
}

/// The packages that lack a library with one of these names.
pub fn incomplete_packages(facts: &ImageFacts, names: &BTreeSet<Vec<u8>>) -> Vec<Hit> {
    let mut hits = Vec::new();
    if facts.layers.unread.is_some() {
        return hits;
    }
    for package in &facts.related.incomplete {
        if names.iter().any(|name| package.lacks(name))
            && let Some(loss) = PackageLoss::find(facts, package, names)
        {
            hits.push(loss.hit(0));
        }
    }
    hits
}

/// Joins the packages of one environment whose files are gone for the same reason.
fn join_alike(losses: Vec<PackageLoss<'_>>) -> Vec<Hit> {
    let mut groups: Vec<Vec<PackageLoss<'_>>> = Vec::new();
    for loss in losses {
        let alike = groups
            .iter_mut()
            .find(|group| group.first().is_some_and(|first| first.is_alike(&loss)));
        match alike {
            Some(group) => group.push(loss),
            None => groups.push(vec![loss]),
        }
    }
    let mut hits = Vec::new();
    for group in groups {
        let Some((first, others)) = group.split_first() else {
            continue;
        };
        let mut hit = first.hit(others.len());
        for other in others.iter().map(|other| other.hit(0)) {
            hit.locations.extend(other.locations);
            hit.evidence.extend(other.evidence);
            if let (Some(repair), Some(other)) = (&mut hit.repair, other.repair) {
                repair.packages.extend(other.packages);
            }
        }
        hits.push(hit);
    }
    hits
}

/// The missing files of a package.
struct PackageLoss<'f> {
    package: &'f IncompletePackage,
    /// Those that a program misses come first, then libraries.
    gone: Vec<&'f MissingFile>,
    /// The number of libraries among them.
    libraries: usize,
    /// The reason that they are gone, as the end of a sentence.
    removed: String,
    /// Whether a program does not run without one of them.
    is_needed: bool,
    stops: StoppedWork,
}

impl<'f> PackageLoss<'f> {
    /// `None` if nothing needs the files; `asked` are the names of libraries that programs request but do not get.
    fn find(facts: &ImageFacts, package: &'f IncompletePackage, asked: &BTreeSet<Vec<u8>>) -> Option<Self> {
        // A link with the requested name may still exist.
        let links = facts.dangling.iter().filter(|link| asked.contains(link.path.name()));
        let targets: Vec<&[u8]> = links
            .filter_map(|link| link.target.rsplit(|&byte| byte == b'/').next())
            .collect();
        let is_asked = |file: &MissingFile| asked.contains(file.path.name()) || targets.contains(&file.path.name());
        let is_needed = package.missing.iter().any(is_asked) || !package.programs.is_empty();
        if !is_needed && package.missing.iter().all(|file| file.is_dispensable) {
            return None;
        }
        let mut gone: Vec<&MissingFile> = package.missing.iter().collect();
        gone.sort_by_key(|file| (!is_asked(file), !is_library_name(file.path.name())));
        let is_broken = |program: &CuptiConsumer| {
            program.unloaded.breaks_program() && missed_by(program).iter().any(|name| package.lacks(name))
        };
        let stops = if !package.programs.is_empty() || facts.programs().any(is_broken) {
            StoppedWork::Program
        } else {
            StoppedWork::Profiling
        };
        Some(Self {
            package,
            libraries: gone.iter().filter(|file| is_library_name(file.path.name())).count(),
            removed: removed_words(facts, package, &gone),
            gone,
            is_needed,
            stops,
        })
    }

    /// Whether the files of another package of the environment are gone for the same reason.
    fn is_alike(&self, other: &Self) -> bool {
        // If packages lost their libraries together, a program that misses those of one will miss the others' next.
        let lost_together = self.libraries > 0 && other.libraries > 0;
        self.package.kind == other.package.kind
            && self.package.environment() == other.package.environment()
            && self.removed == other.removed
            && (lost_together || self.is_needed == other.is_needed && self.stops == other.stops)
    }

    /// The hit, for this package and `more` others.
    fn hit(&self, more: usize) -> Hit {
        let IncompletePackage {
            name, version, list, ..
        } = self.package;
        let others = match more {
            0 => String::new(),
            1 => ", like 1 other,".to_owned(),
            more => format!(", like {more} others,"),
        };
        let version = escape::escape_bytes(version.as_bytes());
        let shown = self.gone.iter().take(SHOWN);
        let mut hit = Hit::new("package-files-missing")
            .value("name", Shown::untrusted(name))
            .value("version", Shown::known(version + &others))
            .value("list", list)
            .value("missing", self.gone.len())
            .value("listed", self.package.listed)
            .value(
                "names",
                Shown::known(joined_names(self.gone.iter().map(|file| &file.path))),
            )
            .value("removed", Shown::known(self.removed.clone()))
            .raise_if("needed", self.is_needed)
            .at([(list, Some(self.package.layer))])
            .stopping(self.stops)
            .shown_by(shown.map(|file| Evidence::Words(format!("{} is not in the image", file.path))));
        hit.repair = Some(repair(self.package));
        hit
    }
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
    let is_hidden = program.request_kind == RequestKind::Needed && program.start_failure().is_some();
    let own = (program.misses_library() || is_hidden).then(|| program.requested_name.to_vec());
    let failure = program.start_failure().into_iter();
    let others = failure.flat_map(|failure| &failure.missing).map(|name| name.to_vec());
    own.into_iter().chain(others).collect()
}

/// The names of the first files.
pub(super) fn joined_names<'f>(files: impl IntoIterator<Item = &'f RootPath>) -> String {
    let mut names: Vec<String> = files
        .into_iter()
        .map(|file| escape::escape_bytes(file.name()))
        .collect();
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
        .filter_map(|file| facts.layers.removals.get(&file.path).copied())
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
