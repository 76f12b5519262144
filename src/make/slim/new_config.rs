//! The config of a rewritten image. Unchanged parts keep their exact text.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use crate::facts::SLIM_GPU_LABEL;
use image_linkage::digest::Digest;

/// An object with the exact text of its values, because a JSON number may exceed every type here.
pub(super) type RawObject = IndexMap<String, Box<RawValue>>;

/// Serializes a value.
///
/// Errors: The serialization error.
pub(super) fn raw(value: &impl Serialize) -> Result<Box<RawValue>, String> {
    to_raw_value(value).map_err(|error| error.to_string())
}

/// A field of an object; `None` if it has another type.
pub(super) fn field<'o, T: Deserialize<'o>>(object: &'o RawObject, key: &str) -> Option<T> {
    serde_json::from_str(object.get(key)?.get()).ok()
}

/// The history text of a layer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct LayerHistory {
    pub created_by: String,
    pub comment: String,
}

/// The relevant field of an existing entry.
#[derive(Deserialize)]
struct HistoryEntry {
    empty_layer: Option<bool>,
}

/// A new entry.
#[derive(Serialize)]
struct NewEntry<'a> {
    created: &'a str,
    #[serde(flatten)]
    added: Option<&'a LayerHistory>,
}

/// The changes to a config apart from its layers.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ConfigChange<'a> {
    /// The history of the last layer, if it is new.
    pub added: Option<&'a LayerHistory>,
    /// A changed `LD_LIBRARY_PATH`.
    pub library_path: Option<&'a str>,
    /// The GPUs that the image has code for.
    pub label: Option<&'a str>,
}

/// The config with new layers. `diff_ids` lists all layers.
///
/// Errors: Why the config is invalid.
pub(crate) fn write_config(config: &[u8], diff_ids: &[Digest], change: &ConfigChange<'_>) -> Result<Vec<u8>, String> {
    // An ordered map and not a type, because a type would lose unknown fields.
    let mut document: RawObject =
        serde_json::from_slice(config).map_err(|error| format!("the image's config cannot be read: {error}"))?;
    let ids: Vec<&str> = diff_ids.iter().map(AsRef::as_ref).collect();
    let mut rootfs: RawObject = field(&document, "rootfs").unwrap_or_default();
    rootfs.insert("type".to_owned(), raw(&"layers")?);
    rootfs.insert("diff_ids".to_owned(), raw(&ids)?);
    document.insert("rootfs".to_owned(), raw(&rootfs)?);
    if let Some(path) = change.library_path {
        let mut execution: RawObject = field(&document, "config").unwrap_or_default();
        let mut variables: Vec<String> = field(&execution, "Env").unwrap_or_default();
        for variable in variables.iter_mut().filter(|it| it.starts_with("LD_LIBRARY_PATH=")) {
            *variable = format!("LD_LIBRARY_PATH={path}");
        }
        execution.insert("Env".to_owned(), raw(&variables)?);
        document.insert("config".to_owned(), raw(&execution)?);
    }
    if let Some(gpus) = change.label {
        let mut execution: RawObject = field(&document, "config").unwrap_or_default();
        let mut labels: RawObject = field(&execution, "Labels").unwrap_or_default();
        labels.insert(SLIM_GPU_LABEL.to_owned(), raw(&gpus)?);
        execution.insert("Labels".to_owned(), raw(&labels)?);
        document.insert("config".to_owned(), raw(&execution)?);
    }
    if let Some(added) = change.added {
        // The time of the original image, because the current time would make every result different.
        let time: Option<String> = field(&document, "created");
        let created = time.as_deref().unwrap_or("1970-01-01T00:00:00Z");
        let there = document.get("history").map_or("null", |history| history.get());
        let mut history = serde_json::from_str::<Option<Vec<Box<RawValue>>>>(there)
            .map_err(|error| format!("the history of the image's config cannot be read: {error}"))?
            .unwrap_or_default();
        // Entries match layers by position, so fill in missing ones first.
        let told = history.iter().filter(|entry| makes_layer(entry)).count();
        for _ in told + 1..diff_ids.len() {
            history.push(raw(&NewEntry { created, added: None })?);
        }
        let added = Some(added);
        history.push(raw(&NewEntry { created, added })?);
        document.insert("history".to_owned(), raw(&history)?);
    }
    serde_json::to_vec(&document).map_err(|error| error.to_string())
}

