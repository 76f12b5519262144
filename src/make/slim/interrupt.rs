//! Interruption of long copies: they check a flag before each chunk, fail, and clean up.

use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use image_source::{BlobStore, ImageError, LayerDescriptor};

// One flag per process, because signals are per process.
static STOP: AtomicBool = AtomicBool::new(false);
/// Whether this process checks the flag.
static LOOKS: AtomicBool = AtomicBool::new(false);

/// The number of bytes copied between two checks.
const PIECE: usize = 256 << 10;

/// From now on the copying code handles interruptions.
pub(crate) fn handle_interrupts() {
    LOOKS.store(true, Ordering::Relaxed);
}

/// Asks the copying code to stop. Returns whether it will; `false` if it was already asked.
pub(crate) fn request_stop() -> bool {
    LOOKS.load(Ordering::Relaxed) && !STOP.swap(true, Ordering::Relaxed)
}

/// Fails after a stop request.
///
/// Errors: The interruption.
pub(crate) fn check_interrupt() -> io::Result<()> {
    // Relaxed: the flag guards no other data.
    if STOP.load(Ordering::Relaxed) {
        // Not `ErrorKind::Interrupted`, because callers retry on that.
        return Err(io::Error::other("interrupted"));
    }
    Ok(())
}

/// Copies everything from `from` to `to`. Returns the number of bytes.
///
/// Errors: An error of either side, or the interruption.
pub(crate) fn copy_interruptible(from: &mut dyn Read, to: &mut dyn Write) -> io::Result<u64> {
    let mut buffer = vec![0; PIECE];
    let mut copied = 0;
    loop {
        check_interrupt()?;
        let n = match from.read(&mut buffer) {
            Ok(0) => return Ok(copied),
            Ok(n) => n,
            // Another signal; the next round checks for a stop.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        to.write_all(buffer.get(..n).unwrap_or_default())?;
        copied += n as u64;
    }
}

/// A reader that fails after a stop request.
pub(crate) struct InterruptibleReader<R>(pub R);

impl<R: Read> Read for InterruptibleReader<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        check_interrupt()?;
        self.0.read(buf)
    }
}

/// Blobs whose readers fail after a stop request.
pub(crate) struct InterruptibleBlobs<'a>(pub &'a dyn BlobStore);

impl BlobStore for InterruptibleBlobs<'_> {
    fn open(&self, layer: &LayerDescriptor) -> Result<Box<dyn Read + Send>, ImageError> {
        Ok(Box::new(InterruptibleReader(self.0.open(layer)?)))
    }

    fn find(&self, layer: &LayerDescriptor) -> Result<(), ImageError> {
        self.0.find(layer)
    }
}
