//! Failures that end a process before its program can request libcupti.

use super::evidence::Evidence;
use super::failure::glibc_of_failure;
use super::rule_subject::{RuleSubject, StoppedWork, flag, text};
use crate::facts::{CuptiConsumer, ImageFacts, OwnerKind, StartFailure};
use crate::judge::rule::PackageRepair;
use crate::knowledge::rule::SubjectKind;
use image_linkage::loader::trace_lines;
use image_linkage::path::RootPath;

/// The requesting programs that do not start.
pub(super) fn of_consumers(facts: &ImageFacts) -> Vec<RuleSubject> {
    let failing = facts
        .programs()
        .filter_map(|consumer| Some((consumer, consumer.start_failure()?)));
    // Another rule reports a glibc that is too old.
    let untold = failing.filter(|(consumer, _)| {
        let mut others = consumer.outcome.as_is.other_failures.iter();
        !others.any(|failure| glibc_of_failure(failure).is_some())
    });
    untold
        .map(|(consumer, failure)| of_consumer(facts, consumer, failure))
        .collect()
}

fn of_consumer(facts: &ImageFacts, consumer: &CuptiConsumer, failure: &StartFailure) -> RuleSubject {
    let is_own = consumer
        .program
        .as_ref()
        .is_some_and(|program| facts.is_commands(program));
    let steps = trace_lines(&failure.trace, &failure.objects);
    // Another environment may have the same program.
    let is_elsewhere = consumer.has_no_python()
        && facts
            .programs()
            .any(|other| other.name == consumer.name && other.start_failure().is_none());
    let is_process = failure.is_process && !is_elsewhere;
    let stopped = match consumer.unloaded {
        _ if is_own => StoppedWork::Command,
        impact if is_process => StoppedWork::by(impact),
        _ => StoppedWork::Profiling,
    };
    SubjectKind::Start
        .subject([
            ("name", text(consumer.name.clone())),
            ("object", text(consumer.object.to_string())),
            ("words", text(failure.words.clone())),
            ("cure", text(failure.cure.words.clone())),
            ("asks", text(consumer.asks.name())),
            ("breaks", text(consumer.unloaded.name())),
            ("process", flag(is_process)),
            ("own", flag(is_own)),
        ])
        .at([(&consumer.object, None)])
        .stopping(stopped)
        .shown_by(steps.into_iter().map(Evidence::Searched))
        .cured_by(failure.cure.commands.clone())
}

/// The container's own command, if it does not start, or is a utility that starts nothing else.
pub(super) fn of_command(facts: &ImageFacts) -> Vec<RuleSubject> {
    let subject = |words: &str, cure: &str, is_idle: bool| {
        SubjectKind::Command
            .subject([
                ("words", text(words.to_owned())),
                ("cure", text(cure.to_owned())),
                ("idle", flag(is_idle)),
            ])
            .stopping(StoppedWork::Command)
    };
    let idle = idle_program(facts).filter(|_| !facts.consumers.is_empty());
    let idle = idle.map(|name| subject(&escaped_text(&name), "", true));
    let failure = facts.command_failure.iter().map(|failure| {
        let cure = failure
            .package
            .as_ref()
            .map(|name| format!("reinstall {name}, which lists the missing file"));
        let mut subject = subject(&failure.words, cure.as_ref().unwrap_or(&failure.cure.words), false);
        subject.repair = failure.package.clone().map(reinstall);
        let subject = subject.cured_by(failure.cure.commands.clone());
        subject.at(failure.program.iter().map(|program| (program, None)))
    });
    failure.chain(idle).collect()
}

fn reinstall(package: String) -> PackageRepair {
    PackageRepair {
        manager: OwnerKind::Deb,
        environment: RootPath::default(),
        packages: vec![package],
        is_listed: true,
        takes_requirements: false,
    }
}

/// The utility that the command runs, such as `sleep`: users start other programs next to it.
fn idle_program(facts: &ImageFacts) -> Option<String> {
    let context = &facts.contexts.as_is;
    let name = context.entry.program.first()?.rsplit('/').next()?.to_owned();
    let is_alone = context.commands.start.programs.len() == 1 && facts.command_failure.is_none();
    (is_alone && context.tables.launchers.is_utility(&name)).then_some(name)
}

fn escaped_text(words: &str) -> String {
    image_linkage::escape::escape_bytes(words.as_bytes())
}
