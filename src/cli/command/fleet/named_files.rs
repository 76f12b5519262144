//! The input files of a fleet: image names and worklists.

use std::fs::File;
use std::io::{self, BufReader, Read};

use crate::cli::terminal::{CommandError, report_error};
use crate::fleet::{WorkEntry, read_worklist};
use crate::judge::outcome::RunExit;

/// The maximum size of a text with image names in bytes; it is held in memory. Ten thousand pods take 100 MB.
const TEXT_BYTES: u64 = 128 << 20;

/// The text of a file, or of standard input for `-`.
///
/// Errors: The file cannot be read, is too large, or is not text, in words.
pub(super) fn read_text(file: &str) -> Result<String, String> {
    let mut text = String::new();
    let mut take = |from: &mut dyn Read| from.take(TEXT_BYTES + 1).read_to_string(&mut text);
    let read = match file {
        "-" => take(&mut io::stdin().lock()),
        _ => open_file(file).and_then(|mut opened| take(&mut opened)),
    };
    let shown = if file == "-" { "standard input" } else { file };
    let bytes = read.map_err(|error| format!("{shown}: {error}"))?;
    if u64::try_from(bytes).is_ok_and(|bytes| bytes <= TEXT_BYTES) {
        return Ok(text);
    }
    Err(format!("{shown} is larger than {TEXT_BYTES} bytes"))
}

#[expect(clippy::disallowed_methods, reason = "the user names the file")]
fn open_file(file: &str) -> io::Result<File> {
    File::open(file)
}

/// Calls `each` with the number from 0 and each entry of a worklist of any length. Returns the number of entries.
///
/// Errors: Invalid lines, which were reported, or no entry.
pub(super) fn read_work_entries(file: &str, each: impl FnMut(usize, WorkEntry)) -> Result<usize, CommandError> {
    let read = if file == "-" {
        read_worklist(&mut io::stdin().lock(), each)
    } else {
        let opened = open_file(file).map_err(|error| format!("{file}: {error}"))?;
        read_worklist(&mut BufReader::new(opened), each)
    };
    let count = read.map_err(|wrong| {
        let said = |line: &String| report_error(&format!("{file}: {line}"));
        wrong.iter().map(said).fold(RunExit::Open, RunExit::max)
    })?;
    // A failed `fleet list > FILE` leaves an empty file, and a report on it would pass.
    if count == 0 {
        return Err(format!("{file}: it lists no image; did cupti-audit fleet list fail?").into());
    }
    Ok(count)
}
