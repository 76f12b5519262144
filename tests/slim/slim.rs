//! `slim` on the fixtures: the image matches the report, is reproducible, and is complete or absent.

#[allow(dead_code, reason = "shared with the faults that tests choose")]
use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use crate::archive_layer::layer_of;
use crate::small_engine::engine_with;
use crate::support::program;
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::elf::Elf;
use testkit::layer::{Compression, Layer};
use testkit::oci::{Image, Layout};
use testkit::spec::Sources;

/// The reference of a fixture.
fn fixture(name: &str) -> String {
    format!("oci:testdata/images/{name}")
}

fn slim(arguments: &[&str]) -> Output {
    program(&[&["slim", "--no-config"], arguments].concat())
        .output()
        .unwrap()
}

fn must(arguments: &[&str]) -> String {
    let output = slim(arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {said}");
    assert_eq!(said, "");
    String::from_utf8(output.stdout).unwrap()
}

/// The error of a refused request.
fn refused(arguments: &[&str]) -> String {
    let output = slim(arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "");
    String::from_utf8(output.stderr).unwrap()
}

fn audit(image: &str, arguments: &[&str]) -> Value {
    let arguments = [&["--no-config", "--format", "json", image], arguments].concat();
    let output = program(&arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{image}: {said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Every file below a directory, with its bytes.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut pending = vec![folder.to_owned()];
    while let Some(folder) = pending.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                pending.push(path);
            } else {
                let bytes = fs::read(&path).unwrap();
                found.insert(path, bytes);
            }
        }
    }
    found
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// A directory for outputs, and the references of images in it.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn of(&self, scheme: &str, name: &str) -> String {
        format!("{scheme}:{}/{name}", self.path().display())
    }

    /// The output without the directory's path. The digest of an image depends on the version of the program, so it is
    /// cut too.
    fn said(&self, text: &str) -> String {
        let text = text.replace(&self.path().display().to_string(), "PLACE");
        match text.split_once("sha256:") {
            Some((before, digest)) => format!("{before}sha256:…{}", &digest[64..]),
            None => text,
        }
    }
}

const BRING: [&str; 4] = ["--phase", "profiling", "--cupti-from", "oci:testdata/images/devel"];

#[test]
fn what_is_missing_is_brought_and_what_is_there_stays_as_it_is() {
    let place = Place::new();
    let (to, archive) = (place.of("oci", "out:1"), place.of("docker-archive", "out.tar"));
    let image = fixture("headers-only");
    let said = must(&[&[&*image, "-o", &to], &BRING[..]].concat());
    insta::assert_snapshot!("brought", place.said(&said));
    must(&[&[&*image, "-o", &archive], &BRING[..]].concat());
    let proof = String::from_utf8(proof_of(&place, "out.tar")).unwrap();
    let written: Value = serde_json::from_str(&proof).unwrap();
    // The loader cache contains the name and version of this program, so its hash changes with each release.
    let cache = written["written"][0]["sha256"].as_str().unwrap();
    let proof = proof.replace(cache, "SHA256");
    insta::assert_snapshot!("proof", proof.replace(env!("CARGO_PKG_VERSION"), "VERSION"));
    let (before, after) = (
        audit(&image, &["--fail-on", "never"]),
        audit(&to, &["--phase", "profiling"]),
    );
    let layers = |report: &Value| report["image"]["layers"].as_array().unwrap().clone();
    let (before, layers) = (layers(&before), layers(&after));
    assert_eq!(before, layers[..before.len()]);
    assert_eq!(layers.len(), before.len() + 1);
    assert_eq!(after["cupti"]["status"], "loadable");
}

#[test]
fn the_same_image_comes_out_of_every_run_and_in_every_form() {
    let place = Place::new();
    let image = fixture("headers-only");
    let make = |to: &str| drop(must(&[&[&*image, "-o", to], &BRING[..]].concat()));
    let outputs = [
        ("oci", "one", "two"),
        ("oci-archive", "one.tar", "two.tar"),
        ("docker-archive", "one.docker.tar", "two.docker.tar"),
    ];
    let mut diff_ids = Vec::new();
    for (scheme, one, two) in outputs {
        for name in [one, two] {
            make(&place.of(scheme, name));
        }
        let [one, two] = [one, two].map(|name| place.path().join(name));
        if one.is_dir() {
            let names = |folder: &Path| {
                let files = files(folder).into_iter();
                let inside = |(path, bytes): (PathBuf, Vec<u8>)| (path.strip_prefix(folder).unwrap().to_owned(), bytes);
                files.map(inside).collect::<BTreeMap<_, _>>()
            };
            assert_eq!(names(&one), names(&two));
        } else {
            assert!(fs::read(&one).unwrap() == fs::read(&two).unwrap(), "{scheme}");
        }
        let report = audit(&format!("{scheme}:{}", one.display()), &[]);
        let layers = report["image"]["layers"].as_array().unwrap().clone();
        diff_ids.push(layers.iter().map(|it| it["diff_id"].clone()).collect::<Vec<_>>());
    }
    assert_eq!(diff_ids[0], diff_ids[1]);
    assert_eq!(diff_ids[0], diff_ids[2]);
}

