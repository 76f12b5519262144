//! Finds the credentials of Docker and Podman on this machine.

#![expect(
    clippy::disallowed_methods,
    reason = "credentials come from the user's own files and environment"
)]

use std::io;
use std::path::{Path, PathBuf};

use super::credentials::{self, Credential};
use crate::image_error::ImageError;
use crate::verify::read_small_file;

/// Where to look for credentials.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum CredentialSource {
    /// The places of Docker and Podman. `REGISTRY_AUTH_FILE`, if set, is the only one. Otherwise `config.json` in
    /// `DOCKER_CONFIG` or `~/.docker`, then `containers/auth.json` in `XDG_RUNTIME_DIR` (or `/run/containers/UID`) and
    /// in `XDG_CONFIG_HOME` (or `~/.config`).
    #[default]
    Host,
    /// These files; the first with credentials for the registry wins. A missing file is an error.
    Files(Vec<PathBuf>),
    /// No credentials: every request is anonymous.
    Anonymous,
}

/// Finds the credentials for `repository` of the registry `host`.
///
/// Errors: [`ImageError::Remote`] if a file cannot be read or parsed, or if a helper fails.
pub(super) fn find_credential(
    source: &CredentialSource,
    host: &str,
    repository: &str,
) -> Result<Option<Credential>, ImageError> {
    let (files, missing_is_fine) = match source {
        CredentialSource::Host => match variable("REGISTRY_AUTH_FILE") {
            // A file that the user names must exist: an anonymous pull instead would fail with a puzzling "denied".
            Some(file) => (vec![file], false),
            None => (host_files(variable, user_id()), true),
        },
        CredentialSource::Files(files) => (files.clone(), false),
        CredentialSource::Anonymous => return Ok(None),
    };
    for file in files {
        let bytes = match read_small_file(&file) {
            // Only a missing file is skipped. An unreadable one could hold the credentials, so it is an error.
            Err(error) if missing_is_fine && error.kind() == io::ErrorKind::NotFound => continue,
            bytes => bytes.map_err(|error| unusable(&file, &error.to_string()))?,
        };
        let text = String::from_utf8(bytes).map_err(|error| unusable(&file, &error.to_string()))?;
        let found = credentials::read_credential(&text, host, repository).map_err(|reason| unusable(&file, &reason))?;
        if let Some((secret, helper)) = found {
            let file = file.display();
            let found_in = helper.map_or_else(|| file.to_string(), |helper| format!("{helper} by {file}"));
            return Ok(Some(Credential { secret, found_in }));
        }
    }
    Ok(None)
}

fn unusable(file: &Path, reason: &str) -> ImageError {
    if let Some(folder) = file.parent().filter(|folder| folder.is_file()) {
        let folder = folder.display();
        return ImageError::Remote(format!(
            "DOCKER_CONFIG names the file {folder}, and has to name its folder"
        ));
    }
    ImageError::Remote(format!("credentials file {}: {reason}", file.display()))
}

fn variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name)
        .filter(|value| !value.is_empty())
        .map(PathBuf::from)
}

/// The user's id from the kernel.
fn user_id() -> Option<u32> {
    use std::os::unix::fs::MetadataExt as _;
    // The standard library has no getuid, and this crate forbids unsafe code.
    std::fs::metadata("/proc/self").ok().map(|process| process.uid())
}

fn host_files(variable: impl Fn(&str) -> Option<PathBuf>, user_id: Option<u32>) -> Vec<PathBuf> {
    let home = variable("HOME");
    let below_home = |folder: &str| home.as_ref().map(|home| home.join(folder));
    let docker = variable("DOCKER_CONFIG").or_else(|| below_home(".docker"));
    let runtime = variable("XDG_RUNTIME_DIR")
        .map(|dir| dir.join("containers"))
        .or_else(|| user_id.map(|id| format!("/run/containers/{id}").into()));
    let config = variable("XDG_CONFIG_HOME").or_else(|| below_home(".config"));
    [
        // Docker's file comes first, because our errors advise `docker login`; Podman reads it last
        // (containers-auth.json(5)).
        docker.map(|dir| dir.join("config.json")),
        runtime.map(|dir| dir.join("auth.json")),
        config.map(|dir| dir.join("containers/auth.json")),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::{CredentialSource, find_credential, host_files};

    fn check(variables: &[(&str, &str)], user_id: Option<u32>, expected: &[&str]) {
        let variable = |name: &str| {
            variables
                .iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| PathBuf::from(value))
        };
        let expected: Vec<PathBuf> = expected.iter().map(PathBuf::from).collect();
        assert_eq!(host_files(variable, user_id), expected, "{variables:?}");
    }

    #[test]
    fn dockers_file_comes_first_then_podmans_two() {
        check(
            &[("HOME", "/home/a")],
            Some(7),
            &[
                "/home/a/.docker/config.json",
                "/run/containers/7/auth.json",
                "/home/a/.config/containers/auth.json",
            ],
        );
        check(
            &[
                ("HOME", "/h"),
                ("DOCKER_CONFIG", "/d"),
                ("XDG_RUNTIME_DIR", "/r"),
                ("XDG_CONFIG_HOME", "/c"),
            ],
            Some(7),
            &["/d/config.json", "/r/containers/auth.json", "/c/containers/auth.json"],
        );
        check(&[], None, &[]);
    }

    #[test]
    fn the_first_file_with_credentials_counts_and_a_broken_one_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let other = file("other", r#"{"auths": {"b.example": {"auth": "dTpob3N0"}}}"#);
        let right = file("right", r#"{"auths": {"a.example": {"auth": "dTpob3N0"}}}"#);
        let broken = file("broken", "not json");
        let search = |files: &[&PathBuf]| {
            let source = CredentialSource::Files(files.iter().map(|&file| file.clone()).collect());
            find_credential(&source, "a.example", "x").map(|found| found.map(|credential| credential.found_in))
        };
        assert_eq!(
            search(&[&other, &right, &broken]).unwrap(),
            Some(right.display().to_string())
        );
        assert_eq!(search(&[&other]).unwrap(), None);
        let error = search(&[&broken]).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("credentials file {}: it cannot be read", broken.display())),
            "{error}"
        );
        assert!(search(&[&dir.path().join("missing")]).is_err());
        assert!(
            find_credential(&CredentialSource::Anonymous, "a.example", "x")
                .unwrap()
                .is_none()
        );
    }
}
