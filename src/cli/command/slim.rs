//! `slim`: builds an image that serves a phase, or one without dead weight.

use crate::cli::image_reader::PreparedCommand;
use crate::cli::progress::BarVisibility;
use crate::cli::shared_args::{DISPLAY, OnePlatformArgs, ReadArgs, TargetGpuArgs};
use crate::cli::terminal::{CommandError, wrapped_for_terminal, write_notice, write_result};
use crate::facts::ImageFacts;
use crate::judge::audit::judge_image;
use crate::judge::image_reading::ReadOptions;
use crate::judge::outcome::{AuditedImage, RunExit};
use crate::judge::plan::Plan;
use crate::knowledge::Phase;
use crate::knowledge::gpu::GpuTable;
use crate::make::choose::request::{DropChoice, PatchForm, PatchRequest};
use crate::make::slim::added_layer::SlimInput;
use crate::make::slim::build_image::build_new_image;
use crate::make::slim::decision::{PruneRequest, decide_changes};
use crate::make::slim::final_audit::{audit_new_image, audit_predicted_image};
use crate::make::slim::gpu_code::GpuRequest;
use crate::make::slim::original_image::OriginalImage;
use crate::make::slim::output::{ImageOutput, OutputAccess};
use crate::make::slim::slim_text;
use crate::make::slim::supplier::CuptiSupplier;
use crate::make::slim::{SlimError, interrupt};
use crate::make::whole_file::ExistingOutput;
use crate::report::verdict_line;
use clap::{ArgAction, Args};
use gpu_code::KeptPtx;
use image_linkage::escape;
use image_store::UnfinishedFolder;

const HELP: &str = "\
Outputs:
  oci:DIR[:TAG]               an OCI image layout; an existing one is kept, and the image is added
  oci-archive:FILE[:TAG]      an OCI image layout in a tar file
  docker-archive:FILE[:NAME]  a file for `docker load`
  docker-daemon:NAME          Docker Engine
  docker://REG/NAME[:TAG]     a registry; it reuses layers that it already has

An existing image or file is replaced only with --force. If slim fails, it leaves nothing behind. To write to a pipe, \
use -o docker-archive:/dev/stdout.

With --gpu, the libraries of open packages such as PyTorch lose their code for other GPUs. NVIDIA's own libraries stay \
as they are: its licence forbids changes. The new image fails on other GPUs.

Layers without a change stay the same, byte for byte. New files and a new ld.so.cache come in one layer on top. With \
--drop, layers that contain unneeded files are rewritten without them. The same input gives the same digest. The file \
/usr/share/cupti-audit/proof.json in the new image lists all changes.

Exit codes:
  0  the image was written and passes its audit for the phase
  2  no image was written: an error, or the new image would not pass its audit

Examples:
  cupti-audit slim app:1 -p profiling --cupti-from nvidia/cuda:12.4.1-devel-ubuntu22.04 -o oci:out
  cupti-audit slim docker-daemon:app --phase inference --drop -o docker-daemon:app:slim
  cupti-audit slim reg.example/app:1 --phase inference --drop --dry-run
  cupti-audit slim app:1 --phase training --gpu h100,a100 -o oci:out";

/// Make a new image that is ready for a phase, and smaller with --drop
///
/// Needs no container engine.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct SlimArgs {
    /// Image to start from
    #[arg(value_name = "IMAGE")]
    image_name: String,
    /// Purpose of the new image: inference, training, profiling, or a phase of your own
    // Exactly one, because a phase may drop files that another needs.
    #[arg(long, short, value_name = "PHASE")]
    phase: String,
    /// Image, wheel or directory to copy CUPTI from; needed if the image has no copy of its own
    #[arg(long, value_name = "IMAGE|WHEEL|DIR")]
    cupti_from: Option<String>,
    /// Remove files that the phase does not need
    #[arg(long)]
    drop: bool,
    #[command(flatten)]
    gpu_code: GpuCodeArgs,
    /// Where to write the new image, see Outputs; not needed with --dry-run
    // No default, because it could overwrite an existing image.
    #[arg(long = "output", short = 'o', value_name = "OUTPUT", value_parser = ImageOutput::parse, required_unless_present = "dry_run")]
    to: Option<ImageOutput>,
    /// Replace an existing output
    #[arg(long)]
    force: bool,
    /// Write nothing; print the changes, and whether the new image would pass its audit
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    platform: OnePlatformArgs,
    #[command(flatten)]
    read: ReadArgs,
    /// Print only the verdict; -qq prints nothing
    #[arg(long, short, action = ArgAction::Count, help_heading = DISPLAY)]
    quiet: u8,
}

