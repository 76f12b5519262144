//! What `audit` takes.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::ReadArgs;
use crate::judge::outcome::FailOn;
use crate::judge::rule::Severity;
use crate::knowledge::DEFAULT_LIBRARY;

/// What `audit` takes.
#[derive(Debug, Args)]
pub struct AuditArgs {
    /// The images; all are audited, and the gravest outcome counts
    #[arg(value_name = "IMAGE", required = true)]
    pub images: Vec<String>,
    /// The phase that the image is for: inference, training, profiling, or one of --profiles; severities follow it
    /// (repeatable)
    #[arg(
        long,
        value_name = "PHASE",
        env = "CUPTI_AUDIT_PHASE",
        value_delimiter = ','
    )]
    pub phase: Vec<String>,
    /// The severity from which on findings fail the run [default: error]
    #[arg(long, value_enum, value_name = "SEVERITY", env = "CUPTI_AUDIT_FAIL_ON")]
    pub fail_on: Option<FailOnArg>,
    /// The form of the report on standard output [default: text]
    #[arg(long, value_enum, env = "CUPTI_AUDIT_FORMAT")]
    pub format: Option<ReportFormat>,
    /// A report written to a file, beside the one on standard output, such as json=audit.json (repeatable; - is
    /// standard output)
    #[arg(long = "output", short, value_name = "FORMAT=FILE", value_parser = OutputFile::parse,
        env = "CUPTI_AUDIT_OUTPUT", value_delimiter = ',')]
    pub outputs: Vec<OutputFile>,
    /// The library that the images are asked about: a file of libraries/ of the profiles
    #[arg(
        long,
        value_name = "NAME",
        env = "CUPTI_AUDIT_LIBRARY",
        default_value = DEFAULT_LIBRARY
    )]
    pub library: String,
    #[command(flatten)]
    #[expect(
        missing_docs,
        reason = "clap would print a comment as the help of the group"
    )]
    pub read: ReadArgs,
}

/// `--fail-on`.
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
    /// The form.
    pub format: ReportFormat,
    /// The file; `-` is standard output.
    pub file: PathBuf,
}

impl OutputFile {
    /// Reads `FORMAT=FILE`.
    ///
    /// Errors: What is wrong with the text, and what would do.
    pub fn parse(text: &str) -> Result<Self, String> {
        let names = || {
            let values = ReportFormat::value_variants().iter();
            let values = values.filter_map(ValueEnum::to_possible_value);
            let names: Vec<String> = values.map(|value| value.get_name().to_owned()).collect();
            names.join(", ")
        };
        let Some((format, file)) = text.split_once('=') else {
            return Err("expected FORMAT=FILE, such as json=audit.json".to_owned());
        };
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
