//! Real registries, engines and loaders accept the images of `slim`, and NVIDIA's own CUPTI loads in them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read as _, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Instant;

use crate::archive_layer::layer_of;
use crate::docker::Dockerd;
use crate::registry_parts::{Guarded, REQUESTS, Registry, certificates, run};
use crate::support::{have_all, is_root, program};
use image_linkage::digest::to_hex;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use testkit::layer::{Compression, Layer};
use testkit::oci::{Image, Layout};

const WHEEL: &str = "nvidia-cuda-cupti-cu12-12.4.127";
/// A program without linked libraries: only the loader's cache leads to CUPTI.
const OPENS: &str = "import ctypes\nfor name in ('libcupti.so.12', 'libnvperf_host.so', 'libnvperf_target.so'):\n    ctypes.CDLL(name)\nprint([line.split()[-1] for line in open('/proc/self/maps') if 'libcupti' in line][0])";

fn said(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    String::from_utf8_lossy(out).into_owned() + &String::from_utf8_lossy(err)
}

/// Makes an image and returns the output.
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
    crate::cupti_parts::are_there() && have_all(&tools)
}

/// The wheel as pip downloads it.
fn wheel(folder: &Path) -> PathBuf {
    let file = folder.join("nvidia_cuda_cupti_cu12-12.4.127-py3-none-manylinux2014_x86_64.whl");
    let packed = Command::new("python3")
        .args(["-m", "zipfile", "-c"])
        .arg(&file)
        .args(["nvidia", "nvidia_cuda_cupti_cu12-12.4.127.dist-info"])
        .current_dir(crate::cupti_parts::wheel(WHEEL))
        .status()
        .unwrap();
    assert!(packed.success());
    file
}

/// The path of the CUPTI that a process in a container of the image loads.
fn opened(engine: &Dockerd, image: &str) -> String {
    engine.must(&["run", "--rm", "--network=none", image, "python3", "-c", OPENS])
}

fn bookworm(engine: &Dockerd, name: &str) {
    let tar = crate::support::parts().join("bookworm.tar");
    engine.must(&["import", tar.to_str().unwrap(), name]);
}

/// A registry with a Debian image as `base:1`; `slim` pushes the result as `group/out:1`.
struct Pushed {
    engine: Dockerd,
    folder: tempfile::TempDir,
    registry: Registry,
    wheel: PathBuf,
}

impl Pushed {
    fn new() -> Option<Self> {
        let engine = Dockerd::start().filter(|_| are_there())?;
        let folder = tempfile::tempdir().unwrap();
        let pushed = Self {
            registry: Registry::start(folder.path(), None),
            wheel: wheel(folder.path()),
            engine,
            folder,
        };
        bookworm(&pushed.engine, &pushed.at("base:1"));
        pushed.engine.must(&["push", &pushed.at("base:1")]);
        Some(pushed)
    }

    fn at(&self, name: &str) -> String {
        format!("{}/{name}", self.registry.address)
    }

    fn arguments(&self, to: &str) -> Vec<String> {
        let (from, to) = (format!("docker://{}", self.at("base:1")), self.to(to));
        let wheel = self.wheel.to_str().unwrap();
        let words = [&*from, "--phase", "profiling", "--cupti-from", wheel, "-o", &to];
        words.map(str::to_owned).to_vec()
    }

    fn to(&self, name: &str) -> String {
        format!("docker://{}", self.at(name))
    }

    fn slim(&self, to: &str) -> String {
        let arguments = self.arguments(to);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        slim("", &arguments)
    }
}

