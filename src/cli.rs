//! The command line: what may be asked, and nothing of how it is answered.

mod slim;

use std::path::PathBuf;

pub use slim::SlimArgs;

use clap::{Arg, Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueEnum};

use crate::image::{Platform, config};
use crate::loader::{CpuLevel, World};
use crate::remedy::way::Via;
use crate::report::FailOn;
use crate::rule::Severity;

const AFTER_HELP: &str = "\
Images:
  NAME[:TAG][@DIGEST]            in a registry (docker:// may stand before it)
  docker-daemon:NAME             of the Docker Engine      podman:NAME  of Podman
  docker-archive:FILE[:REF]      the output of docker save      -  the same on standard input
  oci:DIR[:TAG]                  an OCI image layout      oci-archive:FILE[:TAG]  the same in a tar
  rootfs:DIR                     an unpacked root file system
  An existing path without a scheme is recognised by its content.

Exit codes:
  0  no finding at or above --fail-on
  1  findings
  2  it could not be done, or something could not be checked and the verdict is open
  Of several images or platforms, each is audited, and the gravest code counts: 2 over 1 over 0.

A flag wins over its environment variable, and that over cupti-audit.yaml. An empty variable counts
as none. The config has suppressions besides: findings that are known, each with a reason.

Examples:
  cupti-audit nvidia/cuda:12.4.0-runtime-ubuntu22.04
  cupti-audit --phase profiling docker-daemon:trainer:latest
  cupti-audit -o sarif=out.sarif -o html=report.html docker-daemon:trainer:latest
  docker save trainer | cupti-audit --format json -
  cupti-audit tree pytorch/pytorch libtorch_cpu.so";

const PROFILERS_HELP: &str = "\
States:
  ready           as far as an image shows it
  not ready       something is missing; the reason is the loader's
  not applicable  there is nothing in the image for it to look at
  not known       an image does not show it, as with CUPTI that is linked statically

Exit codes:
  0  done, whatever the states
  2  it could not be done, or something could not be checked

Examples:
  cupti-audit profilers pytorch/pytorch
  cupti-audit profilers --format markdown docker-daemon:trainer:latest
  cupti-audit profilers -e KINETO_USE_DAEMON=1 docker-daemon:trainer:latest";

const ADVISE_HELP: &str = "\
Without --tool and --phase, the tools that can be asked about are listed.

Exit codes:
  0  answered
  2  there is no such tool, or no such version

Examples:
  cupti-audit advise --tool torch.profiler --tool nsys
  cupti-audit advise --phase profiling --cuda 12.4
  cupti-audit advise --tool proton --format markdown";

const DOCKERFILE_HELP: &str = "\
Without --via the ways are tried from the cheapest on, and a comment says why each was taken or not: what is in
the image already and is only not found, files of --from, pip where a Python environment asks for CUPTI, the
distribution's own package, NVIDIA's package, conda, pip, and files of NVIDIA's devel image.

The last step proves by the image's own loader that what the phase needs is found: if not, the build fails.
An image that serves the phase already gets that proof alone.

Exit codes:
  0  written
  2  it could not be done: the image cannot be helped, or not in this way

Examples:
  cupti-audit dockerfile nvidia/cuda:12.4.1-runtime-ubuntu22.04 --phase training -o Dockerfile
  cupti-audit dockerfile docker-daemon:trainer:1 --phase profiling --from nvidia/cuda:12.4.1-devel-ubuntu22.04
  cupti-audit dockerfile docker-daemon:trainer:1 --all-phases --with-builder --cloudbuild -o Dockerfile
  cupti-audit dockerfile docker-daemon:model:1 --phase inference -o Dockerfile && docker build -t model:slim - < Dockerfile";

/// Will CUPTI load in this container image, for whom, and if not, why?
#[derive(Debug, Parser)]
#[command(
    version,
    about,
    long_about = "Will CUPTI, NVIDIA's profiling interface, load in this container image, for whom, and if not, why?\n\n\
                  The answer is worked out from the image's bytes, as the dynamic loader would: nothing is run, nothing is unpacked.",
    after_help = AFTER_HELP,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    disable_help_subcommand = true
)]
pub struct Cli {
    /// The command; without one, the images are audited.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// What `audit` takes.
    #[command(flatten)]
    pub audit: AuditArgs,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Audit images: verdict, findings, copies and who gets them
    #[command(after_help = AFTER_HELP)]
    Audit(AuditArgs),
    /// Show how the dynamic loader resolves one object of an image, with the reason for each step
    Tree(TreeArgs),
    /// Say which profiling tools would work in an image, what each lacks, and what to take instead
    Profilers(ProfilersArgs),
    /// Say without an image whether CUPTI is needed, which files, at what cost and where from
    Advise(AdviseArgs),
    /// Write the smallest Dockerfile by which an image serves a phase, proven while it is built
    Dockerfile(Box<DockerfileArgs>),
    /// Make an image that serves a phase, or one without dead weight, without a container engine
    Slim(Box<SlimArgs>),
    /// List the rules, or explain one
    Rules(RulesArgs),
    /// Print the JSON Schema of the JSON report
    Schema,
}

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
    pub format: Option<Format>,
    /// A report written to a file, beside the one on standard output, such as json=audit.json (repeatable; - is
    /// standard output)
    #[arg(long = "output", short, value_name = "FORMAT=FILE", value_parser = OutputFile::parse,
        env = "CUPTI_AUDIT_OUTPUT", value_delimiter = ',')]
    pub outputs: Vec<OutputFile>,
    #[command(flatten)]
    #[expect(
        missing_docs,
        reason = "clap would print a comment as the help of the group"
    )]
    pub image: ImageArgs,
    #[command(flatten)]
    #[expect(
        missing_docs,
        reason = "clap would print a comment as the help of the group"
    )]
    pub own: OwnArgs,
    #[command(flatten)]
    #[expect(
        missing_docs,
        reason = "clap would print a comment as the help of the group"
    )]
    pub output: OutputArgs,
}

