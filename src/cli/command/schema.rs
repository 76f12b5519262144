//! `schema`: the contract of the JSON report.

use crate::judge::outcome::RunExit;
use crate::report::json;

use super::terminal::write_result;

/// Prints the JSON Schema of the report.
pub fn run_schema() -> RunExit {
    write_result(json::CONTRACT, RunExit::Clean)
}
