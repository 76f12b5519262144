//! Progress on a terminal: a bar per layer, and nothing where nobody watches.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use crate::make::slim::interrupt::request_stop;
use image_source::ReadProgress;

/// Bars on standard error.
pub struct ProgressBars {
    all: MultiProgress,
    // Layers are read two at a time, each by threads of its own.
    bars: Mutex<BTreeMap<usize, ProgressBar>>,
}

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
        Self {
            all: MultiProgress::with_draw_target(target),
            bars: Mutex::new(BTreeMap::new()),
        }
    }

    /// Removes the bars, so that a report stands alone.
    pub fn clear(&self) {
        // A terminal that cannot be written to has nothing to remove.
        let _ = self.all.clear();
    }

    /// Removes the bars as soon as a signal asks the program to end, and lets it end, at once or by who copies. Without this
    /// the bars would stay on the terminal behind it.
    pub fn clear_on_interrupt(&self) {
        let all = self.all.clone();
        let Ok(mut signals) = Signals::new([SIGINT, SIGTERM]) else {
            return;
        };
        std::thread::spawn(move || {
            for signal in signals.forever() {
                let _ = all.clear();
                all.set_draw_target(ProgressDrawTarget::hidden());
                if !request_stop() {
                    // The shell is told which signal it was.
                    let _ = emulate_default_handler(signal);
                }
            }
        });
    }

    // Bars are only drawn: what a thread that panicked left in the map does no harm, so a poisoned lock is taken.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<usize, ProgressBar>> {
        self.bars.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with(&self, layer: usize, act: impl FnOnce(&ProgressBar)) {
        if let Some(bar) = self.lock().get(&layer) {
            act(bar);
        }
    }
}

/// The number of the bar for what is waited for, which is that of no layer.
const WAITING: usize = usize::MAX;
/// The columns of a bar whose end is known.
const KNOWN: &str = "  {prefix} {wide_bar} {decimal_bytes:>9} of {decimal_total_bytes:9} {eta:>4}";
/// The columns of one whose end is not.
const UNKNOWN: &str = "  {prefix} {spinner} {decimal_bytes:>9} {decimal_bytes_per_sec:>12}";

impl ReadProgress for ProgressBars {
    fn wait(&self, what: &str) {
        let bar = self.all.add(ProgressBar::new_spinner().with_message(what.to_owned()));
        bar.enable_steady_tick(Duration::from_millis(200));
        self.lock().insert(WAITING, bar);
    }

    fn start(&self, layer: usize, bytes: Option<u64>) {
        self.finish(WAITING);
        let (bar, template) = match bytes {
            // Not every source knows how large a layer is before it has read it.
            Some(bytes) => (ProgressBar::new(bytes), KNOWN),
            None => (ProgressBar::new_spinner(), UNKNOWN),
        };
        let style = ProgressStyle::with_template(template).expect("the templates are constants that a test draws");
        let bar = self.all.add(
            bar.with_style(style)
                // People count from 1; the padding keeps the bars below each other.
                .with_prefix(format!("layer {:<3}", layer + 1)),
        );
        self.lock().insert(layer, bar);
    }

    fn advance(&self, layer: usize, bytes: u64) {
        self.with(layer, |bar| bar.inc(bytes));
    }

    fn finish(&self, layer: usize) {
        self.with(layer, ProgressBar::finish_and_clear);
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
