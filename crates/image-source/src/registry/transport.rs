//! Makes one HTTP request: selects the client and limits the redirects.

#![expect(
    clippy::disallowed_methods,
    reason = "reads the file of --ca-cert and, for Retry-After, the clock"
)]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use reqwest::blocking::{Body, Client, ClientBuilder, RequestBuilder, Response};
use reqwest::header::{HeaderMap, LOCATION, RETRY_AFTER};
use reqwest::{Certificate, Method, Url, redirect};

use super::address_guard;
use super::checked_names::{CheckedNames, resolve_host};
use super::credential_files::CredentialSource;
use super::request_errors::{connection_failure, read_error_body, remote_error, shorten_text};
use super::retry::{AttemptFailure, RetryPolicy, await_turn, retry_after};
use super::steady_body::SteadyBody;
use crate::image_error::ImageError;
use crate::verify::read_small_file;

/// The maximum number of redirects per request.
const REDIRECTS: usize = 10;

/// The time limit for sending a layer.
const UPLOAD: Duration = Duration::from_hours(6);

/// How to access registries.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RegistryOptions {
    /// Hosts, as `HOST` or `HOST:PORT`, that may use plain HTTP and whose certificate is not checked. This machine may
    /// always use plain HTTP.
    pub insecure: Vec<String>,
    /// A PEM file of certificates to trust in addition to the system's.
    pub ca_cert: Option<PathBuf>,
    /// Where to look for credentials when the registry requires them.
    pub credentials: CredentialSource,
    /// The hosts, as `HOST` or `HOST:PORT`, that are allowed as token servers besides the registry itself; empty allows
    /// any.
    pub token_servers: Vec<String>,
    /// The limits on retries and waits.
    pub patience: RetryPolicy,
    /// The `User-Agent` of requests (RFC 9110, section 10.1.5).
    pub user_agent: String,
}

/// The credentials of a request. They have no `Debug` output.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Authorization {
    Bearer(String),
    /// User name and password.
    Basic(String, String),
}

impl Authorization {
    fn sign(&self, request: RequestBuilder) -> RequestBuilder {
        match self {
            Self::Bearer(token) => request.bearer_auth(token),
            Self::Basic(user, password) => request.basic_auth(user, Some(password)),
        }
    }
}

/// The answer to a request after all redirects.
pub(super) struct FinalResponse {
    /// Status, headers and an unread body.
    pub(super) response: Response,
    /// The URL that answered.
    pub(super) url: Url,
    /// Whether its origin is that of the first request.
    pub(super) same_origin: bool,
    /// The time limit for each part of the body.
    slowest: Duration,
}

impl FinalResponse {
    /// Host and port of the answer, for errors.
    pub(super) fn host(&self) -> String {
        address_guard::url_authority(&self.url)
    }

    /// The body, with the minimum rate and an optional deadline.
    pub(super) fn body(self, deadline: Option<Instant>) -> SteadyBody {
        SteadyBody::new(self.response, self.slowest, deadline)
    }
}

/// The HTTP clients. Certificate checks differ by host, and requests to this machine never use a proxy.
pub(super) struct HttpTransport {
    registry: String,
    insecure: Vec<String>,
    ca_cert: Option<PathBuf>,
    patience: RetryPolicy,
    user_agent: String,
    names: CheckedNames,
    clients: Mutex<BTreeMap<ClientKind, Client>>,
}

/// The properties that need separate clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct ClientKind {
    insecure: bool,
    loopback: bool,
}

impl HttpTransport {
    /// A transport for the registry `registry`, a host without port.
    pub(super) fn new(registry: String, options: &RegistryOptions) -> Self {
        Self {
            registry,
            insecure: options.insecure.clone(),
            ca_cert: options.ca_cert.clone(),
            patience: options.patience.clone(),
            user_agent: options.user_agent.clone(),
            names: CheckedNames::default(),
            clients: Mutex::default(),
        }
    }

    /// Whether plain HTTP to the host of `url` is allowed.
    pub(super) fn allows_plain(&self, url: &Url) -> bool {
        let host = url.host_str().unwrap_or_default();
        address_guard::allows_plain(host, url.port_or_known_default(), &self.insecure)
    }

    /// Checks an address in an answer from `from`, and pins its host to the checked addresses.
    ///
    /// Errors: Why the address is refused.
    pub(super) fn check(&self, from: &Url, to: &Url) -> Result<(), String> {
        // A name without an address may be known to a proxy; otherwise connecting to it fails.
        let checked = address_guard::check_address(&self.registry, from, to, &self.insecure, |host| {
            resolve_host(host).unwrap_or_default()
        })?;
        self.names.keep(to.host_str().unwrap_or_default(), checked);
        Ok(())
    }

