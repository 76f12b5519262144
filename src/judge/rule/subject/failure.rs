//! What keeps libcupti, or a program that asks for it, from being loaded.

use super::evidence::{self, Evidence};
use super::ld_cache::ldconfig;
use super::rule_subject::{RuleSubject, flag, text};
use crate::facts::objects::start_failure::FailureCure;
use crate::facts::software::cuda_runtime::site_packages_of;
use crate::facts::{self, CuptiConsumer, CuptiStatus, FailureImpact, ImageFacts, RequestKind, RequestOutcome};
use crate::facts::{is_unforetold, join_words};
use crate::knowledge::rule::SubjectKind;
use crate::shell_quote::quote_path;
use image_linkage::elf::ByteString;
use image_linkage::escape;
use image_linkage::loader::trace_lines;
use image_linkage::loader::{Libc, UnresolvedRequest, glibc_version};
use image_linkage::path::RootPath;
use image_linkage::rootfs::Rootfs;

/// What keeps the copies that somebody would get, and the programs that ask, from being loaded.
pub(super) fn subjects(facts: &ImageFacts) -> Vec<RuleSubject> {
    // Where a plain dlopen gets a copy, another that no search leads to breaks nothing.
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

/// What a copy needs and does not get; nothing for one that the loader does not even map.
fn of_copy(facts: &ImageFacts, copy: &facts::CuptiCopy) -> Option<RuleSubject> {
    let resolution = &copy.by_path.as_is;
    resolution.root?;
    let failures = facts::unresolved_objects(resolution);
    // Of what only a run could tell, the gap says so.
    let failures: Vec<&UnresolvedRequest> = failures.filter(|failure| !is_unforetold(&failure.trace)).collect();
    let words: Vec<LoaderWords<'_>> = failures.iter().map(|failure| words_of(failure)).collect();
    let shown = || {
        failures
            .iter()
            .flat_map(|failure| evidence::search_evidence(failure, resolution))
            .collect()
    };
    let place = (&copy.real_path, Some(copy.layer));
    let object = copy.real_path.to_string();
    (!failures.is_empty()).then(|| failure(facts, object, "cupti", &words, shown()).at([place]))
}

/// What a program that links or opens libcupti does not get, libcupti first, else a newer glibc.
fn of_consumer(facts: &ImageFacts, consumer: &CuptiConsumer) -> Option<RuleSubject> {
    let gets = &consumer.outcome.as_is;
    let lines = trace_lines(&gets.trace, &gets.objects);
    let searched: Vec<Evidence> = lines.into_iter().map(Evidence::Searched).collect();
    let place = (&consumer.object, None);
    let object = consumer.name.clone();
    let breaks = consumer.required.name();
    if consumer.unreachable().is_some() {
        return Some(unserved(facts, consumer, searched));
    }
    if consumer.misses_library() {
        return Some(match consumer.asks {
            RequestKind::Needed if is_nowhere(facts, &consumer.wants) && gets.outcome == RequestOutcome::NotFound => {
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
    // What else is missing may be loaded by the program beforehand; a version of glibc never is.
    let others = gets.other_failures.iter().map(words_of);
    let old: Vec<LoaderWords<'_>> = others.filter(|words| glibc_needed(words).is_some()).collect();
    // ld.so refuses the whole object for a version that is missing, so that not even the import works.
    let breaks = FailureImpact::Import.name();
    (!old.is_empty()).then(|| failure(facts, object, breaks, &old, Vec::new()).at([place]))
}

/// Whether no file and no link of the image bears the name, and no library has it as its soname.
fn is_nowhere(facts: &ImageFacts, name: &ByteString) -> bool {
    let is_copy = |copy: &facts::CuptiCopy| copy.soname.as_ref() == Some(name) || copy.real_path.name() == &**name;
    !facts.copies.iter().any(is_copy)
        && !facts.dangling.iter().any(|link| link.path.name() == &**name)
        && !facts.related.misnamed.iter().any(|link| link.path.name() == &**name)
}

/// The loader's words on a failure, and the symbol version that it misses, if that is what it says.
type LoaderWords<'a> = (&'a str, Option<&'a ByteString>);

fn words_of(failure: &UnresolvedRequest) -> LoaderWords<'_> {
    (&failure.message, failure.missing_version.as_ref())
}

fn glibc_needed((_, missing): &LoaderWords<'_>) -> Option<(u32, u32)> {
    missing.and_then(|version| glibc_version(version))
}

/// The glibc that a failed request asks for, where that is what is missing.
pub(super) fn glibc_of_failure(failure: &UnresolvedRequest) -> Option<(u32, u32)> {
    glibc_needed(&words_of(failure))
}

fn failure(
    facts: &ImageFacts,
    object: String,
    breaks: &str,
    failures: &[LoaderWords<'_>],
    evidence: Vec<Evidence>,
) -> RuleSubject {
    let needed: Vec<_> = failures.iter().map(glibc_needed).collect();
    // One glibc has to satisfy all of them.
    let newest = needed.iter().flatten().max();
    let (libc, here) = c_library(facts);
    // Only where nothing else is missing does a newer glibc cure it.
    let is_glibc = needed.iter().all(Option::is_some);
    // The sentence on glibc says what is needed; the loader's words say by whom.
    let messages: Vec<&str> = failures.iter().map(|(message, _)| *message).collect();
    let words = messages.iter().filter(|_| is_glibc);
    let words = words.map(|message| Evidence::Words((*message).to_owned()));
    SubjectKind::Failure
        .subject([
            ("object", text(object)),
            ("breaks", text(breaks)),
            ("words", text(join_words(&messages))),
            ("glibc", flag(is_glibc)),
            (
                "glibc_needed",
                text(newest.map(|newest| number(*newest)).unwrap_or_default()),
            ),
            ("glibc_here", text(here)),
            // Of a library that is built for musl as well, what it lacks is told as with glibc.
            ("musl", flag(libc == "musl" && facts.library.glibc)),
        ])
        .shown_by(words.chain(evidence))
}

fn unserved(facts: &ImageFacts, consumer: &CuptiConsumer, evidence: Vec<Evidence>) -> RuleSubject {
    let gets = &consumer.outcome.as_is;
    let wants = escape::escape_bytes(&consumer.wants);
    let cause = if is_nowhere(facts, &consumer.wants) {
        format!("{wants} is not in the image")
    } else {
        gets.message.clone()
    };
    let cure = cure_of_opening(facts, consumer);
    let site = site_packages_of(&consumer.object);
    // Objects outside of site-packages have no environment in common.
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
        .cured_by(cure.commands)
        .at([(&consumer.object, None)])
        .shown_by(evidence)
}

/// What lets a program open the library by the name that it asks for.
fn cure_of_opening(facts: &ImageFacts, consumer: &CuptiConsumer) -> FailureCure {
    let wants = escape::escape_bytes(&consumer.wants);
    let name = RootPath::new(&consumer.wants);
    let is_bare = name.name() == facts.library.stem.as_bytes();
    let fits = |copy: &&facts::CuptiCopy| {
        let is_named = |soname: &ByteString| facts.is_name_of(name.name(), soname);
        copy.problems.is_empty() && copy.soname.as_ref().is_some_and(is_named)
    };
    let copies = || facts.own_copies().filter(fits);
    let found = copies().find(|copy| copy.loadable.as_is && is_bare);
    let copy = found.or_else(|| copies().next()).map(|copy| &copy.real_path);
    let rootfs = &facts.contexts.as_is.rootfs;
    match copy {
        None if consumer.wants.contains(&b'/') => format!("put the library, or a link to it, at {wants}").into(),
        None => format!("add {wants} to the image").into(),
        Some(copy) if consumer.wants.contains(&b'/') => link_cure(rootfs, &name, copy),
        // Where the loader finds it by its soname, it finds a link beside it.
        Some(copy) if found.is_some() => {
            let mut cure = link_cure(rootfs, &copy.parent().join(name.name()), copy);
            cure.commands.extend(ldconfig(&facts.contexts.as_is));
            cure
        }
        Some(copy) => format!("make the search above find {copy} under the name {wants}").into(),
    }
}

/// A link to a file, in a folder that may have to be made.
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

/// The name of the image's C library, and the version of glibc.
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
