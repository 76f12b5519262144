//! Runs generated images in a real Docker Engine: loads them as one archive, and starts each by its config.

use testkit::oci::{Image, Layout};

use super::runner::{Outcome, outcome};
use crate::docker::Dockerd;

/// Loads images into an engine under the names `generated:nN`.
pub fn load(engine: &Dockerd, images: &[Image]) {
    let mut layout = Layout::new();
    for (number, image) in images.iter().enumerate() {
        layout.add(&format!("n{number}"), std::slice::from_ref(image));
    }
    let archive = engine.dir().join("generated.tar");
    std::fs::write(&archive, layout.saved("generated")).unwrap();
    engine.must(&["load", "--quiet", "-i", archive.to_str().unwrap()]);
}

/// The result of the process that the engine starts for an image.
pub fn run(engine: &Dockerd, number: usize) -> Outcome {
    let output = engine.docker(&["run", "--rm", "--network=none", &format!("generated:n{number}")]);
    let text = [output.stdout, output.stderr].concat();
    let status = output
        .status
        .code()
        .map_or("signal".to_owned(), |code| code.to_string());
    outcome(&String::from_utf8_lossy(&text), &status)
}
