//! A misbehaving registry on 127.0.0.1: faults that a retry solves, answers that are refused, and the error messages.
//! `testdata/registry-faults.yaml` has the cases. `CUPTI_AUDIT_CASE=WORDS` runs those with these words in their name.

use cupti_audit::knowledge::file_interest::cupti_options;
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::registry_server::{Pushed, Reply, Request, Sent, Server, digest};
use image_source::registry::{CredentialSource, RegistryOptions, RegistrySource, RetryPolicy};
use image_source::{ImageSource, OpenRequest, OpenedImage, OpenedLayers, Platform};
use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::{Value, json};
use testkit::seeds::is_asked;

/// A file with cases by their question.
#[derive(Deserialize)]
pub struct CaseFile<C> {
    pub cases: IndexMap<String, C>,
}

/// A registry, and what comes of images that are opened in it. In texts, `HOST` is the registry, `PORT` its port,
/// `ELSEWHERE` another server, `FILE` the file with credentials or certificates, `<NAME>` the digest of a document and
/// `<NAME.size>` its size.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Case {
    /// Documents in addition to the `layer`, `config` and `manifest` of a good image, or in their place.
    #[serde(default)]
    documents: IndexMap<String, String>,
    /// The document with the tag 1.
    tag: Option<String>,
    /// The answers: the first row for a request counts. Without a row, a request gets the right answer.
    #[serde(default)]
    answers: Vec<Answer>,
    /// The same of the other server.
    #[serde(default)]
    elsewhere: Vec<Answer>,
    opens: Vec<Opening>,
    /// All requests.
    asked: Option<Vec<String>>,
    asked_elsewhere: Option<Vec<String>>,
}

/// An answer, and the requests that get it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    /// The path without its query.
    path: Option<String>,
    authorization: Option<String>,
    /// The request's body.
    given: Option<String>,
    /// The number of requests.
    times: Option<usize>,
    /// Without it, the answer is the right one.
    status: Option<u16>,
    /// Names and values.
    #[serde(default)]
    headers: Vec<(String, String)>,
    #[serde(default)]
    body: String,
    /// The body is these bytes of the layer, or of a longer one.
    layer: Option<(u32, u32)>,
    #[serde(default)]
    sent: Sent,
}

/// An image that is opened, and the outcome: an error, or the good image.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Opening {
    /// `HOST/app:1`, if it is not given.
    image: Option<String>,
    platform: Option<String>,
    /// The `auths` of the file with credentials.
    auths: Option<Value>,
    /// The text of the file with certificates.
    certificates: Option<String>,
    #[serde(default)]
    token_servers: Vec<String>,
    user_agent: Option<String>,
    /// Times in milliseconds: `stall`, `slowest`, `blob`.
    #[serde(default)]
    patience: IndexMap<String, u64>,
    /// The error, with `…` for any text.
    error: Option<String>,
    /// The error of the layer, or `whole`.
    layer: Option<String>,
}

/// Documents by name.
type Documents = IndexMap<String, Vec<u8>>;

/// Names in texts, and what they stand for.
pub type Names = Vec<(String, String)>;

pub fn filled(text: &str, names: &Names) -> String {
    let replaced = |text: String, (name, value): &(String, String)| text.replace(name, value);
    names.iter().fold(text.to_owned(), replaced)
}

fn unfilled(text: &str, names: &Names) -> String {
    let replaced = |text: String, (name, value): &(String, String)| text.replace(value, name);
    let names = names
        .iter()
        .filter(|(name, _)| name != "PORT" && !name.ends_with(".size>"));
    names.fold(text.to_owned(), replaced)
}

/// Whether a text is a pattern in which `…` stands for any text.
fn fits(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('…') else {
        return pattern == text;
    };
    let text = text.strip_prefix(first);
    text.is_some_and(|text| text.char_indices().any(|(at, _)| fits(rest, &text[at..])) || fits(rest, ""))
}

