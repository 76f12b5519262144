//! `dockerfile --vertex`: a Vertex AI custom job for each phase that the Dockerfile is for.

use std::path::PathBuf;

use crate::cli::terminal::CommandError;
use crate::facts::ImageFacts;
use crate::facts::software::copies::CuptiCopy;
use crate::knowledge::vertex::{VertexMachine, find_machine};
use crate::knowledge::{Knowledge, Phase};
use crate::make::dockerfile::DockerfileTarget;
use crate::make::dockerfile::image_name::check_image_name;
use crate::make::dockerfile::vertex::VertexJob;
use crate::make::patch::BroughtRelease;
use clap::Args;
use image_linkage::escape;

/// The jobs to write, and their settings.
#[derive(Debug, Args)]
#[command(next_help_heading = "Vertex AI")]
pub struct VertexArgs {
    /// Also write a custom job for each phase, vertex-PHASE.yaml, into this folder [default: .]
    // Requires `=`, as `--cloudbuild` does.
    #[arg(long = "vertex", value_name = "FOLDER", num_args = 0..=1, default_missing_value = ".", require_equals = true, requires_all = ["image_uri", "bucket"])]
    vertex: Option<PathBuf>,
    /// Name of the built image in its registry; without a tag, the phase is the tag
    #[arg(long, value_name = "NAME", requires = "vertex", value_parser = check_image_name)]
    pub(super) image_uri: Option<String>,
    /// Bucket for traces, logs and models: `gs://NAME/FOLDER`; each phase gets a folder in it
    #[arg(long, value_name = "BUCKET", requires = "vertex", value_parser = bucket)]
    bucket: Option<String>,
    /// GPU of the jobs and how many, such as h100 or a100:2
    #[arg(long, value_name = "GPU[:N]", requires = "vertex", default_value = "l4")]
    accelerator: String,
    /// TensorBoard instance for phases with a profiler; projects/PROJECT/locations/REGION/tensorboards/ID
    // jobs.py of google-cloud-aiplatform: "`service_account` is required with provided `tensorboard`".
    #[arg(long, value_name = "NAME", requires_all = ["vertex", "service_account"], value_parser = tensorboard)]
    tensorboard: Option<String>,
    /// Service account of the jobs; Vertex AI needs one for TensorBoard
    #[arg(long, value_name = "EMAIL", requires = "vertex", value_parser = email)]
    service_account: Option<String>,
}

/// The jobs that were requested.
pub struct VertexJobs<'a> {
    folder: &'a PathBuf,
    image: &'a str,
    bucket: &'a str,
    args: &'a VertexArgs,
    machine: VertexMachine<'a>,
    phases: &'a [&'a Phase],
}

