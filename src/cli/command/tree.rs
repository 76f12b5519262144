//! `tree`: shows how the loader resolves one object of an image.

use crate::cli::image_reader::PreparedCommand;
use crate::cli::option_values::{NamedValue, one_of};
use crate::cli::shared_args::{DISPLAY, OnePlatformArgs, ProgressArgs, ReadArgs};
use crate::cli::terminal::{CommandError, write_result};
use crate::facts::World;
use crate::judge::outcome::RunExit;
use crate::report;
use crate::report::{PLAIN_FORMATS, ReportFormat};
use clap::Args;

const HELP: &str = "\
Exit codes:
  0  the object and all that it needs load
  1  the object does not load
  2  an error, or something could not be checked

Examples:
  cupti-audit tree nvidia/cuda:12.4.1-devel-ubuntu22.04 libcupti.so.12
  cupti-audit tree docker-daemon:trainer:1 /usr/bin/python3 --world nvidia";

/// Show how the loader finds the libraries of an object, step by step
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct TreeArgs {
    /// Image to read
    #[arg(value_name = "IMAGE")]
    image_name: String,
    /// Path in the image, or a name that a plain process opens, such as libcupti.so.12
    object: String,
    /// Image as it is, or as the NVIDIA container runtime prepares it
    // The default is the unchanged image, as seen by a build or by a run without a GPU.
    #[arg(long, default_value = "as-is", value_parser = one_of(&WORLDS))]
    world: World,
    /// Format of the tree
    #[arg(long, default_value = "text", value_parser = one_of(&PLAIN_FORMATS))]
    format: ReportFormat,
    #[command(flatten)]
    platform: OnePlatformArgs,
    #[command(flatten)]
    read: ReadArgs,
    #[command(flatten)]
    progress: ProgressArgs,
    /// Also print each search that found its library
    #[arg(long, short, conflicts_with = "quiet", overrides_with = "verbose", help_heading = DISPLAY)]
    verbose: bool,
}

/// The environment of the loader.
const WORLDS: [NamedValue<World>; 2] = [
    ("as-is", "The image as it is, without driver libraries", World::AsIs),
    (
        "nvidia",
        "Driver libraries are present, and ldconfig has run",
        World::Nvidia,
    ),
];

impl TreeArgs {
    /// Resolves one object, like a program start or a dlopen.
    pub fn run(mut self) -> Result<RunExit, CommandError> {
        let prepared = PreparedCommand::new(&mut self.read, &self.platform, self.progress.bars())?;
        let facts = prepared.read(&self.image_name)?;
        let context = facts.contexts.get(self.world);
        // A path may refer to a static program, which needs no loader; a soname needs one.
        if context.linker.is_none() && !self.object.contains('/') {
            let (image, platform) = (&self.image_name, &facts.image.platform);
            return Err(format!("{image}: the image has no dynamic loader for {platform}").into());
        }
        // dlopen(3) treats a name with a slash as a path, and searches for any other name.
        let resolution = if self.object.contains('/') {
            let (image, object) = (&self.image_name, &self.object);
            let no_file = || match context.rootfs.lookup(object.as_bytes()) {
                Ok(_) => format!("{image}: {object} is no file; name a program or a library"),
                Err(error) => {
                    format!("the image {image} has no {object} ({error}); name a program, a library or a soname")
                }
            };
            context.start_program(object.as_bytes()).ok_or_else(no_file)?
        } else {
            context.open_plain(self.object.as_bytes())
        };
        let tree = report::tree::ResolutionTree {
            world: self.world,
            root: &self.object,
            resolution: &resolution,
        };
        let text = match self.format {
            ReportFormat::Json => format!("{}\n", report::tree::tree_json(&tree)),
            _ => report::tree::tree_text(&tree, self.verbose),
        };
        let exit = if !resolution.loads() {
            RunExit::Findings
        } else if resolution.unread.is_empty() {
            RunExit::Clean
        } else {
            RunExit::Open
        };
        Ok(write_result(&text, exit))
    }
}