/// What `tree` takes.
#[derive(Debug, Args)]
pub struct TreeArgs {
    /// The image
    pub image_name: String,
    /// A path in the image, or a soname such as libcupti.so.12
    pub object: String,
    /// The image as it is, or under the NVIDIA container runtime
    #[arg(long, value_enum, default_value = "as-is")]
    pub world: WorldArg,
    /// The form of the tree
    #[arg(long, value_enum, default_value = "text")]
    pub format: TreeFormat,
    #[command(flatten)]
    #[expect(
        missing_docs,
        reason = "clap would print a comment as the help of the group"
    )]
    pub image: ImageArgs,
    #[command(flatten)]
    #[expect(
        missing_docs,
        reason = "clap would print a comment as the help of the group"
    )]
    pub own: OwnArgs,
    #[command(flatten)]
    #[expect(
        missing_docs,
        reason = "clap would print a comment as the help of the group"
    )]
    pub output: OutputArgs,
}

/// What `profilers` takes.
#[derive(Debug, Args)]
#[command(after_help = PROFILERS_HELP)]
pub struct ProfilersArgs {
    /// The image
    #[arg(value_name = "IMAGE")]
    pub image_name: String,
    /// The form of the report
    #[arg(long, value_enum, default_value = "text")]
    pub format: PageFormat,
    #[command(flatten)]
    #[expect(
        missing_docs,
        reason = "clap would print a comment as the help of the group"
    )]
    pub image: ImageArgs,
    #[command(flatten)]
    #[expect(
        missing_docs,
        reason = "clap would print a comment as the help of the group"
    )]
    pub own: OwnArgs,
    #[command(flatten)]
    #[expect(
        missing_docs,
        reason = "clap would print a comment as the help of the group"
    )]
    pub output: OutputArgs,
}

/// What `advise` takes.
#[derive(Debug, Args)]
#[command(after_help = ADVISE_HELP)]
pub struct AdviseArgs {
    /// A profiling tool that is to be used, such as torch.profiler or nsys (repeatable)
    #[arg(long = "tool", short, value_name = "TOOL")]
    pub tools: Vec<String>,
    /// What the image is for: inference, training, profiling, or a phase of --profiles
    #[arg(long, value_name = "PHASE")]
    pub phase: Option<String>,
    /// The version of CUDA, such as 12.4 [default: the newest 12.x that is known]
    #[arg(long, value_name = "VERSION")]
    pub cuda: Option<String>,
    /// The form of the answer
    #[arg(long, value_enum, default_value = "text")]
    pub format: PageFormat,
    /// Colours: on a terminal, always, or never (`NO_COLOR` is respected)
    #[arg(long, value_enum, default_value = "auto", value_name = "WHEN")]
    pub color: ColorArg,
    #[command(flatten)]
    #[expect(
        missing_docs,
        reason = "clap would print a comment as the help of the group"
    )]
    pub own: OwnArgs,
}

