//! What happens when a signal asks the program to end: nothing half written stays, and no bar on the terminal.

use std::sync::{Mutex, PoisonError};

use image_source::remove_on_interrupt;
use indicatif::{MultiProgress, ProgressDrawTarget};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use crate::make::slim::interrupt::request_stop;

/// The bars that are drawn, for the process as a signal is.
static DRAWN: Mutex<Option<MultiProgress>> = Mutex::new(None);

/// From now on these bars go where the program is interrupted: they would stay on the terminal behind it.
pub(super) fn clear_on_interrupt(bars: &MultiProgress) {
    *DRAWN.lock().unwrap_or_else(PoisonError::into_inner) = Some(bars.clone());
}

/// Lets a signal end the program at once, or by who copies, and nothing behind it.
pub(super) fn watch_signals() {
    let Ok(mut signals) = Signals::new([SIGINT, SIGTERM]) else {
        return;
    };
    std::thread::spawn(move || {
        for signal in signals.forever() {
            if let Some(bars) = &*DRAWN.lock().unwrap_or_else(PoisonError::into_inner) {
                let _ = bars.clear();
                bars.set_draw_target(ProgressDrawTarget::hidden());
            }
            if !request_stop() {
                remove_on_interrupt();
                // The shell is told which signal it was.
                let _ = emulate_default_handler(signal);
            }
        }
    });
}
