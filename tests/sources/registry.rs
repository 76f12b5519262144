//! The real `docker-registry`: images pushed by skopeo are read back byte for byte.

use cupti_audit::knowledge::file_interest::cupti_options;
use std::io::{Read, Write};
use std::path::Path;

use crate::registry_parts::{REGISTRY, Registry, SKOPEO, run};
use crate::support::have_all;
use image_linkage::digest::to_hex;
use image_source::registry::{CredentialSource, RegistryOptions, RegistrySource};
use image_source::{Image, ImageSource, OpenRequest, OpenedLayers};
use serde_json::json;
use sha2::{Digest as _, Sha256};

/// A pulled image.
struct Pulled {
    image: Image,
    /// The stored bytes of each layer.
    blobs: Vec<Vec<u8>>,
}

fn pull(written: &str, options: RegistryOptions) -> Result<Pulled, String> {
    let source = RegistrySource::new(written.parse().unwrap(), written.to_owned(), options);
    let request = OpenRequest {
        platform: None,
        index: &cupti_options(),
        progress: &(),
        cache: None,
    };
    let opened = source.open(&request).map_err(|error| error.to_string())?;
    let OpenedLayers::Blobs(blobs) = &opened.layers else {
        panic!("blobs")
    };
    let read = |layer| {
        let mut bytes = Vec::new();
        blobs.open(layer).unwrap().read_to_end(&mut bytes).unwrap();
        bytes
    };
    Ok(Pulled {
        blobs: opened.image.layers.iter().map(read).collect(),
        image: opened.image,
    })
}

fn anonymous() -> RegistryOptions {
    RegistryOptions {
        credentials: CredentialSource::Anonymous,
        ..RegistryOptions::default()
    }
}

fn sha256(bytes: &[u8]) -> String {
    format!("sha256:{}", to_hex(&Sha256::digest(bytes)))
}

/// The uncompressed layers of the test image.
fn layers() -> [Vec<u8>; 2] {
    let large = (0..1_500_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8);
    [large.collect(), b"a small layer".repeat(100)]
}

/// Writes an OCI layout with the image `1`, whose layers are gzipped.
fn write_layout(dir: &Path) {
    let blobs = dir.join("blobs/sha256");
    std::fs::create_dir_all(&blobs).unwrap();
    let blob = |media_type: &str, bytes: &[u8]| {
        let digest = sha256(bytes);
        std::fs::write(blobs.join(&digest["sha256:".len()..]), bytes).unwrap();
        json!({"mediaType": media_type, "digest": digest, "size": bytes.len()})
    };
    let stored = layers().map(|layer| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(&layer).unwrap();
        blob(
            "application/vnd.oci.image.layer.v1.tar+gzip",
            &encoder.finish().unwrap(),
        )
    });
    let config = json!({"architecture": "amd64", "os": "linux", "config": {"Env": ["A=1"]},
        "rootfs": {"type": "layers", "diff_ids": layers().map(|layer| sha256(&layer))},
        "history": [{"created_by": "one"}, {"created_by": "two"}]});
    let config = blob(
        "application/vnd.oci.image.config.v1+json",
        config.to_string().as_bytes(),
    );
    let manifest_type = "application/vnd.oci.image.manifest.v1+json";
    let manifest = json!({"schemaVersion": 2, "mediaType": manifest_type, "config": config, "layers": stored});
    let mut manifest = blob(manifest_type, manifest.to_string().as_bytes());
    manifest["annotations"] = json!({"org.opencontainers.image.ref.name": "1"});
    let index = json!({"schemaVersion": 2, "manifests": [manifest]});
    std::fs::write(dir.join("index.json"), index.to_string()).unwrap();
    std::fs::write(dir.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#).unwrap();
}

/// Pushes the layout's image as `written`.
fn push(layout: &Path, written: &str, arguments: &[&str]) {
    let (from, to) = (format!("oci:{}:1", layout.display()), format!("docker://{written}"));
    let mut all = vec!["--insecure-policy", "copy", "--quiet"];
    all.extend(arguments);
    all.extend([from.as_str(), to.as_str()]);
    run("skopeo", &all);
}

/// The bytes of a manifest, as skopeo returns them.
fn raw_manifest(written: &str, arguments: &[&str]) -> Vec<u8> {
    let image = format!("docker://{written}");
    run(
        "skopeo",
        &[&["inspect", "--raw"], arguments, &[image.as_str()]].concat(),
    )
}

/// Compares a pulled image with the manifest that skopeo returns.
fn check(pulled: &Pulled, manifest: &[u8], media_type: &str, decompress: impl Fn(&[u8]) -> Vec<u8>) {
    assert_eq!(pulled.image.digest.as_ref().unwrap().to_string(), sha256(manifest));
    let manifest: serde_json::Value = serde_json::from_slice(manifest).unwrap();
    for (index, (layer, blob)) in pulled.image.layers.iter().zip(&pulled.blobs).enumerate() {
        let described = &manifest["layers"][index];
        assert_eq!(layer.media_type, media_type);
        assert_eq!(described["mediaType"], media_type);
        assert_eq!(described["digest"], sha256(blob));
        assert_eq!(described["size"], blob.len());
        assert!(decompress(blob) == layers()[index], "layer {index} differs");
    }
    assert_eq!(pulled.blobs.len(), 2);
    assert_eq!(pulled.image.config.env("A"), Some("1"));
    assert_eq!(pulled.image.config.created_by, ["one", "two"]);
    assert_eq!(pulled.image.platform.to_string(), "linux/amd64");
}

fn gunzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    flate2::read::MultiGzDecoder::new(bytes).read_to_end(&mut out).unwrap();
    out
}

fn unzstd(bytes: &[u8]) -> Vec<u8> {
    zstd::decode_all(bytes).unwrap()
}

#[test]
fn images_of_every_form_come_back_over_plain_http() {
    if !have_all(&[REGISTRY, SKOPEO]) {
        return;
    }
    let oci = ["--format", "oci"].as_slice();
    let gzip = "application/vnd.oci.image.layer.v1.tar+gzip";
    let zstd = "application/vnd.oci.image.layer.v1.tar+zstd";
    let docker = "application/vnd.docker.image.rootfs.diff.tar.gzip";
    for (arguments, media_type, decompress) in [
        (oci, gzip, gunzip as fn(&[u8]) -> _),
        (&["--format", "oci", "--dest-compress-format", "zstd"], zstd, unzstd),
        (&["--format", "v2s2"], docker, gunzip),
    ] {
        // Each case has its own registry, because skopeo does not push a layer again in another compression.
        let dir = tempfile::tempdir().unwrap();
        let layout = dir.path().join("layout");
        write_layout(&layout);
        let registry = Registry::start(dir.path(), None);
        let app = format!("{}/group/app", registry.address);
        let written = format!("{app}:1");
        push(&layout, &written, &[&["--dest-tls-verify=false"], arguments].concat());
        let manifest = raw_manifest(&written, &["--tls-verify=false"]);
        let pinned = format!("{app}@{}", sha256(&manifest));
        for written in [written, pinned] {
            check(&pull(&written, anonymous()).unwrap(), &manifest, media_type, decompress);
        }
        let error = pull(&format!("{app}:none"), anonymous()).map(|_| ()).unwrap_err();
        assert_eq!(
            error.replace(&registry.address.to_string(), "HOST"),
            "no such image or tag: HOST/group/app:none is not in HOST (MANIFEST_UNKNOWN: manifest unknown)"
        );
    }
}
