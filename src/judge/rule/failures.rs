//! Failures to load libcupti, or a program that requests it.

use super::command::ldconfig;
use super::evidence::{self, Evidence};
use super::{Hit, Shown, StoppedWork};
use crate::facts::objects::credentials::search_obstacle;
use crate::facts::objects::start_failure::{FailureCure, permission_cure};
use crate::facts::software::cuda_runtime::site_packages_of;
use crate::facts::{CuptiConsumer, CuptiCopy, CuptiStatus, FailureImpact, ImageFacts, RequestKind, RequestOutcome};
use crate::facts::{is_undetermined, join_words, unresolved_objects};
use crate::shell_quote::quote_path;
use image_linkage::elf::ByteString;
use image_linkage::escape;
use image_linkage::loader::{Libc, UnresolvedRequest, glibc_version};
use image_linkage::path::RootPath;
use image_linkage::rootfs::{FileUse, Rootfs};

/// Checks the copies that a process would load, and the requesting programs.
pub(super) fn check(facts: &ImageFacts) -> Vec<Hit> {
    let mut hits = Vec::new();
    for copy in facts.own_copies() {
        hits.extend(of_copy(facts, copy));
    }
    for consumer in &facts.answers.consumers {
        if !follows_from_command(facts, consumer) {
            hits.extend(of_consumer(facts, consumer));
        }
    }
    for program in facts.programs() {
        if !follows_from_command(facts, program) {
            hits.extend(cannot_start(facts, program));
        }
    }
    hits
}

/// Whether the failure of a program is only a consequence of a command that does not start.
pub(super) fn follows_from_command(facts: &ImageFacts, program: &CuptiConsumer) -> bool {
    let mut ended = facts.programs().filter(|other| facts.ends_with_command(other));
    ended.any(|other| other.object == program.object)
}

/// The missing dependencies of a copy; `None` for one that the loader does not even map.
fn of_copy(facts: &ImageFacts, copy: &CuptiCopy) -> Option<Hit> {
    // If a plain dlopen gets a copy, another copy off the search path breaks nothing.
    if facts.answers.status.as_is == CuptiStatus::Loadable && copy.how.is_none() {
        return None;
    }
    let resolution = &copy.by_path.as_is;
    resolution.root?;
    let mut words = Vec::new();
    let mut searched = Vec::new();
    for failure in unresolved_objects(resolution) {
        // A gap already reports what only a run can show.
        if !is_undetermined(&failure.trace) {
            words.push(words_of(failure));
            searched.extend(evidence::search_evidence(failure, resolution));
        }
    }
    if words.is_empty() {
        return None;
    }
    let failure = Failure {
        object: copy.real_path.to_string(),
        breaks: None,
        words,
    };
    let hit = failure.hit(facts)?.shown_by(searched);
    Some(hit.at([(&copy.real_path, Some(copy.layer))]))
}

/// The missing libraries of a program that links or opens libcupti: libcupti first, else a newer glibc.
fn of_consumer(facts: &ImageFacts, consumer: &CuptiConsumer) -> Option<Hit> {
    let outcome = &consumer.outcome.as_is;
    let searched: Vec<Evidence> = outcome
        .answer
        .search
        .lines()
        .into_iter()
        .map(Evidence::Searched)
        .collect();
    if consumer.unreachable().is_some() {
        return Some(unreachable(facts, consumer).shown_by(searched));
    }
    let mut failure = Failure {
        object: consumer.name.clone(),
        breaks: Some(consumer.required),
        words: Vec::new(),
    };
    if !consumer.misses_library() {
        // The program may load other missing libraries beforehand, but never a glibc version.
        failure.words = outcome.other_failures.iter().map(words_of).collect();
        failure.words.retain(|words| glibc_needed(words).is_some());
        // ld.so rejects the whole object if a version is missing, so even the import fails.
        failure.breaks = Some(FailureImpact::Import);
        if failure.words.is_empty() {
            return None;
        }
        return Some(failure.hit(facts)?.at([(&consumer.object, None)]));
    }
    if consumer.request_kind == RequestKind::Dlopen {
        return Some(unserved(facts, consumer).shown_by(searched));
    }
    let absent = format!("{} is not in the image", escape::escape_bytes(&consumer.requested_name));
    let mut said = None;
    if is_nowhere(facts, consumer) {
        failure.words.push((&absent, None));
        said = Some(Evidence::Words(outcome.answer.message().to_owned()));
    } else {
        let missing = outcome.answer.result.as_ref().err();
        let version = missing.and_then(|failure| failure.missing_version.as_ref());
        failure.words.push((outcome.answer.message(), version));
    }
    let hit = failure.hit(facts)?.shown_by(said).shown_by(searched);
    Some(hit.at([(&consumer.object, None)]))
}