/// Three annotations in an order that no map produces, and a field that image-spec does not define.
#[test]
fn a_manifest_of_which_nothing_is_changed_is_the_same_blob() {
    let place = Place::new();
    let (from, blobs) = (place.path().join("from"), Path::new("blobs/sha256"));
    fs::create_dir_all(from.join(blobs)).unwrap();
    let fixture = Path::new("testdata/images/devel");
    for (path, bytes) in files(fixture) {
        fs::write(from.join(path.strip_prefix(fixture).unwrap()), bytes).unwrap();
    }
    let index = fs::read_to_string(from.join("index.json")).unwrap();
    let document: Value = serde_json::from_str(&index).unwrap();
    let descriptor = &document["manifests"][0];
    let was = descriptor["digest"].as_str().unwrap();
    let manifest = fs::read_to_string(from.join(blobs).join(&was[7..])).unwrap();
    let (size, manifest) = (
        descriptor["size"].to_string(),
        manifest.replacen('{', r#"{ "extra":[1], "annotations":{"z":"1","b":"2","m":"3"},"#, 1),
    );
    let sha256 = testkit::layer::sha256(manifest.as_bytes());
    let hex = sha256.strip_prefix("sha256:").unwrap_or(&sha256);
    fs::write(from.join(blobs).join(hex), &manifest).unwrap();
    let index = index.replace(&was[7..], hex);
    let index = index.replace(&format!(r#""size":{size}"#), &format!(r#""size":{}"#, manifest.len()));
    fs::write(from.join("index.json"), index).unwrap();
    let (image, to) = (place.of("oci", "from"), place.of("oci", "to"));
    must(&[&[&*image, "-o", &to], &BRING[..]].concat());
    let to = place.path().join("to").join(blobs).join(hex);
    assert_eq!(fs::read_to_string(to).unwrap(), manifest);
}

#[test]
fn nothing_is_replaced_without_force() {
    let place = Place::new();
    let image = fixture("headers-only");
    let must = |more: &[&str]| must(&[&[&*image], &BRING[..], more].concat());
    let refused = |more: &[&str]| refused(&[&[&*image], &BRING[..], more].concat());
    let layout = place.of("oci", "out:1");
    must(&["-o", &layout]);
    let before = files(place.path());
    let said = refused(&["-o", &layout]);
    assert_eq!(
        place.said(&said),
        "error: 1 in PLACE/out is there already; --force replaces it\n"
    );
    assert_eq!(files(place.path()), before);
    // Another tag is another image in the layout, with the same blobs.
    must(&["-o", &place.of("oci", "out:2")]);
    must(&["-o", &layout, "--force"]);
    let index = fs::read_to_string(place.path().join("out/index.json")).unwrap();
    let index: Value = serde_json::from_str(&index).unwrap();
    let tags = index["manifests"].as_array().unwrap().iter();
    let name = "org.opencontainers.image.ref.name";
    let tags: Vec<&Value> = tags.map(|image| &image["annotations"][name]).collect();
    assert_eq!(tags, ["2", "1"]);
    let mut after = files(place.path());
    let mut before = before;
    let index = place.path().join("out/index.json");
    assert_ne!(after.remove(&index), before.remove(&index));
    assert_eq!(after, before);
    for (scheme, name) in [("oci-archive", "a.tar"), ("docker-archive", "d.tar")] {
        let file = place.path().join(name);
        fs::write(&file, "mine").unwrap();
        let said = refused(&["-o", &place.of(scheme, name)]);
        let expected = format!("error: PLACE/{name} is there already; --force replaces it\n");
        assert_eq!(place.said(&said), expected);
        assert_eq!(fs::read(&file).unwrap(), b"mine");
        must(&["-o", &place.of(scheme, name), "--force"]);
        assert_ne!(fs::read(&file).unwrap(), b"mine");
    }
    let folder = place.path().join("mine");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("file"), "mine").unwrap();
    for (name, more) in [("mine", &[][..]), ("mine", &["--force"]), ("a.tar", &[])] {
        let to = place.of("oci", name);
        let said = refused(&[&["-o", &*to], more].concat());
        assert_eq!(
            place.said(&said),
            format!("error: PLACE/{name} is there and is no OCI image layout; it is left alone\n")
        );
    }
    assert_eq!(names(&folder), ["file"]);
    assert_eq!(names(place.path()), ["a.tar", "d.tar", "mine", "out"]);
}

#[test]
fn an_archive_that_can_be_read_only_once_gives_the_same_image() {
    let place = Place::new();
    let saved = place.of("docker-archive", "saved.tar");
    let phase = ["--phase", "inference"];
    let said = must(&[&[&*fixture("devel")], &phase[..], &["-o", &saved]].concat());
    assert!(said.contains("nothing to add and nothing to remove"), "{said}");
    let tar = fs::read(place.path().join("saved.tar")).unwrap();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&tar).unwrap();
    fs::write(place.path().join("saved.tar.gz"), gzip.finish().unwrap()).unwrap();
    let packed = place.of("docker-archive", "saved.tar.gz");
    for (from, to) in [(&*saved, "one"), (&packed, "two"), ("-", "three")] {
        let to = place.of("oci", to);
        let words = [&["slim", from], &phase[..], &["--drop", "-o", &to]].concat();
        let mut child = program(&words)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        // Only the last reference reads standard input.
        let _ = stdin.write_all(&tar);
        drop(stdin);
        assert!(child.wait().unwrap().success(), "{from}");
        audit(&to, &phase);
    }
    let index = |name: &str| fs::read(place.path().join(name).join("index.json")).unwrap();
    assert_eq!(index("one"), index("two"));
    assert_eq!(index("one"), index("three"));
    let blobs = files(&place.path().join("one/blobs")).into_values();
    let plain = blobs.filter(|blob| blob.get(257..262) == Some(b"ustar"));
    assert_eq!(plain.count(), 0, "an engine's plain layers are compressed");
}

/// A wheel with one file.
fn wheel(path: &Path, content: &[u8]) {
    let mut zip = zip::ZipWriter::new(fs::File::create(path).unwrap());
    let options = zip::write::SimpleFileOptions::default();
    zip.start_file("../../nvidia/lib/libcupti.so.12", options).unwrap();
    zip.write_all(content).unwrap();
    zip.finish().unwrap();
}

#[test]
fn a_wheel_that_is_none_or_holds_too_much_is_refused() {
    let place = Place::new();
    let file = place.path().join("x.whl");
    let image = fixture("headers-only");
    let from = file.to_str().unwrap();
    let said = || {
        let to = place.of("oci", "out");
        let more = ["--phase", "training", "--cupti-from", from, "-o", &to];
        place.said(&refused(&[&[&*image], &more[..]].concat()))
    };
    fs::write(&file, "no zip").unwrap();
    assert_eq!(
        said(),
        "error: PLACE/x.whl is no wheel: invalid Zip archive: Could not find EOCD\n"
    );
    wheel(&file, &vec![0; 20_000_000]);
    let size = fs::metadata(&file).unwrap().len();
    let limit = format!(
        "error: PLACE/x.whl holds more than {} bytes, the limit for its size (archive-ratio)\n",
        size * 100
    );
    assert_eq!(said(), limit);
    wheel(&file, b"no library");
    assert_eq!(
        said(),
        "error: PLACE/x.whl contains no libcupti to copy, only files that are not libraries; name an image, wheel or folder \
         that has it, such as a devel image of nvidia/cuda\n"
    );
    assert_eq!(names(place.path()), ["x.whl"]);
}

/// Interrupts runs that write to each kind of output at any moment. The output is then complete or absent, and the next
/// run removes the files of a killed run.
#[test]
fn an_interrupted_run_leaves_all_or_nothing() {
    let (source, tries) = (Place::new(), crate::interrupt::count(16));
    let image = crate::real_slim::large(source.path());
    let drop = ["slim", &image, "--phase", "inference", "--drop"];
    let (mut whole, mut nothing, mut left) = (0, 0, 0);
    let mut codes: BTreeMap<String, usize> = BTreeMap::new();
    for (scheme, at) in [("oci", 0), ("oci-archive", 1), ("docker-archive", 2), ("report", 3)] {
        let place = Place::new();
        let to = match scheme {
            "report" => format!("json={}/out", place.path().display()),
            _ => place.of(scheme, "out"),
        };
        let audit = ["audit", &image, "--fail-on", "never"];
        let run = if scheme == "report" { &audit[..] } else { &drop[..] };
        let words = [run, &["--no-config", "-o", &to]].concat();
        let started = std::time::Instant::now();
        assert!(program(&words).output().unwrap().status.success(), "{words:?}");
        let longest = started.elapsed();
        let _ = fs::remove_dir_all(place.path().join("out"));
        let _ = fs::remove_file(place.path().join("out"));
        let check = || match scheme {
            "report" => serde_json::from_slice(&fs::read(place.path().join("out")).unwrap()).unwrap(),
            _ => audit_of(&to),
        };
        // Files of a killed run stay until a later run starts to write its own.
        let mut names_before = Vec::new();
        for number in (at..tries).step_by(4) {
            let signal = crate::interrupt::SIGNALS[usize::try_from(number / 4 % 4).unwrap()];
            let mut child = program(&words)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            crate::interrupt::send(signal, crate::interrupt::moment(number, longest), &child);
            let status = child.wait().unwrap();
            *codes.entry(format!("{signal}: {status}")).or_default() += 1;
            let left_before = std::mem::replace(&mut names_before, names(place.path()));
            let names = &names_before;
            let (out, others): (Vec<&String>, Vec<&String>) = names.iter().partition(|name| *name == "out");
            assert!(
                signal == "KILL" || others.iter().all(|name| left_before.contains(name)),
                "{signal} {number} {scheme}: {others:?}"
            );
            left += others.iter().filter(|name| !left_before.contains(name)).count();
            if out.is_empty() {
                nothing += 1;
                assert!(!status.success(), "{signal} {number} {scheme}");
            } else {
                whole += 1;
                let _: Value = check();
            }
            let _ = fs::remove_dir_all(place.path().join("out"));
            let _ = fs::remove_file(place.path().join("out"));
        }
        assert!(program(&words).output().unwrap().status.success(), "{words:?}");
        let _: Value = check();
        assert_eq!(names(place.path()), ["out"], "{scheme}");
    }
    println!(
        "interrupts: slim, audit -o: {tries} tried, {tries} clean: {whole} had put a whole output in its place, {nothing} none; {left} of the killed left something, which the next run removed; {codes:?}"
    );
    assert!(nothing > 0);
}

/// Starts the program from a shell after the command `shell`, with a silent pipe as standard input.
fn waiting(shell: &str, arguments: &[&str]) -> std::process::Child {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{shell}; exec \"$0\" \"$@\"")]);
    command.arg(env!("CARGO_BIN_EXE_cupti-audit")).args(arguments);
    command.env_clear().stdin(Stdio::piped());
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn send(signal: &str, child: &std::process::Child) {
    std::thread::sleep(Duration::from_millis(500));
    let id = child.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-s", signal, &id])
            .status()
            .unwrap()
            .success()
    );
}

