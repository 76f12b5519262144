//! Whether somebody wants to stop: long copies look before each piece, fail, and so clean up behind them.

use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use image_source::{BlobStore, ImageError, LayerDescriptor};

// One for the process, as a signal is.
static STOP: AtomicBool = AtomicBool::new(false);
/// Whether this process looks at the flag.
static LOOKS: AtomicBool = AtomicBool::new(false);

/// The bytes that are copied between two looks.
const PIECE: usize = 256 << 10;

/// From now on an interruption is left to who copies.
pub(crate) fn handle_interrupts() {
    LOOKS.store(true, Ordering::Relaxed);
}

/// Asks whoever copies to stop. Gives whether somebody will: nobody who was asked before.
pub(crate) fn request_stop() -> bool {
    LOOKS.load(Ordering::Relaxed) && !STOP.swap(true, Ordering::Relaxed)
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

/// Blobs whose readers fail once somebody wants to stop.
pub(crate) struct InterruptibleBlobs<'a>(pub &'a dyn BlobStore);

impl BlobStore for InterruptibleBlobs<'_> {
    fn open(&self, layer: &LayerDescriptor) -> Result<Box<dyn Read + Send>, ImageError> {
        Ok(Box::new(InterruptibleReader(self.0.open(layer)?)))
    }
}
