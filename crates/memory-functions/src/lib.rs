//! `memcpy`, `memmove`, `memcmp` and `bcmp` (POSIX.1-2024, `string.h`) for static programs on x86-64.
//!
//! musl copies with `rep movsq` and compares byte by byte: 30 to 40 ns even for a few bytes. Most of our copies are parts
//! of paths. A program that names this crate is linked to these functions instead. They use SSE2, which every x86-64 has.

#![no_std]
// Otherwise the compiler recognises these loops, and replaces them with calls of the functions that they are in.
#![no_builtins]
#![cfg(target_arch = "x86_64")]

use core::arch::asm;
use core::arch::x86_64::{__m128i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8};

/// The unit of longer copies: one cache line.
type Block = [__m128i; 4];
const BLOCK: usize = size_of::<Block>();
/// The length from which `rep movsq` is faster than a loop.
const LONG: usize = 2048;

/// Copies bytes, which may overlap.
///
/// # Safety
///
/// `from` is valid for reads and `to` for writes of `length` bytes.
pub unsafe fn copy(to: *mut u8, from: *const u8, length: usize) {
    // SAFETY: each call gets lengths between one and two times the size of its type.
    unsafe {
        match length {
            0 => {}
            1 => to.write(from.read()),
            2..4 => copy_ends::<u16>(to, from, length),
            4..8 => copy_ends::<u32>(to, from, length),
            8..16 => copy_ends::<u64>(to, from, length),
            16..32 => copy_ends::<__m128i>(to, from, length),
            32..64 => copy_ends::<[__m128i; 2]>(to, from, length),
            64..=128 => copy_ends::<Block>(to, from, length),
            _ if to.addr().wrapping_sub(from.addr()) < length => copy_backward(to, from, length),
            _ if length >= LONG && from.addr().wrapping_sub(to.addr()) >= length => copy_long(to, from, length),
            _ => copy_forward(to, from, length),
        }
    }
}

/// Copies the first and the last bytes, which together are all. Reads both before it writes.
///
/// # Safety
///
/// As for [`copy`], and `length` is at least the size of `T` and at most twice as much.
#[inline]
unsafe fn copy_ends<T>(to: *mut u8, from: *const u8, length: usize) {
    let last = length - size_of::<T>();
    // SAFETY: both parts are inside the `length` bytes.
    unsafe {
        let parts = (
            from.cast::<T>().read_unaligned(),
            from.add(last).cast::<T>().read_unaligned(),
        );
        to.cast::<T>().write_unaligned(parts.0);
        to.add(last).cast::<T>().write_unaligned(parts.1);
    }
}

/// Copies one `T`, which starts at `at`.
///
/// # Safety
///
/// As for [`copy`], and the `T` is inside the bytes.
#[inline]
unsafe fn copy_part<T>(to: *mut u8, from: *const u8, at: usize) {
    // SAFETY: the caller promises it.
    unsafe {
        let part = from.add(at).cast::<T>().read_unaligned();
        to.add(at).cast::<T>().write_unaligned(part);
    }
}

/// Copies block by block. The last one is read first, because the others may overwrite it.
///
/// # Safety
///
/// As for [`copy`], `length` is at least one block, and `to` is not in the bytes after `from`.
unsafe fn copy_forward(to: *mut u8, from: *const u8, length: usize) {
    let last = length - BLOCK;
    // SAFETY: each block starts at most at the last one, which ends with the bytes.
    unsafe {
        let end = from.add(last).cast::<Block>().read_unaligned();
        let mut at = 0;
        while at < last {
            copy_part::<Block>(to, from, at);
            at += BLOCK;
        }
        to.add(last).cast::<Block>().write_unaligned(end);
    }
}

/// Copies block by block from the end, so that a block is read before it is overwritten.
///
/// # Safety
///
/// As for [`copy`], and `length` is at least one block.
unsafe fn copy_backward(to: *mut u8, from: *const u8, length: usize) {
    // SAFETY: a block starts only where one block is left before `at`.
    unsafe {
        let start = from.cast::<Block>().read_unaligned();
        let mut at = length;
        while at > BLOCK {
            at -= BLOCK;
            copy_part::<Block>(to, from, at);
        }
        to.cast::<Block>().write_unaligned(start);
    }
}

/// Copies with the processor's string instruction.
///
/// # Safety
///
/// As for [`copy`], the two do not overlap, and `length` is at least eight.
unsafe fn copy_long(to: *mut u8, from: *const u8, length: usize) {
    // SAFETY: the instruction writes at most `length` bytes; the last eight are inside them. The direction flag is clear in
    // the calling convention.
    unsafe {
        let last = length - size_of::<u64>();
        copy_part::<u64>(to, from, last);
        asm!(
            "rep movsq",
            inout("rcx") length / size_of::<u64>() => _,
            inout("rdi") to => _,
            inout("rsi") from => _,
            options(nostack, preserves_flags)
        );
    }
}

