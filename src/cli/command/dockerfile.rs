//! `dockerfile`: writes the smallest Dockerfile that makes an image serve one phase, or all phases.

mod project;
mod vertex;

use std::path::Path;
use std::path::PathBuf;

use crate::cli::image_reader::PreparedCommand;
use crate::cli::option_values::{VIA, one_of};
use crate::cli::output_file;
use crate::cli::shared_args::{OnePlatformArgs, ProgressArgs, ReadArgs, TargetGpuArgs, fill_list};
use crate::cli::terminal::{CommandError, report_error, write_verbatim};
use crate::facts::software::cuda_runtime::{CudaVersion, parse_cuda_version};
use crate::facts::{GatherOptions, ImageFacts};
use crate::judge::audit::judge_image;
use crate::judge::outcome::{AuditedImage, RunExit};
use crate::judge::plan::Verdict;
use crate::knowledge::gpu::GpuCapability;
use crate::knowledge::{Knowledge, Phase};
use crate::make::choose::choice::{ChosenPatch, choose_copy_from_stage, choose_patch};
use crate::make::choose::copy_source::CopySource;
use crate::make::choose::request::{DropChoice, MethodKind, PatchContext, PatchForm, PatchRequest};
use crate::make::dockerfile::builder::PytorchBuilder;
use crate::make::dockerfile::{self, DockerfileTarget, image_name};
use crate::make::whole_file::ExistingOutput;
use clap::Args;
use vertex::{VertexArgs, VertexJobs};

const HELP: &str = "\
Without --via, CUPTI is installed in the first of these ways that works. The comments in the file give the reason for \
each way. With --via, only the ways with that name (on the left) are tried.
  -         a copy that is in the image but is not found: add it to the search path
  copy      files of the image of --from
  pip       in the Python environment of the program that needs CUPTI
  conda     in the conda environment of that program
  apt       the distribution's own package
  apt, dnf  NVIDIA's package
  conda     in any conda environment
  pip       in any Python environment
  copy      files of NVIDIA's devel image

A step of the Dockerfile asks the image's own loader for the libraries that the phase needs. If one is not found, the \
build fails. It is the last step, or, if the image has no shell, in an earlier stage. If the image is \
already ready for the phase, the Dockerfile has only FROM and this step; and only FROM if the phase needs no library \
or the image has no shell.

With --gpu, PyTorch is compiled only for these GPUs (--with-builder). A Dockerfile cannot remove GPU code from compiled \
libraries; its comments name the command that can.

Exit codes:
  0  the Dockerfile was written
  2  no Dockerfile was written: an error, or no way to install CUPTI works for this image

Examples:
  cupti-audit dockerfile nvidia/cuda:12.4.1-runtime-ubuntu22.04 --phase training -o Dockerfile
  cupti-audit dockerfile trainer:1 --phase profiling --from nvidia/cuda:12.4.1-devel-ubuntu22.04
  cupti-audit dockerfile trainer:1 --all-phases --with-builder --cloudbuild -o Dockerfile
  cupti-audit dockerfile trainer:1 --all-phases --with-builder --gpu h100,a100 -o Dockerfile
  cupti-audit dockerfile app:1 --all-phases -o Dockerfile --vertex --image-uri NAME --bucket gs://B
  cupti-audit dockerfile model:1 --phase inference | docker build -t model:slim -";

const USAGE: &str = "\
cupti-audit dockerfile [OPTIONS] --phase <PHASE> <IMAGE>
       cupti-audit dockerfile [OPTIONS] --all-phases <IMAGE>";

