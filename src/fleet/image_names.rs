//! Reads image names from a text: a list of references, Kubernetes objects as JSON, or a Dockerfile.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::judge::build_file::list_base_images;
use image_source::RegistryReference;

/// An image that is run or built upon.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NamedImage {
    /// The reference, as all commands accept it. Names from a cluster or a Dockerfile get the prefix `docker://`: they
    /// mean a registry, even if this machine has a file of that name.
    pub reference: String,
    /// The user of the image; `None` for a plain list.
    pub used_by: Option<String>,
}

/// The fields with containers in Kubernetes objects (Pod v1 core, `PodSpec`), at any depth.
const CONTAINERS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];

/// The image names in `text`, which is the file `name`, sorted; and messages about unreadable parts.
///
/// Errors: The text has none of these formats.
pub(crate) fn read_image_names(name: &str, text: &str) -> Result<(BTreeSet<NamedImage>, Vec<String>), String> {
    // Windows editors write a byte order mark.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lines = text.lines().map(str::trim);
    let first = lines.find(|line| !line.is_empty() && !line.starts_with('#'));
    let first_word = first
        .and_then(|line| line.split_whitespace().next())
        .unwrap_or_default();
    let is_instruction = ["from", "arg"].contains(&first_word.to_ascii_lowercase().as_str());
    if first_word.starts_with(['{', '[']) {
        read_kubernetes(name, text)
    } else if is_instruction {
        read_build_file(name, text)
    } else if let Some(what) = other_document(text, first.unwrap_or_default()) {
        Err(format!("{name}: {what}"))
    } else if first.is_none() {
        // For example the output of a failed program in a pipe.
        Err(format!("{name}: it names no image"))
    } else {
        Ok(read_list(name, text))
    }
}

/// What a text is, if it is a document that holds no list of names.
fn other_document(text: &str, first: &str) -> Option<&'static str> {
    let mut lines = text.lines().map(|line| line.trim_start_matches([' ', '-']));
    if lines.any(|line| line.starts_with("apiVersion:")) {
        Some("it is YAML of Kubernetes; kubectl get … -o json writes what is read here")
    } else if first.starts_with('<') {
        Some("it is HTML or XML, and no list of image names")
    } else if first.contains("  ") || first.contains('\t') {
        // Two blanks are between the columns of a table.
        Some("it is a table; one name a line is read, as docker images --format '{{.Repository}}:{{.Tag}}' writes")
    } else {
        None
    }
}

/// The maximum length of a reference: that of a path on Linux.
const REFERENCE: usize = 4096;

/// One reference per line; `#` starts a comment.
fn read_list(name: &str, text: &str) -> (BTreeSet<NamedImage>, Vec<String>) {
    let (mut named, mut wrong) = (BTreeSet::new(), Vec::new());
    for (number, line) in text.lines().enumerate() {
        let reference = line.split('#').next().unwrap_or_default().trim();
        // For example a device, or a file of another format.
        if reference.len() > REFERENCE {
            let what = format!(
                "{name}:{}: {} bytes are too long for a reference",
                number + 1,
                reference.len()
            );
            wrong.push(what);
        } else if !reference.is_empty() {
            named.insert(NamedImage {
                reference: reference.to_owned(),
                used_by: None,
            });
        }
    }
    (named, wrong)
}

fn read_build_file(name: &str, text: &str) -> Result<(BTreeSet<NamedImage>, Vec<String>), String> {
    let bases = list_base_images(text).map_err(|error| format!("{name}: {error}"))?;
    let (mut named, mut wrong) = (BTreeSet::new(), Vec::new());
    for base in bases {
        if base.contains('$') {
            wrong.push(format!(
                "{name}: FROM {base} hangs on a variable of the build, and is left out"
            ));
        } else {
            add_registry_image(&base, &format!("FROM of {name}"), &mut named, &mut wrong);
        }
    }
    Ok((named, wrong))
}

