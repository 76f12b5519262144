//! What several commands take.

use std::path::PathBuf;

use anstream::ColorChoice;
use clap::builder::FalseyValueParser;
use clap::{ArgAction, Args};

use super::config::ProjectConfig;
use super::option_values::{COLOR, FAIL_ON, LimitArg, OutputFile, PlatformArg, one_of};
use crate::facts::StartOverrides;
use crate::judge::outcome::FailOn;
use crate::knowledge::DEFAULT_LIBRARY;
use crate::report::{FINDING_FORMATS, ReportFormat};
use image_linkage::loader::CpuLevel;

/// What every command takes that reads an image.
#[derive(Debug, Args)]
pub struct ReadArgs {
    #[command(flatten)]
    pub image: ImageArgs,
    #[command(flatten)]
    pub own: ConfigArgs,
    #[command(flatten)]
    pub output: DisplayArgs,
}

/// What an image has to serve.
#[derive(Debug, Default, Args)]
pub struct PurposeArgs {
    /// What the image is for: inference, training, profiling
    ///
    /// Or a phase of --profiles; severities follow it (repeatable).
    #[arg(long, value_name = "PHASE", env = "CUPTI_AUDIT_PHASE", value_delimiter = ',')]
    pub phase: Vec<String>,
    /// A profiling tool that has to work, such as torch.profiler (repeatable)
    ///
    /// One that would not is an error, with the reason.
    #[arg(long = "tool", value_name = "TOOL", env = "CUPTI_AUDIT_TOOL", value_delimiter = ',')]
    pub tools: Vec<String>,
}

/// What an image is to run on.
#[derive(Debug, Default, Args)]
pub struct GpuArgs {
    /// A GPU that CUPTI has to support, such as h100 or 9.0 (repeatable)
    #[arg(
        long = "gpu",
        value_name = "GPU",
        env = "CUPTI_AUDIT_GPU",
        value_delimiter = ',',
        hide_short_help = true
    )]
    pub gpus: Vec<String>,
}

/// What becomes of a verdict that rests on assumptions.
#[derive(Debug, Default, Args)]
pub struct AssumptionArgs {
    /// Count a verdict that rests on an assumption as open (exit 2)
    #[arg(long, env = "CUPTI_AUDIT_STRICT", value_parser = FalseyValueParser::new(), hide_short_help = true)]
    pub strict: bool,
    /// Assumption that holds, by its id in the report (repeatable)
    #[arg(long, value_name = "ID", hide_short_help = true)]
    pub accept: Vec<String>,
}

/// What fails a run, and the forms and places of its reports.
#[derive(Debug, Default, Args)]
pub struct ReportArgs {
    /// From which severity on findings fail [default: error]
    #[arg(long, value_name = "SEVERITY", value_parser = one_of(&FAIL_ON), env = "CUPTI_AUDIT_FAIL_ON")]
    // No default of clap's: what is still open here is filled from the config.
    pub fail_on: Option<FailOn>,
    /// The form of the report [default: text]
    #[arg(long, value_parser = one_of(&FINDING_FORMATS), env = "CUPTI_AUDIT_FORMAT")]
    pub format: Option<ReportFormat>,
    /// A report in a file besides, such as json=audit.json
    ///
    /// Repeatable; - is standard output.
    #[arg(long = "output", short, value_name = "FORMAT=FILE",
        // A variable is one text, so that commas part what a flag says several times.
        env = "CUPTI_AUDIT_OUTPUT", value_delimiter = ',')]
    pub outputs: Vec<OutputFile>,
}

impl ReportArgs {
    /// Fills what the command line leaves open.
    pub fn fill(&mut self, config: &ProjectConfig) {
        self.fail_on = self.fail_on.or(config.fail_on);
        self.format = self.format.or(config.format);
        fill_list(&mut self.outputs, &config.outputs);
    }
}

/// Fills a list that the command line leaves open. clap has put in what a variable says by now, so that it counts
/// before the config, too.
pub fn fill_list<T: Clone>(given: &mut Vec<T>, config: &[T]) {
    if given.is_empty() {
        given.extend_from_slice(config);
    }
}

/// What the user brings: a config, rules and profiles.
#[derive(Debug, Args)]
#[command(next_help_heading = "Your own rules and profiles")]
pub struct ConfigArgs {
    /// The config [default: cupti-audit.yaml here or above, up to the root of the repository]
    // Global, so that it may also stand behind an action such as `profiles show`.
    #[arg(
        long,
        value_name = "FILE",
        env = "CUPTI_AUDIT_CONFIG",
        global = true,
        hide_short_help = true
    )]
    pub config: Option<PathBuf>,
    /// No config, whatever lies here or `CUPTI_AUDIT_CONFIG` says
    #[arg(long, global = true, hide_short_help = true)]
    pub no_config: bool,
    /// A folder of rules beside those of the program (repeatable)
    #[arg(
        long,
        value_name = "DIR",
        env = "CUPTI_AUDIT_RULES",
        value_delimiter = ',',
        global = true,
        hide_short_help = true
    )]
    pub rules: Vec<PathBuf>,
    /// A folder of profiles beside those of the program, in consumers/, phases/, profilers/,
    /// libraries/ and cupti/ (repeatable)
    #[arg(
        long,
        value_name = "DIR",
        env = "CUPTI_AUDIT_PROFILES",
        value_delimiter = ',',
        global = true,
        hide_short_help = true
    )]
    pub profiles: Vec<PathBuf>,
}