/// Write the smallest Dockerfile that makes an image ready for a phase
///
/// Its last step checks the result during the build.
#[derive(Debug, Args)]
#[command(after_help = HELP, override_usage = USAGE)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct DockerfileArgs {
    /// Image to start from
    #[arg(value_name = "IMAGE")]
    image_name: String,
    /// Purpose of the new image: inference, training, profiling
    // No default, because each phase changes an image in a different way.
    #[arg(long, short, value_name = "PHASE", required_unless_present = "all_phases")]
    phase: Option<String>,
    /// Write one file with a target for each phase, and a target `builder` with the compilers
    #[arg(long, conflicts_with = "phase")]
    all_phases: bool,
    /// With --all-phases: build PyTorch from source, with CUPTI for training and profiling, without it for inference
    #[arg(long, requires = "all_phases", conflicts_with = "phase")]
    with_builder: bool,
    /// With --all-phases: also write a Cloud Build configuration [default: cloudbuild.yaml]
    // Requires `=`: otherwise `--cloudbuild IMAGE` would take the image as the file.
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "cloudbuild.yaml", require_equals = true, requires = "all_phases", conflicts_with = "phase")]
    cloudbuild: Option<PathBuf>,
    /// How to install CUPTI; repeat it to list several ways in order of preference [default: see below]
    #[arg(long, value_name = "WAY", value_delimiter = ',', value_parser = one_of(&VIA))]
    via: Vec<MethodKind>,
    /// Remove all files that the phase does not need; without --drop, only inference removes files, and it keeps
    /// compilers and stubs
    #[arg(long)]
    drop: bool,
    /// Image in a registry or an engine to copy CUPTI from
    #[arg(long, value_name = "IMAGE")]
    from: Option<String>,
    /// CUDA version of CUPTI, such as 12.4 [default: that of the image]
    #[arg(long, value_name = "VERSION")]
    cuda: Option<String>,
    #[command(flatten)]
    target: TargetGpuArgs,
    /// Name for FROM; needed if IMAGE is a file or a directory
    #[arg(long, value_name = "NAME")]
    base: Option<String>,
    /// File to write [default: standard output]
    #[arg(long = "output", short = 'o', value_name = "FILE")]
    file: Option<PathBuf>,
    /// Overwrite an existing file
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    vertex: VertexArgs,
    #[command(flatten)]
    platform: OnePlatformArgs,
    #[command(flatten)]
    read: ReadArgs,
    #[command(flatten)]
    progress: ProgressArgs,
}

impl DockerfileArgs {
    /// Writes the Dockerfile for an image.
    pub fn run(mut self) -> Result<RunExit, CommandError> {
        let existing = ExistingOutput::with_force(self.force);
        // A hyphen means standard output, as for the reports of an audit.
        self.file = self.file.take().filter(|file| file.as_os_str() != "-");
        let outputs: Vec<&Path> = self.file.iter().chain(&self.cloudbuild).map(PathBuf::as_path).collect();
        output_file::check_writable(&outputs, existing)?;
        let prepared = PreparedCommand::new(&mut self.read, &self.platform, self.progress.bars())?;
        let phases = match &self.phase {
            Some(name) => vec![prepared.knowledge.phase(name)?],
            None => prepared.knowledge.staged_phases(),
        };
        let gpus = prepared.knowledge.tables.gpus.find_all(&self.target.gpus)?;
        let jobs = VertexJobs::new(&self.vertex, &phases, &prepared.knowledge)?;
        let job_files = jobs.as_ref().map(VertexJobs::files).unwrap_or_default();
        let job_paths: Vec<&Path> = job_files.iter().map(PathBuf::as_path).collect();
        output_file::check_writable(&job_paths, existing)?;
        let facts = prepared.read(&self.image_name)?;
        let source = self
            .from
            .as_ref()
            .map(|from| read_source(&prepared, from))
            .transpose()?;
        let knowledge = &prepared.knowledge;
        let audit = judge_image(facts, knowledge, &[], &self.read.start.environment);
        let facts = &audit.facts;
        let mut via = self.via.clone();
        fill_list(&mut via, &prepared.config.via);
        let asked = DockerfileInputs {
            args: &self,
            facts,
            audit: &audit,
            knowledge,
            cuda: self.cuda.as_deref().map(read_cuda).transpose()?,
            source: source.as_ref().map(|(name, facts)| CopySource { name, facts }),
            conditions: prepared.reader.conditions(),
            via,
            gpus,
            base: base(&self, facts)?,
        };
        let mut targets: Vec<DockerfileTarget<'_>> = Vec::new();
        for phase in &phases {
            targets.push(asked.target(phase)?);
        }
        let job_texts = jobs.map(|jobs| jobs.write(facts, &targets)).transpose()?;
        let (text, cloudbuild) = match targets.as_slice() {
            [target] if self.phase.is_some() => (dockerfile::write_phase(target)?, None),
            _ => project::write_project(&asked, targets)?,
        };
        // Before the Dockerfile, so that a failure here leaves standard output empty.
        if let Some((file, text)) = self.cloudbuild.as_ref().zip(cloudbuild) {
            output_file::write_file(file, &text, existing)?;
        }
        for (file, text) in job_files.iter().zip(job_texts.unwrap_or_default()) {
            output_file::write_file(file, &text, existing)?;
        }
        let written = match &self.file {
            None => write_verbatim(&text, RunExit::Clean),
            Some(file) => {
                output_file::write_file(file, &text, existing)?;
                RunExit::Clean
            }
        };
        Ok(written.max(report_gaps(facts)))
    }
}