fn options() -> RegistryOptions {
    RegistryOptions {
        credentials: CredentialSource::Anonymous,
        patience: RetryPolicy {
            tries: 3,
            first_wait: Duration::from_millis(1),
            longest_wait: Duration::from_millis(50),
            ..RetryPolicy::default()
        },
        ..RegistryOptions::default()
    }
}

fn open_as(written: &str, options: RegistryOptions, platform: Option<&str>) -> Result<OpenedImage, String> {
    let platform = platform.map(|platform| Platform::parse(platform).unwrap());
    let source = RegistrySource::new(written.parse().unwrap(), written.to_owned(), options);
    let request = OpenRequest {
        platform: platform.as_ref(),
        index: &cupti_options(),
        progress: &(),
        cache: None,
    };
    source.open(&request).map_err(|error| error.to_string())
}

/// The error of an image that cannot be opened.
fn refusal(written: &str, options: RegistryOptions) -> String {
    open_as(written, options, None).map(|opened| opened.image).unwrap_err()
}

fn layer(opened: &OpenedImage) -> Result<Vec<u8>, String> {
    let OpenedLayers::Blobs(blobs) = &opened.layers else {
        panic!("blobs")
    };
    let mut bytes = Vec::new();
    let mut reader = blobs.open(&opened.image.layers[0]).map_err(|error| error.to_string())?;
    reader.read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    Ok(bytes)
}

impl Case {
    fn documents(&self) -> Documents {
        let good = Pushed::new();
        let good = [
            ("layer", good.layer),
            ("config", good.config),
            ("manifest", good.manifest),
        ];
        let mut all: Documents = good.into_iter().map(|(name, bytes)| (name.to_owned(), bytes)).collect();
        for (name, text) in &self.documents {
            let text = filled(text, &digests(&all));
            all.insert(name.clone(), text.into_bytes());
        }
        all
    }

    /// The right answer to a request.
    fn right(&self, request: &Request, documents: &Documents) -> Reply {
        let path = request.path.split('?').next().unwrap();
        let name = path.strip_prefix("/v2/app/").and_then(|rest| rest.split_once('/'));
        let found = match name {
            Some(("manifests", "1")) => documents.get(self.tag.as_deref().unwrap_or("manifest")),
            Some((_, name)) => documents.values().find(|bytes| digest(bytes).to_string() == name),
            None => None,
        };
        let unknown = r#"{"errors":[{"code":"NAME_UNKNOWN","message":"repository name not\u001b known"}]}"#;
        found.map_or_else(|| Reply::new(404, unknown), |bytes| Reply::range(request, bytes))
    }
}

fn digests(documents: &Documents) -> Names {
    let names = documents.iter().flat_map(|(name, bytes)| {
        let size = (format!("<{name}.size>"), bytes.len().to_string());
        [(format!("<{name}>"), digest(bytes).to_string()), size]
    });
    names.collect()
}

impl Answer {
    fn is_for(&self, request: &Request, names: &Names) -> bool {
        let path = request.path.split('?').next();
        let is = |wanted: &Option<String>, real: Option<&str>| {
            let wanted = wanted.as_ref().map(|wanted| filled(wanted, names));
            wanted.is_none_or(|wanted| real == Some(&wanted))
        };
        is(&self.path, path)
            && is(&self.authorization, request.header("authorization"))
            && is(&self.given, Some(&request.body))
    }

    fn reply(&self, request: &Request, names: &Names, right: impl FnOnce() -> Reply) -> Reply {
        let layer = self.layer.map(|(from, to)| Pushed::bytes(from..to));
        let reply = match (self.status, layer) {
            (Some(status), Some(layer)) => Reply::new(status, layer),
            (Some(status), None) => Reply::new(status, filled(&self.body, names)),
            (None, Some(layer)) => Reply::range(request, &layer),
            (None, None) => right(),
        };
        let headers = self.headers.iter();
        let reply = headers.fold(reply, |reply, (name, value)| reply.with(name, filled(value, names)));
        reply.sent(self.sent)
    }
}

