//! Runs the manifests of `deploy/` like their engines: arguments, environment, user, exit codes, retries.

use std::collections::VecDeque;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::fleet_images::{FleetRegistry, fleet, outcome, results};
use crate::fleet_runs::serve_again;
use crate::registry_parts::{REGISTRY, SKOPEO};
use crate::support;

/// The workers that an engine starts for a manifest.
struct Workers {
    count: u64,
    arguments: Vec<String>,
    /// Shared by all workers.
    environment: Vec<(String, String)>,
    /// The variable with a worker's index.
    index: &'static str,
    /// The maximum number of starts per worker.
    tries: u64,
}

fn manifest(file: &str) -> Value {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy").join(file)).unwrap();
    serde_saphyr::from_str(&text).unwrap()
}

fn texts(list: &Value) -> Vec<String> {
    let texts = list.as_array().into_iter().flatten();
    texts.map(|text| text.as_str().unwrap().to_owned()).collect()
}

fn variables(list: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let list = list.as_array().into_iter().flatten();
    list.map(|one| (text(&one["name"]), text(&one["value"]))).collect()
}

/// A Job with `completionMode: Indexed` (Kubernetes, "Indexed Job"). The controller sets the index, the kubelet the
/// rest.
fn kubernetes() -> Workers {
    let spec = &manifest("kubernetes/once/job.yaml")["spec"];
    let container = &spec["template"]["spec"]["containers"][0];
    let mut environment = variables(&container["env"]);
    environment.extend([
        ("KUBERNETES_SERVICE_HOST".to_owned(), "10.0.0.1".to_owned()),
        ("HOSTNAME".to_owned(), "cupti-fleet-0-abcde".to_owned()),
    ]);
    Workers {
        count: spec["completions"].as_u64().unwrap(),
        arguments: texts(&container["args"]),
        environment,
        index: "JOB_COMPLETION_INDEX",
        tries: 1 + spec["backoffLimitPerIndex"].as_u64().unwrap(),
    }
}

/// Cloud Run ("Container runtime contract", environment variables for jobs).
fn cloud_run() -> Workers {
    let spec = &manifest("cloud-run/job.yaml")["spec"]["template"]["spec"];
    let task = &spec["template"]["spec"];
    let count = spec["taskCount"].as_u64().unwrap();
    Workers {
        count,
        arguments: texts(&task["containers"][0]["args"]),
        environment: vec![
            ("CLOUD_RUN_JOB".to_owned(), "cupti-fleet".to_owned()),
            ("CLOUD_RUN_TASK_ATTEMPT".to_owned(), "0".to_owned()),
            ("CLOUD_RUN_TASK_COUNT".to_owned(), count.to_string()),
        ],
        index: "CLOUD_RUN_TASK_INDEX",
        tries: 1 + task["maxRetries"].as_u64().unwrap(),
    }
}

/// AWS Batch ("Job environment variables", "Array jobs") with its parameters replaced.
fn aws_batch() -> Workers {
    let (definition, job) = (
        manifest("aws-batch/job-definition.json"),
        manifest("aws-batch/submit-job.json"),
    );
    let container = &definition["containerProperties"];
    let mut arguments = texts(&container["command"]);
    for (name, value) in definition["parameters"].as_object().unwrap() {
        let reference = format!("Ref::{name}");
        for argument in arguments.iter_mut().filter(|argument| **argument == reference) {
            value.as_str().unwrap().clone_into(argument);
        }
    }
    let mut environment = variables(&job["containerOverrides"]["environment"]);
    environment.push(("AWS_BATCH_JOB_ATTEMPT".to_owned(), "1".to_owned()));
    Workers {
        count: job["arrayProperties"]["size"].as_u64().unwrap(),
        arguments,
        environment,
        index: "AWS_BATCH_JOB_ARRAY_INDEX",
        tries: definition["retryStrategy"]["attempts"].as_u64().unwrap(),
    }
}

