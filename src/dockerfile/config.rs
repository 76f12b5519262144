//! The instructions that give an image made of files the config of the one that they come from.

use super::quote;
use crate::image::ImageConfig;
use crate::remedy::Refusal;

/// The instructions, in the order in which Docker writes a config. `library_path` stands in for the value of
/// `LD_LIBRARY_PATH`.
///
/// # Errors
/// [`Refusal::Name`], for a value with a line break, which no Dockerfile can hold.
pub fn instructions(
    config: &ImageConfig,
    library_path: Option<&str>,
) -> Result<Vec<String>, Refusal> {
    let mut lines = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    for (key, _) in &config.env {
        if seen.contains(&key.as_str()) {
            continue;
        }
        seen.push(key);
        let own = config.env(key).unwrap_or_default();
        let value = library_path
            .filter(|_| key == "LD_LIBRARY_PATH")
            .unwrap_or(own);
        let key = quote::plain("a variable of the environment", key.as_bytes())?;
        let value = writable(&format!("the variable {key}"), value)?;
        lines.push(format!("ENV {key}={}", quote::env(value)));
    }
    for (key, value) in &config.settings.labels {
        let key = writable("a label", key)?;
        let value = writable(&format!("the label {key}"), value)?;
        lines.push(format!("LABEL {}={}", quote::env(key), quote::env(value)));
    }
    for port in &config.settings.ports {
        lines.push(format!(
            "EXPOSE {}",
            quote::plain("a port", port.as_bytes())?
        ));
    }
    for volume in &config.settings.volumes {
        lines.push(format!("VOLUME {}", array(std::slice::from_ref(volume))));
    }
    if let Some(folder) = &config.working_dir {
        lines.push(format!(
            "WORKDIR {}",
            quote::plain("the working directory", folder.as_bytes())?
        ));
    }
    if let Some(user) = &config.user {
        lines.push(format!(
            "USER {}",
            quote::plain("the user of the image", user.as_bytes())?
        ));
    }
    if let Some(signal) = &config.settings.stop_signal {
        lines.push(format!(
            "STOPSIGNAL {}",
            quote::plain("the stop signal", signal.as_bytes())?
        ));
    }
    for (name, words) in [
        ("SHELL", &config.settings.shell),
        ("ENTRYPOINT", &config.settings.entrypoint),
        ("CMD", &config.settings.cmd),
    ] {
        if !words.is_empty() {
            lines.push(format!("{name} {}", array(words)));
        }
    }
    Ok(lines)
}

fn writable<'t>(what: &str, text: &'t str) -> Result<&'t str, Refusal> {
    let can = quote::is_writable(text.as_bytes());
    can.then_some(text).ok_or_else(|| Refusal::Name {
        what: what.to_owned(),
        name: crate::escape::text(text.as_bytes()),
    })
}

/// The words in the form of JSON, in which Docker replaces nothing (Dockerfile reference, "Shell and exec form").
fn array(words: &[String]) -> String {
    let words: Vec<String> = words
        .iter()
        .map(|word| serde_json::Value::from(word.as_str()).to_string())
        .collect();
    format!("[{}]", words.join(", "))
}

#[cfg(test)]
mod tests {
    use super::instructions;
    use crate::image::ImageConfig;
    use crate::image::config::Settings;

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
            settings: Settings {
                entrypoint: words(&["/bin/sh", "-c", "echo \"$1\""]),
                cmd: words(&["a b"]),
                labels: [pair("by", "me & $you")].into_iter().collect(),
                ports: words(&["80/tcp"]),
                ..Settings::default()
            },
            ..ImageConfig::default()
        };
        let lines = instructions(&config, Some("/a")).unwrap();
        let expected = [
            r#"ENV A="\$HOME \"x\"""#,
            r#"ENV LD_LIBRARY_PATH="/a""#,
            r#"LABEL "by"="me & \$you""#,
            "EXPOSE 80/tcp",
            "WORKDIR /srv",
            "USER app:app",
            r#"ENTRYPOINT ["/bin/sh", "-c", "echo \"$1\""]"#,
            r#"CMD ["a b"]"#,
        ];
        assert_eq!(lines, expected);
        let config = ImageConfig {
            env: vec![pair("A", "1\nRUN rm -rf /")],
            ..ImageConfig::default()
        };
        let refused = instructions(&config, None).unwrap_err().to_string();
        assert_eq!(
            refused,
            "the variable A cannot be written into a Dockerfile: 1\\x0aRUN rm -rf /"
        );
    }
}
