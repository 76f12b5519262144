//! Names for the parts of an object. They are constants of this program, even after deserialization.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Deserializer, de};

/// A name for a part of an object, such as "the dynamic section". An alias, because serde would borrow a plain
/// `&'static str` from its input.
pub(super) type PartName = &'static str;

/// The maximum length of a name and the maximum number of names. Our own program never exceeds them.
const LONGEST: usize = 128;
const MOST: usize = 256;

/// The names deserialized so far. Each is leaked once.
static SEEN: Mutex<BTreeSet<PartName>> = Mutex::new(BTreeSet::new());

/// Deserializes a name.
///
/// Errors: Those of the format, and names beyond the limits.
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
