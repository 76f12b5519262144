//! Finds the user's credentials for one registry in the text of a configuration file.
//!
//! The files are Docker's `config.json` and Podman's `auth.json` (containers-auth.json(5)). This module chooses the
//! entry for a repository, by exact host names. It passes that one entry to `docker_credential`, which decodes it or
//! runs a credential helper.

use std::fmt;
use std::sync::mpsc;
use std::time::Duration;

use docker_credential::{CredentialRetrievalError, DockerCredential};
use serde_json::{Map, Value, json};

/// How long to wait for a credential helper, which may ask its user for a passphrase.
const HELPER_TIME: Duration = Duration::from_mins(2);

/// Docker Hub's key in `config.json` since Docker 1.0, and its name in credential helpers.
const DOCKER_HUB: &str = "https://index.docker.io/v1/";

/// Credentials, and where they were found. `Debug` hides the secret.
pub(super) struct Credential {
    /// The secret itself.
    pub(super) secret: CredentialSecret,
    /// The file, and the helper that it names.
    pub(super) found_in: String,
}

/// The three kinds of credentials.
#[derive(PartialEq, Eq)]
pub(super) enum CredentialSecret {
    /// User name and password.
    Password(String, String),
    /// A refresh token for the token server (OAuth 2.0, RFC 6749 section 6).
    Identity(String),
    /// A token that the registry accepts directly.
    Registry(String),
}

impl fmt::Debug for CredentialSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// The configuration of one repository.
#[derive(Debug, PartialEq)]
enum CredentialEntry {
    /// An entry of `auths`.
    Stored(Map<String, Value>),
    /// A helper, and the registry's name in it.
    Helper { name: String, server: String },
}

/// Finds the credentials for `repository` of the registry `host` in the text of a configuration file.
///
/// The order is: the helper for this registry, `auths` from the longest path down to the host, then the helper for all
/// registries.
///
/// Errors: The file is not a configuration, an entry cannot be decoded, or a helper fails. A helper without credentials
/// for the registry is not an error.
pub(super) fn read_credential(
    config: &str,
    host: &str,
    repository: &str,
) -> Result<Option<(CredentialSecret, Option<String>)>, String> {
    match find(config, host, repository)? {
        None => Ok(None),
        Some(CredentialEntry::Stored(entry)) => decode(&entry).map(|secret| Some((secret, None))),
        Some(CredentialEntry::Helper { name, server }) => {
            let program = format!("docker-credential-{name}");
            Ok(ask_helper(&name, &server)?.map(|secret| (secret, Some(program))))
        }
    }
}

fn find(config: &str, host: &str, repository: &str) -> Result<Option<CredentialEntry>, String> {
    let config: Map<String, Value> = serde_json::from_str(config)
        .map_err(|error| format!("it cannot be read as Docker's or Podman's configuration: {error}"))?;
    let table = |key: &str| config.get(key).and_then(Value::as_object);
    let names = names(host);
    let helper = table("credHelpers").and_then(|helpers| {
        let (key, name) = helpers.iter().find(|(key, _)| names.contains(&plain_key(key)))?;
        Some((text(name)?, key.clone()))
    });
    if let Some((name, server)) = helper {
        return Ok(Some(CredentialEntry::Helper { name, server }));
    }
    // Comes before the general helper. Docker leaves only empty entries here when it uses that, so an entry with a
    // secret was written by Podman or by hand.
    if let Some(entry) = table("auths").and_then(|auths| stored(auths, &names, repository)) {
        return Ok(Some(CredentialEntry::Stored(entry)));
    }
    let server = if names.contains(&"docker.io") { DOCKER_HUB } else { host };
    Ok(config
        .get("credsStore")
        .and_then(text)
        .map(|name| CredentialEntry::Helper {
            name,
            server: server.to_owned(),
        }))
}

/// The entry of `auths` with the longest path that contains `repository`. Skips entries without a secret, which Docker
/// leaves behind when a helper stores it.
fn stored(auths: &Map<String, Value>, names: &[&str], repository: &str) -> Option<Map<String, Value>> {
    // Compared by whole components: the password of `quay.io/org` must not go to `quay.io/organic`.
    let mut path = Some(repository);
    while let Some(scope) = path {
        if let Some(entry) = entry(auths, |key| {
            names.iter().any(|name| {
                key.strip_prefix(name)
                    .and_then(|rest| rest.strip_prefix('/'))
                    .is_some_and(|rest| rest == scope)
            })
        }) {
            return Some(entry);
        }
        path = scope.rsplit_once('/').map(|(parent, _)| parent);
    }
    entry(auths, |key| names.contains(&plain_key(key)))
}

fn entry(auths: &Map<String, Value>, fits: impl Fn(&str) -> bool) -> Option<Map<String, Value>> {
    auths
        .iter()
        .filter(|(key, _)| fits(key))
        .filter_map(|(_, entry)| entry.as_object())
        .map(without_empty)
        .find(|entry| SECRETS.iter().any(|key| entry.contains_key(*key)))
}

/// The fields of an entry that hold a secret.
const SECRETS: [&str; 4] = ["auth", "password", "identitytoken", "registrytoken"];

