//! A place like those where images are built: an engine that has all images that the pieces of docs/ci/ name, and a
//! registry. The test target has `mod support;`, `mod docker;` and `mod registry;` at its root too.
//!
//! What stands in: the images of Cloud Build's docker and gcloud are a Debian with this machine's docker command
//! and a `gcloud` that copies into a folder; the program is the one under test, on that Debian, where the
//! Dockerfile compiles a static one. With `CUPTI_AUDIT_STATIC` set to a static program the image is `scratch`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::docker::Dockerd;
use crate::registry::{Registry, run};
use crate::support::{have_all, part};

const DEBIAN: &str = "test/debian:latest";
const TOOLS: &str = "test/tools:latest";

/// Our own image, of user 65532.
pub const AUDITOR: &str = "test/cupti-audit:latest";
/// The same, of root.
pub const ROOT_AUDITOR: &str = "test/cupti-audit:root";

/// The fixtures that are built on: what passes, and headers without a library.
const BASES: [&str; 2] = ["devel", "headers-only"];

/// A path of this repository.
pub fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// An engine that has all images that the pieces name, and a registry.
pub struct Site {
    /// The engine.
    pub engine: Dockerd,
    registry: Registry,
    dir: tempfile::TempDir,
}

/// A step of Cloud Build, its substitutions made.
pub struct Step {
    /// The image that it runs in.
    pub image: String,
    /// In place of the image's own.
    pub entrypoint: Option<String>,
    /// What follows.
    pub arguments: Vec<String>,
}

/// The static program that `make test` compiles; `None` with a word about it.
pub fn static_program() -> Option<PathBuf> {
    let program = std::env::var_os("CUPTI_AUDIT_STATIC").filter(|path| !path.is_empty());
    if program.is_none() {
        println!("not run on scratch: it needs a static program; `make test` compiles it");
    }
    program.map(PathBuf::from)
}

impl Site {
    /// Starts an engine and a registry, or says what is missing and gives `None`.
    pub fn start() -> Option<Self> {
        let debian = part("bookworm.tar")?;
        let programs = [("docker-registry", "docker-registry"), ("skopeo", "skopeo")];
        if !have_all(&programs) {
            return None;
        }
        let engine = Dockerd::start()?;
        let dir = tempfile::tempdir().unwrap();
        let registry = Registry::start(dir.path(), None);
        let site = Self { engine, registry, dir };
        site.engine.must(&["import", debian.to_str().unwrap(), DEBIAN]);
        site.tools();
        site.auditor();
        for name in BASES {
            site.load(name);
        }
        Some(site)
    }