/// Starts a server with the answers of a case that `of` takes.
fn serve(case: &Arc<Case>, of: fn(&Case) -> &[Answer], names: &Names) -> Server {
    let (case, names, documents) = (Arc::clone(case), names.clone(), case.documents());
    let times = of(&case)
        .iter()
        .map(|answer| AtomicUsize::new(answer.times.unwrap_or(usize::MAX)));
    let left: Vec<AtomicUsize> = times.collect();
    Server::start(move |request| {
        let host = ("HOST".to_owned(), request.header("host").unwrap().to_owned());
        let names = [vec![host], names.clone()].concat();
        let one_less = |left: &AtomicUsize| {
            let update = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
            update.is_ok()
        };
        let mut rows = of(&case).iter().zip(&left);
        let row = rows.find(|(answer, left)| answer.is_for(request, &names) && one_less(left));
        let right = || case.right(request, &documents);
        row.map_or_else(right, |(answer, _)| answer.reply(request, &names, right))
    })
}

/// The requests of a server: the method and the path, the authorization, the start of the range, and the body.
fn asked(server: &Server, names: &Names) -> Vec<String> {
    let line = |request: &Request| {
        let more = [
            request.header("authorization").map(|value| format!(" as {value}")),
            request.range().map(|from| format!(" from {from}")),
            Some(&request.body)
                .filter(|body| !body.is_empty())
                .map(|body| format!(" with {body}")),
        ];
        let more: String = more.into_iter().flatten().collect();
        unfilled(&format!("{} {}{more}", request.method, request.path), names)
    };
    server.seen().iter().map(line).collect()
}

impl Opening {
    fn options(&self, file: &std::path::Path, names: &Names) -> RegistryOptions {
        let mut options = options();
        if let Some(auths) = &self.auths {
            let text = filled(&json!({ "auths": auths }).to_string(), names);
            std::fs::write(file, text).unwrap();
            options.credentials = CredentialSource::Files(vec![file.to_owned()]);
        }
        if let Some(text) = &self.certificates {
            std::fs::write(file, text).unwrap();
            options.ca_cert = Some(file.to_owned());
        }
        options.token_servers = self.token_servers.iter().map(|name| filled(name, names)).collect();
        options.user_agent = self.user_agent.clone().unwrap_or(options.user_agent);
        for (name, time) in &self.patience {
            let time = Duration::from_millis(*time);
            match name.as_str() {
                "stall" => options.patience.stall = time,
                "slowest" => options.patience.slowest = time,
                "blob" => options.patience.blob = time,
                _ => panic!("unknown time: {name}"),
            }
        }
        options
    }

    /// Opens the image, and compares the outcome.
    fn check(&self, names: &Names, documents: &Documents) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        let names = [vec![("FILE".to_owned(), file.display().to_string())], names.clone()].concat();
        let image = filled(self.image.as_deref().unwrap_or("HOST/app:1"), &names);
        let outcome = open_as(&image, self.options(&file, &names), self.platform.as_deref());
        let compare = |expected: &str, real: &str| {
            let real = unfilled(real, &names);
            assert!(fits(expected, &real), "expected {expected}\nfound    {real}");
        };
        let opened = match (outcome, &self.error) {
            (Ok(opened), None) => opened,
            (Ok(_), Some(error)) => panic!("it opens; expected {error}"),
            (Err(error), expected) => return compare(expected.as_deref().unwrap_or("no error"), &error),
        };
        assert_eq!(opened.image.digest, Some(digest(&documents["manifest"])));
        assert_eq!(opened.image.config.env("A"), Some("1"));
        if let Some(expected) = &self.layer {
            match layer(&opened) {
                Ok(bytes) if bytes == documents["layer"] => compare(expected, "whole"),
                Ok(bytes) => compare(expected, &format!("{} bytes", bytes.len())),
                Err(error) => compare(expected, &error),
            }
        }
    }
}

