//! Whether somebody wants to stop: long copies look before each piece, fail, and so clean up behind them.

use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

// One for the process, as a signal is.
static STOP: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// The bytes that are copied between two looks.
const PIECE: usize = 256 << 10;

/// The flag that whoever catches signals sets.
pub(crate) fn interrupt_flag() -> Arc<AtomicBool> {
    Arc::clone(&STOP)
}

/// Fails once somebody wants to stop.
///
/// Errors: That it was interrupted.
pub(crate) fn check_interrupt() -> io::Result<()> {
    // Relaxed: nothing else is handed over by the flag.
    if STOP.load(Ordering::Relaxed) {
        // Not `ErrorKind::Interrupted`, which copies take for a reason to try again.
        return Err(io::Error::other("interrupted"));
    }
    Ok(())
}

/// Copies everything from `from` to `to`, and gives the number of bytes.
///
/// Errors: What either gives, or that it was interrupted.
pub(crate) fn copy_interruptible(from: &mut dyn Read, to: &mut dyn Write) -> io::Result<u64> {
    let mut buffer = vec![0; PIECE];
    let mut copied = 0;
    loop {
        check_interrupt()?;
        let n = match from.read(&mut buffer) {
            Ok(0) => return Ok(copied),
            Ok(n) => n,
            // Some signal came; whether to stop is asked at the next round.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        to.write_all(buffer.get(..n).unwrap_or_default())?;
        copied += n as u64;
    }
}

/// A reader that fails once somebody wants to stop.
pub(crate) struct InterruptibleReader<R>(pub R);

impl<R: Read> Read for InterruptibleReader<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        check_interrupt()?;
        self.0.read(buf)
    }
}
