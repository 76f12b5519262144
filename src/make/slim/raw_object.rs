//! JSON objects of which only some fields are changed: the others stay as they are written.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

/// An object whose values are as they are written: a number of JSON may be larger than any type here.
pub(super) type RawObject = IndexMap<String, Box<RawValue>>;

/// A value as it is written.
///
/// Errors: What the value says against it.
pub(super) fn raw(value: &impl Serialize) -> Result<Box<RawValue>, String> {
    to_raw_value(value).map_err(|error| error.to_string())
}

/// A field of an object as a type; `None` where it is of another one.
pub(super) fn field<'o, T: Deserialize<'o>>(object: &'o RawObject, key: &str) -> Option<T> {
    serde_json::from_str(object.get(key)?.get()).ok()
}
