//! The name of an image in a registry, `[REGISTRY/]NAME[:TAG][@DIGEST]`, as Docker and containerd parse it.

use std::fmt;
use std::str::FromStr;

/// The default registry.
const DOCKER_HUB: &str = "docker.io";

/// The maximum length of a repository name in bytes (distribution-spec lets registries limit it to 255).
const MAX_NAME: usize = 255;

/// The maximum length of a tag in characters (distribution-spec, "Pulling manifests").
const MAX_TAG: usize = 128;

/// An image in a registry, with Docker Hub's defaults filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistryReference {
    registry: String,
    repository: String,
    tag: Option<String>,
    digest: Option<String>,
}

impl RegistryReference {
    /// The host of the registry, with the port if one is written.
    pub fn registry(&self) -> &str {
        &self.registry
    }

    /// The repository; an official image of Docker Hub starts with `library/`.
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// The tag; `None` only if there is a digest.
    pub(crate) fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// The digest as `algorithm:hex`, with the length of its algorithm.
    pub fn digest(&self) -> Option<&str> {
        self.digest.as_deref()
    }
}

impl FromStr for RegistryReference {
    /// The violated rule.
    type Err = &'static str;

    /// Parses a name. Without tag and digest, the tag is `latest`.
    fn from_str(text: &str) -> Result<Self, &'static str> {
        if text.is_empty() {
            return Err("repository name must have at least one component");
        }
        let (named, digest) = match text.split_once('@') {
            Some((named, digest)) => (named, Some(digest)),
            None => (text, None),
        };
        let (name, tag) = split_tag(named);
        // The checks follow the order of Docker's parser (distribution/reference), and mostly its words.
        if !is_name(name) || !tag.is_none_or(is_tag) || !digest.is_none_or(has_digest_form) {
            return Err("invalid reference format");
        }
        let (registry, repository) = split_registry(name);
        // Catches upper-case letters in a first component that is not a host.
        if !repository.split('/').all(is_component) {
            return Err("invalid reference format");
        }
        // The limit excludes the registry's host, and includes an added `library/`.
        if repository.len() > MAX_NAME {
            return Err("repository name must not be more than 255 characters");
        }
        digest.map_or(Ok(()), check_digest_length)?;
        // With a digest, a default `latest` would claim what nobody requested.
        let latest = (tag.is_none() && digest.is_none()).then_some("latest");
        Ok(Self {
            registry: registry.to_owned(),
            repository,
            tag: tag.or(latest).map(str::to_owned),
            digest: digest.map(str::to_owned),
        })
    }
}

impl fmt::Display for RegistryReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.registry, self.repository)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        if let Some(digest) = &self.digest {
            write!(f, "@{digest}")?;
        }
        Ok(())
    }
}

/// Splits off the tag. A colon before the last slash belongs to the registry's port.
fn split_tag(named: &str) -> (&str, Option<&str>) {
    let last = named.rfind('/').map_or(0, |slash| slash + 1);
    match named.get(last..).and_then(|part| part.find(':')) {
        Some(colon) => {
            let (name, tag) = named.split_at(last + colon);
            (name, tag.strip_prefix(':'))
        }
        None => (named, None),
    }
}

/// Whether a name has Docker's form: path components, the first of which may be a host.
fn is_name(name: &str) -> bool {
    match name.split_once('/') {
        // A host alone names no repository, so a name without slashes is a component.
        None => is_component(name),
        Some((first, path)) => {
            // Upper-case letters are allowed only in a host.
            (is_host(first) || is_component(first)) && path.split('/').all(is_component)
        }
    }
}

/// Whether a component is lower-case letters and digits, separated by one `.`, one or two `_`, or any number of `-`.
fn is_component(part: &str) -> bool {
    let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_separator = |run: &str| matches!(run, "" | "." | "_" | "__") || run.bytes().all(|byte| byte == b'-');
    // Splitting at the words leaves the separators: `a__b` and `a---b` are names, `a..b` and `a___b` are not.
    part.starts_with(is_word) && part.ends_with(is_word) && part.split(is_word).all(is_separator)
}

/// Whether a text can be a registry: labels of letters, digits and inner hyphens, and a port. IPv6 addresses are not
/// supported.
fn is_host(text: &str) -> bool {
    let (host, port) = match text.split_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (text, None),
    };
    let mut labels = host.split('.');
    labels.all(|label| {
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    }) && port.is_none_or(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()))
}

fn is_tag(tag: &str) -> bool {
    !tag.is_empty()
        && tag.len() <= MAX_TAG
        && !tag.starts_with(['.', '-'])
        && tag
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte))
}

