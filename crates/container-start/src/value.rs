//! Values whose parts may be unknown.
//!
//! Inside the crate a value is a `String`: each hole in it is one character of a private plane, the number of its record
//! in the [`HoleTable`]. Text of the image never holds such a character ([`clean_text`]).

/// The value of a variable or a word: known text with holes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Value {
    /// The parts in order; no two texts stand side by side.
    pub pieces: Vec<ValuePiece>,
}

/// A part of a value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ValuePiece {
    /// What is known.
    Text(String),
    /// What only a run can tell.
    Hole(Hole),
}

/// Why a part of a value is not known.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hole {
    /// Where it comes from: `/entry.sh:12`.
    pub place: String,
    /// What it is: "the output of `nvidia-smi`".
    pub reason: String,
}

impl Value {
    /// The whole text; `None` if a part of it is not known.
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

    /// The text with `by` in the place of each hole.
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
        let pieces = Some(text.to_owned()).filter(|text| !text.is_empty());
        let pieces = pieces.map(ValuePiece::Text).into_iter().collect();
        Self { pieces }
    }
}

/// What an unknown part stands for, as far as a reader goes on by it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HoleKind {
    /// A variable or file that only a run brings.
    Given,
    /// The output of a program by this name.
    Output(String),
    /// Anything else.
    Other,
}

/// The records of all holes of one reading.
#[derive(Debug, Default)]
pub(crate) struct HoleTable {
    records: Vec<(Hole, HoleKind)>,
}

/// The first and last character that stand for holes (Supplementary Private Use Area-A).
const FIRST: u32 = 0xF_0000;
const LAST: u32 = 0xF_FFFD;

impl HoleTable {
    /// The text of a hole; the same reason at the same place is the same hole.
    pub(crate) fn add(&mut self, kind: HoleKind, place: &str, reason: &str) -> String {
        let (place, reason) = (place.to_owned(), reason.to_owned());
        let record = (Hole { place, reason }, kind);
        let known = self.records.iter().position(|other| *other == record);
        let number = known.unwrap_or_else(|| {
            // Beyond the last character the last record serves for all.
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

    /// The text as the caller sees it.
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

/// Whether a part of the text is not known.
pub(crate) fn is_open(text: &str) -> bool {
    text.contains(is_hole)
}

/// Whether nothing of the text is known, so that it may be empty, or several words.
pub(crate) fn is_all_hole(text: &str) -> bool {
    !text.is_empty() && text.chars().all(is_hole)
}

/// Bytes of the image as text in which no character stands for a hole; what is not UTF-8 becomes U+FFFD.
pub(crate) fn clean_text(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes).into_owned();
    // The holes' characters begin with this byte.
    let may_have_hole = bytes.contains(&0xF3);
    if may_have_hole {
        text.replace(is_hole, "\u{FFFD}")
    } else {
        text
    }
}
