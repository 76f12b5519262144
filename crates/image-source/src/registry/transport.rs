//! One request over HTTP: which client makes it, and where its redirects may lead.

#![expect(
    clippy::disallowed_methods,
    reason = "reads the file of --ca-cert and, for Retry-After, the clock"
)]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use reqwest::blocking::{Body, Client, RequestBuilder, Response};
use reqwest::header::{HeaderMap, LOCATION, RETRY_AFTER};
use reqwest::{Certificate, Method, Url};

use super::address_guard;
use super::checked_names::{CheckedNames, resolve_host};
use super::options::RegistryOptions;
use super::pace;
use super::request_errors::{connection_failure, read_error_body, remote_error, shorten_text};
use super::retry::{AttemptFailure, RetryPolicy, retry_after};
use super::steady_body::SteadyBody;
use crate::http_client::client_builder;
use crate::image_error::ImageError;
use crate::small_file::read_small_file;

/// Redirects that are followed for one request.
const REDIRECTS: usize = 10;

/// The time in which a layer has to be sent.
const UPLOAD: Duration = Duration::from_hours(6);

/// What proves who asks. It never prints itself.
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

/// The final answer to a request, redirects followed.
pub(super) struct FinalResponse {
    /// Status, headers and a body that is still to be read.
    pub(super) response: Response,
    /// Where it came from.
    pub(super) url: Url,
    /// Whether it came from the origin that was asked first.
    pub(super) same_origin: bool,
    /// The time in which a part of the body has to arrive.
    slowest: Duration,
}

impl FinalResponse {
    /// Host and port of the answer, for errors.
    pub(super) fn host(&self) -> String {
        address_guard::url_authority(&self.url)
    }

    /// The body, which has to come at the lowest rate, and before the deadline where there is one.
    pub(super) fn body(self, deadline: Option<Instant>) -> SteadyBody {
        SteadyBody::new(self.response, self.slowest, deadline)
    }
}

/// The HTTP clients: their trust differs by host, and a proxy is never asked for this machine.
pub(super) struct HttpTransport {
    registry: String,
    insecure: Vec<String>,
    ca_cert: Option<PathBuf>,
    patience: RetryPolicy,
    user_agent: String,
    names: CheckedNames,
    clients: Mutex<BTreeMap<ClientKind, Client>>,
}

