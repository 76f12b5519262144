//! Matches error texts in lines. They are plain fragments, so no data can make a search slow.

use memchr::memmem;

/// The maximum bytes that `*` matches, usually the version in a soname.
const WORD: usize = 128;
/// The minimum bytes of a text; shorter ones would match unrelated lines.
const BYTES: usize = 8;
/// The end of a text that a result number follows.
const NUMBER: &str = "{number}";

/// A text with its placeholders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ErrorText {
    /// The text before the first `*`.
    pub first: Vec<u8>,
    /// The text after each `*`.
    others: Vec<Vec<u8>>,
    end: TextEnd,
}

/// The rest after a text's last letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TextEnd {
    /// The rest of a word.
    AnyRest,
    /// A result number.
    Number,
    /// No letter or digit, because one constant's name may be a prefix of another's.
    WordEnd,
}

/// A match of a text in a line.
pub(super) struct TextHit {
    /// The number at the end of the match.
    pub number: Option<u32>,
}

impl ErrorText {
    /// Errors: The text has too few letters, or a `*` at an end.
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

    /// The number of bytes in a line that it explains, without its placeholders.
    pub(super) fn bytes(&self) -> usize {
        self.others.iter().fold(self.first.len(), |sum, part| sum + part.len())
    }

    /// Matches the rest of the text in a normalized line, after the first fragment. Returns the number at its end.
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
                let end = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
                let digits = std::str::from_utf8(rest.get(..end)?).ok()?;
                let number = Some(digits.parse().ok()?);
                Some(TextHit { number })
            }
        }
    }
}

/// Normalizes text that people copy: lower case, and a quote instead of a backtick, which shells execute.
pub(super) fn comparable(text: impl AsRef<[u8]>) -> Vec<u8> {
    let bytes = text.as_ref().to_ascii_lowercase().into_iter();
    bytes.map(|byte| if byte == b'`' { b'\'' } else { byte }).collect()
}
