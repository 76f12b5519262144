//! Pushing an image: the requests to the registry, their authorization, and the errors if it refuses.

use std::io::{Cursor, Read};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::registry_server::{Reply, Request, Server, digest};
use image_source::ImageError;
use image_source::registry::{CredentialSource, PushOutcome, RegistryOptions, RegistryPush, RetryPolicy};

const BLOB: &[u8] = b"the bytes of a layer";
/// A blob that no other repository has.
const NEW_BLOB: &[u8] = b"the bytes of a new layer";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

fn options() -> RegistryOptions {
    RegistryOptions {
        credentials: CredentialSource::Anonymous,
        patience: RetryPolicy {
            tries: 3,
            first_wait: Duration::from_millis(1),
            longest_wait: Duration::from_millis(5),
            ..RetryPolicy::default()
        },
        ..RegistryOptions::default()
    }
}

fn push(server: &Server, from: Option<&str>) -> RegistryPush {
    let name = format!("{}/new/app:1", server.address);
    RegistryPush::new(&name.parse().unwrap(), &name, from, &options()).unwrap()
}

#[expect(clippy::unnecessary_wraps, reason = "a blob may fail to open; this one does not")]
fn open() -> Result<Box<dyn Read + Send>, ImageError> {
    Ok(Box::new(Cursor::new(BLOB)))
}

/// The query that mounts a blob of `base`.
fn mount(blob: &[u8]) -> String {
    let digest = digest(blob).to_string().replace(':', "%3A");
    format!("?mount={digest}&from=base")
}

