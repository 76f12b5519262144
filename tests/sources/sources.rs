//! The verdict is the same for every image source.
//!
//! One fixture image passes through a real registry, a real Docker Engine, and archives of real tools. The program
//! audits each.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::docker::Dockerd;
use crate::registry_parts::{Guarded, REGISTRY, REQUESTS, Registry, SKOPEO, certificates, run};
use crate::support::{have, have_all, is_root};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The fixture: a devel image, in which the loader cache leads to CUPTI.
const IMAGE: &str = concat!("oci:", env!("CARGO_MANIFEST_DIR"), "/testdata/images/devel");

fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cupti-audit"));
    command.env_clear();
    command
}

/// The report without the parts that differ by source: the reference and the storage of the layers.
fn verdict(report: &[u8]) -> Value {
    let report: Value = serde_json::from_slice(report).unwrap();
    let diff_ids = report["image"]["layers"].as_array().unwrap().iter();
    let diff_ids: Vec<&Value> = diff_ids.map(|layer| &layer["diff_id"]).collect();
    json!({
        "cupti": report["cupti"], "consumers": report["consumers"], "findings": report["findings"],
        "gaps": report["gaps"], "platform": report["image"]["platform"], "diff_ids": diff_ids,
    })
}

fn audit(image: &str, arguments: &[&str]) -> Value {
    let output = program()
        .args(["--format", "json", image])
        .args(arguments)
        .output()
        .unwrap();
    assert_eq!(
        output.status.code(),
        Some(0),
        "{image}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    verdict(&output.stdout)
}

fn push(to: &str, arguments: &[&str]) {
    let to = format!("docker://{to}");
    run("skopeo", &[&["copy", "--quiet", IMAGE, &to], arguments].concat());
}

/// The report of an image, read with a cache in `folder`.
fn audit_cached(image: &str, folder: &Path, environment: (&str, &str)) -> String {
    let mut audit = program();
    audit.args(["--format=json", "--cache-dir"]).arg(folder).arg(image);
    let output = audit.env(environment.0, environment.1).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn of_layers_that_were_read_before_a_registry_is_asked_no_byte() {
    if !have_all(&[REGISTRY, SKOPEO]) {
        return;
    }
    let dir = TempDir::new().unwrap();
    let registry = Registry::start(dir.path(), None);
    let images = ["one", "two"].map(|tag| format!("{}/cuda/devel:{tag}", registry.address));
    for image in &images {
        push(image, &["--dest-tls-verify=false"]);
    }
    let cache = dir.path().join("cache");
    let asked = |image: &str| {
        let log = || fs::read_to_string(dir.path().join(REQUESTS)).unwrap();
        let before = log().len();
        let report = audit_cached(image, &cache, ("TZ", "UTC"));
        let log = log().split_off(before);
        let path = |line: &str| Some(line.split_once("GET /v2/cuda/devel/")?.1.split('/').next()?.to_owned());
        (report, log.lines().filter_map(path).collect::<Vec<_>>())
    };
    let (cold, all) = asked(&images[0]);
    let (warm, few) = asked(&images[0]);
    let (_, other) = asked(&images[1]);
    assert_eq!(warm, cold);
    assert_eq!(verdict(cold.as_bytes()), audit(IMAGE, &[]));
    let layers = serde_json::from_str::<Value>(&cold).unwrap()["image"]["layers"]
        .as_array()
        .unwrap()
        .len();
    assert_eq!(all.len(), 2 + layers);
    // The manifest and the config.
    assert_eq!(
        (few, other),
        (
            vec!["manifests".to_owned(), "blobs".to_owned()],
            vec!["manifests".to_owned(), "blobs".to_owned()]
        )
    );
}

/// The predicates of an image that passes and of one that fails.
fn predicates() -> [String; 2] {
    ["pip-torch", "headers-only"].map(|name| {
        let image = format!("oci:{}/testdata/images/{name}", env!("CARGO_MANIFEST_DIR"));
        let output = program().args(["--format=attestation", &image]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    })
}

#[test]
fn cosign_signs_the_predicate_of_an_image_and_verifies_it() {
    let Some(cosign) = crate::support::part("cosign/cosign") else {
        return;
    };
    if !have_all(&[REGISTRY, SKOPEO]) {
        return;
    }
    let dir = TempDir::new().unwrap();
    let registry = Registry::start(dir.path(), None);
    let [attested, other] = ["devel:1", "devel:2"].map(|name| format!("{}/cuda/{name}", registry.address));
    push(&attested, &["--dest-tls-verify=false"]);
    let from = concat!("oci:", env!("CARGO_MANIFEST_DIR"), "/testdata/images/headers-only");
    run(
        "skopeo",
        &[
            "copy",
            "--quiet",
            "--dest-tls-verify=false",
            from,
            &format!("docker://{other}"),
        ],
    );
    let output = program()
        .args(["--format=attestation", "--no-cache", &attested])
        .output()
        .unwrap();
    fs::write(dir.path().join("predicate.json"), output.stdout).unwrap();
    let ask = |words: &[&[&str]]| {
        let mut command = Command::new(&cosign);
        let command = command.current_dir(dir.path()).env("COSIGN_PASSWORD", "");
        let output = command.args(words.concat()).output().unwrap();
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        (output.status.success(), said)
    };
    let (made, said) = ask(&[&["generate-key-pair"]]);
    assert!(made, "{said}");
    let kind = ["--allow-http-registry", "--type", "urn:cupti-audit:attestation:v1"];
    let offline = ["--use-signing-config=false", "--tlog-upload=false"];
    // The second form is for admission controllers that read no bundles: docs/attest.md.
    for form in ["--new-bundle-format=true", "--new-bundle-format=false"] {
        let what = ["--key", "cosign.key", "--predicate", "predicate.json", form, &attested];
        let (signed, said) = ask(&[&["attest", "-y"], &offline, &kind, &what]);
        assert!(signed, "{form}: {said}");
        let verify = |image: &str| {
            let what = ["--insecure-ignore-tlog", "--key", "cosign.pub", form, image];
            ask(&[&["verify-attestation"], &kind, &what])
        };
        let (verified, said) = verify(&attested);
        assert!(verified, "{form}: {said}");
        assert!(!verify(&other).0, "{form}");
    }
    // Both forms are tags of their own in the same repository.
    let all = format!("registry:{}/cuda/devel", registry.address);
    let output = program().args(["fleet", "list", &all]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(
        said.starts_with("warning: 2 artifacts are no images and are left out, such as docker://"),
        "{said}"
    );
    let listed = String::from_utf8(output.stdout).unwrap();
    let names = |name: &str| listed.matches(&format!("cuda/devel:{name}\"")).count();
    assert_eq!((listed.lines().count(), names("1"), names("2")), (2, 1, 1), "{listed}");
}

#[test]
fn the_policies_of_a_cluster_admit_what_was_audited_to_pass_and_nothing_else() {
    let Some(languages) = crate::support::part("policies") else {
        return;
    };
    let [passes, fails] = predicates();
    let predicates = format!("[{passes}, {fails}]");
    let mut judge = Command::new("python3");
    judge.arg("tests/support/admission.py").env("PYTHONPATH", languages);
    let mut judge = judge.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    judge.stdin.take().unwrap().write_all(predicates.as_bytes()).unwrap();
    let said = String::from_utf8(judge.wait_with_output().unwrap().stdout).unwrap();
    insta::assert_snapshot!(said);
}

#[test]
fn a_registry_with_passwords_and_a_ca_of_its_own_wants_both() {
    if !have_all(&[REGISTRY, SKOPEO, ("openssl", "openssl"), ("htpasswd", "apache2-utils")]) {
        return;
    }
    let dir = TempDir::new().unwrap();
    let (ca, certificate, key) = certificates(dir.path());
    let htpasswd = dir.path().join("htpasswd");
    fs::write(&htpasswd, run("htpasswd", &["-Bbn", "ada", "secret:one"])).unwrap();
    let guarded = Guarded {
        tls: (&certificate, &key),
        htpasswd: &htpasswd,
    };
    let registry = Registry::start(dir.path(), Some(&guarded));
    let host = format!("localhost:{}", registry.address.port());
    let image = format!("{host}/cuda/devel:1");
    push(&image, &["--dest-creds", "ada:secret:one", "--dest-tls-verify=false"]);
    let home = dir.path().join("home");
    fs::create_dir(&home).unwrap();
    let ask = |password: Option<&str>, arguments: &[&str]| {
        let _ = fs::remove_file(home.join("config.json"));
        if let Some(password) = password {
            log_in(&home, &image, password);
        }
        let mut audit = program();
        audit.args(["--format=json", &image]).args(arguments);
        let output = audit.env("DOCKER_CONFIG", &home).output().unwrap();
        (
            output.status.code(),
            output.stdout,
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let trusts = ["--ca-cert", ca.to_str().unwrap()];
    for arguments in [trusts, ["--insecure-registry", &host]] {
        let (code, report, error) = ask(Some("secret:one"), &arguments);
        assert_eq!((code, error.as_str()), (Some(0), ""));
        assert_eq!(verdict(&report), audit(IMAGE, &[]));
    }
    let refused = format!(
        "HOST refused the credentials found in {}/config.json; docker login HOST again",
        home.display()
    );
    for (password, arguments, words) in [
        (Some("secret"), &trusts[..], &*refused),
        (
            None,
            &trusts,
            "no credentials for HOST, which asks for them; docker login HOST",
        ),
        (
            Some("secret:one"),
            &[],
            "the certificate of HOST is not trusted (invalid peer certificate: UnknownIssuer); give its CA with \
             --ca-cert FILE, or accept any certificate with --insecure-registry HOST",
        ),
    ] {
        let (code, report, error) = ask(password, arguments);
        let expected = format!("error: {image}: {words}\n").replace("HOST", &host);
        assert_eq!((code, error), (Some(2), expected));
        let report: Value = serde_json::from_slice(&report).unwrap();
        assert_eq!(
            (&report["schema"], &report["exit_code"]),
            (&json!("cupti-audit/unread/v1"), &json!(2))
        );
    }
}

/// Writes a `config.json` as `docker login` does.
fn log_in(home: &Path, image: &str, password: &str) {
    let host = image.split('/').next().unwrap();
    let auth = run("sh", &["-c", &format!("printf ada:{password} | base64")]);
    let auth = String::from_utf8(auth).unwrap();
    let config = serde_json::json!({"auths": {host: {"auth": auth.trim()}}});
    fs::write(home.join("config.json"), config.to_string()).unwrap();
}

/// How often the engine has saved the test image, including by `docker save`.
fn engine_saves(engine: &Dockerd) -> usize {
    let until = String::from_utf8(run("date", &["+%s.%N"])).unwrap();
    let times = ["events", "--since", "0", "--until", until.trim()];
    let events = engine.must(&[&times[..], &["--filter", "event=save", "--format", "{{.Actor.ID}}"]].concat());
    events.lines().count()
}

#[test]
fn an_engine_saves_an_image_once_and_the_cache_has_it_then() {
    if !have("skopeo", "skopeo") || !is_root() {
        return;
    }
    let Some(engine) = Dockerd::start() else {
        return;
    };
    let path = |name: &str| engine.dir().join(name);
    let archive = path("skopeo.tar").display().to_string();
    run(
        "skopeo",
        &["copy", "--quiet", IMAGE, &format!("docker-archive:{archive}:devel:1")],
    );
    engine.must(&["load", "--input", &archive]);
    let audited = || audit_cached("docker-daemon:devel:1", &path("cache"), ("DOCKER_HOST", &engine.host()));
    assert_eq!(engine_saves(&engine), 0);
    let report = audited();
    assert_eq!(verdict(report.as_bytes()), audit(IMAGE, &[]));
    assert_eq!((audited(), engine_saves(&engine)), (report, 1));
}

/// A private containerd; stopped when dropped.
struct Containerd {
    daemon: std::process::Child,
    dir: TempDir,
}

impl Containerd {
    fn start() -> Self {
        let dir = TempDir::new().unwrap();
        let at = |name: &str| dir.path().join(name).display().to_string();
        let config = format!(
            "version = 2\nroot = {:?}\nstate = {:?}\ndisabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n[grpc]\naddress = {:?}\n",
            at("root"),
            at("state"),
            at("sock")
        );
        fs::write(at("config.toml"), config).unwrap();
        let daemon = Command::new("containerd")
            .args(["-c", &at("config.toml"), "-l", "error"])
            .spawn()
            .unwrap();
        let started = Self { daemon, dir };
        let is_up = || started.ctr(&["version"]).status.success();
        assert!((0..100).any(|_| is_up() || {
            std::thread::sleep(std::time::Duration::from_millis(100));
            false
        }));
        started
    }

    fn ctr(&self, arguments: &[&str]) -> std::process::Output {
        let socket = self.dir.path().join("sock");
        Command::new("ctr")
            .arg("-a")
            .arg(socket)
            .args(arguments)
            .output()
            .unwrap()
    }
}

impl Drop for Containerd {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.daemon.id().to_string()).status();
        let _ = self.daemon.wait();
    }
}

#[test]
fn what_containerd_exports_is_read_from_standard_input() {
    if !have_all(&[("containerd", "containerd"), ("ctr", "containerd"), SKOPEO]) || !is_root() {
        return;
    }
    let containerd = Containerd::start();
    let at = |name: &str| containerd.dir.path().join(name).display().to_string();
    let name = "docker.io/library/app:1";
    run(
        "skopeo",
        &[
            "copy",
            "--quiet",
            IMAGE,
            &format!("oci-archive:{}:{name}", at("devel.tar")),
        ],
    );
    for words in [
        ["import", "--no-unpack", &at("devel.tar")],
        ["export", &at("exported.tar"), name],
    ] {
        let output = containerd.ctr(&[&["images"], &words[..]].concat());
        assert!(output.status.success(), "{output:?}");
    }
    let exported = Stdio::from(File::open(at("exported.tar")).unwrap());
    let report = program().args(["--format=json", "-"]).stdin(exported).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&report.stderr), "");
    assert_eq!(verdict(&report.stdout), audit(IMAGE, &[]));
}

/// A SIF in Apptainer's format (sif, `pkg/sif`): a squashfs, and the config of the original image.
fn sif(squashfs: &[u8], config: &[u8]) -> Vec<u8> {
    let object = |kind: u32, name: &str, extra: &[u8], place: usize, bytes: &[u8]| {
        let mut object = [&kind.to_le_bytes()[..], &[1], &[0; 12]].concat();
        object.extend(
            [place, bytes.len(), bytes.len(), 0, 0, 0, 0]
                .iter()
                .flat_map(|&it| (it as u64).to_le_bytes()),
        );
        object.extend(name.bytes());
        object.resize(201, 0);
        object.extend(extra);
        object.resize(585, 0);
        object
    };
    let place = 8192;
    let partition = [1_u32.to_le_bytes(), 2_u32.to_le_bytes()].concat();
    let objects = [
        object(0x4006, "oci-config.json", &[], place, config),
        object(
            0x4004,
            "",
            &[&partition[..], b"02\0"].concat(),
            place + config.len(),
            squashfs,
        ),
    ];
    let mut file = b"#!/usr/bin/env run-singularity\n\0SIF_MAGIC\x0001\x0002\0".to_vec();
    file.resize(88, 0);
    file.extend([objects.len(), 4096].iter().flat_map(|&it| (it as u64).to_le_bytes()));
    file.resize(4096, 0);
    file.extend(objects.concat());
    file.resize(place, 0);
    [&file, config, squashfs].concat()
}

/// An image unpacked by umoci, to pack as Apptainer does.
struct UnpackedBundle(TempDir);

impl UnpackedBundle {
    fn make() -> Option<Self> {
        if !have_all(&[("umoci", "umoci"), ("mksquashfs", "squashfs-tools")]) || !is_root() {
            return None;
        }
        let made = Self(TempDir::new().unwrap());
        let image = format!("{}:latest", IMAGE.strip_prefix("oci:").unwrap());
        run("umoci", &["unpack", "--image", &image, &made.at("bundle")]);
        Some(made)
    }

    fn at(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    /// A SIF and the squashfs in it.
    fn pack(&self, name: &str, options: &[&str]) -> [String; 2] {
        let squashfs = self.at(&format!("{name}.squashfs"));
        let words = [&*self.at("bundle/rootfs"), &*squashfs, "-no-progress"];
        run("mksquashfs", &[&words[..], options].concat());
        let file = self.at(&format!("{name}.sif"));
        fs::write(&file, sif(&fs::read(&squashfs).unwrap(), SIF_CONFIG)).unwrap();
        [file, squashfs]
    }
}

const SIF_CONFIG: &[u8] = br#"{"Env":["LD_LIBRARY_PATH=/usr/local/nvidia/lib:/usr/local/nvidia/lib64"],"Entrypoint":["/opt/nvidia/nvidia_entrypoint.sh"]}"#;

/// The report without the fields that a single-layer image cannot have.
fn without_layers(image: &str) -> Value {
    let mut said = audit(image, &[]);
    said["diff_ids"] = Value::Null;
    for copy in said["cupti"]["copies"].as_array_mut().unwrap() {
        copy["layer"] = Value::Null;
    }
    said
}

#[test]
fn an_image_of_apptainer_is_judged_as_what_it_was_built_from() {
    let Some(bundle) = UnpackedBundle::make() else { return };
    let expected = without_layers(IMAGE);
    let ways = [
        &["-comp", "gzip"][..],
        &["-comp", "zstd"],
        &["-noI", "-no-fragments", "-b", "4096"],
    ];
    for (number, options) in ways.iter().enumerate() {
        let [file, _] = bundle.pack(&number.to_string(), options);
        for written in [format!("sif:{file}"), file] {
            assert_eq!(without_layers(&written), expected, "{written} {options:?}");
        }
    }
    // `%environment` of a definition file sets variables that the config does not have.
    let scripts = Path::new(&bundle.at("bundle/rootfs")).join(".singularity.d/env");
    fs::create_dir_all(&scripts).unwrap();
    fs::copy(bundle.at("bundle/rootfs/bin/bash"), bundle.at("bundle/rootfs/bin/sh")).unwrap();
    let script = "#!/bin/sh\n# own\nexport LD_LIBRARY_PATH=/opt/mine\n";
    fs::write(scripts.join("90-environment.sh"), script).unwrap();
    let [file, _] = bundle.pack("own", &[]);
    let said = without_layers(&file);
    let findings = said["findings"].as_array().unwrap().iter();
    let rules: Vec<&Value> = findings.map(|finding| &finding["rule"]).collect();
    assert_eq!(rules, ["environment-set-at-start"], "{said}");
}

#[test]
fn what_is_no_image_of_apptainer_that_can_be_read_is_said() {
    let Some(bundle) = UnpackedBundle::make() else { return };
    let [_, xz] = bundle.pack("xz", &["-comp", "xz"]);
    fs::write(bundle.at("notes"), [b'x'; 4096]).unwrap();
    for (file, said) in [
        (
            xz,
            "its squashfs is compressed with xz, which is not read; unpack it with apptainer build --sandbox DIR FILE, and name rootfs:DIR",
        ),
        (
            bundle.at("bundle/config.json"),
            "it is JSON, such as docker inspect writes; the image itself: docker save NAME | cupti-audit -",
        ),
        (bundle.at("notes"), "it is neither a SIF nor a squashfs"),
    ] {
        let output = program().arg(format!("sif:{file}")).output().unwrap();
        assert_eq!(
            String::from_utf8(output.stderr).unwrap(),
            format!("error: {file} is not a container image: {said}\n")
        );
    }
}

#[test]
fn a_folder_that_is_no_root_is_an_error_and_not_an_image_without_cupti() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("main.py"), "import torch\n").unwrap();
    let folder = dir.path().display();
    let output = program().arg(format!("rootfs:{folder}")).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        String::from_utf8(output.stderr).unwrap(),
        format!(
            "error: rootfs:{folder} is not a container image: it has none of the folders of a root file system (bin, etc, lib, \
             usr), and no program\n"
        )
    );
}

