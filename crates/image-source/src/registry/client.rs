//! One repository of one registry: its address, the authorization for it, and requests that are repeated.

use std::sync::{Mutex, OnceLock, PoisonError};

use reqwest::Url;
use reqwest::blocking::Body;
use reqwest::header::{HeaderMap, HeaderValue, RANGE};
use reqwest::{Method, StatusCode};

use super::credential_files::{CredentialSource, find_credential};
use super::options::RegistryOptions;
use super::request_errors::{connection_failure, credentials_refused, is_no_tls, read_error_body, remote_error};
use super::retry::{AttemptFailure, RetryPolicy};
use super::token_exchange::{RequestAuthorization, TokenRequest};
use super::transport::{Authorization, FinalResponse, HttpTransport, SendError, status_failure};
use crate::image_error::ImageError;

/// Asks one registry for the parts of one repository.
pub(super) struct RepositoryClient {
    /// The registry as references name it, such as `docker.io`.
    pub(super) registry: String,
    /// The repository, such as `library/ubuntu`.
    pub(super) repository: String,
    /// The image as the user wrote it.
    pub(super) written: String,
    /// What a token is asked for: `repository:NAME:ACTION`, each.
    pub(super) scopes: Vec<String>,
    /// How long and how often to try.
    pub(super) patience: RetryPolicy,
    pub(super) transport: HttpTransport,
    source: CredentialSource,
    token_servers: Vec<String>,
    /// The host that is asked, with port, and whether it turned out to speak plain HTTP.
    address: String,
    plain: OnceLock<bool>,
    pass: Mutex<Option<RequestAuthorization>>,
}

impl RepositoryClient {
    /// A client for `repository` of `registry`.
    ///
    /// Errors: [`ImageError::Reference`] when the registry is no host.
    pub(super) fn new(
        registry: &str,
        repository: &str,
        written: &str,
        options: &RegistryOptions,
    ) -> Result<Self, ImageError> {
        // Docker Hub's registry does not stand under the name that references use.
        let address = match registry {
            "docker.io" | "index.docker.io" => "registry-1.docker.io",
            other => other,
        };
        // The host in the form that addresses in answers are parsed into, so that the guard can compare the two.
        let url = Url::parse(&format!("https://{address}/")).ok();
        let host = url
            .as_ref()
            .and_then(Url::host_str)
            .ok_or_else(|| ImageError::reference(written, format!("{registry:?} is not a host")))?;
        Ok(Self {
            registry: registry.to_owned(),
            repository: repository.to_owned(),
            written: written.to_owned(),
            scopes: vec![format!("repository:{repository}:pull")],
            patience: options.patience.clone(),
            transport: HttpTransport::new(host.to_owned(), options),
            source: options.credentials.clone(),
            token_servers: options.token_servers.clone(),
            address: address.to_owned(),
            plain: OnceLock::new(),
            pass: Mutex::default(),
        })
    }

    /// Makes one attempt to get `part` of the repository, such as `blobs/sha256:…`, from byte `from` on.
    /// Only a success is returned, and the body is still to be read.
    pub(super) fn attempt(
        &self,
        part: &str,
        mut headers: HeaderMap,
        from: u64,
    ) -> Result<FinalResponse, AttemptFailure> {
        if from > 0 {
            let range =
                HeaderValue::from_str(&format!("bytes={from}-")).map_err(|error| remote_error(error.to_string()))?;
            headers.insert(RANGE, range);
        }
        // The first request goes out unsigned: only the challenge says which token is wanted, and from where.
        let used = self.current_authorization();
        let answer = self.ask(part, &headers, used.as_ref())?;
        if answer.response.status() != StatusCode::UNAUTHORIZED || !answer.same_origin {
            return self.judge(answer, used.as_ref());
        }
        // Once: a registry that refuses a token it has just named the server of would refuse the next one, too.
        let fresh = self.authorize(&answer, used.as_ref())?;
        let answer = self.ask(part, &headers, Some(&fresh))?;
        self.judge(answer, Some(&fresh))
    }

    /// Makes one attempt to change something; `url` is an address that the registry named, or one of its own. The
    /// body is had anew for the second request of a challenge.
    pub(super) fn send_change(
        &self,
        method: &Method,
        url: &Url,
        headers: &HeaderMap,
        body: &dyn Fn() -> Result<Body, ImageError>,
    ) -> Result<FinalResponse, AttemptFailure> {
        let own = self.own_url("")?;
        let is_own = own.origin() == url.origin();
        let send = |pass: Option<&RequestAuthorization>| {
            // An upload may be sent to another host, which gets no credentials.
            let pass = pass.filter(|_| is_own).map(|pass| &pass.authorization);
            self.transport.send(method, url, headers, pass, body()?)
        };
        let used = self.current_authorization();
        let answer = send(used.as_ref())?;
        if answer.response.status() != StatusCode::UNAUTHORIZED || !is_own {
            return Ok(answer);
        }
        let fresh = self.authorize(&answer, used.as_ref())?;
        send(Some(&fresh))
    }

    /// An address of the repository, by the scheme that the registry turned out to speak.
    pub(super) fn own_url(&self, part: &str) -> Result<Url, ImageError> {
        let plain = self.plain.get() == Some(&true);
        self.url(if plain { "http" } else { "https" }, part)
    }

