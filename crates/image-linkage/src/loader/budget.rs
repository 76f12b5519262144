//! How much work the simulation does for one image: a few kilobytes of search paths can ask for hours of it.

use std::sync::atomic::{AtomicU64, Ordering};

use super::resolution::{LoadResolution, UnresolvedRequest};
use super::trace::SearchStep;
use crate::limits::Limits;

/// The steps that the simulated processes of one image have together.
#[derive(Debug)]
pub struct LoaderBudget {
    left: AtomicU64,
    /// The steps that were taken since the image was opened.
    taken: AtomicU64,
    /// The bytes that are left for what is kept of searches.
    room: AtomicU64,
}

impl Default for LoaderBudget {
    fn default() -> Self {
        Self::new(&Limits::default())
    }
}

impl LoaderBudget {
    /// A budget of so many directories and names that are looked at, and of so much that is kept of it.
    pub fn new(limits: &Limits) -> Self {
        Self {
            left: AtomicU64::new(limits.loader_steps),
            taken: AtomicU64::new(0),
            room: AtomicU64::new(limits.loader_traces),
        }
    }

    /// Takes steps, and says whether there were so many.
    pub fn spend(&self, steps: usize) -> bool {
        take(&self.left, steps);
        let taken = u64::try_from(steps).unwrap_or(u64::MAX);
        self.taken.store(self.taken().saturating_add(taken), Ordering::Relaxed);
        self.end().is_none()
    }

    /// Leaves at least so many steps, for one question more that somebody else counts.
    pub fn refill(&self, steps: u64) {
        self.left.fetch_max(steps, Ordering::Relaxed);
    }

    /// The steps that were taken so far: who refills a budget keeps count of them.
    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Counts a trace that is kept for the reports.
    pub fn keep_trace(&self, trace: &[SearchStep]) {
        take(&self.room, trace.iter().map(step_bytes).sum());
    }

    /// Counts a request without an answer that is kept for the reports.
    pub fn keep_unresolved(&self, missing: &UnresolvedRequest) {
        take(&self.room, unresolved_bytes(missing));
    }

    /// Counts a resolution that is kept for the reports, and leaves out how each object was found: who keeps thousands of
    /// them tells what fails alone.
    pub fn keep_resolution(&self, mut kept: LoadResolution) -> LoadResolution {
        kept.drop_searches();
        let objects = kept.objects.iter().map(|object| object.needs.len() + 4);
        let missing = kept.unresolved.iter().chain(&kept.preload_warnings);
        let missing: usize = missing.map(unresolved_bytes).sum();
        take(&self.room, STEP_BYTES * objects.sum::<usize>() + missing);
        kept
    }

    /// Why what is asked from now on is not followed; nothing as long as there are steps left.
    pub fn end(&self) -> Option<String> {
        let mut counters = [&self.left, &self.room].into_iter();
        let is_spent = counters.any(|counter| counter.load(Ordering::Relaxed) == 0);
        is_spent.then(|| {
            "the image asks the dynamic loader for more steps than are followed; what comes of that cannot be determined \
             (loader-steps, loader-traces)"
                .to_owned()
        })
    }
}

/// What a step of a search takes in memory, with a path of common length in it.
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

/// What is left is no part of what a loader is.
impl PartialEq for LoaderBudget {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for LoaderBudget {}
