//! Answers a challenge with a password, or with a token from the token server.

use std::io::Read as _;

use reqwest::Url;
use reqwest::header::HeaderMap;
use serde::Deserialize;

use super::address_guard::{is_listed, url_authority};
use super::challenge::{self, Challenge};
use super::credentials::{Credential, CredentialSecret};
use super::request_errors::{connection_failure, credentials_refused, remote_error, shorten_text};
use super::retry::AttemptFailure;
use super::steady_body::{broken_body, broken_document};
use super::transport::{Authorization, FinalResponse, HttpTransport, SendError, status_failure, without_user};

/// How many bytes of a token server's answer are read.
const TOKEN_BODY: u64 = 1 << 20;

/// Our client id for the token server.
const CLIENT_ID: &str = "cupti-audit";

/// The answer of a token server: `access_token` in OAuth 2.0, `token` in Docker's first version.
#[derive(Deserialize)]
struct TokenBody {
    token: Option<String>,
    access_token: Option<String>,
}

/// The authorization of requests, and where its credentials were found.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct RequestAuthorization {
    pub(super) authorization: Authorization,
    /// The file, and the helper that it names; `None` for an anonymous token.
    pub(super) found_in: Option<String>,
}

/// A request for a token: the registry, the scopes and the user's credentials.
pub(super) struct TokenRequest<'a> {
    pub(super) registry: &'a str,
    /// The scopes of the token, each `repository:NAME:ACTION`.
    pub(super) scopes: &'a [String],
    pub(super) transport: &'a HttpTransport,
    /// The hosts that are allowed as token servers besides the registry itself; empty allows any.
    pub(super) servers: &'a [String],
    pub(super) credential: Option<Credential>,
}