#[test]
fn a_pushed_image_is_pulled_by_everybody_and_loads_the_real_cupti() {
    let Some(pushed) = Pushed::new() else {
        return;
    };
    let (engine, image) = (&pushed.engine, pushed.at("group/out:1"));
    let before = requests(pushed.folder.path()).len();
    let text = pushed.slim("group/out:1");
    assert!(text.contains("1 layers sent, 1 mounted, 0 there already"), "{text}");
    mounted(&pushed, before);
    // Docker pulls and runs it.
    engine.must(&["pull", "--quiet", &image]);
    assert_eq!(opened(engine, &image), "/opt/cupti/lib/libcupti.so.12");
    let form = "{{.CreatedBy}} | {{.Comment}}";
    let history = engine.must(&["history", "--no-trunc", "--format", form, &image]);
    let expected = "cupti-audit slim --phase profiling | brings libcupti.so.12 of 12.4.127 (3 files, ";
    assert!(history.starts_with(expected), "{history}");
    same_as_ldconfig(engine, &image);
    // skopeo copies it.
    let copy = format!("oci:{}:1", pushed.folder.path().join("copy").display());
    let copying = ["--insecure-policy", "copy", "--quiet", "--src-tls-verify=false"];
    run("skopeo", &[&copying[..], &[&pushed.to("group/out:1"), &copy]].concat());
    again(&pushed);
    println!(
        "an image with the real CUPTI of {WHEEL}, made without an engine, is pulled by Docker and skopeo, and loads it"
    );
}

/// Checks that the kept layer was downloaded once, for the audit, and was mounted rather than uploaded.
fn mounted(pushed: &Pushed, before: usize) {
    let (base, made) = (raw(&pushed.at("base:1")), raw(&pushed.at("group/out:1")));
    assert_eq!(made["mediaType"], base["mediaType"]);
    assert_eq!(made["layers"][0], base["layers"][0]);
    let layer = base["layers"][0]["digest"].as_str().unwrap();
    let seen: Vec<String> = requests(pushed.folder.path()).split_off(before);
    let of_layer: Vec<&str> = seen
        .iter()
        .filter(|line| line.contains(&layer.replace(':', "%3A")) || line.contains(layer))
        .map(|line| line.split('?').next().unwrap())
        .collect();
    assert_eq!(
        of_layer,
        [
            format!("GET /v2/base/blobs/{layer}"),
            format!("HEAD /v2/group/out/blobs/{layer}"),
            "POST /v2/group/out/blobs/uploads/".to_owned(),
        ]
    );
}

/// Checks that a second run gives the same image without an upload, and that an existing tag is not replaced.
fn again(pushed: &Pushed) {
    let text = pushed.slim("group/out:2");
    assert!(text.contains("0 layers sent, 0 mounted, 2 there already"), "{text}");
    let [one, two] = ["group/out:1", "group/out:2"].map(|name| raw(&pushed.at(name)));
    assert_eq!(one, two);
    let mut refused = program(&["slim"]);
    let refused = refused.args(pushed.arguments("group/out:1")).output();
    let to = pushed.to("group/out:1");
    assert_eq!(
        said(&refused.unwrap()),
        format!("error: {to} is there already; --force replaces it\n")
    );
}

/// A manifest, as skopeo returns it.
fn raw(image: &str) -> Value {
    let name = format!("docker://{image}");
    let raw = run("skopeo", &["inspect", "--raw", "--tls-verify=false", &name]);
    println!("{image} is sha256:{}", to_hex(&Sha256::digest(&raw)));
    serde_json::from_slice(&raw).unwrap()
}

/// Every request in the registry's log, as method and address.
fn requests(folder: &Path) -> Vec<String> {
    let log = fs::read_to_string(folder.join(REQUESTS)).unwrap();
    let request = |line: &str| {
        let quoted = line.split('"').nth(1)?;
        Some(quoted.rsplit_once(" HTTP/")?.0.to_owned())
    };
    log.lines().filter_map(request).collect()
}

/// Checks that the loader cache of an image equals the one that its own ldconfig writes.
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
    let folder = crate::cupti_parts::wheel(WHEEL);
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
    // A second run gives the same bytes, and so the same id.
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
    // Save to an archive, and copy it with skopeo.
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
        run("skopeo", &["--insecure-policy", "copy", "--quiet", from, &to]);
    }
}

