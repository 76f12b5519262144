//! A fleet of real images: is each audited once, whatever becomes of the workers?

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::fleet_images::{FleetRegistry, fleet, outcome, results, start};
use crate::support;
use crate::{REGISTRY, SKOPEO};

const OK: (i32, String, String) = (0, String::new(), String::new());

fn wait_for(what: &str, is_there: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_there() {
        assert!(begin.elapsed() < Duration::from_secs(60), "{what}");
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
    let host = images.registry.address.to_string();
    let (work, out, cache) = (
        dir.path().join("work.jsonl"),
        dir.path().join("out"),
        dir.path().join("cache"),
    );
    let [work, out_text] = [&work, &out].map(|path| path.to_str().unwrap());
    // Every digest once, in the same bytes wherever the names come from.
    let all = format!("registry:{host}");
    assert_eq!(outcome(fleet(&cache, &["list", &all, "-o", work], &[])), OK);
    let list = std::fs::read_to_string(work).unwrap();
    let lines: Vec<Value> = list.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let names = |line: &Value| {
        line["names"]
            .as_array()
            .unwrap()
            .iter()
            .map(|name| name.as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let listed: BTreeSet<String> = lines
        .iter()
        .map(|line| line["digest"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!((&listed, lines.len()), (&images.digests, 20));
    let alias = vec![format!("{host}/alias/app0:v1"), format!("{host}/team0/app0:v1")];
    assert_eq!(lines.iter().filter(|line| names(line) == alias).count(), 1);
    let mut references: Vec<String> = lines.iter().flat_map(&names).collect();
    references.reverse();
    let file = dir.path().join("images.txt");
    std::fs::write(&file, references.join("\n")).unwrap();
    assert_eq!(
        outcome(fleet(&cache, &["list", file.to_str().unwrap()], &[])),
        (0, list, String::new())
    );
    let patterns = [
        format!("registry:{host}/team*/*1?:v*"),
        format!("registry:{host}/bases/base0"),
    ];
    let (code, some, _) = outcome(fleet(&cache, &["list", &patterns[0], &patterns[1]], &[]));
    assert_eq!((code, some.lines().count()), (0, 8), "{some}");

    // Four workers, one of them slow and killed with its first result written.
    let worker = |index: &str, out: &str, more: &[&str]| {
        let arguments = [&["run", work, "--out", out, "--shards", "4"], more].concat();
        fleet(&cache, &arguments, &[("JOB_COMPLETION_INDEX", index)])
    };
    let mut slow = start(worker("2", out_text, &["--limit", "requests-per-second=4"]));
    wait_for("the slow worker's first result", || !results(&out).is_empty());
    let others: Vec<Child> = ["0", "1", "3"].map(|index| start(worker(index, out_text, &[]))).into();
    slow.kill().unwrap();
    slow.wait().unwrap();
    assert!(others.into_iter().all(|mut other| other.wait().unwrap().success()));
    let before = results(&out);
    assert!((16..20).contains(&before.len()), "{}", before.len());
    let report = |format: &str| {
        outcome(fleet(
            &cache,
            &["report", out_text, "--worklist", work, "--format", format],
            &[],
        ))
    };
    let (code, text, _) = report("text");
    assert!(
        code == 2 && text.contains(&format!("{} without a result yet", 20 - before.len())),
        "{text}"
    );
    let (code, said, _) = outcome(worker("2", out_text, &[]));
    assert_eq!(code, 0);
    let (had, new) = (before.len() - 15, 20 - before.len());
    assert_eq!(
        said,
        format!("share 3/4: {new} audited, {had} had a result, 0 failed, of 20 images\n")
    );
    assert_eq!(results(&out), images.digests.iter().cloned().collect::<Vec<_>>());

    // What is known is not read: not by the same fleet, nor by another one with the same cache.
    let reads = images.layer_reads();
    assert!(
        (20..=32).contains(&reads),
        "20 layers, read {reads} times by five workers"
    );
    let again = outcome(fleet(&cache, &["run", work, "--out", out_text], &[]));
    assert_eq!(
        again,
        (
            0,
            "share 1/1: 0 audited, 20 had a result, 0 failed, of 20 images\n".to_owned(),
            String::new()
        )
    );
    let second = dir.path().join("second");
    let second_text = second.to_str().unwrap();
    assert_eq!(
        outcome(fleet(&cache, &["run", work, "--out", second_text, "--quiet"], &[])),
        OK
    );
    assert_eq!(images.layer_reads(), reads);
    assert_eq!(
        report("csv"),
        outcome(fleet(&cache, &["report", second_text, "--format", "csv"], &[]))
    );

    // The base brings the headers, and who begins from it has them from there.
    let (code, numbers, _) = report("prometheus");
    assert_eq!(code, 1);
    for expected in [
        "cupti_audit_fleet_images{outcome=\"missing\"} 0".to_owned(),
        "cupti_audit_fleet_rule_images{rule=\"headers-only-cupti\",severity=\"error\"} 7".to_owned(),
        format!("cupti_audit_fleet_base_images{{base=\"{host}/bases/base1:v1\",rule=\"headers-only-cupti\"}} 6"),
    ] {
        assert!(numbers.lines().any(|line| line == expected), "{expected}\n{numbers}");
    }
    refuses_what_does_not_go_together(dir.path(), &cache, work, out_text);
    failures_are_noted_and_tried_again(dir.path(), &cache, work, images);
}

/// Other settings on the same place, and a line that is none.
fn refuses_what_does_not_go_together(dir: &Path, cache: &Path, work: &str, out: &str) {
    let (code, _, error) = outcome(fleet(cache, &["run", work, "--out", out, "--phase", "training"], &[]));
    assert!(
        code == 2 && error.contains("--phase [] there, [training] here"),
        "{error}"
    );
    let bad = dir.join("bad.jsonl");
    std::fs::write(&bad, "{}\nnginx\n").unwrap();
    let (code, _, error) = outcome(fleet(cache, &["run", bad.to_str().unwrap(), "--out", out], &[]));
    assert!(
        code == 2 && error.contains("line 1: ") && error.contains("line 2: "),
        "{error}"
    );
    let (code, _, error) = outcome(fleet(cache, &["report", dir.join("none").to_str().unwrap()], &[]));
    assert!(
        code == 2 && error.contains("there are no results of a fleet"),
        "{error}"
    );
}

/// A registry that is gone in the middle of a fleet, and back again.
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
    let report = || outcome(fleet(cache, &["report", out_text], &[]));
    let (code, text, _) = report();
    assert!(code == 2 && text.contains("10 not audited"), "{text}");
    let config = dir.join("registry.yml");
    let mut registry = Command::new("docker-registry")
        .arg("serve")
        .arg(config)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_for("the registry is back", || std::net::TcpStream::connect(address).is_ok());
    assert_eq!(
        run("2/2").1,
        "share 2/2: 10 audited, 0 had a result, 0 failed, of 20 images\n"
    );
    let (code, text, _) = report();
    assert!(code == 1 && !text.contains("not audited"), "{text}");
    registry.kill().unwrap();
    registry.wait().unwrap();
}

/// A server of S3 on this machine, of the package moto.
struct BucketServer(Child);

impl Drop for BucketServer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn two_fleets_on_one_bucket_write_each_result_once() {
    if !support::have_all(&[REGISTRY, SKOPEO]) {
        return;
    }
    let moto = support::parts().join("moto");
    let has_moto = Command::new("python3")
        .args(["-c", "import moto.server"])
        .env("PYTHONPATH", &moto)
        .output();
    if !has_moto.is_ok_and(|output| output.status.success()) {
        return support::missing("moto, a server that speaks S3");
    }
    let dir = tempfile::tempdir().unwrap();
    let images = FleetRegistry::of(dir.path(), 5);
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
        .to_string();
    let log = dir.path().join("bucket.log");
    let server = Command::new("python3")
        .args([
            "-c",
            "from moto.server import main; main()",
            "-H",
            "127.0.0.1",
            "-p",
            &port,
        ])
        .env("PYTHONPATH", moto)
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(&log).unwrap())
        .spawn();
    let _server = BucketServer(server.unwrap());
    let endpoint = format!("http://127.0.0.1:{port}");
    let curl = |url: &str| {
        Command::new("curl")
            .args(["-sf", "-X", "PUT", "-o", "/dev/null", url])
            .status()
            .unwrap()
            .success()
    };
    wait_for("the bucket", || curl(&format!("{endpoint}/audits")));
    let variables = [
        ("AWS_ENDPOINT_URL_S3", endpoint.as_str()),
        ("AWS_ACCESS_KEY_ID", "key"),
        ("AWS_SECRET_ACCESS_KEY", "not-a-secret"),
    ];
    let work = dir.path().join("work.jsonl");
    let work = work.to_str().unwrap();
    let caches = ["one", "two"].map(|name| dir.path().join(name));
    let all = format!("registry:{}", images.registry.address);
    assert_eq!(outcome(fleet(&caches[0], &["list", &all, "-o", work], &[])), OK);
    let place = "s3://audits/nightly/fleet";
    let both = caches
        .each_ref()
        .map(|cache| start(fleet(cache, &["run", work, "--out", place], &variables)));
    assert!(both.into_iter().all(|mut one| one.wait().unwrap().success()));
    let requests = std::fs::read_to_string(&log).unwrap();
    let written = requests
        .lines()
        .filter(|line| line.contains("PUT /audits/nightly/fleet/results/") && line.contains("\" 200"));
    assert_eq!(written.count(), images.digests.len());
    assert!(!requests.contains("not-a-secret"));
    let folder = dir.path().join("folder");
    let folder = folder.to_str().unwrap();
    assert_eq!(
        outcome(fleet(&caches[0], &["run", work, "--out", folder, "-q"], &[])),
        OK
    );
    let report = |place: &str| outcome(fleet(&caches[0], &["report", place, "--format", "json"], &variables));
    assert_eq!(report(place), report(folder));
    let (code, _, error) = outcome(fleet(&caches[0], &["run", work, "--out", "s3://none/x"], &variables));
    assert!(
        code == 2 && error.contains("s3://none/x answered 404 Not Found (NoSuchBucket)"),
        "{error}"
    );
    let (code, _, error) = outcome(fleet(&caches[0], &["report", place], &variables[..1]));
    assert!(
        code == 2 && error.contains("there are no credentials for the bucket"),
        "{error}"
    );
}