impl<'a> VertexJobs<'a> {
    /// The requested jobs; `None` without `--vertex`.
    ///
    /// Errors: An unknown accelerator, or one tag for several images.
    pub fn new(
        asked: &'a VertexArgs,
        phases: &'a [&'a Phase],
        knowledge: &'a Knowledge,
    ) -> Result<Option<Self>, String> {
        let needed = asked
            .vertex
            .as_ref()
            .zip(asked.image_uri.as_deref())
            .zip(asked.bucket.as_deref());
        let Some(((folder, image), bucket)) = needed else {
            return Ok(None);
        };
        if phases.len() > 1 && has_tag(image) {
            return Err(format!(
                "{image} is one image, and each phase has its own: leave out the tag"
            ));
        }
        Ok(Some(Self {
            folder,
            image,
            bucket,
            args: asked,
            machine: find_machine(&knowledge.tables.vertex_machines, &asked.accelerator)?,
            phases,
        }))
    }

    /// The files, in the order of [`write`](Self::write).
    pub fn files(&self) -> Vec<PathBuf> {
        let files = self.phases.iter().map(|phase| self.folder.join(file_name(phase)));
        files.collect()
    }

    /// The text of each job. `targets` are those of the Dockerfile, one for each phase.
    ///
    /// Errors: The image's CUPTI does not support the GPU, or Vertex AI's machine is for another processor.
    pub fn write(&self, facts: &ImageFacts, targets: &[DockerfileTarget<'_>]) -> Result<Vec<String>, CommandError> {
        let image = &facts.image;
        // An image from a folder may not state its processor.
        let (processor, machines) = (
            image.platform.architecture.as_str(),
            &self.machine.accelerator.architecture,
        );
        if !["", machines].contains(&processor) {
            let (image, name) = (escape::escape_bytes(image.reference.as_bytes()), self.machine.machine);
            return Err(format!("{image} is for {processor}, and Vertex AI's machine {name} is {machines}").into());
        }
        let job = |(phase, target): (&&'a Phase, &DockerfileTarget<'_>)| {
            let is_profiled = !phase.apis.needs.is_empty();
            if is_profiled {
                self.check_gpu(facts, target)?;
            }
            Ok(self.job(phase, is_profiled).write())
        };
        self.phases.iter().zip(targets).map(job).collect()
    }

    fn job(&self, phase: &'a Phase, is_profiled: bool) -> VertexJob<'a> {
        let (name, image) = (phase.name.as_str(), self.image);
        VertexJob {
            phase: name,
            summary: &phase.summary,
            file: file_name(phase),
            image: if has_tag(image) {
                image.to_owned()
            } else {
                format!("{image}:{name}")
            },
            machine: self.machine.machine,
            accelerator: &self.machine.accelerator.accelerator,
            count: self.machine.count,
            output: format!("{}/{name}", self.bucket),
            is_profiled,
            tensorboard: self.args.tensorboard.as_deref(),
            service_account: self.args.service_account.as_deref(),
        }
    }

    /// Checks that the CUPTI of the new image supports the GPU. Nothing is known of a CUPTI without a version.
    fn check_gpu(&self, facts: &ImageFacts, target: &DockerfileTarget<'_>) -> Result<(), String> {
        let row = self.machine.accelerator;
        let gpu = facts.tables.gpus.find(&row.gpu)?;
        let brought = target.patch.release.as_ref().and_then(BroughtRelease::cuda);
        let versions: Vec<(u32, u32)> = match brought {
            Some(cuda) => vec![cuda],
            None => facts.own_copies().filter_map(CuptiCopy::cuda).collect(),
        };
        let Some((major, minor)) = versions.first() else {
            return Ok(());
        };
        if versions.iter().any(|cuda| gpu.is_supported_by(*cuda)) {
            return Ok(());
        }
        let (name, releases) = (&row.accelerator, gpu.releases());
        Err(format!(
            "CUPTI of CUDA {major}.{minor} does not support {name}, which needs {releases}; choose another GPU with --accelerator"
        ))
    }
}

fn file_name(phase: &Phase) -> String {
    format!("vertex-{}.yaml", phase.name)
}

/// Whether the name of an image has a tag or a digest. A colon before the last slash precedes a port.
fn has_tag(image: &str) -> bool {
    image.rsplit('/').next().is_some_and(|last| last.contains([':', '@']))
}

/// A place in a bucket, without a final slash.
fn bucket(text: &str) -> Result<String, String> {
    let place = text.trim_end_matches('/');
    let is_known = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || "-_.".contains(letter);
    let is_named = |bucket: &str| (3..=222).contains(&bucket.len()) && bucket.chars().all(is_known);
    // Vertex AI mounts buckets as folders, so a part may be no name of a folder.
    let is_folder = |part: &str| !["", ".", ".."].contains(&part) && !part.contains(char::is_control);
    let mut parts = place.strip_prefix("gs://").unwrap_or_default().split('/');
    let is_place = parts.next().is_some_and(is_named) && parts.all(is_folder);
    let found = is_place.then(|| place.to_owned());
    found.ok_or_else(|| "expected one such as gs://traces or gs://traces/trainer".to_owned())
}

/// The resource name of a TensorBoard instance, in the form that `CustomJobSpec` documents.
fn tensorboard(text: &str) -> Result<String, String> {
    let parts: Vec<&str> = text.split('/').collect();
    let is_named = matches!(parts.as_slice(), ["projects", _, "locations", _, "tensorboards", _]);
    let found = (is_named && parts.iter().all(|part| !part.is_empty())).then(|| text.to_owned());
    found.ok_or_else(|| "expected projects/PROJECT/locations/REGION/tensorboards/ID".to_owned())
}

/// The address of a service account, such as `trainer@PROJECT.iam.gserviceaccount.com`.
fn email(text: &str) -> Result<String, String> {
    let parts = text.split_once('@');
    let is_address = parts.is_some_and(|(name, domain)| !name.is_empty() && !domain.is_empty());
    let found = (is_address && !text.contains(char::is_whitespace)).then(|| text.to_owned());
    found.ok_or_else(|| "expected NAME@PROJECT.iam.gserviceaccount.com".to_owned())
}