    /// A folder of this place, made where it is not there.
    pub fn folder(&self, name: &str) -> PathBuf {
        let folder = self.dir.path().join(name);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn build(&self, folder: &Path, arguments: &[&str]) {
        let fixed = ["build", "--quiet"];
        let folder = folder.to_str().unwrap();
        self.engine.must(&[&fixed, arguments, &[folder]].concat());
    }

    /// What Cloud Build's images of docker and gcloud have in common with these steps.
    fn tools(&self) {
        let folder = self.folder("tools");
        let docker = run("sh", &["-c", "command -v docker"]);
        let docker = String::from_utf8(docker).unwrap();
        fs::copy(docker.trim(), folder.join("docker")).unwrap();
        // gcloud storage cp FILE gs://BUCKET/NAME
        let gcloud = "#!/bin/sh -e\nto=/bucket/${4#gs://}\nmkdir -p \"$(dirname \"$to\")\"\ncp \"$3\" \"$to\"\n";
        fs::write(folder.join("gcloud"), gcloud).unwrap();
        run("chmod", &["+x", folder.join("gcloud").to_str().unwrap()]);
        let text = format!("FROM {DEBIAN}\nCOPY docker gcloud /usr/bin/\nENTRYPOINT [\"docker\"]\n");
        fs::write(folder.join("Dockerfile"), text).unwrap();
        self.build(&folder, &["--tag", TOOLS]);
    }

    /// Our own image by its Dockerfile, with the program at hand in place of the stage that compiles it.
    fn auditor(&self) {
        let folder = self.folder("auditor");
        let text = fs::read_to_string(repository("docs/ci/Dockerfile")).unwrap();
        let at = text.find("FROM scratch AS root").unwrap();
        let mut stages = text[at..].to_owned();
        let program = static_program().unwrap_or_else(|| {
            stages = stages.replace("FROM scratch", &format!("FROM {DEBIAN}"));
            PathBuf::from(env!("CARGO_BIN_EXE_cupti-audit"))
        });
        fs::copy(program, folder.join("cupti-audit")).unwrap();
        fs::write(folder.join("ca-certificates.crt"), "").unwrap();
        let stage = format!(
            "FROM {DEBIAN} AS build\nCOPY cupti-audit /out/\nCOPY ca-certificates.crt /etc/ssl/certs/\n{stages}"
        );
        fs::write(folder.join("Dockerfile"), stage).unwrap();
        self.build(&folder, &["--target", "root", "--tag", ROOT_AUDITOR]);
        self.build(&folder, &["--tag", AUDITOR]);
    }

    /// Puts a fixture image into the engine, to build on.
    fn load(&self, name: &str) {
        let file = self.dir.path().join(format!("{name}.tar"));
        let from = format!("oci:{}", repository("testdata/images").join(name).display());
        let to = format!("docker-archive:{}:base/{name}:latest", file.display());
        run("skopeo", &["--insecure-policy", "copy", "--quiet", &from, &to]);
        self.engine.must(&["load", "-i", file.to_str().unwrap()]);
    }

    /// A folder with a Dockerfile on top of a fixture.
    pub fn project(&self, base: &str, name: &str) -> PathBuf {
        let folder = self.folder(&format!("project-{name}"));
        let text = format!("FROM base/{base}:latest\nLABEL built=here\n");
        fs::write(folder.join("Dockerfile"), text).unwrap();
        folder
    }

    /// The name of an image in the registry.
    pub fn image(&self, name: &str) -> String {
        format!("{}/{name}:latest", self.registry.address)
    }

    /// Runs a step as Cloud Build does: in a container, with its workspace and the engine's socket.
    pub fn step(&self, workspace: &Path, step: &Step) -> Output {
        let socket = format!("{}:/var/run/docker.sock", self.engine.socket().display());
        let bucket = format!("{}:/bucket", self.folder("bucket").display());
        let workspace = format!("{}:/workspace", workspace.display());
        let image = match step.image.as_str() {
            "gcr.io/cloud-builders/docker" | "gcr.io/google.com/cloudsdktool/cloud-sdk:slim" => TOOLS,
            other => other,
        };
        let mut arguments = vec!["run", "--rm", "--network", "host", "--volume", &socket];
        arguments.extend(["--volume", &bucket, "--volume", &workspace]);
        arguments.extend(["--workdir", "/workspace"]);
        if let Some(entrypoint) = &step.entrypoint {
            arguments.extend(["--entrypoint", entrypoint]);
        }
        arguments.push(image);
        arguments.extend(step.arguments.iter().map(String::as_str));
        self.engine.docker(&arguments)
    }

    /// Runs a line of a shell script of another system, beside the engine.
    pub fn shell(&self, folder: &Path, line: &str, values: &[(&str, &str)]) -> Output {
        Command::new("sh")
            .args(["-ec", line])
            .current_dir(folder)
            .env("DOCKER_HOST", self.engine.host())
            .env("HOME", self.engine.dir())
            .envs(values.iter().copied())
            .output()
            .unwrap()
    }
}

/// Whether a registry has an image.
pub fn is_pushed(image: &str) -> bool {
    let manifest = Command::new("skopeo")
        .args(["inspect", "--tls-verify=false", "--raw"])
        .arg(format!("docker://{image}"))
        .output()
        .unwrap();
    manifest.status.success()
}