    /// Sends a GET request and follows redirects. Credentials go only to the origin of `url`: the first redirect to
    /// another scheme, host or port drops them for good.
    ///
    /// Errors: [`SendError::NoAnswer`] if `url` itself gave no answer; otherwise why a redirect could not be followed.
    pub(super) fn get(
        &self,
        url: &Url,
        headers: &HeaderMap,
        authorization: Option<&Authorization>,
    ) -> Result<FinalResponse, SendError> {
        let mut at = url.clone();
        let mut authorization = authorization;
        for _ in 0..=REDIRECTS {
            self.await_turn(&at);
            let mut request = self.client(&at)?.get(at.clone()).headers(headers.clone());
            if let Some(authorization) = authorization {
                request = authorization.sign(request);
            }
            let response = match request.send() {
                Ok(response) => response,
                // Only the first address may be retried by plain HTTP; the caller decides.
                Err(error) if at == *url => return Err(SendError::NoAnswer(error)),
                Err(error) => {
                    return Err(connection_failure(&address_guard::url_authority(&at), &error).into());
                }
            };
            let Some(next) = self.redirect(&at, &response)? else {
                return Ok(FinalResponse {
                    same_origin: same_origin(url, &at),
                    slowest: self.patience.slowest,
                    response,
                    url: at,
                });
            };
            // Storage behind a redirect uses a signature in the query, and must not see the registry's token. S3
            // refuses a request with both.
            if !same_origin(&at, &next) {
                authorization = None;
            }
            at = next;
        }
        Err(SendError::Failed(
            remote_error(format!(
                "{} redirects more than {REDIRECTS} times",
                address_guard::url_authority(url)
            ))
            .into(),
        ))
    }

    /// Sends a changing request; does not follow redirects.
    pub(super) fn send(
        &self,
        method: &Method,
        url: &Url,
        headers: &HeaderMap,
        authorization: Option<&Authorization>,
        body: Body,
    ) -> Result<FinalResponse, AttemptFailure> {
        let client = self.client(url)?;
        let mut request = client.request(method.clone(), url.clone());
        // Here the timeout covers the whole request, and a layer of gigabytes takes time.
        request = request.headers(headers.clone()).timeout(UPLOAD).body(body);
        if let Some(authorization) = authorization {
            request = authorization.sign(request);
        }
        self.send_once(request, url)
    }

    /// Posts a form; does not follow redirects.
    pub(super) fn post(&self, url: &Url, form: &[(&str, &str)]) -> Result<FinalResponse, AttemptFailure> {
        let request = self.client(url)?.post(url.clone()).form(form);
        self.send_once(request, url)
    }

    fn await_turn(&self, url: &Url) {
        await_turn(&address_guard::url_authority(url), self.patience.requests_per_second);
    }

    fn send_once(&self, request: RequestBuilder, url: &Url) -> Result<FinalResponse, AttemptFailure> {
        self.await_turn(url);
        match request.send() {
            Ok(response) => Ok(FinalResponse {
                response,
                url: url.clone(),
                same_origin: true,
                slowest: self.patience.slowest,
            }),
            Err(error) => Err(connection_failure(&address_guard::url_authority(url), &error)),
        }
    }

