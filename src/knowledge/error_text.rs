//! The texts by which errors are found in lines: plain fragments, so that no data can make a search slow.

use memchr::memmem;

/// The bytes that `*` stands for, at most: mostly the version in a soname.
const WORD: usize = 128;
/// The bytes of a text, at least: fewer are in lines of any kind.
const BYTES: usize = 8;
/// The end of a text behind which the number of a result stands.
const NUMBER: &str = "{number}";

/// A text with its placeholders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ErrorText {
    /// What stands before the first `*`.
    pub first: Vec<u8>,
    /// What stands behind each `*`.
    others: Vec<Vec<u8>>,
    end: TextEnd,
}

/// What stands behind the last letter of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TextEnd {
    /// The rest of a word.
    AnyRest,
    /// The number of a result.
    Number,
    /// No letter or digit: of two names in capitals one may begin with the other.
    WordEnd,
}

/// A line that has a text.
pub(super) struct TextHit {
    /// The number with which the text ends.
    pub number: Option<u32>,
}

impl ErrorText {
    /// Errors: That it has too few letters, or a `*` with nothing before or behind it.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let (text, end) = match (text.strip_suffix('*'), text.strip_suffix(NUMBER)) {
            (Some(text), _) => (text, TextEnd::AnyRest),
            (None, Some(text)) => (text, TextEnd::Number),
            (None, None) => (text, TextEnd::WordEnd),
        };
        let mut fragments = text.split('*').map(comparable);
        let first = fragments.next().unwrap_or_default();
        let others: Vec<Vec<u8>> = fragments.collect();
        if first.is_empty() || others.iter().any(Vec::is_empty) {
            return Err("a text has letters before each *, and between two of them".to_owned());
        }
        let text = Self { first, others, end };
        if text.bytes() < BYTES {
            return Err(format!("a text of fewer than {BYTES} letters fits lines of any kind"));
        }
        Ok(text)
    }

    /// The bytes of a line that it explains, without those of its placeholders.
    pub(super) fn bytes(&self) -> usize {
        self.others.iter().fold(self.first.len(), |sum, part| sum + part.len())
    }

    /// Whether the rest of the text follows where its first fragment ends in a comparable line, and the number at its end.
    pub(super) fn follows(&self, line: &[u8], mut at: usize) -> Option<TextHit> {
        for part in &self.others {
            let rest = line.get(at..)?;
            let word = rest.iter().take(WORD).take_while(|byte| !byte.is_ascii_whitespace());
            let reach = rest.get(..(word.count() + part.len()).min(rest.len()))?;
            at += memmem::find(reach, part)? + part.len();
        }
        let rest = line.get(at..)?;
        match self.end {
            TextEnd::AnyRest => Some(TextHit { number: None }),
            TextEnd::WordEnd => {
                let is_letter = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
                let in_word =
                    line.get(at.checked_sub(1)?).is_some_and(is_letter) && rest.first().is_some_and(is_letter);
                (!in_word).then_some(TextHit { number: None })
            }
            TextEnd::Number => {
                let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
                let digits = std::str::from_utf8(rest.get(..digits)?).ok()?;
                let number = Some(digits.parse().ok()?);
                Some(TextHit { number })
            }
        }
    }
}

/// A text without what differs where people copy it: capitals, and the quote that shells take for a command.
pub(super) fn comparable(text: impl AsRef<[u8]>) -> Vec<u8> {
    let bytes = text.as_ref().to_ascii_lowercase().into_iter();
    bytes.map(|byte| if byte == b'`' { b'\'' } else { byte }).collect()
}
