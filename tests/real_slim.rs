//! Is what `slim` makes an image to real registries, engines and loaders, and is NVIDIA's own CUPTI loaded in it?

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "the judges are real programs, and tests may panic"
)]

#[path = "support/cupti_parts.rs"]
mod cupti_parts;
#[path = "support/engine.rs"]
mod docker;
#[allow(dead_code, reason = "each test target uses its own part of it")]
#[path = "support/registry_parts.rs"]
mod registry_parts;
mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use cupti_audit::image::verify::hex;
use cupti_audit::layer::{self, Expected};
use cupti_audit::limits::Limits;
use cupti_audit::loader::{Arch, CpuLevel, Linker, cache_writer, ldconfig};
use cupti_audit::rootfs;
use docker::Dockerd;
use registry_parts::{REQUESTS, Registry, run};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use support::{have_all, is_root};
use testkit::layer::{Compression, Layer};
use testkit::oci::{Image, Layout};

const WHEEL: &str = "nvidia-cuda-cupti-cu12-12.4.127";
/// What a program does that is linked with nothing: only the loader's cache leads to the library.
const OPENS: &str = "import ctypes\nfor name in ('libcupti.so.12', 'libnvperf_host.so', 'libnvperf_target.so'):\n    ctypes.CDLL(name)\nprint([line.split()[-1] for line in open('/proc/self/maps') if 'libcupti' in line][0])";

fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cupti-audit"));
    command
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env_clear()
        .stdin(Stdio::null());
    command
}

fn said(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    String::from_utf8_lossy(out).into_owned() + &String::from_utf8_lossy(err)
}

/// Makes an image, and gives what was said.
fn slim(host: &str, arguments: &[&str]) -> String {
    let output = program(&[&["slim", "--no-config"], arguments].concat())
        .env("DOCKER_HOST", host)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    said(&output)
}

fn are_there() -> bool {
    let tools = [
        ("docker-registry", "docker-registry"),
        ("skopeo", "skopeo"),
        ("python3", "python3"),
    ];
    cupti_parts::are_there() && have_all(&tools)
}

/// The wheel as pip downloads it.
fn wheel(folder: &Path) -> PathBuf {
    let file = folder.join("nvidia_cuda_cupti_cu12-12.4.127-py3-none-manylinux2014_x86_64.whl");
    let packed = Command::new("python3")
        .args(["-m", "zipfile", "-c"])
        .arg(&file)
        .args(["nvidia", "nvidia_cuda_cupti_cu12-12.4.127.dist-info"])
        .current_dir(cupti_parts::wheel(WHEEL))
        .status()
        .unwrap();
    assert!(packed.success());
    file
}

/// What a process in a container of the image gets.
fn opened(engine: &Dockerd, image: &str) -> String {
    engine.must(&[
        "run",
        "--rm",
        "--network=none",
        image,
        "python3",
        "-c",
        OPENS,
    ])
}

fn bookworm(engine: &Dockerd, name: &str) {
    let tar = support::parts().join("bookworm.tar");
    engine.must(&["import", tar.to_str().unwrap(), name]);
}

