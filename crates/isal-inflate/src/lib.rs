//! One gzip member (RFC 1952) as a reader: its header by flate2, its data and checksum by ISA-L.
//!
//! The one place with unsafe code: the state of the C library stays on the heap from its making to its end, and it is lent
//! the caller's slices for a single call, after which it points to nothing.

use std::io::{self, BufRead, Read};
use std::mem::MaybeUninit;

use flate2::GzHeader;
use flate2::bufread::GzDecoder;
use isal_sys::igzip_lib as isal;

/// Reads what one gzip member holds, and leaves `inner` at the first byte behind the member.
///
/// Errors: of the kind `InvalidData` where header, data or checksum are not as they should be, `UnexpectedEof` where the
/// member is cut short, and those of `inner`.
pub struct MemberReader<R> {
    inner: R,
    state: State,
    /// The header, or what was wrong with it.
    header: Result<GzHeader, (io::ErrorKind, String)>,
}

impl<R: BufRead> MemberReader<R> {
    /// A reader of the member that begins with the next byte of `inner`.
    pub fn new(inner: R) -> Self {
        // ISA-L takes reserved flags and fields of any length in a header. So headers are read as they are without it.
        let mut member = GzDecoder::new(inner);
        let header = member.header().cloned().ok_or_else(|| {
            let failed = member.read(&mut []).err();
            let failed = failed.unwrap_or_else(|| io::ErrorKind::UnexpectedEof.into());
            (failed.kind(), failed.to_string())
        });
        Self {
            inner: member.into_inner(),
            state: State::new(),
            header,
        }
    }

    /// The header of the member, where it could be read.
    pub fn header(&self) -> Option<&GzHeader> {
        self.header.as_ref().ok()
    }

    /// What stands behind the member, once it was read to its end.
    pub fn get_mut(&mut self) -> &mut R {
        &mut self.inner
    }

    /// The reader of the stored bytes, where it stands.
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

// SAFETY: the state owns all that it points to: outside of `State::inflate` its pointers are null.
unsafe impl Send for State {}

impl State {
    fn new() -> Self {
        let zeroed = Box::new(MaybeUninit::<isal::inflate_state>::zeroed());
        // SAFETY: it consists of integers, arrays of these and raw pointers, for all of which zeros are a value.
        let mut state = unsafe { zeroed.assume_init() };
        // SAFETY: the pointer is that of a whole state, which the call only writes to.
        unsafe { isal::isal_inflate_init(&raw mut *state) };
        state.crc_flag = isal::ISAL_GZIP_NO_HDR_VER;
        Self(state)
    }

    fn is_finished(&self) -> bool {
        self.0.block_state == isal::isal_block_state_ISAL_BLOCK_FINISH
    }

    /// Bytes of `stored` that were taken, and of `plain` that were written.
    fn inflate(&mut self, stored: &[u8], plain: &mut [u8]) -> io::Result<(usize, usize)> {
        let state = &mut *self.0;
        let offered = u32::try_from(stored.len()).unwrap_or(u32::MAX);
        let room = u32::try_from(plain.len()).unwrap_or(u32::MAX);
        state.next_in = stored.as_ptr().cast_mut();
        state.avail_in = offered;
        state.next_out = plain.as_mut_ptr();
        state.avail_out = room;
        // SAFETY: the state was initialised, its pointers are those of slices with at least as many bytes as it is told, and
        // they outlive the call. What the library needs of them later it has copied into the state; it only reads `stored`.
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

/// What a code of the library says, by its `igzip_lib.h`.
fn reason(code: i32) -> &'static str {
    match code {
        isal::ISAL_INCORRECT_CHECKSUM => "corrupt gzip stream does not have a matching checksum",
        isal::ISAL_INVALID_LOOKBACK => "corrupt deflate stream: a copy from before its start",
        _ => "corrupt deflate stream",
    }
}
