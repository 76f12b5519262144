//! `schema`: the contract of the JSON report.

use crate::judge::outcome::Exit;
use crate::report::json;

use super::write;

/// Prints the JSON Schema of the report.
pub fn schema() -> Exit {
    write(Ok(json::CONTRACT.to_owned()), Exit::Clean)
}