#[test]
fn y_04_a_signal_that_is_ignored_stays_so_and_any_other_ends_what_waits() {
    use std::os::unix::process::ExitStatusExt as _;
    for signal in ["INT", "HUP"] {
        let mut child = waiting(&format!("trap '' {signal}"), &["audit", "--no-config", "-"]);
        let _pipe = child.stdin.take();
        send(signal, &child);
        send("TERM", &child);
        assert_eq!(child.wait().unwrap().signal(), Some(15), "{signal} was ignored");
    }
    let place = Place::new();
    let to = place.of("oci", "out");
    let mut child = waiting(":", &["slim", "--no-config", "-", "--phase", "inference", "-o", &to]);
    let _pipe = child.stdin.take();
    send("HUP", &child);
    assert_eq!(child.wait().unwrap().signal(), Some(1));
    assert_eq!(names(place.path()), Vec::<String>::new());
}

#[test]
fn an_interrupt_leaves_no_bar_on_the_terminal() {
    if !testkit::parts::have("script", "bsdutils") {
        return;
    }
    let place = Place::new();
    saved(&place, &[Layer::new().file("a", vec![1; 16 << 20]).tar()]);
    // Part of the layer arrives, more of it after a second, and then nothing.
    let line = format!(
        "(head -c 4000000 {}/app.tar; sleep 1; head -c 4000000 /dev/zero; sleep 3) | timeout --foreground -s INT 3 {} --no-config -",
        place.path().display(),
        env!("CARGO_BIN_EXE_cupti-audit")
    );
    let output = Command::new("script")
        .args(["-qec", &line, "/dev/null"])
        .env("TERM", "xterm")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&output.stdout);
    let (_, behind) = shown.rsplit_once("layer 1").unwrap();
    // The control sequence that erases a line (ECMA-48, 8.3.41).
    assert!(behind.ends_with("\u{1b}[2K"), "{shown:?}");
}

