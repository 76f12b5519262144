//! Each report format matches its published schema, and its own rules for hostile names.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::support::run;
use serde_json::{Value, json};
use testkit::spec::Sources;

/// A report on standard output; unreadable images are reported on standard error.
fn report(format: &str, images: &[&str]) -> String {
    let images: Vec<String> = images
        .iter()
        .map(|name| format!("oci:testdata/images/{name}"))
        .collect();
    let mut arguments = vec!["--format", format];
    arguments.extend(images.iter().map(String::as_str));
    String::from_utf8(run(&arguments).stdout).unwrap()
}

fn fixtures() -> Vec<String> {
    let sources = Sources::of_repository().unwrap();
    sources.fixtures().keys().cloned().collect()
}

fn validator(schema: &Value) -> jsonschema::Validator {
    jsonschema::options()
        .should_validate_formats(true)
        .build(schema)
        .unwrap()
}

fn invalid(validator: &jsonschema::Validator, document: &Value) -> Vec<String> {
    let errors = validator.iter_errors(document);
    errors
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect()
}

#[track_caller]
fn assert_valid(validator: &jsonschema::Validator, document: &Value, name: &str) {
    assert_eq!(invalid(validator, document), [""; 0], "{name}");
}

/// How the documents of a text differ from the schema of this name.
pub fn differences_from_schema(name: &str, text: &str) -> Vec<String> {
    if name == "junit" {
        return judge_junit(text).err().into_iter().collect();
    }
    let schema = if name == "sarif" {
        sarif_schema()
    } else {
        own_schema(name)
    };
    let validator = validator(&schema);
    let documents = serde_json::Deserializer::from_str(text)
        .into_iter()
        .map(Result::unwrap_or_default);
    let documents: Vec<Value> = documents.collect();
    let mut errors: Vec<String> = documents
        .iter()
        .flat_map(|document| invalid(&validator, document))
        .collect();
    if let Some(named) = schema.pointer("/properties/schema/const") {
        let others = documents.iter().filter(|document| document["schema"] != *named);
        errors.extend(others.map(|document| format!("it is {}", document["schema"])));
    }
    if documents.is_empty() {
        errors.push("there is no document".to_owned());
    }
    errors
}

/// A schema of the program, closed to other properties.
fn own_schema(name: &str) -> Value {
    closed(&serde_json::from_slice(&run(&["schema", name]).stdout).unwrap())
}

/// The schema, closed to properties that it does not list.
fn closed(schema: &Value) -> Value {
    match schema {
        Value::Object(object) => {
            let mut object: serde_json::Map<String, Value> =
                object.iter().map(|(key, value)| (key.clone(), closed(value))).collect();
            if object.get("type") == Some(&"object".into()) && object.contains_key("properties") {
                object.insert("additionalProperties".to_owned(), false.into());
            }
            Value::Object(object)
        }
        Value::Array(items) => items.iter().map(closed).collect(),
        other => other.clone(),
    }
}