impl Workers {
    /// Starts a worker once, with the manifest's volumes in `volume`. If the test is root, the worker runs as the
    /// manifests' user.
    fn start(&self, volume: &Path, index: u64) -> Command {
        let at = |argument: &String| {
            let mounted = ["/list/", "/fleet/", "/cache"]
                .iter()
                .find(|mount| argument.starts_with(**mount));
            mounted.map_or_else(
                || argument.clone(),
                |_| format!("{}{}", volume.display(), argument.replacen("/list/", "/fleet/", 1)),
            )
        };
        let mut command = Command::new(env!("CARGO_BIN_EXE_cupti-audit"));
        command
            .args(self.arguments.iter().map(at))
            .env_clear()
            .envs(self.environment.iter().cloned())
            .env(self.index, index.to_string())
            .current_dir("/")
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        if support::is_root() {
            command.uid(65532).gid(65532);
        }
        command
    }

    /// Starts each worker once, in parallel. Returns the indexes and exit codes of those that failed.
    fn run(&self, volume: &Path, workers: impl Iterator<Item = u64>) -> Vec<(u64, Option<i32>)> {
        let children: Vec<_> = workers
            .map(|index| (index, self.start(volume, index).spawn().unwrap()))
            .collect();
        let ends = children
            .into_iter()
            .map(|(index, mut child)| (index, child.wait().unwrap().code()));
        ends.filter(|(_, code)| *code != Some(0)).collect()
    }
}

/// Creates a fleet's volume with its worklist; the workers' user can write to it.
fn make_volume(dir: &Path, name: &str, work: &Path) -> std::path::PathBuf {
    let volume = dir.join(name);
    fs::create_dir_all(volume.join("fleet")).unwrap();
    fs::create_dir(volume.join("cache")).unwrap();
    fs::copy(work, volume.join("fleet/work.jsonl")).unwrap();
    if support::is_root() {
        for folder in ["fleet", "cache"] {
            chown(volume.join(folder), Some(65532), Some(65532)).unwrap();
        }
    }
    volume
}

#[test]
fn every_manifest_brings_a_fleet_to_its_end_as_its_engine_runs_it() {
    if !support::have_all(&[REGISTRY, SKOPEO]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let images = FleetRegistry::of(dir.path(), 5);
    let (work, address) = (dir.path().join("work.jsonl"), images.registry.address);
    let all = format!("registry:{address}");
    let list = ["list", &all, "-o", work.to_str().unwrap()];
    assert_eq!(outcome(fleet(&dir.path().join("c"), &list, &[])).0, 0);
    let digests: Vec<String> = images.digests.iter().cloned().collect();
    for (name, workers) in [("cloud-run", cloud_run()), ("aws-batch", aws_batch())] {
        let volume = make_volume(dir.path(), name, &work);
        assert_eq!(workers.run(&volume, 0..workers.count), [], "{name}");
        assert_eq!(results(&volume.join("fleet/results")), digests, "{name}");
    }

    // Without the registry, every worker that has images fails. The failed ones are then restarted, and one is killed.
    let job = kubernetes();
    let volume = make_volume(dir.path(), "kubernetes", &work);
    drop(images);
    let failed = job.run(&volume, 0..job.count);
    let expected: Vec<_> = (0..8).map(|index| (index, Some(2))).collect();
    assert_eq!(failed, expected, "eight images for ten workers");
    let mut registry = serve_again(dir.path(), address);
    let mut again: VecDeque<u64> = failed.into_iter().map(|(index, _)| index).collect();
    let first = again.pop_front().unwrap();
    let mut victim = job.start(&volume, first).spawn().unwrap();
    victim.kill().unwrap();
    assert_eq!(victim.wait().unwrap().code(), None);
    assert_eq!(job.run(&volume, again.into_iter()), []);
    let out = volume.join("fleet/results");
    assert_eq!(results(&out).len(), 7);
    assert_eq!(job.run(&volume, std::iter::once(first)), []);
    assert!(job.tries >= 3, "the killed one was started three times");
    assert_eq!(results(&out), digests);
    let report = ["report", out.to_str().unwrap(), "--worklist", work.to_str().unwrap()];
    let (code, said, _) = outcome(fleet(&dir.path().join("c"), &report, &[]));
    assert!(
        code == 1 && !said.contains("not audited") && !said.contains("without a result"),
        "{said}"
    );
    registry.kill().unwrap();
    registry.wait().unwrap();
}