#[test]
fn y_05_a_file_past_the_limit_of_the_shell_is_an_error_and_nothing_is_left() {
    let place = Place::new();
    let (to, image) = (place.of("docker-archive", "out"), fixture("devel"));
    let mut command = Command::new("sh");
    command.args([
        "-c",
        "ulimit -f 2; exec \"$0\" \"$@\"",
        env!("CARGO_BIN_EXE_cupti-audit"),
    ]);
    command.args([
        "slim",
        "--no-config",
        &image,
        "--phase",
        "inference",
        "--drop",
        "-o",
        &to,
    ]);
    let output = command.env_clear().output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(said.contains("File too large") && said.lines().count() == 1, "{said}");
    assert_eq!(names(place.path()), Vec::<String>::new());
}

fn audit_of(image: &str) -> Value {
    audit(image, &["--phase", "inference"])
}

/// A layer as GNU tar writes it: zeros after the end marker, up to a multiple of 10,240 bytes.
fn padded(layer: &Layer) -> Vec<u8> {
    let mut tar = layer.tar();
    tar.resize(tar.len().next_multiple_of(10_240), 0);
    tar
}

/// An archive as `docker save` writes it, with uncompressed layers.
fn saved(place: &Place, layers: &[Vec<u8>]) -> String {
    let ids: Vec<String> = layers.iter().map(|layer| testkit::layer::sha256(layer)).collect();
    let config = json!({
        "architecture": "amd64", "os": "linux", "x": 7,
        "rootfs": {"type": "layers", "diff_ids": ids},
    });
    let config = config.to_string().replace("\"x\":7", "\"x\":12345678901234567890123");
    let names: Vec<String> = (0..layers.len()).map(|number| format!("{number}/layer.tar")).collect();
    let manifest = json!([{"Config": "c.json", "RepoTags": ["app:1"], "Layers": names}]).to_string();
    let documents = Layer::new().file("c.json", config).file("manifest.json", manifest);
    let add = |archive: Layer, (name, layer): (&String, &Vec<u8>)| archive.file(name, layer);
    let archive = names.iter().zip(layers).fold(documents, add);
    fs::write(place.path().join("app.tar"), archive.tar()).unwrap();
    place.of("docker-archive", "app.tar")
}

