//! The limits on waiting for a registry, and on retries.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};

use crate::image_error::ImageError;

/// The timeouts and retry limits. Tests shorten the waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryPolicy {
    /// How often a request is tried, or a broken blob is resumed without progress, before it is an error.
    pub tries: usize,
    /// The wait after the first failure. It doubles each time, plus up to the same again at random.
    pub first_wait: Duration,
    /// The longest wait. A longer `Retry-After` is an error.
    pub longest_wait: Duration,
    /// The timeout for a connection, including TLS.
    pub connect: Duration,
    /// The timeout for the start of an answer, and for each next part of its body.
    pub stall: Duration,
    /// The time limit for each 64 KiB of a body. A slower transfer counts as broken.
    pub slowest: Duration,
    /// The time limit for a whole blob.
    pub blob: Duration,
    /// The maximum number of requests per second and host; `None` means unlimited.
    pub requests_per_second: Option<u32>,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            // Five waits, 15 to 31 seconds in total: enough for a registry to restart behind its load balancer.
            tries: 6,
            first_wait: Duration::from_millis(500),
            // A pull limit may last hours. Status 429 with a longer `Retry-After` is reported at once; with a shorter one
            // or none, it is retried.
            longest_wait: Duration::from_mins(1),
            connect: Duration::from_secs(10),
            // A pull-through cache is silent until it has the blob from its upstream.
            stall: Duration::from_mins(1),
            // A layer of 4 GB takes nine hours at the 1 Mbit/s of a bad line, and 46 days at this rate.
            slowest: Duration::from_mins(1),
            blob: Duration::from_hours(24),
            requests_per_second: None,
        }
    }
}

/// A limit that the user can set: its name and its setter.
type PatienceSetter = (&'static str, fn(&mut RetryPolicy, u64));

const SETTERS: [PatienceSetter; 6] = [
    ("tries", |patience, value| {
        patience.tries = usize::try_from(value).unwrap_or(usize::MAX);
    }),
    ("wait-seconds", |patience, value| {
        patience.longest_wait = Duration::from_secs(value);
    }),
    ("stall-seconds", |patience, value| {
        patience.stall = Duration::from_secs(value);
    }),
    ("slowest-seconds", |patience, value| {
        patience.slowest = Duration::from_secs(value);
    }),
    ("blob-seconds", |patience, value| {
        patience.blob = Duration::from_secs(value);
    }),
    ("requests-per-second", |patience, value| {
        patience.requests_per_second = Some(u32::try_from(value).unwrap_or(u32::MAX));
    }),
];

impl RetryPolicy {
    /// The names of the limits that can be set.
    pub fn names() -> impl Iterator<Item = &'static str> {
        SETTERS.iter().map(|(name, _)| *name)
    }

    /// Sets the limit `name`. Returns false for an unknown name.
    pub fn set(&mut self, name: &str, value: u64) -> bool {
        let setter = SETTERS.iter().find(|(known, _)| *known == name);
        setter.map(|(_, set)| set(self, value)).is_some()
    }
}

/// Why an attempt failed, and whether a retry may help.
#[derive(Debug)]
pub enum AttemptFailure {
    /// A retry would not help.
    Final(ImageError),
    /// A broken connection, an overloaded registry or a rate limit.
    Passing {
        /// The error to report after the last retry.
        error: ImageError,
        /// The wait that the registry requested.
        wait: Option<Duration>,
    },
}

impl AttemptFailure {
    /// A temporary failure without a requested wait.
    pub fn passing(error: ImageError) -> Self {
        Self::Passing { error, wait: None }
    }
}

impl From<ImageError> for AttemptFailure {
    fn from(error: ImageError) -> Self {
        Self::Final(error)
    }
}

/// The remaining waits for one request.
pub(super) struct RetryWaits {
    backoff: ExponentialBackoff,
    longest: Duration,
}

impl RetryWaits {
    /// All waits of `patience`.
    pub(super) fn new(patience: &RetryPolicy) -> Self {
        let backoff = ExponentialBuilder::default()
            .with_min_delay(patience.first_wait)
            .with_max_delay(patience.longest_wait)
            // `tries` counts requests; the backoff counts the waits between them.
            .with_max_times(patience.tries.saturating_sub(1))
            // CI jobs that were refused together must not retry together.
            .with_jitter()
            .build();
        Self {
            backoff,
            longest: patience.longest_wait,
        }
    }

    /// Waits before the next attempt.
    ///
    /// Errors: The failure's own error if it is final, if no attempts remain, or if the registry requests too long a
    /// wait.
    pub(super) fn pause(&mut self, failure: AttemptFailure) -> Result<(), ImageError> {
        let (error, asked) = match failure {
            AttemptFailure::Final(error) => return Err(error),
            AttemptFailure::Passing { error, wait } => (error, wait),
        };
        match self.backoff.next() {
            Some(own) if asked.is_none_or(|asked| asked <= self.longest) => {
                std::thread::sleep(next_wait(own, asked));
                Ok(())
            }
            _ => Err(error),
        }
    }
}

