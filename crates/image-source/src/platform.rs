//! Platforms: parsing, the host's own, and whether an offered one matches.

use std::fmt;

use serde::Deserialize;

/// An operating system and an architecture, in Go's names as image-spec uses them (`linux/arm64/v8`).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Platform {
    /// GOOS, such as `linux`.
    pub os: String,
    /// GOARCH, such as `amd64`; empty if the source does not state it.
    pub architecture: String,
    /// The variant, such as `v7` of `arm`.
    pub variant: Option<String>,
}

impl Platform {
    /// Linux on the architecture of this machine.
    pub fn host() -> Self {
        Self {
            // On macOS and Windows, engines run containers in a Linux virtual machine.
            os: "linux".to_owned(),
            architecture: goarch(std::env::consts::ARCH).to_owned(),
            variant: None,
        }
    }

    /// Parses `os/architecture[/variant]`, or an architecture alone, which implies linux.
    ///
    /// Errors: What is wrong with the text, and the expected form.
    pub fn parse(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split('/').collect();
        let (os, architecture, variant) = match *parts.as_slice() {
            ["linux" | "windows" | "darwin" | "freebsd"] => return Err(expected(text)),
            [architecture] => ("linux", architecture, None),
            [os, architecture] => (os, architecture, None),
            [os, architecture, variant] => (os, architecture, Some(variant)),
            _ => return Err(expected(text)),
        };
        let valid =
            |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
        if !valid(os) || !valid(architecture) || variant.is_some_and(|variant| !valid(variant)) {
            return Err(expected(text));
        }
        Ok(Self {
            os: os.to_owned(),
            architecture: goarch(architecture).to_owned(),
            variant: variant.map(str::to_owned),
        })
    }

    /// Whether an image for `offered` matches this request. Variants are compared only if the request has one; `v8` of
    /// arm64 equals none (image-spec, image-index.md, "Platform Variants").
    pub(crate) fn accepts(&self, offered: &Self) -> bool {
        let [own, other] = [self, offered].map(|platform| {
            let variant = platform.variant.as_deref();
            variant.filter(|variant| !(platform.architecture == "arm64" && *variant == "v8"))
        });
        // A request for `arm/v7` does not accept v6, although it could run: the index may have both.
        self.os == offered.os && self.architecture == offered.architecture && (self.variant.is_none() || own == other)
    }
}

fn expected(text: &str) -> String {
    format!("invalid platform {text:?}: expected os/architecture[/variant], such as linux/amd64 or linux/arm64")
}

/// Go's name of an architecture that Rust or uname names differently.
fn goarch(name: &str) -> &str {
    match name {
        "x86_64" | "x86-64" => "amd64",
        "aarch64" => "arm64",
        "x86" | "i686" | "i386" => "386",
        // Rust uses one name for both byte orders; images exist for little-endian.
        "powerpc64" | "ppc64el" => "ppc64le",
        "loongarch64" => "loong64",
        other => other,
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let architecture = if self.architecture.is_empty() {
            "unknown"
        } else {
            &self.architecture
        };
        // An index may contain any bytes here.
        let escaped = |part: &str| image_linkage::escape::escape_bytes(part.as_bytes());
        write!(f, "{}/{}", escaped(&self.os), escaped(architecture))?;
        match &self.variant {
            Some(variant) => write!(f, "/{}", escaped(variant)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Platform;

    #[test]
    fn platforms_are_read_in_every_common_spelling() {
        for (text, expected) in [
            ("linux/amd64", "linux/amd64"),
            ("x86_64", "linux/amd64"),
            ("linux/aarch64", "linux/arm64"),
            ("linux/arm/v7", "linux/arm/v7"),
        ] {
            assert_eq!(Platform::parse(text).unwrap().to_string(), expected);
        }
        for text in ["", "linux", "linux/", "a/b/c/d", "linux/amd 64"] {
            assert!(Platform::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_wish_without_variant_takes_any_and_v8_is_plain_arm64() {
        let platform = |text| Platform::parse(text).unwrap();
        assert!(platform("linux/arm64").accepts(&platform("linux/arm64/v8")));
        assert!(platform("linux/arm64/v8").accepts(&platform("linux/arm64")));
        assert!(platform("linux/arm").accepts(&platform("linux/arm/v7")));
        assert!(!platform("linux/arm/v6").accepts(&platform("linux/arm/v7")));
        assert!(!platform("linux/amd64").accepts(&platform("linux/arm64")));
        assert!(!platform("linux/amd64").accepts(&platform("windows/amd64")));
    }
}
