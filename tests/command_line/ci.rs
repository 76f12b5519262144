//! The files in docs/ci/ work as documented, step by step, with a real engine and a real registry.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::site::{AUDITOR, ROOT_AUDITOR, Site, is_pushed, repository, static_program};
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CloudBuild {
    steps: Vec<Step>,
    substitutions: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Step {
    id: String,
    name: String,
    entrypoint: Option<String>,
    args: Vec<String>,
    #[serde(default)]
    allow_failure: bool,
}

fn cloud_build_file() -> CloudBuild {
    let text = fs::read_to_string(repository("docs/ci/cloudbuild.yaml")).unwrap();
    serde_saphyr::from_str(&text).unwrap()
}

fn substituted(text: &str, values: &BTreeMap<&str, String>) -> String {
    let filled = values.iter().fold(text.to_owned(), |text, (name, value)| {
        text.replace(&format!("${name}"), value)
    });
    assert!(!filled.contains('$'), "a substitution is not known: {text}");
    filled
}

/// Runs the build in a project directory as Cloud Build would. Returns the id of the step that failed, if any.
fn cloud_build(site: &Site, project: &Path, image: &str, id: &str) -> Option<String> {
    let build = cloud_build_file();
    let names: Vec<&str> = build.substitutions.keys().map(String::as_str).collect();
    assert_eq!(names, ["_AUDITOR", "_BUCKET", "_IMAGE", "_PHASE"]);
    let values = BTreeMap::from([
        ("_AUDITOR", ROOT_AUDITOR.to_owned()),
        ("_BUCKET", "reports".to_owned()),
        ("_IMAGE", image.to_owned()),
        ("_PHASE", build.substitutions["_PHASE"].clone()),
        ("BUILD_ID", id.to_owned()),
    ]);
    for step in build.steps {
        let arguments = step.args.iter().map(|text| substituted(text, &values));
        let output = site.step(
            project,
            &crate::site::Step {
                image: substituted(&step.name, &values),
                entrypoint: step.entrypoint,
                arguments: arguments.collect(),
            },
        );
        println!("{id} {}: {:?}", step.id, output.status.code());
        print!("{}", String::from_utf8_lossy(&output.stderr));
        if !output.status.success() && !step.allow_failure {
            return Some(step.id);
        }
    }
    None
}

/// The exit code in a SARIF report, and the rules of the errors that count.
fn sarif(file: &Path) -> (u64, Vec<String>) {
    let text = fs::read_to_string(file).unwrap();
    let log: Value = serde_json::from_str(&text).unwrap();
    let run = &log["runs"][0];
    let mut rules: Vec<String> = run["results"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|result| result["level"] == "error" && result["suppressions"] == Value::Array(vec![]))
        .map(|result| result["ruleId"].as_str().unwrap().to_owned())
        .collect();
    rules.dedup();
    (run["invocations"][0]["exitCode"].as_u64().unwrap(), rules)
}

const ACCEPTED: &str = "suppress:\n  - {rule: headers-only-cupti, reason: built against and never run}\n";

#[test]
fn cloud_build_pushes_only_what_passes_and_keeps_the_report_either_way() {
    let Some(site) = Site::shared() else {
        return;
    };
    let kept = |id: &str| site.folder("bucket/reports").join(id).join("cupti-audit.sarif");
    let build = |base: &str, id: &str, config: Option<&str>| {
        let project = site.project(base, id);
        if let Some(config) = config {
            fs::write(project.join("cupti-audit.yaml"), config).unwrap();
        }
        let image = site.image(id);
        let ended = cloud_build(&site, &project, &image, id);
        (ended, is_pushed(&image))
    };
    assert_eq!(build("devel", "good", None), (None, true));
    assert_eq!(sarif(&kept("good")), (0, Vec::new()));

    let gate = Some("gate".to_owned());
    assert_eq!(build("headers-only", "bad", None), (gate, false));
    assert_eq!(sarif(&kept("bad")), (1, vec!["headers-only-cupti".to_owned()]));

    // The audit uses the config beside the Dockerfile.
    let accepted = build("headers-only", "accepted", Some(ACCEPTED));
    assert_eq!(accepted, (None, true));
    assert_eq!(sarif(&kept("accepted")), (0, Vec::new()));

    // An image that cannot be judged fails and has no report to keep.
    let wrong = build("devel", "wrong", Some("fail-on: sometimes\n"));
    assert_eq!(wrong, (Some("keep".to_owned()), false));
    assert!(!kept("wrong").exists());
    println!("the engine and the registry agree that Cloud Build's steps push what passes alone");
}

#[test]
fn the_gate_of_cloud_build_opens_for_exit_code_0_alone() {
    let build = cloud_build_file();
    let gate = build.steps.iter().find(|step| step.id == "gate").unwrap();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("cupti-audit.sarif");
    let opens = |image: &str, phase: &str| {
        let ran = Command::new(env!("CARGO_BIN_EXE_cupti-audit"))
            .args(["--no-config", "--phase", phase, "--output"])
            .arg(format!("sarif={}", file.display()))
            .arg(format!("oci:{}", repository("testdata/images").join(image).display()))
            .env_clear()
            .stderr(Stdio::null())
            .output()
            .unwrap();
        let code = u64::try_from(ran.status.code().unwrap()).unwrap();
        assert_eq!(sarif(&file).0, code, "the report has the exit code of the run");
        let file = file.display().to_string();
        let at_hand = |text: &String| text.replace("/workspace/cupti-audit.sarif", &file);
        let gate = Command::new(gate.entrypoint.as_ref().unwrap())
            .args(gate.args.iter().map(at_hand))
            .status();
        (code, gate.unwrap().success())
    };
    assert_eq!(opens("devel", "profiling"), (0, true));
    assert_eq!(opens("headers-only", "inference"), (0, true));
    assert_eq!(opens("headers-only", "training"), (1, false));
    assert_eq!(opens("headers-only", "profiling"), (1, false));
    assert_eq!(opens("not-there", "profiling"), (2, false));
}

/// A shell script in a job.
struct Script {
    lines: String,
    /// Whether it also runs after a failure.
    always: bool,
}

fn github_scripts() -> Vec<Script> {
    let text = fs::read_to_string(repository("docs/ci/github-actions.yml")).unwrap();
    let file: Value = serde_saphyr::from_str(&text).unwrap();
    let steps = file["jobs"]["image"]["steps"].as_array().unwrap();
    let upload = steps.iter().find(|step| step["with"]["sarif_file"].is_string());
    let upload = upload.unwrap();
    assert_eq!(upload["with"]["sarif_file"], "cupti-audit.sarif");
    assert_eq!(upload["if"], "always()", "alerts are for what does not pass");
    let script = |step: &Value| {
        let lines = step["run"].as_str()?.to_owned();
        let always = step["if"] == "always()";
        Some(Script { lines, always })
    };
    steps.iter().filter_map(script).collect()
}

fn gitlab_scripts() -> Vec<Script> {
    let text = fs::read_to_string(repository("docs/ci/gitlab-ci.yml")).unwrap();
    let file: Value = serde_saphyr::from_str(&text).unwrap();
    let job = &file["image-with-cupti"];
    assert_eq!(job["artifacts"]["reports"]["junit"], "cupti-audit.xml");
    assert_eq!(job["artifacts"]["when"], "always");
    let lines = ["before_script", "script"].map(|part| job[part].as_array().unwrap());
    let script = |line: &Value| Script {
        lines: line.as_str().unwrap().to_owned(),
        always: false,
    };
    lines.into_iter().flatten().map(script).collect()
}

/// Runs the scripts of a job. Returns the exit codes of those that ran, and all standard output.
fn job(site: &Site, project: &Path, image: &str, scripts: &[Script]) -> (Vec<i32>, String) {
    let summary = project.join("summary").display().to_string();
    let registry = image.split_once('/').unwrap().0;
    let values = [
        ("IMAGE", image),
        ("AUDITOR", AUDITOR),
        ("CI_REGISTRY", registry),
        ("CI_REGISTRY_USER", "somebody"),
        ("CI_REGISTRY_PASSWORD", "secret"),
        ("GITHUB_STEP_SUMMARY", &summary),
    ];
    let mut codes: Vec<i32> = Vec::new();
    let mut printed = String::new();
    for script in scripts {
        if !script.always && codes.iter().any(|code| *code != 0) {
            continue;
        }
        // On GitHub's runners the engine has the default socket.
        let socket = format!("{}:", site.engine.socket().display());
        let lines = script.lines.replace("/var/run/docker.sock:", &socket);
        let output = site.shell(project, &lines, &values);
        print!("{lines}\n{}", String::from_utf8_lossy(&output.stderr));
        printed.push_str(&String::from_utf8_lossy(&output.stdout));
        codes.push(output.status.code().unwrap());
    }
    (codes, printed)
}

#[test]
fn github_pushes_only_what_passes_and_shows_it_either_way() {
    let Some(site) = Site::shared() else {
        return;
    };
    let scripts = github_scripts();
    let (good, bad) = (site.image("github-good"), site.image("github-bad"));
    let project = site.project("devel", "github-good");
    let (codes, printed) = job(&site, &project, &good, &scripts);
    assert_eq!((codes, is_pushed(&good)), (vec![0, 0, 0, 0], true));
    assert!(!printed.contains("::error"), "{printed}");
    assert_eq!(sarif(&project.join("cupti-audit.sarif")), (0, Vec::new()));

    let project = site.project("headers-only", "github-bad");
    let (codes, printed) = job(&site, &project, &bad, &scripts);
    assert_eq!((codes, is_pushed(&bad)), (vec![0, 1, 0], false));
    assert!(printed.contains("::error title=headers-only-cupti"), "{printed}");
    assert_eq!(sarif(&project.join("cupti-audit.sarif")).0, 1);
    let summary = fs::read_to_string(project.join("summary")).unwrap();
    assert!(summary.contains(r"**error\[headers-only-cupti\]: "), "{summary}");
}

/// Runs the audit script of our action as a GitHub runner does. Returns the exit code, the annotations, the outputs and
/// the summary.
fn action(files: &str, images: &str, phases: &str) -> (i32, [String; 3]) {
    let text = fs::read_to_string(repository("action.yml")).unwrap();
    let file: Value = serde_saphyr::from_str(&text).unwrap();
    let steps = file["runs"]["steps"].as_array().unwrap();
    let audit = steps.iter().find(|step| step["id"] == "audit").unwrap();
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let program = Path::new(env!("CARGO_BIN_EXE_cupti-audit")).parent().unwrap();
    let ran = Command::new("bash")
        .args(["--noprofile", "--norc", "-eo", "pipefail", "-c"])
        .arg(audit["run"].as_str().unwrap())
        .current_dir(repository(""))
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("PROGRAM", program)
        .env("RUNNER_TEMP", dir.path())
        .env("GITHUB_OUTPUT", at("outputs"))
        .env("GITHUB_STEP_SUMMARY", at("summary"))
        .envs([
            ("FILES", files),
            ("IMAGES", images),
            ("CUPTI_AUDIT_PHASE", phases),
            ("CUPTI_AUDIT_FAIL_ON", "error"),
        ])
        .env("CUPTI_AUDIT_CACHE_DIR", at("layers"))
        .output()
        .unwrap();
    let read = |name: &str| fs::read_to_string(at(name)).unwrap_or_default();
    let printed = String::from_utf8(ran.stdout).unwrap();
    let outputs = read("outputs").replace(&dir.path().display().to_string(), "TEMP");
    (ran.status.code().unwrap(), [printed, outputs, read("summary")])
}

#[test]
fn our_action_shows_what_was_found_and_fails_where_it_does_not_pass() {
    let outputs = |code: i32| format!("exit-code={code}\nsarif=TEMP/cupti-audit.sarif\n");
    let (code, [printed, said, summary]) = action("", "oci:testdata/images/devel", "training,profiling");
    assert_eq!((code, said), (0, outputs(0)));
    assert!(!printed.contains("::error"), "{printed}");
    assert!(
        summary.starts_with("## ✓ ready for training, profiling; CUPTI loads"),
        "{summary}"
    );

    // Spaces or newlines separate images; the highest severity counts.
    let both = "oci:testdata/images/devel\n  oci:testdata/images/headers-only ";
    let (code, [printed, said, summary]) = action("", both, "");
    assert_eq!((code, said), (1, outputs(1)));
    assert!(printed.contains("::error title=headers-only-cupti"), "{printed}");
    assert_eq!(summary.matches("\n## ").count(), 1, "{summary}");

    let (code, [_, said, summary]) = action("", "oci:testdata/images/not-there", "training");
    assert_eq!((code, said), (2, outputs(2)));
    assert!(summary.contains("was not audited"), "{summary}");
    // An argument that looks like an option is an image that does not exist.
    assert_eq!(action("", "--version", "").0, 2);

    // Files are checked before images are read, and alone.
    let (code, [_, said, summary]) = action("docs/ci/Dockerfile", "oci:testdata/images/devel", "");
    assert_eq!((code, said), (0, outputs(0)));
    assert!(
        summary.starts_with("## · docs/ci/Dockerfile: no known trap"),
        "{summary}"
    );
    assert_eq!(summary.matches("\n## ").count(), 1, "{summary}");
    let (code, [printed, said, _]) = action("testdata/mistakes/Dockerfile", "", "");
    assert_eq!((code, said.as_str()), (0, "exit-code=0\n"), "{printed}");
}

#[test]
fn every_action_that_is_used_is_pinned_by_its_commit() {
    let files = [
        "action.yml",
        "docs/ci/github-actions.yml",
        ".github/workflows/release.yml",
        ".github/workflows/docs.yml",
    ];
    for file in files {
        let text = fs::read_to_string(repository(file)).unwrap();
        for line in text
            .lines()
            .filter(|line| line.trim_start().trim_start_matches("- ").starts_with("uses: "))
        {
            let (_, commit) = line.split_once('@').unwrap();
            let (commit, version) = commit.split_once(" # v").unwrap_or_else(|| panic!("{file}: {line}"));
            assert!(commit.len() == 40 && !version.is_empty(), "{file}: {line}");
        }
    }
}

#[test]
fn gitlab_pushes_only_what_passes_and_shows_it_either_way() {
    let Some(site) = Site::shared() else {
        return;
    };
    let scripts = gitlab_scripts();
    let (good, bad) = (site.image("gitlab-good"), site.image("gitlab-bad"));
    let project = site.project("devel", "gitlab-good");
    let (codes, _) = job(&site, &project, &good, &scripts);
    assert_eq!((codes, is_pushed(&good)), (vec![0, 0, 0, 0], true));
    let junit = |project: &Path| fs::read_to_string(project.join("cupti-audit.xml")).unwrap();
    assert!(!junit(&project).contains("<failure"));

    let project = site.project("headers-only", "gitlab-bad");
    let (codes, _) = job(&site, &project, &bad, &scripts);
    assert_eq!((codes, is_pushed(&bad)), (vec![0, 0, 1], false));
    assert!(junit(&project).contains("<failure"));
}

#[test]
fn our_own_image_holds_the_program_alone_and_is_nobodys_where_it_can_be() {
    let Some(site) = Site::shared() else {
        return;
    };
    let user = |image: &str| {
        let format = "{{.Config.User}}";
        site.engine.must(&["image", "inspect", "--format", format, image])
    };
    assert_eq!(user(AUDITOR), "65532:65532");
    assert_eq!(user(ROOT_AUDITOR), "");
    let version = ["run", "--rm", "--network", "none", AUDITOR, "-V"];
    let expected = concat!("cupti-audit ", env!("CARGO_PKG_VERSION"));
    assert_eq!(site.engine.must(&version), expected);
    if static_program().is_some() {
        let name = site.engine.must(&["create", "--network", "none", AUDITOR]);
        let tar = site.folder("export").join("export.tar");
        site.engine.must(&["export", "--output", tar.to_str().unwrap(), &name]);
        let list = crate::registry::run("tar", &["-tf", tar.to_str().unwrap()]);
        let list = String::from_utf8(list).unwrap();
        // The engine itself adds empty directories and files to a container.
        let own = [
            "dev/",
            "etc/host",
            "etc/mtab",
            "etc/resolv.conf",
            "proc/",
            "sys/",
            ".dockerenv",
        ];
        let mut held: Vec<&str> = list
            .lines()
            .filter(|path| !own.iter().any(|own| path.starts_with(own)) && !path.ends_with('/'))
            .collect();
        held.sort_unstable();
        assert_eq!(held, ["cupti-audit", "etc/ssl/certs/ca-certificates.crt"]);
        println!("the static program and the engine agree that it runs on scratch");
    }
}
