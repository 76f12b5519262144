//! `slim --gpu` on small objects with hand-made GPU code.

use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::process::Output;

use crate::support::program;
use serde_json::Value;
use testkit::gpu_object::{GpuObject, container, cubin, ptx};
use testkit::layer::{Compression, Layer};
use testkit::oci::{Image, Layout};

const TORCH: &str = "opt/venv/lib/python3.11/site-packages/torch/lib/libtorch_cuda.so";

fn slim(arguments: &[&str]) -> Output {
    program(&[&["slim", "--no-config", "--phase", "inference"], arguments].concat())
        .output()
        .unwrap()
}

fn said(output: &Output) -> String {
    let [out, error] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    out + &error
}

fn object(soname: &str) -> GpuObject {
    let one = container(&[cubin(80, 0x5000), cubin(90, 0x3000), ptx(90, 0x1000)]);
    GpuObject::new(soname, &[one.clone(), container(&[ptx(80, 0x2000)]), one])
}

/// An image with PyTorch's library under two names, one of NVIDIA, an unknown one, and one with a static library.
fn image(folder: &Path, env: &[(&str, &str)]) -> String {
    let torch = object("libtorch_cuda.so").build();
    let mut linked = object("libtorch_cuda_linalg.so");
    "nvshmemi_init".clone_into(&mut linked.text);
    let layer = Layer::new()
        .file(TORCH, torch)
        .hardlink("opt/link.so", TORCH)
        .file(TORCH.replace("cuda", "cuda_linalg"), linked.build())
        .file("opt/nvidia/lib/libcublas.so.12", object("libcublas.so.12").build())
        .file("opt/own/libown.so", object("libown.so").build());
    let base = Layer::new().file("etc/passwd", "root:x:0:0::/:/bin/sh\n");
    let image = Image::new("linux/amd64").layer("base", &base, Compression::Gzip).layer(
        "pip install",
        &layer,
        Compression::Gzip,
    );
    let image = env.iter().fold(image, |image, (key, value)| image.env(key, value));
    let mut layout = Layout::new();
    layout.add("1", &[image]);
    let place = folder.join("image");
    layout.write_to(&place).unwrap();
    format!("oci:{}:1", place.display())
}

/// The files of an image in a docker archive, as paths and sizes, and its config.
fn written(archive: &Path) -> (Vec<(String, u64)>, Value, Value) {
    let mut tar = tar::Archive::new(fs::File::open(archive).unwrap());
    let (mut files, mut config, mut proof) = (Vec::new(), Value::Null, Value::Null);
    for entry in tar.entries().unwrap() {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().display().to_string();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        if let Ok(document) = serde_json::from_slice::<Value>(&bytes) {
            if document.get("rootfs").is_some() {
                config = document;
            }
            continue;
        }
        if Path::new(&name).extension().is_none_or(|it| it != "tar") {
            continue;
        }
        for entry in tar::Archive::new(bytes.as_slice()).entries().unwrap() {
            let mut entry = entry.unwrap();
            let path = entry.path().unwrap().display().to_string();
            if path.ends_with("proof.json") {
                proof = serde_json::from_reader(&mut entry).unwrap();
            } else if entry.size() > 0 {
                files.push((path, entry.size()));
            }
        }
    }
    files.sort();
    (files, config, proof)
}