/// What `dockerfile` takes.
#[derive(Debug, Args)]
#[command(after_help = DOCKERFILE_HELP)]
pub struct DockerfileArgs {
    /// The image
    #[arg(value_name = "IMAGE")]
    pub image_name: String,
    /// What the image is to be for
    #[arg(long, value_name = "PHASE", required_unless_present = "all_phases")]
    pub phase: Option<String>,
    /// One file with a target for each phase, and one that compiles
    #[arg(long, conflicts_with = "phase")]
    pub all_phases: bool,
    /// PyTorch is built from its sources in the target that compiles
    #[arg(long, requires = "all_phases")]
    pub with_builder: bool,
    /// The matching configuration of Cloud Build [default: cloudbuild.yaml]
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "cloudbuild.yaml", require_equals = true, requires = "all_phases")]
    pub cloudbuild: Option<PathBuf>,
    /// How CUPTI comes in [default: the cheapest way that works]
    #[arg(long, value_enum, value_name = "WAY")]
    pub via: Option<ViaArg>,
    /// The image to copy from
    #[arg(long, value_name = "IMAGE")]
    pub from: Option<String>,
    /// The version of CUDA, such as 12.4, where the image does not say it or is to have another
    #[arg(long, value_name = "VERSION")]
    pub cuda: Option<String>,
    /// The name of the image for FROM, where it is read from a file or a folder
    #[arg(long, value_name = "NAME")]
    pub base: Option<String>,
    /// The same for the image to copy from
    #[arg(long, value_name = "NAME", requires = "from")]
    pub from_name: Option<String>,
    /// The file to write, whole or not at all [default: standard output]
    #[arg(long = "output", short = 'o', value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Write over a file that is there
    #[arg(long)]
    pub force: bool,
    /// A folder with templates in place of those of the same name in Dockerfile.templates/
    #[arg(long, value_name = "DIR")]
    pub templates: Option<PathBuf>,
    #[command(flatten)]
    #[expect(
        missing_docs,
        reason = "clap would print a comment as the help of the group"
    )]
    pub own: OwnArgs,
    #[command(flatten)]
    #[expect(
        missing_docs,
        reason = "clap would print a comment as the help of the group"
    )]
    pub image: ImageArgs,
    #[command(flatten)]
    #[expect(
        missing_docs,
        reason = "clap would print a comment as the help of the group"
    )]
    pub output: OutputArgs,
}

/// What `rules` takes.
#[derive(Debug, Args)]
pub struct RulesArgs {
    /// What to do with the rules; list them when left out
    #[command(subcommand)]
    pub action: Option<RulesAction>,
    #[command(flatten)]
    #[expect(
        missing_docs,
        reason = "clap would print a comment as the help of the group"
    )]
    pub own: OwnArgs,
}

/// The actions on rules.
#[derive(Debug, Subcommand)]
pub enum RulesAction {
    /// List the rules
    List,
    /// Say what a rule finds, why it matters and what to do
    Explain {
        /// The rule's id
        id: String,
    },
}

/// What the user brings: a config, rules and profiles.
#[derive(Debug, Args)]
pub struct OwnArgs {
    /// The config [default: cupti-audit.yaml here or above, up to the root of the repository]
    #[arg(long, value_name = "FILE", env = "CUPTI_AUDIT_CONFIG", global = true)]
    pub config: Option<PathBuf>,
    /// No config, whatever lies here or `CUPTI_AUDIT_CONFIG` says
    #[arg(long, global = true)]
    pub no_config: bool,
    /// A folder of rules beside those of the program (repeatable)
    #[arg(
        long,
        value_name = "DIR",
        env = "CUPTI_AUDIT_RULES",
        value_delimiter = ',',
        global = true
    )]
    pub rules: Vec<PathBuf>,
    /// A folder of profiles beside those of the program, in consumers/, phases/ and profilers/ (repeatable)
    #[arg(
        long,
        value_name = "DIR",
        env = "CUPTI_AUDIT_PROFILES",
        value_delimiter = ',',
        global = true
    )]
    pub profiles: Vec<PathBuf>,
}

/// How an image is had and what its processes start with.
#[derive(Debug, Clone, Args)]
pub struct ImageArgs {
    /// The platform to choose, such as linux/arm64, or all of an index, each audited for itself
    /// [default: linux on this machine's architecture]
    #[arg(long, value_name = "OS/ARCH|all", value_parser = PlatformArg::parse, env = "CUPTI_AUDIT_PLATFORM")]
    pub platform: Option<PlatformArg>,
    /// A variable over the image config's environment (repeatable)
    #[arg(long = "env", short = 'e', value_name = "KEY=VALUE", value_parser = key_value)]
    pub environment: Vec<(String, String)>,
    /// The processor's level, for glibc-hwcaps folders and ISA checks [default: x86-64-v3]
    #[arg(long, value_name = "LEVEL", value_parser = CpuLevel::parse, env = "CUPTI_AUDIT_CPU")]
    pub cpu: Option<CpuLevel>,
    /// A registry that is spoken to without TLS, or with a certificate that is not checked (repeatable)
    #[arg(
        long = "insecure-registry",
        value_name = "HOST[:PORT]",
        env = "CUPTI_AUDIT_INSECURE_REGISTRY",
        value_delimiter = ','
    )]
    pub insecure_registries: Vec<String>,
    /// Certificates in PEM that are trusted beside the system's
    #[arg(long, value_name = "FILE", env = "CUPTI_AUDIT_CA_CERT")]
    pub ca_cert: Option<PathBuf>,
    /// Read every layer, also those that were read before (nothing is cached yet)
    #[arg(long)]
    pub no_cache: bool,
}