    /// The pass that the last challenge was answered with.
    fn current_authorization(&self) -> Option<RequestAuthorization> {
        let held = self.pass.lock().unwrap_or_else(PoisonError::into_inner);
        held.clone()
    }

    /// Gets a pass in place of `used`, which was not enough. Threads that find `used` spent at the same time
    /// share the first new one.
    fn authorize(
        &self,
        answer: &FinalResponse,
        used: Option<&RequestAuthorization>,
    ) -> Result<RequestAuthorization, AttemptFailure> {
        // The lock is held while the token is fetched: two workers whose token runs out together then ask
        // for one new token.
        let mut held = self.pass.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(newer) = held.as_ref().filter(|held| Some(*held) != used) {
            return Ok(newer.clone());
        }
        let asking = TokenRequest {
            registry: &self.registry,
            scopes: &self.scopes,
            transport: &self.transport,
            servers: &self.token_servers,
            credential: find_credential(&self.source, &self.registry, &self.repository)?,
        };
        let fresh = asking.answer_challenge(answer)?;
        *held = Some(fresh.clone());
        Ok(fresh)
    }

    /// Asks the registry itself: by TLS, or by plain HTTP where that is allowed and TLS is not spoken.
    fn ask(
        &self,
        part: &str,
        headers: &HeaderMap,
        pass: Option<&RequestAuthorization>,
    ) -> Result<FinalResponse, AttemptFailure> {
        let authorization = pass.map(|pass| &pass.authorization);
        let https = self.url("https", part)?;
        let may_be_plain = self.transport.allows_plain(&https);
        if self.plain.get() != Some(&true) {
            match self.transport.get(&https, headers, authorization) {
                Ok(answer) => {
                    // TLS was spoken once: from here on a broken handshake is a failure, and nobody on the way
                    // can force plain HTTP.
                    self.plain.get_or_init(|| false);
                    return Ok(answer);
                }
                Err(SendError::NoAnswer(error)) if may_be_plain && self.plain.get().is_none() && is_no_tls(&error) => {}
                Err(sent) => return Err(self.failed(sent)),
            }
        }
        match self.transport.get(&self.url("http", part)?, headers, authorization) {
            Ok(answer) => {
                self.plain.get_or_init(|| true);
                Ok(answer)
            }
            Err(sent) => Err(self.failed(sent)),
        }
    }

    fn failed(&self, sent: SendError) -> AttemptFailure {
        match sent {
            SendError::Failed(failure) => failure,
            SendError::NoAnswer(error) => match connection_failure(&self.registry, &error) {
                // A host that has never answered is not waited for again and again.
                AttemptFailure::Passing { error: text, .. } if error.is_timeout() && self.plain.get().is_none() => {
                    text.into()
                }
                failure => failure,
            },
        }
    }

    fn url(&self, scheme: &str, part: &str) -> Result<Url, ImageError> {
        // The list of all repositories stands where else a repository does, with a query alone behind it.
        let slash = if part.starts_with('?') { "" } else { "/" };
        let text = format!("{scheme}://{}/v2/{}{slash}{part}", self.address, self.repository);
        Url::parse(&text).map_err(|error| ImageError::reference(&self.written, error.to_string()))
    }

    /// Turns every answer but a success into an error; `pass` is what the request was signed with.
    fn judge(
        &self,
        answer: FinalResponse,
        pass: Option<&RequestAuthorization>,
    ) -> Result<FinalResponse, AttemptFailure> {
        let host = if answer.same_origin {
            self.registry.clone()
        } else {
            answer.host()
        };
        match answer.response.status().as_u16() {
            // A server may ignore the range and answer 200 (RFC 9110, section 14.2); the reader of the blob
            // tells the two apart.
            200 | 206 => Ok(answer),
            // A 403 of the storage behind a redirect says nothing of the user's credentials: `docker
            // login` would not help.
            401 | 403 if answer.same_origin => Err(self.denied(answer, pass).into()),
            404 => Err(ImageError::NotFound(format!(
                "no such image or tag: {} is not in {host}{}",
                self.written,
                read_error_body(answer.body(None))
            ))
            .into()),
            // Only a resumed blob asks for a range, which begins within the size that the manifest states.
            416 => Err(remote_error(format!(
                "{host} holds fewer bytes of a blob than the manifest of {} says",
                self.written
            ))
            .into()),
            _ => Err(status_failure(&host, answer)),
        }
    }

    /// The registry does not take the password, or knows who asks and will not give.
    fn denied(&self, answer: FinalResponse, pass: Option<&RequestAuthorization>) -> ImageError {
        let (registry, repository) = (&self.registry, &self.repository);
        let status = answer.response.status();
        if let Some(RequestAuthorization {
            authorization: Authorization::Basic(..),
            found_in,
        }) = pass
            && status == StatusCode::UNAUTHORIZED
        {
            return credentials_refused(&self.registry, found_in.as_deref());
        }
        let said = read_error_body(answer.body(None));
        // Docker Hub denies access to what does not exist, too, so as not to tell which private names there are:
        // both causes are named.
        remote_error(match pass.and_then(|pass| pass.found_in.as_ref()) {
            Some(found_in) => format!(
                "{registry} denied access to {repository}{said}: it does not exist, or the credentials found in {found_in} may not pull it"
            ),
            None => format!(
                "{registry} denied access to {repository}{said}: it does not exist, or it is private and was asked for without credentials; docker login {registry}"
            ),
        })
    }
}
