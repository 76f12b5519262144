//! Progress bars on a terminal, one per layer.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use image_source::ReadProgress;

use super::interruption::clear_on_interrupt;

/// Progress bars on standard error.
pub struct ProgressBars {
    all: MultiProgress,
    // Two layers are read at a time, each by its own threads.
    bars: Mutex<BTreeMap<usize, PendingBar>>,
}

/// A bar that is hidden until its task has taken a while.
struct PendingBar {
    bar: ProgressBar,
    since: Instant,
    is_drawn: bool,
}

/// The delay before a bar is shown. Cached or small layers would only flicker.
const PATIENCE: Duration = Duration::from_millis(300);

/// Whether bars may be drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BarVisibility {
    /// Only if standard error is a terminal.
    OnTerminal,
    /// Never, as with `--quiet`.
    Never,
}

impl BarVisibility {
    /// With `--quiet`, or without.
    pub fn with_quiet(is_quiet: bool) -> Self {
        if is_quiet { Self::Never } else { Self::OnTerminal }
    }
}

impl ProgressBars {
    /// Bars with the visibility `show`.
    pub fn new(show: BarVisibility) -> Self {
        // In a CI log each step of a bar would be a line.
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

    /// Removes the bars, so that they do not mix with a report.
    pub fn clear(&self) {
        // If the terminal cannot be written to, there is nothing to remove.
        let _ = self.all.clear();
    }

    // Ignore a poisoned lock: the map only has bars, so a panicked thread does no harm.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<usize, PendingBar>> {
        self.bars.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, layer: usize, bar: ProgressBar) {
        let since = Instant::now();
        let is_drawn = false;
        self.lock().insert(layer, PendingBar { bar, since, is_drawn });
    }
}

/// The key of the waiting bar, which belongs to no layer.
const WAITING: usize = usize::MAX;
/// The columns of a bar with a known size.
const KNOWN: &str = "  {prefix} {wide_bar} {decimal_bytes:>9} of {decimal_total_bytes:9} {eta:>4}";
/// The columns of a bar with an unknown size.
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
        // There are no events during a wait, so a thread shows the bar after the delay.
        std::thread::spawn(move || {
            std::thread::sleep(PATIENCE);
            if !bar.is_finished() {
                all.add(bar).enable_steady_tick(Duration::from_millis(200));
            }
        });
    }

    fn start(&self, layer: usize, bytes: Option<u64>) {
        self.finish(WAITING);
        // Some sources do not know the size of a layer in advance.
        let template = bytes.map_or(UNKNOWN, |_| KNOWN);
        let style = ProgressStyle::with_template(template).expect("the templates are constants that a test draws");
        // Counted from 1 for the user; the padding aligns the bars.
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