/// Removes empty fields, and those that `auth` makes redundant.
fn without_empty(entry: &Map<String, Value>) -> Map<String, Value> {
    let mut entry: Map<String, Value> = entry
        .iter()
        .filter(|(_, value)| text(value).is_some())
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    // Docker prefers `auth` if an entry has both forms.
    if entry.contains_key("auth") {
        entry.remove("username");
        entry.remove("password");
    }
    entry
}

fn text(value: &Value) -> Option<String> {
    value.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

/// All names of a registry; Docker Hub has several.
fn names(host: &str) -> Vec<&str> {
    // Hosts are never matched by suffix: in another tool that sent Google's credentials to look-alike hosts
    // (GHSA-xcq4-m2r3-cmrj).
    match host {
        "docker.io" | "index.docker.io" | "registry-1.docker.io" => {
            vec!["docker.io", "index.docker.io", "registry-1.docker.io"]
        }
        host => vec![host],
    }
}

/// The host of a key for a whole registry: `https://index.docker.io/v1/` gives `index.docker.io`. A key without a
/// scheme and with any other path stays unchanged.
fn plain_key(key: &str) -> &str {
    let rest = key.strip_prefix("https://").or_else(|| key.strip_prefix("http://"));
    if let Some(rest) = rest {
        return rest.split_once('/').map_or(rest, |(host, _)| host);
    }
    let key = key.strip_suffix('/').unwrap_or(key);
    key.strip_suffix("/v1")
        .or_else(|| key.strip_suffix("/v2"))
        .unwrap_or(key)
}

fn decode(entry: &Map<String, Value>) -> Result<CredentialSecret, String> {
    // This field of Podman's is unknown to docker_credential.
    if let Some(token) = entry.get("registrytoken").and_then(text) {
        return Ok(CredentialSecret::Registry(token));
    }
    // Passed as the only entry, because the lookup above follows stricter rules than the crate's.
    let alone = json!({"auths": {"entry": entry}}).to_string();
    match docker_credential::get_credential_from_reader(alone.as_bytes(), "entry") {
        Ok(credential) => Ok(secret(credential)),
        Err(error) => Err(format!(
            "its entry for the registry cannot be decoded ({error}); docker login again"
        )),
    }
}

/// Runs a helper in its own thread, so that a hanging helper can be abandoned.
fn ask_helper(name: &str, server: &str) -> Result<Option<CredentialSecret>, String> {
    let program = format!("docker-credential-{name}");
    // The name becomes a program to run; a path in it would bypass PATH.
    if name.contains(['/', '\\']) {
        return Err(format!("it names the credential helper {program:?}, which is a path"));
    }
    let config = json!({"credHelpers": {server: name}}).to_string();
    let server = server.to_owned();
    let (sender, answer) = mpsc::channel();
    std::thread::spawn(move || {
        // Fails only after the timeout, when the receiver is gone.
        let _ = sender.send(docker_credential::get_credential_from_reader(
            config.as_bytes(),
            &server,
        ));
    });
    match answer.recv_timeout(HELPER_TIME) {
        Ok(Ok(credential)) => Ok(Some(secret(credential))),
        Ok(Err(error)) => helper_error(&program, &error),
        Err(_) => Err(format!(
            "the credential helper {program} did not answer in {} seconds",
            HELPER_TIME.as_secs()
        )),
    }
}

/// Distinguishes "no credentials" from a failure (docker-credential-helpers, `credentials/error.go`).
fn helper_error(program: &str, error: &CredentialRetrievalError) -> Result<Option<CredentialSecret>, String> {
    let (stdout, stderr) = match error {
        CredentialRetrievalError::HelperFailure { stdout, stderr, .. } => (stdout.trim(), stderr.trim()),
        CredentialRetrievalError::HelperCommunicationError => {
            return Err(format!(
                "the credential helper {program} cannot be run; install it, or take it out of the file"
            ));
        }
        other => {
            return Err(format!(
                "the credential helper {program} gave no usable answer ({other})"
            ));
        }
    };
    let said = if stdout.is_empty() { stderr } else { stdout };
    // The protocol has no code for this. Helpers print these words, usually on standard output.
    if said.contains("credentials not found") || said.contains("no credentials username") {
        return Ok(None);
    }
    // A helper may print pages of usage text; the first words state the error.
    let begin: String = said.chars().take(200).collect();
    Err(format!(
        "the credential helper {program} failed: \"{}\"",
        image_linkage::escape::escape_bytes(begin.as_bytes())
    ))
}

fn secret(credential: DockerCredential) -> CredentialSecret {
    match credential {
        DockerCredential::IdentityToken(token) => CredentialSecret::Identity(token),
        DockerCredential::UsernamePassword(user, password) => CredentialSecret::Password(user, password),
    }
}

#[cfg(test)]
mod tests {
    use docker_credential::CredentialRetrievalError;

    use super::{CredentialEntry, CredentialSecret, find, helper_error, read_credential};

    /// `u:hub`, `u:org`, `u:app`, `u:host` in base64.
    const CONFIG: &str = r#"{"auths": {
        "https://index.docker.io/v1/": {"auth": "dTpodWI=", "email": "a@b"},
        "quay.io/org": {"auth": "dTpvcmc="},
        "quay.io/org/app": {"auth": "dTphcHA="},
        "quay.io": {"auth": "dTpob3N0"},
        "http://lab:5000": {"username": "u", "password": "lab"},
        "gcr.io": {"auth": "dTpob3N0", "username": "other", "password": "other", "identitytoken": ""},
        "acr.example": {"auth": "MDAwMDo=", "identitytoken": "refresh"},
        "raw.example/v2/": {"registrytoken": "raw"},
        "empty.example": {},
        "broken.example": {"auth": "!"}
    }}"#;

    fn check(host: &str, repository: &str, expected: &str) {
        let found = match read_credential(CONFIG, host, repository) {
            Ok(None) => "none".to_owned(),
            Ok(Some((CredentialSecret::Password(user, password), None))) => {
                format!("{user}:{password}")
            }
            Ok(Some((CredentialSecret::Identity(token), None))) => format!("identity {token}"),
            Ok(Some((CredentialSecret::Registry(token), None))) => format!("token {token}"),
            Ok(Some((_, Some(helper)))) => helper,
            Err(error) => error,
        };
        assert_eq!(found, expected, "{host}/{repository}");
    }

    #[test]
    fn every_spelling_of_a_registry_is_found() {
        check("docker.io", "library/ubuntu", "u:hub");
        check("index.docker.io", "library/ubuntu", "u:hub");
        check("lab:5000", "x", "u:lab");
        check("gcr.io", "a/b", "u:host");
        check("acr.example", "a", "identity refresh");
        check("raw.example", "a", "token raw");
        check("empty.example", "a", "none");
        assert!(
            read_credential(CONFIG, "broken.example", "a")
                .unwrap_err()
                .contains("cannot be decoded")
        );
    }

    #[test]
    fn the_longest_path_wins() {
        check("quay.io", "org/app", "u:app");
        check("quay.io", "org/app/part", "u:app");
        check("quay.io", "org/other", "u:org");
        check("quay.io", "organic/app", "u:host");
    }

    #[test]
    fn a_look_alike_host_gets_no_credentials() {
        for host in [
            "evilgcr.io",
            "gcr.io.evil.example",
            "eu.gcr.io",
            "gcr.io:444",
            "lab",
            "lab:50000",
            "io",
        ] {
            check(host, "a/b", "none");
        }
    }

    #[test]
    fn helpers_come_before_entries_and_the_store_after_them() {
        let config = r#"{"auths": {"quay.io": {"auth": "dTpob3N0"}, "gcr.io": {}}, "credsStore": "desktop",
            "credHelpers": {"ghcr.io": "pass", "https://index.docker.io/v1/": "secretservice"}}"#;
        let helper = |name: &str, server: &str| CredentialEntry::Helper {
            name: name.to_owned(),
            server: server.to_owned(),
        };
        assert_eq!(find(config, "ghcr.io", "a").unwrap(), Some(helper("pass", "ghcr.io")));
        assert_eq!(
            find(config, "docker.io", "a").unwrap(),
            Some(helper("secretservice", "https://index.docker.io/v1/"))
        );
        assert_eq!(find(config, "gcr.io", "a").unwrap(), Some(helper("desktop", "gcr.io")));
        assert!(matches!(
            find(config, "quay.io", "a").unwrap(),
            Some(CredentialEntry::Stored(_))
        ));
        assert_eq!(
            find(r#"{"credsStore": "desktop"}"#, "docker.io", "a").unwrap(),
            Some(helper("desktop", "https://index.docker.io/v1/"))
        );
        assert_eq!(find("{}", "docker.io", "a").unwrap(), None);
        assert!(find("[]", "docker.io", "a").is_err());
    }

    #[test]
    fn a_helper_without_credentials_for_the_registry_is_not_an_error() {
        let failure = |stdout: &str, stderr: &str| {
            helper_error(
                "docker-credential-x",
                &CredentialRetrievalError::HelperFailure {
                    helper: "docker-credential-x".to_owned(),
                    stdout: stdout.to_owned(),
                    stderr: stderr.to_owned(),
                },
            )
        };
        assert_eq!(failure("credentials not found in native keychain\n", ""), Ok(None));
        assert_eq!(
            failure("", "keychain is\nlocked"),
            Err(r#"the credential helper docker-credential-x failed: "keychain is\x0alocked""#.to_owned())
        );
        let missing = read_credential(
            r#"{"credHelpers": {"a.example": "no-such-helper-here"}}"#,
            "a.example",
            "a",
        );
        assert_eq!(
            missing,
            Err("the credential helper docker-credential-no-such-helper-here cannot be run; install it, or take it out of the file".to_owned())
        );
        assert!(read_credential(r#"{"credHelpers": {"a.example": "../x"}}"#, "a.example", "a").is_err());
    }

    #[test]
    fn secrets_do_not_print_themselves() {
        assert_eq!(
            format!("{:?}", CredentialSecret::Password("u".into(), "p".into())),
            "Secret"
        );
    }
}
