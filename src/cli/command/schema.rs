//! `schema`: the contract of the JSON report.

use crate::judge::outcome::RunExit;
use crate::report::json;

use super::write;

/// Prints the JSON Schema of the report.
pub fn schema() -> RunExit {
    write(Ok(json::CONTRACT.to_owned()), RunExit::Clean)
}
