//! `profilers` and `advise` say which tools would work, give the right reason, and read well.

use crate::support::run;
use serde_json::Value;

fn page(arguments: &[&str]) -> String {
    let output = run(arguments);
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    assert_eq!(text(&output.stderr), "", "{arguments:?}");
    assert_eq!(output.status.code(), Some(0), "{arguments:?}");
    text(&output.stdout)
}

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&page(arguments)).unwrap()
}

/// The state of a tool in both worlds, and the reasons in the unmodified image.
fn state(report: &Value, tool: &str) -> (String, String, Vec<String>) {
    let tools = report["profilers"].as_array().unwrap();
    let here = &tools.iter().find(|entry| entry["id"] == tool).unwrap()["here"];
    let word = |value: &Value| value.as_str().unwrap().to_owned();
    let because = here["as-is"]["because"].as_array().unwrap();
    (
        word(&here["as-is"]["state"]),
        word(&here["nvidia"]["state"]),
        because.iter().map(word).collect(),
    )
}

fn of_image(image: &str, more: &[&str]) -> Value {
    let image = format!("oci:testdata/images/{image}");
    let arguments = ["profilers", "--format", "json", &image];
    json(&[&arguments[..], more].concat())
}

fn is(report: &Value, tool: &str, expected: &str, because: &str) {
    let (state, _, reasons) = state(report, tool);
    assert_eq!(state, expected, "{tool}: {reasons:?}");
    assert!(
        reasons.iter().any(|reason| reason.contains(because)),
        "{tool}: {reasons:?}"
    );
}

#[test]
fn is_torch_profiler_ready_where_torch_gets_cupti_and_not_where_it_was_deleted() {
    let good = of_image("pip-torch", &[]);
    is(&good, "torch-profiler", "ready", "by DT_RPATH of libtorch_cpu.so");
    is(&good, "perfetto", "ready", "torch.profiler, GPU");
    is(&good, "torch-profiler-cpu", "ready", "libtorch_cpu.so");
    let broken = of_image("pip-torch-broken", &[]);
    let words = "libcupti.so.12: cannot open shared object file";
    is(&broken, "torch-profiler", "not-ready", words);
    // Tools that need no CUPTI fail as well, because the import of PyTorch fails.
    is(&broken, "torch-profiler-cpu", "not-ready", "PyTorch cannot be imported");
    is(&broken, "cuda-events", "not-ready", words);
    is(&broken, "perfetto", "not-ready", "not ready: torch.profiler, GPU");
    let without = of_image("no-cupti", &[]);
    is(&without, "torch-profiler", "not-applicable", "the image has no PyTorch");
    is(&without, "perfetto", "not-applicable", "nothing in the image writes");
}

#[test]
fn is_dynolog_ready_once_the_variable_is_set() {
    let unset = of_image("pip-torch", &[]);
    is(&unset, "dynolog", "not-ready", "KINETO_USE_DAEMON is not set");
    let set = of_image("pip-torch", &["-e", "KINETO_USE_DAEMON=1"]);
    is(&set, "dynolog", "ready", "KINETO_USE_DAEMON is set");
}

#[test]
fn is_an_own_tool_ready_where_a_plain_dlopen_gets_cupti() {
    is(&of_image("devel", &[]), "own-tool", "ready", "by ld.so.cache");
    is(
        &of_image("debian-cupti", &[]),
        "own-tool",
        "ready",
        "/lib/x86_64-linux-gnu/",
    );
    let words = "libcupti.so.12: cannot open shared object file";
    is(&of_image("headers-only", &[]), "own-tool", "not-ready", words);
    is(&of_image("pip-torch", &[]), "own-tool", "not-ready", words);
    let (as_is, nvidia, _) = state(&of_image("conf-without-ldconfig", &[]), "own-tool");
    assert_eq!((&*as_is, &*nvidia), ("not-ready", "ready"));
}

