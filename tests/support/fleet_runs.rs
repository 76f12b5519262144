//! Tests that a fleet audits each real image exactly once, even if workers fail.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::fleet_images::{FleetRegistry, fleet, outcome, results, start};
use crate::registry_parts::{REGISTRY, SKOPEO};
use crate::support;

const OK: (i32, String, String) = (0, String::new(), String::new());

fn wait_for(what: &str, is_there: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_there() {
        assert!(begin.elapsed() < Duration::from_mins(1), "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn each_image_of_a_fleet_is_audited_once_though_workers_are_killed() {
    if !support::have_all(&[REGISTRY, SKOPEO]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let images = FleetRegistry::of(dir.path(), 17);
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (cache, work, out) = (dir.path().join("cache"), path("work.jsonl"), path("out"));
    lists_each_digest_once(dir.path(), &cache, &work, &images);

    // Four workers. A slow one is killed after its first result.
    let worker = |index: &str, more: &[&str]| {
        let arguments = [&["run", &work, "--out", &out, "--shards", "4"], more].concat();
        fleet(&cache, &arguments, &[("JOB_COMPLETION_INDEX", index)])
    };
    let mut slow = start(worker("2", &["--limit", "requests-per-second=4"]));
    wait_for("the slow worker's first result", || {
        !results(Path::new(&out)).is_empty()
    });
    slow.kill().unwrap();
    slow.wait().unwrap();
    let others: Vec<Child> = ["0", "1", "3"].map(|index| start(worker(index, &[]))).into();
    assert!(others.into_iter().all(|mut other| other.wait().unwrap().success()));
    let before = results(Path::new(&out)).len();
    assert!((16..20).contains(&before), "{before}");
    let report = |format: &str| {
        let arguments = ["report", &out, "--worklist", &work, "--format", format];
        outcome(fleet(&cache, &arguments, &[]))
    };
    let (code, text, _) = report("text");
    let missing = format!("{} without a result yet", 20 - before);
    assert!(code == 2 && text.contains(&missing), "{text}");
    let (new, had) = (20 - before, before - 15);
    let said = format!("share 3/4: {new} audited, {had} had a result, 0 failed, of 20 images\n");
    assert_eq!(outcome(worker("2", &[])), (0, said, String::new()));
    let digests: Vec<String> = images.digests.iter().cloned().collect();
    assert_eq!(results(Path::new(&out)), digests);

    // Known layers are not read again, by the same fleet or by another with the same cache.
    let reads = images.layer_reads();
    assert!(
        (20..=32).contains(&reads),
        "20 layers, read {reads} times by five workers"
    );
    let said = "share 1/1: 0 audited, 20 had a result, 0 failed, of 20 images\n".to_owned();
    assert_eq!(
        outcome(fleet(&cache, &["run", &work, "--out", &out], &[])),
        (0, said, String::new())
    );
    let second = path("second");
    assert_eq!(
        outcome(fleet(&cache, &["run", &work, "--out", &second, "--quiet"], &[])),
        OK
    );
    assert_eq!(images.layer_reads(), reads);
    assert_eq!(
        report("json"),
        outcome(fleet(
            &cache,
            &["report", &second, "--worklist", &work, "--format", "json"],
            &[]
        ))
    );

    // The base contains the headers, and images built on it inherit the finding.
    let (code, text, _) = report("text");
    assert_eq!(code, 1);
    names_the_base_of_a_finding(&text, &format!("{}/bases/base1:v1", images.registry.address));
    says_what_is_no_result(dir.path(), &cache, &work, &out);
    refuses_what_does_not_go_together(dir.path(), &cache, &work, &out);
    failures_are_noted_and_tried_again(dir.path(), &cache, &work, images);
}

/// Seven images have headers but no library; six of them inherit that from their base.
fn names_the_base_of_a_finding(text: &str, base: &str) {
    let bases = text.split("\nbases responsible\n").nth(1).unwrap();
    let bases = bases.split("\n\n").next().unwrap();
    let row = format!("  {base}  headers-only-cupti  6 images");
    assert_eq!(bases.lines().skip(1).collect::<Vec<_>>(), [row], "{text}");
    let of_rule = text.lines().find(|line| line.starts_with("  headers-only-cupti "));
    assert!(of_rule.unwrap().contains("  7 images  "), "{text}");
    assert!(!text.contains("without a result"), "{text}");
}

/// Tests that a worklist has every digest once, with identical bytes for every source of names.
fn lists_each_digest_once(dir: &Path, cache: &Path, work: &str, images: &FleetRegistry) {
    let host = images.registry.address;
    let all = format!("registry:{host}");
    assert_eq!(outcome(fleet(cache, &["list", &all, "-o", work], &[])), OK);
    let list = std::fs::read_to_string(work).unwrap();
    let lines: Vec<Value> = list.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let listed: BTreeSet<String> = lines
        .iter()
        .map(|line| line["digest"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!((&listed, lines.len()), (&images.digests, 20));
    let alias = json!([format!("{host}/alias/app0:v1"), format!("{host}/team0/app0:v1")]);
    assert_eq!(lines.iter().filter(|line| line["names"] == alias).count(), 1);
    // What uses an image is kept, although the registry lists the image, too.
    let container = json!({"image": format!("{host}/team0/app0:v1")});
    let pod = json!({"kind": "Pod", "metadata": {"name": "train"}, "spec": {"containers": [container]}});
    let pods = dir.join("pods.json");
    std::fs::write(&pods, pod.to_string()).unwrap();
    let (_, used, _) = outcome(fleet(cache, &["list", pods.to_str().unwrap(), &all], &[]));
    let users = used
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["used_by"].clone());
    let users: Vec<Value> = users
        .filter(|by| by.as_array().is_some_and(|by| !by.is_empty()))
        .collect();
    assert_eq!(users, [json!(["Pod train"])]);
    let names = lines.iter().flat_map(|line| line["names"].as_array().unwrap());
    let mut references: Vec<&str> = names.map(|name| name.as_str().unwrap()).collect();
    references.reverse();
    let file = dir.join("images.txt");
    std::fs::write(&file, references.join("\n")).unwrap();
    let again = outcome(fleet(cache, &["list", file.to_str().unwrap()], &[]));
    assert_eq!(again, (0, list, String::new()));
    let patterns = ["team*/*1?:v*", "bases/base0"].map(|pattern| format!("registry:{host}/{pattern}"));
    let (code, some, _) = outcome(fleet(cache, &["list", &patterns[0], &patterns[1]], &[]));
    assert_eq!((code, some.lines().count()), (0, 8), "{some}");
    for nothing in ["team*/*:nope*", "nobody/*", "team0/app0:nope*"] {
        let error = format!("error: registry:{host} has no image that fits the pattern\n");
        let pattern = format!("registry:{host}/{nothing}");
        assert_eq!(
            outcome(fleet(cache, &["list", &pattern], &[])),
            (2, String::new(), error)
        );
    }
}

/// Tests documents that are damaged, copied, or written by another version or program.
fn says_what_is_no_result(dir: &Path, cache: &Path, work: &str, out: &str) {
    let copy = dir.join("damaged");
    let arguments = ["-r", out, copy.to_str().unwrap()];
    assert!(Command::new("cp").args(arguments).status().unwrap().success());
    let arguments = ["report", copy.to_str().unwrap(), "--worklist", work];
    let report = || outcome(fleet(cache, &arguments, &[]));
    let (code, whole, _) = report();
    assert_eq!(code, 1);
    let mut documents: Vec<PathBuf> = std::fs::read_dir(copy.join("results"))
        .unwrap()
        .flat_map(|part| std::fs::read_dir(part.unwrap().path()).unwrap())
        .map(|file| file.unwrap().path())
        .collect();
    documents.sort();
    std::fs::copy(&documents[0], documents[0].with_extension("copy.json")).unwrap();
    std::fs::write(copy.join("results/README.md"), "Not ours.").unwrap();
    let (code, said, error) = report();
    assert_eq!((code, said), (2, whole));
    assert!(error.contains("does not count: remove it") && error.contains("results/README.md cannot be read"));
    let text = std::fs::read_to_string(&documents[1]).unwrap();
    std::fs::write(&documents[1], &text[..text.len() / 2]).unwrap();
    std::fs::write(&documents[2], text.replace("fleet-result/v1", "fleet-result/v2")).unwrap();
    let (code, said, error) = report();
    assert!(
        code == 2 && said.contains("20 images") && said.contains("2 without a result yet"),
        "{said}"
    );
    assert!(
        error.contains("remove it, and a result that is missing then is made by the next run")
            && error.contains("fleet-result/v2")
    );
}

/// Tests other settings with the same output folder, and a malformed worklist line.
fn refuses_what_does_not_go_together(dir: &Path, cache: &Path, work: &str, out: &str) {
    let (code, _, error) = outcome(fleet(cache, &["run", work, "--out", out, "--phase", "training"], &[]));
    assert!(
        code == 2 && error.contains("--phase [] there, [training] here"),
        "{error}"
    );
    // Another command may get another library.
    let (code, _, error) = outcome(fleet(
        cache,
        &["run", work, "--out", out, "--args", "python3 train.py"],
        &[],
    ));
    let said = "what images start with [] there, [--args [\"python3\", \"train.py\"]] here";
    assert!(code == 2 && error.contains(said), "{error}");
    let bad = dir.join("bad.jsonl");
    std::fs::write(&bad, "{}\nnginx\n").unwrap();
    let (code, _, error) = outcome(fleet(cache, &["run", bad.to_str().unwrap(), "--out", out], &[]));
    assert!(
        code == 2 && error.contains("line 1: it is not a worklist line"),
        "{error}"
    );
    let (code, _, error) = outcome(fleet(
        cache,
        &["report", dir.join("none").to_str().unwrap(), "--worklist", work],
        &[],
    ));
    assert!(
        code == 2 && error.contains("there are no results of a fleet"),
        "{error}"
    );
}

/// Restarts a stopped registry with the same content and address.
pub fn serve_again(dir: &Path, address: SocketAddr) -> Child {
    let registry = Command::new("docker-registry")
        .arg("serve")
        .arg(dir.join("registry.yml"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    wait_for("the registry is back", || std::net::TcpStream::connect(address).is_ok());
    registry.unwrap()
}

/// Tests a registry that is down during a fleet and comes back.
fn failures_are_noted_and_tried_again(dir: &Path, cache: &Path, work: &str, images: FleetRegistry) {
    let out = dir.join("third");
    let out_text = out.to_str().unwrap();
    let run = |shard: &str| outcome(fleet(cache, &["run", work, "--out", out_text, "--shard", shard], &[]));
    assert_eq!(run("1/2").0, 0);
    let address = images.registry.address;
    drop(images);
    let (code, said, error) = run("2/2");
    assert_eq!(
        (code, said.as_str()),
        (2, "share 2/2: 0 audited, 0 had a result, 10 failed, of 20 images\n")
    );
    assert!(error.contains(&format!("cannot reach {address}")), "{error}");
    let report = || outcome(fleet(cache, &["report", out_text, "--worklist", work], &[]));
    let (code, text, _) = report();
    assert!(code == 2 && text.contains("10 not audited"), "{text}");
    let mut registry = serve_again(dir, address);
    assert_eq!(
        run("2/2").1,
        "share 2/2: 10 audited, 0 had a result, 0 failed, of 20 images\n"
    );
    let (code, text, _) = report();
    assert!(code == 1 && !text.contains("not audited"), "{text}");
    registry.kill().unwrap();
    registry.wait().unwrap();
}
