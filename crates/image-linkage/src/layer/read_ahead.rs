//! Reads on another thread, a bounded number of chunks ahead.

use std::io::{self, BufRead, Read};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Scope, ScopedJoinHandle};

/// The maximum number of chunks waiting between two threads.
const DEPTH: usize = 8;
/// The maximum number of used chunks to recycle: all that two queues and their threads can hold. A dropped one would
/// soon be allocated again.
const SPARES: usize = 2 * DEPTH + 4;

/// The receiving end.
pub(crate) struct ReadAhead {
    chunks: Receiver<io::Result<Vec<u8>>>,
    /// Returns used chunks for recycling.
    spares: SyncSender<Vec<u8>>,
    chunk: Vec<u8>,
    at: usize,
}

/// Starts a thread that reads `inner` in chunks of up to `chunk` bytes. The thread ends at the end of `inner`, at its
/// first error, or when the [`ReadAhead`] is dropped. It returns `inner`.
pub(crate) fn read_ahead<'scope, R: Read + Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    inner: R,
    chunk: usize,
) -> (ReadAhead, ScopedJoinHandle<'scope, R>) {
    let (sender, chunks) = sync_channel(DEPTH);
    let (spares, used) = sync_channel(SPARES);
    let thread = scope.spawn(move || send_all(inner, chunk, &sender, &used));
    (
        ReadAhead {
            chunks,
            spares,
            chunk: Vec::new(),
            at: 0,
        },
        thread,
    )
}

impl ReadAhead {
    /// Starts a thread that passes each chunk to `look` and then on. The thread ends after the last chunk, at the first
    /// error, or when the new [`ReadAhead`] is dropped. It returns `state`.
    pub(crate) fn watched<'scope, S: Send + 'scope>(
        self,
        scope: &'scope Scope<'scope, '_>,
        mut state: S,
        look: fn(&mut S, &[u8]) -> io::Result<()>,
    ) -> (Self, ScopedJoinHandle<'scope, S>) {
        let (sender, chunks) = sync_channel(DEPTH);
        let unwatched = self.chunks;
        let thread = scope.spawn(move || {
            for message in unwatched {
                let message = message.and_then(|chunk| look(&mut state, &chunk).map(|()| chunk));
                let is_last = message.is_err();
                if sender.send(message).is_err() || is_last {
                    break;
                }
            }
            state
        });
        // Used chunks go directly back to the first thread.
        (Self { chunks, ..self }, thread)
    }
}

/// Fills each chunk before sending it: the receiver wants the first bytes together, and a queue of full chunks bounds
/// the work in it.
fn send_all<R: Read>(
    mut inner: R,
    size: usize,
    sender: &SyncSender<io::Result<Vec<u8>>>,
    used: &Receiver<Vec<u8>>,
) -> R {
    loop {
        // Reuse a returned chunk; otherwise the whole layer would be allocated once in chunks. A new one is zeroed by
        // the system, and a small layer touches only its first pages.
        let mut chunk = used.try_recv().unwrap_or_else(|_| vec![0; size]);
        chunk.resize(size, 0);
        let (filled, end) = fill(&mut inner, &mut chunk);
        chunk.truncate(filled);
        if filled > 0 && sender.send(Ok(chunk)).is_err() {
            return inner;
        }
        match end {
            None => {}
            Some(Ok(())) => return inner,
            Some(Err(error)) => {
                // A dropped receiver does not need the error.
                let _ = sender.send(Err(error));
                return inner;
            }
        }
    }
}

/// Reads until `chunk` is full or `inner` ends or fails. Returns the bytes read and how `inner` ended.
fn fill(inner: &mut impl Read, chunk: &mut [u8]) -> (usize, Option<io::Result<()>>) {
    let mut filled = 0;
    while let Some(space) = chunk.get_mut(filled..).filter(|space| !space.is_empty()) {
        match inner.read(space) {
            Ok(0) => return (filled, Some(Ok(()))),
            Ok(n) => filled += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (filled, Some(Err(error))),
        }
    }
    (filled, None)
}

impl BufRead for ReadAhead {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.at >= self.chunk.len()
            && let Ok(message) = self.chunks.recv()
        {
            self.at = 0;
            let used = std::mem::take(&mut self.chunk);
            // Dropped if enough spare chunks are waiting.
            let _ = self.spares.try_send(used);
            self.chunk = message?;
        }
        Ok(self.chunk.get(self.at..).unwrap_or_default())
    }

    fn consume(&mut self, amount: usize) {
        self.at += amount;
    }
}

impl Read for ReadAhead {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.fill_buf()?.read(buf)?;
        self.consume(n);
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Read};

    use super::read_ahead;

    struct FailsAfter(&'static [u8]);

    impl Read for FailsAfter {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            match self.0.read(buf)? {
                0 => Err(io::Error::other("cable pulled")),
                n => Ok(n),
            }
        }
    }

    #[test]
    fn all_bytes_arrive_and_then_the_error() {
        std::thread::scope(|scope| {
            let (mut ahead, _thread) = read_ahead(scope, FailsAfter(b"abcdefgh"), 3);
            let mut got = Vec::new();
            let error = ahead.read_to_end(&mut got).unwrap_err();
            assert_eq!(
                (got.as_slice(), error.to_string().as_str()),
                (b"abcdefgh".as_slice(), "cable pulled")
            );
        });
    }

    #[test]
    fn dropping_the_receiver_ends_the_thread() {
        std::thread::scope(|scope| {
            let (ahead, thread) = read_ahead(scope, io::repeat(1), 8);
            drop(ahead);
            assert!(thread.join().is_ok());
        });
    }
}
