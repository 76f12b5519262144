//! Progress on a terminal: a bar per layer, and nothing where nobody watches.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use image_source::ReadProgress;

use super::interruption::clear_on_interrupt;

/// Bars on standard error.
pub struct ProgressBars {
    all: MultiProgress,
    // Layers are read two at a time, each by threads of its own.
    bars: Mutex<BTreeMap<usize, PendingBar>>,
}

/// A bar that nobody sees until what it shows has taken a while.
struct PendingBar {
    bar: ProgressBar,
    since: Instant,
    is_drawn: bool,
}

/// How long something takes before it is shown: what is read from the cache or a small file would only flicker.
const PATIENCE: Duration = Duration::from_millis(300);

/// Whether bars may be drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BarVisibility {
    /// Where standard error is a terminal.
    OnTerminal,
    /// Not even there, as with `--quiet`.
    Never,
}

impl ProgressBars {
    /// Bars that are drawn when `show` allows it.
    pub fn new(show: BarVisibility) -> Self {
        // In the log of a CI system each step of a bar would be a line.
        let hidden = show == BarVisibility::Never || !std::io::stderr().is_terminal();
        let target = if hidden {
            ProgressDrawTarget::hidden()
        } else {
            ProgressDrawTarget::stderr()
        };
        let all = MultiProgress::with_draw_target(target);
        clear_on_interrupt(&all);
        Self {
            all,
            bars: Mutex::new(BTreeMap::new()),
        }
    }

    /// Removes the bars, so that a report stands alone.
    pub fn clear(&self) {
        // A terminal that cannot be written to has nothing to remove.
        let _ = self.all.clear();
    }

    // Bars are only drawn: what a thread that panicked left in the map does no harm, so a poisoned lock is taken.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<usize, PendingBar>> {
        self.bars.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, layer: usize, bar: ProgressBar) {
        let since = Instant::now();
        let is_drawn = false;
        self.lock().insert(layer, PendingBar { bar, since, is_drawn });
    }
}

/// The number of the bar for what is waited for, which is that of no layer.
const WAITING: usize = usize::MAX;
/// The columns of a bar whose end is known.
const KNOWN: &str = "  {prefix} {wide_bar} {decimal_bytes:>9} of {decimal_total_bytes:9} {eta:>4}";
/// The columns of one whose end is not.
const UNKNOWN: &str = "  {prefix} {spinner} {decimal_bytes:>9} {decimal_bytes_per_sec:>12}";

/// A bar that is not drawn yet.
fn hidden_bar(bytes: Option<u64>) -> ProgressBar {
    ProgressBar::with_draw_target(bytes, ProgressDrawTarget::hidden())
}

impl ReadProgress for ProgressBars {
    fn wait(&self, what: &str) {
        let bar = hidden_bar(None).with_message(what.to_owned());
        self.keep(WAITING, bar.clone());
        let all = self.all.clone();
        // Nothing comes while something is waited for, so that nobody but a thread can see that time goes by.
        std::thread::spawn(move || {
            std::thread::sleep(PATIENCE);
            if !bar.is_finished() {
                all.add(bar).enable_steady_tick(Duration::from_millis(200));
            }
        });
    }

    fn start(&self, layer: usize, bytes: Option<u64>) {
        self.finish(WAITING);
        // Not every source knows how large a layer is before it has read it.
        let template = bytes.map_or(UNKNOWN, |_| KNOWN);
        let style = ProgressStyle::with_template(template).expect("the templates are constants that a test draws");
        // People count from 1; the padding keeps the bars below each other.
        let prefix = format!("layer {:<3}", layer + 1);
        self.keep(layer, hidden_bar(bytes).with_style(style).with_prefix(prefix));
    }

    fn advance(&self, layer: usize, bytes: u64) {
        let mut bars = self.lock();
        let Some(pending) = bars.get_mut(&layer) else { return };
        pending.bar.inc(bytes);
        if !pending.is_drawn && pending.since.elapsed() > PATIENCE {
            pending.is_drawn = true;
            self.all.add(pending.bar.clone());
        }
    }

    fn finish(&self, layer: usize) {
        if let Some(pending) = self.lock().get(&layer) {
            pending.bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BarVisibility, ProgressBars};
    use image_source::ReadProgress as _;

    #[test]
    fn bars_are_drawn_with_and_without_a_known_end() {
        let bars = ProgressBars::new(BarVisibility::Never);
        bars.wait("nothing comes");
        bars.start(0, Some(10));
        bars.start(1, None);
        bars.advance(0, 5);
        bars.advance(7, 5);
        bars.finish(1);
        bars.clear();
    }
}
