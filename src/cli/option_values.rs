//! Values that a flag and a key of the config take alike, each read from the same words.

use std::path::PathBuf;

use clap::ValueEnum;

use crate::judge::outcome::FailOn;
use crate::judge::rule::Severity;
use image_linkage::limits::Limits;
use image_source::Platform;
use image_source::registry::RetryPolicy;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Default)]
pub enum FailOnArg {
    /// Errors fail the run.
    #[default]
    Error,
    /// Warnings, too.
    Warning,
    /// Notes, too.
    Note,
    /// No finding fails the run.
    Never,
}

// `judge` knows no clap, so that the flag has an enum of its own.
impl From<FailOnArg> for FailOn {
    fn from(argument: FailOnArg) -> Self {
        match argument {
            FailOnArg::Error => Self::Severity(Severity::Error),
            FailOnArg::Warning => Self::Severity(Severity::Warning),
            FailOnArg::Note => Self::Severity(Severity::Note),
            FailOnArg::Never => Self::Never,
        }
    }
}

/// The form of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// For people
    Text,
    /// For programs: one object per image, a line each
    Json,
    /// SARIF 2.1.0, for code scanning
    Sarif,
    /// JUnit XML, for test results: a suite per image, a case per rule
    Junit,
    /// For a comment on a pull request, or a job's summary
    Markdown,
    /// Annotations of GitHub Actions
    #[value(name = "github")]
    GitHub,
    /// One page with pictures of who gets CUPTI and what the layers hold; it needs nothing beside itself
    Html,
    /// The predicate of an attestation, for cosign to sign
    Attestation,
}

/// A report and the file it goes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputFile {
    /// The form in which the report is written.
    pub format: ReportFormat,
    /// The file; `-` is standard output.
    pub file: PathBuf,
}

impl OutputFile {
    /// Reads `FORMAT=FILE`, as `--output` and the key `outputs` have it.
    ///
    /// Errors: What is wrong with the text, and what would do.
    pub fn parse(text: &str) -> Result<Self, String> {
        let names = || {
            let values = ReportFormat::value_variants().iter();
            let values = values.filter_map(ValueEnum::to_possible_value);
            let names: Vec<String> = values.map(|value| value.get_name().to_owned()).collect();
            names.join(", ")
        };
        // At the first `=`: the name of a file may hold more of them, that of a form none.
        let Some((format, file)) = text.split_once('=') else {
            return Err("expected FORMAT=FILE, such as json=audit.json".to_owned());
        };
        // Else it would fail when the report is written, after the image was read.
        if file.is_empty() {
            return Err(format!("there is no file after {format}="));
        }
        let format = ReportFormat::from_str(format, false)
            .map_err(|_unknown| format!("no format is called {format:?}; there are {}", names()))?;
        Ok(Self {
            format,
            file: PathBuf::from(file),
        })
    }
}

/// What `--platform` chooses of an index of images.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlatformArg {
    /// Every platform that the image is for.
    All,
    /// The image for this platform alone.
    One(Platform),
}

impl PlatformArg {
    /// Reads `all` or a platform.
    ///
    /// Errors: What [`Platform::parse`] finds wrong with the text.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text {
            "all" => Ok(Self::All),
            _ => Platform::parse(text).map(Self::One),
        }
    }
}

/// A bound on what is read, for one that is there already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitArg {
    /// The name that [`Limits`] or [`RetryPolicy`] knows.
    pub name: String,
    /// Bytes, seconds or a number of things, as the name says.
    pub value: u64,
}

impl LimitArg {
    /// Reads `NAME=NUMBER`; a number may end in KiB, MiB, GiB or TiB.
    ///
    /// Errors: What is wrong with the text, and which names there are.
    pub fn parse(text: &str) -> Result<Self, String> {
        let names: Vec<&str> = Limits::names().chain(RetryPolicy::names()).collect();
        let (name, number) = text.split_once('=').unwrap_or((text, ""));
        if !names.contains(&name) {
            return Err(format!("no limit is called {name:?}; there are {}", names.join(", ")));
        }
        let units = [("KiB", 10), ("MiB", 20), ("GiB", 30), ("TiB", 40)];
        let unit = units.into_iter().find(|(unit, _)| number.ends_with(unit));
        let (digits, shift) = unit.map_or((number, 0), |(unit, shift)| (number.trim_end_matches(unit), shift));
        let value = digits.trim().parse::<u64>().ok().filter(|value| *value > 0);
        let value = value.and_then(|value| value.checked_mul(1 << shift));
        let value = value.ok_or_else(|| format!("expected {name}=NUMBER, such as {name}=1000 or {name}=4GiB"))?;
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
        let read = |text: &str| LimitArg::parse(text).map(|limit| limit.value);
        assert_eq!(read("layer-entries=8000000"), Ok(8_000_000));
        assert_eq!(read("layer-bytes=2TiB"), Ok(2 << 40));
        for (text, expected) in [
            (
                "layer-entrys=1",
                "no limit is called \"layer-entrys\"; there are layer-bytes, ",
            ),
            ("layers", "expected layers=NUMBER"),
            ("layers=0", "expected layers=NUMBER"),
            ("layers=-1", "expected layers=NUMBER"),
            ("layer-bytes=99999999TiB", "expected layer-bytes=NUMBER"),
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
