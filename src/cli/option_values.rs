//! Values that flags and config keys share, parsed in the same way.

use std::path::PathBuf;
use std::str::FromStr;

use anstream::ColorChoice;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

use crate::judge::outcome::FailOn;
use crate::judge::rule::Severity;
use crate::knowledge::mistake::unknown_name;
use crate::make::choose::request::MethodKind;
use crate::report::{FINDING_FORMATS, NamedFormat, ReportFormat};
use image_linkage::limits::Limits;
use image_source::Platform;
use image_source::registry::RetryPolicy;

/// The name of a value, its help text, and the value.
pub type NamedValue<T> = (&'static str, &'static str, T);

#[rustfmt::skip] // A row is a line.
pub const FAIL_ON: [NamedValue<FailOn>; 4] = [
    ("error", "Errors fail the run", FailOn::Severity(Severity::Error)),
    ("warning", "Errors and warnings fail the run", FailOn::Severity(Severity::Warning)),
    ("note", "Every finding fails the run", FailOn::Severity(Severity::Note)),
    ("never", "No finding fails the run", FailOn::Never),
];

/// The methods to install CUPTI.
#[rustfmt::skip] // A row is a line.
pub const VIA: [NamedValue<MethodKind>; 5] = [
    ("apt", "Package of the distribution or of NVIDIA", MethodKind::Apt),
    ("dnf", "NVIDIA's package for Red Hat systems", MethodKind::Dnf),
    ("pip", "NVIDIA's wheel, in a Python environment of the image", MethodKind::Pip),
    ("conda", "Package of conda-forge", MethodKind::Conda),
    ("copy", "Files of the image of --from, or of NVIDIA's devel image", MethodKind::Copy),
];

pub const COLOR: [NamedValue<ColorChoice>; 3] = [
    ("auto", "Only on a terminal", ColorChoice::Auto),
    ("always", "Always", ColorChoice::Always),
    ("never", "Never", ColorChoice::Never),
];

/// Parses one of `values` for a flag. The help lists them; any other value is an error.
pub fn one_of<T: Copy + Send + Sync>(values: &'static [NamedValue<T>]) -> impl TypedValueParser<Value = T> {
    let names = values
        .iter()
        .map(|(name, help, _)| PossibleValue::new(*name).help(*help));
    PossibleValuesParser::new(names).try_map(|name| find_named(values, &name))
}

/// The value with this name.
///
/// Errors: No value has this name; the message lists all names.
pub fn find_named<T: Copy>(values: &[NamedValue<T>], name: &str) -> Result<T, String> {
    let found = values.iter().find(|(known, ..)| *known == name);
    found.map(|(.., value)| *value).ok_or_else(|| {
        let names: Vec<&str> = values.iter().map(|(name, ..)| *name).collect();
        unknown_name("value", name, &names)
    })
}

/// A report format and its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputFile {
    pub format: ReportFormat,
    /// The file; `-` is standard output.
    pub file: PathBuf,
}

impl OutputFile {
    /// Parses `FORMAT=FILE` with one of `formats`.
    ///
    /// Errors: The text has another form, or another format.
    pub fn parse(text: &str, formats: &[NamedFormat]) -> Result<Self, String> {
        // At the first `=`, because a file name may contain more.
        let Some((format, file)) = text.split_once('=') else {
            return Err("expected FORMAT=FILE, such as json=audit.json".to_owned());
        };
        // Otherwise the error would only appear after the image was read.
        if file.is_empty() {
            return Err(format!("there is no file after {format}="));
        }
        let known = find_named(formats, format).map_err(|_unknown| {
            let names: Vec<&str> = formats.iter().map(|(name, ..)| *name).collect();
            format!("no format is called {format:?}; there are {}", names.join(", "))
        });
        Ok(Self {
            format: known?,
            file: PathBuf::from(file),
        })
    }
}

impl FromStr for OutputFile {
    type Err = String;

    /// Parses a value of `--output` of an audit, or of the key `outputs`.
    fn from_str(text: &str) -> Result<Self, String> {
        Self::parse(text, &FINDING_FORMATS)
    }
}