/// Whether a text looks like a digest: words joined by `-`, `_`, `+` or `.`, a colon, and at least 32 hexadecimal
/// digits.
fn has_digest_form(text: &str) -> bool {
    let Some((algorithm, hex)) = text.split_once(':') else {
        return false;
    };
    let mut words = algorithm.split(['-', '_', '+', '.']);
    words.all(|word| word.starts_with(|c: char| c.is_ascii_alphabetic()) && word.bytes().all(|b| b.is_ascii_alphanumeric()))
        // The minimum in distribution/reference's grammar; the length for the algorithm is checked later, with its own
        // error.
        && hex.len() >= 32
        && hex.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn check_digest_length(digest: &str) -> Result<(), &'static str> {
    let (algorithm, hex) = digest.split_once(':').unwrap_or_default();
    let expected = match algorithm {
        "sha256" => 64,
        "sha384" => 96,
        "sha512" => 128,
        _ => return Err("unsupported digest algorithm"),
    };
    if hex.len() == expected {
        Ok(())
    } else {
        Err("invalid checksum digest length")
    }
}

/// Separates registry and repository as Docker does. The first component is a host only if it has a `.` or `:`, or is
/// `localhost`: `user/app` is on Docker Hub.
fn split_registry(name: &str) -> (&str, String) {
    let (registry, path) = match name.split_once('/') {
        Some((first, path)) if first.contains(['.', ':']) || first == "localhost" => (first, path),
        _ => (DOCKER_HUB, name),
    };
    // Docker Hub's original name; credentials are still stored under it.
    let registry = match registry {
        "index.docker.io" => DOCKER_HUB,
        other => other,
    };
    if registry == DOCKER_HUB && !path.contains('/') {
        return (registry, format!("library/{path}"));
    }
    (registry, path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::RegistryReference;

    fn check(text: &str, expected: &str) {
        let found = match text.parse::<RegistryReference>() {
            Ok(reference) => reference.to_string(),
            Err(reason) => reason.to_owned(),
        };
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn hosts_and_repositories_ports_and_tags_are_told_apart() {
        for (text, expected) in [
            ("busybox", "docker.io/library/busybox:latest"),
            ("test.com:tag", "docker.io/library/test.com:tag"),
            ("test.com:5000", "docker.io/library/test.com:5000"),
            ("test.com/repo:tag", "test.com/repo:tag"),
            ("test:5000/repo", "test:5000/repo:latest"),
            ("test:5000/repo:tag", "test:5000/repo:tag"),
            ("lowercase:Uppercase", "docker.io/library/lowercase:Uppercase"),
            ("sub-dom1.foo.com/bar/baz/quux", "sub-dom1.foo.com/bar/baz/quux:latest"),
            (
                "b.gcr.io/test.example.com/my-app:a.b",
                "b.gcr.io/test.example.com/my-app:a.b",
            ),
            ("xn--n3h.com/myimage:xn--n3h.com", "xn--n3h.com/myimage:xn--n3h.com"),
            ("foo/foo_bar.com:8080", "docker.io/foo/foo_bar.com:8080"),
            ("localhost/a__b/c---d", "localhost/a__b/c---d:latest"),
            ("index.docker.io/ubuntu", "docker.io/library/ubuntu:latest"),
            // An upper-case first component could be a host, but is not one; skopeo refuses it too.
            ("FOO/bar", "invalid reference format"),
            ("FOO:80/bar", "FOO:80/bar:latest"),
        ] {
            check(text, expected);
        }
    }

    #[test]
    fn a_reference_may_have_a_tag_a_digest_or_both() {
        let sha256 = format!("sha256:{}", "f".repeat(64));
        let sha512 = format!("sha512:{}", "F".repeat(128));
        check(&format!("a.b/c:1@{sha256}"), &format!("a.b/c:1@{sha256}"));
        check(&format!("a.b/c@{sha512}"), &format!("a.b/c@{sha512}"));
        let length = "invalid checksum digest length";
        check(&format!("a@sha256:{}", "f".repeat(65)), length);
        let algorithm = "unsupported digest algorithm";
        check(&format!("a@md5+x:{}", "f".repeat(32)), algorithm);
    }

    #[test]
    fn a_name_that_no_engine_accepts_is_refused_with_the_violated_rule() {
        check("", "repository name must have at least one component");
        let long = "repository name must not be more than 255 characters";
        check(&format!("a.b/{}", "c".repeat(256)), long);
        check(
            &format!("a.b/{}", "c".repeat(255)),
            &format!("a.b/{}:latest", "c".repeat(255)),
        );
        check(
            &format!("a:{}", "b".repeat(128)),
            &format!("docker.io/library/a:{}", "b".repeat(128)),
        );
        for text in [
            "Ubuntu",
            "a//b",
            "a/",
            "/a",
            "-a",
            "a-",
            "a..b",
            "a___b",
            "a._b",
            "a:",
            "a:-b",
            "a:é",
            "a:b:c",
            "a@b",
            "a@",
            "a@sha256:ff",
            "a@1a:00000000000000000000000000000000",
            "a.b:x/c",
            "a.b:/c",
            "[::1]:5000/a",
            "a b",
            "-a.b/c",
            "a..b/c",
            "a.b/C",
        ] {
            check(text, "invalid reference format");
        }
        check(&format!("a:{}", "b".repeat(129)), "invalid reference format");
    }
}