/// Whether a program finds no library because no file or link has the name, and no library has it as its soname. A path
/// names one place.
fn is_nowhere(facts: &ImageFacts, consumer: &CuptiConsumer) -> bool {
    let (answer, name) = (&consumer.outcome.as_is.answer, &consumer.requested_name);
    // The loader's message has the obstacle in a search that could not look everywhere.
    let rootfs = &facts.contexts.as_is.rootfs;
    let obstacle = || search_obstacle(rootfs, std::slice::from_ref(name), answer.search.steps());
    if answer.outcome() != RequestOutcome::NotFound || obstacle().is_some() {
        return false;
    }
    if name.contains(&b'/') {
        return rootfs.lookup_link(name).is_err();
    }
    let is_copy = |copy: &CuptiCopy| copy.soname.as_ref() == Some(name) || copy.real_path.name() == &**name;
    !facts.answers.copies.iter().any(is_copy)
        && !facts.dangling.iter().any(|link| link.path.name() == &**name)
        && !facts.related.misnamed.iter().any(|link| link.path.name() == &**name)
}

/// The loader's message about a failure, and the missing symbol version, if that is the cause.
type LoaderWords<'a> = (&'a str, Option<&'a ByteString>);

fn words_of(failure: &UnresolvedRequest) -> LoaderWords<'_> {
    (&failure.message, failure.missing_version.as_ref())
}

fn glibc_needed((_, missing): &LoaderWords<'_>) -> Option<(u32, u32)> {
    missing.and_then(|version| glibc_version(version))
}

/// A failure of an object to load.
struct Failure<'a> {
    object: String,
    /// The effect on a program; `None` if the library itself fails.
    breaks: Option<FailureImpact>,
    words: Vec<LoaderWords<'a>>,
}

impl Failure<'_> {
    /// The hit of the rule for a glibc that is too old, or else of the one for missing libraries. `None` with musl, for
    /// which the library is not built.
    fn hit(&self, facts: &ImageFacts) -> Option<Hit> {
        let linker = facts.contexts.as_is.linker.as_ref().map(|linker| linker.libc);
        if matches!(linker, Some(Libc::Musl)) {
            return None;
        }
        let needed: Vec<_> = self.words.iter().map(glibc_needed).collect();
        let messages: Vec<&str> = self.words.iter().map(|(message, _)| *message).collect();
        // A newer glibc is a fix only if nothing else is missing.
        let failure = if needed.iter().all(Option::is_some) {
            // One glibc must satisfy all of them.
            let newest = needed.iter().flatten().max();
            let installed = match linker {
                Some(Libc::Glibc(Some(version))) => number(version),
                Some(Libc::Glibc(None)) => "an older one".to_owned(),
                _ => String::new(),
            };
            Hit::new("glibc-too-old")
                .value(
                    "glibc_needed",
                    Shown::known(newest.copied().map(number).unwrap_or_default()),
                )
                .value("glibc_here", Shown::known(installed))
                // The text says what is needed; the loader's messages say by which file.
                .shown_by(messages.iter().map(|message| Evidence::Words((*message).to_owned())))
        } else {
            Hit::new("missing-dependency").value("words", Shown::known(join_words(&messages)))
        };
        Some(
            failure
                .value("object", Shown::known(self.object.clone()))
                .raise_if("breaks-program", self.breaks == Some(FailureImpact::Import))
                .raise_if("breaks-library", self.breaks.is_none())
                .stopping(self.breaks.map_or(StoppedWork::Profiling, StoppedWork::by)),
        )
    }
}

fn number((major, minor): (u32, u32)) -> String {
    format!("{major}.{minor}")
}

/// A package that is not on the path of any Python in the image.
fn unreachable(facts: &ImageFacts, consumer: &CuptiConsumer) -> Hit {
    on_opener("python-package-unreachable", consumer)
        .cured_by(cure_of_opening(facts, consumer).commands)
        .raise_if("breaks-import", consumer.required == FailureImpact::Import)
}

/// A program that opens libcupti at run time but does not get it.
fn unserved(facts: &ImageFacts, consumer: &CuptiConsumer) -> Hit {
    let name = escape::escape_bytes(&consumer.requested_name);
    let cause = if is_nowhere(facts, consumer) {
        format!("{name} is not in the image")
    } else {
        consumer.outcome.as_is.answer.message().to_owned()
    };
    let site = site_packages_of(&consumer.object);
    // Objects outside of site-packages share no environment.
    let others_served = site.is_some()
        && facts
            .answers
            .consumers
            .iter()
            .any(|other| other.outcome.as_is.answer.is_loaded() && site_packages_of(&other.object) == site);
    let cure = cure_of_opening(facts, consumer);
    on_opener("consumer-without-cupti", consumer)
        .value("wants", Shown::known(name))
        .value("cause", Shown::known(cause))
        .value("fails", Shown::known(consumer.required.failure_words()))
        .value("cure", Shown::known(cure.words))
        .raise_if("no-other-program", !others_served)
        .cured_by(cure.commands)
}

