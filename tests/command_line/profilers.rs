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

#[test]
fn the_matrix_reads_well_in_every_form() {
    for image in ["pip-torch", "pip-torch-broken", "headers-only"] {
        let name = format!("oci:testdata/images/{image}");
        insta::assert_snapshot!(format!("text_{image}"), page(&["profilers", &name]));
    }
    let name = "oci:testdata/images/pip-torch";
    insta::assert_snapshot!("markdown", page(&["profilers", "--format", "markdown", name]));
    let report = json(&["profilers", "--format", "json", name]);
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
