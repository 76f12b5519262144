//! Short strings that x86-64 code builds in place: their bytes are operands of instructions.
//!
//! GCC and Clang make `std::string("libz.so.1")` of a `movabs` with the first eight bytes and of moves with the rest,
//! which overlap what came before. Other processors load such a string from where constants are.

use super::facts::ByteString;

/// The bytes that a `movabs` holds.
pub(super) const WORD: usize = 8;
/// The bytes of code behind the first word in which the rest is looked for.
const REACH: usize = 72;

/// The text whose first eight bytes begin at `at`, where they are the operand of an instruction; only these eight where
/// the rest is not found behind them.
pub(super) fn joined_text(code: &[u8], at: usize) -> Option<ByteString> {
    let opcode = code.get(at.checked_sub(2)?..at)?;
    let mut text = is_wide_move(opcode).then_some(code.get(at..at + WORD)?)?.to_vec();
    for place in at + WORD..at + WORD + REACH {
        let Some(moved) = operand(code, place) else {
            continue;
        };
        // Of a string of C the last move brings the NUL too.
        let end = moved.iter().position(|&byte| byte == 0).unwrap_or(moved.len());
        let (piece, nuls) = moved.split_at(end);
        if piece.is_empty() || !piece.iter().all(u8::is_ascii_graphic) || nuls.iter().any(|&byte| byte != 0) {
            continue;
        }
        let overlap = (0..piece.len())
            .rev()
            .find(|&length| text.ends_with(piece.get(..length).unwrap_or_default()));
        let (known, new) = piece.split_at(overlap.unwrap_or_default());
        // Two moves of one and two bytes stand for what is left of a name of odd length in code of older compilers.
        let goes_on = !known.is_empty() || new.starts_with(b".") || text.len() > WORD && moved.len() <= 2;
        if goes_on {
            text.extend_from_slice(new);
        }
        // The move that overlaps is made to end where the string does.
        if !known.is_empty() || goes_on && !nuls.is_empty() {
            break;
        }
    }
    Some(text.into())
}

/// Whether an instruction begins with these bytes that moves eight of its own bytes into a register: `movabs`.
fn is_wide_move(opcode: &[u8]) -> bool {
    matches!(opcode, [0x48 | 0x49, 0xb8..=0xbf])
}

/// The bytes that an instruction at `place` would move (Intel SDM, volume 2, "MOV").
fn operand(code: &[u8], place: usize) -> Option<&[u8]> {
    let rest = code.get(place..)?;
    if is_wide_move(rest.get(..2)?) {
        return rest.get(2..2 + WORD);
    }
    let &[opcode, modrm, ..] = rest else { return None };
    let is_word = place.checked_sub(1).and_then(|before| code.get(before)) == Some(&0x66);
    let size = match opcode {
        0xc7 if is_word => 2,
        0xc7 => 4,
        0xc6 => 1,
        _ => return None,
    };
    // Into memory alone: `reg` is part of the opcode and 0, and `mod` says how long the address is.
    let address = match (modrm >> 6, modrm & 7) {
        _ if modrm & 0b0011_1000 != 0 => return None,
        (0, 4) => 1,
        (0, _) => 0,
        (1, rm) => 1 + usize::from(rm == 4),
        (2, rm) => 4 + usize::from(rm == 4),
        _ => return None,
    };
    rest.get(2 + address..2 + address + size)
}

#[cfg(test)]
mod tests {
    use super::joined_text;

    fn joined(code: &[u8]) -> Option<String> {
        let at = code.windows(4).position(|word| word == b"libc")?;
        joined_text(code, at).map(|text| String::from_utf8(text.to_vec()).unwrap())
    }

    #[test]
    fn a_string_of_eleven_bytes_is_put_together_from_code_of_gcc() {
        // g++ 12 -O2: std::string("libcupti.so")
        let code =
            b"\x48\xb8libcupti\x53\xbe\x01\0\0\0\x48\x83\xec\x20\x48\x8d\x7c\x24\x10\x48\x89\x44\x24\x10\x48\x89\
            \x3c\x24\xc7\x44\x24\x17i.so\x48\xc7\x44\x24\x08\x0b\0\0\0";
        assert_eq!(joined(code).as_deref(), Some("libcupti.so"));
        // Of older compilers: moves of two bytes and of one.
        let code = b"\x48\xb8libcupti\x66\xc7\x44\x24\x18.s\xc6\x44\x24\x1ao\xc6\x44\x24\x1b\0";
        assert_eq!(joined(code).as_deref(), Some("libcupti.so"));
    }

    #[test]
    fn a_string_of_fourteen_bytes_is_two_wide_moves() {
        let code = b"\x48\xb8libcupti\x53\xbe\x01\0\0\0\x48\x89\x44\x24\x10\x48\xb8ti.so.12\x48\x89\x3c\x24";
        assert_eq!(joined(code).as_deref(), Some("libcupti.so.12"));
    }

    #[test]
    fn a_string_of_c_ends_with_the_nul_of_its_last_move() {
        // gcc 12 -O2: char name[] = "libcupti.so", and "libcupti.so.12"
        let code = b"\x48\xb8libcupti\x53\x48\x83\xec\x30\x48\x89\x44\x24\x10\xc7\x44\x24\x18.so\0\xc6\x44\x24\x1ax";
        assert_eq!(joined(code).as_deref(), Some("libcupti.so"));
        let code = b"\x48\xb8libcupti\x53\x48\x89\x44\x24\x10\x48\xb8i.so.12\0\x48\x89\x44\x24\x17";
        assert_eq!(joined(code).as_deref(), Some("libcupti.so.12"));
        // A number behind it is no part of it.
        let code = b"\x48\xb8libcupti\xc7\x44\x24\x183\0\0\0";
        assert_eq!(joined(code).as_deref(), Some("libcupti"));
    }

    #[test]
    fn what_is_no_operand_is_no_text_and_a_lone_word_stays_one() {
        assert_eq!(joined(b"\0\0libcupti.so\0"), None);
        assert_eq!(joined(b"libcupti"), None);
        assert_eq!(joined(b"\x49\xbflibcupti\xc3").as_deref(), Some("libcupti"));
        assert_eq!(joined(b"\x48\xb8libcup"), None);
        // Another string that is built behind it.
        let other = b"\x48\xb8libcupti\x48\x89\x07\x48\xb8/usr/lib";
        assert_eq!(joined(other).as_deref(), Some("libcupti"));
    }
}
