//! Failures to load libcupti, or a program that requests it.

use super::evidence::{self, Evidence};
use super::ld_cache::ldconfig;
use super::rule_subject::{RuleSubject, StoppedWork, flag, text};
use crate::facts::objects::credentials::search_obstacle;
use crate::facts::objects::start_failure::{FailureCure, permission_cure};
use crate::facts::software::cuda_runtime::site_packages_of;
use crate::facts::{self, CuptiConsumer, CuptiStatus, FailureImpact, ImageFacts, RequestKind, RequestOutcome};
use crate::facts::{is_undetermined, join_words};
use crate::knowledge::rule::SubjectKind;
use crate::shell_quote::quote_path;
use image_linkage::elf::ByteString;
use image_linkage::escape;
use image_linkage::loader::trace_lines;
use image_linkage::loader::{Libc, UnresolvedRequest, glibc_version};
use image_linkage::path::RootPath;
use image_linkage::rootfs::{FileUse, Rootfs};

/// The failures of the copies that a process would load, and of the requesting programs.
pub(super) fn subjects(facts: &ImageFacts) -> Vec<RuleSubject> {
    // If a plain dlopen gets a copy, another copy off the search path breaks nothing.
    let idle = |copy: &&facts::CuptiCopy| facts.status.as_is == CuptiStatus::Loadable && copy.how.is_none();
    let copies = facts
        .own_copies()
        .filter(|copy| !idle(copy))
        .filter_map(|copy| of_copy(facts, copy));
    let consumers = facts.consumers.iter();
    copies
        .chain(consumers.filter_map(|consumer| of_consumer(facts, consumer)))
        .collect()
}

/// The missing dependencies of a copy; `None` for one that the loader does not even map.
fn of_copy(facts: &ImageFacts, copy: &facts::CuptiCopy) -> Option<RuleSubject> {
    let resolution = &copy.by_path.as_is;
    resolution.root?;
    let failures = facts::unresolved_objects(resolution);
    // A gap already reports what only a run can show.
    let failures: Vec<&UnresolvedRequest> = failures.filter(|failure| !is_undetermined(&failure.trace)).collect();
    let words: Vec<LoaderWords<'_>> = failures.iter().map(|failure| words_of(failure)).collect();
    let shown = || {
        failures
            .iter()
            .flat_map(|failure| evidence::search_evidence(failure, resolution))
            .collect()
    };
    let place = (&copy.real_path, Some(copy.layer));
    let object = copy.real_path.to_string();
    (!failures.is_empty()).then(|| failure(facts, object, None, &words, shown()).at([place]))
}

/// The missing libraries of a program that links or opens libcupti: libcupti first, else a newer glibc.
fn of_consumer(facts: &ImageFacts, consumer: &CuptiConsumer) -> Option<RuleSubject> {
    let gets = &consumer.outcome.as_is;
    let lines = trace_lines(&gets.trace, &gets.objects);
    let searched: Vec<Evidence> = lines.into_iter().map(Evidence::Searched).collect();
    let place = (&consumer.object, None);
    let object = consumer.name.clone();
    let breaks = Some(consumer.required);
    if consumer.unreachable().is_some() {
        return Some(unserved(facts, consumer, searched));
    }
    if consumer.misses_library() {
        return Some(match consumer.asks {
            RequestKind::Needed if is_nowhere(facts, consumer) => {
                let words = format!("{} is not in the image", escape::escape_bytes(&consumer.wants));
                let said = [Evidence::Words(gets.message.clone())].into_iter().chain(searched);
                failure(facts, object, breaks, &[(&words, None)], said.collect()).at([place])
            }
            RequestKind::Needed => {
                let words = (gets.message.as_str(), gets.missing_version.as_ref());
                failure(facts, object, breaks, &[words], searched).at([place])
            }
            RequestKind::Dlopen => unserved(facts, consumer, searched),
        });
    }
    // The program may load other missing libraries beforehand, but never a glibc version.
    let others = gets.other_failures.iter().map(words_of);
    let old: Vec<LoaderWords<'_>> = others.filter(|words| glibc_needed(words).is_some()).collect();
    // ld.so rejects the whole object if a version is missing, so even the import fails.
    let breaks = Some(FailureImpact::Import);
    (!old.is_empty()).then(|| failure(facts, object, breaks, &old, Vec::new()).at([place]))
}