fn diff_ids(image: &str) -> Vec<String> {
    let report = audit(image, &["--fail-on", "never"]);
    let layers = report["image"]["layers"].as_array().unwrap().iter();
    layers
        .map(|layer| layer["diff_id"].as_str().unwrap().to_owned())
        .collect()
}

const STATIC: &str = "usr/local/cuda/targets/x86_64-linux/lib/libcublas_static.a";

/// Unchanged layers are copied byte for byte, because bytes after the end marker are part of the diff id.
#[test]
fn layers_that_are_left_alone_keep_every_byte() {
    let place = Place::new();
    let layers = [
        padded(&Layer::new().file("base", "1")),
        padded(&Layer::new().file(STATIC, "a\n").file("stays", "2")),
        padded(&Layer::new().file("top", "3")),
    ];
    let from = saved(&place, &layers);
    let ids: Vec<String> = layers.iter().map(|layer| testkit::layer::sha256(layer)).collect();
    for (scheme, name) in [("oci", "out"), ("oci-archive", "o.tar"), ("docker-archive", "d.tar")] {
        let to = place.of(scheme, name);
        must(&[&from, "--phase", "inference", "-o", &to]);
        assert_eq!(diff_ids(&to), ids, "{to}");
        let to = place.of(scheme, &format!("dropped-{name}"));
        let said = must(&[&from, "--phase", "inference", "--drop", "-o", &to]);
        assert!(said.contains(STATIC), "{said}");
        let after = diff_ids(&to);
        assert_eq!((&after[0], &after[2], after.len()), (&ids[0], &ids[2], 4), "{to}");
        assert_ne!(after[1], ids[1]);
    }
    let config = fs::read_dir(place.path().join("dropped-out/blobs/sha256")).unwrap();
    let mut blobs = config.map(|blob| fs::read(blob.unwrap().path()).unwrap());
    assert!(blobs.any(|blob| String::from_utf8_lossy(&blob).contains("\"x\":12345678901234567890123,")));
}

/// Annotations of an image in the index are kept, except its name.
#[test]
fn an_entry_of_an_index_keeps_its_annotations_and_gets_the_name_that_was_asked_for() {
    let place = Place::new();
    let image = fixture("devel");
    let first = place.of("oci", "first:1");
    must(&[&image, "--phase", "inference", "-o", &first]);
    let index = place.path().join("first/index.json");
    let mut document: Value = serde_json::from_slice(&fs::read(&index).unwrap()).unwrap();
    document["manifests"][0]["annotations"] = json!({
        "org.opencontainers.image.ref.name": "1", "io.containerd.image.name": "docker.io/library/app:1", "mine": "yes",
    });
    fs::write(&index, document.to_string()).unwrap();
    let annotations = |folder: &str| {
        let index = fs::read(place.path().join(folder).join("index.json")).unwrap();
        let index: Value = serde_json::from_slice(&index).unwrap();
        index["manifests"][0]["annotations"].clone()
    };
    must(&[&first, "--phase", "inference", "-o", &place.of("oci", "other:2")]);
    assert_eq!(
        annotations("other"),
        json!({"mine": "yes", "org.opencontainers.image.ref.name": "2"})
    );
    must(&[&first, "--phase", "inference", "-o", &place.of("oci", "unnamed")]);
    assert_eq!(annotations("unnamed"), document["manifests"][0]["annotations"]);
}

