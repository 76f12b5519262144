//! The commands, each in a file of its own, and what they share: reading an image and writing a result.
#![expect(
    clippy::print_stderr,
    reason = "results go to standard output, everything else to standard error"
)]

mod advise;
mod audit;
mod dockerfile;
mod output_file;
mod profilers;
mod project_config;
mod report_outputs;
mod rules;
mod schema;
mod slim;
mod tree;

use std::io::{self, Write as _};

use crate::cli::progress::{BarVisibility, ProgressBars};
use crate::cli::{ColorArg, ImageArgs, PlatformArg, ReadArgs};
use crate::judge::facts::{GatherOptions, ImageFacts};
use crate::judge::image_reading::{self, ReadOptions};
use crate::judge::outcome::RunExit;
use crate::knowledge::Knowledge;
use crate::knowledge::file_interest::library_options;
use image_linkage::loader::CpuLevel;
use image_source::registry::{CredentialSource, RegistryOptions};
use image_source::{ImageError, Platform};

pub use advise::run_advise;
pub use audit::run_audit;
pub use dockerfile::run_dockerfile;
pub use profilers::run_profilers;
pub use rules::run_rules;
pub use schema::run_schema;
pub use slim::run_slim;
pub use tree::run_tree;

/// How images are had, for the commands that read some.
struct ImageReader {
    options: ImageArgs,
    knowledge: Knowledge,
    bars: ProgressBars,
}

impl ImageReader {
    fn new(args: &ReadArgs, knowledge: &Knowledge) -> Self {
        Self {
            options: args.image.clone(),
            knowledge: knowledge.clone(),
            bars: ProgressBars::new(if args.output.quiet {
                BarVisibility::Never
            } else {
                BarVisibility::OnTerminal
            }),
        }
    }

    fn options<'a>(&'a self, platform: Option<&'a Platform>) -> ReadOptions<'a> {
        ReadOptions {
            platform,
            registry: RegistryOptions {
                insecure: self.options.insecure_registries.clone(),
                ca_cert: self.options.ca_cert.clone(),
                credentials: CredentialSource::Host,
                ..RegistryOptions::default()
            },
            knowledge: &self.knowledge,
            conditions: GatherOptions {
                environment: self.options.environment.clone(),
                cpu: self.options.cpu.unwrap_or(CpuLevel::V3),
            },
            index: library_options(self.knowledge.library),
            progress: &self.bars,
        }
    }

    /// The facts of an image for one platform, or for the platform that is chosen without a wish.
    fn read(&self, image: &str, platform: Option<&Platform>) -> Result<ImageFacts, ImageError> {
        let facts = image_reading::read_image(image, &self.options(platform));
        self.bars.clear();
        facts
    }

    /// The platforms for which an image is to be read; `None` is the one that is chosen without a wish.
    fn platforms(&self, image: &str) -> Result<Vec<Option<Platform>>, ImageError> {
        match &self.options.platform {
            Some(PlatformArg::All) => {
                let all = image_reading::list_platforms(image, &self.options(None))?;
                let wishes = all.into_iter().map(Some).collect::<Vec<_>>();
                Ok(if wishes.is_empty() {
                    vec![None]
                } else {
                    wishes
                })
            }
            Some(PlatformArg::One(platform)) => Ok(vec![Some(platform.clone())]),
            None => Ok(vec![None]),
        }
    }
}

/// What a command says that looks at an image for one platform and is asked for all.
const ONE_PLATFORM: &str = "only an audit takes all platforms; name one with --platform";

/// What a command has that reads images for one platform.
struct PreparedCommand {
    knowledge: Knowledge,
    platform: Option<Platform>,
    reader: ImageReader,
}

impl PreparedCommand {
    /// Reads what the user brings, and fills `args` by the config. Where all platforms are asked for, `only_one` is
    /// said.
    fn new(args: &mut ReadArgs, only_one: &str) -> Result<Self, RunExit> {
        let file = project_config::read_config(&args.own)?;
        if let Some(file) = &file {
            file.config.fill_image(&mut args.image);
        }
        let knowledge = project_config::load_knowledge(&args.own, file.as_ref())?;
        let platform = match args.image.platform.clone() {
            Some(PlatformArg::All) => return Err(report_error(&only_one)),
            Some(PlatformArg::One(platform)) => Some(platform),
            None => None,
        };
        let reader = ImageReader::new(args, &knowledge);
        Ok(Self {
            knowledge,
            platform,
            reader,
        })
    }

    /// The facts of an image.
    fn read(&self, image: &str) -> Result<ImageFacts, RunExit> {
        let facts = self.reader.read(image, self.platform.as_ref());
        facts.map_err(|error| report_error(&error))
    }
}

/// Reads the one image of a command, with what the user brings.
fn read_single_image(image: &str, args: &mut ReadArgs) -> Result<(ImageFacts, Knowledge), RunExit> {
    let prepared = PreparedCommand::new(args, ONE_PLATFORM)?;
    Ok((prepared.read(image)?, prepared.knowledge))
}

/// A line of JSON as a result.
fn json_line(line: serde_json::Result<String>) -> io::Result<String> {
    Ok(line.map_err(io::Error::other)? + "\n")
}

fn set_color_choice(when: ColorArg) {
    match when {
        ColorArg::Auto => {}
        ColorArg::Always => anstream::ColorChoice::Always.write_global(),
        ColorArg::Never => anstream::ColorChoice::Never.write_global(),
    }
}

/// The width of the terminal; where there is none, that of a page.
fn terminal_width() -> usize {
    terminal_size::terminal_size().map_or(100, |(width, _)| usize::from(width.0))
}

/// Writes a result. A reader that has gone away, as behind `head`, is no failure.
fn write_result(text: io::Result<String>, exit: RunExit) -> RunExit {
    let written = text.and_then(|text| {
        let mut out = anstream::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()
    });
    match written {
        Ok(()) => exit,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => exit,
        Err(error) => report_error(&format!("cannot write the result: {error}")),
    }
}

fn report_error(error: &dyn std::fmt::Display) -> RunExit {
    eprintln!("error: {error}");
    RunExit::Open
}
