//! A response body with a minimum rate and a deadline. A body that only trickles never hits a timeout per read, and
//! never ends either.

use std::io::{self, Read};
use std::time::{Duration, Instant};

use reqwest::blocking::Response;

use super::retry::AttemptFailure;
use crate::image_error::ImageError;

/// The bytes that must arrive within [`super::RetryPolicy::slowest`].
pub(super) const HEADWAY: u64 = 64 << 10;

/// The body of an answer. Reading fails with [`io::ErrorKind::TimedOut`] and the missed limit if it is too slow.
pub(super) struct SteadyBody {
    inner: Response,
    slowest: Duration,
    deadline: Option<Instant>,
    /// When the rate was last checked.
    since: Instant,
    /// The bytes that arrived since then.
    arrived: u64,
}

impl SteadyBody {
    /// Requires [`HEADWAY`] bytes of `inner` within each `slowest`, and the end before the deadline.
    pub(super) fn new(inner: Response, slowest: Duration, deadline: Option<Instant>) -> Self {
        Self {
            inner,
            slowest,
            deadline,
            since: Instant::now(),
            arrived: 0,
        }
    }
}

impl Read for SteadyBody {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buf)?;
        self.arrived += read as u64;
        let is_late = self.deadline.is_some_and(|deadline| Instant::now() > deadline);
        let is_due = self.since.elapsed() >= self.slowest;
        if read > 0 && is_late {
            return Err(too_slow("it took too long (blob-seconds)".to_owned()));
        }
        if read > 0 && is_due && self.arrived < HEADWAY {
            let (arrived, slowest) = (self.arrived, self.slowest);
            return Err(too_slow(format!(
                "{arrived} bytes came in {slowest:?}, expected {HEADWAY} (slowest-seconds)"
            )));
        }
        if is_due {
            (self.since, self.arrived) = (Instant::now(), 0);
        }
        Ok(read)
    }
}

fn too_slow(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, why)
}

/// The failure of a document, whose body broke with `cause`. A slow one is final: each attempt would take as long.
pub(super) fn broken_document(cause: &io::Error, error: ImageError) -> AttemptFailure {
    let inner = cause.get_ref().and_then(|inner| inner.downcast_ref::<reqwest::Error>());
    if inner.map_or(cause.kind() == io::ErrorKind::TimedOut, reqwest::Error::is_timeout) {
        AttemptFailure::Final(error)
    } else {
        AttemptFailure::passing(error)
    }
}

/// Why reading a body failed, without the URL, which may contain a signature.
pub(super) fn broken_body(error: &io::Error) -> String {
    let inner = error.get_ref();
    match inner.and_then(|inner| inner.downcast_ref::<reqwest::Error>()) {
        Some(inner) if inner.is_timeout() => "nothing more arrived in time".to_owned(),
        None if error.kind() == io::ErrorKind::TimedOut => error.to_string(),
        _ => "the connection broke".to_owned(),
    }
}