#[test]
fn a_pushed_image_is_pulled_by_everybody_and_loads_the_real_cupti() {
    if !are_there() {
        return;
    }
    let Some(engine) = Dockerd::start() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let registry = Registry::start(folder.path(), None);
    let at = |name: &str| format!("{}/{name}", registry.address);
    bookworm(&engine, &at("base:1"));
    engine.must(&["push", &at("base:1")]);
    let wheel = wheel(folder.path());
    let (from, to) = (
        format!("docker://{}", at("base:1")),
        format!("docker://{}", at("group/out:1")),
    );
    let arguments = [
        &*from,
        "--phase",
        "profiling",
        "--cupti-from",
        wheel.to_str().unwrap(),
    ];
    let before = requests(folder.path()).len();
    let text = slim("", &[&arguments[..], &["-o", &to]].concat());
    assert!(
        text.contains("1 layers sent, 1 mounted, 0 there already"),
        "{text}"
    );
    let base = raw(&at("base:1"));
    let layer = base["layers"][0]["digest"].as_str().unwrap();
    let seen: Vec<String> = requests(folder.path()).split_off(before);
    let of_layer: Vec<&str> = seen
        .iter()
        .filter(|line| line.contains(&layer.replace(':', "%3A")) || line.contains(layer))
        .map(|line| line.split("?").next().unwrap())
        .collect();
    // Read once for the audit, and mounted; neither had again nor sent.
    assert_eq!(
        of_layer,
        [
            format!("GET /v2/base/blobs/{layer}"),
            format!("HEAD /v2/group/out/blobs/{layer}"),
            "POST /v2/group/out/blobs/uploads/".to_owned(),
        ]
    );
    let made = raw(&at("group/out:1"));
    assert_eq!(made["mediaType"], base["mediaType"]);
    assert_eq!(made["layers"][0], base["layers"][0]);
    // By Docker, and run.
    engine.must(&["pull", "--quiet", &at("group/out:1")]);
    let path = opened(&engine, &at("group/out:1"));
    assert_eq!(path, "/opt/cupti/lib/libcupti.so.12");
    let history = engine.must(&[
        "history",
        "--no-trunc",
        "--format",
        "{{.CreatedBy}} | {{.Comment}}",
        &at("group/out:1"),
    ]);
    assert!(
        history.starts_with(
            "cupti-audit slim --phase profiling | brings libcupti.so.12 of 12.4.127 (3 files, "
        ),
        "{history}"
    );
    same_as_ldconfig(&engine, &at("group/out:1"));
    // By skopeo.
    let copy = format!("oci:{}:1", folder.path().join("copy").display());
    run(
        "skopeo",
        &[
            "--insecure-policy",
            "copy",
            "--quiet",
            "--src-tls-verify=false",
            &to,
            &copy,
        ],
    );
    // Again: the same image, and nothing of it has to be sent.
    let again = format!("docker://{}", at("group/out:2"));
    let text = slim("", &[&arguments[..], &["-o", &again]].concat());
    assert!(
        text.contains("0 layers sent, 0 mounted, 2 there already"),
        "{text}"
    );
    assert_eq!(raw(&at("group/out:2")), made);
    let refused = program(&[&["slim"], &arguments[..], &["-o", &to]].concat())
        .output()
        .unwrap();
    assert_eq!(
        said(&refused),
        format!("error: {to} is there already; --force replaces it\n")
    );
    println!(
        "an image with the real CUPTI {WHEEL}, made without an engine, was pulled by Docker and skopeo, and loads it"
    );
}

/// What Docker sees of a manifest.
fn raw(image: &str) -> Value {
    let name = format!("docker://{image}");
    let raw = run("skopeo", &["inspect", "--raw", "--tls-verify=false", &name]);
    println!("{image} is sha256:{}", hex(&Sha256::digest(&raw)));
    serde_json::from_slice(&raw).unwrap()
}

/// Every request that a registry noted, as method and address.
fn requests(folder: &Path) -> Vec<String> {
    let log = fs::read_to_string(folder.join(REQUESTS)).unwrap();
    let request = |line: &str| {
        let quoted = line.split('"').nth(1)?;
        Some(quoted.rsplit_once(" HTTP/")?.0.to_owned())
    };
    log.lines().filter_map(request).collect()
}

/// Whether the cache of an image is the one that its own ldconfig makes.
fn same_as_ldconfig(engine: &Dockerd, image: &str) {
    let script = "ldconfig -p | grep -v generated; ldconfig; echo; ldconfig -p | grep -v generated";
    let both = engine.must(&["run", "--rm", "--network=none", image, "sh", "-c", script]);
    let (ours, real) = both.split_once("\n\n").unwrap();
    assert!(ours.contains("libcupti.so.12 (libc6,x86-64) => /opt/cupti/lib/libcupti.so.12"));
    assert_eq!(ours, real);
}

