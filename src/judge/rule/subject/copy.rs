//! A copy of libcupti.

use super::evidence;
use super::rule_subject::{RuleSubject, escaped, flag, text};
use crate::facts::objects::credentials::opening_commands;
use crate::facts::software::cuda_runtime::{self, CudaRuntime};
use crate::facts::{self, ImageFacts, OwnerKind, RequestOutcome};
use crate::knowledge::rule::{FieldValue, SubjectKind};
use image_linkage::escape;
use image_linkage::loader::{Arch, SearchStep, TriedFile};
use image_linkage::rootfs::FileUse;

pub(super) fn subjects(facts: &ImageFacts) -> Vec<RuleSubject> {
    let copies = facts.copies.iter();
    copies.map(|copy| subject(facts, copy)).collect()
}

fn subject(facts: &ImageFacts, copy: &facts::CuptiCopy) -> RuleSubject {
    let context = &facts.contexts.as_is;
    let mut subject = SubjectKind::Copy.subject([
        ("owner", text(copy.owner.kind.name())),
        ("private", flag(copy.private)),
        ("image_status", text(facts.status.as_is.name())),
        // If only a run can show who gets it, do not report a copy that is not reached.
        ("image_serves", flag(facts.provides_cupti() || facts.is_open())),
        ("has_loader", flag(facts.contexts.as_is.linker.is_some())),
    ]);
    subject.fields.extend(identity(copy));
    subject.fields.extend(processors(facts, copy));
    subject.fields.extend(state(facts, copy));
    subject.fields.extend(machine(facts, copy));
    subject.fields.extend(runtime(copy, &facts.related.runtimes));
    let evidence = evidence::plain_open_evidence(&facts.plain.as_is);
    subject
        .at([(&copy.real_path, Some(copy.layer))])
        .shown_by(evidence)
        .cured_by(opening_commands(
            &context.rootfs,
            &context.user.credentials,
            &copy.real_path,
            FileUse::Read,
        ))
}

type FieldPairs<const N: usize> = [(&'static str, FieldValue); N];

fn identity(copy: &facts::CuptiCopy) -> FieldPairs<5> {
    // A file that is not a library has no soname. Use the name that made it a copy.
    let own_name = || copy.real_path.name().into();
    let soname = copy.soname.clone().unwrap_or_else(own_name);
    let version = copy.version.as_ref().map(|(version, _)| version.clone());
    [
        ("path", text(copy.real_path.to_string())),
        ("directory", text(copy.real_path.parent().to_string())),
        ("soname", text(escape::escape_bytes(&soname))),
        ("version", escaped(&version.unwrap_or_default())),
        ("library", flag(copy.soname.is_some())),
    ]
}

fn state(facts: &ImageFacts, copy: &facts::CuptiCopy) -> FieldPairs<10> {
    // The search did end here, but a dependency is missing, which is another finding.
    let mut consumers = facts.consumers.iter();
    // For a program that would start if the container's command did.
    let is_lost = consumers.any(|consumer| facts.ends_with_command(consumer));
    let may_be_used = is_lost || facts.undecided.iter().any(facts::UndecidedOpener::is_python);
    let reached = copy.how.is_some() && !copy.loadable.as_is && !copy.by_path.as_is.loads();
    [
        ("loadable", flag(copy.loadable.as_is)),
        ("loadable_nvidia", flag(copy.loadable.nvidia)),
        ("used", flag(!copy.used_by.is_empty())),
        ("may_be_used", flag(may_be_used)),
        ("reached", flag(reached)),
        ("damaged", flag(!copy.problems.is_empty())),
        ("damage", text(copy.problems.join("; "))),
        ("stops_search", flag(stops_search(facts, copy))),
        ("denied", flag(copy.denial.is_some())),
        (
            "denial",
            text(copy.denial.as_ref().map(ToString::to_string).unwrap_or_default()),
        ),
    ]
}

/// Whether the file stops the search of a plain dlopen, or of a requesting program.
fn stops_search(facts: &ImageFacts, copy: &facts::CuptiCopy) -> bool {
    let rootfs = &facts.contexts.as_is.rootfs;
    // glibc skips a file for another machine or class, but gives up at a damaged one.
    let here = |step: &SearchStep| match step {
        SearchStep::Tried {
            path,
            tried: TriedFile::Refused(_),
            ..
        } => rootfs.lookup(path).is_ok_and(|found| found.path == copy.real_path),
        _ => false,
    };
    let plain = facts::unresolved_objects(&facts.plain.as_is.resolution);
    let asked = facts.consumers.iter().map(|consumer| &consumer.outcome.as_is);
    plain
        .map(|failure| failure.trace.as_slice())
        .chain(
            asked
                .filter(|gets| gets.outcome == RequestOutcome::Refused)
                .map(|gets| &*gets.trace),
        )
        .any(|trace| trace.iter().any(here))
}

/// The copy's processor, and whether the image's loader skips it.
fn machine(facts: &ImageFacts, copy: &facts::CuptiCopy) -> FieldPairs<3> {
    let arch = Arch::of_platform(&facts.image.platform.architecture);
    let rootfs = &facts.contexts.as_is.rootfs;
    let elf = rootfs
        .file(&copy.real_path.absolute())
        .and_then(|file| file.elf.as_ref());
    // The loader skips such a file as if it did not exist.
    let differs = elf
        .zip(arch)
        .is_some_and(|(elf, arch)| elf.machine != arch.machine || elf.class() != arch.class);
    [
        ("machine", text(copy.machine.clone().unwrap_or_default())),
        ("image_machine", text(arch.map(|arch| arch.name).unwrap_or_default())),
        ("wrong_machine", flag(differs)),
    ]
}

/// The processors that the loader restricts the copy's folder to, if no other copy has the same soname.
fn processors(facts: &ImageFacts, copy: &facts::CuptiCopy) -> FieldPairs<2> {
    let mut others = facts.copies.iter().filter(|other| other.real_path != copy.real_path);
    let is_alone = !others.any(|other| other.soname == copy.soname);
    let linker = facts.contexts.as_is.linker.as_ref().filter(|_| is_alone);
    let folder = copy.real_path.parent();
    let who = linker.and_then(|linker| linker.processors_of(folder.as_bytes()));
    [
        ("some_processors", flag(who.is_some())),
        ("processors", text(who.unwrap_or_default())),
    ]
}

/// The CUDA runtime that the copy is used with. A copy bundled with a tool belongs to that tool instead.
fn runtime(copy: &facts::CuptiCopy, runtimes: &[CudaRuntime]) -> FieldPairs<3> {
    let beside = cuda_runtime::runtime_beside(copy, runtimes).filter(|_| copy.owner.kind != OwnerKind::Bundled);
    let own = copy.cuda();
    let other = beside.and_then(|runtime| cuda_runtime::parse_cuda_version(&runtime.version));
    let versions = own.zip(other);
    let cudart = beside.map(|runtime| runtime.version.clone());
    [
        ("cudart", escaped(&cudart.unwrap_or_default())),
        ("other_cudart", flag(versions.is_some_and(|(own, other)| own != other))),
        (
            // Releases of one major version are compatible, others are not.
            "other_cudart_major",
            flag(versions.is_some_and(|(own, other)| own.0 != other.0)),
        ),
    ]
}
