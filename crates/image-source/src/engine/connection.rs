//! Locates an engine and sends requests to it.
#![expect(clippy::disallowed_methods, reason = "an image source reads the host")]

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use reqwest::blocking::{Body, Client, ClientBuilder, Response};
use reqwest::header::CONTENT_TYPE;
use reqwest::{Certificate, Identity};
use serde::Deserialize;

use super::kind::EngineKind;
use crate::image_error::ImageError;
use crate::registry::client_builder;
use crate::verify::read_small_file;
use image_linkage::escape;

/// The environment variables that locate an engine. An empty value counts as unset.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EngineEnvironment {
    /// `DOCKER_HOST`: an address such as `unix:///run/docker.sock` or `tcp://HOST:PORT`.
    pub docker_host: Option<String>,
    /// `DOCKER_TLS_VERIFY`: any value enables TLS.
    pub docker_tls_verify: Option<String>,
    /// `DOCKER_CERT_PATH`, the directory of `ca.pem`, `cert.pem` and `key.pem`.
    pub docker_cert_path: Option<PathBuf>,
    /// `CONTAINER_HOST`, Podman's counterpart, in the same form.
    pub container_host: Option<String>,
    /// `XDG_RUNTIME_DIR`, which contains the sockets of rootless engines.
    pub xdg_runtime_dir: Option<PathBuf>,
    /// `HOME`, which contains Docker Desktop's socket and certificates.
    pub home: Option<PathBuf>,
}

impl EngineEnvironment {
    /// The variables of this process.
    pub fn from_env() -> Self {
        let text = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        Self {
            docker_host: text("DOCKER_HOST"),
            docker_tls_verify: text("DOCKER_TLS_VERIFY"),
            docker_cert_path: text("DOCKER_CERT_PATH").map(PathBuf::from),
            container_host: text("CONTAINER_HOST"),
            xdg_runtime_dir: text("XDG_RUNTIME_DIR").map(PathBuf::from),
            home: text("HOME").map(PathBuf::from),
        }
    }

    /// The configured host of `brand`.
    fn host(&self, brand: EngineKind) -> Option<&str> {
        match brand {
            EngineKind::Docker => self.docker_host.as_deref(),
            EngineKind::Podman => self.container_host.as_deref(),
        }
    }

    /// The default sockets of `brand`, in the order tried.
    fn sockets(&self, brand: EngineKind) -> Vec<PathBuf> {
        let runtime = self.xdg_runtime_dir.as_ref();
        // Docker contexts are not read, so try the sockets of rootless Docker and Docker Desktop by name.
        let home = self.home.as_ref();
        match brand {
            EngineKind::Docker => [
                Some(PathBuf::from("/var/run/docker.sock")),
                runtime.map(|dir| dir.join("docker.sock")),
                home.map(|dir| dir.join(".docker/run/docker.sock")),
            ],
            // A user's own service comes before root's, whose socket may not be accessible.
            EngineKind::Podman => [
                runtime.map(|dir| dir.join("podman/podman.sock")),
                Some(PathBuf::from("/run/podman/podman.sock")),
                None,
            ],
        }
        .into_iter()
        .flatten()
        .collect()
    }
}

/// The address of an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
enum EngineEndpoint {
    Socket(PathBuf),
    Tcp(String),
    Tls(String),
}

/// A connection to an engine.
pub(super) struct EngineConnection {
    /// The engine's name in errors.
    pub what: String,
    /// Whether it is a local socket.
    is_local: bool,
    brand: EngineKind,
    base: String,
    client: Client,
}

