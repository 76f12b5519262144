//! JSON objects with a few changed fields; all other fields keep their exact text.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

/// An object with the exact text of its values, because a JSON number may exceed every type here.
pub(super) type RawObject = IndexMap<String, Box<RawValue>>;

/// Serializes a value.
///
/// Errors: The serialization error.
pub(super) fn raw(value: &impl Serialize) -> Result<Box<RawValue>, String> {
    to_raw_value(value).map_err(|error| error.to_string())
}

/// A field of an object; `None` if it has another type.
pub(super) fn field<'o, T: Deserialize<'o>>(object: &'o RawObject, key: &str) -> Option<T> {
    serde_json::from_str(object.get(key)?.get()).ok()
}
