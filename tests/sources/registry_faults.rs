//! A misbehaving registry on 127.0.0.1: faults that a retry solves, answers that are refused, and the error messages.

use cupti_audit::knowledge::file_interest::cupti_options;
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::registry_server::{Pushed, Reply, Request, Server, descriptor, digest};
use image_source::registry::{CredentialSource, RegistryOptions, RegistrySource, RetryPolicy};
use image_source::{ImageSource, OpenRequest, OpenedImage, OpenedLayers, Platform};
use serde_json::json;

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

fn open(server: &Server) -> Result<OpenedImage, String> {
    open_as(&format!("{}/app:1", server.address), options(), None)
}

/// The error of an image that cannot be opened, with the server's address as HOST.
fn refusal(server: &Server, outcome: Result<OpenedImage, String>) -> String {
    let error = outcome.map(|opened| opened.image).unwrap_err();
    error.replace(&server.address.to_string(), "HOST")
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

/// A server that answers the first `times` requests for `path` with `fault`, and all others correctly.
fn faulty(
    image: &Pushed,
    path: &str,
    times: usize,
    fault: impl Fn(&Request) -> Reply + Send + Sync + 'static,
) -> Server {
    let (image, path) = (image.clone(), path.to_owned());
    let left = AtomicUsize::new(times);
    Server::start(move |request| {
        let hit = request.path == path
            && left
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1))
                .is_ok();
        if hit { fault(request) } else { image.serve(request) }
    })
}

fn with_credentials(server: &Server, entry: serde_json::Value) -> (tempfile::TempDir, RegistryOptions, PathBuf) {
    with_config(json!({"auths": {server.address.to_string(): entry}}))
}

fn with_config(config: serde_json::Value) -> (tempfile::TempDir, RegistryOptions, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("config.json");
    std::fs::write(&file, config.to_string()).unwrap();
    let options = RegistryOptions {
        credentials: CredentialSource::Files(vec![file.clone()]),
        ..options()
    };
    (dir, options, file)
}

const MANIFEST: &str = "/v2/app/manifests/1";

#[test]
fn each_part_is_asked_for_once_and_manifests_without_head() {
    let image = Pushed::new();
    let server = faulty(&image, "", 0, |_| Reply::new(500, ""));
    let opened = open(&server).unwrap();
    assert_eq!(opened.image.digest, Some(digest(&image.manifest)));
    assert_eq!(opened.image.config.env("A"), Some("1"));
    assert_eq!(layer(&opened), Ok(image.layer.clone()));
    let config = crate::registry_server::blob_path(&image.config);
    assert_eq!(server.paths(), [MANIFEST, &config, &image.layer_path()]);
    assert!(server.seen().iter().all(|request| request.method == "GET"));
    let accept = server.seen()[0].header("accept").unwrap().to_owned();
    assert!(accept.contains("oci.image.index.v1+json") && accept.contains("manifest.list.v2+json"));
    let pinned = format!("{}/app@{}", server.address, digest(&image.manifest));
    assert_eq!(
        open_as(&pinned, options(), None).unwrap().image.digest,
        opened.image.digest
    );
}

#[test]
fn limits_and_faults_that_pass_are_waited_for() {
    let image = Pushed::new();
    for status in [429, 500, 503] {
        let server = faulty(&image, MANIFEST, 2, move |_| {
            Reply::new(status, "").with("Retry-After", "0")
        });
        assert!(open(&server).is_ok(), "{status}");
        assert_eq!(server.paths().len(), 4);
    }
    let server = faulty(&image, MANIFEST, 2, |_| Reply::new(200, vec![b'{'; 1000]).cut(500));
    assert!(open(&server).is_ok());
}

#[test]
fn limits_and_faults_that_stay_are_named() {
    let image = Pushed::new();
    let said = r#"{"errors":[{"code":"TOOMANYREQUESTS","message":"pull rate limit"}]}"#;
    let server = faulty(&image, MANIFEST, 9, move |_| Reply::new(429, said));
    assert_eq!(
        refusal(&server, open(&server)),
        "rate limited by HOST (TOOMANYREQUESTS: pull rate limit); try again later, or docker login for a higher limit"
    );
    assert_eq!(server.paths().len(), 3);
    let server = faulty(&image, MANIFEST, 9, |_| Reply::new(429, "").with("Retry-After", "3600"));
    assert_eq!(
        refusal(&server, open(&server)),
        "rate limited by HOST; it asks to wait 3600 seconds; try again later, or docker login for a higher limit"
    );
    assert_eq!(server.paths().len(), 1);
    let server = faulty(&image, MANIFEST, 9, |_| Reply::new(503, ""));
    assert_eq!(
        refusal(&server, open(&server)),
        "HOST has a problem: it answered 503 Service Unavailable; try again later"
    );
}

