//! Arguments that several commands share.

use std::path::{Path, PathBuf};

use anstream::ColorChoice;
use clap::builder::FalseyValueParser;
use clap::{ArgAction, Args};

use super::config::ProjectConfig;
use super::option_values::{COLOR, FAIL_ON, LimitArg, OutputFile, PlatformArg, one_of};
use super::progress::BarVisibility;
use crate::facts::StartOverrides;
use crate::judge::outcome::FailOn;
use crate::report::{FINDING_FORMATS, ReportFormat};
use image_linkage::loader::CpuLevel;
use image_source::Platform;

/// The commands that -h omits; --help lists them.
pub(super) const RARE_COMMANDS: [&str; 9] = [
    "cache",
    "completions",
    "config",
    "fleet",
    "man",
    "profiles",
    "rules",
    "schema",
    "verify",
];

/// The help heading of the container start options.
const START: &str = "Start of the container";

/// The heading of the options for images that are fetched and kept.
const FETCHING: &str = "Image, registry and cache";

/// The heading of the options for the output.
pub(super) const DISPLAY: &str = "Display";

/// The arguments of every command that reads an image for its answer. A command that needs a part of them takes these
/// parts, so that it accepts no option without effect.
#[derive(Debug, Default, Args)]
pub struct ReadArgs {
    #[command(flatten)]
    pub registry: RegistryArgs,
    #[command(flatten)]
    pub limits: LimitArgs,
    #[command(flatten)]
    pub cache: CacheArgs,
    #[command(flatten)]
    pub start: StartArgs,
    #[command(flatten)]
    pub own: ConfigArgs,
    #[command(flatten)]
    pub color: ColorArgs,
}

impl ReadArgs {
    /// The options that another command needs to see the same image and the same start, except the platform.
    pub(super) fn repeated_options(&self) -> Vec<(&'static str, String)> {
        let (registry, own, start) = (&self.registry, &self.own, &self.start);
        let options: [(&str, Vec<String>); 10] = [
            ("--config", own.config.iter().map(|path| path_text(path)).collect()),
            ("--profiles", own.profiles.iter().map(|path| path_text(path)).collect()),
            ("--insecure-registry", registry.insecure_registries.clone()),
            (
                "--ca-cert",
                registry.ca_cert.iter().map(|path| path_text(path)).collect(),
            ),
            (
                "--env-file",
                start.env_file.iter().map(|file| file.path.clone()).collect(),
            ),
            ("--env", start.own_environment.clone()),
            ("--command", start.command_words.iter().map(StartWords::text).collect()),
            ("--args", start.cmd_words.iter().map(StartWords::text).collect()),
            ("--user", start.user.iter().cloned().collect()),
            ("--workdir", start.workdir.iter().cloned().collect()),
        ];
        let pairs = options
            .into_iter()
            .flat_map(|(option, values)| values.into_iter().map(move |value| (option, value)));
        pairs.collect()
    }

    /// Fills open values from the config.
    pub fn fill(&mut self, config: &ProjectConfig) {
        self.registry.fill(config);
        self.start.fill(config);
    }
}

/// The purpose of an image.
#[derive(Debug, Default, Args)]
pub struct PurposeArgs {
    /// Purpose of the image: inference, training, profiling (repeatable)
    ///
    /// Or a phase of your own, from --profiles. The phase decides how severe each finding is. Commas separate several.
    #[arg(long, short, value_name = "PHASE", env = "CUPTI_AUDIT_PHASE", value_delimiter = ',', value_parser = trimmed)]
    pub phase: Vec<String>,
    /// Profiling tool that must work, such as torch.profiler (repeatable)
    ///
    /// It is an error if the tool would not work in the image. Commas separate several.
    #[arg(long = "tool", value_name = "TOOL", env = "CUPTI_AUDIT_TOOL", value_delimiter = ',', value_parser = trimmed)]
    pub tools: Vec<String>,
}

/// The GPUs that an image must support.
#[derive(Debug, Default, Args)]
pub struct GpuArgs {
    /// GPU that the image must support, such as h100 or 9.0 (repeatable)
    #[arg(
        long = "gpu",
        value_name = "GPU",
        env = "CUPTI_AUDIT_GPU",
        value_delimiter = ',',
        hide_short_help = true
    )]
    pub gpus: Vec<String>,
}

