//! The outputs of reports: standard output is written continuously, and files are written when complete.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

use crate::cli::output_file::check_not_read;
use crate::cli::shared_args::{DetailArgs, QuietArgs, ReportArgs};
use crate::cli::terminal::{report_error, terminal_width, write_result, write_verbatim};
use crate::judge::outcome::RunExit;
use crate::make::whole_file::{ExistingOutput, OutputPlace, folder_of, look_at_place, settle, write_whole_file};
use crate::report::ReportFormat;
use crate::report::ReportWriter;
use crate::report::text::{TextDetail, TextLayout};
use image_store::create_unfinished_file;

/// The text width in a file, independent of the terminal.
const PAGE: usize = 100;

/// The reports of a run.
pub struct ReportOutputs {
    outputs: Vec<ReportOutput>,
    exit: RunExit,
}

struct ReportOutput {
    format: ReportFormat,
    report: Box<dyn ReportWriter>,
    /// The file and its content so far; `None` for standard output.
    file: Option<(PathBuf, String)>,
}

/// The kind of destination, which affects the layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReportPlace {
    Stdout,
    File,
}

impl ReportPlace {
    /// The text layout for this destination.
    pub(super) fn layout(self, output: &QuietArgs) -> TextLayout {
        let width = match self {
            Self::Stdout => terminal_width(),
            Self::File => PAGE,
        };
        let detail = match (self, output.quiet) {
            (Self::File, _) | (_, 0) => TextDetail::Inventory,
            (_, 1) => TextDetail::Findings,
            _ => TextDetail::Nothing,
        };
        TextLayout { width, detail }
    }

    /// The layout for a report that --verbose makes longer.
    pub(super) fn detailed_layout(self, output: &DetailArgs) -> TextLayout {
        let mut layout = self.layout(&output.less);
        if output.verbose {
            layout.detail = TextDetail::All;
        }
        layout
    }
}

impl ReportOutputs {
    /// Starts the requested reports. A file that cannot be written is reported before images are read, and the other
    /// reports are still made.
    ///
    /// Errors: Two reports for the same destination, or one that would replace one of the `inputs`, in words.
    pub fn open(
        args: &ReportArgs,
        inputs: &[PathBuf],
        make: impl Fn(ReportFormat, ReportPlace) -> Box<dyn ReportWriter>,
    ) -> Result<Self, String> {
        let mut outputs = Self {
            outputs: Vec::new(),
            exit: RunExit::Clean,
        };
        let (on_stdout, files): (Vec<_>, Vec<_>) =
            args.outputs.iter().partition(|output| output.file.as_os_str() == "-");
        let format = match (args.format, on_stdout.as_slice()) {
            (format, []) => format.unwrap_or(ReportFormat::Text),
            // `-o json=-` selects the format of standard output like `--format json`.
            (None, [only]) => only.format,
            _ => return Err("two reports are to go to standard output".to_owned()),
        };
        outputs.outputs.push(ReportOutput {
            format,
            report: make(format, ReportPlace::Stdout),
            file: None,
        });
        let mut taken = BTreeSet::new();
        for output in files {
            // Two spellings of the same file would overwrite each other.
            check_not_read(&output.file, inputs, "report")?;
            let file = settle(&output.file);
            if !taken.insert(file.clone()) {
                return Err(format!("two reports are to go to {}", output.file.display()));
            }
            match probe(&file) {
                Ok(()) => outputs.outputs.push(ReportOutput {
                    format: output.format,
                    report: make(output.format, ReportPlace::File),
                    file: Some((file, String::new())),
                }),
                // A CI system may need the other reports.
                Err(error) => outputs.fail(&output.file, &format!("{error}; other reports are made")),
            }
        }
        Ok(outputs)
    }

    /// Runs a step of every report, and writes the part for standard output. A report that fails is reported once and
    /// stopped.
    pub fn write(&mut self, step: impl Fn(&mut dyn ReportWriter) -> io::Result<String>) {
        let exit = &mut self.exit;
        self.outputs.retain_mut(|output| {
            let written = match (step(output.report.as_mut()), &mut output.file) {
                // Not made harmless, because GitHub annotations are commands.
                (Ok(text), None) if output.format == ReportFormat::GitHub => write_verbatim(&text, RunExit::Clean),
                (Ok(text), None) => write_result(&text, RunExit::Clean),
                (Ok(text), Some((_, content))) => {
                    content.push_str(&text);
                    RunExit::Clean
                }
                (Err(error), None) => report_error(&format!("cannot write the result: {error}")),
                (Err(error), Some((file, _))) => cannot_write(file, &error),
            };
            *exit = (*exit).max(written);
            written == RunExit::Clean
        });
    }

    /// Writes the files. Returns whether all reports were written.
    pub fn close(mut self) -> RunExit {
        for output in std::mem::take(&mut self.outputs) {
            if let Some((file, content)) = output.file
                // Strip the terminal styles from the text.
                && let Err(error) = write_whole_file(
                    &file,
                    &anstream::adapter::strip_str(&content).to_string(),
                    ExistingOutput::Replaced,
                )
            {
                self.fail(&file, &error);
            }
        }
        self.exit
    }

    fn fail(&mut self, file: &Path, error: &dyn Display) {
        self.exit = self.exit.max(cannot_write(file, error));
    }
}

fn cannot_write(file: &Path, error: &dyn Display) -> RunExit {
    report_error(&format!("cannot write {}: {error}", file.display()))
}

/// Checks that the file can be written.
fn probe(file: &Path) -> io::Result<()> {
    // Permissions, quotas and read-only mounts only show when a file is created.
    if look_at_place(file)? != OutputPlace::Stream {
        let made = create_unfinished_file(folder_of(file), None).map_err(|error| match error.kind() {
            kind @ io::ErrorKind::NotFound => io::Error::new(kind, "its folder is not there"),
            kind => kind.into(),
        });
        made?.close()?;
    }
    Ok(())
}