/// A hit on a program that opens libcupti.
fn on_opener(rule: &'static str, consumer: &CuptiConsumer) -> Hit {
    Hit::new(rule)
        .value("name", Shown::known(consumer.name.clone()))
        .value(
            "words",
            Shown::known(consumer.outcome.as_is.answer.message().to_owned()),
        )
        .raise_if("loses-gpu", consumer.required == FailureImpact::Gpu)
        .stopping(StoppedWork::by(consumer.required))
        .at([(&consumer.object, None)])
}

/// A fix that lets a program open the library under the requested name.
fn cure_of_opening(facts: &ImageFacts, consumer: &CuptiConsumer) -> FailureCure {
    let shown_name = escape::escape_bytes(&consumer.requested_name);
    let name = RootPath::new(&consumer.requested_name);
    let is_path = consumer.requested_name.contains(&b'/');
    let permission = || permission_cure(&facts.contexts.as_is, &name, &[FileUse::Read]);
    if let Some(cure) = is_path.then(permission).flatten() {
        return cure;
    }
    let is_bare = name.name() == facts.library.stem.as_bytes();
    let rootfs = &facts.contexts.as_is.rootfs;
    let tried = rootfs.lookup(&name.absolute()).ok().map(|found| found.path);
    let fits = |copy: &&CuptiCopy| {
        let is_named = |soname: &ByteString| facts.is_name_of(name.name(), soname);
        let is_other = tried.as_ref() != Some(&copy.real_path);
        is_other && copy.problems.is_empty() && copy.soname.as_ref().is_some_and(is_named)
    };
    let copies = || facts.own_copies().filter(fits);
    let found = copies().find(|copy| copy.loadable.as_is && is_bare);
    let copy = found.or_else(|| copies().next()).map(|copy| &copy.real_path);
    match copy {
        None if is_path => format!("put the library, or a link to it, at {shown_name}").into(),
        None => format!("add {shown_name} to the image").into(),
        Some(copy) if is_path => link_cure(rootfs, &name, copy),
        // If the loader finds it by soname, it also finds a link next to it.
        Some(copy) if found.is_some() => {
            let mut cure = link_cure(rootfs, &copy.parent().join(name.name()), copy);
            cure.commands.extend(ldconfig(&facts.contexts.as_is));
            cure
        }
        Some(copy) => format!("make the search above find {copy} under the name {shown_name}").into(),
    }
}

/// Creates a link to a file, and its folder if needed.
fn link_cure(rootfs: &Rootfs, at: &RootPath, to: &RootPath) -> FailureCure {
    let folder = at.parent();
    let is_there = rootfs.lookup(&folder.absolute()).is_ok();
    let made = || {
        let (folder, at, to) = (quote_path(&folder)?, quote_path(at)?, quote_path(to)?);
        let folder = (!is_there).then(|| format!("mkdir -p {folder}"));
        let link = format!("ln -sf {to} {at}");
        Some(folder.into_iter().chain([link]).collect())
    };
    FailureCure {
        commands: made().unwrap_or_default(),
        ..format!("make {at} a link to {to}").into()
    }
}

/// A requesting program that does not start, or a library that cannot be loaded, because of another missing part.
fn cannot_start(facts: &ImageFacts, consumer: &CuptiConsumer) -> Option<Hit> {
    let failure = consumer.start_failure()?;
    // Another rule reports a glibc that is too old.
    let mut others = consumer.outcome.as_is.other_failures.iter();
    if others.any(|failure| glibc_needed(&words_of(failure)).is_some()) {
        return None;
    }
    let program = consumer.program.as_ref();
    let is_own = program.is_some_and(|program| facts.is_commands(program));
    // Another environment may have the same program.
    let is_elsewhere = consumer.has_no_python()
        && facts
            .programs()
            .any(|other| other.name == consumer.name && other.start_failure().is_none());
    let is_process = failure.is_process && !is_elsewhere;
    let impact = consumer.unloaded;
    let stopped = if is_own {
        StoppedWork::Command
    } else if is_process {
        StoppedWork::by(impact)
    } else {
        StoppedWork::Profiling
    };
    let steps = failure.answer.search.lines();
    let hit = Hit::new("consumer-cannot-start")
        .value("name", Shown::known(consumer.name.clone()))
        .value("words", Shown::known(failure.words()))
        .value("cure", Shown::known(failure.cure.words.clone()))
        .raise_if(
            "process-links-library",
            is_process && consumer.request_kind == RequestKind::Needed,
        )
        .raise_if("process-ends", is_process && impact == FailureImpact::Import)
        .raise_if("process-loses-gpu", is_process && impact == FailureImpact::Gpu)
        .raise_if("container-command", is_own)
        .at([(&consumer.object, None)])
        .stopping(stopped)
        .shown_by(steps.into_iter().map(Evidence::Searched))
        .cured_by(failure.cure.commands.clone());
    Some(hit)
}