/// A wheel stores a library under several names instead of links; `slim` makes them links. It also updates lists of
/// installed files.
#[test]
fn copies_of_one_library_are_stored_once_and_lists_name_no_file_that_is_gone() {
    let site = "opt/venv/lib/python3.11/site-packages";
    let lib = format!("{site}/triton/backends/nvidia/lib/cupti");
    let cupti = Elf::library("libcupti.so.12").build();
    let record = format!(
        "triton/__init__.py,,\ntriton/backends/nvidia/lib/cupti/libcupti_static.a,sha256=x,9\n{}",
        "triton/x.py,,\n".repeat(80)
    );
    let layer = Layer::new()
        .dir("opt")
        .file(format!("{lib}/libcupti_static.a"), "an archive")
        .file(format!("{lib}/libcupti.so.2025.1.1"), &cupti)
        .file(format!("{lib}/libcupti.so"), &cupti)
        .file(format!("{lib}/libcupti.so.12"), &cupti)
        .file(format!("{lib}/other/libcupti.so.12"), &cupti)
        .file(format!("{site}/triton-3.4.0.dist-info/RECORD"), &record)
        .file("var/lib/dpkg/info/x.list", "/.\n/opt\n");
    let place = Place::new();
    let from = on(&place, "debian-cupti", &[layer]);
    let to = place.of("docker-archive", "out.tar");
    let output = slim(&[&*from, "--phase", "profiling", "--drop", "-o", &to]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let saved = format!(
        "  ~ /{lib}/libcupti.so.12, /{lib}/libcupti.so.2025.1.1: identical to /{lib}/libcupti.so, stored once, {} B less",
        2 * cupti.len()
    );
    assert!(
        text.contains(&saved),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let members = layer_of(&place.path().join("out.tar"), 2);
    let is = |name: &str| members.get(&format!("{lib}/{name}")).cloned();
    assert_eq!(is("libcupti_static.a"), None);
    assert_eq!(is("libcupti.so.2025.1.1"), Some(Ok(cupti.clone())));
    for link in ["libcupti.so", "libcupti.so.12"] {
        assert_eq!(is(link), Some(Err(format!("{lib}/libcupti.so.2025.1.1"))), "{link}");
    }
    assert_eq!(is("other/libcupti.so.12"), Some(Ok(cupti)));
    let list = members[&format!("{site}/triton-3.4.0.dist-info/RECORD")]
        .clone()
        .unwrap();
    let expected = record.replace("triton/backends/nvidia/lib/cupti/libcupti_static.a,sha256=x,9\n", "");
    assert_eq!(String::from_utf8(list).unwrap(), expected);
    let proof: Value = serde_json::from_slice(&proof_of(&place, "out.tar")).unwrap();
    let linked: Vec<&str> = proof["linked"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["path"].as_str().unwrap())
        .collect();
    assert_eq!(
        linked,
        [format!("/{lib}/libcupti.so.12"), format!("/{lib}/libcupti.so.2025.1.1")]
    );
}

#[test]
fn a_dry_run_knows_that_lists_of_packages_lose_the_removed_files() {
    let place = Place::new();
    let image = fixture("pip-tensorflow");
    let inference = [&*image, "--phase", "inference", "--drop"];
    let real = must(&[&inference[..], &["-o", &place.of("oci", "out")]].concat());
    let dry = must(&[&inference[..], &["--dry-run"]].concat());
    // The new image also has the list of changes, so the sizes differ a little.
    let (changes, _) = dry.split_once("  what stays: ").unwrap();
    assert!(
        real.starts_with(changes) && real.contains("  what stays: ") && changes.contains("/libcupti.so.12 "),
        "{dry}{real}"
    );
}

/// The output of `dockerfile` for an image that copies CUPTI from another.
fn dockerfile_by_copy(image: &str, phase: &str, supplier: Image) -> Output {
    let words = ["dockerfile", "--no-config", image, "--base", "x", "--phase", phase];
    let way = ["--via", "copy", "--from", "docker-daemon:devel:1"];
    let mut command = program(&[&words[..], &way].concat());
    command.env("DOCKER_HOST", engine_with([("devel:1", supplier)]));
    command.output().unwrap()
}

/// Added files may shadow a library that a program loads. Both commands refuse such an image.
#[test]
fn what_loads_and_no_longer_would_is_refused_by_slim_and_dockerfile() {
    let place = Place::new();
    let library = |needs: &str| Elf::library("libnvperf_host.so").needed(needs).build();
    let asker = Elf::executable().needed("libnvperf_host.so").build();
    let layer = Layer::new()
        .file("usr/lib/x86_64-linux-gnu/libnvperf_host.so", library("libc.so.6"))
        .executable("opt/bin/program", asker);
    let from = on(&place, "no-cupti", &[layer]);
    let at = "usr/local/cuda-12.4/targets/x86_64-linux/lib/libnvperf_host.so";
    let supplier = image_of("devel").layer("COPY", &Layer::new().file(at, library("libgone.so")), Compression::None);
    let mut layout = Layout::new();
    layout.add("1", std::slice::from_ref(&supplier));
    layout.write_to(&place.path().join("devel")).unwrap();
    let (devel, to) = (place.of("oci", "devel"), place.of("oci", "out"));
    let why = "loads in the image and would no longer load: libgone.so: cannot open shared object file: No such file or directory";
    let said = refused(&[&from, "--phase", "profiling", "--cupti-from", &devel, "-o", &to]);
    assert!(said.contains(why), "{said}");
    let output = dockerfile_by_copy(&from, "profiling", supplier);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && said.contains(why), "{said}");
    assert_eq!(names(place.path()), ["devel", "from"]);
}

/// A file stays if only its own name is that of another release, because no program asks for this name. The name without
/// a number is created only for a program that does not get CUPTI by it, or that got a deleted file.
#[test]
fn which_names_of_cupti_change_when_one_is_brought() {
    let changes = |file: &str, own_path: &str| {
        let place = Place::new();
        let opener = Elf::executable().string("libcupti.so").runpath(own_path);
        let layer = Layer::new()
            .file(format!("srv/{file}"), Elf::library("libcupti.so.13").build())
            .symlink("srv/libcupti.so", file)
            .executable("opt/bin/opener", opener.build())
            .executable("opt/bin/linked", Elf::executable().needed("libcupti.so.12").build());
        let from = on(&place, "no-cupti", &[layer]);
        let (to, devel) = (place.of("oci", "out"), fixture("devel"));
        let said = must(&[&from, "--phase", "inference", "--cupti-from", &devel, "-o", &to]);
        let of_names = |line: &&str| line.contains("/srv/libcupti") || line.contains("opens this name");
        let lines = said.lines().filter(of_names);
        lines.map(|line| line.trim().to_owned()).collect::<Vec<_>>()
    };
    let created = "+ /opt/cupti/lib/libcupti.so -> libcupti.so.12: opener opens this name";
    let deleted = "- /srv/libcupti.so.12: it has the name of a CUPTI, but leads to another one or to none";
    assert_eq!(changes("libcupti.so.2024.1.1", "/srv"), Vec::<String>::new());
    assert_eq!(changes("libcupti.so.2024.1.1", "/gone"), [created]);
    assert_eq!(changes("libcupti.so.12", "/srv"), [created, deleted]);
    assert_eq!(changes("libcupti.so.12", "/gone"), [created, deleted]);
}

/// The proof in the last layer of an archive.
fn proof_of(place: &Place, archive: &str) -> Vec<u8> {
    let last = diff_ids(&place.of("docker-archive", archive)).len() - 1;
    let members = layer_of(&place.path().join(archive), last);
    members["usr/share/cupti-audit/proof.json"].clone().unwrap()
}

/// An image of these layers on top of a fixture, as `oci:…/from`.
fn on(place: &Place, fixture: &str, layers: &[Layer]) -> String {
    let add = |image: Image, layer: &Layer| image.layer("COPY", layer, Compression::None);
    let mut layout = Layout::new();
    layout.add("1", &[layers.iter().fold(image_of(fixture), add)]);
    layout.write_to(&place.path().join("from")).unwrap();
    place.of("oci", "from")
}

/// The image of a fixture.
fn image_of(fixture: &str) -> Image {
    let sources = Sources::of_repository().unwrap();
    sources.images(&sources.fixtures()[fixture]).unwrap().remove(0)
}

/// The store of a package manager names files by their content. It is not a library name, so the file stays under it.
#[test]
fn the_second_name_of_a_file_that_goes_takes_it_over() {
    let place = Place::new();
    let library = Elf::library("libnvperf_host.so").build();
    let layer = Layer::new()
        .file("opt/nvidia/nv/libnvperf_host.so", &library)
        .hardlink("opt/store/af31", "opt/nvidia/nv/libnvperf_host.so");
    let from = on(&place, "no-cupti", &[layer]);
    let to = place.of("docker-archive", "out.tar");
    let said = must(&[&from, "--phase", "inference", "--drop", "-o", &to]);
    assert!(said.contains("- /opt/nvidia/nv/libnvperf_host.so"), "{said}");
    let layers: Vec<_> = (0..diff_ids(&from).len())
        .map(|number| layer_of(&place.path().join("out.tar"), number))
        .collect();
    let found = layers.iter().find_map(|layer| layer.get("opt/store/af31"));
    assert_eq!(found, Some(&Ok(library)));
    assert!(
        layers
            .iter()
            .all(|layer| !layer.contains_key("opt/nvidia/nv/libnvperf_host.so"))
    );
}

/// A directory may be a link to a place that is mounted later. Files are written behind the link, as with COPY.
#[test]
fn a_link_to_a_folder_that_is_not_there_yet_is_followed() {
    let place = Place::new();
    let made = |target: &str| {
        let link = Layer::new().symlink("usr/share/cupti-audit", target);
        let from = on(&place, "no-cupti", &[link]);
        let to = place.of("docker-archive", "out.tar");
        slim(&[&[&*from, "-o", &to, "--force"], &BRING[..]].concat())
    };
    for (target, at) in [("/data/a", "data/a"), ("x", "usr/share/x"), ("../../srv/b", "srv/b")] {
        let output = made(target);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let last = diff_ids(&place.of("docker-archive", "out.tar")).len() - 1;
        let layer = layer_of(&place.path().join("out.tar"), last);
        assert!(
            layer.contains_key(&format!("{at}/proof.json")),
            "{target}: {:?}",
            layer.keys()
        );
    }
    let said = made("cupti-audit").stderr;
    let said = String::from_utf8_lossy(&said);
    assert!(
        said.contains("/usr/share/cupti-audit is no folder in the image"),
        "{said}"
    );
}

/// Pipes, devices and sockets belong to others: the program writes into them if possible, and never replaces them.
#[test]
fn pipes_and_devices_are_written_into_and_never_replaced() {
    use std::os::unix::fs::FileTypeExt as _;
    let place = Place::new();
    let image = fixture("headers-only");
    let at = |name: &str| place.path().join(name);
    must(&[&[&*image, "-o", &place.of("docker-archive", "plain.tar")], &BRING[..]].concat());
    for name in ["pipe", "dockerfile"] {
        assert!(Command::new("mkfifo").arg(at(name)).status().unwrap().success());
    }
    let read = |name: &str| {
        let pipe = at(name);
        std::thread::spawn(move || fs::read(pipe).unwrap())
    };
    let bytes = read("pipe");
    let to = place.of("docker-archive", "pipe");
    let output = slim(&[&[&*image, "-o", &to, "--force"], &BRING[..]].concat());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && said.contains("written:"), "{said}");
    // Standard output may be the pipe.
    assert_eq!(String::from_utf8_lossy(&output.stdout), "");
    assert!(bytes.join().unwrap() == fs::read(at("plain.tar")).unwrap());
    let to = slim(&[&[&*image, "-o", "docker-archive:/dev/stdout"], &BRING[..]].concat());
    assert!(to.stdout == fs::read(at("plain.tar")).unwrap());
    let text = read("dockerfile");
    let file = at("dockerfile").display().to_string();
    let output = dockerfile_to(&image, &file);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8(text.join().unwrap()).unwrap().contains("FROM x"));
    let kind = |name: &str| fs::symlink_metadata(at(name)).unwrap().file_type();
    assert!(["pipe", "dockerfile"].iter().all(|name| kind(name).is_fifo()));
    assert_eq!(names(place.path()), ["dockerfile", "pipe", "plain.tar"]);
}