/// Adds a registry image; engines run nothing else by name.
fn add_registry_image(image: &str, owner: &str, named: &mut BTreeSet<NamedImage>, wrong: &mut Vec<String>) {
    if let Err(error) = image.parse::<RegistryReference>() {
        wrong.push(format!("{owner}: {image:?} is not a registry image: {error}"));
        return;
    }
    named.insert(NamedImage {
        reference: format!("docker://{image}"),
        used_by: Some(owner.to_owned()),
    });
}

/// Kubernetes objects as written by `kubectl get … -o json`: one, a list, or a sequence.
fn read_kubernetes(name: &str, text: &str) -> Result<(BTreeSet<NamedImage>, Vec<String>), String> {
    let mut named = BTreeSet::new();
    let mut wrong = Vec::new();
    for document in serde_json::Deserializer::from_str(text).into_iter::<Value>() {
        let document = document.map_err(|error| format!("{name}: it is not JSON: {error}"))?;
        collect_objects(&document, &mut named, &mut wrong);
    }
    if named.is_empty() {
        wrong.push(format!("{name}: no object in it has containers"));
    }
    Ok((named, wrong))
}

/// Adds the objects of a list and of nested lists.
fn collect_objects(value: &Value, named: &mut BTreeSet<NamedImage>, wrong: &mut Vec<String>) {
    let items = match value {
        Value::Array(items) => Some(items),
        Value::Object(object) => object.get("items").and_then(Value::as_array),
        _ => None,
    };
    match (items, value) {
        (Some(items), _) => items.iter().for_each(|item| collect_objects(item, named, wrong)),
        (None, Value::Object(object)) => {
            let owner = object_name(object);
            collect_containers(value, &owner, named, wrong);
        }
        _ => {}
    }
}

/// The name of a Kubernetes object, `Kind namespace/name`.
fn object_name(object: &Map<String, Value>) -> String {
    let metadata = object.get("metadata").unwrap_or(&Value::Null);
    let [kind, namespace, name] = [object.get("kind"), metadata.get("namespace"), metadata.get("name")]
        .map(|value| value.and_then(Value::as_str).unwrap_or_default());
    let slash = if namespace.is_empty() { "" } else { "/" };
    format!("{kind} {namespace}{slash}{name}").trim().to_owned()
}

/// Adds the containers of an object at any depth: training jobs, Knative services and others have their pod templates
/// in different places.
fn collect_containers(value: &Value, owner: &str, named: &mut BTreeSet<NamedImage>, wrong: &mut Vec<String>) {
    match value {
        Value::Array(items) => items
            .iter()
            .for_each(|item| collect_containers(item, owner, named, wrong)),
        Value::Object(object) => {
            for (key, value) in object {
                match value.as_array().filter(|_| CONTAINERS.contains(&key.as_str())) {
                    Some(containers) => containers.iter().for_each(|one| container(one, owner, named, wrong)),
                    None => collect_containers(value, owner, named, wrong),
                }
            }
        }
        _ => {}
    }
}

fn container(container: &Value, owner: &str, named: &mut BTreeSet<NamedImage>, wrong: &mut Vec<String>) {
    match container.get("image").and_then(Value::as_str) {
        Some(image) if !image.is_empty() => add_registry_image(image, owner, named, wrong),
        // A webhook may fill it in later; in a running cluster every container has one.
        _ => wrong.push(format!("{owner}: a container has no image")),
    }
}

#[cfg(test)]
mod tests {
    use super::read_image_names;

    fn names(text: &str) -> (Vec<(String, String)>, Vec<String>) {
        let (named, wrong) = read_image_names("F", text).unwrap();
        let pair = |one: super::NamedImage| (one.reference, one.used_by.unwrap_or_default());
        (named.into_iter().map(pair).collect(), wrong)
    }

    fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
        expected
            .iter()
            .map(|(a, b)| ((*a).to_owned(), (*b).to_owned()))
            .collect()
    }

    #[test]
    fn a_list_has_a_reference_in_each_line() {
        for mark in ["", "\u{feff}"] {
            let (named, wrong) = names(&format!("{mark}b:1 # ours\r\n\n # images\na@sha256:1\nb:1\n"));
            assert_eq!((named, wrong), (pairs(&[("a@sha256:1", ""), ("b:1", "")]), vec![]));
        }
        let long = "a".repeat(4096);
        let (named, wrong) = names(&format!("b:1\n{long}\n{long}a # longer\n"));
        assert_eq!(named, pairs(&[(&long, ""), ("b:1", "")]));
        assert_eq!(wrong, ["F:3: 4097 bytes are too long for a reference"]);
        for nothing in ["", "\n# images\n"] {
            let error = read_image_names("F", nothing).unwrap_err();
            assert_eq!(error, "F: it names no image");
        }
    }

    #[test]
    fn which_documents_are_no_list() {
        for (text, what) in [
            ("items:\n- apiVersion: v1\n", "it is YAML of Kubernetes"),
            ("<html>\n", "it is HTML or XML"),
            ("NAME   READY\na     1/1\n", "it is a table"),
        ] {
            let error = read_image_names("F", text).unwrap_err();
            assert!(error.starts_with(&format!("F: {what}")), "{error}");
        }
    }

    #[test]
    fn every_container_of_every_object_counts() {
        let pod = r#"{"kind":"Pod","metadata":{"namespace":"n","name":"p","annotations":{"x":"{\"containers\":[]}"}},
            "spec":{"containers":[{"image":"main:1"},{"image":"side:1"}],"initContainers":[{"image":"init:1"}],
            "ephemeralContainers":[{"image":"debug:1"}]},"status":{"containerStatuses":[{"image":"other:1"}]}}"#;
        let cron = r#"{"kind":"CronJob","metadata":{"namespace":"n","name":"c"},"spec":{"jobTemplate":{"spec":{"template":
            {"spec":{"containers":[{"image":"cron:1"},{"name":"none"},{"image":"rootfs:/etc"}]}}}}}}"#;
        let custom = r#"{"kind":"PyTorchJob","metadata":{"name":"t"},"spec":{"pytorchReplicaSpecs":{"Worker":{"template":
            {"spec":{"containers":[{"image":"main:1"}]}}}}}}"#;
        let list = format!(r#"{{"kind":"List","items":[{pod},{cron},{{"kind":"List","items":[{custom}]}}]}}"#);
        let expected = [
            ("docker://cron:1", "CronJob n/c"),
            ("docker://debug:1", "Pod n/p"),
            ("docker://init:1", "Pod n/p"),
            ("docker://main:1", "Pod n/p"),
            ("docker://main:1", "PyTorchJob t"),
            ("docker://side:1", "Pod n/p"),
        ];
        // A name in a cluster must not make the audit read a local folder.
        let wrong = vec![
            "CronJob n/c: a container has no image".to_owned(),
            "CronJob n/c: \"rootfs:/etc\" is not a registry image: invalid reference format".to_owned(),
        ];
        assert_eq!(names(&list), (pairs(&expected), wrong.clone()));
        assert_eq!(
            names(&format!("\u{feff}{pod}\n{cron} {custom}")),
            (pairs(&expected), wrong)
        );
        assert_eq!(names("{}").1, ["F: no object in it has containers"]);
        assert!(read_image_names("F", "{\"a\":").is_err());
        assert!(read_image_names("F", &"[".repeat(100_000)).is_err());
    }

    #[test]
    fn a_dockerfile_names_its_bases_and_not_its_stages() {
        let text = "# syntax=docker/dockerfile:1\nARG TAG=1\nFROM base:${TAG} AS build\nFROM scratch\nFROM build\nFROM ${REG}/x\n";
        let (named, wrong) = names(text);
        assert_eq!(named, pairs(&[("docker://base:1", "FROM of F")]));
        assert_eq!(
            wrong,
            ["F: FROM ${REG}/x hangs on a variable of the build, and is left out"]
        );
    }
}
