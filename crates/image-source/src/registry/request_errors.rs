//! Turns a failed request into one sentence that says what to do.
//!
//! Text from a registry is escaped and cut. URLs are shown without their query, which may contain a signature.

use std::error::Error as _;
use std::io::Read;

use reqwest::blocking::Response;
use reqwest::header::CONTENT_TYPE;
use serde::Deserialize;

use super::address_guard::is_loopback;
use super::retry::AttemptFailure;
use crate::image_error::ImageError;

/// How many bytes of an error's body are read.
const ERROR_BODY: u64 = 64 << 10;

/// How many characters of a registry's message are shown.
const SHOWN: usize = 200;

/// A remote server answered with an error, or not at all.
pub fn remote_error(text: impl Into<String>) -> ImageError {
    ImageError::Remote(text.into())
}

/// The registry or its token server rejected the credentials, or requires some.
pub(super) fn credentials_refused(registry: &str, found_in: Option<&str>) -> ImageError {
    remote_error(match found_in {
        Some(found_in) => {
            format!("{registry} refused the credentials found in {found_in}; docker login {registry} again")
        }
        None => {
            format!("no credentials for {registry}, which asks for them; docker login {registry}")
        }
    })
}

/// Why a request to `host` got no answer.
pub fn connection_failure(host: &str, error: &reqwest::Error) -> AttemptFailure {
    let cause = cause(error);
    // The request was never sent, and would fail again with the same address and certificates.
    if error.is_builder() {
        return remote_error(format!("cannot ask {host}: {cause}")).into();
    }
    // Checked first: a rejected certificate is also a failure to connect, but needs other advice.
    if is_certificate(error) {
        return remote_error(format!(
            "the certificate of {host} is not trusted ({cause}); give its CA with --ca-cert FILE, or accept any certificate with --insecure-registry {host}"
        ))
        .into();
    }
    if is_not_tls(error) {
        return remote_error(format!(
            "{host} does not speak TLS ({cause}); --insecure-registry {host} allows plain HTTP"
        ))
        .into();
    }
    if is_no_http(error) {
        return remote_error(format!("{host} answers in another protocol than HTTP ({cause})")).into();
    }
    let unreachable = remote_error(match proxy_of(error) {
        Some(proxy) => {
            format!("cannot reach {host} by the proxy {proxy}: {cause}; check the proxy, or name {host} in NO_PROXY")
        }
        None if is_closed(error) => {
            format!(
                "{host} closes the connection ({cause}); if it speaks plain HTTP, allow it with --insecure-registry {host}"
            )
        }
        None => format!("cannot reach {host}: {cause}; check its name and port, the network and the proxy settings"),
    });
    // An unknown name or a closed port does not change within seconds. The words are those of glibc's getaddrinfo; its
    // "Temporary failure in name resolution" is retried.
    if cause.contains("not known") || cause.contains("No address") || is_refused(error) {
        unreachable.into()
    } else {
        AttemptFailure::passing(unreachable)
    }
}

/// Whether no connection was made, for another reason than an untrusted certificate. If plain HTTP is allowed, it is
/// tried next.
pub(super) fn is_no_tls(error: &reqwest::Error) -> bool {
    error.is_connect() && !is_certificate(error)
}

fn is_certificate(error: &reqwest::Error) -> bool {
    // reqwest hides the error types of its TLS library, so the text decides.
    chain(error).any(|text| text.contains("certificate"))
}

fn is_not_tls(error: &reqwest::Error) -> bool {
    chain(error).any(|text| text.contains("InvalidContentType") || text.contains("corrupt message"))
}

/// Whether the answer is not HTTP; a retry would not help. The words are those of hyper's `Parse`.
fn is_no_http(error: &reqwest::Error) -> bool {
    const WORDS: [&str; 4] = [
        "invalid HTTP",
        "message head is too large",
        "invalid content-length",
        "unexpected transfer-encoding",
    ];
    chain(error).any(|text| WORDS.iter().any(|words| text.contains(words)))
}

/// Whether the host ended the connection before TLS stood.
fn is_closed(error: &reqwest::Error) -> bool {
    let closed = ["handshake eof", "unexpected EOF", "reset by peer"];
    error.is_connect() && chain(error).any(|text| closed.iter().any(|words| text.contains(words)))
}

