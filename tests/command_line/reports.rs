//! Each report format matches its published schema, and its own rules for hostile names.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::support::run;
use serde_json::{Value, json};
use testkit::elf::Elf;
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

fn assert_valid(validator: &jsonschema::Validator, document: &Value, name: &str) {
    let errors: Vec<String> = validator
        .iter_errors(document)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{name}: {errors:#?}");
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
fn the_cache_says_what_it_holds_and_lets_it_go() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().display().to_string();
    let said = |words: &[&str]| {
        let output = run(&[&["cache"], words, &["--cache-dir", &place]].concat());
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().replace(&place, "DIR")
    };
    assert_eq!(said(&["info"]), "DIR: 0 files of 0 KiB, of at most 1024 MiB\n");
    let image = "oci:testdata/images/headers-only";
    let audit = |words: &[&str]| run(&[&["--cache-dir", &place, "--format=json", image], words].concat());
    let cold = audit(&[]);
    let files = cache_files(folder.path());
    // An unfinished file of a killed run is not an index, so `prune` removes it too.
    fs::write(files[0].with_file_name(".image-unfinished-abcdef"), vec![0; 100_000]).unwrap();
    let count = files.len() + 1;
    let holds = |count: usize, text: &str| text.contains(&format!("{count} files of "));
    assert!(holds(count, &said(&["info"])));
    assert_eq!(audit(&[]), cold);
    let pruned = said(&["prune", "--max-mib", "1"]);
    assert!(
        pruned.starts_with("removed 0 files") && holds(count, &pruned),
        "{pruned}"
    );
    let cleared = said(&["clear"]);
    let all = format!("removed {count} files of ");
    assert!(
        cleared.starts_with(&all) && cleared.ends_with("left 0 files of 0 KiB in DIR\n"),
        "{cleared}"
    );
    assert_eq!(audit(&["--no-cache"]), cold);
    assert_eq!(cache_files(folder.path()).len(), 0, "nothing is kept without a cache");
}

#[test]
fn the_json_report_is_what_its_schema_tells() {
    let schema: Value = serde_json::from_slice(&run(&["schema"]).stdout).unwrap();
    let validator = validator(&closed(&schema));
    let fixtures = fixtures();
    let names: Vec<&str> = fixtures.iter().map(String::as_str).collect();
    let reports: Vec<Value> = report("json", &names)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(reports.len(), fixtures.len());
    for (name, report) in fixtures.iter().zip(&reports) {
        assert_valid(&validator, report, name);
    }
    let mut broken = reports[0].clone();
    broken["cupti"]["status"] = "fine".into();
    assert!(!validator.is_valid(&broken));
    broken = reports[0].clone();
    broken["image"]["new"] = 1.into();
    assert!(!validator.is_valid(&broken), "the test would miss a property");
}

/// The commands that print JSON, each with the name of its schema.
fn documents() -> Vec<(&'static str, Vec<String>)> {
    let image = |name: &str| format!("oci:testdata/images/{name}");
    let line = |words: &str, images: &[&str]| {
        let words = words.split(' ').map(str::to_owned);
        words.chain(images.iter().map(|name| image(name))).collect::<Vec<_>>()
    };
    let mut all = vec![
        (
            "advice",
            line("advise --format json --tool torch.profiler --tool nsys", &[]),
        ),
        (
            "advice",
            line("advise --format json --phase profiling --cuda 12.4", &[]),
        ),
        ("tools", line("advise --format json", &[])),
        ("explain", line("explain --format json cupti-absent", &[])),
        ("explain", line("explain --format json 999", &[])),
        (
            "explain",
            line("explain --format json undefined symbol: cuptiSubscribe", &[]),
        ),
        ("unread", line("--format json oci:nowhere", &[])),
    ];
    all.push(("diff", line("diff --format json", &["pip-torch", "headers-only"])));
    all.push(("check", line("check --format json docs/ci/Dockerfile", &[])));
    for name in ["cannot-start", "devel", "headers-only", "stale-cache", "pip-torch"] {
        all.push(("links", line("links --format json", &[name])));
        all.push(("profilers", line("profilers --format json", &[name])));
        let mut tree = line("tree --format json", &[name]);
        tree.push("libcupti.so.12".to_owned());
        all.push(("tree", tree));
    }
    all
}

#[test]
fn every_document_is_what_its_schema_tells() {
    for (name, arguments) in documents() {
        let schema: Value = serde_json::from_slice(&run(&["schema", name]).stdout).unwrap();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let output = run(&arguments);
        let document: Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
        let label = arguments.join(" ");
        assert_valid(&validator(&closed(&schema)), &document, &label);
        assert_eq!(
            schema.pointer("/properties/schema/const"),
            Some(&document["schema"]),
            "{label}"
        );
    }
    assert_eq!(run(&["schema", "nothing"]).status.code(), Some(2));
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
fn every_document_of_a_fleet_is_what_its_schema_tells() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (work, out) = (at("work"), at("out"));
    let image = |name: &str| format!("oci:testdata/images/{name}");
    let said = |arguments: &[&str]| String::from_utf8(run(arguments).stdout).unwrap();
    let list = said(&["fleet", "list", &image("headers-only"), &image("devel")]);
    // An image that no longer exists.
    let digest = |digit: &str| format!("sha256:{}", digit.repeat(64));
    let gone = list
        .lines()
        .next()
        .unwrap()
        .replace("testdata/images/", "testdata/gone/");
    let there = serde_json::from_str::<Value>(&gone).unwrap()["digest"]
        .as_str()
        .unwrap()
        .to_owned();
    fs::write(&work, list.clone() + &gone.replace(&there, &digest("0"))).unwrap();
    assert_eq!(
        run(&["fleet", "run", &work, "--out", &out, "--tool", "nsys"])
            .status
            .code(),
        Some(2)
    );
    let read = |name: &str| fs::read_to_string(Path::new(&out).join(name)).unwrap();
    let of_image = |folder: &str, digest: &str| {
        let part = &digest["sha256:".len()..][..2];
        read(&format!(
            "{folder}/{part}/{}_linux-amd64.json",
            digest.replace(':', "-")
        ))
    };
    let documents = [
        ("worklist", list),
        ("fleet", read("fleet.json")),
        ("fleet-result", of_image("results", &there)),
        ("fleet-failure", of_image("failures", &digest("0"))),
        ("fleet-image", said(&["fleet", "report", &out, "--format", "json"])),
    ];
    for (name, text) in documents {
        let schema: Value = serde_json::from_str(&said(&["schema", name])).unwrap();
        for line in text.lines() {
            let document: Value = serde_json::from_str(line).unwrap();
            assert_valid(&validator(&closed(&schema)), &document, name);
            assert_eq!(
                schema.pointer("/properties/schema/const"),
                Some(&document["schema"]),
                "{name}"
            );
        }
    }
}

#[test]
fn the_schema_knows_every_kind_of_source() {
    let schema: Value = serde_json::from_slice(&run(&["schema"]).stdout).unwrap();
    let kinds = image_source::SourceKind::ALL.map(image_source::SourceKind::scheme);
    let listed = schema.pointer("/$defs/image/properties/source/enum");
    assert_eq!(listed, Some(&json!(kinds)));
}

/// A validator for the published SARIF schema.
fn sarif_validator() -> jsonschema::Validator {
    let schema = fs::read_to_string("testdata/schemas/sarif-2.1.0.json").unwrap();
    let mut schema: Value = serde_json::from_str(&schema).unwrap();
    // In the published schema, the patterns of two properties that we do not write have a surplus `]` and are invalid.
    for property in ["run/properties/language", "toolComponent/properties/language"] {
        let property = schema.pointer_mut(&format!("/definitions/{property}"));
        let pattern = property.unwrap().as_object_mut().unwrap().remove("pattern");
        assert!(pattern.is_some());
    }
    validator(&schema)
}

#[test]
fn sarif_keeps_to_the_published_schema() {
    let validator = sarif_validator();
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
    // The findings of a Dockerfile, with their fixes, match the schema too.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("Dockerfile");
    let text = "FROM nvidia/cuda:12.4.1-runtime-ubuntu22.04\nRUN apt-get install cuda-libraries-dev-12-4 # cupti\n";
    fs::write(&file, text).unwrap();
    let checked = run(&["check", "--format", "sarif", file.to_str().unwrap()]);
    let checked: Value = serde_json::from_slice(&checked.stdout).unwrap();
    assert_valid(&validator, &checked, "check");
    assert_eq!(checked["runs"][0]["results"][0]["fixes"].as_array().unwrap().len(), 1);
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
    let folder = tempfile::tempdir().unwrap();
    let mut fixtures = fixtures();
    fixtures.push("not-there".to_owned());
    let names: Vec<&str> = fixtures.iter().map(String::as_str).collect();
    let file = folder.path().join("junit.xml");
    fs::write(&file, report("junit", &names)).unwrap();
    if let Some(judged) = xmllint(&file) {
        assert_eq!(judged, "");
        println!("xmllint and the JUnit reports agree on the schema of Jenkins");
    }
}

/// xmllint's output for a file validated with Jenkins' schema; `None` if xmllint is not installed.
fn xmllint(file: &Path) -> Option<String> {
    let judged = Command::new("xmllint")
        .args(["--noout", "--nonet", "--schema", "testdata/schemas/junit-10.xsd"])
        .arg(file)
        .output();
    match judged {
        Ok(output) if output.status.success() => Some(String::new()),
        Ok(output) => Some(format!("{output:?}")),
        Err(_) => {
            println!("skipped: xmllint is not installed, JUnit XML was not judged");
            None
        }
    }
}

#[test]
fn a_suppressed_finding_is_in_every_form_and_counts_in_none() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let config = "suppress:\n  - {rule: headers-only-cupti, reason: \"built <b>against</b>, \\e[2J never run\", until: 9999-12-30}\n";
    fs::write(at("config.yaml"), config).unwrap();
    let run = |form: &str| {
        let (config, file) = (at("config.yaml"), at(form));
        let output = format!("{form}={file}");
        let image = "oci:testdata/images/headers-only";
        let ran = run(&["--config", &config, "--output", &output, image]);
        assert_eq!(ran.status.code(), Some(0), "{form}");
        fs::read_to_string(file).unwrap()
    };
    let because = "built <b>against</b>, \\x1b[2J never run, until 9999-12-30";
    let json: Value = serde_json::from_str(&run("json")).unwrap();
    let schema: Value = serde_json::from_slice(&self::run(&["schema"]).stdout).unwrap();
    assert_valid(&validator(&closed(&schema)), &json, "json");
    let suppressed = &json["findings"][0]["suppressed"];
    assert_eq!(suppressed["until"], "9999-12-30");
    let sarif: Value = serde_json::from_str(&run("sarif")).unwrap();
    assert_valid(&sarif_validator(), &sarif, "sarif");
    assert_eq!(
        sarif["runs"][0]["results"][0]["suppressions"],
        json!([{"kind": "external", "status": "accepted", "justification": because}])
    );
    assert_eq!(sarif["runs"][0]["invocations"][0]["exitCode"], 0);
    let junit = run("junit");
    assert_eq!(xmllint(Path::new(&at("junit"))).unwrap_or_default(), "");
    let skipped = format!(
        "<skipped message=\"{}\"/>",
        because.replace('<', "&lt;").replace('>', "&gt;")
    );
    assert!(junit.contains(&skipped) && !junit.contains("<failure"), "{junit}");
    let markdown = run("markdown");
    assert!(markdown.contains(r"**suppressed error\["), "{markdown}");
    assert!(
        markdown.contains(r"- suppressed because built \<b\>against\</b\>, \\x1b"),
        "{markdown}"
    );
    let html = run("html");
    assert!(html.contains("suppressed error"), "{html}");
    assert!(html.contains("built &lt;b&gt;against"), "{html}");
    let github = run("github");
    assert!(!github.contains("::"), "an annotation is a call for somebody: {github}");
}

