//! A local proxy between the program and a real registry. It requires a login and randomly breaks responses.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::json;

use super::registry_server::{Reply, Request, Server};
use testkit::random::Random;

/// The password of user `u` in the form of `config.json` and `Basic`, and the token it is exchanged for.
pub const LOGIN: &str = "dTpzM2NyZXQ=";
pub const SECRETS: [&str; 4] = [LOGIN, "s3cret", "t0k3n", "s1gned"];

/// The proxy, and a second server: the storage for redirects, which is also an external token server.
pub struct FaultProxy {
    pub proxy: Server,
    pub storage: Server,
    /// The number of injected faults.
    pub injected: Arc<AtomicUsize>,
}

/// Forwards a request to the registry, without the client's login.
fn forward(registry: SocketAddr, request: &Request) -> Reply {
    let mut stream = TcpStream::connect(registry).unwrap();
    let path = request.path.split('?').next().unwrap();
    let mut text = format!(
        "{} {path} HTTP/1.1\r\nHost: {registry}\r\nConnection: close\r\n",
        request.method
    );
    for name in ["accept", "range"] {
        let value = request.header(name).unwrap_or_default();
        if !value.is_empty() {
            text.extend([name, ": ", value, "\r\n"]);
        }
    }
    stream.write_all(format!("{text}\r\n").as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    let head = String::from_utf8_lossy(&answer[..end]).into_owned();
    let mut lines = head.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let passed_on = ["content-type", "docker-content-digest", "content-range"];
    let headers = lines.filter_map(|line| line.split_once(": "));
    let headers = headers.filter(|(name, _)| passed_on.contains(&name.to_ascii_lowercase().as_str()));
    headers.fold(Reply::new(status, &answer[end + 4..]), |reply, (name, value)| {
        reply.with(name, value)
    })
}

/// Breaks a response in a random, realistic way.
fn break_answer(random: &mut Random, request: &Request, reply: Reply, storage: &str) -> Reply {
    let length = reply.body().len().max(1);
    let is_blob = request.path.contains("/blobs/");
    match random.below(12) {
        0 => reply.flipped(random.below(length), 1 << random.below(8)),
        1 | 2 => reply.cut(random.below(length)),
        3 => reply.stall(random.below(length)),
        4 => reply.with(
            "Content-Type",
            *random.one_of(&["text/html", "text/plain", "application/json; x"]),
        ),
        5 => Reply::new(*random.one_of(&[429, 500, 502, 503]), "{}").with("Retry-After", "0"),
        6 => Reply::new(*random.one_of(&[403, 404, 416, 501]), "<html>"),
        7 => reply.with("Docker-Content-Digest", format!("sha256:{}", "0".repeat(64))),
        8 => reply.with("Content-Range", "bytes 1-2/3"),
        9 if is_blob => Reply::new(307, "").with("Location", format!("{storage}{}?sig=s1gned", request.path)),
        10 => Reply::new(302, "").with("Location", *random.one_of(&["http://169.254.169.254/x", "/v2/", "::"])),
        _ => Reply::new(401, "").with("WWW-Authenticate", "Bearer realm=\"http://169.254.169.254/\""),
    }
}

/// The authentication that the proxy requires: none, a password, or a token from its own or another server.
fn challenge(seed: usize, request: &Request, elsewhere: &str) -> Option<Reply> {
    let host = request.header("host").unwrap();
    let realm = [format!("http://{host}"), elsewhere.to_owned()];
    let (expected, wanted) = match seed % 4 {
        0 => return None,
        1 => (format!("Basic {LOGIN}"), "Basic realm=\"x\"".to_owned()),
        way => (
            "Bearer t0k3n".to_owned(),
            format!("Bearer realm=\"{}/token\",service=\"x\"", realm[way - 2]),
        ),
    };
    let is_known = request.header("authorization") == Some(expected.as_str());
    (!is_known).then(|| Reply::new(401, "").with("WWW-Authenticate", wanted))
}

fn token(request: &Request) -> Reply {
    match request.header("authorization") {
        Some(login) if login.ends_with(LOGIN) => Reply::new(200, json!({"token": "t0k3n"}).to_string()),
        _ => Reply::new(401, ""),
    }
}

impl FaultProxy {
    /// A proxy for `registry` that breaks `percent` of all responses, and sometimes serves tag 2 for tag 1.
    pub fn start(registry: SocketAddr, seed: usize, percent: usize) -> Self {
        let storage = Server::start(move |request| {
            if request.path.starts_with("/token") {
                token(request)
            } else {
                forward(registry, request)
            }
        });
        let elsewhere = format!("http://localhost:{}", storage.address.port());
        let injected = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&injected);
        let random = Mutex::new(Random::new(seed as u64));
        let proxy = Server::start(move |request| {
            if request.path.starts_with("/token") {
                return token(request);
            }
            if let Some(refusal) = challenge(seed, request, &elsewhere) {
                return refusal;
            }
            let mut random = random.lock().unwrap();
            let is_moved = request.path.ends_with("/manifests/1") && random.chance(percent / 2);
            let asked = Request {
                path: if is_moved {
                    request.path.replace("/manifests/1", "/manifests/2")
                } else {
                    request.path.clone()
                },
                ..request.clone()
            };
            let reply = forward(registry, &asked);
            if !is_moved && !random.chance(percent) {
                return reply;
            }
            counted.fetch_add(1, Ordering::SeqCst);
            if is_moved {
                reply
            } else {
                break_answer(&mut random, request, reply, &elsewhere)
            }
        });
        Self {
            proxy,
            storage,
            injected,
        }
    }

    /// The number of requests to the storage with a login, without those for tokens.
    pub fn leaks(&self) -> usize {
        let seen = self.storage.seen();
        let to_storage = seen.iter().filter(|request| !request.path.starts_with("/token"));
        to_storage
            .filter(|request| request.header("authorization").is_some())
            .count()
    }
}