/// Writes the Dockerfile for an image to a file and overwrites what is there.
fn dockerfile_to(image: &str, file: &str) -> Output {
    let line = [
        "dockerfile",
        "--no-config",
        image,
        "--base",
        "x",
        "--phase",
        "training",
        "--force",
        "-o",
        file,
    ];
    program(&line).output().unwrap()
}

#[test]
fn a_socket_is_refused_and_of_a_link_the_file_behind_it_is_replaced() {
    use std::os::unix::fs::FileTypeExt as _;
    let place = Place::new();
    let image = fixture("headers-only");
    let at = |name: &str| place.path().join(name);
    let socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
    let refusal = "it is a socket, which is not written to\n";
    let said = refused(
        &[
            &[&*image, "--force", "-o", &place.of("oci-archive", "socket")],
            &BRING[..],
        ]
        .concat(),
    );
    assert!(said.ends_with(refusal), "{said}");
    let file = at("socket").display().to_string();
    let output = dockerfile_to(&image, &file);
    assert!(String::from_utf8_lossy(&output.stderr).ends_with(refusal));
    drop(socket);
    // A link stays, and the file behind it is replaced.
    fs::write(at("old.tar"), "mine").unwrap();
    std::os::unix::fs::symlink("old.tar", at("link.tar")).unwrap();
    must(
        &[
            &[&*image, "--force", "-o", &place.of("docker-archive", "link.tar")],
            &BRING[..],
        ]
        .concat(),
    );
    assert_ne!(fs::read(at("old.tar")).unwrap(), b"mine");
    let kind = |name: &str| fs::symlink_metadata(at(name)).unwrap().file_type();
    assert!(kind("link.tar").is_symlink() && kind("socket").is_socket());
    assert_eq!(names(place.path()), ["link.tar", "old.tar", "socket"]);
}

