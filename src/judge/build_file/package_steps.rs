//! Installing and removing packages: the copies that they add and take away, and the packages that do not bring the
//! library.

use super::command_effect::{Installation, NamedPackage, Removal, normal_name};
use super::paths::absolute;
use super::presence::{CopyFate, LibraryCopy, PackageOwner};
use super::stages::StepPlace;
use super::walk::{CurrentStep, StageState, StageWalk, StepEdit, StepProblem, remove_copies, shown_version};
use crate::facts::software::cuda_runtime::{CudaVersion, parse_cuda_version};
use crate::judge::rule::BuildStepFacts;
use crate::knowledge::build_steps::{InstalledPackage, StepYield};
use crate::knowledge::fill_version;
use crate::knowledge::packages::PackageManager;

/// The text of a fix if no package of the same manager is known for the base image's CUDA.
const PACKAGE_OF_ITS_CUDA: &str =
    "the libcupti package for the CUDA of the base image; cupti-audit advise --cuda X.Y names it";

impl StageWalk<'_> {
    pub(super) fn uninstall(&self, now: &mut StageState, removal: &Removal, step: &mut CurrentStep<'_>) {
        let shown: Vec<&str> = removal.names.iter().map(|word| &*word.text).collect();
        let why = match shown.as_slice() {
            [] => "removes packages that no other needs".to_owned(),
            names => format!("removes {}", names.join(" ")),
        };
        let is_open = removal.names.iter().any(|word| !word.is_known());
        let names: Vec<String> = removal
            .names
            .iter()
            .map(|word| removed_name(removal.manager, &word.text))
            .collect();
        let is_related = |name: &str| {
            let may_bring = self.known.tables.build_steps.package(removal.manager, name, &[]);
            may_bring.is_some_and(|(package, _)| {
                matches!(package.brings, StepYield::Unknown | StepYield::Library)
                    || package.names.iter().any(|own| own != "*") && name.contains('*')
            }) && removal.manager == PackageManager::System
                // Conda removes what depends on a package, too.
                || removal.manager == PackageManager::Conda
                || name.contains(&self.known.library.package_word)
        };
        let fate = |copy: &mut LibraryCopy| match &mut copy.owner {
            Some(owner) if owner.manager == removal.manager && is_open => CopyFate::Unknown,
            // The packages of a base image are not listed.
            Some(owner) if removal.manager != PackageManager::System && owner.name.is_none() && owner.via.is_none() => {
                CopyFate::Unknown
            }
            Some(owner) if owner.manager == removal.manager => {
                owner.fate_of_removal(&names, removal.with_orphans, is_related)
            }
            // An image of the table whose packages are not listed.
            None if removal.manager == PackageManager::System && names.iter().any(|name| is_related(name)) => {
                CopyFate::Unknown
            }
            _ => CopyFate::Kept,
        };
        remove_copies(now, step, &why, fate);
    }

    /// Whether a word may mention the library, or the toolkit's installer.
    pub(super) fn names_library(&self, word: &str) -> bool {
        let word = word.to_lowercase();
        word.contains(&self.known.library.package_word) || word.contains(&self.known.tables.packages.toolkit.installer)
    }

    pub(super) fn install(&self, now: &mut StageState, installation: &Installation, step: &mut CurrentStep<'_>) {
        let line = step.place.line;
        let table = &self.known.tables.build_steps;
        let words: Vec<&str> = installation.packages.iter().map(|named| &*named.word.text).collect();
        let is_configured = now.configured.contains(&installation.manager);
        let open = installation.open.as_ref().map(|option| format!("with {option}"));
        if let Some(open) = open.or_else(|| is_configured.then(|| words.join(" "))) {
            now.may_gain(line, format!("installs {open}"));
            return;
        }
        for named in &installation.packages {
            let Some((package, release)) = table.package(installation.manager, &named.name, &named.extras) else {
                continue;
            };
            let own = || {
                self.known
                    .tables
                    .packages
                    .own
                    .iter()
                    .find(|own| own.package == named.name)
            };
            // The distribution's own library by its full name, such as libcupti11.8.
            let own_release = own().map(|own| parse_cuda_version(&own.cuda));
            let release = release.or(own_release.flatten());
            let brings = match own_release {
                Some(_) => StepYield::Library,
                None if self.lacks_package(now, package, release) => StepYield::Absent,
                None => yield_of(package, installation, &named.word.text),
            };
            if package.dependency && brings == StepYield::Nothing {
                now.left_out.insert(named.name.clone());
            }
            match brings {
                StepYield::Wheel if now.may_differ(package, &named.name) => {
                    now.may_gain(line, format!("installs {}", named.word.text));
                }
                StepYield::Unknown => now.may_gain(line, format!("installs {}", named.word.text)),
                StepYield::Nothing if package.brings == StepYield::Nothing && !package.trap => {}
                StepYield::Nothing | StepYield::Absent | StepYield::Stub => {
                    let wrong = WrongPackage {
                        named,
                        package,
                        brings,
                        release,
                    };
                    step.problems
                        .push(self.wrong_package(now, &wrong, installation, step.place));
                }
                StepYield::Library | StepYield::Wheel => {
                    let release = if package.own { self.own_cuda(now) } else { release };
                    step.problems
                        .extend(self.other_release(now, package, named, release, step.place));
                    if package.toolkit {
                        now.cuda.extend(release);
                    }
                    let is_plain = brings == StepYield::Library && !package.own && own_release.is_none();
                    let folder = is_plain.then(|| self.known.tables.packages.toolkit.libraries.clone());
                    now.add(LibraryCopy {
                        source: named.name.clone(),
                        owner: Some(self.owner_of(named, package, release, installation.manager)),
                        folder: folder.or_else(|| installation.target.as_deref().and_then(absolute)),
                        cuda: release.filter(|(_, minor)| *minor > 0 || is_plain),
                    });
                }
            }
        }
        if let Some(hidden) = &installation.hidden {
            now.may_gain(line, format!("installs {hidden}"));
        }
    }

    /// The package that owns the files which an installation brings.
    fn owner_of(
        &self,
        named: &NamedPackage,
        package: &InstalledPackage,
        release: Option<CudaVersion>,
        manager: PackageManager,
    ) -> PackageOwner {
        let library = &self.known.library.package;
        PackageOwner {
            manager,
            name: match (package.dependency, release, manager) {
                (false, ..) => Some(named.name.clone()),
                (true, Some(cuda), PackageManager::System) if !package.own => {
                    library.as_ref().map(|name| fill_version(name, cuda))
                }
                _ => None,
            },
            via: package.dependency.then(|| named.name.clone()),
        }
    }

    /// Whether NVIDIA's repository for this distribution has no such release of a package, on x86-64.
    fn lacks_package(&self, now: &StageState, package: &InstalledPackage, release: Option<CudaVersion>) -> bool {
        let is_nvidias = package.manager == PackageManager::System && !package.own;
        let of_system = now.system.as_ref().filter(|_| is_nvidias);
        let packages = &self.known.tables.packages;
        let repository = of_system.and_then(|(id, version)| packages.nvidia_repository(id, version, "x86_64"));
        // Without a minor version, the name is that of a metapackage.
        let release = release.filter(|(_, minor)| *minor > 0);
        repository
            .zip(release)
            .is_some_and(|(repository, cuda)| !repository.has(cuda))
    }

    /// The CUDA version of the distribution's own package.
    fn own_cuda(&self, now: &StageState) -> Option<CudaVersion> {
        let (id, version) = now.system.as_ref()?;
        parse_cuda_version(&self.known.tables.packages.distro_package(id, version)?.cuda)
    }

    /// A package that does not contain the library, does not exist, or cannot be installed.
    fn wrong_package(
        &self,
        now: &StageState,
        wrong: &WrongPackage<'_>,
        installation: &Installation,
        place: &StepPlace,
    ) -> StepProblem {
        let WrongPackage {
            named,
            package,
            brings,
            release,
        } = *wrong;
        let cuda = now.cuda.first().copied().or(release);
        let word = &named.word;
        let trap = match brings {
            StepYield::Absent => "no-package",
            StepYield::Stub => "stub",
            _ if package.brings != StepYield::Nothing => "left-out",
            _ => "nothing",
        };
        // The stub has the name that the wheel of this CUDA would have.
        let right = match brings {
            StepYield::Stub => self.known.library.wheels.pin.clone(),
            _ if self.lacks_package(now, package, cuda) => None,
            _ => self.right_package(installation.manager, cuda),
        };
        let new = right.as_ref().filter(|_| trap != "left-out").map(|right| match trap {
            "nothing" => format!("{} {right}", word.text),
            _ => right.clone(),
        });
        let facts = BuildStepFacts {
            what: word.text.clone(),
            from: installation.index.clone().unwrap_or_default(),
            trap,
            cuda: cuda.map(shown_version),
            release: release.map(shown_version),
            instead: right.unwrap_or_else(|| PACKAGE_OF_ITS_CUDA.to_owned()),
            ..BuildStepFacts::default()
        };
        StepProblem {
            place: place.clone(),
            facts,
            edit: replacement(named, new),
        }
    }

    /// A package with the library of another CUDA than the toolkits of the stage. A wheel belongs to its framework, which
    /// may be of another CUDA than the image.
    fn other_release(
        &self,
        now: &StageState,
        package: &InstalledPackage,
        named: &NamedPackage,
        release: Option<CudaVersion>,
        place: &StepPlace,
    ) -> Option<StepProblem> {
        let release = release?;
        let cuda = *now.cuda.first()?;
        let is_other = now.cuda.iter().all(|own| own.0 != release.0);
        if !is_other || package.toolkit || package.manager != PackageManager::System {
            return None;
        }
        let right = self.right_package(package.manager, Some(cuda));
        let facts = BuildStepFacts {
            what: named.name.clone(),
            trap: "other-release",
            cuda: Some(shown_version(cuda)),
            release: Some(shown_version(release)),
            instead: right.clone().unwrap_or_else(|| PACKAGE_OF_ITS_CUDA.to_owned()),
            ..BuildStepFacts::default()
        };
        Some(StepProblem {
            place: place.clone(),
            facts,
            edit: replacement(named, right),
        })
    }

    /// The package of the same manager that contains the library for this CUDA; `None` if none is known.
    fn right_package(&self, manager: PackageManager, cuda: Option<CudaVersion>) -> Option<String> {
        let library = self.known.library;
        match manager {
            PackageManager::System => Some(fill_version(library.package.as_ref()?, cuda?)),
            PackageManager::Pip => library.wheel_of(cuda?.0).map(|wheel| wheel.name.clone()),
            PackageManager::Conda => library.conda.as_ref().map(|conda| conda.name.clone()),
        }
    }
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

