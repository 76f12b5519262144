//! The script that gathers evidence on a GPU builds against the real headers. It also reproduces the recorded rows that
//! need no GPU.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use cupti_audit::knowledge::{Knowledge, api};
use serde::Deserialize;

const SCRIPT: &str = "tests/gpu/evidence.py";
const CUPTI: &str = "wheels/nvidia-cuda-cupti-cu12-12.9.79/nvidia/cuda_cupti/lib";
const HEADERS: &str = "wheels/nvidia-cuda-runtime-cu12-12.9.79/nvidia/cuda_runtime/include";

/// The table of `profiles/cupti/evidence.yaml`, without the description of the machine.
#[derive(Debug, Deserialize)]
struct Evidence {
    cupti: u32,
    rows: Vec<Row>,
}

/// The result of one experiment.
#[derive(Debug, PartialEq, Eq, Deserialize)]
struct Row {
    what: String,
    files: Vec<String>,
    placed: String,
    worked: bool,
    detail: String,
}

fn read(text: &str) -> Evidence {
    serde_saphyr::from_str(text).unwrap()
}

fn script(arguments: &[&str]) -> std::process::Output {
    Command::new("python3").arg(SCRIPT).args(arguments).output().unwrap()
}

/// The rows of the host part of the profiling API, the only part that needs no GPU.
fn host_half(evidence: Evidence) -> Vec<Row> {
    let mut rows = evidence.rows;
    rows.retain(|row| row.what == "host-profiling");
    rows
}

#[test]
fn the_host_half_of_profiling_wants_nvperf_host_on_a_search_path_as_written_down() {
    let programs = [("python3", "python3"), ("g++", "g++")];
    let (Some(cupti), Some(headers)) = (crate::support::part(CUPTI), crate::support::part(HEADERS)) else {
        return;
    };
    if !crate::support::have_all(&programs) {
        return;
    }
    let path = |path: &PathBuf| path.display().to_string();
    let folders = (path(&cupti), path(&headers));
    let said = script(&["--cupti", &folders.0, "--include", &folders.1, "--chip", "GH100"]);
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let fresh = host_half(read(&String::from_utf8(said.stdout).unwrap()));
    let written = read(include_str!("../../profiles/cupti/evidence.yaml"));
    assert_eq!(written.cupti, 28, "the evidence is of CUPTI 12.9");
    assert_eq!(fresh, host_half(written));
    let worked: Vec<(&str, bool)> = fresh.iter().map(|row| (row.placed.as_str(), row.worked)).collect();
    assert_eq!(worked, [("search-path", true), ("beside", false), ("without", false)]);
    println!("real CUPTI 12.9, host profiling: 3 of 3 placements of libnvperf_host.so as written down");
}

#[test]
fn the_script_gives_each_api_the_files_of_the_table() {
    if !crate::support::have("python3", "python3") {
        return;
    }
    let said = script(&["--table"]).stdout;
    let given: BTreeMap<String, Vec<String>> = serde_saphyr::from_str(&String::from_utf8(said).unwrap()).unwrap();
    let (asked, left): (Vec<&api::CuptiApi>, Vec<&api::CuptiApi>) = Knowledge::built_in()
        .tables
        .apis
        .iter()
        .partition(|api| given.contains_key(&api.id));
    let table: BTreeMap<String, Vec<String>> = asked
        .iter()
        .map(|api| {
            let names = api.libraries.iter().map(|library| library.name.clone());
            (api.id.clone(), names.collect())
        })
        .collect();
    assert_eq!(given, table);
    let left: Vec<&str> = left.iter().map(|api| api.id.as_str()).collect();
    assert_eq!(
        left,
        [
            "event",
            "metric",
            "activity-pc-sampling",
            "profiling",
            "nvprof-injection"
        ],
        "they are for GPUs before Volta, deprecated, or gone since CUDA 13"
    );
}

#[test]
fn a_folder_without_cupti_is_one_sentence() {
    if !crate::support::have("python3", "python3") {
        return;
    }
    let said = script(&["--cupti", "testdata"]);
    assert_eq!(
        (said.status.code(), String::from_utf8(said.stderr).unwrap().as_str()),
        (
            Some(1),
            "error: there is no libcupti.so in testdata; name its folder with --cupti\n"
        )
    );
}
