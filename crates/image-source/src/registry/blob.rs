//! A blob as a stream that mends itself.
//!
//! A connection that breaks in the middle of a layer of gigabytes is normal. The reader asks again from the
//! byte it stands at, through the registry, because the address it was redirected to expires.

use std::io::{self, Read};
use std::sync::Arc;
use std::time::Instant;

use reqwest::StatusCode;
use reqwest::blocking::Response;
use reqwest::header::{CONTENT_RANGE, HeaderMap};

use super::client::RepositoryClient;
use super::request_errors::remote_error;
use super::retry::{AttemptFailure, RetryWaits};
use super::steady_body::{HEADWAY, SteadyBody};
use crate::image_error::ImageError;
use image_linkage::digest::Digest;

/// Opens the blob `digest` of `size` bytes at its start.
///
/// Errors: Why the registry does not give it.
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
        mended_at: 0,
        begun: Instant::now(),
        waits: RetryWaits::new(&client.patience),
        body: None,
    };
    reader.connect()?;
    Ok(reader)
}

/// Reads a blob, and resumes it when the connection breaks. At most one byte more than the blob's size comes
/// out of it, so that its reader sees the surplus.
pub(super) struct BlobReader {
    client: Arc<RepositoryClient>,
    digest: Digest,
    size: Option<u64>,
    /// The bytes given out.
    at: u64,
    /// Where the waits were counted anew.
    mended_at: u64,
    /// When the first byte was asked for.
    begun: Instant,
    waits: RetryWaits,
    body: Option<SteadyBody>,
}

impl BlobReader {
    /// Makes attempts until a body stands at the reader's place.
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
        // From here on a body that breaks off is mended, and each wait for it is bounded by `RetryPolicy::stall`.
        let (status, first) = (answer.response.status(), starts_at(&answer.response));
        let mut body = answer.body(self.begun.checked_add(self.client.patience.blob));
        if self.at == 0 {
            return Ok(body);
        }
        if status == StatusCode::PARTIAL_CONTENT {
            // A cache on the way that sends another range would shift all bytes after it, and the digest shows
            // it only at the end.
            return if first == Some(self.at) {
                Ok(body)
            } else {
                Err(AttemptFailure::passing(
                    self.broken("the registry sent another range than it was asked for"),
                ))
            };
        }
        // The server does not know ranges: what was read before passes once more.
        match io::copy(&mut (&mut body).take(self.at), &mut io::sink()) {
            Ok(skipped) if skipped == self.at => Ok(body),
            Ok(_) => Err(AttemptFailure::passing(
                self.broken("the registry sent less than before"),
            )),
            Err(error) => Err(AttemptFailure::passing(self.broken(&cause(&error)))),
        }
    }

    /// Takes note that the body broke, and waits before the next attempt.
    fn mend(&mut self, why: &str) -> Result<(), ImageError> {
        // The body is dropped with its connection: the next attempt starts from the
        // registry, with a fresh signed address.
        self.body = None;
        let patience = &self.client.patience;
        if self.begun.elapsed() > patience.blob {
            let hours = patience.blob.as_secs() / 3600;
            return Err(self.broken(&format!("it takes longer than {hours} hours (blob-seconds)")));
        }
        // A server that breaks each connection after a few bytes does not get to go on for ever.
        if self.at - self.mended_at >= HEADWAY {
            self.mended_at = self.at;
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

    /// The bytes that may still come out, one more than the size.
    fn left(&self) -> u64 {
        self.size
            .map_or(u64::MAX, |size| size.saturating_add(1).saturating_sub(self.at))
    }
}

impl Read for BlobReader {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        // A hostile server may send more than the manifest says: one byte of it is enough to tell, the
        // rest is not read.
        let room = usize::try_from(self.left()).unwrap_or(usize::MAX).min(buf.len());
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
                // Where no size is known, the end of the body is believed, and the digest tells whether it was cut.
                Ok(0) if complete || self.size.is_none() => return Ok(0),
                Ok(0) => self.mend("the body was too short").map_err(io::Error::other)?,
                Ok(n) => {
                    self.at += n as u64;
                    return Ok(n);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Every byte is there; how the connection ends does not matter.
                Err(_) if complete => return Ok(0),
                Err(error) => self.mend(&cause(&error)).map_err(io::Error::other)?,
            }
        }
    }
}

/// The first byte of a partial answer, from `Content-Range: bytes FIRST-LAST/SIZE` (RFC 9110, section 14.4).
fn starts_at(response: &Response) -> Option<u64> {
    let value = response.headers().get(CONTENT_RANGE)?.to_str().ok()?;
    let (first, _) = value.trim().strip_prefix("bytes ")?.split_once('-')?;
    first.trim().parse().ok()
}

/// Why a read failed, without the address, which may hold a signature.
fn cause(error: &io::Error) -> String {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<reqwest::Error>());
    match inner {
        Some(inner) if inner.is_timeout() => "nothing more arrived in time".to_owned(),
        None if error.kind() == io::ErrorKind::TimedOut => "it came too slowly (slowest-seconds)".to_owned(),
        _ => "the connection broke".to_owned(),
    }
}
