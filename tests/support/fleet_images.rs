//! A real registry with generated images: three bases, and applications built on them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use testkit::layer::{Compression, Layer};
use testkit::oci::{Image, Layout};

use crate::registry_parts::{REQUESTS, Registry, run};

/// Images in a registry that stops when this is dropped.
pub struct FleetRegistry {
    pub registry: Registry,
    dir: PathBuf,
    /// One digest per image.
    pub digests: BTreeSet<String>,
    /// The digests of the layer blobs.
    layers: BTreeSet<String>,
}

fn base(number: usize) -> Layer {
    let layer = Layer::new().file("etc/base", number.to_string());
    match number {
        // A common mistake: the image has copied headers but no library.
        1 => layer.file(
            "usr/local/cuda-12.4/extras/CUPTI/include/cupti.h",
            "#define CUPTI_API_VERSION 22\n",
        ),
        _ => layer,
    }
}

impl FleetRegistry {
    /// Generates and pushes three bases and this many applications; `alias/app0` is another name of the first.
    pub fn of(dir: &Path, applications: usize) -> Self {
        let registry = Registry::start(dir, None);
        let bases: Vec<Image> = (0..3)
            .map(|number| Image::new("linux/amd64").layer("ADD root", &base(number), Compression::Gzip))
            .collect();
        let application = |number: usize| {
            let own = Layer::new().file("app/number", number.to_string());
            bases[number % 3].clone().layer("COPY app", &own, Compression::Gzip)
        };
        let mut images: Vec<(String, Image)> = bases
            .iter()
            .cloned()
            .enumerate()
            .map(|(number, base)| (format!("bases/base{number}"), base))
            .collect();
        images.extend((0..applications).map(|number| (format!("team{}/app{number}", number % 4), application(number))));
        let mut layout = Layout::new();
        let tag = |name: &str| name.replace('/', "-");
        let digests = images
            .iter()
            .map(|(name, image)| layout.add(&tag(name), std::slice::from_ref(image)))
            .collect();
        let layers = images
            .iter()
            .flat_map(|(_, image)| image.blobs().map(|blob| blob.digest.clone()))
            .collect();
        let folder = dir.join("layout");
        layout.write_to(&folder).unwrap();
        let names = images.iter().map(|(name, _)| (name.as_str(), tag(name)));
        let pushed: Vec<_> = names.chain([("alias/app0", tag("team0/app0"))]).collect();
        for some in pushed.chunks(4) {
            std::thread::scope(|scope| {
                for (name, tag) in some {
                    let from = format!("oci:{}:{tag}", folder.display());
                    let to = format!("docker://{}/{name}:v1", registry.address);
                    scope.spawn(move || run("skopeo", &["copy", "--quiet", "--dest-tls-verify=false", &from, &to]));
                }
            });
        }
        Self {
            registry,
            dir: dir.to_owned(),
            digests,
            layers,
        }
    }

    /// The number of requests for layer bytes so far.
    pub fn layer_reads(&self) -> usize {
        let log = std::fs::read_to_string(self.dir.join(REQUESTS)).unwrap();
        let reads = log
            .lines()
            .filter(|line| line.contains("\"GET /v2/") && !line.contains("skopeo"));
        reads
            .filter(|line| self.layers.iter().any(|layer| line.contains(layer.as_str())))
            .count()
    }
}

/// The program with a cache folder and an engine's variables.
pub fn fleet(cache: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cupti-audit"));
    command
        .arg("fleet")
        .args(arguments)
        .env_clear()
        .envs(variables.iter().copied());
    if arguments.first() != Some(&"report") {
        command.arg("--no-config");
    }
    if arguments.first() == Some(&"run") {
        command.arg("--cache-dir").arg(cache);
    }
    command
}

/// Runs a command and returns the exit code, stdout and stderr.
pub fn outcome(mut command: Command) -> (i32, String, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

/// Starts a command.
pub fn start(mut command: Command) -> Child {
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// The digests of the results in a folder, with duplicates.
pub fn results(out: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for part in std::fs::read_dir(out.join("results")).into_iter().flatten() {
        for file in std::fs::read_dir(part.unwrap().path()).unwrap() {
            let name = file.unwrap().file_name().into_string().unwrap();
            let digest = name
                .strip_suffix("_linux-amd64.json")
                .map(|digest| digest.replacen('-', ":", 1));
            found.extend(digest);
        }
    }
    found.sort();
    found
}