fn makes_layer(entry: &RawValue) -> bool {
    // image-spec, config.md: an entry of an empty layer, such as ENV, has no diff_id.
    let entry: Option<HistoryEntry> = serde_json::from_str(entry.get()).ok();
    entry.is_none_or(|entry| entry.empty_layer != Some(true))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::{ConfigChange, LayerHistory, write_config};
    use image_linkage::digest::Digest;

    fn digest(letter: char) -> Digest {
        let hex: String = std::iter::repeat_n(letter, 64).collect();
        format!("sha256:{hex}").parse().unwrap()
    }

    fn added() -> LayerHistory {
        LayerHistory {
            created_by: "cupti-audit slim".to_owned(),
            comment: "adds a file".to_owned(),
        }
    }

    fn change<'a>(added: Option<&'a LayerHistory>, library_path: Option<&'a str>) -> ConfigChange<'a> {
        ConfigChange {
            added,
            library_path,
            label: None,
        }
    }

    #[test]
    fn a_label_joins_the_others() {
        let labelled = ConfigChange {
            label: Some("sm_90"),
            ..ConfigChange::default()
        };
        for (config, expected) in [
            ("{}", r#""config":{"Labels":{"cupti-audit.slim.gpu":"sm_90"}}"#),
            (
                r#"{"config":{"User":"a","Labels":{"b":"c","cupti-audit.slim.gpu":"sm_80"}}}"#,
                r#""config":{"User":"a","Labels":{"b":"c","cupti-audit.slim.gpu":"sm_90"}}"#,
            ),
        ] {
            let bytes = write_config(config.as_bytes(), &[], &labelled).unwrap();
            let written = String::from_utf8(bytes).unwrap();
            assert!(written.contains(expected), "{written}");
        }
    }

    fn changed(document: &str) -> String {
        let ids = [digest('a'), digest('b')];
        let bytes = write_config(document.as_bytes(), &ids, &change(Some(&added()), None)).unwrap();
        String::from_utf8(bytes)
            .unwrap()
            .replace(&ids[0].to_string(), "A")
            .replace(&ids[1].to_string(), "B")
    }

    #[test]
    fn a_config_keeps_what_it_says_and_gains_layers_and_history() {
        assert_eq!(
            changed(
                r#"{"os":"linux","created":"2024-05-01T00:00:00Z","x":{"b":1,"a":2},"history":[{"created_by":"one"},{"created_by":"ENV","empty_layer":true}],"rootfs":{"type":"layers","diff_ids":["old"]}}"#
            ),
            r#"{"os":"linux","created":"2024-05-01T00:00:00Z","x":{"b":1,"a":2},"history":[{"created_by":"one"},{"created_by":"ENV","empty_layer":true},{"created":"2024-05-01T00:00:00Z","created_by":"cupti-audit slim","comment":"adds a file"}],"rootfs":{"type":"layers","diff_ids":["A","B"]}}"#
        );
    }

    #[test]
    fn what_no_type_here_holds_is_written_as_it_was() {
        let written = changed(r#"{"a":12345678901234567890123,"b":1.10,"c":-0,"rootfs":{"x":1e400}}"#);
        for kept in [
            r#""a":12345678901234567890123,"b":1.10,"c":-0,"#,
            r#""rootfs":{"x":1e400,"type":"layers","#,
        ] {
            assert!(written.contains(kept), "{written}");
        }
    }

    #[test]
    fn a_history_that_lacks_layers_is_filled_up_so_that_the_new_entry_stands_at_its_layer() {
        for document in [r#"{"rootfs":{}}"#, r#"{"rootfs":{},"history":null}"#] {
            let document: Value = serde_json::from_str(&changed(document)).unwrap();
            let history = document["history"].as_array().unwrap();
            assert_eq!(history.len(), 2);
            assert_eq!(history[1]["comment"], "adds a file");
        }
        assert!(write_config(b"[]", &[], &change(None, None)).is_err());
        assert!(write_config(br#"{"history":7}"#, &[], &change(Some(&added()), None)).is_err());
    }

    #[test]
    fn only_the_library_path_of_the_environment_is_another_one() {
        let write = |config: &str| {
            let bytes = write_config(config.as_bytes(), &[], &change(None, Some("/b"))).unwrap();
            String::from_utf8(bytes).unwrap()
        };
        assert_eq!(
            write(r#"{"config":{"X":1e9,"Env":["A=1","LD_LIBRARY_PATH=/a::/b","B=2"],"Cmd":null},"y":1.0}"#),
            r#"{"config":{"X":1e9,"Env":["A=1","LD_LIBRARY_PATH=/b","B=2"],"Cmd":null},"y":1.0,"rootfs":{"type":"layers","diff_ids":[]}}"#
        );
    }
}
