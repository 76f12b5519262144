//! The client for one repository of one registry: its address, authorization and retried requests.

use std::sync::{Arc, PoisonError};

use reqwest::Url;
use reqwest::blocking::Body;
use reqwest::header::{HeaderMap, HeaderValue, RANGE};
use reqwest::{Method, StatusCode};

use super::credential_files::{CredentialSource, find_credential};
use super::request_errors::{connection_failure, credentials_refused, is_no_tls, read_error_body, remote_error};
use super::retry::{AttemptFailure, RetryPolicy};
use super::session::RegistrySession;
use super::token_exchange::{RequestAuthorization, TokenRequest};
use super::transport::{Authorization, FinalResponse, RegistryOptions, SendError, status_failure};
use crate::image_error::ImageError;

/// Requests the parts of one repository from its registry.
pub(super) struct RepositoryClient {
    /// The registry as in references, such as `docker.io`.
    pub(super) registry: String,
    /// The repository, such as `library/ubuntu`.
    pub(super) repository: String,
    /// The image as the user wrote it.
    pub(super) written: String,
    /// The scopes to request in a token, each `repository:NAME:ACTION`.
    pub(super) scopes: Vec<String>,
    /// The limits on retries and waits.
    pub(super) patience: RetryPolicy,
    pub(super) session: Arc<RegistrySession>,
    source: CredentialSource,
    token_servers: Vec<String>,
}