#[test]
fn a_blob_that_breaks_off_is_resumed_where_it_stands() {
    let image = Pushed::new();
    let blob = image.layer.clone();
    // Each connection delivers 66,000 bytes: there are more breaks than tries, but progress between them.
    let server = faulty(&image, &image.layer_path(), 9, move |request| {
        let reply = Reply::range(request, &blob);
        let rest = blob.len() - request.range().unwrap_or(0);
        if rest > 66_000 { reply.cut(66_000) } else { reply }
    });
    assert_eq!(layer(&open(&server).unwrap()), Ok(image.layer.clone()));
    let ranges: Vec<_> = server.seen().iter().skip(2).map(Request::range).collect();
    assert_eq!(ranges, [None, Some(66_000), Some(132_000), Some(198_000)]);
}

#[test]
fn a_server_that_knows_no_ranges_is_read_from_the_start() {
    let image = Pushed::new();
    let blob = image.layer.clone();
    let starts = AtomicUsize::new(0);
    let server = faulty(&image, &image.layer_path(), 9, move |_| {
        match starts.fetch_add(1, Ordering::SeqCst) {
            0 => Reply::new(200, &*blob).cut(1000),
            // A response with a range that was not requested must be rejected.
            1 => Reply::new(206, &blob[7..]).with("Content-Range", "bytes 7-199999/200000"),
            _ => Reply::new(200, &*blob),
        }
    });
    assert_eq!(layer(&open(&server).unwrap()), Ok(image.layer.clone()));
}

#[test]
fn a_blob_that_keeps_breaking_off_is_an_error() {
    let image = Pushed::new();
    let blob = image.layer.clone();
    let server = faulty(&image, &image.layer_path(), 99, move |request| {
        let reply = Reply::range(request, &blob);
        reply.cut(10)
    });
    let error = layer(&open(&server).unwrap()).unwrap_err();
    assert_eq!(
        error.replace(&server.address.to_string(), "HOST"),
        format!(
            "HOST: blob {} broke off after 30 of 200000 bytes (the connection broke), and could not be resumed; try again later",
            digest(&image.layer)
        )
    );
}

#[test]
fn a_blob_that_stalls_is_asked_for_again() {
    let image = Pushed::new();
    let blob = image.layer.clone();
    let server = faulty(&image, &image.layer_path(), 1, move |_| {
        Reply::new(200, &*blob).stall(1000)
    });
    let mut options = options();
    options.patience.stall = Duration::from_millis(500);
    let opened = open_as(&format!("{}/app:1", server.address), options, None).unwrap();
    assert_eq!(layer(&opened), Ok(image.layer.clone()));
    assert_eq!(server.seen().last().unwrap().range(), Some(1000));
}

#[test]
fn a_blob_with_surplus_gives_one_byte_too_many_and_a_short_one_is_an_error() {
    let image = Pushed::new();
    let mut long = image.layer.clone();
    long.extend([0; 1000]);
    let server = faulty(&image, &image.layer_path(), 99, move |_| Reply::new(200, &*long));
    assert_eq!(layer(&open(&server).unwrap()).unwrap().len(), image.layer.len() + 1);
    let short = image.layer[..500].to_vec();
    let server = faulty(&image, &image.layer_path(), 99, move |request| {
        Reply::range(request, &short)
    });
    let error = layer(&open(&server).unwrap()).unwrap_err();
    assert!(
        error.contains("holds fewer bytes of a blob than the manifest"),
        "{error}"
    );
}