#[test]
fn the_file_or_folder_behind_a_link_is_written_also_if_it_is_missing_or_empty() {
    let place = Place::new();
    let image = fixture("headers-only");
    let at = |name: &str| place.path().join(name);
    for (link, target) in [("a", "new.tar"), ("b", "missing"), ("c", "empty"), ("d", "Dockerfile")] {
        std::os::unix::fs::symlink(target, at(link)).unwrap();
    }
    fs::create_dir(at("empty")).unwrap();
    for (scheme, link) in [("docker-archive", "a"), ("oci", "b"), ("oci", "c")] {
        must(&[&[&*image, "-o", &place.of(scheme, link)], &BRING[..]].concat());
        // Now something is there.
        let said = refused(&[&[&*image, "-o", &place.of(scheme, link)], &BRING[..]].concat());
        assert!(
            said.contains("is there already") || said.contains("an image without a tag"),
            "{said}"
        );
    }
    assert!(dockerfile_to(&image, &at("d").display().to_string()).status.success());
    assert!(
        ["a", "b", "c", "d"]
            .iter()
            .all(|link| fs::symlink_metadata(at(link)).unwrap().is_symlink())
    );
    assert!(
        ["new.tar", "missing/index.json", "empty/index.json", "Dockerfile"]
            .iter()
            .all(|file| at(file).is_file())
    );
}

/// The layer was read before and is in the cache.
#[test]
fn does_a_dry_run_say_like_the_real_run_that_a_layer_is_missing() {
    let place = Place::new();
    let layer = Layer::new().file("lone", "text");
    let image = Image::new("linux/amd64").layer("add", &layer, Compression::Gzip);
    let blob = place
        .path()
        .join("image/blobs")
        .join(image.blobs().next().unwrap().digest.replace(':', "/"));
    let mut layout = Layout::new();
    layout.add("", &[image]);
    layout.write_to(&place.path().join("image")).unwrap();
    let (image, cache) = (
        place.of("oci", "image"),
        place.path().join("cache").display().to_string(),
    );
    let say = |more: &[&str]| {
        let line = ["slim", "--no-config", "--cache-dir", &cache, &image, "-p", "inference"];
        program(&[&line, more].concat()).output().unwrap()
    };
    assert!(say(&["--dry-run"]).status.success());
    fs::remove_file(blob).unwrap();
    let out = place.of("oci", "out");
    let [dry, real] = [&["--dry-run"][..], &["-o", &out]].map(say);
    assert_eq!((dry.status.code(), real.status.code()), (Some(2), Some(2)));
    assert_eq!(dry.stderr, real.stderr);
}
