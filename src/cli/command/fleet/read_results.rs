//! Reads the documents of a fleet.

use crate::cli::terminal::{CommandError, report_error};
use crate::fleet::{FleetFailure, FleetSettings, ImageResult, RESULTS, document_name};
use crate::judge::outcome::RunExit;
use image_source::in_parallel;
use image_store::DocumentStore;

/// The number of documents read concurrently, because each read from object storage has a latency.
const AT_A_TIME: usize = 16;

/// The stored results of a fleet.
#[derive(Clone)]
pub(super) struct KeptResults {
    pub(super) results: Vec<ImageResult>,
    pub(super) failures: Vec<FleetFailure>,
    /// `Open` if a document could not be read.
    pub(super) exit: RunExit,
}

/// Reads all results and failures of a place, and reports damaged documents.
///
/// Errors: There is no fleet, or it cannot be read.
pub(super) fn read_results(place: &str) -> Result<KeptResults, CommandError> {
    let store = DocumentStore::open(place)?;
    if !store.exists(FleetSettings::NAME)? {
        return Err(format!("there are no results of a fleet in {place}").into());
    }
    let mut exit = RunExit::Clean;
    let results = read_folder(&store, RESULTS, read_result, &mut exit)?;
    let failures = read_folder(&store, FleetFailure::FOLDER, read_failure, &mut exit)?;
    Ok(KeptResults {
        results,
        failures,
        exit,
    })
}

fn read_result(bytes: &[u8]) -> Result<(String, ImageResult), String> {
    let read = ImageResult::read(bytes)?;
    Ok((document_name(RESULTS, &read.digest, &read.platform), read))
}

fn read_failure(bytes: &[u8]) -> Result<(String, FleetFailure), String> {
    let read = FleetFailure::read(bytes)?;
    Ok((document_name(FleetFailure::FOLDER, &read.digest, &read.platform), read))
}

/// The documents in a folder; `read` returns the expected name and the content.
fn read_folder<T: Send>(
    store: &DocumentStore,
    folder: &str,
    read: impl Fn(&[u8]) -> Result<(String, T), String> + Sync,
    exit: &mut RunExit,
) -> Result<Vec<T>, CommandError> {
    let names = store.list(folder)?;
    let all = in_parallel(&names, AT_A_TIME, |name| match store.read(name) {
        Ok(Some(bytes)) => match read(&bytes) {
            Ok((place, document)) if place == *name => Ok(Some(document)),
            // A copy, which would count twice.
            Ok((place, _)) => Err(format!(
                "{name} is what belongs to {place}, and does not count: remove it"
            )),
            Err(error) => Err(format!(
                "{name} cannot be read: {error}; remove it, and a result that is missing then is made by the next run"
            )),
        },
        // Deleted since the listing: a failure that has become a result.
        Ok(None) => Ok(None),
        Err(error) => Err(error.to_string()),
    });
    let mut documents = Vec::new();
    for one in all {
        match one {
            Ok(document) => documents.extend(document),
            Err(error) => *exit = report_error(&error),
        }
    }
    Ok(documents)
}
