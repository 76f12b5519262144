//! Dockerfiles of `testdata/build-files`: which are read, and what is known of them.

use super::check_build_file;
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
fn checker() -> impl Fn(&str) -> Result<super::BuildFileReport, String> {
    let mut knowledge = Knowledge::built_in();
    knowledge.rules.retain(|rule| rule.answers(RuleQuestion::BuildFile));
    move |text| check_build_file(text, None, &[], &knowledge, &["training".to_owned()])
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

#[test]
fn what_is_known_of_the_library_after_each_kind_of_step() {
    let check = checker();
    let mut wrong = Vec::new();
    for (name, case) in cases(TRAPS) {
        let (text, expected) = case.split_once("--- ").unwrap();
        let report = check(text).unwrap_or_else(|error| panic!("{name}: {error}"));
        let state = report.stages.last().unwrap().presence.clone();
        let mut lines = vec![match state.split_once("because ") {
            Some((_, doubt)) => doubt.split(' ').take(2).collect::<Vec<_>>().join(" "),
            None if state.starts_with("from ") => "present".to_owned(),
            None => "absent".to_owned(),
        }];
        lines.extend(report.findings.iter().map(|found| {
            let finding = &found.finding;
            format!("{} {} {}", finding.severity.name(), finding.rule, found.lines.0)
        }));
        let expected: Vec<&str> = expected
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
            .collect();
        if lines != expected {
            wrong.push(format!("{name}: {lines:?} instead of {expected:?} ({state})"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn is_a_mistyped_stage_named_and_does_a_build_argument_replace_a_default() {
    let mut knowledge = Knowledge::built_in();
    knowledge.rules.retain(|rule| rule.answers(RuleQuestion::BuildFile));
    let state = |text: &str, arguments: &[(&str, &str)]| {
        let arguments = arguments.iter();
        let arguments: Vec<_> = arguments
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        let report = check_build_file(text, None, &arguments, &knowledge, &[]).unwrap();
        report.stages.last().unwrap().presence.clone()
    };
    let copy =
        "FROM nvidia/cuda:12.4.1-devel-ubuntu22.04 AS builder\nFROM ubuntu:22.04\nCOPY --from=bulider /a /usr/lib/\n";
    let said = state(copy, &[]);
    assert!(
        said.ends_with("from bulider, which is no stage; did you mean \"builder\"?"),
        "{said}"
    );
    let said = state(&copy.replace("bulider", "someone"), &[]);
    assert!(said.ends_with("from someone, whose files are not known"), "{said}");
    let devel = ("TAG", "12.4.1-devel-ubuntu22.04");
    for (text, arguments, begin) in [
        ("ARG TAG\nFROM nvidia/cuda:$TAG\n", &[devel][..], "from nvidia/cuda"),
        (
            "ARG TAG=12.4.1-base-ubuntu22.04\nFROM nvidia/cuda:$TAG\n",
            &[devel],
            "from nvidia/cuda",
        ),
        (
            "ARG TAG=12.4.1-base-ubuntu22.04\nFROM nvidia/cuda:$TAG\n",
            &[],
            "no step",
        ),
        (
            "FROM nvidia/cuda:12.4.1-base-ubuntu22.04\nARG NAME=curl\nRUN apt-get install -y $NAME\n",
            &[("NAME", "cuda-cupti-12-4")],
            "from cuda-cupti-12-4",
        ),
    ] {
        assert!(
            state(text, arguments).starts_with(begin),
            "{text}: {}",
            state(text, arguments)
        );
    }
}
