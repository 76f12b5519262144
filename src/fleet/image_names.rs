//! The images that a text names: a list of references, the objects of a Kubernetes cluster in JSON, or a Dockerfile.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::judge::build_file::list_base_images;
use image_source::RegistryReference;

/// An image that somebody runs or builds on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NamedImage {
    /// The reference as every command takes it. What others name, in a cluster or a Dockerfile, begins with `docker://`:
    /// it is of a registry, whatever lies on this machine under its name.
    pub reference: String,
    /// Who names it; `None` for a list of references, which says no more.
    pub used_by: Option<String>,
}

/// The keys under which objects of Kubernetes list containers (Pod v1 core, `PodSpec`), wherever a template stands.
const CONTAINERS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];

/// The images that `text`, of the file `name`, names, sorted; and what could not be read of it, in words.
///
/// Errors: A text that is of no such kind.
pub(crate) fn read_image_names(name: &str, text: &str) -> Result<(BTreeSet<NamedImage>, Vec<String>), String> {
    // Editors of Windows put a mark of the encoding in front.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lines = text.lines().map(str::trim);
    let first = lines.find(|line| !line.is_empty() && !line.starts_with('#'));
    let first_word = first
        .and_then(|line| line.split_whitespace().next())
        .unwrap_or_default();
    let is_instruction = ["from", "arg"].contains(&first_word.to_ascii_lowercase().as_str());
    match () {
        () if first_word.starts_with(['{', '[']) => read_kubernetes(name, text),
        () if is_instruction => read_build_file(name, text),
        // As what a pipe leaves when the program before it fails.
        () if first.is_none() => Err(format!("{name}: it names no image")),
        () => Ok(read_list(name, text)),
    }
}

/// The bytes of a reference, at most: those of a path on Linux.
const REFERENCE: usize = 4096;

/// A reference in each line, and behind a `#` whatever one likes.
fn read_list(name: &str, text: &str) -> (BTreeSet<NamedImage>, Vec<String>) {
    let (mut named, mut wrong) = (BTreeSet::new(), Vec::new());
    for (number, line) in text.lines().enumerate() {
        let reference = line.split('#').next().unwrap_or_default().trim();
        // As a device, or a file of another kind.
        if reference.len() > REFERENCE {
            let what = format!("{name}:{}: {} bytes are no reference", number + 1, reference.len());
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

/// Takes an image of a registry, which is all that engines run by a name.
fn add_registry_image(image: &str, owner: &str, named: &mut BTreeSet<NamedImage>, wrong: &mut Vec<String>) {
    if let Err(error) = image.parse::<RegistryReference>() {
        wrong.push(format!("{owner}: {image:?} is no image of a registry: {error}"));
        return;
    }
    named.insert(NamedImage {
        reference: format!("docker://{image}"),
        used_by: Some(owner.to_owned()),
    });
}

/// Objects as `kubectl get … -o json` writes them: one, a list, or one after the other.
fn read_kubernetes(name: &str, text: &str) -> Result<(BTreeSet<NamedImage>, Vec<String>), String> {
    let mut named = BTreeSet::new();
    let mut wrong = Vec::new();
    for document in serde_json::Deserializer::from_str(text).into_iter::<Value>() {
        let document = document.map_err(|error| format!("{name}: it is no JSON: {error}"))?;
        collect_objects(&document, &mut named, &mut wrong);
    }
    if named.is_empty() {
        wrong.push(format!("{name}: no object in it has containers"));
    }
    Ok((named, wrong))
}

/// Takes the objects of a list, and of lists in it.
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

/// An object of Kubernetes as people name it, `Kind namespace/name`.
fn object_name(object: &Map<String, Value>) -> String {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let metadata = object.get("metadata");
    let of_metadata = |key: &str| text(metadata.and_then(|metadata| metadata.get(key)));
    let (kind, namespace, name) = (text(object.get("kind")), of_metadata("namespace"), of_metadata("name"));
    let slash = if namespace.is_empty() { "" } else { "/" };
    format!("{kind} {namespace}{slash}{name}").trim().to_owned()
}

/// Takes the containers of an object wherever they stand in it: jobs of training operators, Knative services and others
/// have the template of a pod at places of their own.
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
        // What a webhook fills in is not in a manifest; in a cluster every container has one.
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
        assert_eq!(wrong, ["F:3: 4097 bytes are no reference"]);
        for nothing in ["", "\n# images\n"] {
            let error = read_image_names("F", nothing).unwrap_err();
            assert_eq!(error, "F: it names no image");
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
        // A name in a cluster is nobody's way to have a folder of this machine read.
        let wrong = vec![
            "CronJob n/c: a container has no image".to_owned(),
            "CronJob n/c: \"rootfs:/etc\" is no image of a registry: invalid reference format".to_owned(),
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
