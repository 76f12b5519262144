//! Builds images with a real Docker Engine, and inspects the results.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::docker::Dockerd;
use crate::support;

/// The builder to use; an engine contains both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BuildEngine {
    /// The default before Docker 23.
    Classic,
    /// The default since Docker 23.
    BuildKit,
}

/// An engine with a Debian in it, `debian:12`.
pub struct Builder {
    /// The engine.
    pub engine: Dockerd,
    /// The client that can use `BuildKit`, if there is one.
    kit: Option<PathBuf>,
}

impl Audited {
    /// The verdict and its reasons, in the form of a Dockerfile's header.
    pub fn said_verdict(&self) -> String {
        if self.because.is_empty() {
            return self.verdict.clone();
        }
        format!("{} ({})", self.verdict, self.because.join(", "))
    }
}

/// An audit of an image.
#[derive(Debug)]
pub struct Audited {
    /// The verdict for the phase.
    pub verdict: String,
    /// The rules that determine it.
    pub because: Vec<String>,
    /// The whole report.
    pub report: Value,
}

impl Builder {
    /// Starts an engine. If a part is missing, prints that and returns `None`.
    pub fn start() -> Option<Self> {
        let debian = support::part("bookworm.tar")?;
        let engine = Dockerd::start()?;
        engine.must(&["import", debian.to_str().unwrap(), "debian:12"]);
        let mut builder = Self { engine, kit: None };
        fs::create_dir(builder.at("context")).unwrap();
        fs::create_dir(builder.at("empty")).unwrap();
        // The image whose shell verifies an image without one. No registry is reachable here.
        builder.engine.must(&["tag", "debian:12", "busybox:1.37"]);
        builder.kit = builder.find_kit();
        Some(builder)
    }

    /// The available builders. Prints a message if there is only one.
    pub fn builders(&self) -> Vec<BuildEngine> {
        if self.kit.is_none() {
            println!("skipped: no docker command here can ask for BuildKit");
        }
        let kit = self.kit.iter().map(|_| BuildEngine::BuildKit);
        std::iter::once(BuildEngine::Classic).chain(kit).collect()
    }

    /// Up to 20.10 Docker's client contains `BuildKit` support. Later clients need a plug-in, which may be missing.
    fn find_kit(&self) -> Option<PathBuf> {
        fs::write(self.at("Dockerfile"), "FROM debian:12\n").unwrap();
        let clients = ["docker", "/usr/bin/docker"].map(PathBuf::from);
        clients.into_iter().find(|client| {
            let built = Command::new(client)
                .args(["build", "--quiet", "--file"])
                .args([self.at("Dockerfile"), self.context()])
                .env("DOCKER_HOST", self.engine.host())
                .env("DOCKER_BUILDKIT", "1")
                .env("HOME", self.engine.dir())
                .output();
            built.is_ok_and(|output| output.status.success())
        })
    }

    /// A path in a folder that is removed with the engine.
    pub fn at(&self, name: &str) -> PathBuf {
        self.engine.dir().join(name)
    }

    /// The build context.
    pub fn context(&self) -> PathBuf {
        self.at("context")
    }

    /// Builds a Dockerfile and returns the output.
    pub fn build(&self, tag: &str, dockerfile: &str, more: &[&str]) -> Output {
        self.build_in(&self.context(), BuildEngine::Classic, tag, dockerfile, more)
    }

    /// Builds a Dockerfile with this builder. It gets no build context, which a generated Dockerfile does not need.
    pub fn build_by(&self, builder: BuildEngine, tag: &str, dockerfile: &str, more: &[&str]) -> Output {
        self.build_in(&self.at("empty"), builder, tag, dockerfile, more)
    }

    /// Uses the host's network, because the engine has no bridge.
    fn build_in(&self, context: &Path, builder: BuildEngine, tag: &str, dockerfile: &str, more: &[&str]) -> Output {
        let file = self.at("Dockerfile");
        fs::write(&file, dockerfile).unwrap();
        let (client, number) = match builder {
            BuildEngine::Classic => (Path::new("docker"), "0"),
            BuildEngine::BuildKit => (self.kit.as_deref().unwrap(), "1"),
        };
        Command::new(client)
            .args(["build", "--network", "host", "--tag", tag, "--file"])
            .arg(&file)
            .args(more)
            .arg(context)
            .env("DOCKER_HOST", self.engine.host())
            .env("DOCKER_BUILDKIT", number)
            .env("HOME", self.engine.dir())
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    /// Builds a Dockerfile; panics if that fails.
    pub fn must_build(&self, tag: &str, dockerfile: &str) {
        let output = self.build(tag, dockerfile, &[]);
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        assert!(output.status.success(), "{dockerfile}\n{said}");
    }

    /// Runs the program with access to this engine.
    pub fn cupti_audit(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_cupti-audit"))
            .args(arguments)
            .current_dir(self.engine.dir())
            .env_clear()
            .env("DOCKER_HOST", self.engine.host())
            .output()
            .unwrap()
    }

    /// The Dockerfile that the program writes for an image of the engine.
    pub fn dockerfile(&self, image: &str, phase: &str, more: &[&str]) -> String {
        let image = format!("docker-daemon:{image}");
        let arguments = ["dockerfile", &image, "--phase", phase];
        let output = self.cupti_audit(&[&arguments, more].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{image} {more:?}: {said}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Audits an image of the engine.
    pub fn audit(&self, image: &str, phase: &str) -> Audited {
        let image = format!("docker-daemon:{image}");
        let output = self.cupti_audit(&["--format", "json", "--phase", phase, &image]);
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let plan = &report["phases"][phase];
        let because = plan["because"].as_array().unwrap().iter();
        Audited {
            verdict: plan["verdict"].as_str().unwrap().to_owned(),
            because: because.map(|rule| rule.as_str().unwrap().to_owned()).collect(),
            report,
        }
    }

    /// The predicted audit of the result, from a Dockerfile's header, in the form of [`said_verdict`].
    ///
    /// [`said_verdict`]: Audited::said_verdict
    pub fn predicted(text: &str, phase: &str) -> String {
        let begin = format!("# audit of the result for {phase}: ");
        let line = text.lines().find_map(|line| line.strip_prefix(&begin));
        line.unwrap_or_else(|| panic!("nothing is predicted: {text}"))
            .to_owned()
    }

    /// The number of bytes that the build adds, from a Dockerfile's header.
    pub fn predicted_bytes(text: &str) -> Option<f64> {
        let line = text.lines().find_map(|line| line.strip_prefix("# adds "))?;
        let (number, unit) = line.split_once(' ')?;
        let factor = match unit {
            "MB" => 1e6,
            "kB" => 1e3,
            _ => 1.0,
        };
        Some(number.parse::<f64>().ok()? * factor)
    }

    /// Runs a program in a container of the image, as the image's user.
    pub fn run(&self, image: &str, words: &[&str]) -> Output {
        let arguments = ["run", "--rm", "--network", "none", "--entrypoint", words[0], image];
        self.engine.docker(&[&arguments, &words[1..]].concat())
    }

    /// The image's size in bytes according to the engine.
    pub fn size(&self, image: &str) -> u64 {
        let size = self.engine.must(&["image", "inspect", "--format", "{{.Size}}", image]);
        size.parse().unwrap()
    }

    /// Writes a file into the build context.
    pub fn put(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.context().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// Copies a file into the build context.
    pub fn lend(&self, from: &Path, name: &str) {
        self.put(name, fs::read(from).unwrap());
    }
}
