//! Reads a blob as a stream that resumes after a broken connection.
//!
//! Connections break in the middle of large layers. The reader then requests the rest from its offset, through the
//! registry again, because the signed address of the redirect expires.

use std::io::{self, Read};
use std::sync::Arc;
use std::time::Instant;

use reqwest::StatusCode;
use reqwest::blocking::Response;
use reqwest::header::{CONTENT_RANGE, HeaderMap};

use super::client::RepositoryClient;
use super::request_errors::remote_error;
use super::retry::{AttemptFailure, RetryWaits};
use super::steady_body::{HEADWAY, SteadyBody, broken_body};
use crate::image_error::ImageError;
use image_linkage::digest::Digest;

/// Opens the blob `digest` of `size` bytes at its start.
///
/// Errors: Why the registry does not serve it.
pub(super) fn open_blob(
    client: &Arc<RepositoryClient>,
    digest: &Digest,
    size: Option<u64>,
) -> Result<BlobReader, ImageError> {
    let mut reader = BlobReader {
        client: Arc::clone(client),
        digest: digest.clone(),
        size,
        at: 0,
        retries_reset_at: 0,
        started: Instant::now(),
        waits: RetryWaits::new(&client.patience),
        body: None,
    };
    reader.connect()?;
    Ok(reader)
}

/// Reads a blob and resumes it when the connection breaks. Returns at most one byte more than the size, so that the
/// caller notices a surplus.
pub(super) struct BlobReader {
    client: Arc<RepositoryClient>,
    digest: Digest,
    size: Option<u64>,
    /// The bytes returned so far.
    at: u64,
    /// The offset at which the retry count was last reset.
    retries_reset_at: u64,
    /// When the first byte was requested.
    started: Instant,
    waits: RetryWaits,
    body: Option<SteadyBody>,
}

impl BlobReader {
    /// Retries until it has a body at the current offset.
    fn connect(&mut self) -> Result<(), ImageError> {
        while self.body.is_none() {
            match self.attempt() {
                Ok(body) => self.body = Some(body),
                Err(failure) => self.waits.pause(failure)?,
            }
        }
        Ok(())
    }

    fn attempt(&self) -> Result<SteadyBody, AttemptFailure> {
        let part = format!("blobs/{}", self.digest);
        let answer = self.client.attempt(&part, HeaderMap::new(), self.at)?;
        // From here on a broken body is resumed, and `RetryPolicy::stall` limits each wait.
        let (status, first) = (answer.response.status(), first_byte(&answer.response));
        let mut body = answer.body(self.started.checked_add(self.client.patience.blob));
        if self.at == 0 {
            return Ok(body);
        }
        if status == StatusCode::PARTIAL_CONTENT {
            // A proxy that returns another range would shift all following bytes, and the digest would show it only at
            // the end.
            return if first == Some(self.at) {
                Ok(body)
            } else {
                Err(AttemptFailure::passing(
                    self.broken("the registry sent another range than the requested one"),
                ))
            };
        }
        // The server does not support ranges, so the bytes already read are skipped.
        match io::copy(&mut (&mut body).take(self.at), &mut io::sink()) {
            Ok(skipped) if skipped == self.at => Ok(body),
            Ok(_) => Err(AttemptFailure::passing(
                self.broken("the registry sent less than before"),
            )),
            Err(error) => Err(AttemptFailure::passing(self.broken(&broken_body(&error)))),
        }
    }

    /// Drops the broken body and waits before the next attempt.
    fn resume(&mut self, why: &str) -> Result<(), ImageError> {
        // Dropping the body closes its connection. The next attempt starts at the registry and gets a fresh signed
        // address.
        self.body = None;
        let patience = &self.client.patience;
        if self.started.elapsed() > patience.blob {
            let hours = patience.blob.as_secs() / 3600;
            return Err(self.broken(&format!("it takes longer than {hours} hours (blob-seconds)")));
        }
        // Only real progress resets the retries, so a server that breaks off every few bytes cannot go on forever.
        if self.at - self.retries_reset_at >= HEADWAY {
            self.retries_reset_at = self.at;
            self.waits = RetryWaits::new(patience);
        }
        let failure = AttemptFailure::passing(self.broken(why));
        self.waits.pause(failure)
    }

    fn broken(&self, why: &str) -> ImageError {
        let of = self.size.map_or_else(String::new, |size| format!(" of {size}"));
        remote_error(format!(
            "{}: blob {} broke off after {}{of} bytes ({why}), and could not be resumed; try again later",
            self.client.registry, self.digest, self.at
        ))
    }

    /// The bytes that may still be returned: the rest of the size, plus one.
    fn bytes_left(&self) -> u64 {
        self.size
            .map_or(u64::MAX, |size| size.saturating_add(1).saturating_sub(self.at))
    }
}

impl Read for BlobReader {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        // A hostile server may send more than the manifest states. One surplus byte proves it; the rest stays unread.
        let room = usize::try_from(self.bytes_left()).unwrap_or(usize::MAX).min(buf.len());
        let Some(buf) = buf.get_mut(..room).filter(|buf| !buf.is_empty()) else {
            return Ok(0);
        };
        loop {
            self.connect().map_err(io::Error::other)?;
            let Some(body) = &mut self.body else {
                return Ok(0);
            };
            let complete = self.size.is_some_and(|size| self.at >= size);
            match body.read(buf) {
                // With an unknown size the end of the body is trusted; the digest detects a cut.
                Ok(0) if complete || self.size.is_none() => return Ok(0),
                Ok(0) => self.resume("the body was too short").map_err(io::Error::other)?,
                Ok(n) => {
                    self.at += n as u64;
                    return Ok(n);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // All bytes arrived, so an error at the end of the connection does not matter.
                Err(_) if complete => return Ok(0),
                Err(error) => self.resume(&broken_body(&error)).map_err(io::Error::other)?,
            }
        }
    }
}

/// The first byte of a partial answer, from `Content-Range: bytes FIRST-LAST/SIZE` (RFC 9110, section 14.4).
fn first_byte(response: &Response) -> Option<u64> {
    let value = response.headers().get(CONTENT_RANGE)?.to_str().ok()?;
    let (first, _) = value.trim().strip_prefix("bytes ")?.split_once('-')?;
    first.trim().parse().ok()
}
