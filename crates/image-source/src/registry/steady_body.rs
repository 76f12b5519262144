//! A body that has to come at a lowest rate, and to its end in time: each part of one that only drips arrives in time,
//! and the whole never would.

use std::io::{self, Read};
use std::time::{Duration, Instant};

use reqwest::blocking::Response;

/// The bytes that have to arrive in [`super::RetryPolicy::slowest`].
pub(super) const HEADWAY: u64 = 64 << 10;

/// The body of an answer, which fails with [`io::ErrorKind::TimedOut`] where it comes too slowly.
pub(super) struct SteadyBody {
    inner: Response,
    slowest: Duration,
    deadline: Option<Instant>,
    /// When it was last looked at how fast the body comes.
    since: Instant,
    /// The bytes that have arrived from then on.
    arrived: u64,
}

impl SteadyBody {
    /// The body of `inner`, of which [`HEADWAY`] bytes have to arrive in each `slowest`, and all before the deadline.
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
        if read > 0 && (is_late || is_due && self.arrived < HEADWAY) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        if is_due {
            (self.since, self.arrived) = (Instant::now(), 0);
        }
        Ok(read)
    }
}
