//! Texts that no source can know as an image, with what was probably meant.

use std::path::Path;

use crate::image_error::ImageError;
use crate::source_kind::SourceKind;

/// Dashes that a web page or a word processor makes of a hyphen.
const DASHES: [char; 3] = ['\u{2013}', '\u{2014}', '\u{2212}'];
/// Quotes that they make of those of a shell.
const QUOTES: [char; 5] = ['\u{201c}', '\u{201d}', '\u{201e}', '\u{2018}', '\u{2019}'];
/// Ends of file names that no one gives to an image.
const FILE_ENDS: [&str; 20] = [
    ".csv", ".deb", ".gz", ".json", ".jsonl", ".log", ".lst", ".py", ".rpm", ".sh", ".sif", ".sqfs", ".tar", ".tgz",
    ".txt", ".whl", ".xz", ".yaml", ".yml", ".zip",
];
/// How addresses elsewhere begin, with the command that writes such an image to standard output.
const DOWNLOADS: [(&str, &str); 7] = [
    ("containerd:", "ctr images export - NAME"),
    ("ctr:", "ctr images export - NAME"),
    ("nerdctl:", "ctr images export - NAME"),
    ("gs://", "gcloud storage cat URL"),
    ("s3://", "aws s3 cp URL -"),
    ("http://", "curl -fL URL"),
    ("https://", "curl -fL URL"),
];
/// The length of a SHA-256 digest in hexadecimal digits.
const SHA256_DIGITS: usize = 64;

/// Checks a text before any source is asked.
///
/// Errors: [`ImageError::Reference`] if it can name no image.
pub fn check_image_name(text: &str) -> Result<(), ImageError> {
    // Whether a path exists does not depend on its kind, and finding that reads the file.
    let is_there = |path: &str| Path::new(path).exists();
    why_no_image_name(text, is_there).map_or(Ok(()), |reason| Err(ImageError::reference(text, reason)))
}

/// Why `text` names no image; `None` if it may. `is_there` tells whether a path exists on the host.
pub(crate) fn why_no_image_name(text: &str, is_there: impl Fn(&str) -> bool) -> Option<String> {
    let (scheme, rest) = text.split_once(':').unwrap_or(("", text));
    if is_there(text) || is_there(rest) {
        return None;
    }
    if text.starts_with(DASHES) {
        let option = text.trim_start_matches(DASHES);
        return Some(format!(
            "it begins with a dash of a web page and not with a hyphen; is --{option} meant?"
        ));
    }
    if text.contains(QUOTES) {
        return Some("it has a typographic quote, which is no quote for a shell; type ' or \"".to_owned());
    }
    if text.contains("${") || text.contains("$(") || text.split('$').skip(1).any(starts_as_name) {
        return Some("a variable in it was not expanded; single quotes keep the $, double quotes expand it".to_owned());
    }
    let path = SourceKind::from_scheme(scheme).map_or(text, |_| rest);
    if let Some(below) = path.strip_prefix("~/") {
        let scheme = text.strip_suffix(path).unwrap_or_default();
        return Some(format!(
            "a shell expands ~ only at the start of a word and without quotes; write {scheme}$HOME/{below}"
        ));
    }
    let last = text.rsplit('/').next().unwrap_or_default();
    let end = FILE_ENDS.iter().find(|end| last.ends_with(**end));
    if let Some(reason) = why_elsewhere(path, end.is_some()) {
        return Some(reason);
    }
    if is_windows_path(text) || is_windows_path(rest) {
        return Some("it is a path of Windows; in WSL the drive C: is /mnt/c".to_owned());
    }
    if scheme == "sha256" && rest.len() == SHA256_DIGITS {
        return Some(format!(
            "it is an id or a digest alone; docker-daemon:{text} is the engine's image, NAME@sha256:… a registry's"
        ));
    }
    if let Some((name, version)) = text.split_once("==") {
        return Some(format!(
            "it is a requirement of pip; pip download --no-deps {name}=={version} gets the wheel"
        ));
    }
    let is_library = last.starts_with("lib") && last.split('.').any(|part| part == "so");
    if is_library && !text.contains([':', '@']) {
        return Some(format!(
            "it is a library; the image comes first: cupti-audit tree IMAGE {text}"
        ));
    }
    if let Some(end) = end
        && !text.contains([':', '@'])
        && !names_host(text)
    {
        let hint = match *end {
            ".py" | ".sh" => "; the command of the container goes into --args 'WORDS'",
            _ => "",
        };
        return Some(format!(
            "no such file{hint} (docker://{text} is the image of that name in Docker Hub)"
        ));
    }
    if SourceKind::from_scheme(scheme).is_some() {
        return None;
    }
    let empty = ["tag", "digest"].into_iter().zip([':', '@']);
    let mut empty = empty.filter(|(_, mark)| text.strip_suffix(*mark).is_some_and(|name| !name.is_empty()));
    let (part, mark) = empty.next()?;
    Some(format!("no {part} follows the {mark:?}; is a variable empty?"))
}

