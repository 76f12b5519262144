//! A minimal Docker Engine that serves images of the testkit.

use std::collections::BTreeMap;

use testkit::oci::{Image, Layout};

use crate::registry_server::{Reply, Server};

/// Starts an engine with these images, and returns its `DOCKER_HOST`.
pub fn engine_with(images: impl IntoIterator<Item = (&'static str, Image)>) -> String {
    let saved = |image: Image| {
        let mut layout = Layout::new();
        layout.add("1", &[image]);
        layout.saved("saved")
    };
    let images = images.into_iter();
    let images: BTreeMap<_, _> = images.map(|(name, image)| (name, saved(image))).collect();
    let server = Server::start(move |request| {
        let asked = request.path.strip_prefix("/images/");
        let asked = asked.and_then(|asked| asked.rsplit_once('/'));
        match asked.and_then(|(name, question)| Some((images.get(name)?, question))) {
            Some((_, "json")) => Reply::new(200, r#"{"Os":"linux","Architecture":"amd64"}"#),
            Some((archive, "get")) => Reply::new(200, archive.as_slice()),
            _ => Reply::new(404, ""),
        }
    });
    format!("tcp://{}", server.address)
}