/// Reports gaps, because the Dockerfile may then be incomplete.
fn report_gaps(facts: &ImageFacts) -> RunExit {
    facts.gaps.iter().fold(RunExit::Clean, |_, gap| {
        let (what, why) = (&gap.what, &gap.why);
        report_error(&format!(
            "{what} could not be checked, and what is written may be too little: {why}"
        ))
    })
}

/// The arguments and the data read for them.
struct DockerfileInputs<'a> {
    args: &'a DockerfileArgs,
    facts: &'a ImageFacts,
    audit: &'a AuditedImage,
    knowledge: &'a Knowledge,
    cuda: Option<CudaVersion>,
    source: Option<CopySource<'a>>,
    /// The start conditions of the image's processes.
    conditions: GatherOptions,
    via: Vec<MethodKind>,
    /// The compute capabilities of --gpu, oldest first.
    gpus: Vec<&'a GpuCapability>,
    /// The name of the image for `FROM`.
    base: String,
}

impl<'a> DockerfileInputs<'a> {
    /// The target for one phase.
    fn target(&'a self, phase: &'a Phase) -> Result<DockerfileTarget<'a>, CommandError> {
        let builder = self.args.with_builder.then(|| project::pytorch_builder(phase));
        let plan = self
            .audit
            .plan(&phase.name)
            .ok_or_else(|| format!("{} was not judged", phase.name))?;
        let request = PatchRequest {
            target: self.facts,
            phase,
            plan,
            knowledge: self.knowledge,
            conditions: &self.conditions,
            form: PatchForm::Build,
            via: &self.via,
            cuda: self.cuda,
            source: self.source,
            drops: if self.args.drop {
                DropChoice::All
            } else {
                DropChoice::OfPhase
            },
            adds_linked_program: builder == Some(PytorchBuilder::WithCupti),
        };
        let context = PatchContext::new(request)?;
        let mut chosen = choose_patch(&context)?;
        // A user who asks for a release, a source or a way gets it.
        let is_chosen = self.cuda.is_some() || self.source.is_some() || !self.via.is_empty();
        let left = &chosen.predicted.because;
        let cures_nothing =
            chosen.predicted.verdict == Verdict::Fail && plan.because.iter().all(|rule| left.contains(rule));
        if builder.is_none() && !is_chosen && cures_nothing {
            let (name, image, why) = (&phase.name, &self.args.image_name, left.join(", "));
            return Err(format!(
                "nothing is written: the result would still fail {name} ({why}); cupti-audit {image} --phase {name} has the reasons"
            )
            .into());
        }
        // The targets of a project share a stage with the files of a package.
        let shares_stage = self.args.all_phases && chosen.patch.package.is_some();
        let installed = shares_stage.then(|| chosen.patch.clone());
        if let Some(installed) = &installed {
            let considered = std::mem::take(&mut chosen.considered);
            chosen = ChosenPatch {
                considered,
                ..choose_copy_from_stage(&context, installed)?
            };
        }
        if builder.is_some() {
            project::note_hidden_pytorch(self.facts, &mut chosen);
        }
        let mut target = dockerfile::describe_target(context, chosen, &self.base, builder)?;
        target.installed = installed;
        target.gpus = self.args.target.gpus.join(",");
        Ok(target)
    }
}

/// The image to copy from: its name for `FROM`, and its facts.
fn read_source(prepared: &PreparedCommand, from: &str) -> Result<(String, ImageFacts), CommandError> {
    let facts = prepared.read(from)?;
    let name = image_name::image_name_for_from(&facts.image)?
        .ok_or_else(|| format!("{from} has no name that FROM could take; name an image of a registry or an engine"))?;
    Ok((name, facts))
}

/// The name of the image for `FROM`.
fn base(args: &DockerfileArgs, facts: &ImageFacts) -> Result<String, CommandError> {
    let name = match &args.base {
        Some(name) => Some(image_name::with_tag(image_name::check_image_name(name)?)),
        None => image_name::image_name_for_from(&facts.image)?,
    };
    let image = &args.image_name;
    Ok(name.ok_or_else(|| format!("{image} has no name that FROM could take; --base gives one"))?)
}

fn read_cuda(text: &str) -> Result<CudaVersion, String> {
    parse_cuda_version(text).ok_or_else(|| format!("{text:?} is no version of CUDA; expected one such as 12.4"))
}