/// The GPUs whose code stays, and the objects that may change.
#[derive(Debug, Args)]
struct GpuCodeArgs {
    #[command(flatten)]
    target: TargetGpuArgs,
    /// With --gpu, an object of an unknown package that may change (repeatable)
    ///
    /// Name only objects whose licence allows changes.
    #[arg(long = "gpu-file", value_name = "PATH", requires = "gpus", hide_short_help = true)]
    files: Vec<String>,
    /// With --gpu, keep all PTX, which newer GPUs can compile
    #[arg(long, requires = "gpus", hide_short_help = true)]
    keep_ptx: bool,
}

impl GpuCodeArgs {
    /// The GPUs whose code stays; `None` if all code stays.
    fn request(&self, known: &GpuTable) -> Result<Option<GpuRequest>, SlimError> {
        let ptx = if self.keep_ptx { KeptPtx::All } else { KeptPtx::Needed };
        GpuRequest::new(&self.target.gpus, &self.files, ptx, known).map_err(SlimError::Cannot)
    }
}

impl SlimArgs {
    /// Builds the new image.
    pub fn run(mut self) -> Result<RunExit, CommandError> {
        let bars = BarVisibility::with_quiet(self.quiet > 0);
        let prepared = PreparedCommand::new(&mut self.read, &self.platform, bars)?;
        // An interrupted run cleans up.
        interrupt::handle_interrupts();
        let (said, verdict) = run(&self, &prepared)?;
        let said = match self.quiet {
            0 => wrapped_for_terminal(said),
            1 => verdict,
            _ => String::new(),
        };
        let is_stream = self.to.as_ref().is_some_and(|to| !self.dry_run && to.is_stream());
        if is_stream {
            // The image may have gone to standard output.
            write_notice(&said);
            return Ok(RunExit::Clean);
        }
        Ok(write_result(&said, RunExit::Clean))
    }
}

/// Builds the image. Returns the full text and the verdict line.
fn run(args: &SlimArgs, prepared: &PreparedCommand) -> Result<(String, String), SlimError> {
    let PreparedCommand { knowledge, reader, .. } = prepared;
    // Before reading the image, because the name may be misspelled.
    let phase = knowledge.phase(&args.phase).map_err(SlimError::Cannot)?;
    let gpus = args.gpu_code.request(&knowledge.tables.gpus)?;
    let options = reader.options(prepared.platform.as_ref());
    // Before reading the image, because that takes minutes and the output may exist.
    let place = SlimDestination::new(args, &options)?;
    let folder = match &place {
        // Beside the output, because a rename only works within one file system.
        Some(place) => place.output.create_staging_folder()?,
        None => UnfinishedFolder::new(&std::env::temp_dir()).map_err(|error| SlimError::Cannot(error.to_string()))?,
    };
    let read = OriginalImage::read(&args.image_name, &options, folder.path());
    reader.bars.clear();
    // Handle errors after clearing the bars, so that no bar mixes with the message.
    let original = read?;
    if let Some(gpus) = &gpus {
        gpus.check_label(&original.image).map_err(SlimError::Cannot)?;
    }
    let read_supplier = args
        .cupti_from
        .as_ref()
        .map(|from| CuptiSupplier::read(from, &options, folder.path()));
    reader.bars.clear();
    let supplier = read_supplier.transpose()?;
    let phases = std::slice::from_ref(&args.phase);
    let before = judge_image(
        original.facts(&options),
        knowledge,
        phases,
        &options.conditions.environment,
    );
    let plan = before
        .plan(&args.phase)
        .ok_or_else(|| SlimError::Cannot(format!("there is no phase {}", args.phase)))?;
    let request = layer_request(args, &options, &before.facts, (phase, plan), supplier.as_ref());
    let prune = PruneRequest {
        request: gpus.as_ref(),
        limits: &options.index.limits,
        folder: folder.path(),
    };
    let decision = decide_changes(&original, &request, prune)?;
    let making = SlimInput {
        original: &original,
        options: &options,
        facts: &before.facts,
        plan,
        decision: &decision,
        supplier: supplier.as_ref(),
        folder: folder.path(),
    };
    let said = slim_text::describe_decision(&making);
    if let Some(place) = &place {
        let (made, audit) = place.make_image(&making)?;
        reader.bars.clear();
        return Ok((said + &made + &describe_rest(args, &audit), verdict_line(&audit)));
    }
    match audit_predicted_image(&making) {
        Ok(audit) => Ok((said + &describe_rest(args, &audit), verdict_line(&audit))),
        Err(why) => {
            // Print the planned changes even if they were rejected.
            if args.quiet == 0 {
                write_result(&said, RunExit::Clean);
            }
            Err(why)
        }
    }
}

