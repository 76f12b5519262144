//! The CUPTI APIs that each process of an image can use, and the reason that blocks the others.

use serde_json::Value;

fn report(image: &str) -> Value {
    let image = format!("oci:testdata/images/{image}");
    let output = crate::support::run(&["--format", "json", &image]);
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The APIs that each consumer can use in the unmodified image, one line per consumer.
fn usable(image: &str) -> Vec<String> {
    let report = report(image);
    let askers = report["cupti"]["apis"].as_array().unwrap();
    let line = |asker: &Value| {
        let name = asker["consumer"].as_str().unwrap_or("plain");
        let apis = asker["usable"].as_object().unwrap().iter();
        let words: Vec<String> = apis
            .map(|(api, worlds)| format!("{api}: {}", worlds["as-is"].as_str().unwrap()))
            .collect();
        format!("{name}  {}", words.join(", "))
    };
    askers.iter().map(line).collect()
}

/// How a process finds the libraries beside libcupti.
fn libraries(image: &str, consumer: Option<&str>) -> Vec<String> {
    let report = report(image);
    let mut askers = report["cupti"]["apis"].as_array().unwrap().iter();
    let asker = askers.find(|asker| asker["consumer"].as_str() == consumer).unwrap();
    let line = |library: &Value| {
        let word = |key: &str| library[key].as_str().unwrap_or("-").to_owned();
        format!(
            "{} by {}: {} {}",
            word("name"),
            word("asked_by"),
            word("outcome"),
            word("how")
        )
    };
    let libraries = asker["libraries"].as_array().unwrap();
    libraries.iter().map(line).collect()
}

#[test]
fn a_devel_image_serves_every_api_of_its_release() {
    insta::assert_debug_snapshot!(usable("devel"));
}

#[test]
fn torch_hands_its_search_path_on_to_libcupti_and_a_plain_process_gets_nothing() {
    insta::assert_debug_snapshot!(usable("pip-torch"));
    insta::assert_debug_snapshot!(libraries("pip-torch", Some("PyTorch")));
}

#[test]
fn what_opens_libcupti_does_not_hand_its_search_path_on() {
    insta::assert_debug_snapshot!(libraries("pip-tensorflow", Some("TensorFlow")));
}

#[test]
fn without_libcupti_no_api_can_be_used() {
    insta::assert_debug_snapshot!(usable("headers-only"));
}
