//! An environment like a real CI system: a registry, and an engine with all images that the examples in docs/ci/ use.
//! The test target also needs `mod support;`, `mod docker;` and `mod registry;` at its root.
//!
//! Some parts are substitutes. Cloud Build's docker and gcloud images are a Debian with this machine's docker command
//! and a `gcloud` that copies into a folder. The program is the one under test, on that Debian, although the Dockerfile
//! compiles a static one. If `CUPTI_AUDIT_STATIC` names a static program, the image is `scratch`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Arc, Mutex, Weak};

use crate::docker::Dockerd;
use crate::registry::{Registry, run};
use crate::support::{have_all, part};

const DEBIAN: &str = "test/debian:latest";
const TOOLS: &str = "test/tools:latest";

/// Our own image, with user 65532.
pub const AUDITOR: &str = "test/cupti-audit:latest";
/// Same, with root.
pub const ROOT_AUDITOR: &str = "test/cupti-audit:root";

/// The base fixtures: one that passes, and one with headers but no library.
const BASES: [&str; 2] = ["devel", "headers-only"];

/// A path in this repository.
pub fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// A registry, and an engine with all images of the examples.
pub struct Site {
    /// The engine.
    pub engine: Dockerd,
    registry: Registry,
    dir: tempfile::TempDir,
}

/// A Cloud Build step with its substitutions applied.
pub struct Step {
    /// The step's image.
    pub image: String,
    /// Replaces the image's entrypoint.
    pub entrypoint: Option<String>,
    /// The arguments after the entrypoint.
    pub arguments: Vec<String>,
}

/// The static program that `make test` compiles. If it is missing, prints that and returns `None`.
pub fn static_program() -> Option<PathBuf> {
    let program = std::env::var_os("CUPTI_AUDIT_STATIC").filter(|path| !path.is_empty());
    if program.is_none() {
        println!("not run on scratch: it needs a static program; `make test` compiles it");
    }
    program.map(PathBuf::from)
}

/// The environment of the running tests; the last one stops it.
static SHARED: Mutex<Weak<Site>> = Mutex::new(Weak::new());

impl Site {
    /// The environment that tests share, each with its own names of projects and images. If a part is missing, prints
    /// that and returns `None`.
    pub fn shared() -> Option<Arc<Self>> {
        let mut shared = SHARED.lock().unwrap();
        if let Some(site) = shared.upgrade() {
            return Some(site);
        }
        let site = Arc::new(Self::start()?);
        *shared = Arc::downgrade(&site);
        Some(site)
    }

    /// Starts an engine and a registry.
    fn start() -> Option<Self> {
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

    /// A folder of this environment; creates it if necessary.
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

    /// Builds the substitute for Cloud Build's docker and gcloud images, with the commands that the steps use.
    fn tools(&self) {
        let folder = self.folder("tools");
        let docker = run("sh", &["-c", "command -v docker"]);
        let docker = String::from_utf8(docker).unwrap();
        fs::copy(docker.trim(), folder.join("docker")).unwrap();
        // The only supported form: gcloud storage cp FILE gs://BUCKET/NAME
        let gcloud = "#!/bin/sh -e\nto=/bucket/${4#gs://}\nmkdir -p \"$(dirname \"$to\")\"\ncp \"$3\" \"$to\"\n";
        fs::write(folder.join("gcloud"), gcloud).unwrap();
        run("chmod", &["+x", folder.join("gcloud").to_str().unwrap()]);
        let text = format!("FROM {DEBIAN}\nCOPY docker gcloud /usr/bin/\nENTRYPOINT [\"docker\"]\n");
        fs::write(folder.join("Dockerfile"), text).unwrap();
        self.build(&folder, &["--tag", TOOLS]);
    }

    /// Builds our own image from its Dockerfile. The existing program replaces the stage that compiles it.
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

    /// Loads a fixture image into the engine as a base.
    fn load(&self, name: &str) {
        let file = self.dir.path().join(format!("{name}.tar"));
        let from = format!("oci:{}", repository("testdata/images").join(name).display());
        let to = format!("docker-archive:{}:base/{name}:latest", file.display());
        run("skopeo", &["--insecure-policy", "copy", "--quiet", &from, &to]);
        self.engine.must(&["load", "-i", file.to_str().unwrap()]);
    }

    /// A folder with a Dockerfile based on a fixture.
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

    /// Runs a step like Cloud Build: in a container, with the workspace and the engine's socket.
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

    /// Runs a line of another CI system's shell script, outside of containers.
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

/// Whether the registry has the image.
pub fn is_pushed(image: &str) -> bool {
    let manifest = Command::new("skopeo")
        .args(["inspect", "--tls-verify=false", "--raw"])
        .arg(format!("docker://{image}"))
        .output()
        .unwrap();
    manifest.status.success()
}