/// The GPUs that a new image is for. No variable sets them: one that is meant for audits must not change an image.
#[derive(Debug, Default, Args)]
pub struct TargetGpuArgs {
    /// GPU that the new image is for, such as h100 or 9.0 (repeatable)
    #[arg(long = "gpu", value_name = "GPU", value_delimiter = ',', value_parser = trimmed)]
    pub gpus: Vec<String>,
}

/// How to treat a verdict that depends on assumptions.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Assumptions")]
pub struct AssumptionArgs {
    /// Take no assumption about a script: a verdict that depends on one is open (exit code 2)
    #[arg(long, env = "CUPTI_AUDIT_STRICT", value_parser = FalseyValueParser::new(), hide_short_help = true)]
    pub strict: bool,
    /// Take this assumption as true; the report shows the ids (repeatable)
    #[arg(long, value_name = "ID", hide_short_help = true)]
    pub accept: Vec<String>,
}

/// The failing severity, and the formats and files of the reports.
#[derive(Debug, Default, Args)]
pub struct ReportArgs {
    /// Lowest severity that fails the run [default: error]
    #[arg(long, value_name = "SEVERITY", value_parser = one_of(&FAIL_ON), env = "CUPTI_AUDIT_FAIL_ON")]
    // No clap default, because the config fills an open value.
    pub fail_on: Option<FailOn>,
    /// Format of the report [default: text]
    #[arg(long, value_parser = one_of(&FINDING_FORMATS), env = "CUPTI_AUDIT_FORMAT")]
    pub format: Option<ReportFormat>,
    /// Also write a report to a file, such as json=audit.json
    ///
    /// The file `-` is standard output. Repeatable.
    #[arg(long = "output", short, value_name = "FORMAT=FILE",
        // A variable is a single text, so commas separate the values of a repeated flag.
        env = "CUPTI_AUDIT_OUTPUT", value_delimiter = ',')]
    pub outputs: Vec<OutputFile>,
}

impl ReportArgs {
    /// Fills open values from the config.
    pub fn fill(&mut self, config: &ProjectConfig) {
        self.fail_on = self.fail_on.or(config.fail_on);
        self.format = self.format.or(config.format);
        fill_list(&mut self.outputs, &config.outputs);
    }
}

/// Fills an open list. clap has already applied environment variables, so they take precedence over the config.
pub fn fill_list<T: Clone>(given: &mut Vec<T>, config: &[T]) {
    if given.is_empty() {
        given.extend_from_slice(config);
    }
}

/// The user's config, rules and profiles.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Config, rules and profiles")]
pub struct ConfigArgs {
    /// Config file [default: cupti-audit.yaml in the working directory or a parent directory of the same Git repository]
    // Global, so that it may also follow an action such as `profiles show`.
    #[arg(
        long,
        value_name = "FILE",
        env = "CUPTI_AUDIT_CONFIG",
        global = true,
        hide_short_help = true
    )]
    pub config: Option<PathBuf>,
    /// Read no config file, not even the one in `CUPTI_AUDIT_CONFIG`
    #[arg(long, global = true, hide_short_help = true)]
    pub no_config: bool,
    /// Directory with more rules (repeatable)
    #[arg(
        long,
        value_name = "DIR",
        env = "CUPTI_AUDIT_RULES",
        value_delimiter = ',',
        global = true,
        hide_short_help = true
    )]
    pub rules: Vec<PathBuf>,
    /// Directory with more profiles, in consumers/, phases/, profilers/ and errors/ (repeatable)
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

/// The choice from an image index, for a command that takes every image of it.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = FETCHING)]
pub struct PlatformArgs {
    /// Platform, such as linux/arm64, or all [default: this machine's]
    ///
    /// With `all`, every platform of the image is read. The default is linux with this machine's architecture.
    #[arg(long, value_name = "OS/ARCH|all", env = "CUPTI_AUDIT_PLATFORM")]
    pub platform: Option<PlatformArg>,
}

impl PlatformArgs {
    /// Fills an open value from the config.
    pub fn fill(&mut self, config: &ProjectConfig) {
        self.platform = self.platform.take().or_else(|| config.platform.clone());
    }
}

/// The choice from an image index, for a command that takes one image of it.
#[derive(Debug, Args)]
#[command(next_help_heading = FETCHING)]
pub struct OnePlatformArgs {
    /// Platform, such as linux/arm64 [default: this machine's]
    ///
    /// The default is linux with this machine's architecture.
    #[arg(long, value_name = "OS/ARCH", env = "CUPTI_AUDIT_PLATFORM", value_parser = one_platform)]
    platform: Option<Platform>,
}

