//! Where reports go: to standard output as they are made, to files when they are whole.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use crate::cli::shared_args::{DisplayArgs, ReportArgs};
use crate::cli::terminal::{report_error, terminal_width, write_result, write_verbatim};
use crate::judge::outcome::RunExit;
use crate::make::whole_file::{ExistingOutput, OutputPlace, folder_of, look_at_place, settle, write_whole_file};
use crate::report::ReportFormat;
use crate::report::ReportWriter;
use crate::report::text::{TextDetail, TextLayout};
use image_store::create_unfinished_file;

/// The width of a text that goes to a file: that of a page, whatever the terminal's.
const PAGE: usize = 100;

/// The reports of a run.
pub struct ReportOutputs {
    outputs: Vec<ReportOutput>,
    exit: RunExit,
}

struct ReportOutput {
    format: ReportFormat,
    report: Box<dyn ReportWriter>,
    /// The file that it goes to, and what is to be in it; none for standard output.
    file: Option<(PathBuf, String)>,
}

/// Where a report goes, as far as its form depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReportPlace {
    Stdout,
    File,
}

impl ReportPlace {
    /// How a text is laid out here.
    pub(super) fn layout(self, output: &DisplayArgs) -> TextLayout {
        let width = match self {
            Self::Stdout => terminal_width(),
            Self::File => PAGE,
        };
        let detail = match (self, output.quiet) {
            _ if output.verbose => TextDetail::All,
            (Self::File, _) | (_, 0) => TextDetail::Inventory,
            (_, 1) => TextDetail::Findings,
            _ => TextDetail::Nothing,
        };
        TextLayout { width, detail }
    }
}

impl ReportOutputs {
    /// Begins the reports that were asked for. A file that cannot be written is said now, before images are read,
    /// and keeps no other report from being made.
    ///
    /// Errors: Two reports for one place, in words.
    pub fn open(
        args: &ReportArgs,
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
            // `-o json=-` says what goes to standard output as well as `--format json` does.
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
            // Two spellings of one file would write over each other.
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
                // The other reports may be what the CI system waits for.
                Err(error) => outputs.fail(&file, &error),
            }
        }
        Ok(outputs)
    }

    /// Takes a step in every report, and writes what goes to standard output. One that fails is told once, and is made no
    /// further.
    pub fn write(&mut self, step: impl Fn(&mut dyn ReportWriter) -> io::Result<String>) {
        let exit = &mut self.exit;
        self.outputs.retain_mut(|output| {
            let written = match (step(output.report.as_mut()), &mut output.file) {
                // Commands are what they are for.
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

    /// Writes the files. Returns whether all reports could be written.
    pub fn close(mut self) -> RunExit {
        for output in std::mem::take(&mut self.outputs) {
            if let Some((file, content)) = output.file
                // Texts are made with colours, which are for terminals alone.
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

    fn fail(&mut self, file: &Path, error: &io::Error) {
        self.exit = self.exit.max(cannot_write(file, error));
    }
}

fn cannot_write(file: &Path, error: &io::Error) -> RunExit {
    report_error(&format!("cannot write {}: {error}", file.display()))
}

/// Whether the file can be written.
fn probe(file: &Path) -> io::Result<()> {
    // Permissions, quotas and read-only mounts all show when a file is made, and not before.
    if look_at_place(file)? != OutputPlace::Stream {
        let made = create_unfinished_file(folder_of(file), None).map_err(|error| match error.kind() {
            kind @ io::ErrorKind::NotFound => io::Error::new(kind, "its folder is not there"),
            kind => kind.into(),
        });
        made?.close()?;
    }
    Ok(())
}
