//! Pushes an image: blobs first and the manifest last, so that a tag never names an incomplete image.
//!
//! A blob that the repository already has is not sent. One in another repository of the registry is mounted
//! (distribution-spec, "Mounting a blob from another repository").

use std::io::Read;

use reqwest::blocking::{Body, Response};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION};
use reqwest::{Method, StatusCode, Url};

use super::client::RepositoryClient;
use super::manifest::CONTENT_DIGEST;
use super::request_errors::{read_error_body, remote_error, shorten_text};
use super::retry::{AttemptFailure, retry_attempts};
use super::transport::{FinalResponse, RegistryOptions, status_failure, without_user};
use crate::image_error::ImageError;
use crate::registry_reference::RegistryReference;
use crate::verify;
use image_linkage::digest::Digest;

/// Opens a blob at its start.
type OpenBody<'a> = &'a dyn Fn() -> Result<Box<dyn Read + Send>, ImageError>;

/// How a blob got into the repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PushOutcome {
    /// The repository already had it.
    There,
    /// It was mounted from another repository.
    Mounted,
    /// Its bytes were sent.
    Sent,
}

/// The target repository of a push.
pub struct RegistryPush {
    pub(super) client: RepositoryClient,
    tag: String,
    from: Option<String>,
}

impl RegistryPush {
    /// A push to `reference`, which the user wrote as `written`. Blobs may be mounted from the repository `from` of the
    /// same registry.
    ///
    /// Errors: [`ImageError::Reference`] for a digest, which cannot be chosen, and for an invalid host.
    pub fn new(
        reference: &RegistryReference,
        written: &str,
        from: Option<&str>,
        options: &RegistryOptions,
    ) -> Result<Self, ImageError> {
        if reference.digest().is_some() {
            return Err(ImageError::reference(
                written,
                "an image is pushed by a tag; its digest follows from it",
            ));
        }
        let mut push = Self::beside(reference, written, options)?;
        let repository = reference.repository();
        // A repository cannot mount from itself; the HEAD request finds what it has.
        push.from = from.filter(|from| *from != repository).map(str::to_owned);
        let pull = push.from.as_ref().map(|from| format!("repository:{from}:pull"));
        // One token must cover both repositories. Otherwise the registry treats the mount as an ordinary upload.
        push.client.scopes.extend(pull);
        Ok(push)
    }

    /// A push of related documents to the repository of `reference`.
    ///
    /// Errors: [`ImageError::Reference`] for an invalid host.
    pub(super) fn beside(
        reference: &RegistryReference,
        written: &str,
        options: &RegistryOptions,
    ) -> Result<Self, ImageError> {
        let repository = reference.repository();
        let mut client = RepositoryClient::new(reference.registry(), repository, written, options)?;
        // A push also needs the pull scope, because a HEAD request checks for each blob.
        client.scopes = vec![format!("repository:{repository}:pull,push")];
        Ok(Self {
            client,
            tag: reference.tag().unwrap_or("latest").to_owned(),
            from: None,
        })
    }