/// How to read an image that is elsewhere. A web address without the end of a file may be pasted for a registry.
fn why_elsewhere(path: &str, is_file: bool) -> Option<String> {
    let (from, command) = DOWNLOADS.iter().find(|(from, _)| path.starts_with(from))?;
    let command = command.replace("URL", path);
    let reason = format!("{from} is not read directly; in a pipe: {command} | cupti-audit -");
    Some(reason).filter(|_| is_file || !from.starts_with("http"))
}

/// The text with the password of `USER:PASSWORD@HOST` replaced.
pub(crate) fn without_password(text: &str) -> Option<String> {
    let (before, host) = text.rsplit_once('@')?;
    let user = before.rsplit('/').next()?;
    let (name, password) = user.split_once(':')?;
    // `NAME:TAG@sha256:…` is a reference.
    let is_digest = host.starts_with("sha256:") || host.starts_with("sha512:");
    if is_digest || password.is_empty() || !before.ends_with(user) || before.contains("docker-daemon:") {
        return None;
    }
    let start = before.strip_suffix(user)?;
    Some(format!("{start}{name}:***@{host}"))
}

fn starts_as_name(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
}

/// Whether a text is an absolute path with a drive letter.
fn is_windows_path(text: &str) -> bool {
    let mut characters = text.chars();
    let drive = characters.next().is_some_and(|drive| drive.is_ascii_alphabetic());
    drive && characters.next() == Some(':') && matches!(characters.next(), Some('/' | '\\'))
}

/// Whether the first part is the host of a registry, as Docker decides it.
fn names_host(text: &str) -> bool {
    let host = text.split_once('/').map(|(host, _)| host);
    host.is_some_and(|host| host.contains(['.', ':']) || host == "localhost")
}

#[cfg(test)]
mod tests {
    use super::{why_no_image_name, without_password};

    #[test]
    fn which_texts_cannot_name_an_image() {
        let digest = format!("sha256:{}", "a".repeat(64));
        for (text, begin) in [
            ("\u{2013}phase", "it begins with a dash of a web page"),
            ("train.py\u{201d}", "it has a typographic quote"),
            ("$CI_REGISTRY/app:$TAG", "a variable in it was not expanded"),
            ("oci:${DIR}", "a variable in it was not expanded"),
            ("docker-archive:C:/images/a.tar", "it is a path of Windows"),
            ("C:\\images\\a.tar", "it is a path of Windows"),
            ("docker-archive:~/a.tar", "a shell expands ~ only at the start"),
            (
                "gs://b/a.tar",
                "gs:// is not read directly; in a pipe: gcloud storage cat gs://b/a.tar |",
            ),
            (
                "oci-archive:https://h/a.tar",
                "https:// is not read directly; in a pipe: curl -fL https://h/a.tar |",
            ),
            (digest.as_str(), "it is an id or a digest"),
            ("nvidia-cuda-cupti-cu12==12.4.127", "it is a requirement of pip"),
            ("libcupti.so.12", "it is a library"),
            ("train.py", "no such file; the command of the container"),
            ("out/app.tar", "no such file (docker://out/app.tar"),
            ("nvidia/cuda:", "no tag follows the ':'"),
            ("nvidia/cuda@", "no digest follows the '@'"),
        ] {
            let why = why_no_image_name(text, |_| false).unwrap_or_default();
            assert!(why.starts_with(begin), "{text}: {why}");
            assert_eq!(why_no_image_name(text, |_| true), None, "{text}");
        }
        let named = format!("app@{digest}");
        for text in [
            "ubuntu",
            "ghcr.io/acme/node.js:1",
            "ghcr.io/acme/app.py",
            "a.b/app:1",
            "https://ghcr.io/acme/app:1",
            "docker-daemon:app",
            "reg:5000/cost$",
            &named,
        ] {
            assert_eq!(why_no_image_name(text, |_| false), None, "{text}");
        }
    }

    #[test]
    fn where_is_a_password() {
        for (text, shown) in [
            ("bob:hunter2@ghcr.io/acme/app:1", Some("bob:***@ghcr.io/acme/app:1")),
            ("https://bob:hunter2@ghcr.io/a", Some("https://bob:***@ghcr.io/a")),
            ("app:1@sha256:aa", None),
            ("ghcr.io/acme/app@sha256:aa", None),
            ("ghcr.io/acme/app:1", None),
        ] {
            assert_eq!(without_password(text).as_deref(), shown, "{text}");
        }
    }
}