impl OnePlatformArgs {
    /// The platform of the command line or of the config. Of `all` in a config, this machine's is taken.
    pub fn or_config(&self, config: &ProjectConfig) -> Option<Platform> {
        let configured = config.platform.as_ref().and_then(PlatformArg::one);
        self.platform.as_ref().or(configured).cloned()
    }
}

/// How to access registries.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = FETCHING)]
pub struct RegistryArgs {
    /// Allow plain HTTP and any certificate for this registry (repeatable)
    #[arg(
        long = "insecure-registry",
        value_name = "HOST[:PORT]",
        env = "CUPTI_AUDIT_INSECURE_REGISTRY",
        value_delimiter = ',',
        hide_short_help = true
    )]
    pub insecure_registries: Vec<String>,
    /// Also trust the certificates in this PEM file
    #[arg(long, value_name = "FILE", env = "CUPTI_AUDIT_CA_CERT", hide_short_help = true)]
    pub ca_cert: Option<PathBuf>,
    /// Send registry passwords only to this token server (repeatable) [default: any that the registry names]
    #[arg(
        long = "token-server",
        value_name = "HOST[:PORT]",
        env = "CUPTI_AUDIT_TOKEN_SERVER",
        value_delimiter = ',',
        hide_short_help = true
    )]
    pub token_servers: Vec<String>,
}

impl RegistryArgs {
    fn fill(&mut self, config: &ProjectConfig) {
        self.ca_cert = self.ca_cert.take().or_else(|| config.ca_cert.clone());
        fill_list(&mut self.insecure_registries, &config.insecure_registries);
    }
}

/// The limits for hostile images and slow registries.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = FETCHING)]
pub struct LimitArgs {
    /// Change a limit, such as layer-entries=8000000; SECURITY.md lists all (repeatable)
    #[arg(
        long = "limit",
        value_name = "NAME=NUMBER",
        env = "CUPTI_AUDIT_LIMIT",
        value_delimiter = ',',
        hide_short_help = true
    )]
    pub limits: Vec<LimitArg>,
}

/// Whether and where layer indexes are kept.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = FETCHING)]
pub struct CacheArgs {
    #[command(flatten)]
    pub place: CacheFolderArgs,
    /// Read every layer again, and do not use the cache
    #[arg(long, env = "CUPTI_AUDIT_NO_CACHE", value_parser = FalseyValueParser::new(), hide_short_help = true)]
    pub no_cache: bool,
}

impl CacheArgs {
    /// No cache, for a command that reads no layer of an image.
    pub fn disabled() -> Self {
        Self {
            no_cache: true,
            ..Self::default()
        }
    }

    /// The folder of the cache, unless there is to be none.
    pub fn folder(&self) -> Option<PathBuf> {
        self.place.folder().filter(|_| !self.no_cache)
    }
}

/// The folder of the layer index cache.
#[derive(Debug, Default, Args)]
pub struct CacheFolderArgs {
    #[arg(
        long,
        help = "Cache directory [default: $XDG_CACHE_HOME/cupti-audit, or ~/.cache/cupti-audit]",
        value_name = "DIR",
        env = "CUPTI_AUDIT_CACHE_DIR",
        hide_short_help = true
    )]
    pub cache_dir: Option<PathBuf>,
}

impl CacheFolderArgs {
    /// The named folder, or the user's according to the XDG Base Directory Specification.
    #[expect(clippy::disallowed_methods, reason = "the command line reads the environment")]
    pub fn folder(&self) -> Option<PathBuf> {
        // The specification says to ignore relative paths in the variable.
        let folder = |name| {
            let named = std::env::var_os(name).map(PathBuf::from);
            named.filter(|path| path.is_absolute())
        };
        let users = || folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")));
        self.cache_dir.clone().or_else(|| Some(users()?.join("cupti-audit")))
    }
}

