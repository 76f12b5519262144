//! The image config: how a container starts (image-spec, config.md).

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::image_error::ImageError;
use crate::platform::Platform;
use image_linkage::digest::Digest;
use image_linkage::rootfs::FileCredentials;

/// The parts of an image config that affect the loader.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ImageConfig {
    /// The environment as key and value, in config order. The last value of a key wins.
    pub env: Vec<(String, String)>,
    /// The working directory; `None` means `/`.
    pub working_dir: Option<String>,
    /// The entry point followed by the command.
    pub command: Vec<String>,
    /// The user name or ID; `None` means root.
    pub user: Option<String>,
    /// The digests of the uncompressed layers, lowest first.
    pub diff_ids: Vec<Digest>,
    /// The history entry of each layer. Shorter than the layers if the history is incomplete.
    pub created_by: Vec<String>,
    /// The credentials of a running container's process. Overrides the config's user.
    pub running: Option<FileCredentials>,
    /// Settings without effect on the loader, which a derived image must keep.
    pub settings: ContainerSettings,
}

/// The remaining fields of an image config's `config`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ContainerSettings {
    /// `Entrypoint`: the program and its first arguments.
    pub entrypoint: Vec<String>,
    /// `Cmd`: default arguments, or the whole command.
    pub cmd: Vec<String>,
    /// `Labels` with string values.
    pub labels: BTreeMap<String, String>,
    /// The keys of `ExposedPorts`.
    pub ports: Vec<String>,
    /// The keys of `Volumes`.
    pub volumes: Vec<String>,
    /// `StopSignal`: a name or number.
    pub stop_signal: Option<String>,
    /// `Shell` (Docker): the shell for the shell form of instructions.
    pub shell: Vec<String>,
    /// `Healthcheck` (Docker); `None` if inherited from the base.
    pub healthcheck: Option<Healthcheck>,
    /// `OnBuild` (Docker): instructions that run first in builds based on this image.
    pub on_build: Vec<String>,
}

/// A health check (Docker image specification 1.2, `Healthcheck`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Healthcheck {
    /// `NONE`, `CMD` and the words of a program, or `CMD-SHELL` and a shell command.
    pub test: Vec<String>,
    /// Nanoseconds between checks; 0 for the engine's default.
    pub interval: u64,
    /// Nanoseconds after which a check fails.
    pub timeout: u64,
    /// Nanoseconds a container has to start.
    pub start_period: u64,
    /// The number of consecutive failures that make it unhealthy.
    pub retries: u32,
}

impl ImageConfig {
    /// The value of `key` in a process.
    pub fn env(&self, key: &str) -> Option<&str> {
        self.env
            .iter()
            .rev()
            .find(|(name, _)| name == key)
            .map(|(_, value)| value.as_str())
    }

    /// Sets a variable, replacing its old value, as `ENV` does.
    pub fn set_env(&mut self, key: &str, value: String) {
        self.env.retain(|(name, _)| name != key);
        self.env.push((key.to_owned(), value));
    }
}

/// Only the used fields, all optional: engines accept configs that strict parsing would reject.
#[derive(Deserialize)]
struct ConfigDocument {
    architecture: Option<String>,
    os: Option<String>,
    variant: Option<String>,
    config: Option<ExecutionConfig>,
    rootfs: Option<ConfigRootfs>,
    history: Option<Vec<HistoryEntry>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase")]
struct ExecutionConfig {
    env: Option<Vec<String>>,
    working_dir: Option<String>,
    entrypoint: Option<Vec<String>>,
    cmd: Option<Vec<String>>,
    user: Option<String>,
    #[serde(flatten)]
    rest: serde_json::Map<String, Value>,
}

impl ExecutionConfig {
    /// The settings. Fields of a wrong type are ignored.
    fn settings(&self) -> ContainerSettings {
        // Parsed field by field, because engines start images with a field of a wrong type.
        let labels = self.map("Labels");
        let stop_signal = self.rest.get("StopSignal").and_then(Value::as_str).unwrap_or_default();
        let check = self
            .rest
            .get("Healthcheck")
            // serde would also accept a list and assign its items to the fields.
            .filter(|check| check.is_object())
            .cloned();
        ContainerSettings {
            entrypoint: self.entrypoint.clone().unwrap_or_default(),
            cmd: self.cmd.clone().unwrap_or_default(),
            labels: labels
                .filter_map(|(key, label)| Some((key.clone(), label.as_str()?.to_owned())))
                .collect(),
            ports: self.map("ExposedPorts").map(|(port, _)| port.clone()).collect(),
            volumes: self.map("Volumes").map(|(volume, _)| volume.clone()).collect(),
            stop_signal: (!stop_signal.is_empty()).then(|| stop_signal.to_owned()),
            shell: strings(self.rest.get("Shell")),
            healthcheck: check.and_then(|check| serde_json::from_value(check).ok()),
            on_build: strings(self.rest.get("OnBuild")),
        }
    }

