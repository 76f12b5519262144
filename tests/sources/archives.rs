//! Image archives and layouts: every way of reading gives the same image, and invalid archives are refused.

use std::io::Write as _;
use std::path::Path;

use crate::image_archive::{Archive, blobs, classic, config, entry, index, layer, layout, named, sha256};
use crate::registry_faults::{CaseFile, Names, filled};
use image_linkage::layer::{self, ExpectedBlob, IndexOptions, LayerIndex};
use image_linkage::limits::Limits;
use image_source::ArchiveFile;
use image_source::OciLayout;
use image_source::PathKind;
use image_source::path_kind;
use image_source::{ImageError, ImageSource, OpenRequest, OpenedImage, OpenedLayers, Platform, SourceKind};
use image_source::{PreferredDocument, WantedImage, open_stream};
use indexmap::IndexMap;
use serde::Deserialize;
use testkit::seeds::is_asked;

/// An archive, and the images that are asked for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    /// In texts and names, `<NAME>` is the digest of a content, `<NAME.size>` its size; `<NAME.short>` and `<NAME.6>`
    /// are the first 12 and 6 digits of the digest.
    #[serde(default)]
    contents: IndexMap<String, Content>,
    members: IndexMap<String, Content>,
    asks: Vec<Asking>,
}

/// The content of a blob or a member.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Content {
    /// A layer with these files.
    Layer(Vec<String>),
    Gzip(Vec<String>),
    Zstd(Vec<String>),
    Text(String),
    Link(String),
    Hardlink(String),
    /// The content of this name.
    Of(String),
}

/// A requested image, and what is said of it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asking {
    name: Option<String>,
    platform: Option<String>,
    #[serde(default)]
    oci: bool,
    says: String,
}

impl Content {
    fn bytes(&self, names: &Names) -> Vec<u8> {
        let layer = |files: &[String]| layer(&files.iter().map(String::as_str).collect::<Vec<_>>());
        match self {
            Self::Layer(files) => layer(files),
            Self::Gzip(files) => gzip(&layer(files)),
            Self::Zstd(files) => zstd(&layer(files)),
            Self::Text(text) => filled(text, names).into_bytes(),
            Self::Link(_) | Self::Hardlink(_) | Self::Of(_) => panic!("it has no bytes of its own"),
        }
    }
}

impl Case {
    fn archive(&self) -> (Archive, Names) {
        let (mut names, mut contents) = (Names::new(), IndexMap::new());
        for (name, content) in &self.contents {
            let bytes = content.bytes(&names);
            let digest = sha256(&bytes);
            let part = |end: &str, value: &str| (format!("<{name}{end}>"), value.to_owned());
            let digests = [
                part("", &digest),
                part(".short", &digest[..12]),
                part(".6", &digest[..6]),
            ];
            names.extend(digests);
            names.push(part(".size", &bytes.len().to_string()));
            contents.insert(name, bytes);
        }
        let add = |archive: Archive, (name, content): (&String, &Content)| {
            let name = filled(name, &names);
            match content {
                Content::Link(target) => archive.symlink(&name, target),
                Content::Hardlink(target) => archive.hardlink(&name, target),
                Content::Of(content) => archive.file(&name, &contents[content]),
                content => archive.file(&name, content.bytes(&names)),
            }
        };
        (self.members.iter().fold(Archive::default(), add), names)
    }
}

#[test]
fn s_01_s_02_s_08_s_10_s_12_s_14_each_archive_gives_the_expected_image() {
    let text = std::fs::read_to_string("testdata/archives.yaml").unwrap();
    let file: CaseFile<Case> = serde_saphyr::from_str(&text).unwrap();
    for (question, case) in file.cases.into_iter().filter(|(question, _)| is_asked(question)) {
        println!("{question}");
        let (archive, names) = case.archive();
        for asking in &case.asks {
            let name = asking.name.as_ref().map(|name| filled(name, &names));
            let ask = Ask {
                name: name.as_deref(),
                platform: asking.platform.as_deref(),
                oci: asking.oci,
            };
            check(&archive, ask, &filled(&asking.says, &names));
        }
    }
}

/// The requested image of an archive.
#[derive(Clone, Copy, Default)]
struct Ask<'a> {
    name: Option<&'a str>,
    platform: Option<&'a str>,
    oci: bool,
}