/// How results are written.
#[derive(Debug, Args)]
pub struct OutputArgs {
    /// Colours: on a terminal, always, or never (`NO_COLOR` is respected)
    #[arg(long, value_enum, default_value = "auto", value_name = "WHEN")]
    pub color: ColorArg,
    /// No progress
    #[arg(long, short)]
    pub quiet: bool,
    /// Show notes in full, the layers, the loader and every search
    #[arg(long, short, conflicts_with = "quiet")]
    pub verbose: bool,
}

/// The form of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
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

/// The form of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TreeFormat {
    /// For people
    Text,
    /// For programs: one object
    Json,
}

/// The form of an answer on tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PageFormat {
    /// For people
    Text,
    /// For programs: one object
    Json,
    /// For a page or a comment
    Markdown,
}

/// A report and the file it goes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputFile {
    /// The form.
    pub format: Format,
    /// The file; `-` is standard output.
    pub file: PathBuf,
}

impl OutputFile {
    /// Reads `FORMAT=FILE`.
    ///
    /// # Errors
    /// What is wrong with the text, and what would do.
    pub fn parse(text: &str) -> Result<Self, String> {
        let names = || {
            let values = Format::value_variants().iter();
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
        let format = Format::from_str(format, false)
            .map_err(|_unknown| format!("no format is called {format:?}; there are {}", names()))?;
        Ok(Self {
            format,
            file: PathBuf::from(file),
        })
    }
}

/// `--platform`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlatformArg {
    /// Every platform that the image is for.
    All,
    /// This one.
    One(Platform),
}

impl PlatformArg {
    /// Reads `all` or a platform.
    ///
    /// # Errors
    /// As [`Platform::parse`].
    pub fn parse(text: &str) -> Result<Self, String> {
        match text {
            "all" => Ok(Self::All),
            _ => Platform::parse(text).map(Self::One),
        }
    }
}

/// `--via`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ViaArg {
    /// The distribution's own package, or NVIDIA's
    Apt,
    /// NVIDIA's package for Red Hat's systems
    Dnf,
    /// NVIDIA's wheel, into a Python environment of the image
    Pip,
    /// conda-forge's package
    Conda,
    /// Files of another image: that of --from, or NVIDIA's devel image
    Copy,
}

impl From<ViaArg> for Via {
    fn from(argument: ViaArg) -> Self {
        match argument {
            ViaArg::Apt => Self::Apt,
            ViaArg::Dnf => Self::Dnf,
            ViaArg::Pip => Self::Pip,
            ViaArg::Conda => Self::Conda,
            ViaArg::Copy => Self::Copy,
        }
    }
}

/// When to colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ColorArg {
    /// On a terminal.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
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

/// `--world`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum WorldArg {
    /// The image as it is.
    AsIs,
    /// Driver libraries present, the loader's cache made anew.
    Nvidia,
}

impl From<WorldArg> for World {
    fn from(argument: WorldArg) -> Self {
        match argument {
            WorldArg::AsIs => Self::AsIs,
            WorldArg::Nvidia => Self::Nvidia,
        }
    }
}

fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, _)) if !key.is_empty() => Ok(config::split_env(text)),
        _ => Err("expected KEY=VALUE, such as LD_LIBRARY_PATH=/opt/lib".to_owned()),
    }
}

/// Reads the command line and the environment; does not return where they ask for help or are wrong.
#[expect(
    clippy::disallowed_methods,
    reason = "the environment belongs to the command line"
)]
pub fn parse() -> Cli {
    // What a CI system passes on without having it is empty.
    let without_empty = |arg: Arg| {
        let value = arg.get_env().and_then(std::env::var_os);
        match value {
            Some(value) if value.is_empty() => arg.env(None::<&str>),
            _ => arg,
        }
    };
    let command = Cli::command()
        .mut_args(without_empty)
        .mut_subcommands(|command| command.mut_args(without_empty));
    Cli::from_arg_matches(&command.get_matches()).unwrap_or_else(|error| error.exit())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        super::Cli::command().debug_assert();
    }
}