/// The start conditions of an image's processes.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = START)]
pub struct StartArgs {
    /// Set an environment variable of the container, as `docker run --env` does (repeatable)
    #[arg(long = "env", short = 'e', value_name = "KEY=VALUE", value_parser = key_value, hide_short_help = true)]
    pub environment: Vec<(String, String)>,
    /// The variables of the command line alone, as `KEY=VALUE`.
    #[arg(skip)]
    own_environment: Vec<String>,
    /// Read environment variables from a file, as `docker run --env-file` does (repeatable)
    #[arg(long, value_name = "FILE", value_parser = read_env_file, hide_short_help = true)]
    pub env_file: Vec<EnvFile>,
    /// Replace the image's CMD, like `args` in Kubernetes
    #[arg(
        long = "args", value_name = "WORDS", value_parser = shell_words, allow_hyphen_values = true, hide_short_help = true)]
    pub cmd_words: Option<StartWords>,
    /// Replace the image's ENTRYPOINT and CMD, like `command` in Kubernetes
    #[arg(long = "command", value_name = "WORDS", value_parser = shell_words, hide_short_help = true)]
    pub command_words: Option<StartWords>,
    /// Replace the image's user, as `docker run --user` does
    #[arg(long, value_name = "USER[:GROUP]", hide_short_help = true)]
    pub user: Option<String>,
    /// Replace the image's working directory
    #[arg(long, value_name = "DIR", value_parser = absolute_directory, hide_short_help = true)]
    pub workdir: Option<String>,
    /// CPU level of the machine that runs the container [default: x86-64-v3]
    #[arg(long, value_name = "LEVEL", env = "CUPTI_AUDIT_CPU", hide_short_help = true)]
    pub cpu: Option<CpuLevel>,
}

/// The variables in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvFile {
    path: String,
    variables: Vec<(String, String)>,
}

/// Reads a file like `docker run --env-file`: lines that begin with `#` are comments, and a bare name takes its value
/// from this process.
#[expect(clippy::disallowed_methods, reason = "the file and the variables are the user's own")]
fn read_env_file(path: &str) -> Result<EnvFile, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let mut variables = Vec::new();
    let without_mark = text.strip_prefix('\u{FEFF}').unwrap_or(&text);
    for (number, line) in without_mark.lines().map(str::trim_start).enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let in_line = |why: String| format!("line {}: {why}", number + 1);
        match line.split_once('=') {
            Some(_) => variables.push(key_value(line).map_err(in_line)?),
            // `KEY: VALUE` of YAML would be a variable that this process does not have.
            None if line.contains([' ', '\t', ':']) => return Err(in_line(EXPECTED_PAIR.to_owned())),
            None => variables.extend(std::env::var(line).ok().map(|value| (line.to_owned(), value))),
        }
    }
    let path = path.to_owned();
    Ok(EnvFile { path, variables })
}

/// The words of a command, split as a shell does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartWords(pub Vec<String>);

impl StartWords {
    /// The words quoted for a shell.
    fn text(&self) -> String {
        shlex::try_join(self.0.iter().map(String::as_str)).unwrap_or_default()
    }
}

impl StartArgs {
    /// Fills open values from the config. Variables are merged; the command line wins for the same name.
    fn fill(&mut self, config: &ProjectConfig) {
        self.cpu = self.cpu.or(config.cpu);
        let given = self.environment.iter();
        self.own_environment = given.map(|(name, value)| format!("{name}={value}")).collect();
        let own = config.env.iter().map(|(name, value)| (name.clone(), value.clone()));
        let files = self.env_file.iter().flat_map(|file| file.variables.iter().cloned());
        // After the config's, because the last value of a name counts.
        self.environment = own.chain(files).chain(self.environment.drain(..)).collect();
    }

    /// The replacements for the image's own values.
    pub(super) fn overrides(&self) -> StartOverrides {
        let [command, arguments] = [&self.command_words, &self.cmd_words].map(|words| Some(words.as_ref()?.0.clone()));
        StartOverrides {
            command,
            arguments,
            user: self.user.clone(),
            working_dir: self.workdir.clone(),
        }
    }
}

fn path_text(path: &Path) -> String {
    path.display().to_string()
}

fn absolute_directory(path: &str) -> Result<String, String> {
    let is_absolute = path.starts_with('/');
    is_absolute
        .then(|| path.to_owned())
        .ok_or_else(|| "expected an absolute path, such as /workspace".to_owned())
}

fn shell_words(text: &str) -> Result<StartWords, String> {
    if let Ok(words) = serde_json::from_str::<Vec<String>>(text) {
        let words = shlex::try_join(words.iter().map(String::as_str)).unwrap_or_default();
        return Err(format!("it is JSON; the same words as a shell has them: {words}"));
    }
    match shlex::split(text).ok_or("a quote is not closed, or the text ends in a backslash")? {
        words if words.is_empty() => Err("expected at least one word".to_owned()),
        words => Ok(StartWords(words)),
    }
}