#[test]
fn a_registry_with_a_password_takes_an_image_from_who_has_it() {
    let tools = [
        ("docker-registry", "docker-registry"),
        ("openssl", "openssl"),
        ("htpasswd", "apache2-utils"),
    ];
    if !have_all(&tools) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (ca, certificate, key) = certificates(folder.path());
    let htpasswd = folder.path().join("htpasswd");
    fs::write(&htpasswd, run("htpasswd", &["-Bbn", "user", "right:one"])).unwrap();
    let guarded = Guarded {
        tls: (&certificate, &key),
        htpasswd: &htpasswd,
    };
    let registry = Registry::start(folder.path(), Some(&guarded));
    let host = registry.address.to_string();
    let (to, ca) = (format!("docker://{host}/app:1"), ca.to_str().unwrap());
    let from = "oci:testdata/images/devel";
    let words = ["slim", from, "--phase", "inference", "--drop", "--ca-cert", ca];
    let push = || {
        let mut program = program(&words);
        program.args(["-o", &to]).env("DOCKER_CONFIG", folder.path());
        program.output().unwrap()
    };
    let refused = push();
    assert_eq!(refused.status.code(), Some(2));
    assert_eq!(
        said(&refused).replace(&host, "HOST"),
        "error: no credentials for HOST, which asks for them; docker login HOST\n"
    );
    // user:right:one
    let config = json!({"auths": {&host: {"auth": "dXNlcjpyaWdodDpvbmU="}}});
    fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
    let pushed = push();
    assert_eq!(pushed.status.code(), Some(0), "{}", said(&pushed));
    let audit = program(&["--ca-cert", ca, "--phase", "inference", &to])
        .env("DOCKER_CONFIG", folder.path())
        .output()
        .unwrap();
    assert!(said(&audit).contains("CUPTI is not in the image"), "{}", said(&audit));
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
    let Some(debian) = crate::support::part("bookworm") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    // The real library needs symbol versions of a real libc.
    let names = [
        "c.so.6",
        "dl.so.2",
        "rt.so.1",
        "pthread.so.0",
        "m.so.6",
        "util.so.1",
        "gcc_s.so.1",
        "stdc++.so.6",
    ];
    let paths = names.map(|name| format!("lib/x86_64-linux-gnu/lib{name}"));
    let read = |path: &str| fs::read(debian.join("usr").join(path)).unwrap();
    let linker = read("lib/x86_64-linux-gnu/ld-linux-x86-64.so.2");
    let base = Layer::new().executable("lib64/ld-linux-x86-64.so.2", linker);
    let base = paths.iter().fold(base, |base, path| base.executable(path, read(path)));
    let mut layout = Layout::new();
    layout.add(
        "1",
        &[Image::new("linux/amd64").layer("base", &base, Compression::None)],
    );
    layout.write_to(&folder.path().join("base")).unwrap();
    let target = format!("oci:{}/base", folder.path().display());
    let image = crate::cupti_parts::pip(Layer::new(), WHEEL, "opt/python");
    let image = Image::new("linux/amd64")
        .layer("pip install", &image, Compression::None)
        .layer("touch", &Layer::new().file("x", "x"), Compression::Gzip);
    let mut layout = Layout::new();
    layout.add("1", &[image]);
    layout.write_to(&folder.path().join("from")).unwrap();
    let from = format!("oci:{}/from", folder.path().display());
    let to = folder.path().join("out.tar");
    let output = format!("docker-archive:{}", to.display());
    slim(
        "",
        &[&target, "--phase", "training", "--cupti-from", &from, "-o", &output],
    );
    let proof = layer_of(&to, 1)["usr/share/cupti-audit/proof.json"].clone().unwrap();
    let proof: Value = serde_json::from_slice(&proof).unwrap();
    let expected = Sha256::digest(crate::cupti_parts::cupti_12("libcupti.so.12"));
    assert_eq!(proof["added"][0]["sha256"], to_hex(&expected));
}

/// The exit code and output of `/opt/program` in the root file system, optionally with `LD_LIBRARY_PATH`.
fn started(root: &Path, library_path: Option<&str>) -> (Option<i32>, String) {
    let mut program = Command::new("chroot");
    program.arg(root).arg("/opt/program");
    program.env_remove("LD_LIBRARY_PATH");
    program.envs(library_path.map(|path| ("LD_LIBRARY_PATH", path)));
    let output = program.output().unwrap();
    (output.status.code(), said(&output))
}

