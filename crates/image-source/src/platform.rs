//! Platforms: what was asked for, what the host is, and which image of an index fits.

use std::fmt;

use serde::Deserialize;

/// An operating system and architecture, in the words of Go that image-spec uses (`linux/arm64/v8`).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Platform {
    /// GOOS, such as `linux`.
    pub os: String,
    /// GOARCH, such as `amd64`; empty where a source does not say.
    pub architecture: String,
    /// The variant, such as `v7` of `arm`.
    pub variant: Option<String>,
}

impl Platform {
    /// Linux on the architecture of the machine this runs on.
    pub fn host() -> Self {
        Self {
            // On macOS and Windows, too, engines run containers in a virtual machine with linux.
            os: "linux".to_owned(),
            architecture: goarch(std::env::consts::ARCH).to_owned(),
            variant: None,
        }
    }

    /// Reads `os/architecture[/variant]`, or an architecture alone, which means linux.
    ///
    /// Errors: What is wrong with the text, and what would do.
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

    /// Whether an image for `offered` serves this wish. A variant counts only where the wish names one;
    /// `v8` of arm64 is the same as none (image-spec, image-index.md, "Platform Variants").
    pub(crate) fn accepts(&self, offered: &Self) -> bool {
        let plain = |platform: &Self| {
            platform
                .variant
                .clone()
                .filter(|variant| !(platform.architecture == "arm64" && variant == "v8"))
        };
        // A wish for `arm/v7` does not take v6, which it could run: the index may offer both, and
        // names are matched exactly.
        self.os == offered.os
            && self.architecture == offered.architecture
            && (self.variant.is_none() || plain(self) == plain(offered))
    }
}

fn expected(text: &str) -> String {
    format!("invalid platform {text:?}: expected os/architecture[/variant], such as linux/amd64 or linux/arm64")
}

/// The name Go has for an architecture that Rust or uname names otherwise.
fn goarch(name: &str) -> &str {
    match name {
        "x86_64" | "x86-64" => "amd64",
        "aarch64" => "arm64",
        "x86" | "i686" | "i386" => "386",
        // Rust has one name for both byte orders, and images are built for the little-endian one.
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
        // An index may say anything here.
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
