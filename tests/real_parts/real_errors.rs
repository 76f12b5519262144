//! Compares CUPTI's result codes in `errors.yaml` with NVIDIA's headers.

use std::collections::BTreeMap;

use crate::support::{part, run};

/// A header's result codes, by name.
fn results(header: &str) -> BTreeMap<String, u64> {
    let lines = header
        .lines()
        .filter_map(|line| line.trim().trim_end_matches(',').split_once('='));
    let lines = lines.map(|(name, number)| (name.trim(), number.trim()));
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    lines
        .filter(|(name, _)| name.starts_with("CUPTI_"))
        .filter_map(|(name, text)| Some((name.to_owned(), number(text)?)))
        .collect()
}

#[test]
fn every_result_of_the_headers_is_explained_under_its_number() {
    for wheel in ["nvidia-cuda-cupti-cu11-11.8.87", "nvidia-cuda-cupti-cu12-12.9.79"] {
        let header = format!("wheels/{wheel}/nvidia/cuda_cupti/include/cupti_result.h");
        let Some(header) = part(&header) else {
            return;
        };
        let header = std::fs::read_to_string(header).unwrap();
        let results = results(&header);
        assert!(results.len() >= 45, "{results:?}");
        for (name, number) in results {
            let output = run(&["explain", &number.to_string()]);
            let said = String::from_utf8(output.stdout).unwrap();
            assert!(
                said.starts_with(&format!("{name} ({number})\n")),
                "{wheel}, {name}: {said}"
            );
        }
    }
}