/// Locates the engine of `brand` and prepares a client. Sends nothing.
pub(super) fn connect_engine(
    brand: EngineKind,
    environment: &EngineEnvironment,
) -> Result<EngineConnection, ImageError> {
    let endpoint = endpoint(brand, environment)?;
    let (shown, base) = match &endpoint {
        EngineEndpoint::Socket(path) => (
            format!("unix://{}", path.display()),
            // HTTP requires a host name; it is never resolved for a socket.
            "http://engine".to_owned(),
        ),
        EngineEndpoint::Tcp(address) => (format!("tcp://{address}"), format!("http://{address}")),
        EngineEndpoint::Tls(address) => (format!("tcp://{address}"), format!("https://{address}")),
    };
    let what = format!("{} at {shown}", brand.name());
    // An engine writes all layers to disk before it sends the first byte, so only connecting has a timeout.
    let builder = client_builder()
        .timeout(None)
        .connect_timeout(Duration::from_secs(20))
        .no_proxy();
    // Without TLS, do not require system certificates.
    let client = match &endpoint {
        EngineEndpoint::Socket(path) => builder.unix_socket(path.as_path()).tls_certs_only([]),
        EngineEndpoint::Tcp(_) => builder.tls_certs_only([]),
        EngineEndpoint::Tls(_) => with_certificates(builder, environment)?,
    }
    .build()
    .map_err(|error| ImageError::Remote(format!("cannot ask {what}: {}", causes(&error))))?;
    Ok(EngineConnection {
        what,
        is_local: matches!(endpoint, EngineEndpoint::Socket(_)),
        brand,
        base,
        client,
    })
}

/// The engine's address: the configured one, otherwise the first existing default socket.
fn endpoint(brand: EngineKind, environment: &EngineEnvironment) -> Result<EngineEndpoint, ImageError> {
    let Some(host) = environment.host(brand) else {
        let sockets = environment.sockets(brand);
        // Check only existence. Missing permission is reported on the first request, with advice.
        let there = sockets.iter().find(|path| fs::metadata(path).is_ok());
        return there.cloned().map(EngineEndpoint::Socket).ok_or_else(|| {
            let looked: Vec<String> = sockets.iter().map(|p| p.display().to_string()).collect();
            ImageError::Remote(format!(
                "no socket of {} at {}; start it, or name another with {}",
                brand.name(),
                looked.join(" or "),
                brand.variable()
            ))
        });
    };
    let tls = brand == EngineKind::Docker && environment.docker_tls_verify.is_some();
    match host.split_once("://") {
        Some(("unix", path)) => Ok(EngineEndpoint::Socket(path.into())),
        Some(("tcp" | "http", address)) if !tls => Ok(EngineEndpoint::Tcp(address.trim_end_matches('/').to_owned())),
        Some(("tcp" | "https", address)) => Ok(EngineEndpoint::Tls(address.trim_end_matches('/').to_owned())),
        // Docker runs ssh for this. An audit starts no programs except credential helpers.
        Some(("ssh", _)) => Err(ImageError::Remote(format!(
            "{}={host} needs ssh, which is not supported; pipe the image instead: {} save IMAGE | cupti-audit -",
            brand.variable(),
            brand.command()
        ))),
        _ => Err(ImageError::Remote(format!(
            "{}={host} cannot be understood; expected unix:///PATH or tcp://HOST:PORT",
            brand.variable()
        ))),
    }
}

/// Adds the client certificate and CA from `DOCKER_CERT_PATH`, by default `~/.docker`, as Docker does.
fn with_certificates(builder: ClientBuilder, environment: &EngineEnvironment) -> Result<ClientBuilder, ImageError> {
    let folder = environment
        .docker_cert_path
        .clone()
        .or_else(|| Some(environment.home.as_ref()?.join(".docker")));
    let folder =
        folder.ok_or_else(|| ImageError::Remote("DOCKER_TLS_VERIFY is set and DOCKER_CERT_PATH is not".to_owned()))?;
    let unusable = |error: reqwest::Error| {
        ImageError::Remote(format!(
            "the certificates in {} cannot be used: {}",
            folder.display(),
            causes(&error)
        ))
    };
    let authority = Certificate::from_pem_bundle(&read_pem(&folder.join("ca.pem"))?).map_err(unusable)?;
    // A PEM file may lack a final line break, and two markers on one line are invalid.
    let mut pem = read_pem(&folder.join("cert.pem"))?;
    pem.push(b'\n');
    pem.extend(read_pem(&folder.join("key.pem"))?);
    let identity = Identity::from_pem(&pem).map_err(unusable)?;
    // Trust only this CA: a public certificate does not identify the user's engine.
    Ok(builder.tls_certs_only(authority).identity(identity))
}

