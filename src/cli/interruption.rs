//! What happens when a signal asks the program to end: nothing half written stays, and no bar on the terminal.
#![expect(clippy::disallowed_methods, reason = "which signals are ignored is asked of /proc")]

use std::ffi::c_int;
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::Duration;
use std::{panic, process, thread};

use image_store::remove_on_interrupt;
use indicatif::{MultiProgress, ProgressDrawTarget};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use super::terminal::report_error;
use crate::make::slim::interrupt::request_stop;

/// The bars that are drawn, for the process as a signal is.
static DRAWN: Mutex<Option<MultiProgress>> = Mutex::new(None);

/// How long a terminal is waited for, which may be stopped (Ctrl-S) and then takes nothing.
const TERMINAL_PATIENCE: Duration = Duration::from_millis(500);
/// How long whoever copies is waited for, which may read from a pipe that nothing comes from.
const COPY_PATIENCE: Duration = Duration::from_secs(5);

/// From now on these bars go where the program is interrupted: they would stay on the terminal behind it.
pub(super) fn clear_on_interrupt(bars: &MultiProgress) {
    *DRAWN.lock().unwrap_or_else(PoisonError::into_inner) = Some(bars.clone());
}

/// Ends the program with a sentence where the system starts no further thread for it, for which the libraries panic.
pub(super) fn watch_threads() {
    let of_others = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        let said = panic.payload_as_str().unwrap_or_default();
        if !(said.contains("spawn") && said.contains("thread")) {
            return of_others(panic);
        }
        remove_on_interrupt();
        let why =
            "the system starts no further thread for it: see ulimit -u, and the limit of processes of a container";
        process::exit(report_error(&why) as i32);
    }));
}

/// Lets a signal end the program at once, or by who copies, and nothing behind it.
pub(super) fn watch_signals() {
    let ignored = ignored_signals();
    let signals = [SIGHUP, SIGINT, SIGTERM, SIGXFSZ];
    // What `nohup` has ignored, or a shell without job control in its background, stays so (POSIX, 2.12).
    let signals = signals.into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0);
    let Ok(mut signals) = Signals::new(signals) else {
        return;
    };
    thread::spawn(move || {
        // A file that grows past `ulimit -f` fails where it is written once the signal is caught.
        for signal in signals.forever().filter(|signal| *signal != SIGXFSZ) {
            clear_bars();
            if request_stop() {
                thread::spawn(move || {
                    thread::sleep(COPY_PATIENCE);
                    end_process(signal);
                });
            } else {
                end_process(signal);
            }
        }
    });
}

/// The signals that whoever started this process has ignored, a bit each from 1 on (`SigIgn` of `proc_pid_status(5)`).
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or_default()
}

fn clear_bars() {
    let drawn = DRAWN.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let (done, cleared) = mpsc::channel::<()>();
    thread::spawn(move || {
        if let Some(bars) = drawn {
            let _ = bars.clear();
            bars.set_draw_target(ProgressDrawTarget::hidden());
        }
        drop(done);
    });
    let _ = cleared.recv_timeout(TERMINAL_PATIENCE);
}

/// Ends the process as the signal does by itself, so that the shell is told which it was.
fn end_process(signal: c_int) {
    remove_on_interrupt();
    let _ = emulate_default_handler(signal);
}
