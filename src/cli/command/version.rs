//! `--version`: which build this is, and up to where it knows CUPTI.

use super::terminal::write_result;
use crate::judge::outcome::RunExit;
use crate::knowledge::Knowledge;

/// Prints the version, and ends the program.
pub fn show_version() -> ! {
    let exit = write_result(&version_text(), RunExit::Clean);
    std::process::exit(exit as i32)
}

/// The version, the commit and the target of the build, and the newest CUPTI whose files are known.
fn version_text() -> String {
    let commit = option_env!("CUPTI_AUDIT_COMMIT").unwrap_or("not known");
    let releases = &Knowledge::built_in().tables.releases;
    // The oldest comes first.
    let newest = releases.versions_for("x86_64").pop().unwrap_or_default();
    format!(
        "{} {}\ncommit: {commit}\ntarget: {}\nnewest CUPTI known: {newest}\n",
        env!("CARGO_PKG_NAME"),
        env!("CARGO_PKG_VERSION"),
        env!("CUPTI_AUDIT_TARGET"),
    )
}
