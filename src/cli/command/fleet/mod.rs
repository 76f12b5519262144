//! `fleet`: many images, listed, audited in shares and reported together.

mod list;
mod read_results;
mod report;
mod run;

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::sync::{Mutex, PoisonError};

use crate::cli::fleet::{FleetAction, FleetArgs};
use crate::fleet::{WorkEntry, read_worklist};
use crate::judge::outcome::RunExit;

use super::command_error::CommandError;
use super::terminal::report_error;

/// The bytes of what names images: all objects of a large cluster.
const TEXT_BYTES: u64 = 1 << 30;

/// Does one step of auditing a fleet.
pub fn run_fleet(args: FleetArgs) -> Result<RunExit, CommandError> {
    match args.action {
        FleetAction::List(args) => list::list_fleet(*args),
        FleetAction::Run(args) => run::run_share(*args),
        FleetAction::Report(args) => report::report_fleet(&args),
    }
}

/// The text of a file, or of standard input for `-`.
///
/// Errors: It cannot be read, is too large or no text, in words.
fn read_text(file: &str) -> Result<String, String> {
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

/// Hands over each entry of a worklist, which may be of any length, with its number from 0; returns how many there are.
///
/// Errors: The lines that are none were said.
fn read_work_entries(file: &str, each: impl FnMut(usize, WorkEntry)) -> Result<usize, CommandError> {
    let read = if file == "-" {
        read_worklist(&mut io::stdin().lock(), each)
    } else {
        let opened = open_file(file).map_err(|error| format!("{file}: {error}"))?;
        read_worklist(&mut BufReader::new(opened), each)
    };
    read.map_err(|wrong| {
        let said = |line: &String| report_error(&format!("{file}: {line}"));
        wrong.iter().map(said).fold(RunExit::Open, RunExit::max).into()
    })
}

/// What `work` makes of each item, in the order of the items; so many are worked on at a time.
fn in_parallel<T: Sync, R: Send>(items: &[T], at_a_time: usize, work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = Mutex::new(items.iter().enumerate());
    let done = Mutex::new(Vec::with_capacity(items.len()));
    std::thread::scope(|scope| {
        for _ in 0..at_a_time.min(items.len()) {
            scope.spawn(|| {
                // The guard is gone before the work begins: a `while let` would hold it.
                let take = || next.lock().unwrap_or_else(PoisonError::into_inner).next();
                while let Some((number, item)) = take() {
                    let made = work(item);
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((number, made));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, made)| made).collect()
}