/// Whether a program finds no library because no file or link has the name, and no library has it as its soname. A path
/// names one place.
fn is_nowhere(facts: &ImageFacts, consumer: &CuptiConsumer) -> bool {
    let (gets, name) = (&consumer.outcome.as_is, &consumer.wants);
    // The loader's message has the obstacle in a search that could not look everywhere.
    let rootfs = &facts.contexts.as_is.rootfs;
    let obstacle = || search_obstacle(rootfs, std::slice::from_ref(name), &gets.trace);
    if gets.outcome != RequestOutcome::NotFound || obstacle().is_some() {
        return false;
    }
    if name.contains(&b'/') {
        return rootfs.lookup_link(name).is_err();
    }
    let is_copy = |copy: &facts::CuptiCopy| copy.soname.as_ref() == Some(name) || copy.real_path.name() == &**name;
    !facts.copies.iter().any(is_copy)
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

/// The glibc version that a failed request needs, if that is missing.
pub(super) fn glibc_of_failure(failure: &UnresolvedRequest) -> Option<(u32, u32)> {
    glibc_needed(&words_of(failure))
}

/// A failure that stops a program with this impact; without one, the library itself fails.
fn failure(
    facts: &ImageFacts,
    object: String,
    breaks: Option<FailureImpact>,
    failures: &[LoaderWords<'_>],
    evidence: Vec<Evidence>,
) -> RuleSubject {
    let needed: Vec<_> = failures.iter().map(glibc_needed).collect();
    // One glibc must satisfy all of them.
    let newest = needed.iter().flatten().max();
    let (libc, here) = c_library(facts);
    // A newer glibc is a fix only if nothing else is missing.
    let is_glibc = needed.iter().all(Option::is_some);
    // The text about glibc says what is needed; the loader's messages say by which file.
    let messages: Vec<&str> = failures.iter().map(|(message, _)| *message).collect();
    let words = messages.iter().filter(|_| is_glibc);
    let words = words.map(|message| Evidence::Words((*message).to_owned()));
    SubjectKind::Failure
        .subject([
            ("object", text(object)),
            ("breaks", text(breaks.map_or("cupti", FailureImpact::name))),
            ("words", text(join_words(&messages))),
            ("glibc", flag(is_glibc)),
            (
                "glibc_needed",
                text(newest.map(|newest| number(*newest)).unwrap_or_default()),
            ),
            ("glibc_here", text(here)),
            // For a library that is also built for musl, report missing parts as with glibc.
            ("musl", flag(libc == "musl" && facts.library.glibc)),
        ])
        .stopping(breaks.map_or(StoppedWork::Profiling, StoppedWork::by))
        .shown_by(words.chain(evidence))
}

fn unserved(facts: &ImageFacts, consumer: &CuptiConsumer, evidence: Vec<Evidence>) -> RuleSubject {
    let gets = &consumer.outcome.as_is;
    let wants = escape::escape_bytes(&consumer.wants);
    let cause = if is_nowhere(facts, consumer) {
        format!("{wants} is not in the image")
    } else {
        gets.message.clone()
    };
    let cure = cure_of_opening(facts, consumer);
    let site = site_packages_of(&consumer.object);
    // Objects outside of site-packages share no environment.
    let others_served = site.is_some()
        && facts.consumers.iter().any(|other| {
            other.outcome.as_is.outcome == RequestOutcome::Loaded && site_packages_of(&other.object) == site
        });
    SubjectKind::Unserved
        .subject([
            ("name", text(consumer.name.clone())),
            ("object", text(consumer.object.to_string())),
            ("wants", text(wants)),
            ("words", text(gets.message.clone())),
            ("cause", text(cause)),
            ("fails", text(consumer.required.failure_words())),
            ("breaks", text(consumer.required.name())),
            ("others_served", flag(others_served)),
            ("unreachable", flag(consumer.unreachable().is_some())),
            ("cure", text(cure.words)),
        ])
        .stopping(StoppedWork::by(consumer.required))
        .cured_by(cure.commands)
        .at([(&consumer.object, None)])
        .shown_by(evidence)
}

/// A fix that lets a program open the library under the requested name.
fn cure_of_opening(facts: &ImageFacts, consumer: &CuptiConsumer) -> FailureCure {
    let wants = escape::escape_bytes(&consumer.wants);
    let name = RootPath::new(&consumer.wants);
    let is_path = consumer.wants.contains(&b'/');
    let permission = || permission_cure(&facts.contexts.as_is, &name, &[FileUse::Read]);
    if let Some(cure) = is_path.then(permission).flatten() {
        return cure;
    }
    let is_bare = name.name() == facts.library.stem.as_bytes();
    let rootfs = &facts.contexts.as_is.rootfs;
    let tried = rootfs.lookup(&name.absolute()).ok().map(|found| found.path);
    let fits = |copy: &&facts::CuptiCopy| {
        let is_named = |soname: &ByteString| facts.is_name_of(name.name(), soname);
        let is_other = tried.as_ref() != Some(&copy.real_path);
        is_other && copy.problems.is_empty() && copy.soname.as_ref().is_some_and(is_named)
    };
    let copies = || facts.own_copies().filter(fits);
    let found = copies().find(|copy| copy.loadable.as_is && is_bare);
    let copy = found.or_else(|| copies().next()).map(|copy| &copy.real_path);
    match copy {
        None if is_path => format!("put the library, or a link to it, at {wants}").into(),
        None => format!("add {wants} to the image").into(),
        Some(copy) if is_path => link_cure(rootfs, &name, copy),
        // If the loader finds it by soname, it also finds a link next to it.
        Some(copy) if found.is_some() => {
            let mut cure = link_cure(rootfs, &copy.parent().join(name.name()), copy);
            cure.commands.extend(ldconfig(&facts.contexts.as_is));
            cure
        }
        Some(copy) => format!("make the search above find {copy} under the name {wants}").into(),
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

/// The name of the image's C library, and the glibc version.
pub(super) fn c_library(facts: &ImageFacts) -> (&'static str, String) {
    match facts.contexts.as_is.linker.as_ref().map(|linker| linker.libc) {
        Some(Libc::Glibc(version)) => {
            let unknown = || "an older one".to_owned();
            ("glibc", version.map_or_else(unknown, number))
        }
        Some(Libc::Musl) => ("musl", String::new()),
        None => ("none", String::new()),
    }
}

fn number((major, minor): (u32, u32)) -> String {
    format!("{major}.{minor}")
}