fn read_pem(path: &Path) -> Result<Vec<u8>, ImageError> {
    read_small_file(path).map_err(ImageError::io(path.display()))
}

/// An engine's error response.
#[derive(Deserialize)]
struct EngineRefusal {
    message: String,
}

impl EngineConnection {
    /// Requests `path` below the API root. Without a version, the engine uses its newest.
    ///
    /// Errors: [`ImageError::Remote`] if the engine cannot be reached.
    pub(crate) fn get(&self, path: &str) -> Result<Response, ImageError> {
        let url = format!("{}/{path}", self.base);
        self.client.get(url).send().map_err(|error| {
            let cause = causes(&error);
            let kind = cause.downcast_ref().map(io::Error::kind);
            ImageError::Remote(format!("cannot reach {}: {cause}; {}", self.what, self.advice(kind)))
        })
    }

    /// What to do after a failed connection.
    fn advice(&self, error: Option<io::ErrorKind>) -> String {
        let variable = self.brand.variable();
        match error {
            Some(io::ErrorKind::PermissionDenied) => {
                "this user may not open the socket: run as root, or join its group, such as docker".to_owned()
            }
            _ if !self.is_local => format!(
                "{variable} names this address: start the engine there, or unset {variable} for the local socket"
            ),
            _ => self.brand.how_to_start().to_owned(),
        }
    }

    /// Sends a tar archive to `path`.
    pub(crate) fn send(&self, path: &str, archive: Body) -> Result<Response, ImageError> {
        let url = format!("{}/{path}", self.base);
        self.client
            .post(url)
            .body(archive)
            .header(CONTENT_TYPE, "application/x-tar")
            .send()
            .map_err(|error| ImageError::Remote(format!("{} broke off: {}", self.what, causes(&error))))
    }

    /// Accepts a successful response; otherwise returns the engine's error message.
    pub(crate) fn accept(&self, response: Response, limit: u64) -> Result<Response, ImageError> {
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let mut bytes = Vec::new();
        // A partial message is better than none.
        let _ = response.take(limit).read_to_end(&mut bytes);
        let message = serde_json::from_slice::<EngineRefusal>(&bytes).map_or_else(
            |_| String::from_utf8_lossy(&bytes).into_owned(),
            |refusal| refusal.message,
        );
        // The message is untrusted: escape it, then truncate.
        let shown: String = escape::escape_bytes(message.trim().as_bytes())
            .chars()
            .take(500)
            .collect();
        Err(ImageError::Remote(format!("{} answered {status}: {shown}", self.what)))
    }
}