    /// Whether the tag exists. This is also the first request to the registry.
    ///
    /// Errors: Why the registry does not answer.
    pub fn exists(&self) -> Result<bool, ImageError> {
        // A GET through `attempt`, which detects whether the registry uses TLS; the upload addresses depend on that.
        let asked = retry_attempts(&self.client.patience, || {
            self.client
                .attempt(&format!("manifests/{}", self.tag), HeaderMap::new(), 0)
        });
        match asked {
            Ok(_) => Ok(true),
            Err(ImageError::NotFound(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Puts a blob of `size` bytes into the repository, by a mount if possible.
    ///
    /// Errors: Why the registry rejects it, or why it cannot be opened.
    pub fn push_blob(&self, digest: &Digest, size: u64, open: OpenBody<'_>) -> Result<PushOutcome, ImageError> {
        retry_attempts(&self.client.patience, || self.try_blob(digest, size, open))
    }

    /// Pushes the manifest, which sets the tag.
    ///
    /// Errors: Why the registry rejects it.
    pub fn push_manifest(&self, media_type: &'static str, bytes: &[u8]) -> Result<(), ImageError> {
        let url = self.client.own_url(&format!("manifests/{}", self.tag))?;
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
        retry_attempts(&self.client.patience, || {
            // Each attempt and each answer to a challenge needs a new body, because sending consumes it.
            let body = || Ok(Body::from(bytes.to_vec()));
            let answer = self.client.send_change(&Method::PUT, &url, &headers, &body)?;
            // The specification requires 201; some registries answer 200 when a tag is overwritten.
            let taken = self.expect(answer, &[StatusCode::CREATED, StatusCode::OK])?;
            Ok(self.check_taken(&taken, bytes)?)
        })
    }

    /// Errors: The registry stored another manifest than was sent, so something in between changed it.
    fn check_taken(&self, answer: &Response, sent: &[u8]) -> Result<(), ImageError> {
        let Some(held) = answer.headers().get(CONTENT_DIGEST) else {
            return Ok(());
        };
        let digest = held.to_str().ok().and_then(|held| held.parse::<Digest>().ok());
        if digest.is_some_and(|digest| verify::check_digest("the image", sent, &digest).is_ok()) {
            return Ok(());
        }
        let (held, sent) = (shorten_text(held.as_bytes()), Digest::of(sent));
        Err(remote_error(format!(
            "{} says that it holds {held} instead of the image that was sent, {sent}; audit what is stored there",
            self.client.registry
        )))
    }

    fn try_blob(&self, digest: &Digest, size: u64, open: OpenBody<'_>) -> Result<PushOutcome, AttemptFailure> {
        // One attempt is the whole exchange: after a broken upload, nobody knows how much the registry kept.
        let nothing = || Ok(Body::from(Vec::new()));
        let mut headers = HeaderMap::new();
        let there = self.client.own_url(&format!("blobs/{digest}"))?;
        let found = self.client.send_change(&Method::HEAD, &there, &headers, &nothing)?;
        let status = found.response.status();
        // A registry with blobs in a storage bucket redirects to an existing one.
        if status == StatusCode::OK || status.is_redirection() {
            return Ok(PushOutcome::There);
        }
        let mut uploads = self.client.own_url("blobs/uploads/")?;
        // A failed mount is not an error: the registry answers 202 and starts an upload instead (distribution-spec).
        if let Some(from) = &self.from {
            let mut query = uploads.query_pairs_mut();
            query.append_pair("mount", digest.as_ref()).append_pair("from", from);
        }
        let answer = self.client.send_change(&Method::POST, &uploads, &headers, &nothing)?;
        let begun = self.expect(answer, &[StatusCode::CREATED, StatusCode::ACCEPTED])?;
        if begun.status() == StatusCode::CREATED {
            return Ok(PushOutcome::Mounted);
        }
        // The query of the address holds the state of the upload; only the digest is appended.
        let mut place = self.place(&uploads, &begun)?;
        place.query_pairs_mut().append_pair("digest", digest.as_ref());
        let bytes = HeaderValue::from_static("application/octet-stream");
        headers.insert(CONTENT_TYPE, bytes);
        // With a length: otherwise the body is sent in chunks, which object stores such as S3 refuse with 411.
        let body = || Ok(Body::sized(open()?, size));
        let sent = self.client.send_change(&Method::PUT, &place, &headers, &body)?;
        self.expect(sent, &[StatusCode::CREATED])?;
        Ok(PushOutcome::Sent)
    }

    /// The upload address that the registry gives.
    fn place(&self, asked: &Url, answer: &Response) -> Result<Url, ImageError> {
        let registry = &self.client.registry;
        let place = answer
            .headers()
            .get(LOCATION)
            .filter(|location| !location.is_empty())
            .and_then(|location| asked.join(location.to_str().ok()?).ok())
            .and_then(without_user)
            .ok_or_else(|| remote_error(format!("{registry} does not say where a blob is to be sent")))?;
        // The registry could name a service in the user's network, and the layer would be sent there.
        let checked = self.client.session.transport.check(asked, &place);
        checked.map_err(|why| remote_error(format!("refused to send a blob where {registry} says: {why}")))?;
        Ok(place)
    }

    fn expect(&self, answer: FinalResponse, wanted: &[StatusCode]) -> Result<Response, AttemptFailure> {
        let registry = &self.client.registry;
        match answer.response.status() {
            status if wanted.contains(&status) => Ok(answer.response),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                let repository = &self.client.repository;
                let said = read_error_body(answer.body(None));
                Err(remote_error(format!(
                    "{registry} denied the push to {repository}{said}; docker login {registry} as who may push there"
                ))
                .into())
            }
            // A rejected request fails again, except for rate limits and timeouts.
            status
                if status.is_client_error()
                    && !matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT) =>
            {
                let said = read_error_body(answer.body(None));
                Err(remote_error(format!("{registry} refused a part of the image: {status}{said}")).into())
            }
            _ => Err(status_failure(registry, answer)),
        }
    }
}