#[test]
fn each_fault_of_a_registry_has_the_expected_outcome() {
    let text = std::fs::read_to_string("testdata/registry-faults.yaml").unwrap();
    let file: CaseFile<Case> = serde_saphyr::from_str(&text).unwrap();
    for (name, case) in file.cases.into_iter().filter(|(name, _)| is_asked(name)) {
        println!("{name}");
        let case = Arc::new(case);
        let documents = case.documents();
        let mut names = digests(&documents);
        let elsewhere = serve(&case, |case| &case.elsewhere, &names);
        names.push((
            "ELSEWHERE".to_owned(),
            format!("localhost:{}", elsewhere.address.port()),
        ));
        let server = serve(&case, |case| &case.answers, &names);
        names.push(("HOST".to_owned(), server.address.to_string()));
        names.push(("PORT".to_owned(), server.address.port().to_string()));
        case.opens.iter().for_each(|opening| opening.check(&names, &documents));
        for (expected, server) in [(&case.asked, &server), (&case.asked_elsewhere, &elsewhere)] {
            if let Some(expected) = expected {
                assert_eq!(asked(server, &names), *expected);
            }
        }
    }
}

/// A name resolves to an allowed address for the check, and to this machine for the connection.
#[test]
fn a_name_that_changes_its_address_after_the_check_leads_nowhere_else() {
    const NAME_SERVER: &str = "127.77.0.53";
    // A multicast address, to which connecting fails at once.
    const FIRST: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 1);
    if !Command::new("unshare")
        .args(["-m", "true"])
        .status()
        .is_ok_and(|status| status.success())
    {
        println!("rebinding: only root can give a program another resolv.conf");
        return;
    }
    let asked = AtomicUsize::new(0);
    crate::name_server::serve_names(format!("{NAME_SERVER}:53").parse().unwrap(), move |name| {
        let is_first = name == "rebound.test" && asked.fetch_add(1, Ordering::SeqCst) == 0;
        if is_first { FIRST } else { Ipv4Addr::LOCALHOST }
    });
    let server = Server::start(|request| match request.header("host") {
        Some(host) if host.starts_with("registry.test:") => {
            let port = host.rsplit(':').next().unwrap();
            Reply::new(302, "").with("Location", format!("http://rebound.test:{port}/secret"))
        }
        _ => Reply::new(200, "what only this machine may ask for"),
    });
    let port = server.address.port();
    let folder = tempfile::tempdir().unwrap();
    let resolv_conf = folder.path().join("resolv.conf");
    std::fs::write(&resolv_conf, format!("nameserver {NAME_SERVER}\n")).unwrap();
    let output = Command::new("unshare")
        .args(["-m", "sh", "-c", "mount --bind \"$0\" /etc/resolv.conf && exec \"$@\""])
        .arg(&resolv_conf)
        .arg(env!("CARGO_BIN_EXE_cupti-audit"))
        .args([
            "--no-cache",
            "--limit",
            "tries=1",
            "--insecure-registry",
            "registry.test,rebound.test",
        ])
        .arg(format!("registry.test:{port}/app:1"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).replace(&port.to_string(), "PORT");
    assert_eq!(
        said,
        "error: registry.test:PORT/app:1: cannot reach rebound.test:PORT: Network is unreachable (os error 101); check its name and port, the network and the proxy settings\n"
    );
    let hosts = server
        .seen()
        .into_iter()
        .filter_map(|request| request.header("host").map(str::to_owned));
    let hosts: Vec<String> = hosts.map(|host| host.replace(&port.to_string(), "PORT")).collect();
    assert_eq!(hosts, ["registry.test:PORT"]);
}

/// An address of this machine other than loopback; `None` if there is none or a proxy is set.
fn own_address() -> Option<IpAddr> {
    let is_proxy = |name: &str| name.to_ascii_lowercase().ends_with("_proxy");
    if std::env::vars().any(|(name, _)| is_proxy(&name)) {
        return None;
    }
    // Connecting a datagram socket sends nothing; it only selects the source address.
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    let ip = socket.local_addr().ok()?.ip();
    (!ip.is_loopback() && !ip.is_unspecified()).then_some(ip)
}