#[test]
fn an_engine_is_given_an_image_and_runs_it() {
    if !are_there() {
        return;
    }
    let Some(engine) = Dockerd::start() else {
        return;
    };
    bookworm(&engine, "base:1");
    let host = engine.host();
    let folder = cupti_parts::wheel(WHEEL);
    let arguments = [
        "docker-daemon:base:1",
        "--phase",
        "profiling",
        "--cupti-from",
        folder.to_str().unwrap(),
        "-o",
    ];
    let to = |name: &'static str| [&arguments[..], &[name]].concat();
    slim(&host, &to("docker-daemon:app:slim"));
    assert_eq!(opened(&engine, "app:slim"), "/opt/cupti/lib/libcupti.so.12");
    // The same bytes again: the same id.
    slim(&host, &to("docker-daemon:app:again"));
    let id = |name: &str| engine.must(&["image", "inspect", "--format", "{{.Id}}", name]);
    assert_eq!(id("app:slim"), id("app:again"));
    let refused = program(&[&["slim"], &to("docker-daemon:app:slim")[..]].concat())
        .env("DOCKER_HOST", &host)
        .output()
        .unwrap();
    assert_eq!(
        said(&refused),
        "error: docker-daemon:app:slim is there already; --force replaces it\n"
    );
    // Saved, and copied by skopeo.
    let out = engine.dir().join("out");
    fs::create_dir(&out).unwrap();
    let saved = format!("docker-archive:{}/saved.tar:app:saved", out.display());
    slim(&host, &[&arguments[..], &[&saved]].concat());
    engine.must(&["load", "-i", &format!("{}/saved.tar", out.display())]);
    assert_eq!(id("app:saved"), id("app:slim"));
    let layout = format!("oci-archive:{}/layout.tar:1", out.display());
    slim(&host, &[&arguments[..], &[&layout]].concat());
    for (from, to) in [(&saved, "one"), (&layout, "two")] {
        let to = format!("oci:{}/{to}:1", out.display());
        run(
            "skopeo",
            &["--insecure-policy", "copy", "--quiet", from, &to],
        );
    }
}

#[test]
fn a_target_that_cannot_be_written_is_a_sentence() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().display();
    let script = format!(
        "mount -t tmpfs -o ro none {place} && exec {} slim oci:testdata/images/devel --phase inference -o oci:{place}/out",
        env!("CARGO_BIN_EXE_cupti-audit")
    );
    let output = Command::new("unshare")
        .args(["-m", "sh", "-c", &script])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert_eq!(
        said(&output).replace(&place.to_string(), "PLACE"),
        "error: PLACE cannot be written in: read-only filesystem or storage medium\n"
    );
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_file_of_an_image_is_taken_out_of_the_layer_that_holds_it() {
    if !are_there() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let image = cupti_parts::pip(Layer::new(), WHEEL, "opt/python");
    let image = Image::new("linux/amd64")
        .layer("pip install", &image, Compression::None)
        .layer("touch", &Layer::new().file("x", "x"), Compression::Gzip);
    let mut layout = Layout::new();
    layout.add("1", &[image]);
    layout.write_to(&folder.path().join("from")).unwrap();
    let from = format!("oci:{}/from", folder.path().display());
    let to = format!("oci:{}/out", folder.path().display());
    let proof = folder.path().join("proof.json");
    slim(
        "",
        &[
            "oci:testdata/images/headers-only",
            "--phase",
            "training",
            "--cupti-from",
            &from,
            "-o",
            &to,
            "--proof",
            proof.to_str().unwrap(),
        ],
    );
    let proof: Value = serde_json::from_slice(&fs::read(proof).unwrap()).unwrap();
    let expected = Sha256::digest(cupti_parts::cupti_12("libcupti.so.12"));
    assert_eq!(proof["added"][0]["sha256"], hex(&expected));
}

#[test]
fn the_cache_of_a_debian_is_the_one_that_the_real_ldconfig_lists() {
    let Some(debian) = support::part("bookworm") else {
        return;
    };
    let Some(tar) = support::part("bookworm.tar") else {
        return;
    };
    let tar = fs::File::open(tar).unwrap();
    let index = layer::index("debian", tar, &Expected::default(), &Limits::default()).unwrap();
    let (rootfs, _) = rootfs::merge([&index]);
    let arch = Arch::of_platform("amd64").unwrap();
    let linker = Linker::find(&rootfs, arch, CpuLevel::V3).unwrap();
    let regenerated = ldconfig::regenerate(&rootfs, &linker);
    let ours = cache_writer::write(&regenerated.cache, arch.data, "ours").unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), &ours).unwrap();
    let listed = |file: &Path| {
        let output = Command::new("/sbin/ldconfig")
            .args(["-p", "-C"])
            .arg(file)
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let lines = text.lines().skip(1);
        let lines = lines.filter(|line| !line.starts_with("Cache generated by"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let cache = debian.join("etc/ld.so.cache");
    let (real, size) = (listed(&cache), fs::metadata(&cache).unwrap().len());
    assert_eq!(listed(file.path()), real);
    println!(
        "our cache of a Debian lists the {} entries of the real ldconfig, in {} bytes to its {size}",
        real.len(),
        ours.len()
    );
}
