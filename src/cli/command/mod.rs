//! The command line and its commands. Each command has a file with its arguments and its code, and a row here.

mod advise;
mod audit;
mod cache;
mod check;
mod diff;
mod dockerfile;
mod explain;
mod fleet;
mod links;
mod profilers;
mod profiles;
mod rules;
mod setup;
mod slim;
mod tree;
mod verify;

use crate::cli::terminal::CommandError;
use crate::judge::outcome::RunExit;
use clap::{Parser, Subcommand};

/// Tell whether CUPTI loads in a container image, for which programs, and if not, why
#[derive(Debug, Parser)]
#[command(
    version,
    long_about = "Tell whether CUPTI, NVIDIA's profiling interface, loads in a container image, for which programs, \
                  and if not, why\n\nThe audit reads the image's files as the dynamic loader would. Nothing is run or unpacked.",
    arg_required_else_help = true,
    // Without a command the arguments belong to `audit`, because most people type `cupti-audit IMAGE`.
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true
)]
pub(super) struct Cli {
    #[command(subcommand)]
    command: Option<CliCommand>,
    #[command(flatten)]
    audit: audit::AuditArgs,
}

impl Cli {
    pub(super) fn run(self) -> Result<RunExit, CommandError> {
        let command = self.command.unwrap_or_else(|| CliCommand::Audit(Box::new(self.audit)));
        command.run()
    }
}

/// Declares the commands. Each row has a name and an arguments type with a `run` method.
macro_rules! commands {
    ($($name:ident($arguments:ty),)*) => {
        #[derive(Debug, Subcommand)]
        enum CliCommand {
            // Boxed, because the sizes of the arguments differ by a large factor.
            $($name(Box<$arguments>),)*
        }

        impl CliCommand {
            fn run(self) -> Result<RunExit, CommandError> {
                match self {
                    $(Self::$name(arguments) => arguments.run(),)*
                }
            }
        }
    };
}

// In the order of the help, which shows the first sentence of each arguments type.
commands! {
    Audit(audit::AuditArgs),
    Links(links::LinksArgs),
    Check(check::CheckArgs),
    Diff(diff::DiffArgs),
    Tree(tree::TreeArgs),
    Profilers(profilers::ProfilersArgs),
    Advise(advise::AdviseArgs),
    Dockerfile(dockerfile::DockerfileArgs),
    Slim(slim::SlimArgs),
    Verify(verify::VerifyArgs),
    Fleet(fleet::FleetArgs),
    Explain(explain::ExplainArgs),
    Cache(cache::CacheArgs),
    Rules(rules::RulesArgs),
    Profiles(profiles::ProfilesArgs),
    Config(setup::ConfigFileArgs),
    Schema(setup::SchemaArgs),
    Completions(setup::CompletionsArgs),
    Man(setup::ManArgs),
}
