//! Reads the files of Vertex AI jobs by Google's own `CustomJobSpec`: those that `dockerfile --vertex` writes, and those
//! of the repository.

use std::path::Path;
use std::process::Command;

use cupti_audit::knowledge::Knowledge;
use serde_json::{Value, json};

/// Reads job files, and prints what Google's definition takes from each, or its complaint.
const READ: &str = include_str!("../support/vertex_schema.py");

/// The jobs as Google's package reads them; `None` without the package.
fn read(jobs: &[String]) -> Option<Vec<Value>> {
    let packages = crate::support::part("vertex")?;
    let output = Command::new("python3")
        .args(["-B", "-c", READ])
        .args(jobs)
        .env("PYTHONPATH", packages)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    Some(lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

/// The jobs that the program writes with these options, by phase.
fn written(image: &str, options: &[&str]) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let vertex = format!("--vertex={}", folder.path().display());
    let image = [
        "dockerfile",
        &format!("oci:testdata/images/{image}"),
        "--base",
        "trainer:1",
        &vertex,
    ];
    let output = crate::support::run(&[&image, options].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let entries = std::fs::read_dir(folder.path()).unwrap();
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
        .iter()
        .map(|file| std::fs::read_to_string(file).unwrap())
        .collect()
}

const PLACES: [&str; 4] = [
    "--image-uri",
    "europe-docker.pkg.dev/p/r/trainer",
    "--bucket",
    "gs://traces/trainer",
];

#[test]
fn google_reads_every_value_of_the_jobs_of_all_phases() {
    let board = "projects/p/locations/europe-west4/tensorboards/7";
    let account = "trainer@p.iam.gserviceaccount.com";
    let more = [
        "--all-phases",
        "--accelerator",
        "a100:2",
        "--tensorboard",
        board,
        "--service-account",
        account,
    ];
    let Some(read) = read(&written("no-cupti", &[&PLACES[..], &more].concat())) else {
        return;
    };
    let job = |phase: &str, board: Option<&str>| {
        let machine =
            json!({"machineType": "a2-highgpu-2g", "acceleratorType": "NVIDIA_TESLA_A100", "acceleratorCount": 2});
        let image = format!("europe-docker.pkg.dev/p/r/trainer:{phase}");
        let mut job = json!({
            // Protobuf writes integers of 64 bits as text.
            "workerPoolSpecs": [{"machineSpec": machine, "replicaCount": "1", "containerSpec": {"imageUri": image}}],
            "baseOutputDirectory": {"outputUriPrefix": format!("gs://traces/trainer/{phase}")},
            "serviceAccount": account,
        });
        if let Some(board) = board {
            job["tensorboard"] = json!(board);
        }
        job
    };
    let expected = [
        job("inference", None),
        job("profiling", Some(board)),
        job("training", Some(board)),
    ];
    assert_eq!(read, expected);
}

#[test]
fn google_knows_every_accelerator() {
    let rows = &Knowledge::built_in().tables.vertex_machines;
    let mut jobs = Vec::new();
    let mut expected = Vec::new();
    for row in rows {
        for (count, machine) in &row.machines {
            let accelerator = format!("{}:{count}", row.accelerator);
            let image = if row.architecture == "arm64" {
                "arm64"
            } else {
                "no-cupti"
            };
            // A phase that needs no CUPTI, because the image's does not support every GPU.
            let more = ["--phase", "inference", "--accelerator", &accelerator];
            jobs.extend(written(image, &[&PLACES[..], &more].concat()));
            expected.push(json!({
                "machineType": machine, "acceleratorType": row.accelerator, "acceleratorCount": count,
            }));
        }
    }
    let Some(read) = read(&jobs) else {
        return;
    };
    let machines: Vec<&Value> = read
        .iter()
        .map(|job| &job["workerPoolSpecs"][0]["machineSpec"])
        .collect();
    assert_eq!(machines, expected.iter().collect::<Vec<_>>());
    println!("Google's CustomJobSpec takes {} machines", machines.len());
}

#[test]
fn google_reads_the_jobs_of_the_repository_and_refuses_what_it_does_not_know() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = |file: &str| std::fs::read_to_string(root.join(file)).unwrap();
    let page = text("docs/verify.md");
    let (_, shown) = page.split_once("```json\n{\"workerPoolSpecs\"").unwrap();
    let (shown, _) = shown.split_once("```").unwrap();
    let jobs = [
        text("packaging/vertex-ai/custom-job.yaml"),
        format!("{{\"workerPoolSpecs\"{shown}"),
        "workerPoolSpec: []".to_owned(),
        "workerPoolSpecs: [{machineSpec: {acceleratorType: NVIDIA_L5}}]".to_owned(),
    ];
    let Some(read) = read(&jobs) else {
        return;
    };
    let has_pool = |job: &Value| job["workerPoolSpecs"][0]["containerSpec"]["imageUri"].is_string();
    assert_eq!(
        read.iter().map(has_pool).collect::<Vec<_>>(),
        [true, true, false, false],
        "{read:#?}"
    );
}