/// What is asked of the added layer.
fn layer_request<'a>(
    args: &SlimArgs,
    options: &'a ReadOptions<'_>,
    target: &'a ImageFacts,
    (phase, plan): (&'a Phase, &'a Plan),
    supplier: Option<&'a CuptiSupplier>,
) -> PatchRequest<'a> {
    PatchRequest {
        target,
        phase,
        plan,
        knowledge: options.knowledge,
        conditions: &options.conditions,
        form: PatchForm::Layer,
        via: &[],
        cuda: None,
        source: supplier.map(CuptiSupplier::copy_source),
        drops: if args.drop {
            DropChoice::All
        } else {
            DropChoice::Nothing
        },
        adds_linked_program: false,
    }
}

/// What the new image keeps; empty if the run only adds CUPTI.
fn describe_rest(args: &SlimArgs, audit: &AuditedImage) -> String {
    if args.drop || !args.gpu_code.target.gpus.is_empty() {
        slim_text::describe_rest(&audit.facts)
    } else {
        String::new()
    }
}

/// The destination of the new image.
struct SlimDestination<'a> {
    output: &'a ImageOutput,
    reach: OutputAccess<'a>,
}

impl<'a> SlimDestination<'a> {
    /// The requested output if it is free; `None` for a dry run.
    fn new(args: &'a SlimArgs, options: &'a ReadOptions<'_>) -> Result<Option<Self>, SlimError> {
        let existing = ExistingOutput::with_force(args.force);
        let Some(output) = args.to.as_ref().filter(|_| !args.dry_run) else {
            return Ok(None);
        };
        let reach = OutputAccess {
            registry: &options.registry,
            existing,
        };
        output.check_free(&reach)?;
        Ok(Some(Self { output, reach }))
    }

    /// Builds the new image and moves it into place. Returns the text and the audit.
    fn make_image(&self, making: &SlimInput<'_>) -> Result<(String, AuditedImage), SlimError> {
        let form = self.output.image_form(making.original.documents.manifest.as_deref());
        let made = build_new_image(making, form)?;
        let written = self.output.write_image(&made, making.folder)?;
        let read = written
            .read_back(&made, self.output.to_string(), &making.options.index)
            .map_err(|error| {
                SlimError::Cannot(format!("nothing was written: what was made cannot be read: {error}"))
            })?;
        // Audit the written bytes before they are moved into place.
        let after = audit_new_image(making, &made, read)?;
        let mut text = slim_text::describe_result(making, &made, &after);
        let put = self.output.place_image(&made, written, &self.reach)?;
        text.extend(["  written: ", &escape::escape_bytes(put.as_bytes()), "\n"]);
        Ok((text, after))
    }
}