/// How an image is had and what its processes start with.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "How an image is read")]
pub struct ImageArgs {
    /// The platform, such as linux/arm64, or all [default: this machine's]
    ///
    /// With all, each of an index is audited for itself. The default is linux on this machine's architecture.
    #[arg(long, value_name = "OS/ARCH|all", env = "CUPTI_AUDIT_PLATFORM")]
    pub platform: Option<PlatformArg>,
    /// A variable over those of the image (repeatable)
    #[arg(long = "env", short = 'e', value_name = "KEY=VALUE", value_parser = key_value)]
    pub environment: Vec<(String, String)>,
    #[command(flatten)]
    pub start: StartArgs,
    /// The processor's level, for glibc-hwcaps folders and ISA checks [default: x86-64-v3]
    #[arg(long, value_name = "LEVEL", env = "CUPTI_AUDIT_CPU", hide_short_help = true)]
    pub cpu: Option<CpuLevel>,
    /// A registry that is spoken to without TLS, or with a certificate that is not checked (repeatable)
    #[arg(
        long = "insecure-registry",
        value_name = "HOST[:PORT]",
        env = "CUPTI_AUDIT_INSECURE_REGISTRY",
        value_delimiter = ',',
        hide_short_help = true
    )]
    pub insecure_registries: Vec<String>,
    /// Certificates in PEM that are trusted beside the system's
    #[arg(long, value_name = "FILE", env = "CUPTI_AUDIT_CA_CERT", hide_short_help = true)]
    pub ca_cert: Option<PathBuf>,
    /// A host that may be sent the password for a registry when that names it as its token server; without any,
    /// each host that a registry names (repeatable)
    #[arg(
        long = "token-server",
        value_name = "HOST[:PORT]",
        env = "CUPTI_AUDIT_TOKEN_SERVER",
        value_delimiter = ',',
        hide_short_help = true
    )]
    pub token_servers: Vec<String>,
    /// A bound on what is read, by the name that the error has, such as layer-entries=8000000; SECURITY.md lists all (repeatable)
    #[arg(
        long = "limit",
        value_name = "NAME=NUMBER",
        env = "CUPTI_AUDIT_LIMIT",
        value_delimiter = ',',
        hide_short_help = true
    )]
    pub limits: Vec<LimitArg>,
    #[command(flatten)]
    pub cache: CacheFolderArgs,
    /// Read every layer, also those that were read before, and keep nothing of them
    #[arg(long, env = "CUPTI_AUDIT_NO_CACHE", value_parser = FalseyValueParser::new(), hide_short_help = true)]
    pub no_cache: bool,
}

impl ImageArgs {
    /// Fills what the command line leaves open. Variables are joined: of two for one name, that of the command line counts.
    pub fn fill(&mut self, config: &ProjectConfig) {
        self.platform = self.platform.take().or_else(|| config.platform.clone());
        self.cpu = self.cpu.or(config.cpu);
        self.ca_cert = self.ca_cert.take().or_else(|| config.ca_cert.clone());
        fill_list(&mut self.insecure_registries, &config.insecure_registries);
        let own = config.env.iter().map(|(name, value)| (name.clone(), value.clone()));
        let files = self.start.env_file.iter().flat_map(|file| file.0.iter().cloned());
        // Behind the config's, because of two values for one name the last counts.
        self.environment = own.chain(files).chain(self.environment.drain(..)).collect();
    }
}

/// Where the indexes of layers are kept.
#[derive(Debug, Clone, Args)]
pub struct CacheFolderArgs {
    /// The folder of the cache [default: $`XDG_CACHE_HOME`/cupti-audit, or ~/.cache/cupti-audit]
    #[arg(long, value_name = "DIR", env = "CUPTI_AUDIT_CACHE_DIR", hide_short_help = true)]
    pub cache_dir: Option<PathBuf>,
}

impl CacheFolderArgs {
    /// The folder that is named, or the user's by the XDG Base Directory Specification.
    #[expect(clippy::disallowed_methods, reason = "the command line reads the environment")]
    pub fn folder(&self) -> Option<PathBuf> {
        // Relative paths in the variable are to be ignored, by the specification.
        let folder = |name| {
            let named = std::env::var_os(name).map(PathBuf::from);
            named.filter(|path| path.is_absolute())
        };
        let users = || folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")));
        self.cache_dir.clone().or_else(|| Some(users()?.join("cupti-audit")))
    }
}

