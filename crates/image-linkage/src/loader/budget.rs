//! How much work the simulation does for one image: a few kilobytes of search paths can ask for hours of it.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::limits::LOADER_STEPS;

/// The steps that the simulated processes of one image have together.
#[derive(Debug)]
pub struct LoaderBudget {
    left: AtomicU64,
}

impl Default for LoaderBudget {
    fn default() -> Self {
        Self::new(LOADER_STEPS)
    }
}

impl LoaderBudget {
    /// A budget of so many directories and names that are looked at.
    pub fn new(steps: u64) -> Self {
        Self {
            left: AtomicU64::new(steps),
        }
    }

    /// Takes steps, and says whether there were so many.
    pub fn spend(&self, steps: usize) -> bool {
        let left = self.left.load(Ordering::Relaxed);
        let left = left.saturating_sub(u64::try_from(steps).unwrap_or(u64::MAX));
        self.left.store(left, Ordering::Relaxed);
        left > 0
    }

    /// Why what is asked from now on is not followed; nothing as long as there are steps left.
    pub fn end(&self) -> Option<String> {
        let is_spent = self.left.load(Ordering::Relaxed) == 0;
        is_spent.then(|| {
            "the image asks the dynamic loader for more steps than are followed; what comes of that cannot be foretold"
                .to_owned()
        })
    }
}

/// What is left is no part of what a loader is.
impl PartialEq for LoaderBudget {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for LoaderBudget {}
