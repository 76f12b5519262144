//! Do the pieces of docs/ci/ do what they say, step by step, with a real engine and a real registry?
//!
//! What stands in: the images of Cloud Build's docker and gcloud are a Debian with this machine's docker command
//! and a `gcloud` that copies into a folder; the program is the one under test, on that Debian, where the
//! Dockerfile compiles a static one. With `CUPTI_AUDIT_STATIC` set to a static program the image is `scratch`.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "the other side is a real engine, and tests may panic"
)]

mod support;

#[path = "support/engine.rs"]
mod docker;
#[path = "support/registry_parts.rs"]
#[allow(dead_code, reason = "the certificates are for other tests")]
mod registry;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use docker::Dockerd;
use registry::{Registry, run};
use serde::Deserialize;
use support::{have_all, part};

const DEBIAN: &str = "test/debian:latest";
const TOOLS: &str = "test/tools:latest";
const AUDITOR: &str = "test/cupti-audit:latest";
const ROOT_AUDITOR: &str = "test/cupti-audit:root";

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// An engine that has all images that the pieces name, and a registry.
struct Site {
    engine: Dockerd,
    registry: Registry,
    dir: tempfile::TempDir,
}

impl Site {
    fn start() -> Option<Self> {
        let debian = part("bookworm.tar")?;
        let programs = [("docker-registry", "docker-registry"), ("skopeo", "skopeo")];
        if !have_all(&programs) {
            return None;
        }
        let engine = Dockerd::start()?;
        let dir = tempfile::tempdir().unwrap();
        let registry = Registry::start(dir.path(), None);
        let site = Self {
            engine,
            registry,
            dir,
        };
        site.engine
            .must(&["import", debian.to_str().unwrap(), DEBIAN]);
        site.tools();
        site.auditor();
        for name in ["devel", "headers-only"] {
            site.load(name);
        }
        Some(site)
    }

