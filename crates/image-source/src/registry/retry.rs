//! How long a registry is waited for, and how often it is asked again.

use std::time::{Duration, SystemTime};

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};

use crate::image_error::ImageError;

/// How patient the client is. A test shortens the waits; a user needs no other values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryPolicy {
    /// How often one request is made, or a broken blob is resumed without headway, before the error counts.
    pub tries: usize,
    /// The wait after the first failure; it doubles each time, and up to the same again is added at random.
    pub first_wait: Duration,
    /// The longest wait. A registry whose `Retry-After` asks for more is not waited for.
    pub longest_wait: Duration,
    /// The time in which a connection must stand, TLS included.
    pub connect: Duration,
    /// The time in which an answer must begin, and in which each next part of its body must arrive.
    pub stall: Duration,
    /// The time in which 64 KiB of a body have to arrive: what comes slower counts as broken off.
    pub slowest: Duration,
    /// The time in which a whole blob has to arrive.
    pub blob: Duration,
    /// The requests that one host is sent in a second, at most; `None` sends them as they come.
    pub requests_per_second: Option<u32>,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            // Five waits, of 15 to 31 seconds together: time for a registry to be restarted behind its load balancer.
            tries: 6,
            first_wait: Duration::from_millis(500),
            // A limit on pulls lasts for hours: who has hit one is told so, and not left to wait.
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

/// A part of the patience that a user may set, by its name, and how it is set.
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
    /// The names of what can be set.
    pub fn names() -> impl Iterator<Item = &'static str> {
        SETTERS.iter().map(|(name, _)| *name)
    }

    /// Sets what has this name; says whether anything has.
    pub fn set(&mut self, name: &str, value: u64) -> bool {
        let setter = SETTERS.iter().find(|(known, _)| *known == name);
        setter.map(|(_, set)| set(self, value)).is_some()
    }
}

/// Why one attempt failed, and whether another may do better.
#[derive(Debug)]
pub enum AttemptFailure {
    /// Asking again would change nothing.
    Final(ImageError),
    /// A broken connection, a busy or a limiting registry.
    Passing {
        /// What is reported when patience ends.
        error: ImageError,
        /// The wait that the registry asked for.
        wait: Option<Duration>,
    },
}

impl AttemptFailure {
    /// A failure that may pass, with no wish of the registry's about the wait.
    pub fn passing(error: ImageError) -> Self {
        Self::Passing { error, wait: None }
    }
}

impl From<ImageError> for AttemptFailure {
    fn from(error: ImageError) -> Self {
        Self::Final(error)
    }
}

/// The waits that are left for one request.
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
            // The tries count requests, the backoff counts the waits between them.
            .with_max_times(patience.tries.saturating_sub(1))
            // Jobs of one CI run that were refused together must not come back together.
            .with_jitter()
            .build();
        Self {
            backoff,
            longest: patience.longest_wait,
        }
    }

    /// Waits before the next attempt.
    ///
    /// Errors: The failure's own error when it is final, when no attempt is left, or when the registry asks for a
    /// longer wait than anybody would sit through.
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

/// The wait before the next attempt, of our own and of what the registry asked for.
fn next_wait(own: Duration, asked: Option<Duration>) -> Duration {
    // The registry knows better than the backoff when its limit ends. But no wait at all would use up the tries before
    // anything can have changed.
    asked.filter(|asked| !asked.is_zero()).unwrap_or(own)
}

/// Makes attempts until one succeeds or patience ends.
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

/// Reads `Retry-After`: a number of seconds, or a date (RFC 9110, section 10.2.3). A date that has passed
/// means no wait of its own; anything else is as if the header were not there.
pub(super) fn retry_after(value: &str, now: SystemTime) -> Option<Duration> {
    let value = value.trim();
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        // More than a number holds is as long as it can be.
        return Some(Duration::from_secs(value.parse().unwrap_or(u64::MAX)));
    }
    // No sign and no fraction: what is neither digits nor a date is left to our own backoff.
    let date = httpdate::parse_http_date(value).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::{AttemptFailure, RetryPolicy, next_wait, retry_after, retry_attempts};
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
    fn a_registry_says_how_long_it_is_waited_for_unless_that_is_not_at_all() {
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
    fn a_wait_longer_than_the_longest_is_not_waited_for() {
        for (wait, expected) in [(2, 5), (3, 1)] {
            let mut made = 0;
            let outcome = retry_attempts(&patience(5), || {
                made += 1;
                Err::<(), _>(busy(Some(Duration::from_millis(wait))))
            });
            assert_eq!((outcome.unwrap_err().to_string(), made), ("busy".to_owned(), expected));
        }
    }
}