fn with_request<T>(ask: Ask<'_>, limits: &Limits, read: impl Fn(&OpenRequest<'_>) -> T) -> T {
    let platform = ask.platform.map(|text| Platform::parse(text).unwrap());
    let index = IndexOptions {
        limits: limits.clone(),
        ..IndexOptions::default()
    };
    read(&OpenRequest {
        platform: platform.as_ref(),
        index: &index,
        progress: &(),
        cache: None,
    })
}

/// The image as text: source, digest, platform and the files of each layer; or the error.
fn words(opened: Result<OpenedImage, ImageError>) -> String {
    match opened.and_then(read_layers) {
        Ok((image, layers)) => format!(
            "{} {} {} {layers:?}",
            image.source.scheme(),
            image
                .digest
                .map_or("-".to_owned(), |digest| digest.digest()[..6].to_owned()),
            image.platform
        ),
        Err(error) => error.to_string(),
    }
}

fn read_layers(opened: OpenedImage) -> Result<(image_source::Image, Vec<Vec<String>>), ImageError> {
    let names = |index: &LayerIndex| {
        let paths = index.entries.iter().map(|(path, _)| path);
        paths.map(|path| path.to_string()).collect()
    };
    let layers = match opened.layers {
        OpenedLayers::Indexed(indexes) => indexes.iter().map(names).collect(),
        OpenedLayers::Folder(_, index) => vec![names(&index)],
        OpenedLayers::Blobs(blobs) => opened
            .image
            .layers
            .iter()
            .map(|layer| {
                let expected = ExpectedBlob {
                    digest: layer.digest.as_ref(),
                    size: layer.size,
                    diff_id: layer.diff_id.as_ref(),
                };
                let index = layer::index_layer("a layer", blobs.open(layer)?, &expected, &IndexOptions::default())?;
                Ok(names(&index))
            })
            .collect::<Result<_, ImageError>>()?,
    };
    Ok((opened.image, layers))
}

/// Reads `bytes` as a file.
fn from_file(bytes: &[u8], ask: Ask<'_>) -> String {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("saved");
    std::fs::write(&path, bytes).unwrap();
    let reference = "the reference".to_owned();
    let (file, name) = (path.clone(), ask.name.map(str::to_owned));
    let first = if ask.oci {
        PreferredDocument::OciIndex
    } else {
        PreferredDocument::DockerManifest
    };
    let archive = ArchiveFile {
        reference,
        file,
        name,
        first,
    };
    let found = with_request(ask, &Limits::default(), |request| words(archive.open(request)));
    found.replace(path.to_str().unwrap(), "saved")
}

/// Reads `bytes` as a stream.
fn from_stream(bytes: &[u8], ask: Ask<'_>, limits: &Limits) -> String {
    let wanted = WantedImage {
        reference: "the reference",
        name: ask.name,
        docker: SourceKind::DockerArchive,
        first: if ask.oci {
            PreferredDocument::OciIndex
        } else {
            PreferredDocument::DockerManifest
        },
    };
    with_request(ask, limits, |request| {
        words(open_stream("saved", bytes, &wanted, request))
    })
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 3).unwrap()
}

/// Reads the archive in every way and compares each result with `expected`.
#[track_caller]
fn check(archive: &Archive, ask: Ask<'_>, expected: &str) {
    let limits = Limits::default();
    for (order, archive) in [("in order", archive.clone()), ("reversed", archive.clone().reversed())] {
        let tar = archive.tar();
        assert_eq!(from_file(&tar, ask), expected, "file {order}");
        assert_eq!(from_stream(&tar, ask, &limits), expected, "stream {order}");
        assert_eq!(from_file(&gzip(&tar), ask), expected, "gzip {order}");
        assert_eq!(from_file(&zstd(&tar), ask), expected, "zstd {order}");
    }
}

const ANY: Ask<'_> = Ask {
    name: None,
    platform: None,
    oci: false,
};
const OCI: Ask<'_> = Ask { oci: true, ..ANY };

fn ask(name: &str) -> Ask<'_> {
    Ask {
        name: Some(name),
        ..ANY
    }
}