impl TokenRequest<'_> {
    /// Gets the authorization that a 401 asks for, with the user's credentials if there are any.
    pub(super) fn answer_challenge(self, refusal: &FinalResponse) -> Result<RequestAuthorization, AttemptFailure> {
        let registry = self.registry;
        let authorization = match challenge::choose_challenge(refusal.response.headers()) {
            // A `registrytoken` is sent unchanged (containers-auth.json(5)); it cannot be exchanged.
            _ if let Some(CredentialSecret::Registry(token)) = self.secret() => self.bearer(token)?,
            Challenge::Bearer { realm, service } => {
                let realm = self.token_server(refusal, &realm)?;
                self.token(realm, service.as_deref())?
            }
            Challenge::Basic => match self.secret() {
                Some(CredentialSecret::Password(user, password)) => {
                    Authorization::Basic(user.clone(), password.clone())
                }
                Some(_) => {
                    return Err(remote_error(format!(
                        "{registry} asks for a password, and only a token was found; docker login {registry} with one"
                    ))
                    .into());
                }
                None => return Err(credentials_refused(registry, None).into()),
            },
            Challenge::Unknown(schemes) => {
                let schemes: Vec<String> = schemes.iter().map(|scheme| shorten_text(scheme.as_bytes())).collect();
                return Err(remote_error(format!(
                    "{registry} asks for an authentication that is not supported: {}; only Bearer and Basic are",
                    if schemes.is_empty() {
                        "no scheme is named".to_owned()
                    } else {
                        schemes.join(", ")
                    }
                ))
                .into());
            }
        };
        Ok(RequestAuthorization {
            authorization,
            found_in: self.credential.map(|credential| credential.found_in),
        })
    }

    fn secret(&self) -> Option<&CredentialSecret> {
        self.credential.as_ref().map(|credential| &credential.secret)
    }

    /// The address of the token server, after the checks.
    fn token_server(&self, refusal: &FinalResponse, realm: &str) -> Result<Url, AttemptFailure> {
        // A user name in the realm would become an authorization that the user never gave.
        let url = Url::parse(realm).ok().and_then(without_user).ok_or_else(|| {
            remote_error(format!(
                "{} names a token server with an invalid address: \"{}\"",
                self.registry,
                shorten_text(realm.as_bytes())
            ))
        })?;
        // The password goes to this address, and a hostile registry could name a cloud's metadata service.
        self.transport.check(&refusal.url, &url).map_err(|why| {
            remote_error(format!(
                "refused to ask the token server that {} names: {why}",
                self.registry
            ))
        })?;
        let host = url.host_str().unwrap_or_default();
        let is_own = url.origin() == refusal.url.origin();
        if !is_own && !self.servers.is_empty() && !is_listed(host, url.port_or_known_default(), self.servers) {
            return Err(remote_error(format!(
                "refused to ask the token server that {} names: {} is none of those that --token-server allows",
                self.registry,
                url_authority(&url)
            ))
            .into());
        }
        Ok(url)
    }

    /// Requests a token: with a password or anonymously (distribution, "Token Authentication"), or in exchange for an
    /// identity token (distribution, "Oauth2 Token Authentication").
    fn token(&self, mut realm: Url, service: Option<&str>) -> Result<Authorization, AttemptFailure> {
        let scope = self.scopes.join(" ");
        let answer = if let Some(CredentialSecret::Identity(identity)) = self.secret() {
            // The identity token goes into the body: proxies would log it in a query.
            let mut form = vec![
                ("grant_type", "refresh_token"),
                ("client_id", CLIENT_ID),
                ("scope", &scope),
                ("refresh_token", identity),
            ];
            form.extend(service.map(|service| ("service", service)));
            self.transport.post(&realm, &form)?
        } else {
            // Also requested without credentials: on Docker Hub even public images need a token.
            let basic = match self.secret() {
                Some(CredentialSecret::Password(user, password)) => {
                    realm.query_pairs_mut().append_pair("account", user);
                    Some(Authorization::Basic(user.clone(), password.clone()))
                }
                _ => None,
            };
            // Here each scope is its own parameter; OAuth 2.0 joins them with spaces.
            realm
                .query_pairs_mut()
                .extend_pairs(service.map(|service| ("service", service)))
                .append_pair("client_id", CLIENT_ID)
                .extend_pairs(self.scopes.iter().map(|scope| ("scope", scope)));
            self.transport
                .get(&realm, &HeaderMap::new(), basic.as_ref())
                .map_err(|sent| match sent {
                    SendError::NoAnswer(error) => connection_failure(&url_authority(&realm), &error),
                    SendError::Failed(failure) => failure,
                })?
        };
        self.bearer(&self.accepted(answer)?)
    }

    /// The token in an answer of the token server.
    fn accepted(&self, answer: FinalResponse) -> Result<String, AttemptFailure> {
        let (host, registry) = (answer.host(), self.registry);
        let found_in = self.credential.as_ref().map(|found| found.found_in.as_str());
        match answer.response.status().as_u16() {
            200 => {}
            401 | 403 => return Err(credentials_refused(registry, found_in).into()),
            // The OAuth 2.0 answer for an invalid token (RFC 6749, section 5.2).
            400 if found_in.is_some() => return Err(credentials_refused(registry, found_in).into()),
            // Older token servers only support GET and cannot exchange an identity token.
            404 | 405 if matches!(self.secret(), Some(CredentialSecret::Identity(_))) => {
                return Err(remote_error(format!(
                    "the token server {host} does not take the identity token found for {registry}; docker login {registry} again"
                ))
                .into());
            }
            _ => return Err(status_failure(&format!("the token server {host}"), answer)),
        }
        // Bounds an endless body; a longer answer is cut and then fails to parse.
        let mut body = Vec::new();
        answer
            .body(None)
            .take(TOKEN_BODY)
            .read_to_end(&mut body)
            .map_err(|error| {
                let why = broken_body(&error);
                broken_document(
                    &error,
                    remote_error(format!("the token server {host} broke off: {why}")),
                )
            })?;
        // Some servers send both fields and leave one empty.
        serde_json::from_slice::<TokenBody>(&body)
            .ok()
            .and_then(|body| body.token.filter(|token| !token.is_empty()).or(body.access_token))
            .ok_or_else(|| remote_error(format!("the token server {host} of {registry} gave no token")).into())
    }

    /// Turns a token into an authorization, if it is valid in a header.
    fn bearer(&self, token: &str) -> Result<Authorization, AttemptFailure> {
        // A line break in the token could inject headers, and reqwest's own error does not say why it fails.
        if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(remote_error(format!("the token for {} cannot be sent in a header", self.registry)).into());
        }
        Ok(Authorization::Bearer(token.to_owned()))
    }
}
