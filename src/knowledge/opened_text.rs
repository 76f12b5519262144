//! What a text of an object says of the name by which a program opens the library.

use super::library::LibraryProfile;
use crate::byte_search::contains_bytes;
use image_linkage::elf::ByteString;

/// What a text stands for when it is given to dlopen(3), itself or made whole by the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpenedText {
    /// A name or a path that is opened as it stands.
    Exact,
    /// A name or a path whose number the program fills in: those of the numbers that fit.
    Numbered(Vec<ByteString>),
    /// A path behind a folder that the program puts in front: what the whole of it ends with.
    Ending(ByteString),
    /// Neither: a message, a list, or a text with more in it.
    Other,
}

/// What stands for digits in a name: printf(3), `std::format` and Boost, the longest first.
const NUMBERS: [&[u8]; 10] = [
    b"%lu", b"%ld", b"%d", b"%u", b"%i", b"%s", b"%1%", b"%2%", b"%3%", b"{}",
];
/// What no path of a library holds, and what parts texts that hold several.
const FOREIGN: &[u8] = b" \"'`,;:=<>()[]|*?&#!\\^~";

impl LibraryProfile {
    /// Whether a name is one of the library as it is opened: its stem, or that and a number.
    pub fn is_exact_name(&self, name: &[u8]) -> bool {
        // `libcupti.so.` and `libcupti.so.old` begin alike, and no program means the library by them.
        let rest = name.strip_prefix(self.stem.as_bytes());
        rest.is_some_and(|rest| rest.is_empty() || rest.strip_prefix(b".").is_some_and(is_number))
    }

    /// What a text of an object stands for; `numbers` are those that follow the stem in the library's names.
    pub fn read_opened_text<'n>(&self, text: &[u8], numbers: impl Iterator<Item = &'n str>) -> OpenedText {
        let at = text.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
        let (folder, name) = text.split_at(at);
        if text.iter().any(|byte| FOREIGN.contains(byte)) {
            return OpenedText::Other;
        }
        let known = known_folder(folder);
        match () {
            () if known == folder && self.is_exact_name(name) => OpenedText::Exact,
            () if self.is_exact_name(name) => {
                let ending = text.get(folder.len() - known.len()..).unwrap_or_default();
                OpenedText::Ending(ending.into())
            }
            () if known == folder => self.numbered(folder, name, numbers),
            () => OpenedText::Other,
        }
    }

    /// Whether a text is about the library: it holds the beginning of its name, or is one of its functions.
    pub fn is_meant_in(&self, text: &[u8]) -> bool {
        let name = self.stem.as_bytes();
        // Instructions hold no more of a name than eight bytes at once.
        let word = name.get(..8).unwrap_or(name);
        self.is_function(text) || contains_bytes(text, word)
    }

    /// The name of the library that a text ends with, behind a folder or the words of a message.
    pub fn tail_of<'t>(&self, text: &'t [u8]) -> Option<&'t [u8]> {
        let at = text
            .windows(self.stem.len())
            .rposition(|window| window == self.stem.as_bytes())?;
        text.get(at..).filter(|tail| self.is_exact_name(tail))
    }

    /// The names that a pattern of a name can become.
    fn numbered<'n>(&self, folder: &[u8], name: &[u8], numbers: impl Iterator<Item = &'n str>) -> OpenedText {
        let Some(rest) = name
            .strip_prefix(self.stem.as_bytes())
            .and_then(|rest| rest.strip_prefix(b"."))
        else {
            return OpenedText::Other;
        };
        // A name that ends with its dot goes on with a number as well: the program appends it.
        let rest = if rest.is_empty() { b"%s" } else { rest };
        if !is_number(&without_conversions(rest)) {
            return OpenedText::Other;
        }
        let fits = numbers.filter(|number| fills(rest, number.as_bytes()));
        let whole = |number: &str| [folder, self.stem.as_bytes(), b".", number.as_bytes()].concat().into();
        OpenedText::Numbered(fits.map(whole).collect())
    }
}

/// The end of a folder that is known before the program runs: all of it, but for what is behind a conversion or a
/// variable that ld.so does not expand (ld.so(8), "Dynamic string tokens").
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
    // From the slash on: what comes in front of it is a folder.
    folder
        .get(folder.len() - (known + 1).min(folder.len())..)
        .unwrap_or_default()
}

/// Digits with dots between them.
fn is_number(text: &[u8]) -> bool {
    text.split(|&byte| byte == b'.')
        .all(|part| !part.is_empty() && part.iter().all(u8::is_ascii_digit))
}

/// The text with a digit in the place of each conversion.
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

/// Whether a number is what a pattern can become: each conversion stands for digits, and one of a text for dots too.
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
