//! `fleet list`: resolves image names to digests.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::named_files::read_text;
use crate::cli::config::load::load_for_images;
use crate::cli::image_reader::ImageReader;
use crate::cli::output_file::{check_not_read, write_file};
use crate::cli::shared_args::{
    CacheArgs, ColorArgs, ConfigArgs, LimitArgs, PlatformArgs, ProgressArgs, ReadArgs, RegistryArgs,
};
use crate::cli::terminal::{CommandError, report_error, report_warning, write_result};
use crate::fleet::{RepositoryPattern, WorkEntry, Worklist, read_image_names};
use crate::judge::outcome::RunExit;
use crate::make::whole_file::ExistingOutput;
use clap::Args;
use image_source::registry::{RegistryOptions, list_repositories, list_tags};
use image_source::{ImageError, PathKind, Platform, RegistryReference, in_parallel, open_image, path_kind};

/// The number of characters shown of an invalid name.
const NAME_SHOWN: usize = 60;

/// The number of images resolved concurrently.
const AT_A_TIME: usize = 8;

/// References, each with its users.
type NamedReferences = BTreeMap<String, BTreeSet<String>>;

const HELP: &str = "\
Sources:
  registry:HOST[/REPOSITORY][:TAG]  images in a registry
  FILE                              image references, one per line
  FILE                              a Dockerfile: the images in its FROM lines
  FILE                              the output of `kubectl get … -o json`: all containers
  -                                 the content of such a FILE, from standard input
  IMAGE                             one image
  REPOSITORY and TAG may be patterns: registry:reg.example/team/*:v*
  Without REPOSITORY or TAG, all are listed.

The worklist has one line of JSON for each digest and platform, sorted by digest. The same images give the same bytes.

Exit codes:
  0  every image was found; signatures, attestations, charts and other artifacts are left out
  2  an image was not found, or a source could not be read; the worklist contains all others

Examples:
  cupti-audit fleet list 'registry:reg.example/team/**' > work.jsonl
  kubectl get pods,cronjobs -A -o json | cupti-audit fleet list - > work.jsonl
  cupti-audit fleet list images.txt docker/Dockerfile --platform all -o work.jsonl";

#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct FleetListArgs {
    /// Where to find the names of images, see Sources
    #[arg(value_name = "SOURCE", required = true)]
    sources: Vec<String>,
    /// Worklist to write; - is standard output
    #[arg(long, short, value_name = "FILE", default_value = "-")]
    output: PathBuf,
    #[command(flatten)]
    platform: PlatformArgs,
    #[command(flatten)]
    registry: RegistryArgs,
    #[command(flatten)]
    limits: LimitArgs,
    #[command(flatten)]
    own: ConfigArgs,
    #[command(flatten)]
    color: ColorArgs,
    #[command(flatten)]
    progress: ProgressArgs,
}

impl FleetListArgs {
    /// Writes the worklist of all images that the sources name.
    pub(super) fn run(mut self) -> Result<RunExit, CommandError> {
        let inputs: Vec<PathBuf> = self.sources.iter().map(PathBuf::from).collect();
        check_not_read(&self.output, &inputs, "worklist")?;
        let mut read = ReadArgs {
            registry: self.registry,
            limits: self.limits,
            own: self.own,
            color: self.color,
            cache: CacheArgs::disabled(),
            ..ReadArgs::default()
        };
        let (config, knowledge) = load_for_images(&mut read)?;
        self.platform.fill(&config);
        let reader = ImageReader::new(&read, &knowledge, self.progress.bars());
        let mut sources = SourceReader {
            registry: reader.options(None).registry,
            named: NamedReferences::new(),
            exit: RunExit::Clean,
        };
        for source in &self.sources {
            if let Err(error) = sources.read(source) {
                sources.fail(&error);
            }
        }
        let SourceReader { named, mut exit, .. } = sources;
        let named: Vec<_> = named.into_iter().collect();
        let found = in_parallel(&named, AT_A_TIME, |(reference, used_by)| {
            resolve((&reader, &self.platform), reference, used_by)
        });
        reader.bars.clear();
        let mut list = Worklist::default();
        let mut artifacts = Vec::new();
        for (found, (reference, _)) in found.into_iter().zip(&named) {
            match found {
                Ok(Resolved::Images(entries)) => entries.into_iter().for_each(|entry| list.add(entry)),
                Ok(Resolved::Artifact) => artifacts.push(reference),
                Err(error) => exit = report_error(&format!("{reference}: {error}")),
            }
        }
        if let [first, ..] = artifacts.as_slice() {
            let count = artifacts.len();
            report_warning(&format!(
                "{count} artifacts are no images and are left out, such as {first}"
            ));
        }
        if self.output.as_os_str() == "-" {
            return Ok(write_result(&list.text(), exit));
        }
        write_file(&self.output, &list.text(), ExistingOutput::Replaced)?;
        Ok(exit)
    }
}

/// Collects the references of all sources.
struct SourceReader {
    registry: RegistryOptions,
    named: NamedReferences,
    exit: RunExit,
}

impl SourceReader {
    fn read(&mut self, source: &str) -> Result<(), String> {
        if let Some(pattern) = source.strip_prefix("registry:") {
            return self.read_registry(&RepositoryPattern::parse(pattern)?);
        }
        // A file that is not an image contains image names; any other source is an image.
        let is_list = matches!(path_kind(source), Some(PathKind::Other(_) | PathKind::Empty));
        if source != "-" && !is_list {
            self.named.entry(source.to_owned()).or_default();
            return Ok(());
        }
        let name = if source == "-" { "standard input" } else { source };
        let (found, wrong) = read_image_names(name, &read_text(source)?)?;
        for image in found {
            self.named.entry(image.reference).or_default().extend(image.used_by);
        }
        for error in &wrong {
            self.fail(error);
        }
        Ok(())
    }

    fn read_registry(&mut self, pattern: &RepositoryPattern) -> Result<(), String> {
        let registry = &pattern.registry;
        let repositories: Vec<String> = if let Some(only) = pattern.only_repository() {
            vec![only.to_owned()]
        } else {
            let all = list_repositories(registry, &self.registry).map_err(|error| error.to_string())?;
            let (names, wrong): (Vec<_>, Vec<_>) = pattern
                .matching_repositories(all)
                .partition(|name| is_repository(registry, name));
            // Skip these names: in a URL they would lead to other resources than repositories.
            if let Some(first) = wrong.first() {
                let (count, all) = (wrong.len(), wrong.len() + names.len());
                let first: String = first.chars().take(NAME_SHOWN).collect();
                self.fail(&format!(
                    "registry:{registry}: left out, as they can be no repository: {count} of the {all} names in its list, such as {first:?}"
                ));
            }
            names
        };
        let mut is_empty = true;
        let tags = |repository: &String| list_tags(registry, repository, &self.registry);
        let lists = in_parallel(&repositories, AT_A_TIME, tags);
        for (repository, tags) in repositories.iter().zip(lists) {
            match tags {
                Ok(tags) => {
                    for reference in pattern.references(repository, tags) {
                        is_empty = false;
                        self.named.entry(format!("docker://{reference}")).or_default();
                    }
                }
                // The registry's list keeps repositories whose last tag was deleted.
                Err(ImageError::NotFound(_)) if pattern.only_repository().is_none() => {}
                Err(error) => {
                    is_empty = false;
                    self.fail(&error.to_string());
                }
            }
        }
        if is_empty {
            return Err(format!("registry:{registry} has no image that fits the pattern"));
        }
        Ok(())
    }

    fn fail(&mut self, error: &str) {
        self.exit = report_error(&error);
    }
}

/// Whether this is a valid repository name: a registry's list may contain any text.
fn is_repository(registry: &str, name: &str) -> bool {
    let reference = format!("{registry}/{name}").parse::<RegistryReference>();
    reference.is_ok_and(|reference| reference.repository() == name)
}

/// What a reference names.
enum Resolved {
    /// The images, one for each requested platform.
    Images(Vec<WorkEntry>),
    /// A chart, a signature, an attestation or another artifact.
    Artifact,
}

fn resolve(
    (reader, platform): (&ImageReader, &PlatformArgs),
    reference: &str,
    used_by: &BTreeSet<String>,
) -> Result<Resolved, String> {
    let used_by: Vec<String> = used_by.iter().cloned().collect();
    let name = reference.strip_prefix("docker://").unwrap_or(reference);
    let mut entries = Vec::new();
    let wishes = match reader.platforms(reference, platform) {
        Err(ImageError::Artifact { .. }) => return Ok(Resolved::Artifact),
        wishes => wishes.map_err(|error| error.to_string())?,
    };
    for wish in wishes {
        let options = reader.options(wish.as_ref());
        let opened = match open_image(reference, &options.registry, &options.open_request()) {
            Err(ImageError::Artifact { .. }) => return Ok(Resolved::Artifact),
            opened => opened.map_err(|error| error.to_string())?,
        };
        let digest = opened
            .image
            .digest
            .ok_or("it has no digest of its own, by which results are kept")?;
        let image = opened.home.map_or_else(
            || reference.to_owned(),
            |home| format!("{}/{}@{digest}", home.registry(), home.repository()),
        );
        // An old or hand-made config may lack its platform; then it is the requested one.
        let said =
            Some(opened.image.platform).filter(|platform| !platform.architecture.is_empty() && !platform.os.is_empty());
        let platform = said.or(wish).unwrap_or_else(Platform::host);
        entries.push(WorkEntry::new(image, &digest, &platform, name, &used_by));
    }
    Ok(Resolved::Images(entries))
}
