//! Layers and layouts that come out as written down, byte for byte the same each time.

use std::io::Read as _;

use serde_json::Value;
use testkit::layer::{Compression, Layer, compress};
use testkit::oci::{Image, Layout};

fn layer() -> Layer {
    Layer::new()
        .dir("usr/lib")
        .executable("usr/lib/libone.so.1", b"\x7fELF")
        .symlink("usr/lib/libone.so", "libone.so.1")
        .hardlink("usr/lib/libuno.so", "usr/lib/libone.so.1")
        .file(b"odd\xff\n".as_slice(), "x")
        .file(format!("{}/file", "long/".repeat(60)), "y")
        .whiteout("etc/old")
        .whiteout("gone")
        .opaque("dir")
}

#[test]
fn a_tar_holds_what_was_added_in_that_order() {
    let tar = layer().tar();
    let mut archive = tar::Archive::new(tar.as_slice());
    let entries = archive.entries().unwrap().map(|entry| {
        let mut entry = entry.unwrap();
        let mut content = String::new();
        let _ = entry.read_to_string(&mut content);
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let target = entry.link_name_bytes().map(std::borrow::Cow::into_owned);
        let target = String::from_utf8(target.unwrap_or_default()).unwrap();
        format!("{:o} {name:.20} {content}{target}", entry.header().mode().unwrap())
    });
    assert_eq!(
        entries.collect::<Vec<_>>(),
        [
            "755 usr/lib/ ",
            "755 usr/lib/libone.so.1 \x7fELF",
            "777 usr/lib/libone.so libone.so.1",
            "644 usr/lib/libuno.so usr/lib/libone.so.1",
            "644 odd\u{fffd}\n x",
            "644 long/long/long/long/ y",
            "644 etc/.wh.old ",
            "644 .wh.gone ",
            "644 dir/.wh..wh..opq ",
        ]
    );
}

#[test]
fn every_compression_holds_the_same_tar() {
    let tar = layer().tar();
    let mut inflated = Vec::new();
    let gzip = compress(tar.clone(), Compression::Gzip);
    flate2::read::GzDecoder::new(gzip.as_slice())
        .read_to_end(&mut inflated)
        .unwrap();
    assert_eq!(inflated, tar);
    let zstd = compress(tar.clone(), Compression::Zstd);
    assert_eq!(zstd::decode_all(zstd.as_slice()).unwrap(), tar);
    assert_eq!(layer().blob(Compression::None).bytes, tar);
    let diff_ids =
        [Compression::None, Compression::Gzip, Compression::Zstd].map(|compression| layer().blob(compression).diff_id);
    assert_eq!(diff_ids, [(); 3].map(|()| testkit::layer::sha256(&tar)));
}

#[test]
fn a_layout_leads_from_its_tag_to_the_layer() {
    let image = |platform| {
        Image::new(platform)
            .env("PATH", "/bin")
            .empty_step("ENV PATH=/bin")
            .layer("COPY . /", &layer(), Compression::Gzip)
    };
    let mut layout = Layout::new();
    layout.add("one", &[image("linux/amd64")]);
    layout.add("two", &[image("linux/amd64"), image("linux/arm64/v8")]);
    let files = layout.files();
    let open = |descriptor: &Value| -> Value {
        let digest = descriptor["digest"].as_str().unwrap();
        let blob = &files[&format!("blobs/{}", digest.replace(':', "/"))];
        assert_eq!(testkit::layer::sha256(blob), digest);
        assert_eq!(descriptor["size"], blob.len());
        serde_json::from_slice(blob).unwrap()
    };
    let index: Value = serde_json::from_slice(&files["index.json"]).unwrap();
    assert_eq!(
        index["manifests"][0]["annotations"]["org.opencontainers.image.ref.name"],
        "one"
    );
    let manifest = open(&index["manifests"][0]);
    assert_eq!(manifest["layers"][0]["digest"], layer().blob(Compression::Gzip).digest);
    let config = open(&manifest["config"]);
    assert_eq!(config["config"]["Env"][0], "PATH=/bin");
    assert_eq!(config["history"][0]["empty_layer"], true);
    assert_eq!(config["rootfs"]["diff_ids"][0], layer().blob(Compression::None).diff_id);
    let platforms = open(&index["manifests"][1]);
    assert_eq!(platforms["manifests"][1]["platform"]["variant"], "v8");
    assert_eq!(layout.archive(), layout.clone().archive());
}