    fn map(&self, key: &str) -> impl Iterator<Item = (&String, &Value)> {
        self.rest.get(key).and_then(Value::as_object).into_iter().flatten()
    }
}

fn strings(value: Option<&Value>) -> Vec<String> {
    let all = value.and_then(Value::as_array).into_iter().flatten();
    all.filter_map(|text| text.as_str().map(str::to_owned)).collect()
}

#[derive(Deserialize)]
struct ConfigRootfs {
    diff_ids: Option<Vec<Digest>>,
}

#[derive(Deserialize)]
struct HistoryEntry {
    created_by: Option<String>,
    comment: Option<String>,
    empty_layer: Option<bool>,
}

/// Parses an image config: its platform and the used fields.
///
/// Errors: [`ImageError::NotAnImage`] if the document is not a JSON object or has no `rootfs`, like the config of a
/// Helm chart.
pub fn read_image_config(what: &str, bytes: &[u8]) -> Result<(Platform, ImageConfig), ImageError> {
    let not_an_image = |reason: String| ImageError::not_an_image(what, reason);
    let document: ConfigDocument =
        serde_json::from_slice(bytes).map_err(|error| not_an_image(format!("its config cannot be read: {error}")))?;
    // Charts, signatures and other artifacts have configs without a root file system.
    let Some(diff_ids) = document.rootfs.and_then(|rootfs| rootfs.diff_ids) else {
        return Err(not_an_image("its config has no rootfs.diff_ids".to_owned()));
    };
    let platform = Platform {
        os: document
            .os
            // Handmade and early images omit it. Engines assume their own system.
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
        running: None,
        created_by: document
            .history
            .unwrap_or_default()
            .into_iter()
            .filter_map(layer_history)
            .collect(),
    };
    Ok((platform, config))
}

/// Splits `KEY=VALUE` at the first `=`. Without one, the value is empty.
pub fn split_env(pair: &str) -> (String, String) {
    let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
    (key.to_owned(), value.to_owned())
}

/// The history text of a layer; `None` for an entry without a layer.
fn layer_history(history: HistoryEntry) -> Option<String> {
    // `ENV` and `CMD` steps change only the config.
    if history.empty_layer == Some(true) {
        return None;
    }
    let text = history
        .created_by
        .filter(|text| !text.is_empty())
        // `docker import` leaves `created_by` empty and writes "Imported from -" as the comment.
        .or(history.comment);
    // Keep an empty text for a layer; otherwise later texts would shift.
    Some(text.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::{ContainerSettings, ImageConfig, read_image_config};
    use crate::Platform;

    #[test]
    fn empty_layers_of_the_history_are_left_out_and_the_last_env_wins() {
        let json = br#"{"architecture":"arm64","variant":"v8","os":"linux","config":{"Env":["A=1","B=x=y","A=2","C"],
            "Entrypoint":["/e"],"Cmd":["c"],"WorkingDir":""},"rootfs":{"type":"layers","diff_ids":[]},
            "history":[{"created_by":"RUN one"},{"created_by":"ENV A=1","empty_layer":true},{"comment":"Imported from -"}]}"#;
        let (platform, config) = read_image_config("config", json).unwrap();
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
    fn settings_of_another_type_are_left_out_and_the_rest_is_read() {
        let json = br#"{"rootfs":{"diff_ids":[]},"config":{"Labels":{"a":"1","b":null},"ExposedPorts":{"80/tcp":{}},
            "Volumes":null,"Healthcheck":{"Test":["CMD","x"],"Interval":-1},"OnBuild":["RUN x",1],"StopSignal":9}}"#;
        let settings = read_image_config("config", json).unwrap().1.settings;
        let labels = [("a".to_owned(), "1".to_owned())];
        let expected = ContainerSettings {
            labels: labels.into_iter().collect(),
            ports: vec!["80/tcp".to_owned()],
            on_build: vec!["RUN x".to_owned()],
            ..ContainerSettings::default()
        };
        assert_eq!(settings, expected);
    }

    #[test]
    fn the_config_of_an_artifact_is_not_an_image() {
        let error = read_image_config("chart", br#"{"name":"chart","version":"1"}"#).unwrap_err();
        assert_eq!(
            error.to_string(),
            "chart is not a container image: its config has no rootfs.diff_ids"
        );
        assert!(read_image_config("x", b"<html>").is_err());
        assert_eq!(
            read_image_config("x", br#"{"rootfs":{"diff_ids":[]},"config":null,"history":null}"#)
                .unwrap()
                .1,
            ImageConfig::default()
        );
    }
}
