//! Installing packages: which of them bring the library, and which only seem to.

use super::command::{Installation, NamedPackage};
use super::paths::LibraryPlace;
use super::stage_end::{LibrarySource, StageEnd, StepEdit, StepProblem, shown_version};
use super::stage_walk::{CurrentRun, StageWalk};
use super::stages::StepPlace;
use super::trap::{StepFacts, StepTrap};
use crate::facts::software::cuda_runtime::{CudaVersion, parse_cuda_version};
use crate::knowledge::build_steps::{InstalledPackage, StepYield};
use crate::knowledge::packages::PackageManager;
use crate::knowledge::{fill_version, version_numbers};

/// The text of a fix if no package of the same manager is known for the base image's CUDA.
const PACKAGE_OF_ITS_CUDA: &str =
    "the libcupti package for the CUDA of the base image; cupti-audit advise --cuda X.Y names it";

/// A package of an installation.
struct NamedRow<'p> {
    named: &'p NamedPackage,
    package: &'p InstalledPackage,
    /// The CUDA version in its name, or that of the distribution's own package.
    release: Option<CudaVersion>,
    /// Whether it is the distribution's own library by its full name, such as libcupti11.8.
    is_own_library: bool,
}

/// What an installation does with a package.
enum PackageResult {
    Brings,
    /// Neither known to bring the library nor to leave it out.
    Unseen,
    Nothing,
    Trap(StepTrap),
}