#[test]
fn open_packages_lose_the_code_of_other_gpus_and_nothing_else_changes() {
    let folder = tempfile::tempdir().unwrap();
    let image = image(folder.path(), &[]);
    let archive = folder.path().join("out.tar");
    let to = format!("docker-archive:{}", archive.display());
    let output = slim(&[&image, "--gpu", "h100", "-o", &to]);
    let text = said(&output).replace(&folder.path().display().to_string(), "PLACE");
    assert_eq!(output.status.code(), Some(0), "{text}");
    insta::assert_snapshot!("gpu_code", text);
    let (files, config, proof) = written(&archive);
    let before = object("libtorch_cuda.so").build().len() as u64;
    let sizes: Vec<u64> = files.iter().map(|(_, bytes)| *bytes).collect();
    let pruned = proof["gpuCode"]["objects"][0]["bytesAfter"].as_u64().unwrap();
    assert!(pruned < before - 0xa000);
    assert_eq!(sizes.iter().filter(|bytes| **bytes == pruned).count(), 1, "{files:?}");
    assert_eq!(config["config"]["Labels"]["cupti-audit.slim.gpu"], "sm_90");
    assert_eq!(proof["gpuCode"]["keptFor"], serde_json::json!(["sm_90"]));
    let removed = &proof["gpuCode"]["objects"][0]["removed"];
    assert_eq!(removed[0]["kind"], "sm_80");
    // The same input gives the same bytes, in another form of output, too.
    let again = folder.path().join("again.tar");
    slim(&[
        &image,
        "--gpu",
        "sm_90",
        "-o",
        &format!("docker-archive:{}", again.display()),
    ]);
    assert!(fs::read(&archive).unwrap() == fs::read(&again).unwrap());
    // The code for another GPU is gone, so a second run for it is refused; one for the same GPU has nothing to do.
    let made = format!("docker-archive:{}", archive.display());
    let other = slim(&[&made, "--gpu", "a100", "--dry-run"]);
    assert_eq!(other.status.code(), Some(2));
    assert!(
        said(&other).contains("start from the original image"),
        "{}",
        said(&other)
    );
    let same = slim(&[&made, "--gpu", "h100", "--dry-run"]);
    assert_eq!(same.status.code(), Some(0));
    assert!(said(&same).contains("no GPU code is removed"), "{}", said(&same));
}

#[test]
fn an_oci_layout_and_a_dry_run_say_the_same_sizes() {
    let folder = tempfile::tempdir().unwrap();
    let image = image(folder.path(), &[]);
    let dry = said(&slim(&[&image, "--gpu", "a100,h100", "--drop", "--dry-run"]));
    let to = format!("oci:{}/out:1", folder.path().display());
    let real = said(&slim(&[&image, "--gpu", "a100", "--gpu", "h100", "--drop", "-o", &to]));
    let changes = |text: &str| -> Vec<String> {
        text.lines()
            .filter(|line| line.starts_with("  ~"))
            .map(str::to_owned)
            .collect()
    };
    assert_eq!(changes(&dry), changes(&real));
    assert!(changes(&real)[0].ends_with("without compute_90"), "{real}");
}

#[test]
fn a_named_file_may_change_and_one_of_nvidia_never_does() {
    let folder = tempfile::tempdir().unwrap();
    let image = image(folder.path(), &[]);
    let dry = |arguments: &[&str]| said(&slim(&[&[&*image, "--gpu", "h100", "--dry-run"], arguments].concat()));
    assert!(dry(&["--gpu-file", "/opt/own/libown.so"]).contains("~ /opt/own/libown.so"));
    assert!(!dry(&["--gpu-file", "/opt/nvidia/lib/libcublas.so.12"]).contains("~ /opt/nvidia"));
    let missing = dry(&["--gpu-file", "/opt/none.so"]);
    assert!(
        missing.contains("the image has no such object with GPU code"),
        "{missing}"
    );
    assert!(dry(&["--gpu", "orin"]).contains("GPUs of Tegra are not supported"));
    assert!(dry(&["--gpu", "h1000"]).contains("no GPU is known as"));
}

#[test]
fn nvidias_own_builds_stay_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let image = image(folder.path(), &[("NVIDIA_PYTORCH_VERSION", "25.01")]);
    let text = said(&slim(&[&image, "--gpu", "h100", "--dry-run"]));
    assert!(
        text.contains("no GPU code is removed") && text.contains("NVIDIA's own build"),
        "{text}"
    );
}

#[test]
fn a_root_file_system_in_an_archive_becomes_an_image() {
    let folder = tempfile::tempdir().unwrap();
    let torch = object("libtorch_cuda.so").build();
    let archive = folder.path().join("root.tar");
    fs::write(&archive, Layer::new().file(TORCH, torch).tar()).unwrap();
    let from = format!("rootfs-archive:{}", archive.display());
    let out = folder.path().join("out.tar");
    let output = slim(&[
        &from,
        "--gpu",
        "h100",
        "-o",
        &format!("docker-archive:{}", out.display()),
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let (files, config, _) = written(&out);
    assert!(files.iter().any(|(path, _)| path == TORCH), "{files:?}");
    assert_eq!(config["rootfs"]["diff_ids"].as_array().unwrap().len(), 2);
}