#[test]
fn is_tensorflow_s_profiler_ready_only_where_its_framework_library_finds_cupti() {
    let words = "libcupti.so.12: cannot open shared object file";
    let pip = of_image("pip-tensorflow", &[]);
    is(&pip, "tensorflow-profiler", "not-ready", words);
    is(&pip, "torch-profiler", "not-applicable", "the image has no PyTorch");
    let folder = "LD_LIBRARY_PATH=/opt/venv/lib/python3.11/site-packages/nvidia/cuda_cupti/lib";
    let helped = of_image("pip-tensorflow", &["-e", folder]);
    is(&helped, "tensorflow-profiler", "ready", "by LD_LIBRARY_PATH");
}

#[test]
fn are_the_driver_s_tools_there_only_where_their_capability_is() {
    is(&of_image("no-cupti", &[]), "nvidia-smi", "ready", "");
    let compute = of_image("no-cupti", &["-e", "NVIDIA_DRIVER_CAPABILITIES=compute"]);
    is(&compute, "nvidia-smi", "not-ready", "leaves out utility");
    let utility = of_image("pip-torch", &["-e", "NVIDIA_DRIVER_CAPABILITIES=utility"]);
    is(&utility, "torch-profiler", "not-ready", "leaves out compute");
}

#[test]
fn is_the_driver_of_a_toolkit_told_where_it_is_known_and_else_that_it_is_not() {
    let sources = testkit::spec::Sources::of_repository().unwrap();
    for (cuda, driver, note) in [
        (
            "12.4.1",
            "550.54.15",
            "came with driver 550.54.15; 525 or newer is enough with minor-version compatibility",
        ),
        (
            "13.4.1",
            "615.71.09",
            "came with driver 615.71.09; 580 or newer is enough with minor-version compatibility",
        ),
        (
            "13.5.0",
            "not known",
            "came with no known driver; 580 or newer is enough with minor-version compatibility",
        ),
    ] {
        let image = sources.images(&sources.fixtures()["no-cupti"]).unwrap().remove(0);
        let mut layout = testkit::oci::Layout::new();
        layout.add("1", &[image.env("CUDA_VERSION", cuda)]);
        let folder = tempfile::tempdir().unwrap();
        layout.write_to(folder.path()).unwrap();
        let image = format!("oci:{}", folder.path().display());
        let host = &json(&["profilers", "--format", "json", &image])["host"];
        assert_eq!(
            (&host["cuda"][0], &host["minimum_drivers"][0]["driver"]),
            (&cuda.into(), &driver.into())
        );
        let said = String::from_utf8(run(&["--phase", "inference", "--format", "markdown", &image]).stdout).unwrap();
        assert!(said.contains(note), "{said}");
    }
}

#[test]
fn a_tool_that_is_not_there_names_what_is() {
    let report = of_image("pip-torch", &[]);
    let tools = report["profilers"].as_array().unwrap();
    let nsys = tools.iter().find(|tool| tool["id"] == "nsight-systems").unwrap();
    is(&report, "nsight-systems", "not-ready", "it brings its own CUPTI");
    assert_eq!(
        nsys["fallbacks"][0],
        serde_json::json!({"id": "torch-profiler", "state": "ready"})
    );
}

#[test]
fn the_matrix_reads_well_in_every_form() {
    for image in ["pip-torch", "pip-torch-broken", "headers-only"] {
        let name = format!("oci:testdata/images/{image}");
        insta::assert_snapshot!(format!("text_{image}"), page(&["profilers", &name]));
    }
    let name = "oci:testdata/images/pip-torch";
    insta::assert_snapshot!("markdown", page(&["profilers", "--format", "markdown", name]));
    let report = of_image("pip-torch", &[]);
    insta::assert_json_snapshot!("v1", report);
}

