//! Short strings that x86-64 code builds from instruction operands.
//!
//! GCC and Clang compile `std::string("libz.so.1")` to a `movabs` with the first eight bytes and overlapping moves with
//! the rest. Code for other processors loads such strings from a constant pool.

use super::facts::ByteString;

/// The bytes in a `movabs` operand.
pub(super) const WORD: usize = 8;
/// The bytes of code behind the first operand that are searched for the rest.
const REACH: usize = 72;

/// The text whose first eight bytes are a `movabs` operand at `at`. If no later move continues it, only those eight
/// bytes.
pub(super) fn joined_text(code: &[u8], at: usize) -> Option<ByteString> {
    let opcode = code.get(at.checked_sub(2)?..at)?;
    let mut text = is_wide_move(opcode).then_some(code.get(at..at + WORD)?)?.to_vec();
    for place in at + WORD..at + WORD + REACH {
        let Some(moved) = operand(code, place) else {
            continue;
        };
        // For a C string, the last move also contains the NUL.
        let end = moved.iter().position(|&byte| byte == 0).unwrap_or(moved.len());
        let (piece, nuls) = moved.split_at(end);
        if piece.is_empty() || !piece.iter().all(u8::is_ascii_graphic) || nuls.iter().any(|&byte| byte != 0) {
            continue;
        }
        let overlap = (0..piece.len())
            .rev()
            .find(|&length| text.ends_with(piece.get(..length).unwrap_or_default()));
        let (known, new) = piece.split_at(overlap.unwrap_or_default());
        // Older compilers store the odd tail of a name with moves of one and two bytes.
        let goes_on = !known.is_empty() || new.starts_with(b".") || text.len() > WORD && moved.len() <= 2;
        if goes_on {
            text.extend_from_slice(new);
        }
        // The overlapping move ends exactly at the end of the string.
        if !known.is_empty() || goes_on && !nuls.is_empty() {
            break;
        }
    }
    Some(text.into())
}

/// Whether an instruction is `movabs`: it loads an 8-byte immediate into a register.
fn is_wide_move(opcode: &[u8]) -> bool {
    matches!(opcode, [0x48 | 0x49, 0xb8..=0xbf])
}

/// The immediate operand of a move at `place` (Intel SDM, volume 2, "MOV").
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
    // Only moves to memory: `reg` must be 0, and `mod` gives the size of the address.
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
    fn gcc_code_with_eleven_bytes_is_joined() {
        // g++ 12 -O2: std::string("libcupti.so")
        let code =
            b"\x48\xb8libcupti\x53\xbe\x01\0\0\0\x48\x83\xec\x20\x48\x8d\x7c\x24\x10\x48\x89\x44\x24\x10\x48\x89\
            \x3c\x24\xc7\x44\x24\x17i.so\x48\xc7\x44\x24\x08\x0b\0\0\0";
        assert_eq!(joined(code).as_deref(), Some("libcupti.so"));
        // Older compilers: moves of two bytes and of one.
        let code = b"\x48\xb8libcupti\x66\xc7\x44\x24\x18.s\xc6\x44\x24\x1ao\xc6\x44\x24\x1b\0";
        assert_eq!(joined(code).as_deref(), Some("libcupti.so"));
    }

    #[test]
    fn two_wide_moves_make_fourteen_bytes() {
        let code = b"\x48\xb8libcupti\x53\xbe\x01\0\0\0\x48\x89\x44\x24\x10\x48\xb8ti.so.12\x48\x89\x3c\x24";
        assert_eq!(joined(code).as_deref(), Some("libcupti.so.12"));
    }

    #[test]
    fn a_c_string_ends_at_the_nul_of_its_last_move() {
        // gcc 12 -O2: char name[] = "libcupti.so", and "libcupti.so.12"
        let code = b"\x48\xb8libcupti\x53\x48\x83\xec\x30\x48\x89\x44\x24\x10\xc7\x44\x24\x18.so\0\xc6\x44\x24\x1ax";
        assert_eq!(joined(code).as_deref(), Some("libcupti.so"));
        let code = b"\x48\xb8libcupti\x53\x48\x89\x44\x24\x10\x48\xb8i.so.12\0\x48\x89\x44\x24\x17";
        assert_eq!(joined(code).as_deref(), Some("libcupti.so.12"));
        // A number behind it is not part of it.
        let code = b"\x48\xb8libcupti\xc7\x44\x24\x183\0\0\0";
        assert_eq!(joined(code).as_deref(), Some("libcupti"));
    }

    #[test]
    fn only_operands_are_joined() {
        assert_eq!(joined(b"\0\0libcupti.so\0"), None);
        assert_eq!(joined(b"libcupti"), None);
        assert_eq!(joined(b"\x49\xbflibcupti\xc3").as_deref(), Some("libcupti"));
        assert_eq!(joined(b"\x48\xb8libcup"), None);
        // Followed by another string.
        let other = b"\x48\xb8libcupti\x48\x89\x07\x48\xb8/usr/lib";
        assert_eq!(joined(other).as_deref(), Some("libcupti"));
    }
}
