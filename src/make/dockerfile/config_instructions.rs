//! Instructions that restore the original image's config on an image built from its files.

use crate::make::choose::PatchError;
use crate::make::quote::{quote_env, quote_json, refused, require_plain, require_writable};
use image_source::Healthcheck;
use image_source::ImageConfig;

/// The instructions, in the order in which Docker writes a config, with the variables of `set`.
///
/// Errors: [`PatchError::Name`] for a value with a line break, which a Dockerfile cannot contain.
pub(crate) fn config_instructions(config: &ImageConfig, set: &[(&str, &str)]) -> Result<Vec<String>, PatchError> {
    let settings = &config.settings;
    let mut lines = environment(config, set)?;
    for (key, value) in &settings.labels {
        // The key is quoted too: a config allows any key, and a space would end the word.
        let key = require_writable("a label", key)?;
        if key.contains('=') {
            return Err(refused("a label", key.as_bytes()));
        }
        let value = require_writable(&format!("the label {key}"), value)?;
        lines.push(format!("LABEL {}={}", quote_env(key), quote_env(value)));
    }
    for port in &settings.ports {
        let port = require_plain("a port", port.as_bytes())?;
        lines.push(format!("EXPOSE {port}"));
    }
    for volume in &settings.volumes {
        lines.push(format!("VOLUME {}", volume_path(volume)?));
    }
    if let Some(folder) = &config.working_dir {
        // Quoted, because a trailing space would be lost: the rest of the line is the path.
        let folder = require_writable("the working directory", folder)?;
        let plain = require_plain("", folder.as_bytes());
        lines.push(format!("WORKDIR {}", plain.unwrap_or_else(|_| quote_env(folder))));
    }
    for (name, what, value) in [
        ("USER", "the user of the image", &config.user),
        ("STOPSIGNAL", "the stop signal", &settings.stop_signal),
    ] {
        if let Some(value) = value {
            let value = require_plain(what, value.as_bytes())?;
            lines.push(format!("{name} {value}"));
        }
    }
    for (name, words) in [
        ("SHELL", &settings.shell),
        ("ENTRYPOINT", &settings.entrypoint),
        ("CMD", &settings.cmd),
    ] {
        if !words.is_empty() {
            lines.push(format!("{name} {}", json_array(words)));
        }
    }
    lines.extend(settings.healthcheck.as_ref().map(healthcheck).transpose()?);
    for line in &settings.on_build {
        // Not quoted: a trigger is a complete instruction, and the config stores it unchanged.
        lines.push(format!("ONBUILD {}", require_writable("a trigger", line)?));
    }
    Ok(lines)
}

/// A path for `VOLUME`, in which the builders expand variables and quotes even in JSON. The plain form has escapes, and
/// ends at a space.
fn volume_path(volume: &String) -> Result<String, PatchError> {
    const SPECIAL: [char; 4] = ['$', '\\', '"', '\''];
    if !volume.contains(SPECIAL) {
        return Ok(json_array(std::slice::from_ref(volume)));
    }
    let volume = require_writable("a volume", volume)?;
    if volume.contains([' ', '\t']) {
        return Err(refused("a volume", volume.as_bytes()));
    }
    let escaped = volume.chars().flat_map(|letter| {
        let escape = SPECIAL.contains(&letter).then_some('\\');
        escape.into_iter().chain([letter])
    });
    Ok(escaped.collect())
}