#[test]
fn advice_names_the_files_their_bytes_and_where_they_are_from() {
    insta::assert_snapshot!(
        "advice",
        page(&["advise", "--tool", "torch.profiler", "--tool", "nsys", "--cuda", "12.4"])
    );
    insta::assert_snapshot!("advice_list", page(&["advise"]));
    let advice = json(&["advise", "--phase", "profiling", "--cuda", "12.4", "--format", "json"]);
    assert_eq!(advice["cupti_needed"], true);
    // The files that a Dockerfile for the phase adds. CUPTI 12.4 has no Range Profiling API, and the Profiling API
    // needs both libraries.
    let files = advice["files"].as_array().unwrap();
    let needed = files.iter().filter(|file| file["optional"] == false);
    let needed: Vec<(&str, u64)> = needed
        .map(|file| (file["name"].as_str().unwrap(), file["bytes"].as_u64().unwrap()))
        .collect();
    assert_eq!(
        needed,
        [
            ("libcupti.so.12", 7_748_112),
            ("libnvperf_host.so", 28_132_984),
            ("libnvperf_target.so", 5_592_368)
        ]
    );
    assert_eq!(advice["bytes"], 41_473_464);
    let page = page(&["advise", "--tool", "proton", "--format", "markdown"]);
    assert!(page.contains("CUDA 12.9 is assumed"), "{page}");
}

#[test]
fn tools_without_cupti_need_no_files_and_other_versions_have_other_sources() {
    let advice = json(&["advise", "--phase", "inference", "--format", "json"]);
    assert_eq!(advice["cupti_needed"], false);
    assert_eq!(advice["files"], serde_json::json!([]));
    // PyTorch from PyPI links CUPTI, so the advice must not tell users to leave it out.
    for asked in [["--phase", "inference"], ["--tool", "nsys"], ["--tool", "ncu"]] {
        let said = page(&[&["advise"], &asked[..]].concat());
        let first = said.lines().take(2).collect::<Vec<_>>().join(" ");
        assert!(
            first.starts_with("CUPTI is not needed for this. Some programs need it anyway:"),
            "{said}"
        );
        assert!(first.contains("PyTorch's wheels on PyPI cannot be imported"), "{said}");
    }
    let pip = |cuda: &str| {
        let tool = ["advise", "--tool", "kineto", "--format", "json", "--cuda", cuda];
        let sources = json(&tool)["sources"].clone();
        let pip = sources
            .as_array()
            .unwrap()
            .iter()
            .find(|source| source["id"] == "pip")
            .cloned();
        pip.map_or_else(String::new, |source| source["command"].as_str().unwrap().to_owned())
    };
    assert_eq!(pip("11.8"), "pip install nvidia-cuda-cupti-cu11==11.8.87");
    assert_eq!(pip("12.5"), "pip install nvidia-cuda-cupti-cu12==12.5.82");
    assert_eq!(pip("13.0"), "pip install nvidia-cuda-cupti==13.0.85");
    assert_eq!(pip("11.5"), "");
    let listed = include_str!("../../profiles/cupti/wheels.csv");
    for cuda in ["11.7", "12.0", "12.6", "12.9", "13.1", "13.2", "13.3", "13.4", "13.5"] {
        let command = pip(cuda);
        let pin = command.strip_prefix("pip install ").unwrap().replace("==", ",");
        assert!(listed.contains(&format!("\n{pin},x86_64,")), "{command}");
    }
    assert_eq!(pip("10.2"), "");
}

#[test]
fn a_snippet_is_printed_alone_and_only_for_a_framework_that_has_one() {
    let known = include_str!("../../profiles/snippets/jax.py");
    assert_eq!(page(&["advise", "--snippet", "jax"]), known);
    for (asked, says) in [
        (
            &["--snippet", "jaxx"][..],
            "[possible values: jax, pytorch, tensorflow]",
        ),
        (&["--snippet", "jax", "--tool", "nsys"], "cannot be used with"),
        (&["--snippet", "jax", "--format", "json"], "cannot be used with"),
    ] {
        let output = run(&[&["advise"], asked].concat());
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && said.contains(says), "{said}");
    }
}

#[test]
fn an_unknown_tool_is_answered_with_the_nearest_names() {
    let output = run(&["advise", "--tool", "torch-profilr"]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.starts_with("error: there is no tool \"torch-profilr\"; near to it are torch-profiler"),
        "{said}"
    );
    let output = run(&["advise", "--tool", "nsys", "--cuda", "twelve"]);
    assert_eq!(output.status.code(), Some(2));
    let output = run(&["advise", "--tool", "kineto", "--cuda", "12.7"]);
    assert!(
        String::from_utf8(output.stderr)
            .unwrap()
            .starts_with("error: there is no CUDA 12.7")
    );
}