/// A registry that requires a token, and mounts one blob from `base`.
fn registry(request: &Request) -> Reply {
    let host = &request.headers["host"];
    if request.path.starts_with("/token") {
        return Reply::new(200, r#"{"token":"the-token"}"#);
    }
    if request.headers.get("authorization").map(String::as_str) != Some("Bearer the-token") {
        let realm = format!(r#"Bearer realm="http://{host}/token",service="s""#);
        return Reply::new(401, "").with("WWW-Authenticate", realm);
    }
    let path = request.path.split('?').next().unwrap();
    match (request.method.as_str(), path) {
        ("POST", _) if request.path.ends_with(&mount(BLOB)) => Reply::new(201, ""),
        ("POST", _) => Reply::new(202, "").with("Location", "/v2/new/app/uploads/7?state=x"),
        ("PUT", "/v2/new/app/uploads/7" | "/v2/new/app/manifests/1") => Reply::new(201, ""),
        _ => Reply::new(404, ""),
    }
}

/// The requests that a server received, without those for tokens.
fn seen(server: &Server) -> Vec<String> {
    let requests = server.seen().into_iter();
    let signed = requests.filter(|request| request.headers.contains_key("authorization"));
    signed
        .map(|request| format!("{} {}", request.method, request.path))
        .collect()
}

#[test]
fn a_blob_is_mounted_or_sent_and_the_manifest_comes_last() {
    let server = Server::start(registry);
    let (shared, new) = (digest(BLOB), digest(NEW_BLOB));
    let push = push(&server, Some("base"));
    assert!(!push.exists().unwrap());
    let (size, new_size) = (BLOB.len() as u64, NEW_BLOB.len() as u64);
    assert_eq!(push.push_blob(&shared, size, &open).unwrap(), PushOutcome::Mounted);
    let open_new = || Ok(Box::new(Cursor::new(NEW_BLOB)) as Box<dyn Read + Send>);
    assert_eq!(push.push_blob(&new, new_size, &open_new).unwrap(), PushOutcome::Sent);
    push.push_manifest(MANIFEST, b"{}").unwrap();
    assert_eq!(
        seen(&server),
        [
            "GET /v2/new/app/manifests/1".to_owned(),
            format!("HEAD /v2/new/app/blobs/{shared}"),
            format!("POST /v2/new/app/blobs/uploads/{}", mount(BLOB)),
            format!("HEAD /v2/new/app/blobs/{new}"),
            format!("POST /v2/new/app/blobs/uploads/{}", mount(NEW_BLOB)),
            format!(
                "PUT /v2/new/app/uploads/7?state=x&digest={}",
                new.to_string().replace(':', "%3A")
            ),
            "PUT /v2/new/app/manifests/1".to_owned(),
        ]
    );
    let all = server.seen();
    let token = all.iter().find(|request| request.path.starts_with("/token"));
    let scopes = "scope=repository%3Anew%2Fapp%3Apull%2Cpush&scope=repository%3Abase%3Apull";
    assert!(token.unwrap().path.ends_with(scopes), "{token:?}");
    let sent = all.iter().find(|request| request.path.contains("uploads/7"));
    assert_eq!(sent.unwrap().body.as_bytes(), NEW_BLOB);
    let named = all.last().unwrap();
    assert_eq!(named.headers["content-type"], MANIFEST);
}

#[test]
fn a_registry_in_trouble_is_asked_again_and_gets_the_whole_blob() {
    // 408: the server timed out waiting for the blob.
    for status in [503, 429, 408] {
        asked_again(status);
    }
}

fn asked_again(status: u16) {
    let tries = AtomicUsize::new(0);
    let server = Server::start(move |request| {
        let is_blob = request.method == "PUT" && request.path.contains("uploads");
        if is_blob && tries.fetch_add(1, Ordering::Relaxed) == 0 {
            Reply::new(status, "")
        } else {
            registry(request)
        }
    });
    let push = push(&server, None);
    assert!(!push.exists().unwrap());
    let pushed = push.push_blob(&digest(BLOB), BLOB.len() as u64, &open);
    assert_eq!(pushed.unwrap(), PushOutcome::Sent);
    let bodies = server.seen().into_iter();
    let bodies = bodies.filter(|request| request.method == "PUT");
    assert_eq!(
        bodies.map(|request| request.body).collect::<Vec<_>>(),
        ["the bytes of a layer"; 2]
    );
}

#[test]
fn what_a_registry_does_not_take_is_one_sentence() {
    let refusing = |status: u16, location: &'static str| {
        let server = Server::start(move |request| match request.method.as_str() {
            "POST" if status == 202 => Reply::new(202, "").with("Location", location),
            "POST" => Reply::new(status, r#"{"errors":[{"code":"NO","message":"not here"}]}"#),
            _ => Reply::new(404, ""),
        });
        let push = push(&server, None);
        assert!(!push.exists().unwrap());
        let error = push.push_blob(&digest(BLOB), BLOB.len() as u64, &open);
        let address = server.address.to_string();
        error.unwrap_err().to_string().replace(&address, "HOST")
    };
    for (status, location, expected) in [
        (
            403,
            "",
            "HOST denied the push to new/app (NO: not here); docker login HOST as who may push there",
        ),
        (
            400,
            "",
            "HOST refused a part of the image: 400 Bad Request (NO: not here)",
        ),
        (202, "", "HOST does not say where a blob is to be sent"),
        (
            202,
            "http://169.254.169.254/upload",
            "refused to send a blob where HOST says: http://169.254.169.254 is a link-local or metadata address",
        ),
        (
            202,
            "https://169.254.169.254/upload",
            "refused to send a blob where HOST says: https://169.254.169.254 is a link-local or metadata address",
        ),
    ] {
        assert_eq!(refusing(status, location), expected);
    }
    let digest = format!("HOST/app@{}", digest(BLOB)).replace("HOST", "localhost:1");
    let error = RegistryPush::new(&digest.parse().unwrap(), "x", None, &options()).err();
    assert_eq!(
        error.unwrap().to_string(),
        "invalid reference \"x\": an image is pushed by a tag; its digest follows from it"
    );
}

#[test]
fn a_registry_that_says_it_holds_another_manifest_is_not_believed_to_have_taken_it() {
    let says = |said: String| {
        Server::start(move |request| match registry(request) {
            reply if request.method == "PUT" => reply.with("Docker-Content-Digest", said.clone()),
            reply => reply,
        })
    };
    let sent = digest(b"{}").to_string();
    let server = says(sent.clone());
    let right = push(&server, None);
    assert!(!right.exists().unwrap());
    right.push_manifest(MANIFEST, b"{}").unwrap();
    for said in [digest(BLOB).to_string(), "nothing".to_owned()] {
        let server = says(said.clone());
        let push = push(&server, None);
        // The first request decides between HTTP and HTTPS.
        assert!(!push.exists().unwrap());
        let failed = push.push_manifest(MANIFEST, b"{}").unwrap_err().to_string();
        let expected = format!(
            "{} says that it holds {said} instead of the image that was sent, {sent}; audit what is stored there",
            server.address
        );
        assert_eq!(failed, expected);
    }
}