/// Compares bytes: negative, zero or positive as the first different byte of `left` is less or greater.
///
/// # Safety
///
/// Both are valid for reads of `length` bytes.
#[must_use]
pub unsafe fn compare(left: *const u8, right: *const u8, length: usize) -> i32 {
    // SAFETY: each part is inside the `length` bytes.
    unsafe {
        match length {
            0 => 0,
            1..4 => {
                let byte = |of: *const u8, at: usize| u64::from(of.add(at).read());
                let word = |of| byte(of, 0) << 16 | byte(of, length / 2) << 8 | byte(of, length - 1);
                word(left).cmp(&word(right)) as i32
            }
            4..8 => {
                let word = |of: *const u8, at: usize| u32::from_be(of.add(at).cast::<u32>().read_unaligned());
                let both = |of| u64::from(word(of, 0)) << 32 | u64::from(word(of, length - 4));
                both(left).cmp(&both(right)) as i32
            }
            8..16 => {
                let word = |of: *const u8, at: usize| u64::from_be(of.add(at).cast::<u64>().read_unaligned());
                let both = |of| (word(of, 0), word(of, length - 8));
                both(left).cmp(&both(right)) as i32
            }
            _ => compare_long(left, right, length),
        }
    }
}

/// Compares 16 bytes at a time.
///
/// # Safety
///
/// As for [`compare`], and `length` is at least 16.
unsafe fn compare_long(left: *const u8, right: *const u8, length: usize) -> i32 {
    let last = length - 16;
    let mut at = 0;
    loop {
        // SAFETY: `at` is at most `last`, and a different byte is one of the 16.
        unsafe {
            let parts = (
                _mm_loadu_si128(left.add(at).cast()),
                _mm_loadu_si128(right.add(at).cast()),
            );
            let equal = _mm_movemask_epi8(_mm_cmpeq_epi8(parts.0, parts.1));
            if equal != 0xffff {
                let different = at + equal.trailing_ones() as usize;
                return i32::from(left.add(different).read()) - i32::from(right.add(different).read());
            }
        }
        if at == last {
            return 0;
        }
        at = last.min(at + 16);
    }
}

/// The names that the linker and compiled code use. Unoptimised, their bodies would call them.
#[cfg(all(target_env = "musl", not(debug_assertions)))]
mod symbols {
    use super::{compare, copy};

    #[unsafe(no_mangle)]
    unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, length: usize) -> *mut u8 {
        // SAFETY: the caller of memcpy promises the same and more.
        unsafe { copy(to, from, length) };
        to
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, length: usize) -> *mut u8 {
        // SAFETY: the caller of memmove promises the same.
        unsafe { copy(to, from, length) };
        to
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn memcmp(left: *const u8, right: *const u8, length: usize) -> i32 {
        // SAFETY: the caller of memcmp promises the same.
        unsafe { compare(left, right, length) }
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn bcmp(left: *const u8, right: *const u8, length: usize) -> i32 {
        // SAFETY: the caller of bcmp promises the same.
        unsafe { compare(left, right, length) }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::{compare, copy};

    /// Every short length, and those around the limits of the longer ways.
    fn lengths() -> impl Iterator<Item = usize> {
        (0..300).chain([2040, 2047, 2048, 2049, 4103, 70_001])
    }

    fn numbered(length: usize) -> Vec<u8> {
        (0..length).map(|at| (at * 7 + at / 251).to_le_bytes()[0]).collect()
    }

    #[test]
    fn copies_are_those_of_the_standard_library_however_they_overlap() {
        for length in lengths() {
            for (from, to) in [
                (0, 1),
                (1, 0),
                (3, 40),
                (40, 3),
                (0, length),
                (length, 0),
                (5, 5),
                (0, length / 2 + 1),
            ] {
                let (mut ours, mut known) = (numbered(2 * length + 50), numbered(2 * length + 50));
                known.copy_within(from..from + length, to);
                // SAFETY: both ranges are inside the vector.
                unsafe { copy(ours.as_mut_ptr().add(to), ours.as_ptr().add(from), length) };
                assert!(ours == known, "{length} bytes from {from} to {to}");
            }
        }
    }

    #[test]
    fn comparisons_are_those_of_the_standard_library_wherever_the_difference_is() {
        for length in lengths() {
            let left = numbered(length);
            let places = (0..length.min(300)).chain(length.checked_sub(1));
            for (at, by) in places.flat_map(|at| [(at, 0), (at, 1), (at, 128), (at, 255)]) {
                let mut right = left.clone();
                right[at] = right[at].wrapping_add(by);
                // A later difference must not count.
                if let Some(last) = right.last_mut().filter(|_| by != 0 && at + 1 < length) {
                    *last = !*last;
                }
                // SAFETY: both have `length` bytes.
                let ours = unsafe { compare(left.as_ptr(), right.as_ptr(), length) };
                assert_eq!(
                    ours.signum(),
                    left.cmp(&right) as i32,
                    "{length} bytes, {by} more at {at}"
                );
            }
        }
    }
}