/// Compiles a C program on this machine.
fn compiled(source: &str, arguments: &[&str], to: &Path) -> Vec<u8> {
    let file = to.with_extension("c");
    fs::write(&file, source).unwrap();
    let mut gcc = Command::new("gcc");
    let gcc = gcc.arg("-o").arg(to).arg(&file).args(arguments);
    let output = gcc.output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    fs::read(to).unwrap()
}

/// Unpacks the layers of a layout on top of each other.
fn unpacked(layout: &Path, to: &Path) {
    let read = |path: &Path| serde_json::from_slice::<Value>(&fs::read(path).unwrap()).unwrap();
    let blob = |of: &Value| {
        let digest = of["digest"].as_str().unwrap();
        layout.join("blobs").join(digest.replace(':', "/"))
    };
    let manifest = read(&blob(&read(&layout.join("index.json"))["manifests"][0]));
    fs::create_dir(to).unwrap();
    for layer in manifest["layers"].as_array().unwrap() {
        let mut tar = Command::new("tar");
        let tar = tar.arg("-C").arg(to).arg("-xf").arg(blob(layer));
        assert!(tar.status().unwrap().success());
    }
}

/// An archive in the format of old engines. GNU tar packed its layers and padded them to 10,240 bytes. Also returns
/// their digests.
fn packed_by_tar(folder: &Path) -> (String, Vec<String>) {
    let files = [
        ("base", "etc/base"),
        ("above", "usr/local/cuda/lib64/libcublas_static.a"),
    ];
    let mut archive = Layer::new();
    let (mut names, mut ids) = (Vec::new(), Vec::new());
    for (name, file) in files {
        let root = folder.join(name);
        fs::create_dir_all(root.join(file).parent().unwrap()).unwrap();
        fs::write(root.join(file), name).unwrap();
        let root = root.to_str().unwrap();
        let layer = run("tar", &["-C", root, "--owner=0", "--group=0", "-c", "."]);
        assert_eq!(layer.len() % 10_240, 0);
        ids.push(format!("sha256:{}", to_hex(&Sha256::digest(&layer))));
        names.push(format!("{name}/layer.tar"));
        archive = archive.file(format!("{name}/layer.tar"), layer);
    }
    let rootfs = json!({"type": "layers", "diff_ids": ids});
    let config = json!({"architecture": "amd64", "os": "linux", "config": {}, "rootfs": rootfs}).to_string();
    let name = format!("{}.json", to_hex(&Sha256::digest(&config)));
    let manifest = json!([{"Config": name, "RepoTags": ["app:1"], "Layers": names}]).to_string();
    let archive = archive.file(name, config).file("manifest.json", manifest);
    fs::write(folder.join("app.tar"), archive.tar()).unwrap();
    (format!("{}/app.tar", folder.display()), ids)
}

/// The diff ids of an image's layers as the program reads them; it must accept every digest.
fn layers_of(host: &str, image: &str) -> Vec<String> {
    let words = ["--no-config", "--fail-on", "never", "--format", "json", image];
    let output = program(&words).env("DOCKER_HOST", host).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{image}: {}", said(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let layers = report["image"]["layers"].as_array().unwrap().iter();
    layers
        .map(|layer| layer["diff_id"].as_str().unwrap().to_owned())
        .collect()
}

/// An archive of GNU tar as seen by an engine, by the archives it saves, and by a registry.
fn images_of_tar(engine: &Dockerd, registry: &Registry, folder: &Path, archive: &str) -> [String; 4] {
    let pushed = format!("{}/app:1", registry.address);
    engine.must(&["load", "--quiet", "-i", archive]);
    engine.must(&["tag", "app:1", &pushed]);
    engine.must(&["push", "--quiet", &pushed]);
    let saved = format!("{}/saved.tar", folder.display());
    engine.must(&["save", "-o", &saved, "app:1"]);
    let docker_type = "application/vnd.docker.distribution.manifest.v2+json";
    assert_eq!(
        raw(&pushed)["mediaType"],
        docker_type,
        "an engine pushes Docker's media types"
    );
    [
        format!("docker-daemon:{pushed}"),
        format!("docker-archive:{saved}"),
        format!("docker-archive:{archive}"),
        format!("docker://{pushed}"),
    ]
}

