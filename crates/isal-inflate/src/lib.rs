//! Reads one gzip member (RFC 1952): flate2 parses the header, ISA-L inflates the data and checks the checksum.
//!
//! The C library's state stays on the heap for its lifetime. It borrows the caller's slices for a single call, and its
//! pointers are null afterwards.

use std::io::{self, BufRead, Read};
use std::mem::MaybeUninit;

use flate2::GzHeader;
use flate2::bufread::GzDecoder;
use isal_sys::igzip_lib as isal;

/// Inflates one gzip member, and leaves `inner` at the first byte after it.
///
/// Errors: `InvalidData` for a wrong header, data or checksum, `UnexpectedEof` for a truncated member, and those of
/// `inner`.
pub struct MemberReader<R> {
    inner: R,
    state: State,
    /// The header, or its error.
    header: Result<GzHeader, (io::ErrorKind, String)>,
}

impl<R: BufRead> MemberReader<R> {
    /// A reader for the member at the next byte of `inner`.
    pub fn new(inner: R) -> Self {
        // ISA-L accepts reserved flags and header fields of any length, so flate2 parses the header.
        let mut member = GzDecoder::new(inner);
        let header = member.header().cloned().ok_or_else(|| {
            let failed = member
                .read(&mut [])
                .err()
                .unwrap_or_else(|| io::ErrorKind::UnexpectedEof.into());
            (failed.kind(), failed.to_string())
        });
        Self {
            inner: member.into_inner(),
            state: State::new(),
            header,
        }
    }

    /// The header of the member, if it is valid.
    pub fn header(&self) -> Option<&GzHeader> {
        self.header.as_ref().ok()
    }

    /// The input after the member, once that was read to its end.
    pub fn get_mut(&mut self) -> &mut R {
        &mut self.inner
    }

    /// The input at its current position.
    pub fn into_inner(self) -> R {
        self.inner
    }
}

impl<R: BufRead> Read for MemberReader<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if buf.is_empty() {
            return Ok(0);
        }
        if let Err((kind, message)) = &self.header {
            return Err(io::Error::new(*kind, message.as_str()));
        }
        loop {
            if self.state.is_finished() {
                return Ok(0);
            }
            let stored = self.inner.fill_buf()?;
            let at_end = stored.is_empty();
            let (consumed, written) = self.state.inflate(stored, buf)?;
            self.inner.consume(consumed);
            if written > 0 {
                return Ok(written);
            }
            if consumed == 0 && !self.state.is_finished() {
                let (kind, message) = if at_end {
                    (io::ErrorKind::UnexpectedEof, "the gzip member is cut short")
                } else {
                    (io::ErrorKind::InvalidData, "the gzip member does not go on")
                };
                return Err(io::Error::new(kind, message));
            }
        }
    }
}

struct State(Box<isal::inflate_state>);

// SAFETY: the state owns everything it points to: outside of `State::inflate` its pointers are null.
unsafe impl Send for State {}

impl State {
    fn new() -> Self {
        let zeroed = Box::new(MaybeUninit::<isal::inflate_state>::zeroed());
        // SAFETY: it consists of integers, arrays of integers and raw pointers; zero is valid for all of them.
        let mut state = unsafe { zeroed.assume_init() };
        // SAFETY: the pointer refers to a whole state, and the call only writes to it.
        unsafe { isal::isal_inflate_init(&raw mut *state) };
        state.crc_flag = isal::ISAL_GZIP_NO_HDR_VER;
        Self(state)
    }

    fn is_finished(&self) -> bool {
        self.0.block_state == isal::isal_block_state_ISAL_BLOCK_FINISH
    }

    /// Returns the bytes consumed from `stored` and written to `plain`.
    fn inflate(&mut self, stored: &[u8], plain: &mut [u8]) -> io::Result<(usize, usize)> {
        let state = &mut *self.0;
        let offered = u32::try_from(stored.len()).unwrap_or(u32::MAX);
        let room = u32::try_from(plain.len()).unwrap_or(u32::MAX);
        state.next_in = stored.as_ptr().cast_mut();
        state.avail_in = offered;
        state.next_out = plain.as_mut_ptr();
        state.avail_out = room;
        // SAFETY: the state is initialised. Its pointers refer to slices with at least the stated lengths, and the
        // slices outlive the call. The library copies what it needs later into the state, and only reads `stored`.
        let code = unsafe { isal::isal_inflate(state) };
        let (left, unused) = (state.avail_in, state.avail_out);
        state.next_in = std::ptr::null_mut();
        state.next_out = std::ptr::null_mut();
        (state.avail_in, state.avail_out) = (0, 0);
        if code == isal::ISAL_DECOMP_OK.cast_signed() {
            return Ok(((offered - left) as usize, (room - unused) as usize));
        }
        Err(io::Error::new(io::ErrorKind::InvalidData, reason(code)))
    }
}

/// The meaning of the library's error code (`igzip_lib.h`).
fn reason(code: i32) -> &'static str {
    match code {
        isal::ISAL_INCORRECT_CHECKSUM => "corrupt gzip stream does not have a matching checksum",
        isal::ISAL_INVALID_LOOKBACK => "corrupt deflate stream: a copy from before its start",
        _ => "corrupt deflate stream",
    }
}