/// The environment variables, each once.
fn environment(config: &ImageConfig, set: &[(&str, &str)]) -> Result<Vec<String>, PatchError> {
    let own = config.env.iter().map(|(key, _)| key.as_str());
    let mut keys: Vec<&str> = Vec::new();
    for key in own.chain(set.iter().map(|(key, _)| *key)) {
        // A config may contain a variable twice; `env` returns the effective value.
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    let mut lines = Vec::new();
    for key in keys {
        let changed = set.iter().find(|(set, _)| *set == key).map(|(_, value)| *value);
        let value = changed.or(config.env(key)).unwrap_or_default();
        let name = require_plain("a variable of the environment", key.as_bytes())?;
        require_writable(&format!("the variable {name}"), value)?;
        lines.push(format!("ENV {name}={}", quote_env(value)));
    }
    Ok(lines)
}

/// The `HEALTHCHECK`. Times are in nanoseconds, a unit that Docker accepts.
fn healthcheck(check: &Healthcheck) -> Result<String, PatchError> {
    let options = [
        ("interval", check.interval, "ns"),
        ("timeout", check.timeout, "ns"),
        ("start-period", check.start_period, "ns"),
        ("retries", u64::from(check.retries), ""),
    ];
    let flags: Vec<String> = options
        .iter()
        .filter(|(_, value, _)| *value > 0)
        .map(|(name, value, unit)| format!("--{name}={value}{unit} "))
        .collect();
    let set = flags.concat();
    // An empty test inherits from the base image (Docker's HealthConfig), and `scratch` has none.
    let (kind, words) = check
        .test
        .split_first()
        .map_or(("NONE", &[][..]), |(kind, words)| (kind.as_str(), words));
    Ok(match (kind, words) {
        ("CMD-SHELL", [line]) => format!("HEALTHCHECK {set}CMD {}", require_writable("the health check", line)?),
        ("CMD", words) => format!("HEALTHCHECK {set}CMD {}", json_array(words)),
        _ => "HEALTHCHECK NONE".to_owned(),
    })
}

/// The words in JSON form, in which Docker expands nothing (Dockerfile reference, "Shell and exec form").
pub(super) fn json_array(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|word| quote_json(word)).collect();
    format!("[{}]", words.join(", "))
}

#[cfg(test)]
mod tests {
    use super::{config_instructions, volume_path};
    use image_source::ImageConfig;
    use image_source::{ContainerSettings, Healthcheck};

    #[test]
    fn volumes_and_labels_are_kept_or_refused_as_the_builders_read_them() {
        for (path, expected) in [
            ("/data", Some(r#"["/data"]"#)),
            ("/my data", Some(r#"["/my data"]"#)),
            (r"/v$d", Some(r"/v\$d")),
            (r#"/v\b"'"#, Some(r#"/v\\b\"\'"#)),
            ("/my $data", None),
        ] {
            assert_eq!(volume_path(&path.to_owned()).ok().as_deref(), expected, "{path}");
        }
        let labels = [("a=b".to_owned(), "c".to_owned())].into_iter().collect();
        let settings = ContainerSettings {
            labels,
            ..ContainerSettings::default()
        };
        let config = ImageConfig {
            settings,
            ..ImageConfig::default()
        };
        let refused = config_instructions(&config, &[]).unwrap_err().to_string();
        assert_eq!(refused, "a label cannot be written into a Dockerfile: a=b");
    }

    #[test]
    fn a_config_is_written_so_that_nothing_in_it_is_replaced() {
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let config = ImageConfig {
            env: vec![
                pair("A", "old"),
                pair("LD_LIBRARY_PATH", "/a:"),
                pair("A", "$HOME \"x\""),
            ],
            working_dir: Some("/srv".to_owned()),
            user: Some("app:app".to_owned()),
            settings: ContainerSettings {
                entrypoint: words(&["/bin/sh", "-c", "echo \"$1\""]),
                cmd: words(&["a b"]),
                labels: [pair("by", "me & $you")].into_iter().collect(),
                ports: words(&["80/tcp"]),
                healthcheck: Some(Healthcheck {
                    test: words(&["CMD-SHELL", "curl -f http://localhost || exit 1"]),
                    interval: 30_000_000_000,
                    retries: 2,
                    ..Healthcheck::default()
                }),
                on_build: words(&["RUN make"]),
                ..ContainerSettings::default()
            },
            ..ImageConfig::default()
        };
        let lines = config_instructions(&config, &[("LD_LIBRARY_PATH", "/a"), ("PYTHONPATH", "/b")]).unwrap();
        let expected = [
            r#"ENV A="\$HOME \"x\"""#,
            r#"ENV LD_LIBRARY_PATH="/a""#,
            r#"ENV PYTHONPATH="/b""#,
            r#"LABEL "by"="me & \$you""#,
            "EXPOSE 80/tcp",
            "WORKDIR /srv",
            "USER app:app",
            r#"ENTRYPOINT ["/bin/sh", "-c", "echo \"$1\""]"#,
            r#"CMD ["a b"]"#,
            "HEALTHCHECK --interval=30000000000ns --retries=2 CMD curl -f http://localhost || exit 1",
            "ONBUILD RUN make",
        ];
        assert_eq!(lines, expected);
        let config = ImageConfig {
            env: vec![pair("A", "1\nRUN rm -rf /")],
            ..ImageConfig::default()
        };
        let refused = config_instructions(&config, &[]).unwrap_err().to_string();
        assert_eq!(
            refused,
            "the variable A cannot be written into a Dockerfile: 1\\x0aRUN rm -rf /"
        );
    }
}