#[test]
fn what_is_written_is_read_by_skopeo_umoci_and_docker() {
    let tools = [
        ("docker-registry", "docker-registry"),
        ("skopeo", "skopeo"),
        ("umoci", "umoci"),
        ("tar", "tar"),
    ];
    if !have_all(&tools) {
        return;
    }
    let Some(engine) = Dockerd::start() else { return };
    let folder = engine.dir().join("all");
    fs::create_dir(&folder).unwrap();
    let (host, registry) = (engine.host(), Registry::start(&folder, None));
    let (archive, ids) = packed_by_tar(&folder);
    let sources = images_of_tar(&engine, &registry, &folder, &archive);
    let mut read = 0;
    for (number, from) in sources.iter().enumerate() {
        for drop in [&[][..], &["--drop"]] {
            let name = format!("{number}{}", drop.len());
            let at = |kind: &str| folder.join(format!("{kind}{name}")).display().to_string();
            let copied = |from: &str| {
                let copy = ["--insecure-policy", "copy", "--quiet", "--src-tls-verify=false", from];
                run("skopeo", &[&copy[..], &[&format!("dir:{}", at("copy"))]].concat());
                fs::remove_dir_all(at("copy")).unwrap();
            };
            let outputs = [
                format!("oci:{}:1", at("layout")),
                format!("oci-archive:{}:1", at("layout.tar")),
                format!("docker-archive:{}:out:{name}", at("saved.tar")),
                format!("docker-daemon:out:daemon{name}"),
                format!("docker://{}/out:{name}", registry.address),
            ];
            for to in &outputs {
                slim(&host, &[&[from, "--phase", "inference", "-o", to][..], drop].concat());
                let layers = layers_of(&host, to);
                assert_eq!(layers[0], ids[0], "{from} {to}");
                assert_eq!(layers[1] == ids[1], drop.is_empty(), "{from} {to}");
                read += 1;
            }
            let [layout, layout_tar, saved, _, pushed] = &outputs;
            for image in [layout, layout_tar, saved, pushed] {
                copied(image);
            }
            let unpacked = at("bundle");
            run(
                "umoci",
                &["unpack", "--image", layout.strip_prefix("oci:").unwrap(), &unpacked],
            );
            assert_eq!(fs::read(format!("{unpacked}/rootfs/etc/base")).unwrap(), b"base");
            let dropped = Path::new(&unpacked).join("rootfs/usr/local/cuda/lib64/libcublas_static.a");
            assert_eq!(dropped.exists(), drop.is_empty());
            engine.must(&["load", "--quiet", "-i", &at("saved.tar")]);
            engine.must(&["pull", "--quiet", pushed.strip_prefix("docker://").unwrap()]);
            let id = |name: &str| engine.must(&["image", "inspect", "--format", "{{.Id}}", name]);
            let ids = [
                format!("out:{name}"),
                format!("out:daemon{name}"),
                pushed.replace("docker://", ""),
            ];
            let [loaded, sent, pulled] = ids.map(|name| id(&name));
            assert_eq!((&loaded, &pulled), (&sent, &sent));
        }
    }
    println!(
        "{read} images that slim made of those of an engine, a registry and GNU tar are read by skopeo, umoci and Docker"
    );
}