#[test]
fn what_is_no_archive_is_said() {
    let text = from_file(b"no archive at all", ANY);
    assert_eq!(text, "saved is not a container image: it is not a tar archive");
    assert_eq!(
        from_file(b"", ANY),
        "saved is not a container image: it is empty; did its writer fail?"
    );
    assert_eq!(
        from_stream(b"", ANY, &Limits::default()),
        "saved is not a container image: it is empty; did its writer fail?"
    );
}

#[test]
fn s_04_bytes_that_differ_from_their_digest_are_refused() {
    let one = layer(&["a"]);
    let oci = blobs("amd64", &[(&one, &one)]);
    let name = &oci.layers[0];
    let other = layer(&["b"]);
    let bad = layout(oci.archive.clone().file(name, &other), &index(&[oci.descriptor("")]));
    let reason = format!(
        "expected digest sha256:{}, found sha256:{}; the blob is damaged or was tampered with",
        sha256(&one),
        sha256(&other)
    );
    assert_eq!(from_file(&bad.tar(), OCI), format!("layer a layer: {reason}"));
    let stream = from_stream(&bad.tar(), OCI, &Limits::default());
    assert_eq!(stream, format!("layer {name}: {reason}"));
    // In an old archive, the config lists the layers' digests.
    let bad = Archive::default()
        .file("c.json", config("amd64", &[&one]))
        .file("layer.tar", &other)
        .file("manifest.json", format!("[{}]", entry("c.json", &[], &["layer.tar"])))
        .tar();
    assert_eq!(
        from_stream(&bad, ANY, &Limits::default()),
        format!(
            "layer.tar in saved, uncompressed: expected digest sha256:{}, found sha256:{}; the source is damaged or was tampered with",
            sha256(&one),
            sha256(&other)
        )
    );
    assert!(from_file(&bad, ANY).starts_with("layer a layer: the uncompressed bytes have the digest"));
}

/// The config names of an archive: by its digest, by another one, and others.
fn config_names(config: &str) -> [String; 7] {
    let (own, other) = (sha256(config), sha256("other"));
    [
        format!("{own}.json"),
        format!("{other}.json"),
        format!("sha256:{other}"),
        format!("blobs/sha256/{other}"),
        own,
        "config".to_owned(),
        "x/config.json".to_owned(),
    ]
}

#[test]
fn a_config_is_read_by_any_name() {
    let one = layer(&["a"]);
    let json = config("amd64", &[&one]);
    let engine = crate::docker::Dockerd::start();
    for (at, name) in config_names(&json).iter().enumerate() {
        let tag = format!("app:{at}");
        let archive = Archive::default()
            .file(name, &json)
            .file("layer.tar", &one)
            .file("manifest.json", format!("[{}]", entry(name, &[&tag], &["layer.tar"])));
        let expected = r#"docker-archive - linux/amd64 [["/a"]]"#;
        check(&archive, ANY, expected);
        // Its ID is the digest of its bytes.
        check(&archive, ask(&sha256(&json)[..12]), expected);
        check(
            &archive,
            ask(&sha256("other")[..12]),
            &format!("saved has no image \"{}\"; it has {tag}", &sha256("other")[..12]),
        );
        let Some(engine) = &engine else { continue };
        let file = engine.dir().join("saved.tar").display().to_string();
        std::fs::write(&file, archive.tar()).unwrap();
        engine.must(&["load", "--input", &file]);
        let id = engine.must(&["image", "inspect", "--format", "{{.Id}}", &tag]);
        assert_eq!(id, format!("sha256:{}", sha256(&json)), "{name}");
    }
    if engine.is_some() {
        println!(
            "Docker loads the image by each of {} config names",
            config_names(&json).len()
        );
    }
}

#[test]
fn a_layer_that_is_json_is_an_error() {
    let used = Archive::default()
        .file("c.json", config("amd64", &[b"{}"]))
        .file("layer.tar", "{}")
        .file("manifest.json", format!("[{}]", entry("c.json", &[], &["layer.tar"])));
    let stream = from_stream(&used.tar(), ANY, &Limits::default());
    assert_eq!(stream, "layer layer.tar: it is a JSON document and no tar archive");
}