#[test]
fn an_unpacked_image_is_judged_as_the_image() {
    if !have("umoci", "umoci") || !is_root() {
        return;
    }
    let dir = TempDir::new().unwrap();
    let bundle = dir.path().join("bundle").display().to_string();
    let layout = IMAGE.strip_prefix("oci:").unwrap();
    run("umoci", &["unpack", "--image", &format!("{layout}:latest"), &bundle]);
    let folder = audit(&format!("rootfs:{bundle}/rootfs"), &[]);
    let image = audit(IMAGE, &[]);
    // The same root as a tar, as `docker export` writes it, with and without its scheme.
    let tar = dir.path().join("root.tar.gz").display().to_string();
    run("tar", &["-C", &format!("{bundle}/rootfs"), "-czf", &tar, "."]);
    let mut piped = Command::new("cat").arg(&tar).stdout(Stdio::piped()).spawn().unwrap();
    let output = program()
        .args(["--format=json", "rootfs-archive:/dev/stdin"])
        .stdin(piped.stdout.take().unwrap())
        .output()
        .unwrap();
    piped.wait().unwrap();
    assert_eq!(verdict(&output.stdout), folder, "{output:?}");
    for written in [format!("rootfs-archive:{tar}"), tar] {
        assert_eq!(audit(&written, &[]), folder, "{written}");
    }
    for key in ["status", "status_nvidia", "headers"] {
        assert_eq!(folder["cupti"][key], image["cupti"][key], "{key}");
    }
    for key in ["path", "real_path", "version", "owner", "loadable", "how"] {
        assert_eq!(
            folder["cupti"]["copies"][0][key], image["cupti"]["copies"][0][key],
            "{key}"
        );
    }
}