/// When results have colours.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = DISPLAY)]
pub struct ColorArgs {
    /// When to use colours; `NO_COLOR` is respected
    #[arg(
        long,
        alias = "colour",
        value_parser = one_of(&COLOR),
        default_value = "auto",
        value_name = "WHEN",
        hide_short_help = true
    )]
    pub color: ColorChoice,
    /// As --color never.
    #[arg(long, alias = "no-colour", hide = true)]
    pub no_color: bool,
}

/// How much of a report with findings is shown.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = DISPLAY)]
pub struct QuietArgs {
    /// Print only the verdict and the findings; -qq prints nothing
    #[arg(long, short, action = ArgAction::Count)]
    pub quiet: u8,
}

/// How much of the report on an image is shown.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = DISPLAY)]
pub struct DetailArgs {
    #[command(flatten)]
    pub less: QuietArgs,
    /// Also print all notes, the layers and the loader's searches
    #[arg(long, short, conflicts_with = "quiet", overrides_with = "verbose")]
    pub verbose: bool,
}

/// Whether a command that always prints its whole answer shows its progress.
#[derive(Debug, Args)]
#[command(next_help_heading = DISPLAY)]
pub struct ProgressArgs {
    /// Show no progress
    #[arg(long, short, overrides_with = "quiet")]
    quiet: bool,
}

impl ProgressArgs {
    pub fn bars(&self) -> BarVisibility {
        BarVisibility::with_quiet(self.quiet)
    }
}

/// A name in a comma-separated list, which may have spaces around it.
#[expect(clippy::unnecessary_wraps, reason = "clap's parsers give a result")]
pub fn trimmed(text: &str) -> Result<String, std::convert::Infallible> {
    Ok(text.trim().to_owned())
}

fn one_platform(text: &str) -> Result<Platform, String> {
    let platform = text.parse::<PlatformArg>()?.one().cloned();
    platform.ok_or_else(|| "this command takes one platform; audit, links and fleet list take all".to_owned())
}

/// The form of a variable with its value.
const EXPECTED_PAIR: &str = "expected KEY=VALUE, such as LD_LIBRARY_PATH=/opt/lib";

/// Parses `KEY=VALUE`.
pub fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        // An engine takes it with the blank, so no program would find it.
        Some((key, _)) if key.contains(char::is_whitespace) => Err(format!(
            "the name {key:?} has a blank, as no variable has; {EXPECTED_PAIR}"
        )),
        // An empty value counts: `LD_LIBRARY_PATH=` shows the image without its own.
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(EXPECTED_PAIR.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::{key_value, read_env_file, shell_words};

    #[test]
    fn which_names_can_a_variable_have() {
        let pair = |name: &str, value: &str| Ok((name.to_owned(), value.to_owned()));
        assert_eq!(key_value("A.b-c=x y"), pair("A.b-c", "x y"));
        assert_eq!(key_value("A="), pair("A", ""));
        for text in ["A = x", "A", "=x"] {
            assert!(key_value(text).is_err(), "{text}");
        }
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test writes the file")]
    fn which_lines_can_a_file_of_variables_have() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let read = |text: &str| {
            std::fs::write(file.path(), text).unwrap();
            read_env_file(file.path().to_str().unwrap()).map(|file| file.variables)
        };
        let pair = ("A".to_owned(), "b".to_owned());
        assert_eq!(read("# x\n\nA=b\nNO_SUCH_VARIABLE_HERE\n"), Ok(vec![pair]));
        for text in ["A=b\nLD_LIBRARY_PATH: /opt/lib", "A=b\nexport C=d"] {
            assert!(read(text).is_err_and(|error| error.starts_with("line 2: ")), "{text}");
        }
    }

    #[test]
    fn are_words_in_the_form_of_json_refused() {
        let said = shell_words(r#"["python3", "my train.py"]"#).map(|words| words.0);
        let expected = "it is JSON; the same words as a shell has them: python3 'my train.py'";
        assert_eq!(said, Err(expected.to_owned()));
        assert_eq!(shell_words("[ -f x ]").map(|words| words.0.len()), Ok(4));
    }
}
