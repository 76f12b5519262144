//! Answering a challenge: a password for the registry, or a token from the server that it names.

use std::io::Read as _;

use reqwest::Url;
use reqwest::header::HeaderMap;
use serde::Deserialize;

use super::address_guard::url_authority;
use super::challenge::{self, Challenge};
use super::client::{RepositoryClient, RequestAuthorization, status_failure};
use super::credentials::{Credential, CredentialSecret};
use super::request_errors::{connection_failure, remote_error, shorten_text};
use super::retry::AttemptFailure;
use super::transport::{Authorization, FinalResponse, SendError, without_user};

/// The bytes of a token server's answer that are read.
const TOKEN_BODY: u64 = 1 << 20;

/// What the token server is told of who asks.
const CLIENT_ID: &str = "cupti-audit";

/// The answer of a token server; OAuth 2.0 says `access_token`, Docker said `token` first.
#[derive(Deserialize)]
struct TokenBody {
    token: Option<String>,
    access_token: Option<String>,
}

/// Makes the authorization that the challenge of a 401 asks for, with the user's credentials if there are any.
pub(super) fn answer_challenge(
    client: &RepositoryClient,
    refusal: &FinalResponse,
) -> Result<RequestAuthorization, AttemptFailure> {
    let credential = client.credential()?;
    let authorization = match challenge::choose_challenge(refusal.response.headers()) {
        _ if let Some(CredentialSecret::Registry(token)) = secret(credential.as_ref()) => {
            bearer(client, token)?
        }
        Challenge::Bearer { realm, service } => {
            let realm = token_server(client, refusal, &realm)?;
            token(client, realm, service.as_deref(), credential.as_ref())?
        }
        Challenge::Basic => match secret(credential.as_ref()) {
            Some(CredentialSecret::Password(user, password)) => {
                Authorization::Basic(user.clone(), password.clone())
            }
            Some(_) => {
                return Err(remote_error(format!(
                    "{} asks for a password, and only a token was found; docker login {0} with one",
                    client.registry
                ))
                .into());
            }
            None => return Err(client.refused(None).into()),
        },
        Challenge::Unknown(schemes) => {
            let schemes: Vec<String> = schemes
                .iter()
                .map(|scheme| shorten_text(scheme.as_bytes()))
                .collect();
            return Err(remote_error(format!(
                "{} asks for an authentication that is not supported: {}; only Bearer and Basic are",
                client.registry,
                if schemes.is_empty() { "no scheme is named".to_owned() } else { schemes.join(", ") }
            ))
            .into());
        }
    };
    Ok(RequestAuthorization {
        authorization,
        found_in: credential.map(|credential| credential.found_in),
    })
}

fn secret(credential: Option<&Credential>) -> Option<&CredentialSecret> {
    credential.map(|credential| &credential.secret)
}

/// The address of the token server, once it may be asked.
fn token_server(
    client: &RepositoryClient,
    refusal: &FinalResponse,
    realm: &str,
) -> Result<Url, AttemptFailure> {
    let url = Url::parse(realm)
        .ok()
        .and_then(without_user)
        .ok_or_else(|| {
            remote_error(format!(
                "{} names a token server that is no address: \"{}\"",
                client.registry,
                shorten_text(realm.as_bytes())
            ))
        })?;
    client.transport.check(&refusal.url, &url).map_err(|why| {
        remote_error(format!(
            "refused to ask the token server that {} names: {why}",
            client.registry
        ))
    })?;
    Ok(url)
}

/// Asks for a token for what the client does: with a password or anonymously (distribution, "Token Authentication"), or in
/// exchange for an identity token (distribution, "Oauth2 Token Authentication").
fn token(
    client: &RepositoryClient,
    mut realm: Url,
    service: Option<&str>,
    credential: Option<&Credential>,
) -> Result<Authorization, AttemptFailure> {
    let scope = client.scopes.join(" ");
    let answer = if let Some(CredentialSecret::Identity(identity)) = secret(credential) {
        let mut form = vec![
            ("grant_type", "refresh_token"),
            ("client_id", CLIENT_ID),
            ("scope", &scope),
            ("refresh_token", identity),
        ];
        form.extend(service.map(|service| ("service", service)));
        client.transport.post(&realm, &form)?
    } else {
        let basic = match secret(credential) {
            Some(CredentialSecret::Password(user, password)) => {
                realm.query_pairs_mut().append_pair("account", user);
                Some(Authorization::Basic(user.clone(), password.clone()))
            }
            _ => None,
        };
        realm
            .query_pairs_mut()
            .extend_pairs(service.map(|service| ("service", service)))
            .append_pair("client_id", CLIENT_ID)
            .extend_pairs(client.scopes.iter().map(|scope| ("scope", scope)));
        client
            .transport
            .get(&realm, &HeaderMap::new(), basic.as_ref())
            .map_err(|sent| match sent {
                SendError::NoAnswer(error) => connection_failure(&url_authority(&realm), &error),
                SendError::Failed(failure) => failure,
            })?
    };
    let body = accepted(client, answer, credential)?;
    bearer(client, &body)
}

/// The token in an answer of the token server.
fn accepted(
    client: &RepositoryClient,
    answer: FinalResponse,
    credential: Option<&Credential>,
) -> Result<String, AttemptFailure> {
    let host = answer.host();
    let found_in = credential.map(|credential| credential.found_in.as_str());
    match answer.response.status().as_u16() {
        200 => {}
        401 | 403 => return Err(client.refused(found_in).into()),
        // What OAuth 2.0 says of a token that is not valid (RFC 6749, section 5.2).
        400 if found_in.is_some() => return Err(client.refused(found_in).into()),
        404 | 405 if matches!(secret(credential), Some(CredentialSecret::Identity(_))) => {
            return Err(remote_error(format!(
                "the token server {host} does not take the identity token found for {}; docker login {1} again",
                client.registry, client.registry
            ))
            .into());
        }
        _ => return Err(status_failure(&format!("the token server {host}"), answer)),
    }
    let mut body = Vec::new();
    answer
        .response
        .take(TOKEN_BODY)
        .read_to_end(&mut body)
        .map_err(|error| {
            AttemptFailure::passing(remote_error(format!(
                "the token server {host} broke off: {error}"
            )))
        })?;
    serde_json::from_slice::<TokenBody>(&body)
        .ok()
        .and_then(|body| {
            body.token
                .filter(|token| !token.is_empty())
                .or(body.access_token)
        })
        .ok_or_else(|| {
            remote_error(format!(
                "the token server {host} of {} gave no token",
                client.registry
            ))
            .into()
        })
}

/// A token as an authorization, once it can stand in a header.
fn bearer(client: &RepositoryClient, token: &str) -> Result<Authorization, AttemptFailure> {
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(remote_error(format!(
            "the token for {} cannot be sent in a header",
            client.registry
        ))
        .into());
    }
    Ok(Authorization::Bearer(token.to_owned()))
}
