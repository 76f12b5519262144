//! Whether a marker (PEP 508) may hold on Linux x86-64, for some Python and some extras.

use std::collections::BTreeMap;

use pep508_rs::MarkerTree;

const LINUX: &str = "sys_platform == 'linux' and platform_system == 'Linux' and os_name == 'posix' \
                     and platform_machine == 'x86_64'";
/// The maximum length of an alternative in bytes.
const LENGTH: usize = 4096;
/// The maximum number of quotes and brackets in an alternative. It becomes a decision diagram, whose size may double
/// with each comparison.
const SIGNS: usize = 48;
/// The maximum number of alternatives in a lock, because the library keeps every diagram.
const ALTERNATIVES: usize = 2048;

/// The alternatives that were seen so far. A lock repeats few of them thousands of times.
#[derive(Debug, Default)]
pub(super) struct LinuxMarkers(BTreeMap<String, bool>);

impl LinuxMarkers {
    /// Whether one of the markers may hold; true if there is none. A marker that cannot be read may hold.
    pub(super) fn any_may_hold(&mut self, markers: &[String]) -> bool {
        markers.is_empty() || markers.iter().any(|marker| self.may_hold(marker))
    }

    fn may_hold(&mut self, marker: &str) -> bool {
        let mut alternative = String::new();
        let mut depth: usize = 0;
        for part in marker.split(" or ") {
            alternative += part;
            depth = (depth + part.matches('(').count()).saturating_sub(part.matches(')').count());
            if depth > 0 {
                alternative += " or ";
            } else if self.alternative_may_hold(&std::mem::take(&mut alternative)) {
                return true;
            }
        }
        !alternative.is_empty()
    }

    fn alternative_may_hold(&mut self, text: &str) -> bool {
        let is_long = text.len() > LENGTH || text.matches(['(', '\'', '"']).count() > SIGNS;
        if is_long || self.0.len() == ALTERNATIVES {
            return true;
        }
        if let Some(known) = self.0.get(text) {
            return *known;
        }
        let trees = (text.parse::<MarkerTree>(), LINUX.parse());
        let holds = !matches!(&trees, (Ok(marker), Ok(linux)) if marker.is_disjoint(linux));
        self.0.insert(text.to_owned(), holds);
        holds
    }
}