/// Runs the program on all fixtures and platforms with a cache in `folder`.
fn audit_all(folder: &Path) -> Child {
    let images = fixtures().into_iter().map(|name| format!("oci:testdata/images/{name}"));
    Command::new(env!("CARGO_BIN_EXE_cupti-audit"))
        .args(["--format=json", "--platform=all"])
        .args(images)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env_clear()
        .env("CUPTI_AUDIT_CACHE_DIR", folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// The files of the cache in `folder`.
fn cache_files(folder: &Path) -> Vec<PathBuf> {
    let inside = |folder: &Path| fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let layers = folder.join("layers");
    let files = inside(&layers).flat_map(|folder| inside(&folder).collect::<Vec<_>>());
    files.collect()
}

#[test]
fn a_report_from_the_cache_is_that_of_the_layers_whoever_shares_it_and_whatever_became_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let said = |run: Child| run.wait_with_output().unwrap();
    let mut arguments = vec!["--format=json".to_owned(), "--platform=all".to_owned()];
    arguments.extend(fixtures().iter().map(|name| format!("oci:testdata/images/{name}")));
    let cold = run(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    // Concurrent runs start with an empty cache and race to write the same entries.
    let at_once = [(); 2].map(|()| audit_all(folder.path()));
    for run in at_once {
        assert_eq!(said(run), cold);
    }
    assert_eq!(said(audit_all(folder.path())), cold);
    let files = cache_files(folder.path());
    for (number, file) in files.iter().enumerate() {
        let mut bytes = fs::read(file).unwrap();
        let at = number * 7 % bytes.len();
        bytes[at] ^= 0x55;
        fs::write(file, &bytes).unwrap();
    }
    assert_eq!(said(audit_all(folder.path())), cold);
    assert_eq!(cache_files(folder.path()).len(), files.len(), "all are made anew");
}

/// Two runs share a cache, and one is interrupted at some moment. The other run, and a later one with the cache, must
/// give the same result as a run alone.
#[test]
fn a_cache_whose_runs_are_killed_stays_whole() {
    let images = ["devel", "pip-torch", "stale-cache", "headers-only"];
    let images = images.map(|name| format!("oci:testdata/images/{name}"));
    let mut words = vec!["--format=json", "--no-config"];
    words.extend(images.iter().map(String::as_str));
    let cold = run(&words);
    let begin = |folder: &Path| -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cupti-audit"));
        command.args(&words).current_dir(env!("CARGO_MANIFEST_DIR"));
        command.env_clear().env("CUPTI_AUDIT_CACHE_DIR", folder);
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let said = |run: Child| run.wait_with_output().unwrap();
    let unfinished = |folder: &Path| {
        let name = |file: &PathBuf| file.file_name().unwrap().to_string_lossy().into_owned();
        let files = folder.join("layers").is_dir().then(|| cache_files(folder));
        let names = files.into_iter().flatten().map(|file| name(&file));
        names.filter(|name| name.contains("unfinished")).count()
    };
    let folder = tempfile::tempdir().unwrap();
    let started = std::time::Instant::now();
    assert_eq!(said(begin(folder.path())), cold);
    let longest = started.elapsed();
    let (tries, mut ended) = (crate::interrupt::count(12), 0);
    for number in 0..tries {
        let folder = tempfile::tempdir().unwrap();
        let signal = crate::interrupt::SIGNALS[usize::try_from(number % 4).unwrap()];
        let [hit, other] = [(); 2].map(|()| begin(folder.path()));
        crate::interrupt::send(signal, crate::interrupt::moment(number, longest), &hit);
        let hit = said(hit);
        assert!(cold.stdout.starts_with(&hit.stdout), "{signal} {number}");
        ended += u64::from(hit.status != cold.status);
        assert_eq!(said(other), cold, "{signal} {number}");
        // A killed run leaves at most one temporary file; the next run that writes to the directory removes it.
        assert!(
            unfinished(folder.path()) <= usize::from(signal == "KILL"),
            "{signal} {number}"
        );
        let files = cache_files(folder.path());
        fs::remove_file(
            files
                .iter()
                .find(|file| !file.to_string_lossy().contains("unfinished"))
                .unwrap(),
        )
        .unwrap();
        assert_eq!(said(begin(folder.path())), cold, "{signal} {number}");
        assert_eq!(unfinished(folder.path()), 0, "{signal} {number}");
    }
    println!("interrupts: cache of two runs: {tries} tried, {tries} clean: {ended} ended before their time");
    assert!(ended > 0);
}

#[test]
fn the_json_report_is_what_its_schema_tells() {
    let validator = validator(&own_schema("report"));
    let fixtures = fixtures();
    let names: Vec<&str> = fixtures.iter().map(String::as_str).collect();
    let text = report("json", &names);
    assert_eq!(text.lines().count(), fixtures.len());
    assert_eq!(differences_from_schema("report", &text), [""; 0]);
    let first: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    for (what, field) in [("cupti", "status"), ("image", "new")] {
        let mut broken = first.clone();
        broken[what][field] = "fine".into();
        assert!(!validator.is_valid(&broken), "the test would miss a property: {field}");
    }
}

#[test]
fn every_manifest_is_what_the_api_of_its_engine_takes() {
    let judge = |name: &str| {
        let schema = fs::read_to_string(format!("testdata/schemas/deploy/{name}.json")).unwrap();
        validator(&serde_json::from_str(&schema).unwrap())
    };
    let kubernetes = judge("kubernetes");
    let mut kinds: Vec<String> = Vec::new();
    for folder in ["once", "nightly", "verify"] {
        for entry in fs::read_dir(format!("deploy/kubernetes/{folder}")).unwrap() {
            let path = entry.unwrap().path();
            let manifest: Value = serde_saphyr::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
            if manifest["kind"] != "Kustomization" {
                assert_valid(&kubernetes, &manifest, &path.display().to_string());
                kinds.push(manifest["kind"].as_str().unwrap().to_owned());
            }
        }
    }
    kinds.sort();
    let [cron, policy, volume] = ["CronJob", "NetworkPolicy", "PersistentVolumeClaim"];
    assert_eq!(kinds, [cron, cron, cron, "Job", "Job", policy, policy, volume, volume]);
    let admission = judge("admission");
    for name in ["admission-policy", "gatekeeper", "kyverno", "policy-controller"] {
        let text = fs::read_to_string(format!("deploy/admission/{name}.yaml")).unwrap();
        for document in text.split("\n---\n") {
            let document: Value = serde_saphyr::from_str(document).unwrap();
            // Gatekeeper creates this kind from the template.
            if document["kind"] != "AuditedImages" {
                assert_valid(&admission, &document, name);
            }
        }
    }
    let misspelt = json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {"completionsMode": "Indexed"}});
    assert!(!kubernetes.is_valid(&misspelt));
    let text = fs::read_to_string("deploy/cloud-run/job.yaml").unwrap();
    assert_valid(
        &judge("cloud-run"),
        &serde_saphyr::from_str(&text).unwrap(),
        "cloud-run",
    );
    for file in ["job-definition", "submit-job"] {
        let text = fs::read_to_string(format!("deploy/aws-batch/{file}.json")).unwrap();
        assert_valid(&judge("aws-batch"), &serde_json::from_str(&text).unwrap(), file);
    }
}

