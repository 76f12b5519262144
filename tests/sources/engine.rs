//! An image of a real Docker Engine is the same over the socket, in a saved archive, and copied by skopeo.

use cupti_audit::knowledge::file_interest::cupti_options;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use crate::docker::{Dockerd, Podman};
use crate::image_archive::{Archive, classic, layer};
use crate::support::{have, part};
use image_linkage::layer::{self, ExpectedBlob, LayerIndex};
use image_linkage::rootfs::merge_layers;
use image_source::ArchiveFile;
use image_source::OciLayout;
use image_source::PathKind;
use image_source::find_user;
use image_source::path_kind;
use image_source::{EngineEnvironment, EngineImage, EngineKind};
use image_source::{ImageError, ImageSource, OpenRequest, OpenedImage, OpenedLayers, Platform, SourceKind};
use image_source::{PreferredDocument, WantedImage, open_stream};
use testkit::layer::Layer;

/// The layers of the image, as file names. The third equals the first, which `docker save` stores as a link.
const FILES: [&[&str]; 3] = [&["a", "lib/libx.so"], &["b", "lib/.wh.libx.so"], &["a", "lib/libx.so"]];

fn request<T>(platform: Option<&Platform>, read: impl Fn(&OpenRequest<'_>) -> T) -> T {
    let index = cupti_options();
    read(&OpenRequest {
        platform,
        index: &index,
        progress: &(),
        cache: None,
    })
}

/// The content of each layer of the image, and the diff ids.
fn layers(opened: Result<OpenedImage, ImageError>) -> Vec<String> {
    let opened = opened.unwrap();
    let image = opened.image;
    assert_eq!(image.platform.to_string(), "linux/amd64");
    let indexes: Vec<LayerIndex> = match opened.layers {
        OpenedLayers::Indexed(indexes) => indexes,
        OpenedLayers::Folder(_, index) => vec![*index],
        OpenedLayers::Blobs(blobs) => image
            .layers
            .iter()
            .map(|layer| {
                let expected = ExpectedBlob {
                    digest: layer.digest.as_ref(),
                    size: layer.size,
                    diff_id: layer.diff_id.as_ref(),
                };
                let blob = blobs.open(layer).unwrap();
                layer::index_layer("a layer", blob, &expected, &cupti_options()).unwrap()
            })
            .collect(),
    };
    assert_eq!(indexes.len(), image.layers.len());
    indexes
        .iter()
        .zip(&image.layers)
        .map(|(index, layer)| {
            assert_eq!(Some(&index.diff_id), layer.diff_id.as_ref());
            let files: Vec<String> = index
                .entries
                .iter()
                .map(|(path, _)| path)
                .map(|path| path.to_string())
                .collect();
            let gone: Vec<String> = index.whiteouts.iter().map(ToString::to_string).collect();
            format!("{files:?} without {gone:?} {}", index.diff_id)
        })
        .collect()
}

fn daemon(engine: &Dockerd, name: &str) -> EngineImage {
    EngineImage {
        reference: format!("docker-daemon:{name}"),
        name: name.to_owned(),
        brand: EngineKind::Docker,
        environment: EngineEnvironment {
            docker_host: Some(engine.host()),
            ..EngineEnvironment::default()
        },
    }
}

fn archive(file: &Path, name: Option<&str>) -> ArchiveFile {
    ArchiveFile {
        reference: file.display().to_string(),
        file: file.to_owned(),
        name: name.map(str::to_owned),
        first: PreferredDocument::DockerManifest,
    }
}

fn open(source: &dyn ImageSource) -> Result<OpenedImage, ImageError> {
    request(None, |request| source.open(request))
}

fn stream(file: &Path) -> Result<OpenedImage, ImageError> {
    let wanted = WantedImage {
        reference: "-",
        name: None,
        docker: SourceKind::DockerArchive,
        first: PreferredDocument::DockerManifest,
    };
    request(None, |request| {
        open_stream("standard input", File::open(file).unwrap(), &wanted, request)
    })
}

/// Loads three images into the engine: `app:1` with several layers, `app:latest` and `other`.
fn fill(engine: &Dockerd) {
    let [one, two, three] = FILES.map(layer);
    let saved = engine.dir().join("made.tar");
    let made: Archive = classic(&["app:1"], &[&one, &two, &three]);
    fs::write(&saved, made.tar()).unwrap();
    engine.must(&["load", "-i", saved.to_str().unwrap()]);
    let tar = engine.dir().join("root.tar");
    for name in ["app:latest", "other"] {
        fs::write(&tar, layer(&[name, "etc/os-release"])).unwrap();
        engine.must(&["import", tar.to_str().unwrap(), name]);
    }
}

#[test]
fn an_image_of_an_engine_is_the_same_over_its_socket_saved_and_copied() {
    let Some(engine) = Dockerd::start() else {
        return;
    };
    fill(&engine);
    let expected = layers(open(&daemon(&engine, "app:1")));
    assert_eq!(expected.len(), 3);
    assert!(
        expected[1].starts_with(r#"["/b"] without ["/lib/libx.so"]"#),
        "{expected:?}"
    );
    assert_eq!(expected[0], expected[2]);

    let at = |name: &str| engine.dir().join(name);
    let save = |file: &str, names: &[&str]| {
        let file = at(file);
        engine.must(&[&["save", "-o", file.to_str().unwrap()], names].concat());
        file
    };
    let one = save("one.tar", &["app:1"]);
    assert_eq!(layers(open(&archive(&one, None))), expected);
    assert_eq!(path_kind(one.to_str().unwrap()), Some(PathKind::DockerArchive));
    assert_eq!(layers(stream(&one)), expected);
    let gzip = Command::new("gzip").arg("-k").arg(&one).status().unwrap();
    assert!(gzip.success());
    assert_eq!(layers(open(&archive(&at("one.tar.gz"), None))), expected);

    let all = save("all.tar", &["app:1", "app:latest", "other"]);
    assert_eq!(layers(open(&archive(&all, Some("app:1")))), expected);
    assert!(layers(open(&archive(&all, Some("other"))))[0].contains("/other"));
    let error = open(&archive(&all, None)).err().unwrap().to_string();
    assert!(
        error.ends_with("name one of app:1, app:latest, other:latest"),
        "{error}"
    );

    if have("skopeo", "skopeo") {
        copied_by_skopeo(&one, &engine, &expected);
    }
}

fn copied_by_skopeo(saved: &Path, engine: &Dockerd, expected: &[String]) {
    let copy = |to: &str| {
        let output = Command::new("skopeo")
            .args(["--insecure-policy", "copy", "--quiet"])
            .arg(format!("docker-archive:{}", saved.display()))
            .arg(to)
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "skopeo copy to {to}: {errors}");
    };
    let at = |name: &str| engine.dir().join(name);
    copy(&format!("oci:{}:v1", at("layout").display()));
    copy(&format!("oci-archive:{}:v1", at("oci.tar").display()));
    copy(&format!("docker-archive:{}:x/y:2", at("skopeo.tar").display()));
    let layout = OciLayout {
        reference: "oci:layout".to_owned(),
        dir: at("layout"),
        tag: Some("v1".to_owned()),
    };
    assert_eq!(layers(open(&layout)), expected);
    let oci = ArchiveFile {
        reference: "oci-archive:oci.tar".to_owned(),
        file: at("oci.tar"),
        name: None,
        first: PreferredDocument::OciIndex,
    };
    assert_eq!(layers(open(&oci)), expected);
    assert_eq!(layers(stream(&at("oci.tar"))), expected);
    let again = at("skopeo.tar");
    assert_eq!(layers(open(&archive(&again, Some("x/y:2")))), expected);
    assert_eq!(layers(stream(&again)), expected);
}

/// The paths below `/opt` in a container of the engine, and in our own index.
fn below_opt(engine: &Dockerd, marks: &[&str]) -> [Vec<String>; 2] {
    let lower = Archive::default()
        .file("opt/real/a", "a")
        .file("opt/real/b", "b")
        .symlink("opt/link", "real");
    let layers = [lower.tar(), layer(marks)];
    let saved = engine.dir().join("marks.tar");
    let [lower, upper] = &layers;
    fs::write(&saved, classic(&["marks:1"], &[lower, upper]).tar()).unwrap();
    engine.must(&["load", "-i", saved.to_str().unwrap()]);
    let container = engine.must(&["create", "marks:1", "/none"]);
    let exported = engine.dir().join("root.tar");
    engine.must(&["export", "-o", exported.to_str().unwrap(), container.trim()]);
    engine.must(&["rm", container.trim()]);
    let below = |name: &str| name.trim_end_matches('/').strip_prefix("opt/").map(str::to_owned);
    let mut tar = tar::Archive::new(File::open(exported).unwrap());
    let members = tar
        .entries()
        .unwrap()
        .map(|entry| entry.unwrap().path().unwrap().display().to_string());
    let mut real: Vec<String> = members.filter_map(|name| below(&name)).collect();
    let index =
        |blob: &Vec<u8>| layer::index_layer("a layer", blob.as_slice(), &ExpectedBlob::default(), &cupti_options());
    let indexes = layers.each_ref().map(|blob| index(blob).unwrap());
    let mut ours = Vec::new();
    merge_layers(&indexes)
        .0
        .visit(|path, _, _| ours.extend(below(&path.to_string()[1..])));
    real.sort();
    ours.sort();
    [real, ours]
}

/// umoci unpacks into one directory, so it follows the link and deletes the file behind it.
#[test]
fn a_mark_behind_a_lower_link_makes_a_folder_of_the_link() {
    let Some(engine) = Dockerd::start() else {
        return;
    };
    for marks in [&["opt/link/.wh.a"], &["opt/link/.wh..wh..opq"]] {
        let [real, ours] = below_opt(&engine, marks);
        assert_eq!(real, ["link", "real", "real/a", "real/b"], "{marks:?}");
        assert_eq!(ours, real, "{marks:?}");
    }
}

#[test]
fn an_engine_is_asked_by_name_tag_or_id_and_says_what_it_lacks() {
    let Some(engine) = Dockerd::start() else {
        return;
    };
    fill(&engine);
    // A name without a tag is one image, not the whole repository.
    let latest = layers(open(&daemon(&engine, "app")));
    assert_eq!(latest.len(), 1);
    assert!(latest[0].contains("/app:latest"), "{latest:?}");
    let id = engine.must(&["image", "inspect", "--format", "{{.Id}}", "app:1"]);
    let short = id.strip_prefix("sha256:").unwrap().get(..12).unwrap();
    let whole = layers(open(&daemon(&engine, "app:1")));
    for id in [&id, short] {
        assert_eq!(layers(open(&daemon(&engine, id))), whole, "{id}");
    }
    let error = open(&daemon(&engine, "missing:1")).err().unwrap();
    assert_eq!(
        error.to_string(),
        format!(
            "no such image in the Docker Engine at {}: missing:1; fetch it with: docker pull missing:1, or leave out docker-daemon: to ask the registry",
            engine.host()
        )
    );
    let wanted = Platform::parse("linux/s390x").unwrap();
    let error = request(Some(&wanted), |request| {
        daemon(&engine, "app:1").open(request).err().unwrap()
    });
    assert!(error.to_string().contains("it offers linux/amd64"), "{error}");
}

#[test]
fn an_engine_starts_its_containers_as_the_users_that_we_find() {
    let Some(engine) = Dockerd::start() else { return };
    let Some(launchers) = part("launchers") else { return };
    let passwd =
        "root:x:0:0:root:/root:/bin/sh\napp:x:1000:1000::/home/app:/bin/sh\n  odd:x:x:7::/:/\n77:x:78:79::/:/\n";
    let group = "root:x:0:\napp:x:1000:\nvideo:x:44:other,app\n";
    let root = Layer::new()
        .file("etc/passwd", passwd)
        .file("etc/group", group)
        .executable("busybox", fs::read(launchers.join("bin/busybox")).unwrap());
    let file = engine.dir().join("image.tar");
    fs::write(&file, root.tar()).unwrap();
    engine.must(&["import", &file.to_string_lossy(), "who:t"]);
    let specs = "root app 1000 +1000 app: app:video app:9 :video 1000:44 0:5 2000 2000:2000 77 odd nobody app:none -1 \
                 99999999999";
    for spec in specs.split(' ') {
        let run = ["run", "--rm", "--network", "none", "--user", spec, "who:t"];
        let ids = "/busybox id -u; /busybox id -g; /busybox id -G";
        let output = engine.docker(&[&run[..], &["/busybox", "sh", "-c", ids]].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        match find_user(spec, passwd.as_bytes(), group.as_bytes()) {
            Ok(user) => {
                let text = String::from_utf8(output.stdout).unwrap();
                let real: Vec<u32> = text.split_whitespace().map(|id| id.parse().unwrap()).collect();
                assert_eq!(real[..2], [user.uid, user.gid], "{spec}: {said}");
                // Newer engines also list the user's own group as a supplementary group.
                let groups = user.groups.iter().copied().chain([user.gid]);
                let real = real[2..].iter().copied().chain([real[1]]);
                assert_eq!(real.collect::<BTreeSet<u32>>(), groups.collect(), "{spec}");
            }
            Err(why) => assert!(said.contains(&why) && !output.status.success(), "{spec}: {why} {said}"),
        }
    }
}

#[test]
fn an_image_of_podman_is_the_same_over_its_socket_and_saved() {
    let Some(podman) = Podman::start() else {
        return;
    };
    let at = |name: &str| podman.dir().join(name);
    let [one, two, three] = FILES.map(layer);
    let made = classic(&["app:1"], &[&one, &two, &three]).tar();
    fs::write(at("made.tar"), made).unwrap();
    let expected = layers(open(&archive(&at("made.tar"), None)));
    podman.must(&["load", "-i", at("made.tar").to_str().unwrap()]);
    let source = |name: &str| EngineImage {
        reference: format!("podman:{name}"),
        name: name.to_owned(),
        brand: EngineKind::Podman,
        environment: EngineEnvironment {
            container_host: Some(podman.host()),
            ..EngineEnvironment::default()
        },
    };
    for name in ["app:1", "localhost/app:1"] {
        assert_eq!(layers(open(&source(name))), expected, "{name}");
    }
    let error = open(&source("missing:1")).err().unwrap().to_string();
    assert!(error.starts_with("no such image in Podman at unix://"), "{error}");
    for format in ["docker-archive", "oci-archive"] {
        let file = at(format);
        let name = "localhost/app:1";
        podman.must(&["save", "--format", format, "-o", file.to_str().unwrap(), name]);
        assert_eq!(layers(open(&archive(&file, None))), expected, "{format}");
        assert_eq!(
            layers(open(&archive(&file, Some("localhost/app:1")))),
            expected,
            "{format}"
        );
        assert_eq!(layers(stream(&file)), expected, "{format}");
    }
}
