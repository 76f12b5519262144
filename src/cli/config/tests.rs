#![allow(
    clippy::disallowed_methods,
    reason = "configs are looked for on the host, and these lie there"
)]

use std::fs;
use std::path::{Path, PathBuf};

use super::{ConfigFile, FILE_NAME, ProjectConfig, locate};
use crate::cli::option_values::OutputFile;
use crate::cli::option_values::PlatformArg;
use crate::judge::outcome::FailOn;
use crate::judge::rule::Severity;
use crate::judge::rule::suppression::{GlobPattern, Suppression, SuppressionTarget};
use crate::knowledge::{FileMistake, Knowledge};
use crate::make::choose::request::MethodKind;
use crate::report::ReportFormat;
use image_linkage::loader::CpuLevel;

fn read(text: &str) -> Result<ConfigFile, FileMistake> {
    ConfigFile::read("c.yaml", (Path::new("/project"), None), text)
}

/// The mistake as text; empty if there is none.
fn said(mistake: Option<FileMistake>) -> String {
    mistake.map_or_else(String::new, |mistake| mistake.to_string())
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
        fail_on: Some(FailOn::Severity(Severity::Warning)),
        phases: vec!["training".to_owned()],
        tools: vec!["torch.profiler".to_owned()],
        platform: Some(PlatformArg::All),
        format: Some(ReportFormat::Json),
        outputs: vec![
            output(ReportFormat::Text, "/project/reports/a.txt"),
            output(ReportFormat::Json, "-"),
        ],
        cpu: Some(CpuLevel::V4),
        env: [variable("LD_LIBRARY_PATH", "/opt/lib"), variable("N", "1")].into(),
        insecure_registries: vec!["localhost:5000".to_owned()],
        ca_cert: Some(PathBuf::from("/project/ca.pem")),
        via: vec![MethodKind::Pip, MethodKind::Copy],
        rules: vec![PathBuf::from("/project/rules")],
        profiles: vec![PathBuf::from("/shared/profiles")],
        suppress: vec![Suppression {
            target: SuppressionTarget::Finding,
            rule: "headers-only-cupti".to_owned(),
            image: Some("docker-daemon:*".parse().unwrap()),
            path: Some("/usr/local/**".parse().unwrap()),
            reason: "the build stage needs them".to_owned(),
            until: chrono::NaiveDate::from_ymd_opt(2027, 6, 30),
            line: 15,
        }],
        accept: vec![Suppression {
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
fn a_mistake_in_a_config_is_told_with_its_place() {
    for (text, what) in [
        (
            "fail_on: warning",
            "1:1: there is no key \"fail_on\"; did you mean \"fail-on\"?; there is fail-on, phases, tools, platform, format, outputs, cpu, env, insecure-registries, ca-cert, via, rules, profiles, suppress, accept, strict",
        ),
        (
            "fail-on: fatal",
            "1:10: there is no value \"fatal\"; there is error, warning, note, never",
        ),
        (
            "platform: a/b/c/d",
            "1:11: invalid platform \"a/b/c/d\": expected os/architecture[/variant], such as linux/amd64 or linux/arm64",
        ),
        ("cpu: 9", "1:6: expected x86-64-v1, x86-64-v2, x86-64-v3 or x86-64-v4"),
        ("outputs: [json=x, text=]", "1:19: there is no file after text="),
        ("phases: {training: 1}", "1:9: expected a list"),
        ("rules: training", "1:8: expected a list, each entry as - ENTRY"),
        (
            "outputs:\n  - sarif: a.sarif",
            "2:5: expected one value, found a list or a map",
        ),
        ("suppress:\n  - {rule: x, reason: ' '}", "2:23: a suppression says why"),
        (
            "suppress:\n  - {rule: x, reason: y, until: soon}",
            "2:33: expected a date, such as 2027-06-30",
        ),
        (
            "suppress:\n  - {rule: x, reason: y, path: '['}",
            "2:32: error parsing glob '[': unclosed character class; missing ']'",
        ),
        (
            "accept:\n  - {id: x, reason: y, image: '['}",
            "2:31: error parsing glob '[': unclosed character class; missing ']'",
        ),
        (
            "suppress:\n  - {rule: x, paths: y}",
            "2:15: there is no key \"paths\"; did you mean \"path\"?; there is rule, image, path, reason, until",
        ),
        ("suppress:\n  - {rule: y}", "2:6: missing field `reason`"),
    ] {
        assert_eq!(said(read(text).err()), format!("c.yaml:{what}"));
    }
}

#[test]
fn names_are_compared_with_the_rules_and_phases_there_are() {
    let knowledge = Knowledge::built_in();
    for (text, what) in [
        (
            "phases: [training, trianing]",
            "1:20: there is no phase \"trianing\"; did you mean \"training\"?",
        ),
        (
            "tools: [torch.profiler, nsight-sistems]",
            "1:25: there is no tool \"nsight-sistems\"; did you mean \"nsight-systems\"?",
        ),
        (
            "suppress:\n  - {rule: cupti-absnt, reason: r}",
            "2:12: there is no rule \"cupti-absnt\"; the nearest are cupti-absent, cupti-of-another-cuda, cupti-shadowed;",
        ),
        (
            "suppress:\n  - {rule: unused-suppression, reason: r}",
            "2:12: it is about suppressions: mend or remove the one it is about",
        ),
    ] {
        let said = said(read(text).unwrap().check_names(&knowledge).err());
        assert!(said.starts_with(&format!("c.yaml:{what}")), "{said}");
    }
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
    fs::write(at("repository/a/cupti-audit.yml"), "").unwrap();
    let misnamed = found().map(|found| said(locate::read_config(&found.file, Some(&found.within)).err()));
    let expected = "cupti-audit.yml: it has to be called cupti-audit.yaml, or --config names it";
    assert!(misnamed.is_some_and(|said| said.ends_with(expected)));
    fs::remove_file(at("repository/a/cupti-audit.yml")).unwrap();
    assert_eq!(found(), None, "what lies above the repository is somebody else's");
    fs::write(at("repository").join(FILE_NAME), "").unwrap();
    assert_eq!(found(), in_repository("repository"));
    fs::write(at("repository/a/b").join(FILE_NAME), "").unwrap();
    assert_eq!(found(), in_repository("repository/a/b"));
}

/// A repository beside a file outside it, with a link between them.
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
    assert!(
        refused.ends_with(": it is a link that leads out of its repository; --config names one that lies elsewhere")
    );
    // A config named by the user may be outside.
    assert!(
        named.ends_with("1:1: expected a map of keys, each as KEY: VALUE"),
        "{named}"
    );
    fs::remove_file(&config).unwrap();
    fs::write(repository.join("own/c.yaml"), "fail-on: warning\n").unwrap();
    std::os::unix::fs::symlink("own/c.yaml", &config).unwrap();
    assert_eq!(read(Some(&*repository)), "", "a link within the repository is followed");
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
        assert!(refused.ends_with(&out), "{path}: {refused}");
        assert_eq!(read(&text, None), "", "{path}");
    }
    // A resolver that starts again after forty links would leave the repository.
    for number in 0..60 {
        std::os::unix::fs::symlink(format!("l{}", number + 1), repository.join(format!("l{number}"))).unwrap();
    }
    std::os::unix::fs::symlink("../x", repository.join("l60")).unwrap();
    for path in ["l0", "l10", "l21", "l50"] {
        let refused = read(&format!("outputs: [\"json={path}\"]\n"), Some(&*repository));
        assert!(refused.contains(" leads out of the repository"), "{path}: {refused}");
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
        assert!(refused.ends_with(&what), "{refused}");
        assert_eq!(read(text, None), "");
    }
    for path in ["../r", "link/r", "link/r/", "link", "/etc", "own/../.."] {
        for key in ["rules", "profiles"] {
            let refused = read(&format!("{key}: [\"{path}\"]\n"), Some(&*repository));
            assert!(refused.contains(" leads out of the repository"), "{path}: {refused}");
        }
    }
    for path in ["x", "own/x", "inner/x", "new/x", "own/../x", "link/repository/x", "-"] {
        assert_eq!(
            read(
                &format!("outputs: [\"json={path}\"]\nrules: [\"{path}\"]\n"),
                Some(&*repository)
            ),
            "",
            "{path}"
        );
    }
}

#[test]
fn only_two_stars_go_across_a_slash() {
    let fits = |pattern: &str, name: &str| pattern.parse::<GlobPattern>().unwrap().fits(name);
    assert!(fits("docker-daemon:*", "docker-daemon:app:1"));
    assert!(!fits("registry/*", "registry/team/app:1"));
    assert!(fits("registry/**", "registry/team/app:1"));
    assert!(fits("/usr/**/cupti.h", "/usr/local/cuda-12.4/include/cupti.h"));
    assert!(!fits("/usr/*", "/usr/local/x"));
}

#[test]
fn names_may_be_a_text_with_commas() {
    let phases = |text: &str| {
        read(text)
            .map(|file| file.config.phases)
            .map_err(|error| error.to_string())
    };
    let both = Ok(vec!["training".to_owned(), "profiling".to_owned()]);
    assert_eq!(phases("phases: \"training, profiling\""), both);
    assert_eq!(phases("phases: [training, profiling]"), both);
    let wrong = phases("phases: {a: b}").unwrap_err();
    assert!(wrong.starts_with("c.yaml:1:9: expected a list"), "{wrong}");
}
