//! Copies of libcupti, and names that lead to none or to another library.

use super::evidence::{Evidence, plain_open_evidence};
use super::{Hit, Shown};
use crate::facts::objects::credentials::opening_commands;
use crate::facts::software::cuda_runtime;
use crate::facts::{
    CuptiCopy, CuptiStatus, ImageFacts, OwnerKind, RequestOutcome, UndecidedOpener, unresolved_objects,
};
use image_linkage::loader::{Arch, SearchStep, TriedFile};
use image_linkage::rootfs::FileUse;

/// Checks the copies that are not private to tools, and the names.
pub(super) fn check(facts: &ImageFacts) -> Vec<Hit> {
    let mut hits = Vec::new();
    for copy in facts.own_copies() {
        hits.extend(damaged(facts, copy));
        if is_skipped(facts, copy) {
            hits.extend(wrong_machine(facts, copy));
            continue;
        }
        hits.extend(other_cudart(facts, copy));
        hits.extend(some_processors(facts, copy));
        hits.extend(off_path(facts, copy));
        hits.extend(unreadable(facts, copy));
    }
    hits.extend(several_copies(facts));
    hits.extend(dangling_links(facts));
    hits.extend(misnamed(facts));
    hits
}

/// A hit on a copy, with the values that all rules about copies share.
fn on_copy(rule: &'static str, facts: &ImageFacts, copy: &CuptiCopy) -> Hit {
    let context = &facts.contexts.as_is;
    let commands = opening_commands(
        &context.rootfs,
        &context.user.credentials,
        &copy.real_path,
        FileUse::Read,
    );
    Hit::new(rule)
        .value("path", &copy.real_path)
        .value("directory", &copy.real_path.parent())
        .at([(&copy.real_path, Some(copy.layer))])
        .shown_by(plain_open_evidence(&facts.answers.plain.as_is))
        .cured_by(commands)
}

fn damaged(facts: &ImageFacts, copy: &CuptiCopy) -> Option<Hit> {
    if copy.problems.is_empty() {
        return None;
    }
    let hit = on_copy("damaged-cupti", facts, copy)
        .value("damage", Shown::known(copy.problems.join("; ")))
        .raise_if("stops-search", stops_search(facts, copy))
        .raise_if("no-other-copy", !image_serves(facts));
    Some(hit)
}

fn wrong_machine(facts: &ImageFacts, copy: &CuptiCopy) -> Option<Hit> {
    copy.soname.as_ref()?;
    let arch = Arch::of_platform(&facts.image.platform.architecture)?;
    let hit = on_copy("cupti-wrong-machine", facts, copy)
        .value("machine", Shown::known(copy.machine.clone().unwrap_or_default()))
        .value("image_machine", arch.name)
        .raise_if("no-other-copy", !image_serves(facts));
    Some(hit)
}

/// A CUDA runtime of another release, with which the copy is used. A copy bundled with a tool belongs to that tool
/// instead.
fn other_cudart(facts: &ImageFacts, copy: &CuptiCopy) -> Option<Hit> {
    if copy.owner.kind == OwnerKind::Bundled {
        return None;
    }
    let runtime = cuda_runtime::runtime_beside(copy, &facts.related.runtimes)?;
    let (own, other) = (copy.cuda()?, cuda_runtime::parse_cuda_version(&runtime.version)?);
    if own == other {
        return None;
    }
    let version = copy.version.as_ref().map_or("", |(version, _)| version);
    let hit = on_copy("cupti-cudart-mismatch", facts, copy)
        .value("version", Shown::untrusted(version))
        .value("cudart", Shown::untrusted(&runtime.version))
        // Releases of one major version are compatible, others are not.
        .raise_if("other-major", own.0 != other.0);
    Some(hit)
}

/// The loader searches the copy's folder on some processors only, and no other copy has the same soname.
fn some_processors(facts: &ImageFacts, copy: &CuptiCopy) -> Option<Hit> {
    let soname = copy.soname.as_ref()?;
    let mut others = facts
        .answers
        .copies
        .iter()
        .filter(|other| other.real_path != copy.real_path);
    if others.any(|other| other.soname == copy.soname) {
        return None;
    }
    let linker = facts.contexts.as_is.linker.as_ref()?;
    let processors = linker.processors_of(copy.real_path.parent().as_bytes())?;
    let hit = on_copy("cupti-for-some-processors", facts, copy)
        .value("soname", soname)
        .value("processors", Shown::known(processors));
    Some(hit)
}

fn off_path(facts: &ImageFacts, copy: &CuptiCopy) -> Option<Hit> {
    // The search did end here, but a dependency is missing, which is another finding.
    let is_reached = copy.how.is_some() && !copy.loadable.as_is && !copy.by_path.as_is.loads();
    // For a program that would start if the container's command did.
    let mut consumers = facts.answers.consumers.iter();
    let is_lost = consumers.any(|consumer| facts.ends_with_command(consumer));
    // Only a run can show what Python code loads.
    let may_be_used = is_lost || facts.answers.undecided.iter().any(UndecidedOpener::is_python);
    if copy.denial.is_some() || is_reached || may_be_used || !is_unused(facts, copy) {
        return None;
    }
    Some(on_copy("cupti-not-on-search-path", facts, copy).value("soname", copy.soname.as_ref()?))
}