#[test]
fn an_assumption_is_one_line_of_every_form() {
    let image = "oci:testdata/images/entry-script";
    let words =
        "/entrypoint.sh:4: `exec \"$@\"` keeps the loader variables (to settle it: --accept launcher@/entrypoint.sh:4)";
    let assumed = |format: &str, more: &[&str]| {
        let start = ["--args", "mpirun -np 2 python3 train.py", "--format", format, image];
        let text = String::from_utf8(run(&[&start[..], more].concat()).stdout).unwrap();
        let lines = text.lines().filter(|line| line.contains("launcher@/entrypoint.sh:4"));
        lines.map(|line| line.trim().to_owned()).collect::<Vec<_>>()
    };
    let quoted = words.replace('"', "&quot;");
    assert_eq!(
        assumed("junit", &[]),
        [format!("<property name=\"assumption\" value=\"{quoted}\"/>")]
    );
    let annotation = |command| format!("::{command} title=assumed%3A {}::{words}", image.replace(':', "%3A"));
    assert_eq!(assumed("github", &[]), [annotation("notice")]);
    assert_eq!(assumed("github", &["--strict"]), [annotation("warning")]);
}

#[test]
fn a_variable_that_is_passed_stands_in_the_programs_of_the_report() {
    let environments = |passed: &str| {
        let image = "oci:testdata/images/entry-unknown";
        let report: Value = serde_json::from_slice(&run(&["--format=json", "--env", passed, image]).stdout).unwrap();
        let environments = report["programs"][0]["environments"].as_array().unwrap().iter();
        environments
            .map(|environment| environment["LD_LIBRARY_PATH"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(environments("LD_LIBRARY_PATH="), [""]);
    assert_eq!(environments("LD_LIBRARY_PATH=/opt/cupti/lib"), ["/opt/cupti/lib"]);
    assert!(environments("OTHER=x")[0]["unknown_parts"].is_array());
}

#[test]
fn every_form_is_the_same_each_time_and_holds_no_control_character() {
    for format in ["sarif", "junit", "markdown", "github", "html"] {
        let images = ["hostile-names", "pip-torch"];
        let text = report(format, &images);
        assert_eq!(text, report(format, &images), "{format}");
        let odd: Vec<char> = text
            .chars()
            .filter(|c| c.is_control() && *c != '\n' || ('\u{202a}'..='\u{202e}').contains(c))
            .collect();
        assert_eq!(odd, [], "{format}");
    }
}

#[test]
fn the_forms_show_what_was_found() {
    for format in ["sarif", "junit", "markdown", "github"] {
        for image in ["headers-only", "pip-torch-broken", "hostile-names"] {
            let text = report(format, &[image]);
            let shown = match format {
                "sarif" => without_other_rules(&text),
                "junit" => without_passed_cases(&text),
                _ => text,
            };
            insta::assert_snapshot!(format!("{format}_{image}"), shown);
        }
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

fn without_passed_cases(text: &str) -> String {
    let passed = |line: &&str| line.contains("<testcase") && line.ends_with("/>");
    let number = |line: &str| match line.split_once(" tests=\"") {
        Some((head, tail)) => format!(
            "{head} tests=\"[all]{}",
            tail.trim_start_matches(|c: char| c.is_ascii_digit())
        ),
        None => line.to_owned(),
    };
    let lines: Vec<String> = text.lines().filter(|line| !passed(line)).map(number).collect();
    lines.join("\n")
}

#[test]
fn an_image_that_cannot_be_read_is_in_every_form() {
    for format in ["sarif", "junit", "markdown", "github", "html"] {
        let text = report(format, &["not-there", "no-cupti"]);
        assert!(text.contains("not-there"), "{format}: {text}");
        assert!(text.contains("no-cupti"), "{format}: {text}");
    }
}

#[test]
fn what_a_script_gets_is_promised_and_not_that_it_comes_so_far() {
    let root = tempfile::tempdir().unwrap();
    let put = |path: &str, content: &[u8]| {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    let program = || Elf::executable().string("libcupti.so.12").import_weak("dlopen");
    put(
        "lib64/ld-linux-x86-64.so.2",
        &Elf::library("ld-linux-x86-64.so.2").build(),
    );
    put("usr/lib64/libcupti.so.12", &Elf::library("libcupti.so.12").build());
    put("usr/bin/app", &program().build());
    let python = Elf::executable().export("PyInit__ctypes").import_weak("dlopen");
    put("usr/bin/python3.11", &python.build());
    put("usr/lib/python3.11/ctypes/__init__.py", b"");
    put("usr/lib/python3.11/os.py", b"");
    let promises = || {
        let said = run(&[&format!("rootfs:{}", root.path().display())]).stdout;
        let said = String::from_utf8(said).unwrap();
        let gets = said.matches("gets /usr/lib64/libcupti.so.12").count();
        (gets, said.matches("nothing here says that it comes so far").count())
    };
    assert_eq!(promises(), (1, 0));
    put("srv/one.py", b"import ctypes\nctypes.CDLL('libcupti.so.12')\n");
    put("srv/two.py", b"import ctypes\nctypes.CDLL('libcupti.so.12')\n");
    assert_eq!(promises(), (3, 1));
}