#[test]
fn what_kustomize_makes_of_the_folders_is_what_kubernetes_takes() {
    if !crate::support::have_all(&[("kubectl", "kubectl, with its kustomize")]) {
        return;
    }
    let schema = fs::read_to_string("testdata/schemas/deploy/kubernetes.json").unwrap();
    let kubernetes = validator(&serde_json::from_str(&schema).unwrap());
    for (name, expected) in [
        (
            "once",
            &["ConfigMap", "PersistentVolumeClaim", "Job", "NetworkPolicy"][..],
        ),
        (
            "nightly",
            &[
                "PersistentVolumeClaim",
                "CronJob",
                "CronJob",
                "CronJob",
                "NetworkPolicy",
            ],
        ),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let copy = dir.path().join(name);
        let from = format!("deploy/kubernetes/{name}");
        let copied = Command::new("cp").args(["-r", &from]).arg(&copy).status();
        assert!(copied.unwrap().success());
        if name == "once" {
            fs::write(copy.join("work.jsonl"), "{}\n").unwrap();
        }
        let made = Command::new("kubectl").arg("kustomize").arg(&copy).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let text = String::from_utf8(made.stdout).unwrap();
        let documents: Vec<Value> = text
            .split("\n---\n")
            .map(|document| serde_saphyr::from_str(document).unwrap())
            .collect();
        let kinds: Vec<&str> = documents
            .iter()
            .map(|document| document["kind"].as_str().unwrap())
            .collect();
        assert_eq!(kinds, expected);
        // A ConfigMap may hold any text, and the stored schemas do not include it.
        for document in documents.iter().filter(|document| document["kind"] != "ConfigMap") {
            assert_valid(&kubernetes, document, name);
        }
        // The image name was replaced, and the list is mounted under its given name.
        assert!(text.contains("image: REGISTRY/cupti-audit:latest") && !text.contains("image: cupti-audit"));
        let mounted = documents[0]["metadata"]["name"].as_str().unwrap();
        assert!(text.matches(mounted).count() > 1, "{name}: {mounted}");
    }
}

#[test]
fn the_schema_knows_every_kind_of_source() {
    let schema: Value = serde_json::from_slice(&run(&["schema"]).stdout).unwrap();
    let kinds = image_source::SourceKind::ALL.map(image_source::SourceKind::scheme);
    let listed = schema.pointer("/$defs/image/properties/source/enum");
    assert_eq!(listed, Some(&json!(kinds)));
}

/// The published SARIF schema.
fn sarif_schema() -> Value {
    let schema = fs::read_to_string("testdata/schemas/sarif-2.1.0.json").unwrap();
    let mut schema: Value = serde_json::from_str(&schema).unwrap();
    // In the published schema, the patterns of two properties that we do not write have a surplus `]` and are invalid.
    for property in ["run/properties/language", "toolComponent/properties/language"] {
        let property = schema.pointer_mut(&format!("/definitions/{property}"));
        let pattern = property.unwrap().as_object_mut().unwrap().remove("pattern");
        assert!(pattern.is_some());
    }
    schema
}

