//! Interprets a text in an object as a name by which a program opens the library.

use super::library::LibraryProfile;
use crate::byte_search::contains_bytes;
use image_linkage::elf::ByteString;

/// The interpretation of a text passed to dlopen(3), directly or after the program completes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpenedText {
    /// A name or path that is opened unchanged.
    Exact,
    /// A name or path with a number that the program fills in: the candidates with known numbers.
    Numbered(Vec<ByteString>),
    /// A path that the program prefixes with a folder: the known end of the result.
    Ending(ByteString),
    /// None of these: a message, a list, or a longer text.
    Other,
}

/// Conversions that produce digits: printf(3), `std::format` and Boost, longest first.
const NUMBERS: [&[u8]; 10] = [
    b"%lu", b"%ld", b"%d", b"%u", b"%i", b"%s", b"%1%", b"%2%", b"%3%", b"{}",
];
/// Characters that never occur in library paths, and that separate several names in one text.
const FOREIGN: &[u8] = b" \"'`,;:=<>()[]|*?&#!\\^~";

impl LibraryProfile {
    /// Whether a name opens the library exactly: its stem, optionally with a number.
    pub fn is_exact_name(&self, name: &[u8]) -> bool {
        // `libcupti.so.` and `libcupti.so.old` have the same prefix, but no program means the library by them.
        let rest = name.strip_prefix(self.stem.as_bytes());
        rest.is_some_and(|rest| rest.is_empty() || rest.strip_prefix(b".").is_some_and(is_number))
    }

    /// Interprets a text of an object; `numbers` are the suffixes of the library's names.
    pub fn read_opened_text<'n>(&self, text: &[u8], numbers: impl Iterator<Item = &'n str>) -> OpenedText {
        let at = text.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
        let (folder, name) = text.split_at(at);
        if text.iter().any(|byte| FOREIGN.contains(byte)) {
            return OpenedText::Other;
        }
        let known = known_folder(folder);
        match (known == folder, self.is_exact_name(name)) {
            (true, true) => OpenedText::Exact,
            (true, false) => self.numbered(folder, name, numbers),
            (false, true) => {
                let ending = text.get(folder.len() - known.len()..).unwrap_or_default();
                OpenedText::Ending(ending.into())
            }
            (false, false) => OpenedText::Other,
        }
    }

    /// Whether a text mentions the library: it contains a prefix of its name, or is one of its functions.
    pub fn is_meant_in(&self, text: &[u8]) -> bool {
        let name = self.stem.as_bytes();
        // Instructions embed at most eight bytes of a name at once.
        let word = name.get(..8).unwrap_or(name);
        self.is_function(text) || contains_bytes(text, word)
    }

    /// The library name at the end of a text, after a folder or the words of a message.
    pub fn tail_of<'t>(&self, text: &'t [u8]) -> Option<&'t [u8]> {
        let at = text
            .windows(self.stem.len())
            .rposition(|window| window == self.stem.as_bytes())?;
        text.get(at..).filter(|tail| self.is_exact_name(tail))
    }

    /// The names that a pattern can expand to.
    fn numbered<'n>(&self, folder: &[u8], name: &[u8], numbers: impl Iterator<Item = &'n str>) -> OpenedText {
        let Some(rest) = name
            .strip_prefix(self.stem.as_bytes())
            .and_then(|rest| rest.strip_prefix(b"."))
        else {
            return OpenedText::Other;
        };
        // If a name ends with its dot, the program appends the number.
        let rest = if rest.is_empty() { b"%s" } else { rest };
        if !is_number(&without_conversions(rest)) {
            return OpenedText::Other;
        }
        let fits = numbers.filter(|number| fills(rest, number.as_bytes()));
        let whole = |number: &str| [folder, self.stem.as_bytes(), b".", number.as_bytes()].concat().into();
        OpenedText::Numbered(fits.map(whole).collect())
    }
}

/// The trailing part of a folder that is known statically: everything after the last conversion, or variable that ld.so
/// does not expand (ld.so(8), "Dynamic string tokens").
fn known_folder(folder: &[u8]) -> &[u8] {
    let tokens: [&[u8]; 6] = [
        b"$ORIGIN",
        b"${ORIGIN}",
        b"$LIB",
        b"${LIB}",
        b"$PLATFORM",
        b"${PLATFORM}",
    ];
    let parts = folder.split_inclusive(|&byte| byte == b'/');
    let is_known = |part: &&[u8]| {
        let part = part.strip_suffix(b"/").unwrap_or(part);
        tokens.contains(&part) || !part.iter().any(|byte| b"%${}".contains(byte))
    };
    let lengths: Vec<(usize, bool)> = parts.map(|part| (part.len(), is_known(&part))).collect();
    if lengths.iter().all(|(_, known)| *known) {
        return folder;
    }
    let known: usize = lengths
        .iter()
        .rev()
        .take_while(|(_, known)| *known)
        .map(|(length, _)| length)
        .sum();
    // Starting at the slash, because everything before it is a folder.
    folder
        .get(folder.len() - (known + 1).min(folder.len())..)
        .unwrap_or_default()
}

/// Whether a text is digits separated by dots.
fn is_number(text: &[u8]) -> bool {
    text.split(|&byte| byte == b'.')
        .all(|part| !part.is_empty() && part.iter().all(u8::is_ascii_digit))
}

/// The text with each conversion replaced by a digit.
fn without_conversions(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    let mut rest = text;
    while let Some((&first, more)) = rest.split_first() {
        if let Some(after) = NUMBERS.iter().find_map(|number| rest.strip_prefix(*number)) {
            plain.push(b'0');
            rest = after;
        } else {
            plain.push(first);
            rest = more;
        }
    }
    plain
}

/// Whether a pattern can expand to a number. A conversion produces digits; a string conversion may also produce dots.
fn fills(pattern: &[u8], number: &[u8]) -> bool {
    let Some((&first, after)) = pattern.split_first() else {
        return number.is_empty();
    };
    let Some(conversion) = NUMBERS.iter().find(|conversion| pattern.starts_with(conversion)) else {
        return number
            .split_first()
            .is_some_and(|(&digit, rest)| digit == first && fills(after, rest));
    };
    let after = pattern.get(conversion.len()..).unwrap_or_default();
    let only_digits = conversion.ends_with(b"d") || conversion.ends_with(b"u") || conversion.ends_with(b"i");
    let fits = |byte: &&u8| byte.is_ascii_digit() || **byte == b'.' && !only_digits;
    let longest = number.iter().take_while(fits).count();
    (1..=longest).any(|length| fills(after, number.get(length..).unwrap_or_default()))
}
