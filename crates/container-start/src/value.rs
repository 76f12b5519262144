//! Values with unknown parts.
//!
//! Inside the crate a value is a `String`. Each hole is one private-use character that encodes its index in the
//! [`HoleTable`]. Text from the image never contains such a character ([`clean_text`]).

/// The value of a variable or a word: known text with holes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Value {
    /// The parts in order. Adjacent texts are merged.
    pub pieces: Vec<ValuePiece>,
}

/// A part of a value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ValuePiece {
    /// Known text.
    Text(String),
    /// A part that depends on run time.
    Hole(Hole),
}

/// Why a part of a value is unknown.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hole {
    /// The place of its origin: `/entry.sh:12`.
    pub place: String,
    /// The origin in words: "the output of `nvidia-smi`".
    pub reason: String,
}

impl Value {
    /// The whole text; `None` if it has a hole.
    pub fn text(&self) -> Option<&str> {
        match &*self.pieces {
            [] => Some(""),
            [ValuePiece::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// The first hole.
    pub fn hole(&self) -> Option<&Hole> {
        self.pieces.iter().find_map(|piece| match piece {
            ValuePiece::Hole(hole) => Some(hole),
            ValuePiece::Text(_) => None,
        })
    }

    /// The text with each hole replaced by `by`.
    pub fn filled(&self, by: &str) -> String {
        let texts = self.pieces.iter().map(|piece| match piece {
            ValuePiece::Text(text) => text,
            ValuePiece::Hole(_) => by,
        });
        texts.collect()
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        let mut pieces = Vec::new();
        if !text.is_empty() {
            pieces.push(ValuePiece::Text(text.to_owned()));
        }
        Self { pieces }
    }
}

/// The origin of an unknown part. Later decisions depend on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HoleKind {
    /// A variable or file that the engine may provide.
    Given,
    /// The output of the program with this name.
    Output(String),
    /// Anything else.
    Other,
}

/// All holes of one reading.
#[derive(Debug, Default)]
pub(crate) struct HoleTable {
    records: Vec<(Hole, HoleKind)>,
}

/// The first and last character that stand for holes (Supplementary Private Use Area-A).
const FIRST: u32 = 0xF_0000;
const LAST: u32 = 0xF_FFFD;
/// The end of a field in marked text ([`crate::pattern`]).
pub(crate) const BREAK: char = '\u{FFFFE}';
/// A quoted text that is empty. It makes a field.
pub(crate) const EMPTY: char = '\u{FFFFF}';
/// The first character that stands for a quoted one (Supplementary Private Use Area-B).
pub(crate) const QUOTED: u32 = 0x10_0000;

impl HoleTable {
    /// The text of a hole. Equal records share one hole.
    pub(crate) fn add(&mut self, kind: HoleKind, place: &str, reason: &str) -> String {
        let (place, reason) = (place.to_owned(), reason.to_owned());
        let record = (Hole { place, reason }, kind);
        let known = self.records.iter().position(|other| *other == record);
        let number = known.unwrap_or_else(|| {
            // If all characters are used, the last record serves for the rest.
            if self.records.len() <= (LAST - FIRST) as usize {
                self.records.push(record);
            }
            self.records.len() - 1
        });
        let letter = u32::try_from(number)
            .ok()
            .and_then(|number| char::from_u32(FIRST + number));
        letter.unwrap_or_default().to_string()
    }

    /// The kinds of the holes in a text.
    pub(crate) fn kinds(&self, text: &str) -> impl Iterator<Item = &HoleKind> {
        text.chars()
            .filter_map(|letter| self.record(letter))
            .map(|(_, kind)| kind)
    }

    /// Converts the internal form into a public value.
    pub(crate) fn value(&self, text: &str) -> Value {
        let mut value = Value::default();
        for letter in text.chars() {
            match (self.record(letter), value.pieces.last_mut()) {
                (Some((hole, _)), _) => value.pieces.push(ValuePiece::Hole(hole.clone())),
                (None, Some(ValuePiece::Text(text))) => text.push(letter),
                (None, _) => value.pieces.push(ValuePiece::Text(letter.to_string())),
            }
        }
        value
    }

    fn record(&self, letter: char) -> Option<&(Hole, HoleKind)> {
        self.records.get((letter as u32).checked_sub(FIRST)? as usize)
    }
}

/// Whether a character stands for a hole.
pub(crate) fn is_hole(letter: char) -> bool {
    (FIRST..=LAST).contains(&(letter as u32))
}

/// Whether the text has a hole.
pub(crate) fn is_open(text: &str) -> bool {
    text.contains(is_hole)
}

/// Whether the text is only holes. Such a text may be empty or several words.
pub(crate) fn is_all_hole(text: &str) -> bool {
    !text.is_empty() && text.chars().all(is_hole)
}

/// Decodes bytes from the image. Invalid UTF-8 and reserved characters become U+FFFD.
pub(crate) fn clean_text(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes).into_owned();
    // The UTF-8 form of every reserved character starts with 0xF3 or 0xF4, so most texts skip the scan.
    if bytes.iter().any(|byte| *byte >= 0xF3) {
        text.replace(|letter: char| letter as u32 >= FIRST, "\u{FFFD}")
    } else {
        text
    }
}
