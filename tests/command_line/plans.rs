//! The plans of an image: the result for each phase, the files that stay and can be removed, and the reasons.

use std::fmt::Write as _;

use serde_json::Value;

/// The plans of an image, one line per file.
fn plans(image: &str) -> String {
    let output = crate::support::run(&["--format", "json", image]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let word = |value: &Value| value.as_str().unwrap().to_owned();
    let mut out = String::new();
    for (name, plan) in report["phases"].as_object().unwrap() {
        let _ = writeln!(
            out,
            "{name}: {} {} keeps {} drops {}",
            word(&plan["verdict"]),
            plan["because"],
            plan["keep_bytes"],
            plan["drop_bytes"]
        );
        for item in plan["items"].as_array().unwrap() {
            let keys = ["decision", "kind", "path", "because"];
            let [decision, kind, path, because] = keys.map(|key| word(&item[key]));
            let _ = writeln!(out, "  {decision} [{kind}] {path}: {because}");
            for link in item["links"].as_array().unwrap() {
                let _ = writeln!(out, "    with {}", word(link));
            }
        }
    }
    out
}

#[test]
fn torch_keeps_what_it_links_and_lets_go_of_what_reads_counters() {
    insta::assert_snapshot!(plans("oci:testdata/images/pip-torch"));
}

#[test]
fn the_copy_that_triton_brings_may_go_and_the_one_that_torch_links_stays() {
    insta::assert_snapshot!(plans("oci:testdata/images/torch-with-triton"));
}

#[test]
fn links_go_with_the_file_that_they_lead_to() {
    insta::assert_snapshot!(plans("oci:testdata/images/devel"));
}

#[test]
fn headers_alone_serve_no_phase_that_profiles() {
    insta::assert_snapshot!(plans("oci:testdata/images/headers-only"));
}

#[test]
fn what_an_own_tool_links_stays_in_every_phase() {
    insta::assert_snapshot!(plans("oci:testdata/images/tool-for-newer-cupti"));
}

#[test]
fn jax_keeps_the_cupti_without_which_it_uses_no_gpu() {
    insta::assert_snapshot!(plans("oci:testdata/images/pip-jax"));
}

#[test]
fn jax_without_cupti_serves_no_phase() {
    insta::assert_snapshot!(plans("oci:testdata/images/jax-without-cupti"));
}
