//! Dockerfiles of `testdata/build-files`: which are read, and which steps are traps.

use std::collections::BTreeSet;

use super::check_build_file;
use crate::judge::file_check::FileCheck;
use crate::judge::rule::RuleQuestion;
use crate::knowledge::Knowledge;

const ACCEPTED: &str = include_str!("../../../testdata/build-files/accepted.cases");
const REFUSED: &str = include_str!("../../../testdata/build-files/refused.cases");
const TRAPS: &str = include_str!("../../../testdata/build-files/traps.cases");

/// The cases of a file: the name and the text of each.
fn cases(file: &str) -> impl Iterator<Item = (&str, String)> {
    let parts = file.split("\n=== ").skip(1);
    parts.map(|part| {
        let (name, text) = part.split_once('\n').unwrap_or((part, ""));
        (name, format!("{text}\n").replace("\\r\n", "\r\n"))
    })
}

/// Checks Dockerfiles for training.
fn checker() -> impl Fn(&str) -> Result<FileCheck, String> {
    let mut knowledge = Knowledge::built_in();
    knowledge.rules.retain(|rule| rule.answers(RuleQuestion::BuildFile));
    move |text| check_build_file("Dockerfile", text, None, &[], &knowledge, &["training".to_owned()])
}

#[test]
fn is_no_dockerfile_refused_that_buildkit_reads() {
    let check = checker();
    let all: Vec<_> = cases(ACCEPTED).collect();
    let refused: Vec<_> = all
        .iter()
        .filter_map(|(name, text)| check(text).err().map(|error| format!("{name}: {error}")))
        .collect();
    println!(
        "{} Dockerfiles that BuildKit reads, {} refused",
        all.len(),
        refused.len()
    );
    assert_eq!((all.len(), refused), (48, Vec::new()));
    assert!(check("FROM busybox\nRUN echo a").is_ok(), "the last line has no end");
}

#[test]
fn is_each_dockerfile_refused_at_its_line_that_buildkit_refuses() {
    let check = checker();
    let mut count = 0;
    for (name, text) in cases(REFUSED) {
        let (name, line) = name.split_once(": ").unwrap();
        let error = check(&text).err().unwrap_or_default();
        assert!(error.starts_with(&format!("line {line}: ")), "{name}: {error}");
        count += 1;
    }
    assert_eq!(count, 12);
}

/// The steps of the last stage that bring the library, and the lines that are not understood.
fn state(report: &FileCheck) -> String {
    let sources = report.stages.last().map_or(&[][..], |stage| &stage.sources);
    let sources: Vec<String> = sources.iter().map(|own| format!("{} {}", own.name, own.line)).collect();
    let unseen: BTreeSet<usize> = report.unseen.iter().map(|step| step.line).collect();
    let unseen: Vec<String> = unseen.iter().map(|line| format!(" {line}")).collect();
    let mut words = sources.join(", ");
    if words.is_empty() {
        words.push_str("nothing");
    }
    if unseen.is_empty() {
        words
    } else {
        format!("{words}; not understood:{}", unseen.concat())
    }
}

#[test]
fn which_steps_bring_the_library_and_which_are_traps() {
    let check = checker();
    let mut wrong = Vec::new();
    for (name, case) in cases(TRAPS) {
        let (text, expected) = case.split_once("--- ").unwrap();
        let report = check(text).unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut lines = vec![state(&report)];
        lines.extend(report.findings.iter().map(|found| {
            let finding = &found.finding;
            format!("{} {} {}", finding.severity.name(), finding.rule, found.lines.0)
        }));
        let expected: Vec<&str> = expected
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
            .collect();
        if lines != expected {
            wrong.push(format!("{name}: {lines:?} instead of {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn does_a_build_argument_replace_a_default() {
    let mut knowledge = Knowledge::built_in();
    knowledge.rules.retain(|rule| rule.answers(RuleQuestion::BuildFile));
    let check = |text: &str, arguments: &[(&str, &str)]| {
        let arguments = arguments.iter();
        let arguments: Vec<_> = arguments
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        check_build_file("Dockerfile", text, None, &arguments, &knowledge, &[]).unwrap()
    };
    let devel = ("TAG", "12.4.1-devel-ubuntu22.04");
    for (text, arguments, expected) in [
        (
            "ARG TAG\nFROM nvidia/cuda:$TAG\n",
            &[devel][..],
            "nvidia/cuda:12.4.1-devel-ubuntu22.04 2",
        ),
        (
            "ARG TAG=12.4.1-base-ubuntu22.04\nFROM nvidia/cuda:$TAG\n",
            &[devel],
            "nvidia/cuda:12.4.1-devel-ubuntu22.04 2",
        ),
        (
            "ARG TAG=12.4.1-base-ubuntu22.04\nFROM nvidia/cuda:$TAG\n",
            &[],
            "nothing",
        ),
        (
            "FROM nvidia/cuda:12.4.1-base-ubuntu22.04\nARG NAME=curl\nRUN apt-get install -y $NAME\n",
            &[("NAME", "cuda-cupti-12-4")],
            "cuda-cupti-12-4 3",
        ),
    ] {
        assert_eq!(state(&check(text, arguments)), expected, "{text}");
    }
}