#[test]
fn plain_http_to_another_machine_needs_the_users_word_and_leads_to_no_loopback() {
    let Some(ip) = own_address() else {
        println!("skipped: needs an address that is not loopback, and no proxy");
        return;
    };
    let whole = Pushed::new();
    let near = Server::start(|_| Reply::new(200, "{}"));
    let location = format!("http://localhost:{}/", near.address.port());
    let server = Server::start_on(ip, move |request| {
        if request.path == whole.layer_path() {
            return Reply::new(307, "").with("Location", location.clone());
        }
        whole.serve(request)
    });
    let image = format!("{}/app:1", server.address);
    let error = refusal(&image, options()).replace(&server.address.to_string(), "HOST");
    let expected = "HOST does not speak TLS…--insecure-registry HOST allows plain HTTP";
    assert!(fits(expected, &error), "{error}");
    assert_eq!(server.paths(), [""; 0]);
    let insecure = RegistryOptions {
        insecure: vec![server.address.to_string()],
        ..options()
    };
    let opened = open_as(&image, insecure, None).unwrap();
    let error = layer(&opened).unwrap_err();
    assert!(
        error.ends_with("is a loopback address, and the registry is not on this machine"),
        "{error}"
    );
    assert_eq!(near.paths(), [""; 0]);
}

#[test]
fn a_server_that_goes_silent_is_not_waited_for_without_end() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // Accepts connections and never answers.
    std::thread::spawn(move || listener.incoming().collect::<Vec<_>>());
    let mut options = options();
    options.patience.tries = 1;
    options.patience.connect = Duration::from_millis(50);
    options.patience.stall = Duration::from_millis(50);
    let error = refusal(&format!("{address}/app:1"), options);
    assert_eq!(
        error,
        format!(
            "cannot reach {address}: no answer in time; check its name and port, the network and the proxy settings"
        )
    );
}

#[test]
fn a_server_of_another_protocol_is_asked_once() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            count.fetch_add(1, Ordering::SeqCst);
            let mut stream = stream.unwrap();
            // Read the request first: an earlier answer looks like a stale connection from a pool.
            let _ = Read::read(&mut stream, &mut [0; 1024]);
            let _ = std::io::Write::write_all(&mut stream, b"SSH-2.0-OpenSSH_9.2\r\n");
        }
    });
    let error = refusal(&format!("{address}/app:1"), options());
    // Once with TLS and once without.
    assert!(asked.load(Ordering::SeqCst) <= 2, "{error}");
}

#[test]
fn a_name_of_a_list_that_is_no_repository_goes_into_no_address() {
    let image = Pushed::new();
    let serve = image.clone();
    let long = "x".repeat(100_000);
    let server = Server::start(move |request| match request.path.split('?').next().unwrap() {
        "/v2/_catalog" => {
            let names = [
                "app",
                "..",
                "../../etc",
                "%2e%2e",
                "app?x=1",
                "app:1",
                "A",
                long.as_str(),
            ];
            Reply::new(200, json!({"repositories": names}).to_string())
        }
        "/v2/app/tags/list" => Reply::new(200, json!({"tags": ["1"]}).to_string()),
        _ => serve.serve(request),
    });
    let output = Command::new(env!("CARGO_BIN_EXE_cupti-audit"))
        .args(["fleet", "list", "-o", "-", &format!("registry:{}", server.address)])
        .env("CUPTI_AUDIT_NO_CACHE", "1")
        .output()
        .unwrap();
    let host = server.address.to_string();
    let error = String::from_utf8(output.stderr).unwrap().replace(&host, "HOST");
    let expected = "error: registry:HOST: left out, as they can be no repository: 7 of the 8 names in its list, such as \"%2e%2e\"\n";
    assert_eq!((output.status.code(), error.as_str()), (Some(2), expected));
    let list = String::from_utf8(output.stdout).unwrap().replace(&host, "HOST");
    assert_eq!(list.lines().count(), 1, "{list}");
    assert!(
        list.contains(&format!("HOST/app@{}", digest(&image.manifest))),
        "{list}"
    );
    let paths = server.paths();
    let known = |path: &String| path.starts_with("/v2/_catalog") || path.starts_with("/v2/app/");
    assert!(paths.iter().all(known), "{paths:?}");
}