impl StageWalk<'_> {
    pub(super) fn install(
        &self,
        now: &mut StageEnd,
        installation: &Installation,
        run: &mut CurrentRun<'_>,
        is_conditional: bool,
    ) {
        let line = run.place.line;
        let is_pip = installation.manager == PackageManager::Pip;
        let is_known_index = installation.is_known_index && !(is_pip && (now.has_own_index || now.has_other_wheels));
        for named in &installation.packages {
            let Some(row) = self.row_of(now, named, installation) else {
                continue;
            };
            let mut result = self.result_of(now, &row, installation, run.place);
            if matches!(result, PackageResult::Brings) && (is_conditional || !is_known_index) {
                result = PackageResult::Unseen;
            }
            match result {
                PackageResult::Nothing => {}
                PackageResult::Unseen => now.unseen(line, format!("installs {}", named.word), true),
                PackageResult::Trap(trap) if is_conditional && !trap.fails_build() => {}
                PackageResult::Trap(trap) => {
                    run.problems.push(self.wrong_package(now, &row, trap, run.place));
                }
                PackageResult::Brings => {
                    run.problems.extend(self.other_release(now, &row, run.place));
                    if row.package.toolkit {
                        now.cuda.extend(row.release);
                    }
                    now.sources.push(self.source_of(&row, line));
                }
            }
        }
        if let Some(hidden) = &installation.hidden {
            now.unseen(line, format!("installs {hidden}"), true);
        }
        // One step may install a package with the library beside one without it.
        if now.sources.iter().any(|source| source.line == line) {
            run.problems.retain(|problem| problem.facts.trap != StepTrap::Nothing);
        }
    }

    fn row_of<'p>(
        &'p self,
        now: &StageEnd,
        named: &'p NamedPackage,
        installation: &Installation,
    ) -> Option<NamedRow<'p>> {
        let (manager, indexes) = (installation.manager, &installation.indexes);
        let tables = &self.known.tables;
        let (package, release) = tables.build_steps.package(manager, &named.name, &named.extras)?;
        let own = tables.packages.own.iter().find(|own| own.package == named.name);
        let of_system = match &now.system {
            Some((id, version)) if package.own => tables.packages.distro_package(id, version),
            _ => None,
        };
        Some(NamedRow {
            named,
            package,
            release: release
                .or_else(|| self.cuda_of_torch(package, named, indexes))
                .or(parse_cuda_version(own.or(of_system).map_or("", |own| &own.cuda))),
            is_own_library: own.is_some(),
        })
    }

    /// The CUDA version of a PyTorch: that of its build, such as `cu124`, or that of its release on the package index.
    fn cuda_of_torch(&self, package: &InstalledPackage, named: &NamedPackage, indexes: &str) -> Option<CudaVersion> {
        if !package.links {
            return None;
        }
        let built = [indexes, named.word.as_str()].into_iter().find_map(|text| {
            let digits = text.rsplit_once("cu")?.1.get(..3)?;
            Some((digits.get(..2)?.parse().ok()?, digits.get(2..)?.parse().ok()?))
        });
        if built.is_some() {
            return built;
        }
        let pinned = named.word.split_once("==").map(|(_, version)| version_numbers(version));
        let release = self.known.tables.framework_release(&named.name, pinned.as_deref());
        release?.required_cuda()
    }

    fn result_of(
        &self,
        now: &StageEnd,
        row: &NamedRow<'_>,
        installation: &Installation,
        place: &StepPlace,
    ) -> PackageResult {
        let package = row.package;
        let word = &row.named.word;
        if row.is_own_library {
            return PackageResult::Brings;
        }
        if self.lacks_package(now, row) {
            return PackageResult::Trap(StepTrap::NoPackage);
        }
        match package.brings {
            StepYield::Library | StepYield::Wheel => {}
            StepYield::Stub => return PackageResult::Trap(StepTrap::Placeholder),
            StepYield::Absent => return PackageResult::Trap(StepTrap::NoPackage),
            StepYield::Unknown => return PackageResult::Unseen,
            StepYield::Nothing if package.trap && self.mentions_library(self.text_with_comment(place)) => {
                return PackageResult::Trap(StepTrap::Nothing);
            }
            StepYield::Nothing => return PackageResult::Nothing,
        }
        if package.unless.iter().any(|part| {
            let text = if part.starts_with('+') {
                word
            } else {
                &installation.indexes
            };
            text.contains(part.as_str())
        }) {
            return if package.links && self.is_for_gpu(now, place) {
                PackageResult::Trap(StepTrap::OtherBuild)
            } else {
                PackageResult::Nothing
            };
        }
        if package.since.as_ref().is_some_and(|since| may_be_older(word, since)) {
            return PackageResult::Unseen;
        }
        if package.dependency && !installation.has_dependencies {
            return self.without_dependencies(now, row, installation);
        }
        PackageResult::Brings
    }

    /// What a package does without those that it requires.
    fn without_dependencies(&self, now: &StageEnd, row: &NamedRow<'_>, installation: &Installation) -> PackageResult {
        let word = &row.named.word;
        let wheels = self.known.tables.frameworks.iter().find_map(|one| one.wheels.as_ref());
        let is_older = wheels.is_some_and(|wheels| may_be_older(word, &wheels.unbundled_from));
        // Older builds of PyTorch's index contain the library.
        let is_bundled = is_older && [word, &installation.indexes].iter().any(|text| text.contains("cu1"));
        if now.has_other_wheels || is_bundled {
            PackageResult::Unseen
        } else if row.package.links || !row.package.extras.is_empty() {
            PackageResult::Trap(StepTrap::LeftOut)
        } else {
            PackageResult::Nothing
        }
    }

    fn source_of(&self, row: &NamedRow<'_>, line: usize) -> LibrarySource {
        let manager = row.package.manager;
        LibrarySource {
            name: row.named.name.clone(),
            line,
            place: if manager == PackageManager::System && !row.package.own && !row.is_own_library {
                LibraryPlace::Folder(self.known.tables.packages.toolkit.libraries.clone())
            } else if manager == PackageManager::System {
                LibraryPlace::Folder("/usr/lib/x86_64-linux-gnu".to_owned())
            } else {
                LibraryPlace::Environment
            },
            cuda: row
                .release
                .filter(|(_, minor)| *minor > 0 || manager == PackageManager::Pip),
            links: row.package.links,
        }
    }

    /// Whether a text mentions the library.
    fn mentions_library(&self, text: &str) -> bool {
        text.to_lowercase().contains(&self.known.library.package_word)
    }

    /// An instruction and the comment lines above it.
    fn text_with_comment(&self, place: &StepPlace) -> &str {
        let mut start = place.span.start;
        for line in self.text.get(..start).unwrap_or_default().split_inclusive('\n').rev() {
            if !line.trim_start().starts_with('#') {
                break;
            }
            start -= line.len();
        }
        self.text.get(start..place.span.end).unwrap_or_default()
    }

    /// Whether an image is for GPUs: it has CUDA, or a source of the library, or another step mentions it. A build for
    /// CPUs is no mistake elsewhere.
    fn is_for_gpu(&self, now: &StageEnd, place: &StepPlace) -> bool {
        let others = [self.text.get(..place.span.start), self.text.get(place.span.end..)];
        let words = ["cuda", "CUDA", "nvidia", "NVIDIA"];
        let mut mentions = others
            .into_iter()
            .flatten()
            .flat_map(|text| words.map(|word| text.contains(word)));
        !now.cuda.is_empty() || !now.sources.is_empty() || mentions.any(|mentions| mentions)
    }

    /// Whether NVIDIA's repository for this distribution has no such release of a package, on x86-64. For an unknown
    /// distribution: whether none of the repositories has it.
    fn lacks_package(&self, now: &StageEnd, row: &NamedRow<'_>) -> bool {
        if row.package.manager != PackageManager::System || row.package.own {
            return false;
        }
        // Without a minor version, the name is that of a metapackage.
        row.release.is_some_and(|(major, minor)| {
            row.named.name.contains(&format!("{major}-{minor}")) && self.repository_lacks(now, (major, minor))
        })
    }

    /// A Dockerfile may add the repository of another distribution.
    fn repository_lacks(&self, now: &StageEnd, cuda: CudaVersion) -> bool {
        let packages = &self.known.tables.packages;
        if ["/cuda/repos/", "cuda-repo-"]
            .iter()
            .any(|part| self.text.contains(part))
        {
            return false;
        }
        match &now.system {
            Some((id, version)) => {
                let repository = packages.nvidia_repository(id, version, "x86_64");
                repository.is_some_and(|repository| !repository.has(cuda))
            }
            None => packages.nvidia.iter().all(|repository| !repository.has(cuda)),
        }
    }

    /// A package that does not contain the library, does not exist, or cannot be installed.
    fn wrong_package(&self, now: &StageEnd, row: &NamedRow<'_>, trap: StepTrap, place: &StepPlace) -> StepProblem {
        let cuda = now.cuda.first().copied().or(row.release);
        let word = &row.named.word;
        let right = match trap {
            // The stub has the name that the wheel of this CUDA would have.
            StepTrap::Placeholder => self.known.library.wheels.pin.clone(),
            StepTrap::NoPackage if cuda.is_some_and(|cuda| self.repository_lacks(now, cuda)) => None,
            _ => self.right_package(row.package.manager, cuda),
        };
        let new = right.as_ref().and_then(|right| match trap {
            StepTrap::LeftOut | StepTrap::OtherBuild => None,
            StepTrap::Nothing => Some(format!("{word} {right}")),
            _ => Some(right.clone()),
        });
        let facts = StepFacts {
            cuda: cuda.map(shown_version),
            release: row.release.map(shown_version),
            instead: right.unwrap_or_else(|| PACKAGE_OF_ITS_CUDA.to_owned()),
            ..StepFacts::new(trap, word)
        };
        StepProblem {
            edit: new.map(|new| StepEdit::Replace(word.clone(), new)),
            ..StepProblem::new(place, facts)
        }
    }

    /// A package with the library of another CUDA than the toolkits of the stage. A wheel belongs to its framework, which
    /// may be of another CUDA than the image.
    fn other_release(&self, now: &StageEnd, row: &NamedRow<'_>, place: &StepPlace) -> Option<StepProblem> {
        let release = row.release?;
        let cuda = *now.cuda.first()?;
        let is_other = now.cuda.iter().all(|own| own.0 != release.0);
        if !is_other || row.package.toolkit || row.package.manager != PackageManager::System {
            return None;
        }
        let right = self.right_package(row.package.manager, Some(cuda));
        let facts = StepFacts {
            cuda: Some(shown_version(cuda)),
            release: Some(shown_version(release)),
            instead: right.clone().unwrap_or_else(|| PACKAGE_OF_ITS_CUDA.to_owned()),
            ..StepFacts::new(StepTrap::OtherRelease, &row.named.name)
        };
        Some(StepProblem {
            edit: right.map(|right| StepEdit::Replace(row.named.word.clone(), right)),
            ..StepProblem::new(place, facts)
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

/// Whether a requirement may mean a version older than another.
fn may_be_older(word: &str, since: &str) -> bool {
    let specifiers = word.find(['=', '<', '>', '~', '!']).and_then(|start| word.get(start..));
    specifiers.is_some_and(|specifiers| {
        specifiers.split(',').any(|part| {
            let version = part.trim_start_matches(['=', '<', '>', '~', '!', ' ']);
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
    let mut numbers = version
        .split(|letter: char| !letter.is_ascii_digit())
        .map(|part| part.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}
