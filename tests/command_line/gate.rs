//! The CI gate: user config, rules and suppressions, the findings that count, and the exit status.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use image_source::Platform;
use serde_json::Value;
use testkit::elf::Elf;

fn image(name: &str) -> String {
    format!("oci:{}/testdata/images/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// A directory with files, in which the program runs.
struct Project(tempfile::TempDir);

impl Project {
    fn new(files: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for (name, content) in files {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        Self(dir)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn run(&self, environment: &[(&str, &str)], arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_cupti-audit"))
            .args(arguments)
            .current_dir(self.path())
            .env_clear()
            .envs(environment.iter().copied())
            .output()
            .unwrap()
    }

    fn code(&self, environment: &[(&str, &str)], arguments: &[&str]) -> i32 {
        self.run(environment, arguments).status.code().unwrap()
    }
}

fn errors(output: &Output) -> Vec<String> {
    let text = String::from_utf8(output.stderr.clone()).unwrap();
    text.lines().map(str::to_owned).collect()
}

/// The reports of the readable images.
fn reports(output: &Output) -> Vec<Value> {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    let lines = text.lines();
    let lines = lines.map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {output:?}")));
    lines
        .filter(|line: &Value| line["schema"] != "cupti-audit/unread/v1")
        .collect()
}

/// The findings of a report: the rule, and whether it is suppressed.
fn findings(report: &Value) -> Vec<(String, bool)> {
    let findings = report["findings"].as_array().unwrap().iter();
    findings
        .map(|finding| {
            let rule = finding["rule"].as_str().unwrap().to_owned();
            (rule, finding.get("suppressed").is_some())
        })
        .collect()
}

const RULE: &str = "summary: no CUPTI\nsubject: image\nwhere: {status: absent}\nseverity: note\nphases: {tracing: error}\n\
    message: nothing to trace with\nwhy: w\nfix: f\nreferences: [r]\n";

/// The severity of the first finding of a rule.
fn severity(report: &Value, rule: &str) -> Option<Value> {
    let mut findings = report["findings"].as_array().unwrap().iter();
    let found = findings.find(|finding| finding["rule"] == rule);
    found.map(|finding| finding["severity"].clone())
}

#[test]
fn rules_and_phases_of_the_user_count_like_those_of_the_program() {
    let project = Project::new(&[
        ("rules/no-trace.yaml", RULE),
        (
            "profiles/phases/tracing.yaml",
            "summary: a trace is taken\nlike: profiling\n",
        ),
    ]);
    let image = image("no-cupti");
    let own = ["--rules", "rules", "--profiles", "profiles"];
    let output = project.run(
        &[],
        &[&own[..], &["--format", "json", "--phase", "tracing", &image]].concat(),
    );
    let report = &reports(&output)[0];
    assert!(findings(report).contains(&("no-trace".to_owned(), false)), "{report}");
    // The user's rule names the phase itself; built-in rules treat it as the phase that it is based on.
    assert_eq!(severity(report, "no-trace"), Some("error".into()));
    assert_eq!(severity(report, "cupti-absent"), Some("error".into()));
    let inference = ["--format", "json", "--phase", "inference", &image];
    let inference = &reports(&project.run(&[], &[&own[..], &inference].concat()))[0];
    assert_eq!(severity(inference, "no-trace"), Some("note".into()));
    assert_eq!(severity(inference, "cupti-absent"), Some("note".into()));
    assert_eq!(report["phases"]["tracing"]["verdict"], "fail");
    assert_eq!(output.status.code(), Some(1));
    let explained = project.run(
        &[],
        &["explain", "no-trace", "--rules", "rules", "--profiles", "profiles"],
    );
    assert!(
        String::from_utf8(explained.stdout.clone())
            .unwrap()
            .starts_with("no-trace: no CUPTI\n"),
        "{explained:?}"
    );
}

/// A gap keeps a phase from passing, but not from failing.
#[test]
fn an_error_fails_its_phase_despite_a_gap() {
    let loads = RULE.replace("absent", "unloadable");
    let project = Project::new(&[("rules/loads.yaml", &loads.replace("tracing", "training"))]);
    let output = project.run(&[], &["--format", "json", "--rules", "rules", &image("entry-unknown")]);
    let phases = &reports(&output)[0]["phases"];
    let verdicts = ["inference", "training"].map(|phase| phases[phase]["verdict"].clone());
    assert_eq!(verdicts, ["unknown", "fail"]);
}

/// In this image the tool works only after the container runtime has run ldconfig.
#[test]
fn a_tool_that_a_phase_needs_must_be_ready_in_the_unchanged_image() {
    let phase = "summary: s\nlike: inference\nprofilers: {needs: [own-tool]}\n";
    let project = Project::new(&[("profiles/phases/own.yaml", phase)]);
    let own = ["--format", "json", "--profiles", "profiles", "--phase", "own"];
    let [late, good] = ["conf-without-ldconfig", "devel"].map(|name| {
        let report = reports(&project.run(&[], &[&own[..], &[&image(name)]].concat())).remove(0);
        severity(&report, "phase-need-unmet")
    });
    assert_eq!((late, good), (Some("error".into()), None));
}

#[test]
fn a_phase_without_its_profile_is_unknown_to_rules_and_flags() {
    let project = Project::new(&[("rules/no-trace.yaml", RULE)]);
    let image = image("no-cupti");
    let alone = project.run(&[], &["--rules", "rules", &image]);
    assert_eq!(
        errors(&alone),
        [
            "error: rules/no-trace.yaml:5:19: there is no phase \"tracing\"; did you mean \"training\"?; there is inference, profiling, training"
        ]
    );
    let unknown = project.run(&[], &["--phase", "tracing", &image]);
    assert_eq!(
        errors(&unknown),
        ["error: there is no phase \"tracing\"; did you mean \"training\"?; there is inference, training, profiling"]
    );
    assert_eq!((alone.status.code(), unknown.status.code()), (Some(2), Some(2)));
}

#[test]
fn a_consumer_of_the_user_is_seen_in_the_image() {
    // The object has no libcupti string: only the profile says that it opens the library.
    let profile = "name: My runtime\nobject: 'libc.so.*'\nasks: dlopen\nnames: [libcupti.so.12]\nrequired: profiling\n";
    let project = Project::new(&[("p/consumers/mine.yaml", profile)]);
    let image = image("devel");
    let names = |arguments: &[&str]| {
        let report = &reports(&project.run(&[], arguments))[0];
        let consumers = report["consumers"].as_array().unwrap().iter();
        consumers
            .map(|consumer| format!("{} {}", consumer["name"], consumer["outcome"]["as-is"]))
            .collect::<Vec<String>>()
    };
    assert_eq!(names(&["--format", "json", &image]), [""; 0]);
    assert_eq!(
        names(&["--format", "json", "--profiles", "p", &image]),
        ["\"My runtime\" \"loaded\""]
    );
}

#[test]
fn what_is_no_data_file_ends_in_a_sentence_for_each() {
    let deep = "[".repeat(20_000);
    let many = "a: b\n".repeat(50_000);
    let project = Project::new(&[
        ("rules/deep.yaml", &deep),
        ("rules/empty.yaml", ""),
        ("rules/list.yaml", "- 1\n- 2\n"),
        ("rules/many.yaml", &many),
        ("rules/noise.yaml", "\u{7f}\u{0}\t{]&*!|>%@`\n"),
        ("rules/two.yaml", "a: 1\n---\nb: 2\n"),
        (
            "rules/bomb.yaml",
            "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e]\ng: [*f,*f,*f,*f,*f,*f,*f,*f]\n",
        ),
    ]);
    let output = project.run(&[], &["--rules", "rules", "--profiles", "gone", &image("empty")]);
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    let said = errors(&output);
    for name in ["bomb", "deep", "empty", "list", "many", "noise", "two"] {
        let begin = format!("error: rules/{name}.yaml:");
        assert!(said.iter().any(|line| line.starts_with(&begin)), "{name}: {said:#?}");
    }
    assert_eq!(said[0], "error: gone: No such file or directory (os error 2)");
    assert!(
        said.iter()
            .all(|line| line.len() < 600 && line.chars().all(|c| !c.is_control())),
        "{said:#?}"
    );
}

#[test]
fn flags_win_over_the_environment_and_that_over_the_config() {
    let image = image("no-cupti");
    let image = image.as_str();
    // An error without a phase and for training, a note for inference.
    let plain = Project::new(&[]);
    assert_eq!(plain.code(&[], &[image]), 1);
    let never = Project::new(&[("cupti-audit.yaml", "fail-on: never\n")]);
    assert_eq!(never.code(&[], &[image]), 0);
    let variable = [("CUPTI_AUDIT_FAIL_ON", "error")];
    assert_eq!(never.code(&variable, &[image]), 1);
    assert_eq!(never.code(&variable, &["--fail-on", "never", image]), 0);
    assert_eq!(never.code(&[], &["--fail-on", "error", image]), 1);
    assert_eq!(never.code(&[("CUPTI_AUDIT_FAIL_ON", "")], &[image]), 0);
    assert_eq!(never.code(&[], &["--no-config", image]), 1);

    let inference = Project::new(&[("cupti-audit.yaml", "phases: [inference]\n")]);
    assert_eq!(inference.code(&[], &[image]), 0);
    let variable = [("CUPTI_AUDIT_PHASE", "inference,profiling")];
    assert_eq!(inference.code(&variable, &[image]), 1);
    assert_eq!(inference.code(&variable, &["--phase", "inference", image]), 0);
    assert_eq!(inference.code(&[], &["--phase", "profiling", image]), 1);

    let json = Project::new(&[("cupti-audit.yaml", "format: json\n")]);
    let first =
        |environment: &[(&str, &str)], arguments: &[&str]| json.run(environment, arguments).stdout.first().copied();
    assert_eq!(first(&[], &[image]), Some(b'{'));
    let text = [("CUPTI_AUDIT_FORMAT", "text")];
    // The symbol of the verdict.
    assert_eq!(first(&text, &[image]), "✗".bytes().next());
    assert_eq!(first(&text, &["--format", "json", image]), Some(b'{'));
}

#[test]
fn lists_of_the_command_line_stand_in_place_of_the_configs_and_variables_are_joined() {
    let lib64 = "env: {LD_LIBRARY_PATH: /usr/local/cuda-12.4/extras/CUPTI/lib64, OTHER: x}\nplatform: linux/amd64\n";
    let project = Project::new(&[("cupti-audit.yaml", lib64)]);
    let image = image("extras-only");
    let status = |arguments: &[&str]| {
        let all = [&["--format", "json"], arguments, &[&image]].concat();
        reports(&project.run(&[], &all))[0]["cupti"]["status"].clone()
    };
    assert_eq!(status(&[]), "loadable");
    assert_eq!(status(&["--env", "OTHER=y"]), "loadable");
    assert_eq!(status(&["--env", "LD_LIBRARY_PATH=/gone"]), "unloadable");
    let other = project.run(&[("CUPTI_AUDIT_PLATFORM", "linux/s390x")], &[&image]);
    assert_eq!(other.status.code(), Some(2), "{other:?}");
}

#[test]
fn a_config_is_found_above_or_named_and_its_mistakes_stop_the_run() {
    let project = Project::new(&[
        ("cupti-audit.yaml", "fail-on: never\nrules: [checks]\n"),
        ("checks/no-trace.yaml", &RULE.replace("tracing", "training")),
        (".git/HEAD", ""),
        ("deep/down/x", ""),
        ("bad.yaml", "fail-on: sometimes\nsuppressions: []\n"),
    ]);
    let image = image("no-cupti");
    let below = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_cupti-audit"))
            .args(arguments)
            .current_dir(project.path().join("deep/down"))
            .env_clear()
            .output();
        output.unwrap()
    };
    let output = below(&["--format", "json", &image]);
    assert_eq!(output.status.code(), Some(0));
    assert!(findings(&reports(&output)[0]).contains(&("no-trace".to_owned(), false)));
    let bad = ["error: ../../bad.yaml:1:10: there is no value \"sometimes\"; there is error, warning, note, never"];
    let output = below(&["--config", "../../bad.yaml", &image]);
    assert_eq!(errors(&output), bad);
    assert_eq!(output.status.code(), Some(2));
    let gone = below(&["--config", "gone.yaml", &image]);
    assert_eq!(
        errors(&gone),
        ["error: gone.yaml: No such file or directory (os error 2)"]
    );
    assert_eq!(
        below(&["tree", "--config", "gone.yaml", &image, "libc.so.6"])
            .status
            .code(),
        Some(2)
    );
    assert_eq!(below(&["rules", "--config", "../../bad.yaml"]).status.code(), Some(2));
    assert_eq!(below(&["rules", "--no-config"]).status.code(), Some(0));
}

const SUPPRESSED: &str = "suppress:\n  - rule: headers-only-cupti\n    image: 'oci:/**/headers-only'\n    path: /usr/local/**\n    reason: built against, never run\n    until: 2027-06-30\n";

/// Noon of a day, as `SOURCE_DATE_EPOCH`.
fn on(day: &str) -> [(&'static str, String); 1] {
    let noon: chrono::DateTime<chrono::Utc> = format!("{day}T12:00:00Z").parse().unwrap();
    [("SOURCE_DATE_EPOCH", noon.timestamp().to_string())]
}

#[test]
fn a_suppressed_finding_is_shown_and_does_not_count_until_its_date() {
    let project = Project::new(&[("cupti-audit.yaml", SUPPRESSED)]);
    let image = image("headers-only");
    let run = |day: &str, arguments: &[&str]| {
        let [(name, value)] = on(day);
        project.run(&[(name, &value)], &[arguments, &[&image]].concat())
    };
    let output = run("2027-06-30", &["--format", "json", "--fail-on", "note"]);
    let report = &reports(&output)[0];
    assert_eq!(findings(report), [("headers-only-cupti".to_owned(), true)]);
    assert_eq!(
        report["findings"][0]["suppressed"],
        serde_json::json!({"reason": "built against, never run", "until": "2027-06-30"})
    );
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(run("2027-06-30", &[]).stdout).unwrap();
    assert!(
        text.contains("suppressed error[headers-only-cupti]: the CUPTI headers are in the image, but libcupti.so is not\n  because built against, never run, until 2027-06-30\n"),
        "{text}"
    );
    assert!(text.contains("no findings, 1 suppressed"), "{text}");

    let over = run("2027-07-01", &["--format", "json"]);
    let report = &reports(&over)[0];
    assert_eq!(
        findings(report),
        [
            ("headers-only-cupti".to_owned(), false),
            ("expired-suppression".to_owned(), false)
        ]
    );
    assert_eq!(
        report["findings"][1]["message"],
        "the suppression of headers-only-cupti on line 2 of the config was valid until 2027-06-30"
    );
    assert_eq!(over.status.code(), Some(1));
    // The report does not contain the time.
    assert_eq!(run("2020-01-01", &[]).stdout, run("2027-06-30", &[]).stdout);
    let odd = project.run(&[("SOURCE_DATE_EPOCH", "soon")], &[&image]);
    assert_eq!(
        errors(&odd),
        ["error: SOURCE_DATE_EPOCH is \"soon\": expected the seconds since 1970"]
    );
}

#[test]
fn a_suppression_that_matches_nothing_is_a_finding_of_the_run() {
    let project = Project::new(&[
        ("cupti-audit.yaml", SUPPRESSED),
        ("other.yaml", &SUPPRESSED.replace("/usr/local", "/opt")),
    ]);
    let [(name, value)] = on("2027-01-01");
    let run = |arguments: &[&str]| project.run(&[(name, &value)], &[&["--format", "json"], arguments].concat());
    let (headers, empty) = (image("headers-only"), image("empty"));
    let rules = |output: &Output| reports(output).iter().map(findings).collect::<Vec<_>>();
    let found = |rule: &str| vec![(rule.to_owned(), false)];
    // A suppression for another image is not reported; with several images, one match is enough.
    assert_eq!(rules(&run(&[&empty])), [found("cupti-absent")]);
    assert_eq!(
        rules(&run(&[&headers, &empty])),
        [vec![("headers-only-cupti".to_owned(), true)], found("cupti-absent")]
    );
    // The suppression has another path: the finding counts, and the last report of the run says that it is unused.
    let mut last = found("cupti-absent");
    last.extend(found("unused-suppression"));
    assert_eq!(
        rules(&run(&["--config", "other.yaml", &headers, &empty])),
        [found("headers-only-cupti"), last]
    );
    // A finding about the whole image has no path, so that no path matches it.
    let absent = SUPPRESSED.replace("headers-only-cupti", "cupti-absent");
    let absent = absent.replace("/headers-only", "/empty").replace("/usr/local", "");
    fs::write(project.path().join("absent.yaml"), absent).unwrap();
    let mut both = found("cupti-absent");
    both.extend(found("unused-suppression"));
    assert_eq!(rules(&run(&["--config", "absent.yaml", &empty])), [both]);
    // The suppression may apply to the unreadable image, so it is not reported as unused.
    let open = run(&["--config", "other.yaml", "oci:gone", &headers]);
    assert_eq!(rules(&open)[0], found("headers-only-cupti"));
    assert_eq!(open.status.code(), Some(2));
}

#[test]
fn an_accepted_assumption_that_the_image_has_not_is_a_finding_of_the_run() {
    let config = "accept:\n  - {id: 'launcher@/entrypoint.sh:4', reason: tried out, until: 2027-06-30}\n";
    let project = Project::new(&[("cupti-audit.yaml", config)]);
    let image = image("entry-script");
    let run = |day: &str, arguments: &[&str]| {
        let [(name, value)] = on(day);
        let output = project.run(
            &[(name, &value)],
            &[&["--format", "json"], arguments, &[&image]].concat(),
        );
        let report = &reports(&output)[0];
        let findings = report["findings"].as_array().unwrap().iter();
        let about = findings.filter(|finding| finding["rule"].as_str().unwrap().ends_with("-accept"));
        let words = about.map(|finding| finding["message"].as_str().unwrap().to_owned());
        (
            words.collect::<Vec<_>>(),
            report["assumptions"].as_array().unwrap().len(),
        )
    };
    let with_mpirun = ["--args", "mpirun -np 2 python3 train.py"];
    let none: Vec<String> = Vec::new();
    assert_eq!(run("2027-06-30", &with_mpirun), (none.clone(), 1));
    assert_eq!(
        run("2027-07-01", &with_mpirun).0,
        ["line 2 of the config accepts the assumption launcher@/entrypoint.sh:4 only until 2027-06-30"]
    );
    assert_eq!(
        run("2027-06-30", &[]).0,
        [
            "no assumption of the verdict has the id launcher@/entrypoint.sh:4, which is accepted on line 2 of the config"
        ]
    );
    let option = ["--no-config", "--accept", "launcher@/entrypoint.sh:4"];
    assert_eq!(run("2027-06-30", &[&option[..], &with_mpirun].concat()), (none, 1));
    assert_eq!(
        run("2027-06-30", &option).0,
        ["no assumption of the verdict has the id launcher@/entrypoint.sh:4, which is accepted on the command line"]
    );
    let strict = |more: &[&str]| {
        project.code(
            &[],
            &[&["--no-config", "--strict"], more, &with_mpirun, &[&image]].concat(),
        )
    };
    assert_eq!((strict(&[]), strict(&["--fail-on", "never"])), (2, 0));
    // The result of `links` depends on no assumption.
    assert_eq!(
        project.code(&[], &["links", "--fail-on", "warning", &image, "/usr/bin"]),
        0
    );
}

#[test]
fn every_image_is_audited_and_the_worst_outcome_counts() {
    let project = Project::new(&[]);
    let (good, bad) = (image("devel"), image("no-cupti"));
    let run = |images: &[&str]| {
        let output = project.run(&[], &[&["--format", "json"], images].concat());
        (reports(&output).len(), output.status.code().unwrap())
    };
    assert_eq!(run(&[&good, &good]), (2, 0));
    assert_eq!(run(&[&bad, &good]), (2, 1));
    assert_eq!(run(&[&good, "oci:gone", &good]).1, 2);
    assert_eq!(
        run(&["oci:gone", &bad]).1,
        2,
        "a finding does not hide that something could not be done"
    );
    let never = project.run(&[], &["--fail-on", "never", "oci:gone", &good]);
    assert_eq!(never.status.code(), Some(2), "never is about findings");
}

#[test]
fn every_platform_of_an_index_is_audited_and_named() {
    let project = Project::new(&[]);
    let platforms = |image: &str| {
        let output = project.run(&[], &["--format", "json", "--platform", "all", image]);
        let platforms: Vec<String> = reports(&output)
            .iter()
            .map(|report| report["image"]["platform"].as_str().unwrap().to_owned())
            .collect();
        (platforms, output.status.code().unwrap(), errors(&output))
    };
    let layout = image("multi-platform");
    let expected = ["linux/amd64".to_owned(), "linux/arm64".to_owned()];
    let (found, code, _) = platforms(&layout);
    assert_eq!(found, expected);
    let alone = |platform: &str| project.code(&[], &["--platform", platform, &layout]);
    assert_eq!(code, alone("linux/amd64").max(alone("linux/arm64")));
    let tar = project.path().join("archive.tar");
    let packed = Command::new("tar")
        .args(["-C", layout.strip_prefix("oci:").unwrap(), "-cf"])
        .arg(&tar)
        .arg(".")
        .status();
    assert!(packed.unwrap().success());
    assert_eq!(platforms("oci-archive:archive.tar").0, expected);
    assert_eq!(platforms(&image("headers-only")).0, ["linux/amd64"]);
    assert_eq!(platforms(&image("arm64")).0, ["linux/arm64"]);
    let stdin = platforms("-");
    assert_eq!(
        (stdin.1, stdin.2),
        (2, vec!["error: invalid reference \"-\": standard input can be read only once; to audit all platforms, save it to a file".to_owned()])
    );
}

#[test]
fn a_command_for_one_platform_takes_this_machines_if_the_config_says_all() {
    let project = Project::new(&[("cupti-audit.yaml", "platform: all\n")]);
    let tree = |options: &[&str]| {
        let output = project.run(
            &[],
            &[&["tree", &image("multi-platform"), "libc.so.6"], options].concat(),
        );
        let text = String::from_utf8(output.stdout.clone()).unwrap();
        (output.status.code().unwrap(), text, errors(&output))
    };
    let host = Platform::host().to_string();
    assert_eq!(tree(&[]), tree(&["--platform", &host]));
    assert_eq!(tree(&[]).0, 0);
    let (code, _, errors) = tree(&["--platform", "all"]);
    let expected = "error: invalid value 'all' for '--platform <OS/ARCH>': this command takes one platform; audit, links and fleet list take all";
    assert_eq!((code, errors.first().map(String::as_str)), (2, Some(expected)));
}

/// The YAML blocks of a page.
fn yaml_blocks(page: &str) -> Vec<&str> {
    let blocks = page.split("```yaml\n").skip(1);
    blocks.filter_map(|rest| rest.split("```").next()).collect()
}

#[test]
fn the_page_on_the_config_shows_every_key_and_the_program_reads_its_examples() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/config.md");
    let page = fs::read_to_string(page).unwrap();
    let blocks = yaml_blocks(&page);
    let [config, nightly, bundles, known_errors, launchers, library] = blocks.as_slice() else {
        panic!("six examples: {blocks:?}");
    };
    let rule = RULE.replace("tracing", "nightly");
    let project = Project::new(&[
        ("cupti-audit.yaml", config),
        ("audit/profiles/phases/nightly.yaml", nightly),
        ("audit/profiles/cupti/bundles.yaml", bundles),
        ("audit/profiles/cupti/errors.yaml", known_errors),
        ("audit/profiles/launchers.yaml", launchers),
        ("audit/profiles/libraries/nccl.yaml", library),
        ("audit/rules/no-trace.yaml", &rule),
        ("strange.yaml", "strange: 1\n"),
        ("inner.yaml", "suppress: [{strange: 1}]\n"),
    ]);
    let listed = project.run(&[], &["rules", "--config", "cupti-audit.yaml"]);
    assert_eq!(errors(&listed), [""; 0]);
    assert!(String::from_utf8_lossy(&listed.stdout).contains("no-trace"));
    assert_eq!(
        project.code(
            &[],
            &[
                "explain",
                "--config",
                "cupti-audit.yaml",
                "our-tracer: no CUPTI in /opt"
            ]
        ),
        0
    );
    // The error for an unknown key lists the known keys. Each of them must be in the example and in a table.
    let said = ["strange.yaml", "inner.yaml"].map(|config| errors(&project.run(&[], &["rules", "--config", config])));
    let said = said.concat().join("\n");
    let lists = said.lines().filter_map(|line| line.split_once("; there is "));
    let keys: Vec<&str> = lists.flat_map(|(_, list)| list.split(", ")).collect();
    assert_eq!(keys.len(), 21, "{said}");
    for key in keys {
        assert!(
            config.contains(&format!("{key}: ")) || ["suppress", "accept"].contains(&key),
            "{key}"
        );
        assert!(page.contains(&format!("| `{key}` |")), "{key}");
    }
}

#[test]
fn the_config_of_the_page_on_ci_is_one() {
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/ci.md")).unwrap();
    let blocks = yaml_blocks(&page);
    let config = blocks.first().expect("the first block of YAML is a config");
    let project = Project::new(&[("cupti-audit.yaml", config)]);
    assert_eq!(project.code(&[], &["rules"]), 0);
}

#[test]
fn a_tool_that_would_not_work_fails_the_run_and_says_why() {
    let project = Project::new(&[("cupti-audit.yaml", "tools: [torch.profiler]\n")]);
    let asked = |image_name: &str, more: &[&str]| {
        let image = image(image_name);
        project.run(&[], &[&["--format", "json", &image], more].concat())
    };
    let tools = |output: &Output| reports(output)[0]["asked_tools"].clone();
    let broken = asked(
        "headers-only",
        &["--no-config", "--tool", "torch.profiler", "--tool", "nsys"],
    );
    let report = &reports(&broken)[0];
    let lost: Vec<&str> = report["findings"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|finding| finding["rule"] == "tool-not-ready")
        .map(|finding| finding["message"].as_str().unwrap())
        .collect();
    assert_eq!(lost.len(), 2, "{report}");
    assert!(
        lost.iter().all(|message| message.contains(" would not work: ")),
        "{lost:?}"
    );
    assert_eq!(tools(&broken)[0]["id"], "torch-profiler");
    assert_eq!(broken.status.code(), Some(1));
    let good = asked("pip-torch", &[]);
    assert_eq!(
        (tools(&good)[0]["state"].clone(), good.status.code()),
        ("ready".into(), Some(0)),
        "by the config"
    );
    assert_eq!(tools(&asked("pip-torch", &["--no-config"])), serde_json::json!([]));
    let unknown = asked("pip-torch", &["--no-config", "--tool", "torch.profilr"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(errors(&unknown)[0].contains("there is no tool"), "{unknown:?}");
}

#[test]
fn a_suppression_for_one_question_is_not_idle_at_another() {
    let config = "suppress: [{rule: missing-library, path: /app/**, reason: it is there at run time}]\n";
    let project = Project::new(&[("cupti-audit.yaml", config)]);
    let image = image("cannot-start");
    assert_eq!(project.code(&[], &["links", &image, "/app"]), 0);
    assert_eq!(project.code(&[], &["links", "--no-config", &image, "/app"]), 1);
    let audit = project.run(&[], &["--format", "json", &image]);
    assert!(severity(&reports(&audit)[0], "unused-suppression").is_none());
}

#[test]
fn a_config_that_is_begun_is_one_that_can_be_read() {
    let project = Project::new(&[]);
    assert_eq!(project.code(&[], &["config", "init"]), 0);
    assert_eq!(project.code(&[], &["config", "init"]), 2, "it is there already");
    assert_eq!(project.code(&[], &["config", "init", "--force"]), 0);
    assert_eq!(project.code(&[], &["rules"]), 0);
    // The commented-out settings are valid too.
    let path = project.path().join("cupti-audit.yaml");
    let text = fs::read_to_string(&path).unwrap();
    let keys = text.lines().filter_map(|line| {
        let line = line.strip_prefix("# ").unwrap_or(line);
        let is_key = line
            .split_once(':')
            .is_some_and(|(key, _)| !key.trim_start_matches("  - ").contains(' ') || key.starts_with("   "));
        (is_key && !line.contains("$schema")).then(|| format!("{line}\n"))
    });
    let keys: String = keys
        .collect::<String>()
        .replace("rules: [audit/rules]\n", "")
        .replace("profiles: [audit/profiles]\n", "");
    fs::write(&path, &keys).unwrap();
    let read = project.run(&[], &["rules", "--config", "cupti-audit.yaml"]);
    assert_eq!(read.status.code(), Some(0), "{keys}\n{read:?}");
}

/// A common recipe: a package that allegedly contains CUPTI, and a directory that only has its headers.
const RECIPE: &str = "ARG CUDA=12.4.0\nFROM nvidia/cuda:${CUDA}-devel-ubuntu22.04 AS builder\n\
    RUN apt-get install -y cuda-libraries-dev-12-4\n\
    FROM nvidia/cuda:${CUDA}-runtime-ubuntu22.04 AS runtime\n# CUPTI for torch.profiler\n\
    RUN apt-get update && \\\n    # brings libcupti\n    apt-get install -y cuda-libraries-dev-12-4 \\\n      python3\n\
    COPY --from=builder /usr/local/cuda/extras/CUPTI /usr/local/cuda/extras/CUPTI\n";

/// The findings of `check`: rule, severity and lines of each; the replacements that it suggests; and the exit code.
fn checked(text: &str, more: &[&str]) -> (Vec<String>, Vec<Value>, i32) {
    let project = Project::new(&[("Dockerfile", text)]);
    let output = project.run(&[], &[&["check", "--format", "json"], more].concat());
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    let findings = report["findings"].as_array().unwrap();
    let word = |value: &Value| value.as_str().unwrap().to_owned();
    let found = findings.iter().map(|finding| {
        let (rule, severity) = (word(&finding["rule"]), word(&finding["severity"]));
        format!("{severity} {rule} {}-{}", finding["line"], finding["end_line"])
    });
    let instead = findings.iter().map(|finding| finding["replacement"].clone());
    (found.collect(), instead.collect(), output.status.code().unwrap())
}

#[test]
fn the_recipe_of_many_guides_is_caught_before_it_is_built() {
    let (found, instead, code) = checked(RECIPE, &[]);
    assert_eq!(
        found,
        ["error run-brings-no-cupti 6-9", "error copy-brings-no-cupti 10-10"]
    );
    assert_eq!(code, 1);
    // The suggested replacement passes.
    let lines: Vec<&str> = RECIPE.lines().collect();
    let mended = RECIPE
        .replace(&lines[5..9].join("\n"), instead[0].as_str().unwrap())
        .replace(lines[9], instead[1].as_str().unwrap());
    assert_ne!(mended, RECIPE);
    assert_eq!(
        checked(&mended, &["--phase", "training"]),
        (vec![], vec![], 0),
        "{mended}"
    );
    // Inference does not need CUPTI, and the builder stage is another image.
    assert_eq!(checked(RECIPE, &["--phase", "inference"]).2, 0);
    assert_eq!(checked(RECIPE, &["--target", "builder"]), (vec![], vec![], 0));
}

#[test]
fn a_check_says_what_it_cannot_see_and_strict_makes_it_open() {
    let text = "FROM nvidia/cuda:12.4.1-runtime-ubuntu22.04\nRUN ./install.sh\nRUN pip install -r list.txt\n";
    let project = Project::new(&[
        ("Dockerfile", text),
        ("known", "FROM nvidia/cuda:12.4.1-devel-ubuntu22.04\n"),
        ("strict.yaml", "strict: true\n"),
    ]);
    let check = |more: &[&str]| {
        let output = project.run(&[], &[&["check", "--phase", "training"], more].concat());
        let text = String::from_utf8(output.stdout).unwrap();
        (text.lines().next().unwrap().to_owned(), output.status.code().unwrap())
    };
    let unseen = "not seen: line 2 runs ./install.sh; line 3 installs -r list.txt";
    assert_eq!(check(&[]), (unseen.to_owned(), 0));
    assert_eq!(check(&["--strict"]), (unseen.to_owned(), 2));
    assert_eq!(check(&["--config", "strict.yaml"]), (unseen.to_owned(), 2));
    assert_eq!(check(&["--strict", "--fail-on", "never"]), (unseen.to_owned(), 0));
    let known = "· known: none of the known traps; libcupti: from nvidia/cuda:12.4.1-devel-ubuntu22.04";
    assert_eq!(check(&["--strict", "known"]), (known.to_owned(), 0));
    let output = project.run(&[], &["check", "--format", "json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let gap = |line: u32, why: &str| serde_json::json!({"what": format!("line {line}"), "why": why, "line": line});
    assert_eq!(
        report["gaps"],
        serde_json::json!([gap(2, "runs ./install.sh"), gap(3, "installs -r list.txt")])
    );
    assert!(
        report["verdict"].as_str().unwrap().contains("it is not known"),
        "{report}"
    );
}

#[test]
fn a_check_is_written_in_every_form_with_its_lines() {
    let project = Project::new(&[("docker/Dockerfile", RECIPE), ("no", "RUN x\n")]);
    let check = |format: &str| {
        let output = project.run(&[], &["check", "--format", format, "docker/Dockerfile"]);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let sarif: Value = serde_json::from_str(&check("sarif")).unwrap();
    let results = &sarif["runs"][0]["results"];
    let place = &results[0]["locations"][0]["physicalLocation"];
    assert_eq!(place["artifactLocation"]["uri"], "docker/Dockerfile");
    assert_eq!(place["region"], serde_json::json!({"startLine": 6, "endLine": 9}));
    let new = &results[0]["fixes"][0]["artifactChanges"][0]["replacements"][0]["insertedContent"]["text"];
    assert!(
        new.as_str()
            .unwrap()
            .contains("cuda-libraries-dev-12-4 cuda-cupti-12-4"),
        "{new}"
    );
    let github = check("github");
    assert!(
        github.starts_with("::error file=docker/Dockerfile,line=6,endLine=9,title=run-brings-no-cupti::"),
        "{github}"
    );
    assert!(check("junit").contains("<testcase name=\"copy-brings-no-cupti\""));
    assert!(check("html").contains("error[run-brings-no-cupti]</span>: "));
    insta::assert_snapshot!("check_text", check("text"));
    insta::assert_snapshot!("check_markdown", check("markdown"));
    for file in ["no", "nowhere"] {
        assert_eq!(project.code(&[], &["check", file]), 2, "{file}");
    }
    assert_eq!(project.code(&[], &["check", "--target", "x", "docker/Dockerfile"]), 2);
}

#[test]
fn of_files_that_are_alike_each_counts_when_images_are_compared() {
    let project = Project::new(&[]);
    let root = |name: &str, more: &[&str]| {
        let root = project.0.path().join(name);
        for folder in ["usr/bin", "etc"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        fs::write(root.join("usr/bin/program"), Elf::executable().build()).unwrap();
        for file in more {
            fs::write(root.join("etc").join(file), [0; 1000]).unwrap();
        }
        format!("rootfs:{}", root.display())
    };
    let (one, two) = (root("one", &["a"]), root("two", &["a", "b"]));
    let output = project.run(&[], &["diff", "--format", "json", &one, &two]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["changed_bytes"], 1000, "{report:#}");
}

#[test]
fn two_images_are_compared_by_bytes_programs_phases_and_findings() {
    let project = Project::new(&[]);
    let diff = |format: &str, before: &str, after: &str| {
        let (before, after) = (image(before), image(after));
        let arguments = ["diff", "--format", format, "--phase", "training", &before, &after];
        let output = project.run(&[], &arguments);
        (String::from_utf8(output.stdout).unwrap(), output.status.code().unwrap())
    };
    let (report, code) = diff("json", "pip-torch", "pip-torch-broken");
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!(code, 1, "CUPTI is lost, which is a new error");
    assert_eq!(report["copies"]["lost"][0]["version"], "12.4.127");
    assert_eq!(report["consumers"][0]["name"], "PyTorch");
    let training = report["phases"]
        .as_array()
        .unwrap()
        .iter()
        .find(|phase| phase["phase"] == "training");
    assert_eq!(
        training.unwrap(),
        &serde_json::json!({"phase": "training", "before": "pass", "after": "fail"})
    );
    let change = report["changed_bytes"].as_i64().unwrap();
    let of_owners = report["owners"].as_array().unwrap().iter();
    let of_owners: i64 = of_owners
        .map(|owner| owner["after"].as_i64().unwrap() - owner["before"].as_i64().unwrap())
        .sum();
    assert_eq!(change, of_owners, "every byte belongs to something");
    assert_eq!(
        diff("json", "pip-torch-broken", "pip-torch").1,
        0,
        "what is gained is good"
    );
    let (same, code) = diff("json", "pip-torch", "pip-torch");
    let same: Value = serde_json::from_str(&same).unwrap();
    assert_eq!(
        (code, &same["owners"], &same["layers"]),
        (0, &serde_json::json!([]), &serde_json::json!([]))
    );
    let folder = format!("oci:{}/", env!("CARGO_MANIFEST_DIR"));
    for format in ["text", "markdown"] {
        let (text, _) = diff(format, "pip-torch", "pip-torch-broken");
        insta::assert_snapshot!(format!("diff_{format}"), text.replace(&folder, "oci:"));
    }
    assert!(diff("html", "pip-torch", "pip-torch-broken").0.contains("<table"));
}
