//! Limits the work of the simulation for one image. A few kilobytes of search paths could cause hours of work.

use std::sync::atomic::{AtomicU64, Ordering};

use super::resolution::{LoadResolution, UnresolvedRequest};
use super::trace::SearchStep;
use crate::limits::Limits;

/// The budget shared by all simulated processes of one image.
#[derive(Debug)]
pub struct LoaderBudget {
    left: AtomicU64,
    /// The steps taken since the image was opened.
    taken: AtomicU64,
    /// The bytes left for kept search traces.
    room: AtomicU64,
}

impl Default for LoaderBudget {
    fn default() -> Self {
        Self::new(&Limits::default())
    }
}

impl LoaderBudget {
    /// A budget with the limits for steps and kept traces.
    pub fn new(limits: &Limits) -> Self {
        Self {
            left: AtomicU64::new(limits.loader_steps),
            taken: AtomicU64::new(0),
            room: AtomicU64::new(limits.loader_traces),
        }
    }

    /// Takes steps. Returns whether the budget had room for them.
    pub fn spend(&self, steps: usize) -> bool {
        take(&self.left, steps);
        let taken = u64::try_from(steps).unwrap_or(u64::MAX);
        self.taken.store(self.taken().saturating_add(taken), Ordering::Relaxed);
        self.end().is_none()
    }

    /// Guarantees at least `steps`, for one more question that the caller accounts for.
    pub fn refill(&self, steps: u64) {
        self.left.fetch_max(steps, Ordering::Relaxed);
    }

    /// The steps taken so far. Callers of `refill` keep count of them.
    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Counts a trace that is kept for reports.
    pub fn keep_trace(&self, trace: &[SearchStep]) {
        take(&self.room, trace.iter().map(step_bytes).sum());
    }

    /// Counts an unresolved request that is kept for reports.
    pub fn keep_unresolved(&self, missing: &UnresolvedRequest) {
        take(&self.room, unresolved_bytes(missing));
    }

    /// Counts a kept resolution and drops the searches of found objects: with thousands of resolutions, reports show
    /// only failures.
    pub fn keep_resolution(&self, mut kept: LoadResolution) -> LoadResolution {
        kept.drop_searches();
        let objects = kept.objects.iter().map(|object| object.needs.len() + 4);
        let missing = kept.unresolved.iter().chain(&kept.preload_warnings);
        let bytes: usize = missing.map(unresolved_bytes).sum();
        take(&self.room, STEP_BYTES * objects.sum::<usize>() + bytes);
        kept
    }

    /// The reason why further requests are not followed; `None` while the budget lasts.
    pub fn end(&self) -> Option<String> {
        let mut counters = [&self.left, &self.room].into_iter();
        let is_spent = counters.any(|counter| counter.load(Ordering::Relaxed) == 0);
        is_spent.then(|| {
            "the image asks the dynamic loader for more steps than are followed; the result cannot be determined \
             (loader-steps, loader-traces)"
                .to_owned()
        })
    }
}

/// The estimated memory of a search step with a path of typical length.
const STEP_BYTES: usize = 160;

fn step_bytes(step: &SearchStep) -> usize {
    STEP_BYTES.max(step.path().map_or(0, <[u8]>::len))
}

fn unresolved_bytes(missing: &UnresolvedRequest) -> usize {
    let words = missing.name.len() + missing.message.len();
    missing.trace.iter().map(step_bytes).sum::<usize>() + STEP_BYTES + STEP_BYTES.max(words)
}

fn take(counter: &AtomicU64, amount: usize) {
    let left = counter.load(Ordering::Relaxed);
    let amount = u64::try_from(amount).unwrap_or(u64::MAX);
    counter.store(left.saturating_sub(amount), Ordering::Relaxed);
}

/// The budget is not part of a loader's identity.
impl PartialEq for LoaderBudget {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for LoaderBudget {}