impl RepositoryClient {
    /// A client for `repository` of `registry`.
    ///
    /// Errors: [`ImageError::Reference`] if the registry is not a valid host.
    pub(super) fn new(
        registry: &str,
        repository: &str,
        written: &str,
        options: &RegistryOptions,
    ) -> Result<Self, ImageError> {
        // Docker Hub's registry has another host name than its references.
        let address = match registry {
            "docker.io" | "index.docker.io" => "registry-1.docker.io",
            other => other,
        };
        // The host as `Url` normalizes it, so that the guard can compare it with addresses in answers.
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
            session: RegistrySession::shared(address, host, options),
            source: options.credentials.clone(),
            token_servers: options.token_servers.clone(),
        })
    }

    /// Tries once to get `part` of the repository, such as `blobs/sha256:…`, from byte `from` on. Returns only a
    /// success, with an unread body.
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
        // The first request has no credentials: only the challenge says which token to get, and where.
        let used = self.current_authorization();
        let answer = self.ask(part, &headers, used.as_ref())?;
        if answer.response.status() != StatusCode::UNAUTHORIZED || !answer.same_origin {
            return self.judge(answer, used.as_ref());
        }
        // Only once: a registry that refuses a token from its own server would refuse the next one too.
        let fresh = self.authorize(&answer, used.as_ref())?;
        self.judge(self.ask(part, &headers, Some(&fresh))?, Some(&fresh))
    }

    /// Tries once to change something; `url` comes from the registry or is its own. `body` is called again if a
    /// challenge needs a second request.
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
            // An upload may go to another host, which gets no credentials.
            let pass = pass.filter(|_| is_own).map(|pass| &pass.authorization);
            self.session.transport.send(method, url, headers, pass, body()?)
        };
        let used = self.current_authorization();
        let answer = send(used.as_ref())?;
        if answer.response.status() != StatusCode::UNAUTHORIZED || !is_own {
            return Ok(answer);
        }
        let fresh = self.authorize(&answer, used.as_ref())?;
        send(Some(&fresh))
    }

    /// A URL in the repository, with the scheme that the registry uses.
    pub(super) fn own_url(&self, part: &str) -> Result<Url, ImageError> {
        let plain = self.session.plain.get() == Some(&true);
        self.url(if plain { "http" } else { "https" }, part)
    }

    /// The authorization that answered the last challenge.
    fn current_authorization(&self) -> Option<RequestAuthorization> {
        let authorization = self.session.authorization(&self.scopes);
        let held = authorization.lock().unwrap_or_else(PoisonError::into_inner);
        held.clone()
    }

    /// Gets a new authorization in place of `used`, which was refused. Threads that were refused at the same time share
    /// one.
    fn authorize(
        &self,
        answer: &FinalResponse,
        used: Option<&RequestAuthorization>,
    ) -> Result<RequestAuthorization, AttemptFailure> {
        // The lock is held during the request, so two workers with an expired token fetch one new token.
        let authorization = self.session.authorization(&self.scopes);
        let mut held = authorization.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(newer) = held.as_ref().filter(|held| Some(*held) != used) {
            return Ok(newer.clone());
        }
        let asking = TokenRequest {
            registry: &self.registry,
            scopes: &self.scopes,
            transport: &self.session.transport,
            servers: &self.token_servers,
            credential: find_credential(&self.source, &self.registry, &self.repository)?,
        };
        let fresh = asking.answer_challenge(answer)?;
        *held = Some(fresh.clone());
        Ok(fresh)
    }

    /// Contacts the registry by TLS, or by plain HTTP if that is allowed and the host does not use TLS.
    fn ask(
        &self,
        part: &str,
        headers: &HeaderMap,
        pass: Option<&RequestAuthorization>,
    ) -> Result<FinalResponse, AttemptFailure> {
        let authorization = pass.map(|pass| &pass.authorization);
        let https = self.url("https", part)?;
        let may_be_plain = self.session.transport.allows_plain(&https);
        if self.session.plain.get() != Some(&true) {
            match self.session.transport.get(&https, headers, authorization) {
                Ok(answer) => {
                    // After one TLS answer a broken handshake is an error, so nobody in between can force plain HTTP.
                    self.session.plain.get_or_init(|| false);
                    return Ok(answer);
                }
                // Another thread may have found out meanwhile that the registry uses plain HTTP.
                Err(SendError::NoAnswer(error))
                    if may_be_plain && self.session.plain.get() != Some(&false) && is_no_tls(&error) => {}
                Err(sent) => return Err(self.failed(sent)),
            }
        }
        match self
            .session
            .transport
            .get(&self.url("http", part)?, headers, authorization)
        {
            Ok(answer) => {
                self.session.plain.get_or_init(|| true);
                Ok(answer)
            }
            Err(sent) => Err(self.failed(sent)),
        }
    }

    fn failed(&self, sent: SendError) -> AttemptFailure {
        match sent {
            SendError::Failed(failure) => failure,
            SendError::NoAnswer(error) => match connection_failure(&self.registry, &error) {
                // A host that never answered is not retried after a timeout.
                AttemptFailure::Passing { error: text, .. }
                    if error.is_timeout() && self.session.plain.get().is_none() =>
                {
                    text.into()
                }
                failure => failure,
            },
        }
    }

    fn url(&self, scheme: &str, part: &str) -> Result<Url, ImageError> {
        // The catalog takes a repository's place in the path, followed only by a query.
        let slash = if part.starts_with('?') { "" } else { "/" };
        let text = format!(
            "{scheme}://{}/v2/{}{slash}{part}",
            self.session.address, self.repository
        );
        Url::parse(&text).map_err(|error| ImageError::reference(&self.written, error.to_string()))
    }

    /// Turns every answer but a success into an error. `pass` is the authorization of the request.
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
            // A server may ignore the range and answer 200 (RFC 9110, section 14.2); the blob reader handles both.
            200 | 206 => Ok(answer),
            // A 403 from the storage behind a redirect does not concern the user's credentials, so `docker login` would
            // not help.
            401 | 403 if answer.same_origin => Err(self.denied(answer, pass).into()),
            404 => Err(ImageError::NotFound(format!(
                "no such image or tag: {} is not in {host}{}",
                self.written,
                read_error_body(answer.body(None))
            ))
            .into()),
            // Only a resumed blob requests a range, and it starts within the size in the manifest.
            416 => Err(remote_error(format!(
                "{host} holds fewer bytes of a blob than the manifest of {} says",
                self.written
            ))
            .into()),
            _ => Err(status_failure(&host, answer)),
        }
    }

    /// The error for a refused password, or for an identified user without access.
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
        // Docker Hub also denies access to repositories that do not exist, to hide private names. The text names both
        // causes.
        remote_error(match pass.and_then(|pass| pass.found_in.as_ref()) {
            Some(found_in) => format!(
                "{registry} denied access to {repository}{said}: it does not exist, or the credentials found in {found_in} may not pull it"
            ),
            None => format!(
                "{registry} denied access to {repository}{said}: it does not exist, or it is private and the request had no credentials; docker login {registry}"
            ),
        })
    }
}
