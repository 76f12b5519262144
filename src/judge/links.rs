//! Libraries that objects of the image need but do not get.

use super::rule::{Evidence, Hit, Shown};
use crate::facts::RequestOutcome;
use crate::facts::object_links::{LackedLibrary, ObjectLinks};

/// One hit per missing library.
pub(super) fn find_links(links: &ObjectLinks) -> Vec<Hit> {
    links.lacks.iter().map(missing).collect()
}

fn missing(lack: &LackedLibrary) -> Hit {
    let hit = if lack.outcome == RequestOutcome::Refused {
        Hit::new("library-refused").value("words", Shown::known(lack.message.clone()))
    } else if lack.elsewhere.is_empty() {
        Hit::new("missing-library")
    } else {
        let elsewhere: Vec<String> = lack.elsewhere.iter().map(ToString::to_string).collect();
        Hit::new("library-off-path")
            .value("elsewhere", Shown::known(elsewhere.join(", ")))
            .raise_if("stops-program", lack.stops_programs > 0)
    };
    hit.value("name", Shown::untrusted_bytes(&lack.name))
        .value("count", Shown::known(count_words(lack)))
        .at(lack.needed_by.iter().map(|(path, layer)| (path, Some(*layer))))
        .shown_by([Evidence::Words(lack.message.clone())])
        .shown_by(lack.searched.iter().cloned().map(Evidence::Searched))
}

/// The number of objects that request it directly, and of those that fail to load without it.
fn count_words(lack: &LackedLibrary) -> String {
    let users = match lack.needed_by.len() {
        1 => "1 object needs it".to_owned(),
        count => format!("{count} objects need it"),
    };
    // Objects that need it also fail to load, except those that find it in another process.
    match (lack.stops, lack.stops_programs) {
        (1, 0) if lack.needed_by.len() == 1 => users,
        (1, 1) if lack.needed_by.len() == 1 => format!("{users}, a program"),
        (stops, 0) => format!("{users}, and {stops} do not load without it"),
        (stops, programs) => format!("{users}, and {stops} do not load without it, {programs} of them programs"),
    }
}
