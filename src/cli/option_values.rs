//! Values that a flag and a key of the config take alike, each read from the same words.

use std::path::PathBuf;

use clap::ValueEnum;

use crate::judge::outcome::FailOn;
use crate::judge::rule::Severity;
use image_source::Platform;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FailOnArg {
    /// Errors fail the run.
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