    fn folder(&self, name: &str) -> PathBuf {
        let folder = self.dir.path().join(name);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn build(&self, folder: &Path, arguments: &[&str]) {
        let fixed = ["build", "--quiet"];
        let folder = folder.to_str().unwrap();
        self.engine.must(&[&fixed, arguments, &[folder]].concat());
    }

    /// What Cloud Build's images of docker and gcloud have in common with these steps.
    fn tools(&self) {
        let folder = self.folder("tools");
        let docker = run("sh", &["-c", "command -v docker"]);
        let docker = String::from_utf8(docker).unwrap();
        fs::copy(docker.trim(), folder.join("docker")).unwrap();
        // gcloud storage cp FILE gs://BUCKET/NAME
        let gcloud = "#!/bin/sh -e\nto=/bucket/${4#gs://}\nmkdir -p \"$(dirname \"$to\")\"\ncp \"$3\" \"$to\"\n";
        fs::write(folder.join("gcloud"), gcloud).unwrap();
        run("chmod", &["+x", folder.join("gcloud").to_str().unwrap()]);
        let text =
            format!("FROM {DEBIAN}\nCOPY docker gcloud /usr/bin/\nENTRYPOINT [\"docker\"]\n");
        fs::write(folder.join("Dockerfile"), text).unwrap();
        self.build(&folder, &["--tag", TOOLS]);
    }

    /// Our own image by its Dockerfile, with the program at hand in place of the stage that compiles it.
    fn auditor(&self) {
        let folder = self.folder("auditor");
        let text = fs::read_to_string(repository("docs/ci/Dockerfile")).unwrap();
        let at = text.find("FROM scratch AS root").unwrap();
        let static_program = std::env::var_os("CUPTI_AUDIT_STATIC");
        let program = static_program.clone().map_or_else(
            || PathBuf::from(env!("CARGO_BIN_EXE_cupti-audit")),
            PathBuf::from,
        );
        let mut stages = text[at..].to_owned();
        if static_program.is_none() {
            stages = stages.replace("FROM scratch", &format!("FROM {DEBIAN}"));
        }
        fs::copy(program, folder.join("cupti-audit")).unwrap();
        fs::write(folder.join("ca-certificates.crt"), "").unwrap();
        let stage = format!(
            "FROM {DEBIAN} AS build\nCOPY cupti-audit /out/\nCOPY ca-certificates.crt /etc/ssl/certs/\n{stages}"
        );
        fs::write(folder.join("Dockerfile"), stage).unwrap();
        self.build(&folder, &["--target", "root", "--tag", ROOT_AUDITOR]);
        self.build(&folder, &["--tag", AUDITOR]);
    }

    /// Puts a fixture image into the engine, to build on.
    fn load(&self, name: &str) {
        let file = self.dir.path().join(format!("{name}.tar"));
        let from = format!("oci:{}", repository("testdata/images").join(name).display());
        let to = format!("docker-archive:{}:base/{name}:latest", file.display());
        run(
            "skopeo",
            &["--insecure-policy", "copy", "--quiet", &from, &to],
        );
        self.engine.must(&["load", "-i", file.to_str().unwrap()]);
    }

    /// A folder with a Dockerfile on top of a fixture.
    fn project(&self, base: &str) -> PathBuf {
        let folder = self.folder(&format!("project-{base}"));
        let text = format!("FROM base/{base}:latest\nLABEL built=here\n");
        fs::write(folder.join("Dockerfile"), text).unwrap();
        folder
    }

    fn image(&self, name: &str) -> String {
        format!("{}/{name}:latest", self.registry.address)
    }

    /// Runs a step as Cloud Build does: in a container, with its workspace and the engine's socket.
    fn step(&self, workspace: &Path, step: &Step, values: &BTreeMap<&str, String>) -> Output {
        let socket = format!("{}:/var/run/docker.sock", self.engine.socket().display());
        let bucket = format!("{}:/bucket", self.folder("bucket").display());
        let workspace = format!("{}:/workspace", workspace.display());
        let name = match step.name.as_str() {
            "gcr.io/cloud-builders/docker" | "gcr.io/google.com/cloudsdktool/cloud-sdk:slim" => {
                TOOLS.to_owned()
            }
            other => substituted(other, values),
        };
        let mut arguments = vec!["run", "--rm", "--network", "host", "--volume", &socket];
        arguments.extend(["--volume", &bucket, "--volume", &workspace]);
        arguments.extend(["--workdir", "/workspace"]);
        if let Some(entrypoint) = &step.entrypoint {
            arguments.extend(["--entrypoint", entrypoint]);
        }
        arguments.push(&name);
        let own: Vec<String> = step
            .args
            .iter()
            .map(|text| substituted(text, values))
            .collect();
        arguments.extend(own.iter().map(String::as_str));
        self.engine.docker(&arguments)
    }

    /// Runs a line of a shell script of another system, beside the engine.
    fn shell(&self, folder: &Path, line: &str, values: &[(&str, &str)]) -> Output {
        Command::new("sh")
            .args(["-ec", line])
            .current_dir(folder)
            .env("DOCKER_HOST", self.engine.host())
            .env("HOME", self.engine.dir())
            .envs(values.iter().copied())
            .output()
            .unwrap()
    }
}

fn is_pushed(image: &str) -> bool {
    let manifest = Command::new("skopeo")
        .args(["inspect", "--tls-verify=false", "--raw"])
        .arg(format!("docker://{image}"))
        .output()
        .unwrap();
    manifest.status.success()
}

#[derive(Deserialize)]
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

fn substituted(text: &str, values: &BTreeMap<&str, String>) -> String {
    let filled = values.iter().fold(text.to_owned(), |text, (name, value)| {
        text.replace(&format!("${name}"), value)
    });
    assert!(!filled.contains('$'), "a substitution is not known: {text}");
    filled
}

/// Runs the build as Cloud Build would; gives the id of the step that ended it, if one did.
fn cloud_build(site: &Site, base: &str, image: &str) -> Option<String> {
    let text = fs::read_to_string(repository("docs/ci/cloudbuild.yaml")).unwrap();
    let build: CloudBuild = serde_saphyr::from_str(&text).unwrap();
    let names: Vec<&str> = build.substitutions.keys().map(String::as_str).collect();
    assert_eq!(names, ["_AUDITOR", "_BUCKET", "_IMAGE", "_PHASE"]);
    let values = BTreeMap::from([
        ("_AUDITOR", ROOT_AUDITOR.to_owned()),
        ("_BUCKET", "reports".to_owned()),
        ("_IMAGE", image.to_owned()),
        ("_PHASE", build.substitutions["_PHASE"].clone()),
        ("BUILD_ID", base.to_owned()),
    ]);
    let workspace = site.project(base);
    for step in build.steps {
        let output = site.step(&workspace, &step, &values);
        println!("{base} {}: {:?}", step.id, output.status.code());
        print!("{}", String::from_utf8_lossy(&output.stderr));
        if !output.status.success() && !step.allow_failure {
            return Some(step.id);
        }
    }
    None
}

fn rules(sarif: &Path) -> Vec<String> {
    let text = fs::read_to_string(sarif).unwrap();
    let log: serde_json::Value = serde_json::from_str(&text).unwrap();
    let results = log["runs"][0]["results"].as_array().unwrap().iter();
    results
        .filter(|result| result["level"] == "error")
        .map(|result| result["ruleId"].as_str().unwrap().to_owned())
        .collect()
}

/// The scripts of GitHub's steps that call docker, in their order.
fn github_scripts() -> Vec<String> {
    let text = fs::read_to_string(repository("docs/ci/github-actions.yml")).unwrap();
    let file: serde_json::Value = serde_saphyr::from_str(&text).unwrap();
    let steps = file["jobs"]["image"]["steps"].as_array().unwrap().iter();
    let scripts = steps.filter_map(|step| step["run"].as_str());
    scripts.map(str::to_owned).collect()
}

fn gitlab_scripts() -> Vec<String> {
    let text = fs::read_to_string(repository("docs/ci/gitlab-ci.yml")).unwrap();
    let file: serde_json::Value = serde_saphyr::from_str(&text).unwrap();
    let job = &file["image-with-cupti"];
    assert_eq!(job["artifacts"]["reports"]["junit"], "cupti-audit.xml");
    let lines = job["script"].as_array().unwrap().iter();
    lines
        .map(|line| line.as_str().unwrap().to_owned())
        .collect()
}

/// Runs scripts until one fails; gives the number of those that passed, and what the last one printed.
fn scripts(site: &Site, base: &str, image: &str, lines: &[String]) -> (usize, String) {
    let folder = site.project(base);
    let summary = folder.join("summary").display().to_string();
    let values = [
        ("IMAGE", image),
        ("AUDITOR", AUDITOR),
        ("GITHUB_STEP_SUMMARY", &summary),
    ];
    let mut printed = String::new();
    for (number, line) in lines.iter().enumerate() {
        // GitHub's and GitLab's runners have the engine where every client looks for it.
        let line = line.replace(
            "/var/run/docker.sock:",
            &format!("{}:", site.engine.socket().display()),
        );
        let output = site.shell(&folder, &line, &values);
        printed = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.status.success() {
            println!(
                "{base}: {line}\n{}",
                String::from_utf8_lossy(&output.stderr)
            );
            return (number, printed);
        }
    }
    (lines.len(), printed)
}

#[test]
fn only_what_passes_is_pushed_and_the_report_is_kept_either_way() {
    let Some(site) = Site::start() else {
        return;
    };
    let report = |name: &str| {
        site.folder(&format!("bucket/reports/{name}"))
            .join("cupti-audit.sarif")
    };
    let (good, bad) = (site.image("good"), site.image("bad"));
    assert_eq!(cloud_build(&site, "devel", &good), None);
    assert!(is_pushed(&good));
    assert_eq!(rules(&report("devel")), [""; 0]);

    assert_eq!(
        cloud_build(&site, "headers-only", &bad),
        Some("gate".to_owned())
    );
    assert!(!is_pushed(&bad), "it must not be pushed");
    assert_eq!(rules(&report("headers-only")), ["headers-only-cupti"]);

    for (name, lines, audit) in [
        ("github", github_scripts(), 1),
        ("gitlab", gitlab_scripts(), 1),
    ] {
        let (good, bad) = (
            site.image(&format!("{name}/good")),
            site.image(&format!("{name}/bad")),
        );
        assert_eq!(
            scripts(&site, "devel", &good, &lines).0,
            lines.len(),
            "{name}"
        );
        assert!(is_pushed(&good), "{name}");
        let (passed, printed) = scripts(&site, "headers-only", &bad, &lines);
        assert_eq!(passed, audit, "{name}: {printed}");
        assert!(!is_pushed(&bad), "{name}");
        if name == "github" {
            assert!(printed.contains("::error"), "{printed}");
        }
    }
    let project = site.project("headers-only");
    let junit = fs::read_to_string(project.join("cupti-audit.xml")).unwrap();
    assert!(junit.contains("headers-only-cupti"), "{junit}");
    assert_eq!(
        rules(&project.join("cupti-audit.sarif")),
        ["headers-only-cupti"]
    );

    // Our own image is nobody's by default, and root's where it has to be.
    let user = |image: &str| {
        let format = "{{.Config.User}}";
        site.engine
            .must(&["image", "inspect", "--format", format, image])
    };
    assert_eq!(user(AUDITOR), "65532:65532");
    assert_eq!(user(ROOT_AUDITOR), "");
}
