//! `dockerfile`: the smallest Dockerfile by which an image serves a phase, or all of them.

mod project;

use std::path::Path;

use crate::cli::dockerfile::{DockerfileArgs, ViaArg};
use crate::facts::software::cuda_runtime::{CudaVersion, parse_cuda_version};
use crate::facts::{GatherOptions, ImageFacts};
use crate::judge::audit::judge_image;
use crate::judge::outcome::{AuditedImage, RunExit};
use crate::knowledge::Knowledge;
use crate::make::dockerfile::{self, DockerfileTemplates, PhasePage, image_name};
use crate::make::remedy::copy_source::CopySource;
use crate::make::remedy::install_context::RecipeRequest;
use crate::make::remedy::install_method::MethodKind;
use crate::make::remedy::recipe::make_recipe;
use crate::make::whole_file::ExistingOutput;

use super::command_error::CommandError;
use super::image_reader::{ONE_PLATFORM, PreparedCommand};
use super::output_file;
use super::terminal::{report_error, set_color_choice, write_verbatim};

/// Writes the Dockerfile for an image.
pub fn run_dockerfile(mut args: DockerfileArgs) -> Result<RunExit, CommandError> {
    set_color_choice(args.read.output.color);
    let existing = ExistingOutput::with_force(args.force);
    // A hyphen is standard output here as it is for the reports of an audit.
    args.file = args.file.take().filter(|file| file.as_os_str() != "-");
    let files = args.file.iter().chain(&args.cloudbuild);
    let files: Vec<&Path> = files.map(std::path::PathBuf::as_path).collect();
    output_file::check_writable(&files, existing)?;
    let templates = DockerfileTemplates::new()?;
    let prepared = PreparedCommand::new(&mut args.read, ONE_PLATFORM)?;
    let facts = prepared.read(&args.image_name)?;
    let source = args
        .from
        .as_ref()
        .map(|from| read_source(&prepared, from))
        .transpose()?;
    let knowledge = &prepared.knowledge;
    let audit = judge_image(facts, knowledge, &[], &args.read.image.environment);
    let facts = &audit.facts;
    let asked = DockerfileInputs {
        args: &args,
        facts,
        audit: &audit,
        knowledge,
        cuda: args.cuda.as_deref().map(read_cuda).transpose()?,
        source: source.as_ref().map(|(name, facts)| CopySource { name, facts }),
        conditions: prepared.reader.conditions(),
        // The command line's list stands in place of the config's.
        via: method_kinds(if args.via.is_empty() {
            &prepared.config.via
        } else {
            &args.via
        }),
        base: base(&args, facts)?,
    };
    let (text, cloudbuild) = match &args.phase {
        Some(phase) => (dockerfile::render_phase(&templates, &asked.page(phase)?)?, None),
        None => project::render_project(&asked, &templates)?,
    };
    // Before the Dockerfile: where this fails, nothing has gone to standard output.
    if let Some((file, text)) = args.cloudbuild.as_ref().zip(cloudbuild) {
        output_file::write_file(file, &text, existing)?;
    }
    let written = match &args.file {
        None => write_verbatim(&text, RunExit::Clean),
        Some(file) => {
            output_file::write_file(file, &text, existing)?;
            RunExit::Clean
        }
    };
    Ok(written.max(report_gaps(facts)))
}

fn method_kinds(via: &[ViaArg]) -> Vec<MethodKind> {
    via.iter().copied().map(Into::into).collect()
}

/// Says what could not be checked: what is written may then be too little.
fn report_gaps(facts: &ImageFacts) -> RunExit {
    facts.gaps.iter().fold(RunExit::Clean, |_, gap| {
        let (what, why) = (&gap.what, &gap.why);
        report_error(&format!(
            "{what} could not be checked, and what is written may be too little: {why}"
        ))
    })
}

/// What is asked, with all that was read for it.
struct DockerfileInputs<'a> {
    args: &'a DockerfileArgs,
    facts: &'a ImageFacts,
    audit: &'a AuditedImage,
    knowledge: &'a Knowledge,
    cuda: Option<CudaVersion>,
    source: Option<CopySource<'a>>,
    /// What the processes of the image start with.
    conditions: GatherOptions,
    via: Vec<MethodKind>,
    /// The name of the image for `FROM`.
    base: String,
}

impl DockerfileInputs<'_> {
    /// What there is to say of one phase.
    fn page(&self, phase: &str) -> Result<PhasePage<'_>, CommandError> {
        let phase = self.knowledge.phase(phase)?;
        let plan = self.audit.plan(&phase.name);
        let plan = plan.ok_or_else(|| format!("{} was not judged", phase.name))?;
        let request = RecipeRequest {
            target: self.facts,
            phase,
            plan,
            knowledge: self.knowledge,
            conditions: &self.conditions,
            via: &self.via,
            cuda: self.cuda,
            source: self.source,
            drops: self.args.drop,
        };
        let recipe = make_recipe(&request)?;
        Ok(dockerfile::fill_page(self.facts, plan, recipe, &self.base)?)
    }
}

/// The image to copy from, by the name that `FROM` takes, and its facts.
fn read_source(prepared: &PreparedCommand, from: &str) -> Result<(String, ImageFacts), CommandError> {
    let facts = prepared.read(from)?;
    let name = image_name::image_name_for_from(&facts.image)?;
    let why = || format!("{from} has no name that FROM could take; name an image of a registry or an engine");
    Ok((name.ok_or_else(why)?, facts))
}

/// The name of the image for `FROM`.
fn base(args: &DockerfileArgs, facts: &ImageFacts) -> Result<String, CommandError> {
    let name = match &args.base {
        Some(name) => Some(image_name::check_image_name(name)?),
        None => image_name::image_name_for_from(&facts.image)?,
    };
    let image = &args.image_name;
    let why = || format!("{image} has no name that FROM could take; --base gives one");
    Ok(name.ok_or_else(why)?)
}

fn read_cuda(text: &str) -> Result<CudaVersion, String> {
    let why = || format!("{text:?} is no version of CUDA; expected one such as 12.4");
    parse_cuda_version(text).ok_or_else(why)
}