#[test]
fn an_archive_that_is_cut_short_is_an_error_that_names_the_member() {
    let one = layer(&["a"]);
    let tar = classic(&[], &[&one]).tar();
    let inside = tar.windows(4).position(|at| at == b"a\0\0\0").unwrap() + 700;
    let cut = "saved: the archive ends inside its member 0/layer.tar; it was cut short, save the image again";
    assert_eq!(from_file(&tar[..inside], ANY), cut);
    assert_eq!(from_stream(&tar[..inside], ANY, &Limits::default()), cut);
    let missing = classic(&[], &[&one]).tar();
    let end = missing.windows(13).rposition(|at| at == b"manifest.json").unwrap();
    assert!(from_file(&missing[..end], ANY).contains("layer order is unknown"));
    assert!(
        from_stream(&missing[..end + 20], ANY, &Limits::default()).contains("in the header after its member 0/VERSION")
    );
    // An engine that fails during the export ends the archive with its error.
    let mut failed = missing[..end].to_vec();
    failed.extend(br#"{"errorDetail":{"message":"no space left on device"}}"#);
    failed.resize(failed.len() + 512, 0);
    assert!(from_stream(&failed, ANY, &Limits::default()).contains("no space left on device"));
}

/// The archive with `bytes` at offset `at` of its first header, and a valid checksum.
fn with_header(tar: &[u8], at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut tar = tar.to_vec();
    tar[at..at + bytes.len()].copy_from_slice(bytes);
    tar[148..156].fill(b' ');
    let sum: u32 = tar[..512].iter().map(|&byte| u32::from(byte)).sum();
    tar[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    tar
}

#[test]
fn headers_of_an_archive_are_read_as_those_of_a_layer() {
    let one = layer(&["a"]);
    let good = classic(&[], &[&one]);
    let tar = good.tar();
    let both = |tar: &[u8], expected: &str| {
        assert_eq!(from_file(tar, ANY), expected);
        assert_eq!(from_stream(tar, ANY, &Limits::default()), expected);
    };
    // The reader does not use the owner, so an invalid one is ignored. An invalid size is an error.
    both(
        &with_header(&tar, 108, b"nobody\0\0"),
        r#"docker-archive - linux/amd64 [["/a"]]"#,
    );
    let refused = |why: &str| format!("saved is not a container image: {why}");
    both(
        &with_header(&tar, 124, b"many bytes\0\0"),
        &refused("the size is not a number"),
    );
    let mut damaged = tar.clone();
    damaged[0] ^= 1;
    assert!(from_file(&damaged, ANY).contains("the checksum is"));
    let long = Archive::default().file(&"n/".repeat(3000), "").join(good);
    both(
        &long.tar(),
        &refused("the name of a member is longer than the limit of 4096 bytes"),
    );
}

#[test]
fn documents_and_layers_of_a_stream_are_bounded() {
    let one = layer(&["a"]);
    let tar = classic(&[], &[&one, &one]).tar();
    let limits = Limits {
        kept_total: 100,
        ..Limits::default()
    };
    assert_eq!(
        from_stream(&tar, ANY, &limits),
        "all documents of saved together is larger than the limit of 100 bytes (document)"
    );
    let limits = Limits {
        layers: 1,
        ..Limits::default()
    };
    assert_eq!(
        from_stream(&tar, ANY, &limits),
        "saved is not a container image: it holds more layers than the limit of 1 (layers); save fewer images at once"
    );
    let limits = Limits {
        document: 100,
        ..Limits::default()
    };
    assert!(from_stream(&tar, ANY, &limits).contains("manifest.json"));
}

/// Writes the members of an OCI layout into a directory.
fn unpack(archive: &Archive, dir: &Path) {
    tar::Archive::new(archive.tar().as_slice()).unpack(dir).unwrap();
}

fn from_folder(dir: &Path, tag: Option<&str>) -> String {
    let source = OciLayout {
        reference: "the reference".to_owned(),
        dir: dir.to_owned(),
        tag: tag.map(str::to_owned),
    };
    let found = with_request(ANY, &Limits::default(), |request| words(source.open(request)));
    found.replace(dir.to_str().unwrap(), "DIR")
}

#[test]
fn a_layout_in_a_folder_gives_the_same_image() {
    let one = layer(&["a"]);
    let gz = gzip(&one);
    let oci = blobs("amd64", &[(&gz, &one)]);
    let archive = layout(oci.archive.clone(), &index(&[oci.descriptor(&named("v1"))]));
    let dir = tempfile::tempdir().unwrap();
    unpack(&archive, dir.path());
    let expected = format!(r#"oci {} linux/amd64 [["/a"]]"#, &oci.manifest[..6]);
    assert_eq!(from_folder(dir.path(), None), expected);
    assert_eq!(from_folder(dir.path(), Some("v1")), expected);
    assert_eq!(
        from_folder(dir.path(), Some("v2")),
        "DIR has no image \"v2\"; it has v1"
    );
    assert_eq!(path_kind(dir.path().to_str().unwrap()), Some(PathKind::OciLayout));

    let blob = dir.path().join(&oci.layers[0]);
    std::fs::write(&blob, &one).unwrap();
    assert_eq!(
        from_folder(dir.path(), None),
        format!(
            "{} in DIR: expected {} bytes, read {}; the source is damaged or was cut short",
            oci.layers[0],
            gz.len(),
            one.len()
        )
    );
    std::fs::remove_file(&blob).unwrap();
    assert!(from_folder(dir.path(), None).contains("is named by its manifest and is missing"));
    std::fs::remove_file(dir.path().join("oci-layout")).unwrap();
    assert_eq!(
        from_folder(dir.path(), None),
        "DIR is not a container image: it has no oci-layout file"
    );
    assert_eq!(path_kind(dir.path().to_str().unwrap()), Some(PathKind::Folder));
}

#[test]
fn s_03_a_blob_that_is_a_link_is_refused() {
    let one = layer(&["a"]);
    let oci = blobs("amd64", &[(&one, &one)]);
    let archive = layout(oci.archive.clone(), &index(&[oci.descriptor("")]));
    let refused = "blobs have to be regular files below the layout's folder, and a link may lead out of it";
    let (dir, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    unpack(&archive, dir.path());
    let blob = dir.path().join(&oci.layers[0]);
    std::fs::rename(&blob, outside.path().join("blob")).unwrap();
    std::os::unix::fs::symlink(outside.path().join("blob"), &blob).unwrap();
    assert_eq!(
        from_folder(dir.path(), None),
        format!("{} in DIR: {refused}", oci.layers[0])
    );

    let dir = tempfile::tempdir().unwrap();
    unpack(&archive, dir.path());
    std::fs::rename(dir.path().join("blobs"), outside.path().join("blobs")).unwrap();
    std::os::unix::fs::symlink(outside.path().join("blobs"), dir.path().join("blobs")).unwrap();
    assert!(from_folder(dir.path(), None).ends_with(refused));
}

#[test]
fn a_path_is_recognised_by_its_content() {
    let one = layer(&["a"]);
    let oci = blobs("amd64", &[(&one, &one)]);
    let archive = layout(oci.archive.clone(), &index(&[oci.descriptor("")]));
    let docker = archive.clone().file("manifest.json", "[]").tar();
    let root = testkit::layer::Layer::new()
        .file("bin/sh", "")
        .file("etc/passwd", "")
        .file("usr/bin/x", "");
    let dir = tempfile::tempdir().unwrap();
    for (bytes, expected) in [
        (archive.tar(), PathKind::OciArchive),
        (gzip(&archive.clone().reversed().tar()), PathKind::OciArchive),
        (gzip(&archive.tar()), PathKind::DockerArchive),
        (docker.clone(), PathKind::DockerArchive),
        (zstd(&docker), PathKind::DockerArchive),
        (classic(&[], &[&one]).tar(), PathKind::DockerArchive),
        (one.clone(), PathKind::Other(None)),
        (root.tar(), PathKind::RootfsArchive),
        (gzip(&root.tar()), PathKind::RootfsArchive),
        (b"text".to_vec(), PathKind::Other(None)),
        (Vec::new(), PathKind::Empty),
    ] {
        let path = dir.path().join("file");
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(path_kind(path.to_str().unwrap()), Some(expected));
    }
    assert_eq!(path_kind(dir.path().to_str().unwrap()), Some(PathKind::Folder));
    assert_eq!(path_kind("/does/not/exist"), None);
}
