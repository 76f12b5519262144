//! The image config: what the container's process would start with (image-spec, config.md).

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{Digest, ImageError, Platform};

/// The parts of an image config that decide what the loader does.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ImageConfig {
    /// The environment as `KEY` and value, in the order of the config; the last of a key wins.
    pub env: Vec<(String, String)>,
    /// The working directory of the process; `None` means `/`.
    pub working_dir: Option<String>,
    /// The entry point followed by the command.
    pub command: Vec<String>,
    /// The user, by name or number; `None` means root.
    pub user: Option<String>,
    /// The digests of the uncompressed layers, lowest first.
    pub diff_ids: Vec<Digest>,
    /// What made each layer, one per layer; shorter than the layers where the history is incomplete.
    pub created_by: Vec<String>,
    /// What the loader does not care for, and an image made of this one has to keep.
    pub settings: Settings,
}

/// The rest of an image config's `config`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    /// `Entrypoint`.
    pub entrypoint: Vec<String>,
    /// `Cmd`.
    pub cmd: Vec<String>,
    /// `Labels`.
    pub labels: BTreeMap<String, String>,
    /// The keys of `ExposedPorts`.
    pub ports: Vec<String>,
    /// The keys of `Volumes`.
    pub volumes: Vec<String>,
    /// `StopSignal`.
    pub stop_signal: Option<String>,
    /// `Shell` (Docker's).
    pub shell: Vec<String>,
}

impl ImageConfig {
    /// The value that a process would see for `key`.
    pub fn env(&self, key: &str) -> Option<&str> {
        self.env
            .iter()
            .rev()
            .find(|(name, _)| name == key)
            .map(|(_, value)| value.as_str())
    }
}

/// Only the fields that are used, all optional: engines accept configs that a strict reading would refuse.
#[derive(Deserialize)]
struct Document {
    architecture: Option<String>,
    os: Option<String>,
    variant: Option<String>,
    config: Option<Execution>,
    rootfs: Option<RootFs>,
    history: Option<Vec<History>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase")]
struct Execution {
    env: Option<Vec<String>>,
    working_dir: Option<String>,
    entrypoint: Option<Vec<String>>,
    cmd: Option<Vec<String>>,
    user: Option<String>,
    labels: Option<BTreeMap<String, String>>,
    exposed_ports: Option<BTreeMap<String, serde_json::Value>>,
    volumes: Option<BTreeMap<String, serde_json::Value>>,
    stop_signal: Option<String>,
    shell: Option<Vec<String>>,
}

impl Execution {
    fn settings(&self) -> Settings {
        fn keys(map: Option<&BTreeMap<String, serde_json::Value>>) -> Vec<String> {
            map.into_iter().flat_map(BTreeMap::keys).cloned().collect()
        }
        Settings {
            entrypoint: self.entrypoint.clone().unwrap_or_default(),
            cmd: self.cmd.clone().unwrap_or_default(),
            labels: self.labels.clone().unwrap_or_default(),
            ports: keys(self.exposed_ports.as_ref()),
            volumes: keys(self.volumes.as_ref()),
            stop_signal: self.stop_signal.clone().filter(|signal| !signal.is_empty()),
            shell: self.shell.clone().unwrap_or_default(),
        }
    }
}

#[derive(Deserialize)]
struct RootFs {
    diff_ids: Option<Vec<Digest>>,
}

#[derive(Deserialize)]
struct History {
    created_by: Option<String>,
    comment: Option<String>,
    empty_layer: Option<bool>,
}

/// Reads an image config: its platform and what matters of the rest.
///
/// # Errors
/// [`ImageError::NotAnImage`] when the document is no JSON object, or has no `rootfs`, as the config of an
/// artifact such as a Helm chart.
pub fn read(what: &str, bytes: &[u8]) -> Result<(Platform, ImageConfig), ImageError> {
    let not_an_image = |reason: String| ImageError::NotAnImage {
        what: what.to_owned(),
        reason,
    };
    let document: Document = serde_json::from_slice(bytes)
        .map_err(|error| not_an_image(format!("its config cannot be read: {error}")))?;
    let Some(diff_ids) = document.rootfs.and_then(|rootfs| rootfs.diff_ids) else {
        return Err(not_an_image("its config has no rootfs.diff_ids".to_owned()));
    };
    let platform = Platform {
        os: document
            .os
            .filter(|os| !os.is_empty())
            .unwrap_or_else(|| "linux".to_owned()),
        architecture: document.architecture.unwrap_or_default(),
        variant: document.variant.filter(|variant| !variant.is_empty()),
    };
    let execution = document.config.unwrap_or_default();
    let config = ImageConfig {
        settings: execution.settings(),
        env: execution
            .env
            .unwrap_or_default()
            .iter()
            .map(|pair| split_env(pair))
            .collect(),
        working_dir: execution.working_dir.filter(|dir| !dir.is_empty()),
        command: [execution.entrypoint, execution.cmd]
            .into_iter()
            .flatten()
            .flatten()
            .collect(),
        user: execution.user.filter(|user| !user.is_empty()),
        diff_ids,
        created_by: document
            .history
            .unwrap_or_default()
            .into_iter()
            .filter_map(layer_history)
            .collect(),
    };
    Ok((platform, config))
}

/// Splits `KEY=VALUE` at the first `=`; a pair without one has an empty value.
pub fn split_env(pair: &str) -> (String, String) {
    let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
    (key.to_owned(), value.to_owned())
}

/// What made a layer; `None` for a history entry that made none.
fn layer_history(history: History) -> Option<String> {
    if history.empty_layer == Some(true) {
        return None;
    }
    let text = history
        .created_by
        .filter(|text| !text.is_empty())
        .or(history.comment);
    Some(text.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::{ImageConfig, read};
    use crate::image::Platform;

    #[test]
    fn empty_layers_of_the_history_are_left_out_and_the_last_env_wins() {
        let json = br#"{"architecture":"arm64","variant":"v8","os":"linux","config":{"Env":["A=1","B=x=y","A=2","C"],
            "Entrypoint":["/e"],"Cmd":["c"],"WorkingDir":""},"rootfs":{"type":"layers","diff_ids":[]},
            "history":[{"created_by":"RUN one"},{"created_by":"ENV A=1","empty_layer":true},{"comment":"Imported from -"}]}"#;
        let (platform, config) = read("config", json).unwrap();
        assert_eq!(
            platform,
            Platform {
                os: "linux".into(),
                architecture: "arm64".into(),
                variant: Some("v8".into())
            }
        );
        assert_eq!(config.env("A"), Some("2"));
        assert_eq!(config.env("B"), Some("x=y"));
        assert_eq!(config.env("D"), None);
        assert_eq!(config.created_by, ["RUN one", "Imported from -"]);
        assert_eq!(config.command, ["/e", "c"]);
        assert_eq!(config.working_dir, None);
        assert_eq!(
            (config.settings.entrypoint, config.settings.cmd),
            (vec!["/e".to_owned()], vec!["c".to_owned()])
        );
    }

    #[test]
    fn the_config_of_an_artifact_is_not_an_image() {
        let error = read("chart", br#"{"name":"chart","version":"1"}"#).unwrap_err();
        assert_eq!(
            error.to_string(),
            "chart is not a container image: its config has no rootfs.diff_ids"
        );
        assert!(read("x", b"<html>").is_err());
        assert_eq!(
            read(
                "x",
                br#"{"rootfs":{"diff_ids":[]},"config":null,"history":null}"#
            )
            .unwrap()
            .1,
            ImageConfig::default()
        );
    }
}