/// A package that does not bring the library.
#[derive(Clone, Copy)]
struct WrongPackage<'p> {
    named: &'p NamedPackage,
    package: &'p InstalledPackage,
    brings: StepYield,
    release: Option<CudaVersion>,
}

/// What a package brings with the options of its installation.
fn yield_of(package: &InstalledPackage, installation: &Installation, word: &str) -> StepYield {
    let index = installation.index.as_deref().unwrap_or_default();
    let is_without = package.unless.iter().any(|part| match part.strip_prefix('+') {
        Some(_) => word.contains(part),
        None => index.contains(part),
    });
    let is_older = package.since.as_ref().is_some_and(|since| may_be_older(word, since));
    match package.brings {
        StepYield::Library | StepYield::Wheel if is_without => StepYield::Nothing,
        StepYield::Library | StepYield::Wheel if is_older => StepYield::Unknown,
        StepYield::Library | StepYield::Wheel if package.dependency && !installation.has_dependencies => {
            StepYield::Nothing
        }
        brings => brings,
    }
}

/// Whether a requirement may mean a version older than another.
fn may_be_older(word: &str, since: &str) -> bool {
    let is_operator = |letter: char| "=<>~!".contains(letter);
    let specifiers = word.find(is_operator).and_then(|start| word.get(start..));
    specifiers.is_some_and(|specifiers| {
        specifiers.split(',').any(|part| {
            let version = part.trim_start_matches(|letter| is_operator(letter) || letter == ' ');
            let operator = part.strip_suffix(version).unwrap_or_default().trim();
            match operator {
                ">" | ">=" | "!=" => false,
                "<" => first_numbers(version) <= first_numbers(since),
                _ => first_numbers(version) < first_numbers(since),
            }
        })
    })
}

/// The first two numbers of a version; 0 for one that is missing.
fn first_numbers(version: &str) -> (u32, u32) {
    let mut parts = version.split(|letter: char| !letter.is_ascii_digit());
    let mut next = || parts.next().and_then(|part| part.parse().ok()).unwrap_or(0);
    (next(), next())
}

/// The edit that puts another package in the place of one, if its word is in the Dockerfile.
fn replacement(named: &NamedPackage, new: Option<String>) -> Option<StepEdit> {
    let span = named.word.span.clone();
    span.zip(new).map(|(span, new)| StepEdit::Replace(span, new))
}
