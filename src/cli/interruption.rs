//! Handles termination signals: removes partial files and clears progress bars.
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

/// The drawn bars; one static per process, because signals are per process.
static DRAWN: Mutex<Option<MultiProgress>> = Mutex::new(None);

/// How long to wait for a terminal, which may be stopped (Ctrl-S) and block.
const TERMINAL_PATIENCE: Duration = Duration::from_millis(500);
/// How long to wait for copying code, which may be blocked on a pipe.
const COPY_PATIENCE: Duration = Duration::from_secs(5);

/// Clears these bars on an interruption, so that they do not stay on the terminal.
pub(super) fn clear_on_interrupt(bars: &MultiProgress) {
    *DRAWN.lock().unwrap_or_else(PoisonError::into_inner) = Some(bars.clone());
}

/// Exits with a message if the system cannot start a thread; libraries panic in that case.
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

/// Makes a signal end the program, at once or through the copying code, after cleanup.
pub(super) fn watch_signals() {
    let ignored = ignored_signals();
    // Signals ignored by `nohup`, or by a shell without job control for background jobs, stay ignored (POSIX, 2.12).
    let watched = [SIGHUP, SIGINT, SIGTERM, SIGXFSZ]
        .into_iter()
        .filter(|signal| ignored >> (signal - 1) & 1 == 0);
    let Ok(mut signals) = Signals::new(watched) else {
        return;
    };
    thread::spawn(move || {
        // SIGXFSZ is only caught, so that a write past `ulimit -f` fails with an error.
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

/// The signals that were ignored when this process started, one bit each from 1 on (`SigIgn` of `proc_pid_status(5)`).
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

/// Ends the process by the signal itself, so that the shell sees which one it was.
fn end_process(signal: c_int) {
    remove_on_interrupt();
    let _ = emulate_default_handler(signal);
}