fn unreadable(facts: &ImageFacts, copy: &CuptiCopy) -> Option<Hit> {
    let denial = copy.denial.as_ref()?;
    if !is_unused(facts, copy) {
        return None;
    }
    let hit = on_copy("unreadable-cupti", facts, copy)
        .value("soname", copy.soname.as_ref()?)
        .value("denial", Shown::known(denial.to_string()));
    Some(hit)
}

/// Whether programs of the image could start, but none gets this or another copy.
fn is_unused(facts: &ImageFacts, copy: &CuptiCopy) -> bool {
    copy.used_by.is_empty() && !image_serves(facts) && facts.contexts.as_is.linker.is_some()
}

/// Whether the image provides CUPTI anyway, through dlopen or a requesting program.
fn image_serves(facts: &ImageFacts) -> bool {
    // If only a run can show who gets it, do not report a copy that is not reached.
    facts.provides_cupti() || facts.is_open()
}

/// Whether the file stops the search of a plain dlopen, or of a requesting program.
fn stops_search(facts: &ImageFacts, copy: &CuptiCopy) -> bool {
    let rootfs = &facts.contexts.as_is.rootfs;
    // glibc skips a file for another machine or class, but gives up at a damaged one.
    let ends_here = |step: &SearchStep| match step {
        SearchStep::Tried {
            path,
            tried: TriedFile::Refused(_),
            ..
        } => rootfs.lookup(path).is_ok_and(|found| found.path == copy.real_path),
        _ => false,
    };
    let mut plain = unresolved_objects(&facts.answers.plain.as_is.resolution);
    let mut answers = facts
        .answers
        .consumers
        .iter()
        .map(|consumer| &consumer.outcome.as_is.answer);
    plain.any(|failure| failure.trace.iter().any(ends_here))
        || answers
            .any(|answer| answer.outcome() == RequestOutcome::Refused && answer.search.steps().iter().any(ends_here))
}

/// Whether the image's loader skips a copy for another processor as if it did not exist.
fn is_skipped(facts: &ImageFacts, copy: &CuptiCopy) -> bool {
    let rootfs = &facts.contexts.as_is.rootfs;
    let file = rootfs.file(&copy.real_path.absolute());
    let elf = file.and_then(|file| file.elf.as_ref());
    elf.zip(Arch::of_platform(&facts.image.platform.architecture))
        .is_some_and(|(elf, arch)| elf.machine != arch.machine || elf.class() != arch.class)
}

/// The mappable copies for the image's processor, if there are several.
fn several_copies(facts: &ImageFacts) -> Option<Hit> {
    let maps = |copy: &&CuptiCopy| copy.soname.is_some() && copy.by_path.as_is.root.is_some();
    let copies: Vec<&CuptiCopy> = facts.own_copies().filter(maps).collect();
    if copies.len() < 2 {
        return None;
    }
    let mut versions = Vec::new();
    for copy in &copies {
        versions.push(
            copy.version
                .as_ref()
                .map_or("an unknown release", |(version, _)| version),
        );
    }
    versions.sort_unstable();
    versions.dedup();
    let hit = Hit::new("several-cupti-copies")
        .value("count", copies.len())
        .value("versions", Shown::untrusted(&versions.join(", ")))
        .at(copies.iter().map(|copy| (&copy.real_path, Some(copy.layer))));
    Some(hit)
}

/// Broken links with a name of libcupti.
fn dangling_links(facts: &ImageFacts) -> Vec<Hit> {
    let mut hits = Vec::new();
    for link in &facts.dangling {
        // Only linkers use this name; no program opens it if the soname exists.
        if link.path.name() == facts.library.stem.as_bytes() && facts.answers.status.as_is == CuptiStatus::Loadable {
            continue;
        }
        let hit = Hit::new("dangling-cupti-link")
            .value("path", &link.path)
            .value("target", Shown::untrusted_bytes(&link.target))
            .at([(&link.path, Some(link.layer))])
            .shown_by([Evidence::Words(format!("{}: {}", link.path, link.why))]);
        hits.push(hit);
    }
    hits
}

/// Files and links whose name claims another soname than the file has.
fn misnamed(facts: &ImageFacts) -> Vec<Hit> {
    let mut hits = Vec::new();
    for name in &facts.related.misnamed {
        // The finding is at the link, but a fix also needs the file behind it.
        let target = name.target.as_ref();
        let link = target.map(|target| Evidence::Words(format!("{} is a link that leads to {target}", name.path)));
        let hit = Hit::new("soname-mismatch")
            .value("path", &name.path)
            .value("says", Shown::untrusted_bytes(name.path.name()))
            .value("soname", Shown::untrusted_bytes(&name.soname))
            .at([(&name.path, Some(name.layer))])
            .shown_by(link);
        hits.push(hit);
    }
    hits
}