/// The innermost cause, usually the system error.
fn causes(error: &reqwest::Error) -> &(dyn std::error::Error + 'static) {
    let mut cause: &(dyn std::error::Error + 'static) = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::ErrorKind;

    use super::{EngineEnvironment, connect_engine, endpoint};
    use crate::engine::EngineKind;

    fn docker(host: &str) -> EngineEnvironment {
        EngineEnvironment {
            docker_host: Some(host.to_owned()),
            ..EngineEnvironment::default()
        }
    }

    fn shown(brand: EngineKind, environment: &EngineEnvironment) -> String {
        match endpoint(brand, environment) {
            Ok(endpoint) => format!("{endpoint:?}"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn docker_host_names_the_socket_of_the_engine() {
        let tls = |host: &str| EngineEnvironment {
            docker_tls_verify: Some("1".to_owned()),
            ..docker(host)
        };
        for (environment, expected) in [
            (docker("unix:///run/x.sock"), r#"Socket("/run/x.sock")"#),
            (docker("tcp://build:2375"), r#"Tcp("build:2375")"#),
            (tls("tcp://build:2376/"), r#"Tls("build:2376")"#),
            (docker("https://build:2376"), r#"Tls("build:2376")"#),
            (tls("unix:///run/x.sock"), r#"Socket("/run/x.sock")"#),
            (
                docker("ssh://me@build"),
                "DOCKER_HOST=ssh://me@build needs ssh, which is not supported; pipe the image instead: docker save IMAGE | cupti-audit -",
            ),
            (
                docker("npipe:////./pipe/docker"),
                "DOCKER_HOST=npipe:////./pipe/docker cannot be understood; expected unix:///PATH or tcp://HOST:PORT",
            ),
        ] {
            assert_eq!(shown(EngineKind::Docker, &environment), expected);
        }
    }

    #[test]
    fn the_usual_sockets_are_tried_and_named() {
        let dir = tempfile::tempdir().unwrap();
        let environment = EngineEnvironment {
            xdg_runtime_dir: Some(dir.path().to_owned()),
            ..docker("unix:///not/for/podman")
        };
        let socket = dir.path().join("podman/podman.sock");
        if !std::path::Path::new("/run/podman/podman.sock").exists() {
            assert_eq!(
                shown(EngineKind::Podman, &environment),
                format!(
                    "no socket of Podman at {} or /run/podman/podman.sock; start it, or name another with CONTAINER_HOST",
                    socket.display()
                )
            );
        }
        fs::create_dir(dir.path().join("podman")).unwrap();
        fs::write(&socket, "").unwrap();
        assert_eq!(shown(EngineKind::Podman, &environment), format!("Socket({socket:?})"));
    }

    #[test]
    fn an_engine_that_does_not_listen_is_named_with_the_system_error() {
        let dir = tempfile::tempdir().unwrap();
        let host = format!("unix://{}/docker.sock", dir.path().display());
        let asked = || {
            connect_engine(EngineKind::Docker, &docker(&host))
                .unwrap()
                .get("images/x/json")
        };
        assert_eq!(
            asked().unwrap_err().to_string(),
            format!(
                "cannot reach the Docker Engine at {host}: No such file or directory (os error 2); is the engine running?"
            )
        );
        drop(std::os::unix::net::UnixListener::bind(dir.path().join("docker.sock")).unwrap());
        assert_eq!(
            asked().unwrap_err().to_string(),
            format!(
                "cannot reach the Docker Engine at {host}: Connection refused (os error 111); is the engine running?"
            )
        );
    }

    #[test]
    fn the_advice_depends_on_the_error_and_on_the_variable() {
        let advice = |is_local, kind| {
            let mut engine = connect_engine(EngineKind::Docker, &docker("tcp://build:2375")).unwrap();
            engine.is_local = is_local;
            engine.advice(Some(kind))
        };
        for (is_local, kind, begin) in [
            (true, ErrorKind::PermissionDenied, "this user may not open the socket"),
            (false, ErrorKind::ConnectionRefused, "DOCKER_HOST names this address"),
            (true, ErrorKind::ConnectionRefused, "is the engine running?"),
        ] {
            assert!(advice(is_local, kind).starts_with(begin), "{kind}");
        }
    }

    #[test]
    fn tls_without_certificates_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let environment = EngineEnvironment {
            docker_tls_verify: Some("1".to_owned()),
            docker_cert_path: Some(dir.path().to_owned()),
            ..docker("tcp://build:2376")
        };
        let error = connect_engine(EngineKind::Docker, &environment).err().unwrap();
        assert_eq!(
            error.to_string(),
            format!(
                "{}/ca.pem: No such file or directory (os error 2)",
                dir.path().display()
            )
        );
    }
}
