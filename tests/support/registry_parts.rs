//! The real parts of the registry tests: Debian's `docker-registry`, `skopeo`, `openssl` and `htpasswd`.

use std::fmt::Write as _;
use std::fs::File;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A registry: the program and its Debian package.
pub const REGISTRY: (&str, &str) = ("docker-registry", "docker-registry");
/// The program that pushes images: the same pair.
pub const SKOPEO: (&str, &str) = ("skopeo", "skopeo");

/// Runs a program to its end and returns its output.
pub fn run(program: &str, arguments: &[&str]) -> Vec<u8> {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    output.stdout
}

/// The file in the registry's folder that logs each request.
pub const REQUESTS: &str = "requests.log";

/// A `docker-registry` on 127.0.0.1 that stops when this is dropped.
pub struct Registry {
    /// Its listening address.
    pub address: SocketAddr,
    process: Child,
}

/// The TLS and login settings of a registry.
pub struct Guarded<'a> {
    /// The certificate and the key in PEM form.
    pub tls: (&'a Path, &'a Path),
    /// The output of `htpasswd -B`.
    pub htpasswd: &'a Path,
}

impl Registry {
    /// Starts a registry that keeps its files in `dir`.
    pub fn start(dir: &Path, guarded: Option<&Guarded<'_>>) -> Self {
        // Another program may take the free port before the registry does, so several attempts are made.
        (0..5)
            .find_map(|_| Self::try_start(dir, guarded))
            .expect("docker-registry starts on one of five ports")
    }

    fn try_start(dir: &Path, guarded: Option<&Guarded<'_>>) -> Option<Self> {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let config = dir.join("registry.yml");
        std::fs::write(&config, configuration(dir, address, guarded)).unwrap();
        let process = Command::new("docker-registry")
            .arg("serve")
            .arg(&config)
            .stdout(File::create(dir.join(REQUESTS)).unwrap())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut registry = Self { address, process };
        for _ in 0..400 {
            if registry.process.try_wait().unwrap().is_some() {
                return None;
            }
            if TcpStream::connect(address).is_ok() {
                return Some(registry);
            }
            std::thread::sleep(Duration::from_millis(25));
        }
        None
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn configuration(dir: &Path, address: SocketAddr, guarded: Option<&Guarded<'_>>) -> String {
    let root = dir.join("registry");
    let mut text = format!(
        "version: 0.1\nlog:\n  level: error\nstorage:\n  filesystem:\n    rootdirectory: {}\n",
        root.display()
    );
    if let Some(guarded) = guarded {
        let file = guarded.htpasswd.display();
        let _ = write!(text, "auth:\n  htpasswd:\n    realm: test\n    path: {file}\n");
    }
    let _ = write!(text, "http:\n  addr: {address}\n");
    if let Some(guarded) = guarded {
        let (certificate, key) = (guarded.tls.0.display(), guarded.tls.1.display());
        let _ = write!(text, "  tls:\n    certificate: {certificate}\n    key: {key}\n");
    }
    text
}

/// Makes a CA and a certificate for 127.0.0.1. Returns the CA's certificate, the certificate and its key.
pub fn certificates(dir: &Path) -> (PathBuf, PathBuf, PathBuf) {
    let path = |name: &str| dir.join(name);
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let (ca, ca_key) = (path("ca.crt"), path("ca.key"));
    let (certificate, key, request) = (path("server.crt"), path("server.key"), path("server.csr"));
    let extensions = path("server.ext");
    std::fs::write(
        &extensions,
        "subjectAltName=IP:127.0.0.1,DNS:localhost\nbasicConstraints=CA:FALSE\n",
    )
    .unwrap();
    let new_key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
    let mut arguments = vec!["req", "-x509", "-days", "2", "-subj", "/CN=test CA", "-out"];
    let (ca_text, ca_key_text) = (text(&ca), text(&ca_key));
    arguments.extend([ca_text.as_str(), "-keyout", &ca_key_text]);
    arguments.extend(new_key);
    run("openssl", &arguments);
    let (key_text, request_text) = (text(&key), text(&request));
    let mut arguments = vec![
        "req",
        "-subj",
        "/CN=registry",
        "-out",
        &request_text,
        "-keyout",
        &key_text,
    ];
    arguments.extend(new_key);
    run("openssl", &arguments);
    run(
        "openssl",
        &[
            "x509",
            "-req",
            "-days",
            "2",
            "-in",
            &request_text,
            "-CA",
            &ca_text,
            "-CAkey",
            &ca_key_text,
            "-CAcreateserial",
            "-extfile",
            &text(&extensions),
            "-out",
            &text(&certificate),
        ],
    );
    (ca, certificate, key)
}