#[test]
fn a_redirect_leaves_the_authorization_behind() {
    let image = Pushed::new();
    let blob = image.layer.clone();
    // The first connection breaks. The retry must go through the registry again to get a fresh address.
    let starts = AtomicUsize::new(0);
    let storage = Server::start(move |request| match starts.fetch_add(1, Ordering::SeqCst) {
        0 => Reply::range(request, &blob).cut(1000),
        _ => Reply::range(request, &blob),
    });
    let elsewhere = format!("http://localhost:{}/store?signature=s", storage.address.port());
    let whole = image.clone();
    let server = Server::start(move |request| match request.header("authorization") {
        Some("Basic dTpw") if request.path == whole.layer_path() => {
            Reply::new(307, "").with("Location", elsewhere.clone())
        }
        Some("Basic dTpw") => whole.serve(request),
        _ => Reply::new(401, "").with("WWW-Authenticate", "Basic realm=\"x\""),
    });
    let (_dir, options, _) = with_credentials(&server, json!({"auth": "dTpw"}));
    let opened = open_as(&format!("{}/app:1", server.address), options, None).unwrap();
    assert_eq!(layer(&opened), Ok(image.layer.clone()));
    let seen = storage.seen();
    assert_eq!(seen.len(), 2);
    assert!(seen.iter().all(|request| request.path == "/store?signature=s"));
    assert!(seen.iter().all(|request| request.header("authorization").is_none()));
    assert_eq!(seen[1].range(), Some(1000));
    let asked = server.paths().into_iter().filter(|path| *path == image.layer_path());
    assert_eq!(asked.count(), 2);
}