/// The choice of `--platform` from an image index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlatformArg {
    /// Every platform of the image.
    All,
    /// Only this platform.
    One(Platform),
}

impl PlatformArg {
    /// The platform, unless it is all.
    pub fn one(&self) -> Option<&Platform> {
        match self {
            Self::All => None,
            Self::One(platform) => Some(platform),
        }
    }
}

impl FromStr for PlatformArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "all" => Ok(Self::All),
            _ if text.contains(',') => Err("expected one platform, or all for each of the image".to_owned()),
            // File and artifact names often contain Docker's platforms with a dash.
            _ if !text.contains('/') => Platform::parse(&text.replacen('-', "/", 2)).map(Self::One),
            _ => Platform::parse(text).map(Self::One),
        }
    }
}

/// The last words of limits that count; the others are sizes in bytes.
const COUNTS: &str = "entries files layers ratio regions second seconds steps tries";

/// A new value for an existing limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitArg {
    /// The name of the limit in [`Limits`] or [`RetryPolicy`].
    pub name: String,
    /// Bytes, seconds or a count, depending on the limit.
    pub value: u64,
}

impl FromStr for LimitArg {
    type Err = String;

    /// Parses `NAME=NUMBER`; a size may end in KiB, MiB, GiB or TiB.
    fn from_str(text: &str) -> Result<Self, String> {
        let names: Vec<&str> = Limits::names().chain(RetryPolicy::names()).collect();
        let (name, number) = text.split_once('=').unwrap_or((text, ""));
        if !names.contains(&name) {
            return Err(format!("no limit is called {name:?}; there are {}", names.join(", ")));
        }
        let units = [("KiB", 10), ("MiB", 20), ("GiB", 30), ("TiB", 40)];
        let is_count = COUNTS.split(' ').any(|last| name.ends_with(last));
        let unit = units.into_iter().find(|(unit, _)| !is_count && number.ends_with(unit));
        let (digits, shift) = unit.map_or((number, 0), |(unit, shift)| (number.trim_end_matches(unit), shift));
        let in_units = digits.trim().parse::<u64>().ok().filter(|value| *value > 0);
        let value = in_units
            .and_then(|value| value.checked_mul(1 << shift))
            .ok_or_else(|| {
                let example = if is_count { "100000" } else { "4GiB" };
                format!("expected {name}=NUMBER from 1 on, such as {name}={example}; no limit can be turned off")
            })?;
        Ok(Self {
            name: name.to_owned(),
            value,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::LimitArg;
    use image_linkage::limits::Limits;
    use image_source::registry::RetryPolicy;

    #[test]
    fn a_limit_is_a_name_and_a_number_with_or_without_a_unit() {
        let read = |text: &str| text.parse().map(|limit: LimitArg| limit.value);
        assert_eq!(read("layer-entries=8000000"), Ok(8_000_000));
        assert_eq!(read("layer-bytes=2TiB"), Ok(2 << 40));
        for (text, expected) in [
            (
                "layer-entrys=1",
                "no limit is called \"layer-entrys\"; there are layer-bytes, ",
            ),
            ("layers", "expected layers=NUMBER"),
            ("layers=0", "expected layers=NUMBER from 1 on, such as layers=100000;"),
            ("layers=4GiB", "expected layers=NUMBER"),
            ("layers=-1", "expected layers=NUMBER"),
            (
                "layer-bytes=99999999TiB",
                "expected layer-bytes=NUMBER from 1 on, such as layer-bytes=4GiB;",
            ),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn each_limit_changes_what_it_names_and_stands_in_security_md() {
        let page = include_str!("../../SECURITY.md");
        let mut limits = Limits::default();
        for name in Limits::names() {
            let before = limits.clone();
            assert!(limits.set(name, 77) && limits != before, "{name}");
            assert!(page.contains(&format!("`{name}`")), "{name}");
        }
        let mut patience = RetryPolicy::default();
        for name in RetryPolicy::names() {
            let before = patience.clone();
            assert!(patience.set(name, 77) && patience != before, "{name}");
            assert!(page.contains(&format!("`{name}`")), "{name}");
        }
        assert!(!limits.set("links", 1) && !patience.set("", 1));
    }
}
