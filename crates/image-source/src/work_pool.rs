//! Processes several items in parallel: layers, the files of a folder, the images of a fleet.

use std::sync::{Mutex, PoisonError};

/// Applies `work` to each item with `at_a_time` threads; returns the results in the order of the items.
pub fn in_parallel<T: Sync, R: Send>(items: &[T], at_a_time: usize, work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = Mutex::new(items.iter().enumerate());
    let done = Mutex::new(Vec::with_capacity(items.len()));
    std::thread::scope(|scope| {
        for _ in 0..at_a_time.min(items.len()) {
            scope.spawn(|| {
                // The lock is released before the work starts; `while let` on the guard itself would hold it.
                let take = || next.lock().unwrap_or_else(PoisonError::into_inner).next();
                while let Some((number, item)) = take() {
                    let made = work(item);
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((number, made));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, made)| made).collect()
}
