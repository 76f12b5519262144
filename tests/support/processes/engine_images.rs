//! Generated images in a real Docker Engine: loaded as one archive, and each started as its config says.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use testkit::layer::Layer;
use testkit::oci::{Image, Layout};

use super::runner::{Outcome, outcome};
use crate::docker::Dockerd;

/// Puts images into an engine, named `generated:nN`.
pub fn load(engine: &Dockerd, images: &[Image]) {
    let mut layout = Layout::new();
    for (number, image) in images.iter().enumerate() {
        layout.add(&format!("n{number}"), std::slice::from_ref(image));
    }
    let mut files = layout.files();
    let manifest = manifest(&files);
    files.insert("manifest.json".to_owned(), manifest.to_string().into_bytes());
    let add = |layer: Layer, (name, bytes)| layer.file(name, bytes);
    let archive = engine.dir().join("generated.tar");
    std::fs::write(&archive, files.into_iter().fold(Layer::new(), add).tar()).unwrap();
    engine.must(&["load", "--quiet", "-i", archive.to_str().unwrap()]);
}

/// The manifest of an archive of Docker's for the blobs of a layout.
fn manifest(files: &BTreeMap<String, Vec<u8>>) -> Value {
    let read = |name: &str| -> Value { serde_json::from_slice(&files[name]).unwrap() };
    let blob = |descriptor: &Value| format!("blobs/{}", descriptor["digest"].as_str().unwrap().replace(':', "/"));
    let index = read("index.json");
    let image = |descriptor: &Value| {
        let manifest = read(&blob(descriptor));
        let tag = descriptor["annotations"]["org.opencontainers.image.ref.name"]
            .as_str()
            .unwrap();
        let layers: Vec<String> = manifest["layers"].as_array().unwrap().iter().map(blob).collect();
        json!({"Config": blob(&manifest["config"]), "RepoTags": [format!("generated:{tag}")], "Layers": layers})
    };
    index["manifests"].as_array().unwrap().iter().map(image).collect()
}

/// What the process of an image gets that the engine starts.
pub fn run(engine: &Dockerd, number: usize) -> Outcome {
    let output = engine.docker(&["run", "--rm", "--network=none", &format!("generated:n{number}")]);
    let text = [output.stdout, output.stderr].concat();
    let status = output
        .status
        .code()
        .map_or("signal".to_owned(), |code| code.to_string());
    outcome(&String::from_utf8_lossy(&text), &status)
}