/// The proxy that a request went to, and the variable that names it, by the rules of reqwest.
fn proxy_of(error: &reqwest::Error) -> Option<String> {
    let url = error.url().filter(|_| error.is_connect())?;
    let host = url.host_str()?;
    let (_, excepted) = first_variable(&["NO_PROXY", "no_proxy"]).unwrap_or_default();
    let mut hosts = excepted.split(',').map(|one| one.trim().trim_start_matches('.'));
    if is_loopback(host) || hosts.any(|one| one == "*" || !one.is_empty() && host.ends_with(one)) {
        return None;
    }
    let names: &[&str] = match url.scheme() {
        "https" => &["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"],
        _ => &["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"],
    };
    let (name, value) = first_variable(names)?;
    // Without its user and password.
    let shown = value.rsplit('@').next().unwrap_or_default();
    Some(format!("{} of {name}", shorten_text(shown.as_bytes())))
}

#[expect(
    clippy::disallowed_methods,
    reason = "reqwest reads the proxy from the same variables"
)]
fn first_variable<'n>(names: &[&'n str]) -> Option<(&'n str, String)> {
    names.iter().find_map(|name| {
        let value = std::env::var(name).ok().filter(|value| !value.is_empty())?;
        Some((*name, value))
    })
}

fn is_refused(error: &reqwest::Error) -> bool {
    chain(error).any(|text| text.contains("Connection refused"))
}

/// The texts of an error's causes, without its own, which contains the full URL.
fn chain(error: &reqwest::Error) -> impl Iterator<Item = String> {
    let mut next = error.source();
    std::iter::from_fn(move || {
        let error = next?;
        next = error.source();
        Some(error.to_string())
    })
}

/// The root cause, in the words of the system or of TLS.
fn cause(error: &reqwest::Error) -> String {
    let text = if error.is_timeout() {
        "no answer in time".to_owned()
    } else {
        chain(error).last().unwrap_or_else(|| "the request failed".to_owned())
    };
    shorten_text(text.as_bytes())
}

/// Escapes and cuts bytes from another party.
pub fn shorten_text(bytes: &[u8]) -> String {
    // Escapes before cutting: the limit is for the text in the terminal.
    let mut text = image_linkage::escape::escape_bytes(bytes);
    if let Some((end, _)) = text.char_indices().nth(SHOWN) {
        text.truncate(end);
        text.push('…');
    }
    text
}

/// The error body of a registry (distribution-spec, "Error Codes").
#[derive(Deserialize)]
struct ErrorEnvelope {
    errors: Vec<ReportedError>,
}

#[derive(Deserialize)]
struct ReportedError {
    code: Option<String>,
    message: Option<String>,
}

/// The message of an error body as `: CODE: message`; empty if there is none to show.
pub(super) fn read_error_body(answer: impl Read) -> String {
    let mut body = Vec::new();
    // A partial body is good enough.
    let _ = answer.take(ERROR_BODY).read_to_end(&mut body);
    // Only a registry's JSON is shown: a proxy's HTML page would fill the screen and explain nothing.
    let Some(first) = serde_json::from_slice::<ErrorEnvelope>(&body)
        .ok()
        .and_then(|envelope| envelope.errors.into_iter().next())
    else {
        return String::new();
    };
    let parts: Vec<String> = [first.code, first.message]
        .into_iter()
        .flatten()
        .filter(|part| !part.is_empty())
        .map(|part| shorten_text(without_credentials(&part).as_bytes()))
        .collect();
    if parts.is_empty() {
        String::new()
    } else {
        format!(" ({})", parts.join(": "))
    }
}

/// Removes the value of `Authorization`, for a server that echoes the request.
fn without_credentials(text: &str) -> String {
    let mut is_secret = false;
    let words = text.split(' ').map(|word| {
        let shown = if is_secret { "***" } else { word };
        let scheme = word.trim_matches(|sign: char| !sign.is_ascii_alphanumeric());
        is_secret = ["basic", "bearer"]
            .iter()
            .any(|own| scheme.to_ascii_lowercase().ends_with(own));
        shown
    });
    words.collect::<Vec<_>>().join(" ")
}

/// The media type of a response in lower case, without parameters.
pub(super) fn media_type(response: &Response) -> String {
    response
        .headers()
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split(';').next())
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::read_error_body;

    #[test]
    fn a_server_that_echoes_the_request_reveals_no_password() {
        for (message, shown) in [
            ("no access", " (DENIED: no access)"),
            (
                "sent Authorization: Basic dTpzM2NyZXQ= to x",
                " (DENIED: sent Authorization: Basic *** to x)",
            ),
            (
                "{authorization: \"bearer ey.J.x\"}",
                " (DENIED: {authorization: \"bearer ***)",
            ),
            ("a basic answer", " (DENIED: a basic ***)"),
        ] {
            let body = serde_json::json!({"errors": [{"code": "DENIED", "message": message}]}).to_string();
            assert_eq!(read_error_body(body.as_bytes()), shown, "{message}");
        }
    }
}