    /// The target of a redirect; `None` for other answers.
    fn redirect(&self, at: &Url, response: &Response) -> Result<Option<Url>, AttemptFailure> {
        // Only these five codes of the 300s have a target (RFC 9110, section 15.4).
        if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
            return Ok(None);
        }
        let host = address_guard::url_authority(at);
        let location = response
            .headers()
            .get(LOCATION)
            .ok_or_else(|| remote_error(format!("{host} redirects without saying where")))?;
        let next = location
            .to_str()
            .ok()
            .and_then(|location| at.join(location).ok())
            .and_then(without_user)
            .ok_or_else(|| {
                // The query may be a signature, which is a secret while it is valid.
                let path = location.as_bytes().split(|&byte| byte == b'?').next();
                remote_error(format!(
                    "{host} redirects to \"{}\", which is not a valid address",
                    shorten_text(path.unwrap_or_default())
                ))
            })?;
        self.check(at, &next)
            .map_err(|why| remote_error(format!("refused to follow a redirect of {host}: {why}")))?;
        Ok(Some(next))
    }

    fn client(&self, url: &Url) -> Result<Client, ImageError> {
        let host = url.host_str().unwrap_or_default();
        let kind = ClientKind {
            insecure: address_guard::is_listed(host, url.port_or_known_default(), &self.insecure),
            loopback: address_guard::is_loopback(host),
        };
        // One client per kind and not per request: a client reuses its connections, which saves a TLS handshake per
        // blob.
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(&kind) {
            return Ok(client.clone());
        }
        let client = self.build(kind)?;
        clients.insert(kind, client.clone());
        Ok(client)
    }

    fn build(&self, kind: ClientKind) -> Result<Client, ImageError> {
        let mut builder = client_builder()
            .user_agent(&self.user_agent)
            .dns_resolver(Arc::new(self.names.clone()))
            .connect_timeout(self.patience.connect)
            // In the blocking client this is not a total limit: it covers the wait for the answer, and then each read
            // of the body.
            .timeout(self.patience.stall);
        // Through a proxy, `localhost` would be the proxy's machine.
        if kind.loopback {
            builder = builder.no_proxy();
        }
        // Like Docker's `insecure-registries`: TLS is tried first, with any certificate.
        if kind.insecure {
            builder = builder.tls_danger_accept_invalid_certs(true);
        } else if let Some(file) = &self.ca_cert {
            // In addition to the system's: the registry may redirect to public storage.
            builder = builder.tls_certs_merge(certificates(file)?);
        }
        builder
            .build()
            .map_err(|error| match connection_failure("any registry", &error) {
                AttemptFailure::Final(error) | AttemptFailure::Passing { error, .. } => error,
            })
    }
}

/// Why there was no final answer.
pub(super) enum SendError {
    /// The first address did not answer; the caller decides about another scheme.
    NoAnswer(reqwest::Error),
    /// A failure that another scheme would not solve.
    Failed(AttemptFailure),
}

impl<T: Into<AttemptFailure>> From<T> for SendError {
    fn from(failure: T) -> Self {
        Self::Failed(failure.into())
    }
}

/// An error status that does not concern the image; limits and server errors may be temporary.
pub(super) fn status_failure(host: &str, answer: FinalResponse) -> AttemptFailure {
    let wait = asked_wait(&answer.response);
    let status = answer.response.status();
    let said = read_error_body(answer.body(None));
    match status.as_u16() {
        429 => {
            // Docker Hub counts anonymous pulls per address, which a whole office or CI provider shares.
            let when = wait.map_or_else(String::new, |wait| {
                format!("; it asks to wait {} seconds", wait.as_secs())
            });
            let error = remote_error(format!(
                "rate limited by {host}{said}{when}; try again later, or docker login for a higher limit"
            ));
            AttemptFailure::Passing { error, wait }
        }
        // Excludes 501 and 505: a server that lacks a feature does not gain it during a retry.
        408 | 500 | 502..=504 => AttemptFailure::Passing {
            error: remote_error(format!(
                "{host} has a problem: it answered {status}{said}; try again later"
            )),
            wait,
        },
        _ => remote_error(format!(
            "{host} answered {status}{said} where a part of an image was expected"
        ))
        .into(),
    }
}

/// The wait that an answer requests.
fn asked_wait(response: &Response) -> Option<Duration> {
    let value = response.headers().get(RETRY_AFTER)?.to_str().ok()?;
    retry_after(value, SystemTime::now())
}

/// A client builder with TLS by ring that returns redirects as responses.
pub fn client_builder() -> ClientBuilder {
    // The provider is process-wide, and reqwest panics without one. Ignore the error if the program has installed
    // another.
    let _ = rustls::crypto::ring::default_provider().install_default();
    // A redirect may lead to another host, which must not get credentials, or to a forbidden one.
    // [`RegistryTransport`] checks each step.
    ClientBuilder::new().redirect(redirect::Policy::none())
}

/// Reads the PEM file of `--ca-cert`.
fn certificates(file: &std::path::Path) -> Result<Vec<Certificate>, ImageError> {
    let unusable = |reason: String| remote_error(format!("CA file {}: {reason}", file.display()));
    let pem = read_small_file(file).map_err(|error| unusable(error.to_string()))?;
    match Certificate::from_pem_bundle(&pem) {
        // A file without PEM blocks parses as an empty list, and --ca-cert would silently do nothing.
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        _ => Err(unusable("it holds no certificate in PEM form".to_owned())),
    }
}

fn same_origin(a: &Url, b: &Url) -> bool {
    // The scheme matters: over plain HTTP anyone in between could read the token.
    a.scheme() == b.scheme() && a.host_str() == b.host_str() && a.port_or_known_default() == b.port_or_known_default()
}

/// Removes user name and password from a URL, so that they are not sent.
pub(super) fn without_user(mut url: Url) -> Option<Url> {
    url.set_username("").ok()?;
    url.set_password(None).ok()?;
    Some(url)
}
