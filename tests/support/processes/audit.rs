//! Audits generated images: writes them as one OCI layout, and audits it in one run.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use testkit::layer::{Blob, Compression, sha256};
use testkit::oci::{Image, Layout};

use super::layers;
use super::spec::ImageSpec;
use super::world::World;

/// An image in the form of the layout.
pub fn image(world: &World, spec: &ImageSpec, members: &[Vec<layers::Member>]) -> Image {
    let base = world.base(spec);
    let mut image = Image::new("linux/amd64").blob("ADD base.tar /", base.blob.clone());
    for layer in members {
        let bytes = layers::tar(layer);
        let digest = sha256(&bytes);
        let blob = Blob {
            diff_id: digest.clone(),
            digest,
            bytes,
            compression: Compression::None,
        };
        image = image.blob("COPY files /", blob);
    }
    for variable in &spec.env {
        let (key, value) = variable.split_once('=').unwrap();
        image = image.env(key, value);
    }
    let texts = [("User", &spec.user), ("WorkingDir", &spec.working_dir)];
    for (key, text) in texts {
        if let Some(text) = text {
            image = image.config(key, text.as_str());
        }
    }
    for (key, words) in [("Entrypoint", &spec.entrypoint), ("Cmd", &spec.cmd)] {
        if !words.is_empty() {
            image = image.config(key, words.clone());
        }
    }
    image
}

/// The reports on images, in the same order.
pub fn reports(images: &[Image]) -> Vec<Value> {
    let folder = tempfile::tempdir().unwrap();
    let mut layout = Layout::new();
    for (number, image) in images.iter().enumerate() {
        layout.add(&format!("n{number}"), std::slice::from_ref(image));
    }
    layout.write_to(folder.path()).unwrap();
    let reference = |number| format!("oci:{}:n{number}", folder.path().display());
    let references: Vec<String> = (0..images.len()).map(reference).collect();
    let mut found = audit(&references, folder.path());
    references
        .iter()
        .map(|reference| found.remove(reference).unwrap_or(Value::Null))
        .collect()
}

/// The reports on images, by reference.
pub fn audit(references: &[String], folder: &Path) -> BTreeMap<String, Value> {
    let output = Command::new(env!("CARGO_BIN_EXE_cupti-audit"))
        .args(["--format", "json", "--quiet", "--no-config"])
        .args(references)
        .current_dir(folder)
        .env_clear()
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let mut reports = BTreeMap::new();
    for line in text.lines() {
        let report: Value = serde_json::from_str(line).unwrap();
        let reference = report["image"]["reference"].as_str().unwrap().to_owned();
        reports.insert(reference, report);
    }
    assert_eq!(
        reports.len(),
        references.len(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    reports
}