/// How the container is started where that is not as the image says.
#[derive(Debug, Clone, Default, Args)]
pub struct StartArgs {
    /// File of variables, one KEY=VALUE per line, as `docker run --env-file` (repeatable)
    #[arg(long, value_name = "FILE", value_parser = read_env_file, hide_short_help = true)]
    pub env_file: Vec<EnvFile>,
    /// Arguments in place of the image's Cmd (Kubernetes' args)
    #[arg(
        long = "args", value_name = "WORDS", value_parser = shell_words, allow_hyphen_values = true, hide_short_help = true)]
    pub cmd_words: Option<StartWords>,
    /// Command in place of Entrypoint and Cmd (Kubernetes' command)
    #[arg(long = "command", value_name = "WORDS", value_parser = shell_words, hide_short_help = true)]
    pub command_words: Option<StartWords>,
    /// User in place of the image's, as `docker run --user`
    #[arg(long, value_name = "USER[:GROUP]", hide_short_help = true)]
    pub user: Option<String>,
    /// Working directory in place of the image's
    #[arg(long, value_name = "DIR", value_parser = absolute_directory, hide_short_help = true)]
    pub workdir: Option<String>,
}

/// The variables of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvFile(pub Vec<(String, String)>);

/// Reads a file of variables as `docker run --env-file` does: a line with `#` in front is a comment, a name alone takes the
/// value that it has here.
#[expect(clippy::disallowed_methods, reason = "the file and the variables are the user's own")]
fn read_env_file(path: &str) -> Result<EnvFile, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let mut variables = Vec::new();
    let text = text.strip_prefix('\u{FEFF}').unwrap_or(&text);
    for line in text
        .lines()
        .map(str::trim_start)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        match line.split_once('=') {
            Some((name, _)) if name.is_empty() || name.contains(char::is_whitespace) => {
                return Err(format!("expected KEY=VALUE: {line}"));
            }
            Some((name, value)) => variables.push((name.to_owned(), value.to_owned())),
            None => variables.extend(std::env::var(line).ok().map(|value| (line.to_owned(), value))),
        }
    }
    Ok(EnvFile(variables))
}

/// The words of a command, split as a shell splits them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartWords(pub Vec<String>);

impl StartArgs {
    /// What they put in the place of the image's own.
    pub(super) fn overrides(&self) -> StartOverrides {
        let words = |words: &Option<StartWords>| words.as_ref().map(|words| words.0.clone());
        StartOverrides {
            command: words(&self.command_words),
            arguments: words(&self.cmd_words),
            user: self.user.clone(),
            working_dir: self.workdir.clone(),
        }
    }
}

fn absolute_directory(path: &str) -> Result<String, String> {
    let is_absolute = path.starts_with('/');
    is_absolute
        .then(|| path.to_owned())
        .ok_or_else(|| "expected an absolute path, such as /workspace".to_owned())
}

fn shell_words(text: &str) -> Result<StartWords, String> {
    match shlex::split(text).ok_or("a quote is not closed, or the text ends in a backslash")? {
        words if words.is_empty() => Err("expected at least one word".to_owned()),
        words => Ok(StartWords(words)),
    }
}

/// What a command takes that is about CUPTI's phases and tools: the variable that asks audits about another library is
/// refused there, and not passed over.
#[derive(Debug, Args)]
pub struct CuptiOnlyArgs {
    #[arg(long, env = "CUPTI_AUDIT_LIBRARY", hide = true, default_value = DEFAULT_LIBRARY, value_parser = only_cupti)]
    library: String,
}

/// How results are written.
#[derive(Debug, Args)]
#[command(next_help_heading = "What is shown")]
pub struct DisplayArgs {
    /// Colours: on a terminal, always, or never (`NO_COLOR` is respected)
    #[arg(
        long,
        value_parser = one_of(&COLOR),
        default_value = "auto",
        value_name = "WHEN",
        hide_short_help = true
    )]
    pub color: ColorChoice,
    /// No progress, the verdict and the findings alone; twice, the exit code alone
    #[arg(long, short, action = ArgAction::Count)]
    pub quiet: u8,
    /// Notes in full, the layers, the loader and every search
    #[arg(long, short, conflicts_with = "quiet")]
    pub verbose: bool,
}

fn only_cupti(name: &str) -> Result<String, String> {
    let only = (name == DEFAULT_LIBRARY).then(|| name.to_owned());
    only.ok_or_else(|| "this command is for CUPTI alone; only an audit can be asked about another library".to_owned())
}

fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        // An empty value is one: `LD_LIBRARY_PATH=` shows what an image does without its own.
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("expected KEY=VALUE, such as LD_LIBRARY_PATH=/opt/lib".to_owned()),
    }
}