/// The wait before the next attempt: the registry's, or else our own.
fn next_wait(own: Duration, asked: Option<Duration>) -> Duration {
    // The registry knows when its limit ends. A wait of zero is ignored, because it would use up the attempts before
    // anything can change.
    asked.filter(|asked| !asked.is_zero()).unwrap_or(own)
}

/// Repeats an attempt until it succeeds or the limits are reached.
pub fn retry_attempts<T>(
    patience: &RetryPolicy,
    mut attempt: impl FnMut() -> Result<T, AttemptFailure>,
) -> Result<T, ImageError> {
    let mut waits = RetryWaits::new(patience);
    loop {
        match attempt() {
            Ok(done) => return Ok(done),
            Err(failure) => waits.pause(failure)?,
        }
    }
}

/// Parses `Retry-After`: seconds, or a date (RFC 9110, section 10.2.3). A past date gives zero. Anything else counts as
/// a missing header.
pub(super) fn retry_after(value: &str, now: SystemTime) -> Option<Duration> {
    let value = value.trim();
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        // An overflow means the maximum.
        return Some(Duration::from_secs(value.parse().unwrap_or(u64::MAX)));
    }
    // Signs and fractions are invalid, so they use our own backoff.
    let date = httpdate::parse_http_date(value).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

/// When the next request to each host may be sent. Global, because each image has its own client.
static NEXT: Mutex<BTreeMap<String, Instant>> = Mutex::new(BTreeMap::new());

/// Waits until a request to `host` may be sent; returns at once without a rate.
pub(super) fn await_turn(host: &str, requests_per_second: Option<u32>) {
    let Some(rate) = requests_per_second.filter(|rate| *rate > 0) else {
        return;
    };
    let now = Instant::now();
    let turn = {
        let mut all = NEXT.lock().unwrap_or_else(PoisonError::into_inner);
        let next = all.entry(host.to_owned()).or_insert(now);
        let turn = (*next).max(now);
        *next = turn + Duration::from_secs(1) / rate;
        turn
    };
    // Sleeps without the lock, so that other hosts are not delayed.
    std::thread::sleep(turn - now);
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant, SystemTime};

    use super::{AttemptFailure, RetryPolicy, await_turn, next_wait, retry_after, retry_attempts};
    use crate::ImageError;

    fn patience(tries: usize) -> RetryPolicy {
        RetryPolicy {
            tries,
            first_wait: Duration::from_millis(1),
            longest_wait: Duration::from_millis(2),
            ..RetryPolicy::default()
        }
    }

    fn busy(wait: Option<Duration>) -> AttemptFailure {
        let error = ImageError::Remote("busy".to_owned());
        AttemptFailure::Passing { error, wait }
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        for (value, expected) in [
            ("7", Some(7)),
            (" 0 ", Some(0)),
            ("99999999999999999999", Some(u64::MAX)),
            ("Sun, 06 Nov 1994 08:49:47 GMT", Some(10)),
            ("Sun, 06 Nov 1994 08:49:07 GMT", Some(0)),
            ("soon", None),
            ("-1", None),
            ("", None),
        ] {
            assert_eq!(retry_after(value, now), expected.map(Duration::from_secs), "{value}");
        }
    }

    #[test]
    fn attempts_are_bounded_and_a_final_failure_ends_them() {
        for (tries, fail, expected) in [(3, 2, Ok(3)), (3, 3, Err(3)), (1, 1, Err(1))] {
            let mut made = 0;
            let outcome = retry_attempts(&patience(tries), || {
                made += 1;
                if made > fail { Ok(()) } else { Err(busy(None)) }
            });
            assert_eq!(outcome.map(|()| made).map_err(|_| made), expected);
        }
        let mut made = 0;
        let outcome = retry_attempts(&patience(5), || {
            made += 1;
            Err::<(), _>(ImageError::Remote("no".to_owned()).into())
        });
        assert_eq!((outcome.unwrap_err().to_string(), made), ("no".to_owned(), 1));
    }

    #[test]
    fn a_wait_requested_by_the_registry_wins_unless_it_is_zero() {
        for (asked, expected) in [(None, 8), (Some(0), 8), (Some(3), 3), (Some(60), 60)] {
            let asked = asked.map(Duration::from_secs);
            assert_eq!(
                next_wait(Duration::from_secs(8), asked),
                Duration::from_secs(expected),
                "{asked:?}"
            );
        }
    }

    #[test]
    fn a_requested_wait_past_the_longest_is_an_error() {
        for (wait, expected) in [(2, 5), (3, 1)] {
            let mut made = 0;
            let outcome = retry_attempts(&patience(5), || {
                made += 1;
                Err::<(), _>(busy(Some(Duration::from_millis(wait))))
            });
            assert_eq!((outcome.unwrap_err().to_string(), made), ("busy".to_owned(), expected));
        }
    }

    #[test]
    fn requests_to_one_host_are_spaced_and_those_to_others_are_not() {
        let begin = Instant::now();
        for number in 0..20 {
            await_turn(&format!("host{number}.test"), Some(1));
            await_turn("free.test", None);
        }
        assert!(begin.elapsed() < Duration::from_millis(500));
        for _ in 0..4 {
            await_turn("slow.test", Some(20));
        }
        assert!(begin.elapsed() >= Duration::from_millis(150));
    }
}