/// What makes clients differ.
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

    /// Checks an address that an answer from `from` names; its host is connected to where it was checked alone.
    ///
    /// Errors: Why it is not asked.
    pub(super) fn check(&self, from: &Url, to: &Url) -> Result<(), String> {
        // Where the name has no address, a proxy may know one, or connecting to it says that there is none.
        let resolve = |host: &str| resolve_host(host).unwrap_or_default();
        let checked = address_guard::check_address(&self.registry, from, to, &self.insecure, resolve)?;
        self.names.keep(to.host_str().unwrap_or_default(), checked);
        Ok(())
    }

    /// Makes a GET request and follows its redirects. The authorization goes to the origin of `url` only:
    /// the first step to another scheme, host or port drops it for good.
    ///
    /// Errors: [`SendError::NoAnswer`] when no answer came from `url` itself, else why the redirects could not be followed.
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
                // Only the address that was asked first may be tried again by plain HTTP; the caller decides.
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
            // Storage behind a redirect is asked by a signature in the query, and must not learn the registry's token.
            // S3 even refuses a request that carries both.
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

    /// Sends a request that changes something; a redirect is an answer like any other.
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
        // Here the limit is one on the whole, and a layer of gigabytes takes its time.
        request = request.headers(headers.clone()).timeout(UPLOAD).body(body);
        if let Some(authorization) = authorization {
            request = authorization.sign(request);
        }
        self.send_once(request, url)
    }

    /// Posts a form; a redirect is an answer like any other.
    pub(super) fn post(&self, url: &Url, form: &[(&str, &str)]) -> Result<FinalResponse, AttemptFailure> {
        let request = self.client(url)?.post(url.clone()).form(form);
        self.send_once(request, url)
    }

    fn await_turn(&self, url: &Url) {
        pace::await_turn(&address_guard::url_authority(url), self.patience.requests_per_second);
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

    /// Where an answer redirects to; `None` when it does not.
    fn redirect(&self, at: &Url, response: &Response) -> Result<Option<Url>, AttemptFailure> {
        // Of the codes from 300 on, only these five name a place to go (RFC 9110, section 15.4).
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
                // The query may be a signature, which is a secret for as long as it holds.
                let path = location.as_bytes().split(|&byte| byte == b'?').next();
                remote_error(format!(
                    "{host} redirects to \"{}\", which is no address",
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
        // One client for each kind of trust, not for each request: a client keeps its connections, and a TLS handshake
        // for every blob is saved.
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
            // In the blocking client this is no limit on the whole: it bounds the wait for the answer, and
            // then each read of the body anew.
            .timeout(self.patience.stall);
        // Behind a proxy, `localhost` would be the proxy's machine.
        if kind.loopback {
            builder = builder.no_proxy();
        }
        // As Docker's `insecure-registries`: TLS is still tried first, and any certificate will do.
        if kind.insecure {
            builder = builder.tls_danger_accept_invalid_certs(true);
        } else if let Some(file) = &self.ca_cert {
            // Beside the system's, not in their place: the registry may redirect to a public storage.
            builder = builder.tls_certs_merge(certificates(file)?);
        }
        builder
            .build()
            .map_err(|error| match connection_failure("any registry", &error) {
                AttemptFailure::Final(error) | AttemptFailure::Passing { error, .. } => error,
            })
    }
}

/// Why no final answer came.
pub(super) enum SendError {
    /// The first address did not answer; whether to try another way is up to the caller.
    NoAnswer(reqwest::Error),
    /// A failure that another scheme would not cure.
    Failed(AttemptFailure),
}

impl<T: Into<AttemptFailure>> From<T> for SendError {
    fn from(failure: T) -> Self {
        Self::Failed(failure.into())
    }
}

/// An answer that is no success and says nothing of the image: limits and faults may pass.
pub(super) fn status_failure(host: &str, answer: FinalResponse) -> AttemptFailure {
    let wait = asked_wait(&answer.response);
    let status = answer.response.status();
    let said = read_error_body(answer.body(None));
    match status.as_u16() {
        429 => {
            // Docker Hub counts anonymous pulls by address, which a whole office or CI provider shares.
            let when = wait.map_or_else(String::new, |wait| {
                format!("; it asks to wait {} seconds", wait.as_secs())
            });
            let error = remote_error(format!(
                "rate limited by {host}{said}{when}; try again later, or docker login for a higher limit"
            ));
            AttemptFailure::Passing { error, wait }
        }
        // Not 501 and 505: what a server does not know how to do, it does not learn while somebody waits.
        408 | 500 | 502..=504 => AttemptFailure::Passing {
            error: remote_error(format!(
                "{host} is in trouble: it answered {status}{said}; try again later"
            )),
            wait,
        },
        _ => remote_error(format!(
            "{host} answered {status}{said} where a part of an image was expected"
        ))
        .into(),
    }
}

/// The wait that an answer asks for.
fn asked_wait(response: &Response) -> Option<Duration> {
    let value = response.headers().get(RETRY_AFTER)?.to_str().ok()?;
    retry_after(value, SystemTime::now())
}

/// Reads the PEM file of `--ca-cert`.
fn certificates(file: &std::path::Path) -> Result<Vec<Certificate>, ImageError> {
    let unusable = |reason: String| remote_error(format!("CA file {}: {reason}", file.display()));
    let pem = read_small_file(file).map_err(|error| unusable(error.to_string()))?;
    match Certificate::from_pem_bundle(&pem) {
        // A file without any PEM block parses as no certificates; taken as it is, --ca-cert would silently do nothing.
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        _ => Err(unusable("it holds no certificate in PEM form".to_owned())),
    }
}

fn same_origin(a: &Url, b: &Url) -> bool {
    // The scheme counts: over plain HTTP anybody on the way would read the token.
    a.scheme() == b.scheme() && a.host_str() == b.host_str() && a.port_or_known_default() == b.port_or_known_default()
}

/// An address without user name and password, which would be sent as an authorization.
pub(super) fn without_user(mut url: Url) -> Option<Url> {
    url.set_username("").ok()?;
    url.set_password(None).ok()?;
    Some(url)
}