/// The image has the loader and the C library of this machine, because only they know the value of `$LIB`.
#[test]
fn a_program_starts_without_what_was_dropped_beside_its_library() {
    let tools = [("gcc", "gcc"), ("chroot", "coreutils"), ("tar", "tar")];
    let libraries = Path::new("/lib/x86_64-linux-gnu");
    if !have_all(&tools) || !is_root() || !libraries.join("libc.so.6").exists() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let host = compiled(
        "int nv(void) { return 42; }",
        &["-shared", "-fPIC", "-Wl,-soname,libnvperf_host.so"],
        &at("libnvperf_host.so"),
    );
    let library = at("libnvperf_host.so");
    let (plain, inside) = (
        "usr/local/cuda/lib/x86_64-linux-gnu/nv",
        "usr/local/cuda/alib/x86_64-linux-gnub",
    );
    let cases = [
        ("-Wl,--disable-new-dtags,-rpath,/usr/local/cuda/$LIB/nv", None, plain),
        ("-Wl,--enable-new-dtags,-rpath,/usr/local/cuda/a${LIB}b", None, inside),
        ("-O1", Some("/usr/local/cuda/$LIB/nv"), plain),
    ];
    for (number, (option, library_path, lies_in)) in cases.into_iter().enumerate() {
        let program = compiled(
            "int nv(void); int main(void) { return nv(); }",
            &[library.to_str().unwrap(), option],
            &at("program"),
        );
        let system = |name: &str| fs::read(libraries.join(name)).unwrap();
        // Each directory has its own entry in the layer, so that it stays when a file in it is removed.
        let folders = [lies_in, "usr/local/cuda/unused"].into_iter().flat_map(|folder| {
            let ends = folder.match_indices('/').map(|(at, _)| at);
            ends.chain([folder.len()]).map(|end| &folder[..end])
        });
        let layer = folders
            .fold(Layer::new(), Layer::dir)
            .executable("lib64/ld-linux-x86-64.so.2", system("ld-linux-x86-64.so.2"))
            .file("lib/x86_64-linux-gnu/libc.so.6", system("libc.so.6"))
            .file(format!("{lies_in}/libnvperf_host.so"), &host)
            .file("usr/local/cuda/unused/libnvperf_target.so", &host)
            .executable("opt/program", program);
        let mut image = Image::new("linux/amd64").layer("COPY", &layer, Compression::None);
        if let Some(path) = library_path {
            image = image.env("LD_LIBRARY_PATH", path);
        }
        let (from, to) = (at(&format!("from{number}")), at(&format!("to{number}")));
        let mut layout = Layout::new();
        layout.add("1", &[image]);
        layout.write_to(&from).unwrap();
        let [from_name, to_name] = [&from, &to].map(|path| format!("oci:{}", path.display()));
        let phase = ["--phase", "inference", "--drop"];
        let text = slim("", &[&[&*from_name], &phase[..], &["-o", &to_name]].concat());
        assert!(text.contains("libnvperf_target.so"), "{text}");
        for (layout, name) in [(&from, "before"), (&to, "after")] {
            let root = at(&format!("{name}{number}"));
            unpacked(layout, &root);
            let answer = started(&root, library_path);
            assert_eq!(answer, (Some(42), String::new()), "{name}, {option}: {text}");
        }
    }
}

const TORCH: &str = "torch:2.5.1";

/// A layer packed by tar: its descriptor and the digest of the tar.
fn packed(blobs: &Path, root: &Path, words: &[&str]) -> (Value, String) {
    let mut tar = Command::new("tar")
        .arg("-C")
        .arg(root)
        .args(["-c", "--sort=name", "--mtime=@0"])
        .args(words)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let place = blobs.join("packing");
    let file = fs::File::create(&place).unwrap();
    let mut gzip = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
    let mut plain = Sha256::new();
    let mut from = tar.stdout.take().unwrap();
    let mut buffer = vec![0; 1 << 20];
    loop {
        let n = from.read(&mut buffer).unwrap();
        if n == 0 {
            break;
        }
        plain.update(&buffer[..n]);
        gzip.write_all(&buffer[..n]).unwrap();
    }
    gzip.finish().unwrap();
    assert!(tar.wait().unwrap().success());
    let media_type = "application/vnd.oci.image.layer.v1.tar+gzip";
    let mut stored = Sha256::new();
    std::io::copy(&mut fs::File::open(&place).unwrap(), &mut Digested(&mut stored)).unwrap();
    let (digest, size) = (to_hex(&stored.finalize()), fs::metadata(&place).unwrap().len());
    fs::rename(&place, blobs.join(&digest)).unwrap();
    let described = json!({"mediaType": media_type, "digest": format!("sha256:{digest}"), "size": size});
    (described, format!("sha256:{}", to_hex(&plain.finalize())))
}

struct Digested<'a>(&'a mut Sha256);