#[test]
fn sarif_keeps_to_the_published_schema() {
    let validator = validator(&sarif_schema());
    let mut fixtures = fixtures();
    fixtures.push("not-there".to_owned());
    let names: Vec<&str> = fixtures.iter().map(String::as_str).collect();
    let sarif: Value = serde_json::from_str(&report("sarif", &names)).unwrap();
    assert_valid(&validator, &sarif, "all fixtures");
    let only = &sarif["runs"][0];
    // GitHub's code scanning requires these properties beyond the schema.
    for result in only["results"].as_array().unwrap() {
        let place = &result["locations"][0]["physicalLocation"];
        assert!(place["artifactLocation"]["uri"].is_string(), "{result}");
        assert_eq!(place["region"]["startLine"], 1, "{result}");
        assert_eq!(result["suppressions"], Value::Array(Vec::new()));
        let index = usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap();
        assert_eq!(only["tool"]["driver"]["rules"][index]["id"], result["ruleId"]);
    }
    // The validator rejects invalid documents.
    let mut broken = sarif.clone();
    broken["runs"][0]["results"][0]["level"] = "fatal".into();
    assert!(!validator.is_valid(&broken));
    broken = sarif;
    broken["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] = "a b\\<".into();
    assert!(!validator.is_valid(&broken), "URIs are not looked at");
}

#[test]
fn a_finding_has_a_fingerprint_of_its_own_that_stays() {
    let fingerprints = |images: &[&str]| -> Vec<String> {
        let sarif: Value = serde_json::from_str(&report("sarif", images)).unwrap();
        let results = sarif["runs"][0]["results"].as_array().unwrap().clone();
        let print = |result: &Value| result["partialFingerprints"]["primaryLocationLineHash"].to_string();
        results.iter().map(print).collect()
    };
    let alone = fingerprints(&["hostile-names"]);
    let among_others = fingerprints(&["hostile-names", "no-cupti", "headers-only"]);
    assert_eq!(alone, among_others[..alone.len()]);
    let mut distinct = among_others.clone();
    distinct.sort();
    distinct.dedup();
    assert_eq!(distinct.len(), among_others.len());
}

#[test]
fn junit_keeps_to_the_schema_of_jenkins() {
    let mut fixtures = fixtures();
    fixtures.push("not-there".to_owned());
    let names: Vec<&str> = fixtures.iter().map(String::as_str).collect();
    assert_eq!(judge_junit(&report("junit", &names)), Ok(()));
}

/// Whether xmllint, if it is installed, accepts a report with Jenkins' schema.
fn judge_junit(text: &str) -> Result<(), String> {
    if !crate::support::have("xmllint", "libxml2-utils") {
        return Ok(());
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("junit.xml");
    fs::write(&file, text).unwrap();
    let judged = Command::new("xmllint")
        .args(["--noout", "--nonet", "--schema", "testdata/schemas/junit-10.xsd"])
        .arg(file)
        .output()
        .unwrap();
    println!("xmllint and the JUnit report agree on the schema of Jenkins");
    if judged.status.success() {
        Ok(())
    } else {
        Err(format!("{judged:?}"))
    }
}

#[test]
fn sarif_shows_what_was_found() {
    for image in ["headers-only", "pip-torch-broken", "hostile-names"] {
        let shown = without_other_rules(&report("sarif", &[image]));
        insta::assert_snapshot!(format!("sarif_{image}"), shown);
    }
}

/// Keeps only the rules that have findings, so that a new rule does not change other snapshots.
fn without_other_rules(text: &str) -> String {
    let mut log: Value = serde_json::from_str(text).unwrap();
    let run = &mut log["runs"][0];
    let mut found = Vec::new();
    for result in run["results"].as_array_mut().unwrap() {
        found.push(result["ruleId"].clone());
        result["ruleIndex"] = "[index]".into();
    }
    let rules = run["tool"]["driver"]["rules"].as_array_mut().unwrap();
    rules.retain(|rule| found.contains(&rule["id"]));
    serde_json::to_string_pretty(&log).unwrap()
}
