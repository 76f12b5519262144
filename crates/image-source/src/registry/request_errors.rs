//! What went wrong with a request, as one sentence that says what to do.
//!
//! Everything a registry wrote is escaped and cut; addresses are shown without their query, which may hold a signature.

use std::error::Error as _;
use std::io::Read;

use reqwest::blocking::Response;
use reqwest::header::CONTENT_TYPE;
use serde::Deserialize;

use super::retry::AttemptFailure;
use crate::image_error::ImageError;

/// The bytes of an error's body that are read.
const ERROR_BODY: u64 = 64 << 10;

/// The characters of a registry's own words that are shown.
const SHOWN: usize = 200;

/// Something that is not on this machine answered with an error, or not at all.
pub fn remote_error(text: impl Into<String>) -> ImageError {
    ImageError::Remote(text.into())
}

/// The registry or its token server does not take the credentials, or wants some.
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
    // The request was never sent: asking again with the same address and certificates fails in the same way.
    if error.is_builder() {
        return remote_error(format!("cannot ask {host}: {cause}")).into();
    }
    // Before the other causes: a certificate that is refused is a failure to connect as well, and needs other advice.
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
    let unreachable = remote_error(format!(
        "cannot reach {host}: {cause}; check its name and port, the network and the proxy settings"
    ));
    // Neither a name that does not exist nor a closed port comes to life within seconds.
    // These are the words of glibc's getaddrinfo; its "Temporary failure in name resolution" is asked again.
    if cause.contains("not known") || cause.contains("No address") || is_refused(error) {
        unreachable.into()
    } else {
        AttemptFailure::passing(unreachable)
    }
}

/// Whether a connection never stood, for another reason than a certificate that is not trusted: then a host
/// that may be asked by plain HTTP is.
pub(super) fn is_no_tls(error: &reqwest::Error) -> bool {
    error.is_connect() && !is_certificate(error)
}

fn is_certificate(error: &reqwest::Error) -> bool {
    // reqwest hides the types of the TLS library below it, so its words have to tell.
    chain(error).any(|text| text.contains("certificate"))
}

fn is_not_tls(error: &reqwest::Error) -> bool {
    chain(error).any(|text| text.contains("InvalidContentType") || text.contains("corrupt message"))
}

/// Whether the answer is none of HTTP's: what speaks so speaks so again (the words of hyper's `Parse`).
fn is_no_http(error: &reqwest::Error) -> bool {
    const WORDS: [&str; 4] = [
        "invalid HTTP",
        "message head is too large",
        "invalid content-length",
        "unexpected transfer-encoding",
    ];
    chain(error).any(|text| WORDS.iter().any(|words| text.contains(words)))
}

fn is_refused(error: &reqwest::Error) -> bool {
    chain(error).any(|text| text.contains("Connection refused"))
}

/// The texts of an error's causes, without the error's own, which names the whole address.
fn chain(error: &reqwest::Error) -> impl Iterator<Item = String> {
    let mut next = error.source();
    std::iter::from_fn(move || {
        let error = next?;
        next = error.source();
        Some(error.to_string())
    })
}

/// The first cause, in the words of the system or of TLS.
fn cause(error: &reqwest::Error) -> String {
    let text = if error.is_timeout() {
        "no answer in time".to_owned()
    } else {
        chain(error).last().unwrap_or_else(|| "the request failed".to_owned())
    };
    shorten_text(text.as_bytes())
}

/// Bytes that somebody else wrote, escaped and cut.
pub fn shorten_text(bytes: &[u8]) -> String {
    // Escaped first and cut afterwards: the limit is on what the terminal shows.
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

/// What an error's body says, as `: CODE: message`; empty when it says nothing that can be shown.
pub(super) fn read_error_body(answer: impl Read) -> String {
    let mut body = Vec::new();
    // What arrived before the connection broke is as good.
    let _ = answer.take(ERROR_BODY).read_to_end(&mut body);
    // Only a registry's own JSON is shown: the HTML page of a proxy would fill the screen and explain nothing.
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

/// A text without what was sent as `Authorization`: a server that shows what it was asked shows that too.
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

/// The media type that a response claims, without parameters, in lower case.
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
    fn a_server_that_shows_what_it_was_sent_shows_no_password() {
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
