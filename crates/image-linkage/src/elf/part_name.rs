//! The names of the parts of an object, in words: constants of this program, also where they come back from bytes.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Deserializer, de};

/// The words for a part of an object, such as "the dynamic section". By this name and not as a reference, which serde
/// would take for bytes of its input.
pub(super) type PartName = &'static str;

/// The bytes of such words, and how many there are: what is beyond comes from no program of ours.
const LONGEST: usize = 128;
const MOST: usize = 256;

/// The words that came back from bytes so far, each held once for as long as the program runs.
static SEEN: Mutex<BTreeSet<PartName>> = Mutex::new(BTreeSet::new());

/// Reads words that were written as text.
///
/// Errors: What the format says, and more or longer words than this program has.
pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PartName, D::Error> {
    let text = <&str>::deserialize(from)?;
    let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = seen.get(text) {
        return Ok(known);
    }
    if text.len() > LONGEST || seen.len() >= MOST {
        return Err(de::Error::custom("no such part of an object"));
    }
    let words = Box::leak(text.into());
    seen.insert(words);
    Ok(words)
}
