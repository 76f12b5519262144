#![allow(
    clippy::disallowed_methods,
    reason = "configs are looked for on the host, and these lie there"
)]

use std::fs;
use std::path::{Path, PathBuf};

use super::{ConfigFile, FILE_NAME, ProjectConfig, locate};
use crate::cli::dockerfile::ViaArg;
use crate::cli::option_values::{FailOnArg, OutputFile, PlatformArg, ReportFormat};
use crate::judge::rule::suppression::{GlobPattern, Suppression, SuppressionTarget};
use crate::knowledge::{FileMistake, Knowledge};
use image_linkage::loader::CpuLevel;

fn read(text: &str) -> Result<ConfigFile, Vec<FileMistake>> {
    ConfigFile::read("c.yaml", (Path::new("/project"), None), text)
}

fn said(mistakes: Option<Vec<FileMistake>>) -> Vec<String> {
    let mistakes = mistakes.unwrap_or_default();
    mistakes.iter().map(ToString::to_string).collect()
}

const WHOLE: &str = "\
fail-on: warning
phases: [training]
tools: [torch.profiler]
platform: all
format: json
outputs: [text=reports/a.txt, json=-]
cpu: x86-64-v4
env: {LD_LIBRARY_PATH: /opt/lib, N: 1}
insecure-registries: ['localhost:5000']
ca-cert: ca.pem
via: [pip, copy]
rules: [rules]
profiles: [/shared/profiles]
suppress:
  - rule: headers-only-cupti
    image: 'docker-daemon:*'
    path: /usr/local/**
    reason: the build stage needs them
    until: 2027-06-30
accept:
  - id: source@/entry.sh:12
    reason: our own file
    until: 2027-06-30
strict: true
";

#[test]
fn a_config_is_read_whole_and_its_paths_begin_at_its_folder() {
    let output = |format, file: &str| OutputFile {
        format,
        file: PathBuf::from(file),
    };
    let variable = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let expected = ProjectConfig {
        fail_on: Some(FailOnArg::Warning),
        phases: vec!["training".to_owned()],
        tools: vec!["torch.profiler".to_owned()],
        platform: Some(PlatformArg::All),
        format: Some(ReportFormat::Json),
        outputs: vec![
            output(ReportFormat::Text, "/project/reports/a.txt"),
            output(ReportFormat::Json, "-"),
        ],
        cpu: Some(CpuLevel::V4),
        environment: vec![variable("LD_LIBRARY_PATH", "/opt/lib"), variable("N", "1")],
        insecure_registries: vec!["localhost:5000".to_owned()],
        ca_cert: Some(PathBuf::from("/project/ca.pem")),
        via: vec![ViaArg::Pip, ViaArg::Copy],
        rules: vec![PathBuf::from("/project/rules")],
        profiles: vec![PathBuf::from("/shared/profiles")],
        suppressions: vec![Suppression {
            target: SuppressionTarget::Finding,
            rule: "headers-only-cupti".to_owned(),
            image: Some(GlobPattern::new("docker-daemon:*").unwrap()),
            path: Some(GlobPattern::new("/usr/local/**").unwrap()),
            reason: "the build stage needs them".to_owned(),
            until: chrono::NaiveDate::from_ymd_opt(2027, 6, 30),
            line: 15,
        }],
        accepted: vec![Suppression {
            target: SuppressionTarget::Assumption,
            rule: "source@/entry.sh:12".to_owned(),
            image: None,
            path: None,
            reason: "our own file".to_owned(),
            until: chrono::NaiveDate::from_ymd_opt(2027, 6, 30),
            line: 21,
        }],
        strict: true,
    };
    let file = read(WHOLE).unwrap();
    assert_eq!(file.config, expected);
    assert_eq!(file.check_names(&Knowledge::built_in()), Ok(()));
    assert_eq!(read("").err(), None, "an empty config says nothing");
}

#[test]
fn all_mistakes_in_a_config_are_told_at_once() {
    let text = "fail_on: warning\nfail-on: fatal\nplatform: a/b/c/d\ncpu: 9\noutputs: [yaml=x, text=]\nphases: training\n\
        suppress:\n  - {rule: x, reason: ' ', until: soon, path: '[', paths: y}\n  - {rule: y}\n";
    assert_eq!(
        said(read(text).err()),
        [
            "c.yaml:1:1: there is no key \"fail_on\"; did you mean \"fail-on\"?; there is fail-on, phases, tools, platform, format, outputs, cpu, env, insecure-registries, ca-cert, via, rules, profiles, suppress, accept, strict",
            "c.yaml:2:10: there is no value \"fatal\"; there is error, warning, note, never",
            "c.yaml:3:11: invalid platform \"a/b/c/d\": expected os/architecture[/variant], such as linux/amd64 or linux/arm64",
            "c.yaml:4:6: expected x86-64-v1, x86-64-v2, x86-64-v3 or x86-64-v4",
            "c.yaml:5:11: no format is called \"yaml\"; there are text, json, sarif, junit, markdown, github, html, attestation",
            "c.yaml:5:19: there is no file after text=",
            "c.yaml:6:9: expected a list, found \"training\"",
            "c.yaml:8:23: a suppression says why",
            "c.yaml:8:35: expected a date, such as 2027-06-30",
            "c.yaml:8:47: error parsing glob '[': unclosed character class; missing ']'",
            "c.yaml:8:52: there is no key \"paths\"; did you mean \"path\"?; there is rule, image, path, reason, until",
            "c.yaml:9:5: the key \"reason\" is missing",
        ]
    );
}

#[test]
fn names_are_compared_with_the_rules_and_phases_there_are() {
    let text = "phases: [training, trianing]\nsuppress:\n  - {rule: cupti-absnt, reason: r}\n  - {rule: unused-suppression, reason: r}\n";
    let checked = read(text).unwrap().check_names(&Knowledge::built_in());
    let said = said(checked.err());
    assert_eq!(said.len(), 3);
    assert!(said[0].starts_with("c.yaml:1:20: there is no phase \"trianing\"; did you mean \"training\"?"));
    assert!(said[1].starts_with("c.yaml:3:12: there is no rule \"cupti-absnt\"; did you mean \"cupti-absent\"?"));
    assert_eq!(
        said[2],
        "c.yaml:4:12: it is about suppressions: mend or remove the one it is about"
    );
}

#[test]
fn the_nearest_config_of_the_repository_counts_and_none_above_it() {
    let dir = tempfile::tempdir().unwrap();
    let at = |path: &str| dir.path().join(path);
    fs::create_dir_all(at("repository/a/b")).unwrap();
    fs::write(at(FILE_NAME), "").unwrap();
    let found = || locate::find_config(&at("repository/a/b"));
    let in_repository = |folder: &str| {
        let (file, within) = (at(folder).join(FILE_NAME), at("repository"));
        Some(locate::FoundConfig { file, within })
    };
    assert_eq!(found(), None, "outside of a repository only this folder is looked at");
    fs::create_dir(at("repository/.git")).unwrap();
    assert_eq!(found(), None, "what lies above the repository is somebody else's");
    fs::write(at("repository").join(FILE_NAME), "").unwrap();
    assert_eq!(found(), in_repository("repository"));
    fs::write(at("repository/a/b").join(FILE_NAME), "").unwrap();
    assert_eq!(found(), in_repository("repository/a/b"));
}

/// A repository beside a file that is none of it, with a link between them.
fn beside_a_secret() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let repository = dir.path().join("repository");
    fs::create_dir_all(repository.join(".git")).unwrap();
    fs::create_dir(dir.path().join("r")).unwrap();
    fs::create_dir(repository.join("own")).unwrap();
    fs::write(dir.path().join("secret"), "TOKEN").unwrap();
    std::os::unix::fs::symlink("..", repository.join("link")).unwrap();
    std::os::unix::fs::symlink("own", repository.join("inner")).unwrap();
    (dir, repository)
}

#[test]
fn a_config_that_was_found_is_no_link_out_of_its_repository() {
    let (_dir, repository) = beside_a_secret();
    let config = repository.join(FILE_NAME);
    std::os::unix::fs::symlink("../secret", &config).unwrap();
    let read = |within| said(locate::read_config(&config, within).err());
    let (refused, named) = (read(Some(&*repository)), read(None));
    assert_eq!(refused.len(), 1);
    assert!(
        refused[0]
            .ends_with("1:1: it is a link that leads out of its repository; --config names one that lies elsewhere")
    );
    // Who names it may read it.
    assert!(
        named[0].ends_with("1:1: expected a map of keys, found \"TOKEN\""),
        "{named:?}"
    );
    fs::remove_file(&config).unwrap();
    fs::write(repository.join("own/c.yaml"), "fail-on: warning\n").unwrap();
    std::os::unix::fs::symlink("own/c.yaml", &config).unwrap();
    assert_eq!(
        read(Some(&*repository)),
        [""; 0],
        "a link within the repository is followed"
    );
}

#[test]
fn a_config_that_was_found_names_nothing_outside_of_its_repository() {
    let (_dir, repository) = beside_a_secret();
    let config = repository.join(FILE_NAME);
    let read = |text: &str, within| {
        fs::write(&config, text).unwrap();
        said(locate::read_config(&config, within).err())
    };
    for path in [
        "../x",
        "/tmp/x",
        "link/x",
        "link/r/x",
        "own/../../x",
        "new/../../x",
        "/dev/stdout",
        ".git/config",
        "/proc/self/fd/1",
    ] {
        let text = format!("outputs: [\"json={path}\"]\n");
        let refused = read(&text, Some(&*repository));
        let out = format!("1:11: {path} leads out of the repository, which a config may that --config names");
        assert!(refused.len() == 1 && refused[0].ends_with(&out), "{path}: {refused:?}");
        assert_eq!(read(&text, None), [""; 0], "{path}");
    }
    // Who follows forty links and begins anew would come out of it.
    for number in 0..60 {
        std::os::unix::fs::symlink(format!("l{}", number + 1), repository.join(format!("l{number}"))).unwrap();
    }
    std::os::unix::fs::symlink("../x", repository.join("l60")).unwrap();
    for path in ["l0", "l10", "l21", "l50"] {
        let refused = read(&format!("outputs: [\"json={path}\"]\n"), Some(&*repository));
        assert!(
            refused.len() == 1 && refused[0].contains(" leads out of the repository"),
            "{path}: {refused:?}"
        );
    }
    for (text, key) in [
        ("insecure-registries: [a]\n", "insecure-registries"),
        ("ca-cert: c.pem\n", "ca-cert"),
    ] {
        let refused = read(text, Some(&*repository));
        let what = format!(
            "1:{}: {key} is taken of the command line, or of a config that --config names",
            key.len() + 3
        );
        assert!(refused.len() == 1 && refused[0].ends_with(&what), "{refused:?}");
        assert_eq!(read(text, None), [""; 0]);
    }
    for path in ["../r", "link/r", "link/r/", "link", "/etc", "own/../.."] {
        for key in ["rules", "profiles"] {
            let refused = read(&format!("{key}: [\"{path}\"]\n"), Some(&*repository));
            assert!(
                refused.len() == 1 && refused[0].contains(" leads out of the repository"),
                "{path}: {refused:?}"
            );
        }
    }
    for path in ["x", "own/x", "inner/x", "new/x", "own/../x", "link/repository/x", "-"] {
        assert_eq!(
            read(
                &format!("outputs: [\"json={path}\"]\nrules: [\"{path}\"]\n"),
                Some(&*repository)
            ),
            [""; 0],
            "{path}"
        );
    }
}

#[test]
fn only_two_stars_go_across_a_slash() {
    let fits = |pattern: &str, name: &str| GlobPattern::new(pattern).unwrap().fits(name);
    assert!(fits("docker-daemon:*", "docker-daemon:app:1"));
    assert!(!fits("registry/*", "registry/team/app:1"));
    assert!(fits("registry/**", "registry/team/app:1"));
    assert!(fits("/usr/**/cupti.h", "/usr/local/cuda-12.4/include/cupti.h"));
    assert!(!fits("/usr/*", "/usr/local/x"));
}