#[test]
fn redirects_to_forbidden_places_and_without_end_are_refused() {
    let image = Pushed::new();
    for (location, expected) in [
        (
            "https://169.254.169.254/latest?x=y",
            "refused to follow a redirect of HOST: https://169.254.169.254 is a link-local or metadata address",
        ),
        (
            "http://storage.example/x?y=z",
            "refused to follow a redirect of HOST: http://storage.example is plain HTTP; --insecure-registry storage.example allows it",
        ),
        (
            "file:///etc/passwd",
            "HOST redirects to \"file:///etc/passwd\", which is not a valid address",
        ),
        (
            "http://localhost:1/x?signature=s",
            "cannot reach localhost:1: Connection refused (os error 111); check its name and port, the network and the proxy settings",
        ),
        (MANIFEST, "HOST redirects more than 10 times"),
    ] {
        let server = faulty(&image, MANIFEST, 99, move |_| {
            Reply::new(302, "").with("Location", location)
        });
        assert_eq!(refusal(&server, open(&server)), expected);
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

#[test]
fn what_is_no_manifest_is_named() {
    let image = Pushed::new();
    let page = |_: &Request| Reply::new(200, "<html>\x1b[31m sign in").with("Content-Type", "text/html; charset=utf-8");
    let server = faulty(&image, MANIFEST, 9, page);
    assert_eq!(
        refusal(&server, open(&server)),
        "HOST is not a registry, or a proxy answers for it: it answered 200 OK with text/html instead of a manifest, beginning \"<html>\\x1b[31m sign in\""
    );
    let server = faulty(&image, MANIFEST, 9, |_| Reply::new(200, vec![b' '; 65536]).endless());
    assert_eq!(
        refusal(&server, open(&server)),
        "manifest 1 of HOST/app:1 is larger than the limit of 4194304 bytes (document)"
    );
    let other = digest(b"other").to_string();
    let claimed = other.clone();
    let bytes = image.manifest.clone();
    let server = faulty(&image, MANIFEST, 9, move |_| {
        Reply::new(200, &*bytes).with("Docker-Content-Digest", claimed.clone())
    });
    assert_eq!(
        refusal(&server, open(&server)),
        format!(
            "manifest 1 of HOST/app:1: expected digest {other}, found {}; the source is damaged or was tampered with",
            digest(&image.manifest)
        )
    );
}

#[test]
fn a_pinned_digest_is_held_to_and_the_config_to_its_descriptor() {
    let image = Pushed::new();
    let pinned = digest(b"pinned").to_string();
    let bytes = image.manifest.clone();
    let path = format!("/v2/app/manifests/{pinned}");
    let server = faulty(&image, &path, 9, move |_| Reply::new(200, &*bytes));
    let error = refusal(
        &server,
        open_as(&format!("{}/app@{pinned}", server.address), options(), None),
    );
    assert!(error.contains(&format!("expected digest {pinned}, found")), "{error}");
    let path = crate::registry_server::blob_path(&image.config);
    let size = image.config.len();
    let server = faulty(&image, &path, 9, move |_| Reply::new(200, vec![b'x'; size]));
    let error = refusal(&server, open(&server));
    assert!(
        error.starts_with("config sha256:") && error.contains("expected digest"),
        "{error}"
    );
}

#[test]
fn an_unknown_image_is_not_found_in_the_registrys_own_words() {
    let server = faulty(&Pushed::new(), "", 0, |_| Reply::new(500, ""));
    let outcome = open_as(&format!("{}/other:1", server.address), options(), None);
    assert_eq!(
        refusal(&server, outcome),
        "no such image or tag: HOST/other:1 is not in HOST (NAME_UNKNOWN: repository name not\\x1b known)"
    );
}

#[test]
fn an_index_leads_to_the_platform_or_says_what_it_has() {
    let image = Pushed::new();
    let mut entry = descriptor("application/vnd.oci.image.manifest.v1+json", &image.manifest);
    entry["platform"] = json!({"os": "linux", "architecture": "amd64"});
    let mut other = entry.clone();
    other["platform"]["architecture"] = json!("arm64");
    let index = json!({"schemaVersion": 2, "manifests": [other, entry]}).to_string();
    let server = faulty(&image, MANIFEST, 9, move |_| Reply::new(200, &*index));
    let written = format!("{}/app:1", server.address);
    let opened = open_as(&written, options(), Some("linux/amd64")).unwrap();
    assert_eq!(opened.image.digest, Some(digest(&image.manifest)));
    assert_eq!(
        refusal(&server, open_as(&written, options(), Some("linux/s390x"))),
        "no image for platform linux/s390x in HOST/app:1; it offers linux/arm64, linux/amd64; choose one with --platform"
    );
    let error = refusal(&server, open_as(&written, options(), Some("linux/arm64")));
    assert!(error.contains("it offers linux/amd64"), "{error}");
}

#[test]
fn without_a_platform_in_the_index_the_config_decides() {
    let image = Pushed::new();
    let entry = descriptor("application/vnd.oci.image.manifest.v1+json", &image.manifest);
    let index = json!({"schemaVersion": 2, "manifests": [entry, entry]}).to_string();
    let server = faulty(&image, MANIFEST, 9, move |_| Reply::new(200, &*index));
    let written = format!("{}/app:1", server.address);
    let opened = open_as(&written, options(), Some("linux/amd64")).unwrap();
    assert_eq!(opened.image.digest, Some(digest(&image.manifest)));
    let error = refusal(&server, open_as(&written, options(), Some("linux/s390x")));
    assert!(error.contains("it offers linux/amd64, linux/amd64"), "{error}");
}

#[test]
fn indexes_within_indexes_are_followed_three_deep() {
    let image = Pushed::new();
    let wrap = |inner: &[u8], media_type: &str| {
        json!({"schemaVersion": 2, "manifests": [descriptor(media_type, inner)]})
            .to_string()
            .into_bytes()
    };
    let index = "application/vnd.oci.image.index.v1+json";
    let mut documents = vec![wrap(&image.manifest, "application/vnd.oci.image.manifest.v1+json")];
    for _ in 0..3 {
        documents.push(wrap(documents.last().unwrap(), index));
    }
    for (depth, expected) in [(3, true), (4, false)] {
        let (image, documents) = (image.clone(), documents.clone());
        let server = Server::start(move |request| {
            if request.path == MANIFEST {
                return Reply::new(200, &*documents[depth - 1]);
            }
            let inner = documents
                .iter()
                .find(|inner| request.path.ends_with(&digest(inner).to_string()));
            inner.map_or_else(|| image.serve(request), |inner| Reply::new(200, &**inner))
        });
        let outcome = open(&server);
        assert_eq!(outcome.is_ok(), expected, "{depth}");
        if let Err(error) = outcome {
            assert!(error.ends_with("leads through more than 3 other indexes"), "{error}");
        }
    }
}

/// A registry that requires tokens from its own token server, which checks `login`.
fn with_tokens(image: &Pushed, login: impl Fn(&Request) -> Option<String> + Send + Sync + 'static) -> Server {
    let image = image.clone();
    let spent = AtomicUsize::new(0);
    Server::start(move |request| {
        if request.path.starts_with("/token") {
            return match login(request) {
                Some(key) => Reply::new(200, json!({key: "t0k3n"}).to_string()),
                None => Reply::new(401, ""),
            };
        }
        // The first token expires after the manifest.
        let is_spent = request.path != MANIFEST && spent.fetch_add(1, Ordering::SeqCst) == 0;
        if request.header("authorization") == Some("Bearer t0k3n") && !is_spent {
            return image.serve(request);
        }
        let realm = format!(
            "Bearer realm=\"http://{}/token?a=b\",service=\"s & s\"",
            request.header("host").unwrap()
        );
        Reply::new(401, "")
            .with("WWW-Authenticate", "Negotiate")
            .with("WWW-Authenticate", format!("Basic realm=\"x\", {realm}"))
    })
}

#[test]
fn a_token_is_fetched_used_for_everything_and_renewed_when_it_is_spent() {
    let image = Pushed::new();
    let server = with_tokens(&image, |_| Some("token".to_owned()));
    let opened = open(&server).unwrap();
    assert_eq!(layer(&opened), Ok(image.layer.clone()));
    let config = crate::registry_server::blob_path(&image.config);
    let blob = image.layer_path();
    assert_eq!(
        server.paths(),
        [MANIFEST, "/token", MANIFEST, &config, "/token", &config, &blob]
    );
    let token = &server.seen()[1];
    assert_eq!(
        token.path,
        "/token?a=b&service=s+%26+s&client_id=cupti-audit&scope=repository%3Aapp%3Apull"
    );
    assert_eq!(token.header("authorization"), None);
}

/// A process that asks for a token, or makes a client with the system's certificates, for each image takes minutes to
/// list a repository of 10,000 tags.
#[test]
fn the_images_of_a_repository_share_the_token_and_those_of_other_options_do_not() {
    let image = Pushed::new();
    let server = with_tokens(&image, |_| Some("token".to_owned()));
    open(&server).unwrap();
    let first = server.paths().len();
    let config = crate::registry_server::blob_path(&image.config);
    open(&server).unwrap();
    assert_eq!(server.paths()[first..], [MANIFEST, &config]);
    // Other options may mean other credentials.
    let others = RegistryOptions {
        user_agent: "other".to_owned(),
        ..options()
    };
    open_as(&format!("{}/app:1", server.address), others, None).unwrap();
    assert_eq!(server.paths()[first + 2..], [MANIFEST, "/token", MANIFEST, &config]);
}

#[test]
fn a_token_server_in_trouble_is_waited_for() {
    let image = Pushed::new();
    for (times, expected) in [
        (2, None),
        (
            3,
            Some("the token server HOST has a problem: it answered 502 Bad Gateway; try again later"),
        ),
    ] {
        let (image, left) = (image.clone(), AtomicUsize::new(times));
        let server = Server::start(move |request| {
            if request.path.starts_with("/token") {
                let is_down = left
                    .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1))
                    .is_ok();
                return if is_down {
                    Reply::new(502, "")
                } else {
                    Reply::new(200, r#"{"token":"t"}"#)
                };
            }
            if request.header("authorization") == Some("Bearer t") {
                return image.serve(request);
            }
            let realm = format!("Bearer realm=\"http://{}/token\"", request.header("host").unwrap());
            Reply::new(401, "").with("WWW-Authenticate", realm)
        });
        let outcome = open(&server);
        match expected {
            None => assert!(outcome.is_ok()),
            Some(expected) => assert_eq!(refusal(&server, outcome), expected),
        }
    }
}

#[test]
fn a_password_goes_to_the_token_server_and_a_wrong_one_is_named_with_its_file() {
    let login =
        |request: &Request| (request.header("authorization") == Some("Basic dTpw")).then(|| "access_token".to_owned());
    let server = with_tokens(&Pushed::new(), login);
    let written = format!("{}/app:1", server.address);
    let (_dir, right, _) = with_credentials(&server, json!({"auth": "dTpw"}));
    assert!(open_as(&written, right, None).is_ok());
    let (_dir, wrong, file) = with_credentials(&server, json!({"auth": "dTp4"}));
    assert_eq!(
        refusal(&server, open_as(&written, wrong, None)),
        format!(
            "HOST refused the credentials found in {}; docker login HOST again",
            file.display()
        )
    );
    assert_eq!(
        refusal(&server, open(&server)),
        "no credentials for HOST, which asks for them; docker login HOST"
    );
}

#[test]
fn an_identity_token_is_exchanged_and_never_sent_as_a_password() {
    let login = |request: &Request| {
        let expected = "grant_type=refresh_token&client_id=cupti-audit&scope=repository%3Aapp%3Apull&refresh_token=r%2B1&service=s+%26+s";
        (request.method == "POST" && request.body == expected).then(|| "access_token".to_owned())
    };
    let server = with_tokens(&Pushed::new(), login);
    let (_dir, options, _) = with_credentials(&server, json!({"auth": "MDAwMDo=", "identitytoken": "r+1"}));
    assert!(open_as(&format!("{}/app:1", server.address), options, None).is_ok());
    assert!(server.seen().iter().all(|request| {
        request
            .header("authorization")
            .is_none_or(|value| value == "Bearer t0k3n")
    }));
}

#[test]
fn a_token_server_in_a_forbidden_place_is_not_asked() {
    let image = Pushed::new();
    for (realm, expected) in [
        (
            "https://169.254.169.254/token",
            "refused to ask the token server that HOST names: https://169.254.169.254 is a link-local or metadata address",
        ),
        (
            "http://auth.example/token",
            "refused to ask the token server that HOST names: http://auth.example is plain HTTP; --insecure-registry auth.example allows it",
        ),
        ("token", "HOST names a token server with an invalid address: \"token\""),
    ] {
        let server = faulty(&image, MANIFEST, 9, move |_| {
            Reply::new(401, "").with("WWW-Authenticate", format!("Bearer realm=\"{realm}\""))
        });
        let (_dir, options, _) = with_credentials(&server, json!({"auth": "dTpw"}));
        let outcome = open_as(&format!("{}/app:1", server.address), options, None);
        assert_eq!(refusal(&server, outcome), expected);
    }
}

#[test]
fn a_token_server_without_end_or_without_token_is_an_error() {
    let image = Pushed::new();
    for reply in [
        Reply::new(200, vec![b' '; 65536]).endless(),
        Reply::new(200, "{}"),
        Reply::new(200, "<html>"),
    ] {
        let image = image.clone();
        let server = Server::start(move |request| match request.path.as_str() {
            path if path.starts_with("/token") => reply.clone(),
            MANIFEST => Reply::new(401, "").with(
                "WWW-Authenticate",
                format!("Bearer realm=\"http://{}/token\"", request.header("host").unwrap()),
            ),
            _ => image.serve(request),
        });
        assert_eq!(
            refusal(&server, open(&server)),
            "the token server HOST of HOST gave no token"
        );
    }
}

#[test]
fn access_that_is_denied_says_with_whose_credentials() {
    let image = Pushed::new();
    let server = faulty(&image, MANIFEST, 9, |request| match request.header("authorization") {
        Some("Basic dTpw") => Reply::new(403, r#"{"errors":[{"code":"DENIED"}]}"#),
        _ => Reply::new(401, "").with("WWW-Authenticate", "Basic realm=\"x\""),
    });
    let written = format!("{}/app:1", server.address);
    let (_dir, right, file) = with_credentials(&server, json!({"auth": "dTpw"}));
    assert_eq!(
        refusal(&server, open_as(&written, right, None)),
        format!(
            "HOST denied access to app (DENIED): it does not exist, or the credentials found in {} may not pull it",
            file.display()
        )
    );
    let (_dir, wrong, file) = with_credentials(&server, json!({"auth": "dTp4"}));
    assert_eq!(
        refusal(&server, open_as(&written, wrong, None)),
        format!(
            "HOST refused the credentials found in {}; docker login HOST again",
            file.display()
        )
    );
    let server = faulty(&image, MANIFEST, 9, |_| Reply::new(403, ""));
    assert_eq!(
        refusal(&server, open(&server)),
        "HOST denied access to app: it does not exist, or it is private and the request had no credentials; docker login HOST"
    );
    let server = faulty(&image, MANIFEST, 9, |_| {
        Reply::new(401, "").with("WWW-Authenticate", "Digest realm=\"x\"")
    });
    assert_eq!(
        refusal(&server, open(&server)),
        "HOST asks for an authentication that is not supported: Digest; only Bearer and Basic are"
    );
}

#[test]
fn a_host_that_looks_alike_gets_no_credentials() {
    let image = Pushed::new();
    let server = faulty(&image, MANIFEST, 9, |_| {
        Reply::new(401, "").with("WWW-Authenticate", "Basic realm=\"x\"")
    });
    let port = server.address.port();
    let config = json!({"auths": {
        "127.0.0.1": {"auth": "dTpw"}, "0.0.1": {"auth": "dTpw"}, (format!("0.0.1:{port}")): {"auth": "dTpw"},
        (format!("127.0.0.1:{port}0")): {"auth": "dTpw"}, (format!("localhost:{port}")): {"auth": "dTpw"},
        (format!("127.0.0.1:{port}/apple")): {"auth": "dTpw"}}});
    let (_dir, options, _) = with_config(config);
    let outcome = open_as(&format!("{}/app:1", server.address), options, None);
    assert_eq!(
        refusal(&server, outcome),
        "no credentials for HOST, which asks for them; docker login HOST"
    );
    assert!(
        server
            .seen()
            .iter()
            .all(|request| request.header("authorization").is_none())
    );
}

#[test]
fn a_foreign_layer_is_never_fetched() {
    let mut image = Pushed::new();
    let mut manifest: serde_json::Value = serde_json::from_slice(&image.manifest).unwrap();
    manifest["layers"][0]["mediaType"] = json!("application/vnd.docker.image.rootfs.foreign.diff.tar.gzip");
    manifest["layers"][0]["urls"] = json!(["http://169.254.169.254/"]);
    image.manifest = manifest.to_string().into_bytes();
    let server = faulty(&image, "", 0, |_| Reply::new(500, ""));
    let opened = open(&server).unwrap();
    let error = layer(&opened).unwrap_err().replace(&server.address.to_string(), "HOST");
    assert_eq!(
        error,
        format!(
            "layer {} of HOST/app:1 is foreign: its bytes are not in HOST, and no other host is contacted",
            digest(&image.layer)
        )
    );
    assert_eq!(server.paths().len(), 2);
}

/// A tag may name an attestation of `BuildKit`, whose config is that of an image for an unknown platform.
#[test]
fn an_attestation_is_an_artifact_whichever_platform_is_asked_for() {
    let mut image = Pushed::new();
    let mut config: serde_json::Value = serde_json::from_slice(&image.config).unwrap();
    (config["os"], config["architecture"]) = (json!("unknown"), json!("unknown"));
    image.config = config.to_string().into_bytes();
    let mut manifest: serde_json::Value = serde_json::from_slice(&image.manifest).unwrap();
    manifest["config"] = descriptor("application/vnd.oci.image.config.v1+json", &image.config);
    manifest["layers"][0]["mediaType"] = json!("application/vnd.in-toto+json");
    image.manifest = manifest.to_string().into_bytes();
    let server = Server::start(move |request| image.serve(request));
    for platform in [None, Some("linux/amd64")] {
        let outcome = open_as(&format!("{}/app:1", server.address), options(), platform);
        assert_eq!(
            refusal(&server, outcome),
            "HOST/app:1 is not a container image: its layer 0 is of media type \"application/vnd.in-toto+json\""
        );
    }
}

#[test]
fn a_registry_that_is_not_there_is_one_sentence() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let error = open_as(&format!("{closed}/app:1"), options(), None)
        .map(|_| ())
        .unwrap_err();
    assert_eq!(
        error,
        format!(
            "cannot reach {closed}: Connection refused (os error 111); check its name and port, the network and the proxy settings"
        )
    );
    let error = open_as("no-such-host.invalid/app:1", options(), None)
        .map(|_| ())
        .unwrap_err();
    assert!(error.starts_with("cannot reach no-such-host.invalid: "), "{error}");
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
    let image = Pushed::new();
    let near = Server::start(|_| Reply::new(200, "{}"));
    let location = format!("http://localhost:{}/", near.address.port());
    let whole = image.clone();
    let server = Server::start_on(ip, move |request| {
        if request.path == whole.layer_path() {
            return Reply::new(307, "").with("Location", location.clone());
        }
        whole.serve(request)
    });
    let error = refusal(&server, open(&server));
    assert!(
        error.starts_with("HOST does not speak TLS") && error.ends_with("--insecure-registry HOST allows plain HTTP"),
        "{error}"
    );
    assert_eq!(server.paths(), [""; 0]);
    let insecure = RegistryOptions {
        insecure: vec![server.address.to_string()],
        ..options()
    };
    let opened = open_as(&format!("{}/app:1", server.address), insecure, None).unwrap();
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
    let error = open_as(&format!("{address}/app:1"), options, None)
        .map(|_| ())
        .unwrap_err();
    assert_eq!(
        error,
        format!(
            "cannot reach {address}: no answer in time; check its name and port, the network and the proxy settings"
        )
    );
}

#[test]
fn x_16_a_body_that_only_drips_is_not_followed_for_ever() {
    let image = Pushed::new();
    let blob = image.layer.clone();
    let server = faulty(&image, &image.layer_path(), usize::MAX, move |request| {
        Reply::range(request, &blob).dripping()
    });
    let mut options = options();
    options.patience.slowest = Duration::from_millis(30);
    let opened = open_as(&format!("{}/app:1", server.address), options.clone(), None).unwrap();
    let error = layer(&opened).unwrap_err();
    assert!(
        error.contains(" bytes came in 30ms, expected 65536 (slowest-seconds)"),
        "{error}"
    );
    options.patience.slowest = Duration::from_mins(1);
    options.patience.blob = Duration::from_millis(100);
    let opened = open_as(&format!("{}/app:1", server.address), options.clone(), None).unwrap();
    let error = layer(&opened).unwrap_err();
    assert!(error.contains("it takes longer than"), "{error}");
    // Slow documents are also refused, as are slow parts of a blob that a retry skips.
    options.patience.slowest = Duration::from_millis(30);
    options.patience.blob = Duration::from_mins(1);
    let server = faulty(&image, MANIFEST, usize::MAX, |_| {
        Reply::new(200, vec![b' '; 70_000]).dripping()
    });
    let error = refusal(
        &server,
        open_as(&format!("{}/app:1", server.address), options.clone(), None),
    );
    assert!(
        error.contains("manifest 1 broke off") && error.contains("bytes came in 30ms"),
        "{error}"
    );
    let blob = image.layer.clone();
    let starts = AtomicUsize::new(0);
    let server = faulty(&image, &image.layer_path(), usize::MAX, move |_| {
        match starts.fetch_add(1, Ordering::SeqCst) {
            0 => Reply::new(200, &*blob).cut(150_000),
            _ => Reply::new(200, &*blob).dripping(),
        }
    });
    let opened = open_as(&format!("{}/app:1", server.address), options, None).unwrap();
    let error = layer(&opened).unwrap_err();
    assert!(
        error.contains("after 150000 of 200000 bytes (") && error.contains("(slowest-seconds)"),
        "{error}"
    );
}

#[test]
fn a_password_goes_to_no_token_server_but_those_that_the_user_names_once_some_are_named() {
    let image = Pushed::new();
    let elsewhere = Server::start(|_| Reply::new(200, r#"{"token":"t"}"#));
    let realm = format!("localhost:{}", elsewhere.address.port());
    let challenge = format!("Bearer realm=\"http://{realm}/token\"");
    let server = Server::start(move |request| match request.header("authorization") {
        Some("Bearer t") => image.serve(request),
        _ => Reply::new(401, "").with("WWW-Authenticate", challenge.clone()),
    });
    let open = |named: &[&str]| {
        let (_dir, options, _) = with_credentials(&server, json!({"auth": "dTpw"}));
        let token_servers = named.iter().map(|name| (*name).to_owned()).collect();
        let options = RegistryOptions {
            token_servers,
            ..options
        };
        open_as(&format!("{}/app:1", server.address), options, None)
    };
    let error = refusal(&server, open(&["auth.example"]));
    assert_eq!(
        error.replace(&realm, "REALM"),
        "refused to ask the token server that HOST names: REALM is none of those that --token-server allows"
    );
    assert_eq!(elsewhere.seen().len(), 0);
    assert!(open(&["auth.example", &realm]).is_ok() && open(&[]).is_ok());
    let passwords = elsewhere.seen();
    let passwords = passwords.iter().filter_map(|request| request.header("authorization"));
    assert_eq!(passwords.collect::<Vec<_>>(), ["Basic dTpw", "Basic dTpw"]);
}

#[test]
fn a_server_of_another_protocol_is_asked_once() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let asked = std::sync::Arc::new(AtomicUsize::new(0));
    let count = std::sync::Arc::clone(&asked);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            count.fetch_add(1, Ordering::SeqCst);
            let mut stream = stream.unwrap();
            // Read the request first: an earlier answer looks like a stale connection from a pool.
            let _ = Read::read(&mut stream, &mut [0; 1024]);
            let _ = std::io::Write::write_all(&mut stream, b"SSH-2.0-OpenSSH_9.2\r\n");
        }
    });
    let error = open_as(&format!("{address}/app:1"), options(), None)
        .map(|_| ())
        .unwrap_err();
    // Once with TLS and once without.
    assert!(asked.load(Ordering::SeqCst) <= 2, "{error}");
}

#[test]
fn a_ca_file_that_is_none_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("ca.pem");
    std::fs::write(&file, "not a certificate").unwrap();
    let with = |ca: PathBuf| {
        let options = RegistryOptions {
            ca_cert: Some(ca),
            ..options()
        };
        open_as("localhost:1/app:1", options, None).map(|_| ()).unwrap_err()
    };
    assert_eq!(
        with(file.clone()),
        format!("CA file {}: it holds no certificate in PEM form", file.display())
    );
    let missing = dir.path().join("missing.pem");
    assert_eq!(
        with(missing.clone()),
        format!("CA file {}: No such file or directory (os error 2)", missing.display())
    );
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
