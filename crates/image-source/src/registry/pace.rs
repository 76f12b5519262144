//! Limits the request rate per host, for all threads of this process together.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

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
    use super::await_turn;
    use std::time::{Duration, Instant};

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