impl Write for Digested<'_> {
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        self.0.update(buf);
        Ok(buf.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// An OCI layout of a root file system in two layers: `/opt`, and everything else.
fn layout(root: &Path, folder: &Path) {
    let blobs = folder.join("blobs/sha256");
    fs::create_dir_all(&blobs).unwrap();
    let document = |media_type: &str, document: &Value| {
        let bytes = document.to_string();
        let digest = to_hex(&Sha256::digest(&bytes));
        fs::write(blobs.join(&digest), &bytes).unwrap();
        json!({"mediaType": media_type, "digest": format!("sha256:{digest}"), "size": bytes.len()})
    };
    let (below, below_id) = packed(&blobs, root, &["--exclude=./opt", "."]);
    let (above, above_id) = packed(&blobs, root, &["./opt"]);
    let config = document(
        "application/vnd.oci.image.config.v1+json",
        &json!({"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": [below_id, above_id]},
            "config": {"Env": ["PATH=/opt/venv/bin:/usr/bin:/bin"]}}),
    );
    let media_type = "application/vnd.oci.image.manifest.v1+json";
    let manifest = json!({"schemaVersion": 2, "config": config, "layers": [below, above]});
    let manifest = document(media_type, &manifest);
    let index = json!({"schemaVersion": 2, "manifests": [manifest]});
    fs::write(folder.join("index.json"), index.to_string()).unwrap();
    fs::write(folder.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#).unwrap();
}

/// The bytes of all files and links below a directory, as overlay2 counts them: each inode once.
fn bytes(root: &Path) -> u64 {
    let output = Command::new("find")
        .arg(root)
        .args(["!", "-type", "d", "-printf", "%i %s\n"])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let files: BTreeSet<&str> = text.lines().collect();
    let sizes = files.iter().map(|line| line.split(' ').nth(1).unwrap());
    sizes.map(|size| size.parse::<u64>().unwrap()).sum()
}

/// Needs 14 GB below TMPDIR for some minutes: the image, and the engine's copy of it.
#[test]
fn torch_is_imported_from_an_image_without_its_dead_weight() {
    let Some(root) = crate::support::environment("torch") else {
        return;
    };
    let Some(engine) = Dockerd::start() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    layout(&root, &folder.path().join("torch"));
    let from = format!("oci:{}/torch", folder.path().display());
    let to = format!("docker-daemon:{TORCH}");
    let text = slim(&engine.host(), &[&from, "--phase", "inference", "--drop", "-o", &to]);
    fs::remove_dir_all(folder.path().join("torch")).unwrap();
    let print = [
        "run",
        "--rm",
        "--network=none",
        TORCH,
        "cat",
        "/usr/share/cupti-audit/proof.json",
    ];
    let written = engine.docker(&print).stdout;
    let proof: Value = serde_json::from_slice(&written).unwrap();
    let dropped = proof["dropped"].as_array().unwrap();
    let gone: u64 = dropped.iter().map(|file| file["bytes"].as_u64().unwrap()).sum();
    // The engine reports the unpacked size.
    let size = engine.must(&["image", "inspect", "--format", "{{.Size}}", TORCH]);
    assert_eq!(
        size.parse::<u64>().unwrap(),
        bytes(&root) - gone + written.len() as u64,
        "{text}"
    );
    let script =
        "import os, sys, torch\nprint(torch.__version__, [path for path in sys.argv[1:] if os.path.exists(path)])";
    let paths = dropped.iter().map(|file| file["path"].as_str().unwrap());
    let run = ["run", "--rm", "--network=none", TORCH, "python", "-B", "-c", script];
    let said = engine.must(&run.into_iter().chain(paths).collect::<Vec<_>>());
    assert_eq!(said, "2.5.1+cu124 []");
    println!(
        "torch 2.5.1 is imported in a container without {} files of {gone} bytes that were in its image",
        dropped.len()
    );
}

/// An image large enough to take a while, with removable files in each layer.
pub fn large(folder: &Path) -> String {
    let noise = |seed: u32| -> Vec<u8> {
        let mixed = (0..2_000_000_u32).map(|n| n.wrapping_add(seed).wrapping_mul(2_654_435_761));
        mixed.flat_map(u32::to_le_bytes).collect()
    };
    let layer = |seed| {
        let dead = "usr/local/cuda/lib64/libcublas_static.a";
        Layer::new()
            .file(format!("opt/{seed}"), noise(seed))
            .file(dead, noise(seed + 9))
    };
    let add = |image: Image, seed| image.layer("RUN", &layer(seed), Compression::None);
    let mut layout = Layout::new();
    layout.add("1", &[[1, 2].into_iter().fold(Image::new("linux/amd64"), add)]);
    layout.write_to(&folder.join("large")).unwrap();
    format!("oci:{}", folder.join("large").display())
}

/// Whether the image exists and passes its audit. Otherwise it must not exist at all.
fn is_whole(run: &impl Fn(&[&str]) -> Command, image: &str) -> bool {
    let mut audit = run(&["audit", "--no-config", image, "--phase", "inference"]);
    let output = audit.stderr(Stdio::piped()).output().unwrap();
    // A partial image would be read and rejected for its missing parts.
    let said = String::from_utf8_lossy(&output.stderr).to_lowercase();
    let words = ["unknown", "no such image", "not found", "is not in"];
    let is_absent = words.iter().any(|word| said.contains(word));
    assert!(output.status.success() || is_absent, "{image}: {said}");
    output.status.success()
}

/// Interrupts a push or a load at any moment. The image is then complete or absent, and the next run removes all that
/// is left on the host.
#[test]
fn an_interrupted_push_or_load_leaves_all_or_nothing() {
    let Some(engine) = Dockerd::start().filter(|_| have_all(&[("docker-registry", "docker-registry")])) else {
        return;
    };
    let tries = crate::interrupt::count(8);
    let folder = tempfile::tempdir().unwrap();
    let registry = Registry::start(folder.path(), None);
    let (image, temporary) = (large(folder.path()), folder.path().join("tmp"));
    fs::create_dir(&temporary).unwrap();
    let host = format!("unix://{}", engine.socket().display());
    let run = |arguments: &[&str]| {
        let mut command = program(arguments);
        command.env("DOCKER_HOST", &host).env("TMPDIR", &temporary);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let left = || fs::read_dir(&temporary).unwrap().count();
    let (mut whole, mut nothing) = (0, 0);
    let mut codes: BTreeMap<String, usize> = BTreeMap::new();
    for (at, scheme) in [
        format!("docker://{}/app", registry.address),
        "docker-daemon:app".to_owned(),
    ]
    .iter()
    .enumerate()
    {
        let slim_to = |to: &str| {
            let line = format!("slim --no-config {image} --phase inference --drop -o {to}");
            run(&line.split(' ').collect::<Vec<_>>())
        };
        let started = Instant::now();
        assert!(slim_to(&format!("{scheme}:whole")).status().unwrap().success());
        let longest = started.elapsed();
        for number in (at as u64..tries).step_by(2) {
            let signal = crate::interrupt::SIGNALS[usize::try_from(number / 2 % 4).unwrap()];
            let to = format!("{scheme}:n{number}");
            let before = left();
            let mut child = slim_to(&to).spawn().unwrap();
            // Most signals come late, during the upload.
            let moment = (longest * 3 + crate::interrupt::moment(number, longest) * 7) / 10;
            crate::interrupt::send(signal, moment, &child);
            let status = child.wait().unwrap();
            *codes.entry(format!("{signal}: {status}")).or_default() += 1;
            assert!(
                signal == "KILL" || left() <= before,
                "{signal} {number} {scheme}: {} left",
                left()
            );
            if is_whole(&run, &to) {
                whole += 1;
            } else {
                nothing += 1;
                assert!(!status.success(), "{signal} {number} {scheme}");
                assert!(slim_to(&to).status().unwrap().success(), "{signal} {number} {scheme}");
            }
        }
        assert!(slim_to(&format!("{scheme}:last")).status().unwrap().success());
        assert_eq!(left(), 0, "{scheme}");
    }
    println!(
        "interrupts: push, load: {tries} tried, {tries} clean: {whole} had put a whole image there, {nothing} none; {codes:?}"
    );
}
