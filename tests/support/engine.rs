//! A real Docker Engine for the test, with images, socket and state in a temporary folder. The test target also needs
//! `mod support;` at its root.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::support::{have, is_root};

fn path_with_sbin() -> String {
    let path = std::env::var("PATH").unwrap_or_default();
    format!("{path}:/usr/sbin:/sbin")
}

/// A running `dockerd`; stopped when dropped.
pub struct Dockerd {
    daemon: Child,
    dir: tempfile::TempDir,
}

impl Dockerd {
    /// Starts an engine. If a part is missing, prints that and returns `None`.
    pub fn start() -> Option<Self> {
        let there = ["dockerd", "containerd", "docker"]
            .iter()
            .all(|program| have(program, "docker.io"));
        if !there || !is_root() {
            return None;
        }
        // Not every file system supports overlay2; vfs works on all of them, but copies.
        let engine = Self::try_start("overlay2").or_else(|_| Self::try_start("vfs"));
        Some(engine.unwrap_or_else(|log| panic!("dockerd does not start: {log}")))
    }

    fn try_start(driver: &str) -> Result<Self, String> {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name).display().to_string();
        let log = File::create(at("log")).unwrap();
        fs::write(at("config.json"), "{}").unwrap();
        let daemon = Command::new("dockerd")
            .args(["--iptables=false", "--ip6tables=false", "--bridge=none"])
            .args(["--storage-driver", driver])
            .args(["--data-root", &at("data"), "--exec-root", &at("exec")])
            .args(["--pidfile", &at("pid"), "--config-file", &at("config.json")])
            .args(["--host", &format!("unix://{}", at("docker.sock"))])
            .env("PATH", path_with_sbin())
            .env("HOME", dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut engine = Self { daemon, dir };
        let deadline = Instant::now() + Duration::from_mins(1);
        while Instant::now() < deadline {
            if engine.daemon.try_wait().unwrap().is_some() {
                break;
            }
            if engine.socket().exists() && engine.docker(&["version"]).status.success() {
                return Ok(engine);
            }
            sleep(Duration::from_millis(100));
        }
        let log = fs::read_to_string(engine.dir.path().join("log")).unwrap_or_default();
        let from = log.len().saturating_sub(2000);
        Err(log.get(from..).unwrap_or_default().to_owned())
    }

    /// The engine's socket.
    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("docker.sock")
    }

    /// The value of `DOCKER_HOST` for this engine.
    pub fn host(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    /// A folder that is removed with the engine.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Runs the `docker` command on this engine.
    pub fn docker(&self, arguments: &[&str]) -> std::process::Output {
        Command::new("docker")
            .args(arguments)
            .env("DOCKER_HOST", self.host())
            .env("HOME", self.dir())
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    /// Runs the `docker` command and returns its output; panics if it fails.
    pub fn must(&self, arguments: &[&str]) -> String {
        let output = self.docker(arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "docker {arguments:?}: {errors}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }
}

impl Drop for Dockerd {
    fn drop(&mut self) {
        // After SIGTERM the engine stops its containerd and unmounts. std can only send SIGKILL, hence `kill`.
        let pid = self.daemon.id().to_string();
        let _ = Command::new("kill").arg(pid).status();
        let _ = self.daemon.wait();
        // The engine leaves a network namespace mounted, which would prevent the folder's removal.
        let namespace = self.dir.path().join("exec/netns/default");
        let _ = Command::new("umount").arg(namespace).stderr(Stdio::null()).status();
    }
}

/// A running service of Podman; stopped when dropped.
pub struct Podman {
    service: Child,
    dir: tempfile::TempDir,
}

impl Podman {
    /// Starts the service. If a part is missing, prints that and returns `None`.
    pub fn start() -> Option<Self> {
        if !have("podman", "podman") || !is_root() {
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("podman.sock");
        let service = podman(dir.path())
            .args(["system", "service", "--time", "0"])
            .arg(format!("unix://{}", socket.display()))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let podman = Self { service, dir };
        let deadline = Instant::now() + Duration::from_mins(1);
        while !socket.exists() {
            assert!(Instant::now() < deadline, "podman's service does not start");
            sleep(Duration::from_millis(100));
        }
        Some(podman)
    }

    /// The value of `CONTAINER_HOST` for this service.
    pub fn host(&self) -> String {
        format!("unix://{}/podman.sock", self.dir.path().display())
    }

    /// A folder that is removed with the service.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Runs the `podman` command on the service's images; panics if it fails.
    pub fn must(&self, arguments: &[&str]) {
        let output = podman(self.dir()).args(arguments).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "podman {arguments:?}: {errors}");
    }
}

/// The `podman` command on a private store. The vfs driver needs no kernel module and no mount.
fn podman(dir: &Path) -> Command {
    let mut command = Command::new("podman");
    for (option, name) in [("--root", "root"), ("--runroot", "run"), ("--tmpdir", "tmp")] {
        command.arg(option).arg(dir.join(name));
    }
    command.args(["--storage-driver", "vfs"]).stdin(Stdio::null());
    command
}

impl Drop for Podman {
    fn drop(&mut self) {
        let _ = self.service.kill();
        let _ = self.service.wait();
    }
}
