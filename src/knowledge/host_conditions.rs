//! What decides on the host: an image cannot show it, so it is printed as notes and never judged.

use serde::Deserialize;

use super::api::Certainty;

/// A condition of the host (`profiles/cupti/host.yaml`).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostCondition {
    /// The name by which profilers refer to it.
    pub id: String,
    /// What holds, in sentences.
    pub says: String,
    /// How sure it is.
    pub certainty: Certainty,
    /// Where it is known from.
    pub source: String,
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_conditions_of_the_host_can_be_read() {
        let ids: Vec<&str> = crate::knowledge::Knowledge::built_in()
            .tables
            .host
            .iter()
            .map(|condition| &*condition.id)
            .collect();
        assert_eq!(
            ids,
            ["driver", "counters", "perf", "one-subscriber", "counters-taken", "mig"]
        );
    }
}
