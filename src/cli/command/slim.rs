//! `slim`: makes an image that serves a phase, or one without dead weight.

use std::path::Path;

use crate::cli::slim::SlimArgs;
use crate::judge::audit::judge_image;
use crate::judge::facts::ImageFacts;
use crate::judge::image_reading::ReadOptions;
use crate::judge::outcome::{AuditedImage, RunExit};
use crate::judge::plan::Plan;
use crate::knowledge::Knowledge;
use crate::make::slim::added_layer::{SlimInput, foretell_image};
use crate::make::slim::build_image::build_new_image;
use crate::make::slim::decision::{DropMode, SlimDecision, decide_changes};
use crate::make::slim::final_audit::{audit_foretold_image, audit_new_image};
use crate::make::slim::new_image::NewImage;
use crate::make::slim::original_image::OriginalImage;
use crate::make::slim::output::{ImageOutput, OutputAccess, WrittenImage};
use crate::make::slim::slim_text::{self, OriginalState};
use crate::make::slim::supplier::CuptiSupplier;
use crate::make::slim::{SlimError, interrupt};
use crate::make::whole_file::ExistingOutput;
use image_linkage::escape;
use image_linkage::layer::LayerIndex;
use image_source::UnfinishedFolder;

use super::command_error::CommandError;
use super::image_reader::PreparedCommand;
use super::terminal::{set_color_choice, wrapped_for_terminal, write_notice, write_result};

/// Makes the new image.
pub fn run_slim(mut args: SlimArgs) -> Result<RunExit, CommandError> {
    set_color_choice(args.read.output.color);
    let only_one = "an image is made for one platform; name it with --platform";
    let prepared = PreparedCommand::new(&mut args.read, only_one)?;
    // An interruption leaves nothing behind.
    interrupt::handle_interrupts();
    let said = wrapped_for_terminal(run(&args, &prepared)?);
    let is_stream = args.to.as_ref().is_some_and(|to| !args.dry_run && to.is_stream());
    if is_stream {
        // The image may have gone to standard output.
        write_notice(&said);
        return Ok(RunExit::Clean);
    }
    Ok(write_result(&said, RunExit::Clean))
}

/// Makes the image, and gives what to say of it.
fn run(args: &SlimArgs, prepared: &PreparedCommand) -> Result<String, SlimError> {
    let PreparedCommand { knowledge, reader, .. } = prepared;
    // Also before anything is read, as a name may be misspelt.
    knowledge.phase(&args.phase).map_err(SlimError::Cannot)?;
    let options = reader.options(prepared.platform.as_ref());
    // Before anything is read: an output that is taken would be found out after minutes.
    let place = SlimDestination::new(args, &options)?;
    let folder = match &place {
        // Beside the output: only within one file system is putting it in place a single rename.
        Some(place) => place.output.create_staging_folder()?,
        None => UnfinishedFolder::new(&std::env::temp_dir()).map_err(|error| SlimError::Cannot(error.to_string()))?,
    };
    let original = OriginalImage::read(&args.image_name, &options, folder.path());
    reader.bars.clear();
    let work = SlimRun {
        phase: &args.phase,
        dropping: if args.drop { DropMode::Drop } else { DropMode::Keep },
        cupti_from: args.cupti_from.as_deref(),
        knowledge,
        options: &options,
        // Looked at only now, when no bar can stand between the lines of the error.
        original: original?,
        folder: folder.path(),
    };
    let supplier = args.cupti_from.as_ref();
    let supplier = supplier.map(|from| CuptiSupplier::read(from, &options, folder.path()));
    reader.bars.clear();
    let said = work.make(supplier.transpose()?.as_ref(), place.as_ref())?;
    reader.bars.clear();
    Ok(said)
}

/// Where the new image goes.
struct SlimDestination<'a> {
    output: &'a ImageOutput,
    reach: OutputAccess<'a>,
}

impl<'a> SlimDestination<'a> {
    /// The place that was asked for, if it is free; none where nothing is to be done.
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
}

/// An image that was read, and what is wanted of it.
struct SlimRun<'a> {
    phase: &'a str,
    dropping: DropMode,
    cupti_from: Option<&'a str>,
    knowledge: &'a Knowledge,
    options: &'a ReadOptions<'a>,
    original: OriginalImage,
    folder: &'a Path,
}

impl SlimRun<'_> {
    fn make(&self, supplier: Option<&CuptiSupplier>, place: Option<&SlimDestination<'_>>) -> Result<String, SlimError> {
        let before = self.audit();
        let (plan, decision) = self.decide(&before, supplier)?;
        let facts = &before.facts;
        let said = OriginalState {
            facts,
            plan,
            from: self.cupti_from,
        };
        let mut text = slim_text::describe_decision(&said, &decision);
        let below = decision.apply(&self.original.layers);
        let making = self.making(&decision, facts, supplier, &below);
        let Some(place) = place else {
            return match self.foretell(&making) {
                Ok(_) => Ok(text),
                // What would be done is told all the same, and why it is not.
                Err(why) => {
                    write_result(&text, RunExit::Clean);
                    Err(why)
                }
            };
        };
        let form = place.output.image_form(self.original.documents.manifest.as_deref());
        let made = build_new_image(&self.original, &making, form)?;
        let written = place.output.write_image(&made, self.folder)?;
        // Nothing is put in place that was not audited from the bytes that were written.
        let after = self.audit_written(&made, &written, place.output.to_string(), &making)?;
        if let Some(plan) = after.plan(self.phase) {
            text += &slim_text::describe_result(&said, &made, &after, plan);
        }
        let put = place.output.place_image(&made, written, &place.reach)?;
        text.extend(["  written: ", &escape::escape_bytes(put.as_bytes()), "\n"]);
        Ok(text)
    }

    /// What is done to the image that was audited, and its plan.
    fn decide<'b>(
        &self,
        before: &'b AuditedImage,
        supplier: Option<&CuptiSupplier>,
    ) -> Result<(&'b Plan, SlimDecision), SlimError> {
        let phase = self.knowledge.phase(self.phase).map_err(SlimError::Cannot)?;
        let Some(plan) = before.plan(self.phase) else {
            return Err(SlimError::Cannot(format!("there is no phase {}", self.phase)));
        };
        let decision = decide_changes(&self.original, &before.facts, phase, plan, supplier, self.dropping)?;
        Ok((plan, decision))
    }

    fn making<'b>(
        &'b self,
        decision: &'b SlimDecision,
        facts: &'b ImageFacts,
        supplier: Option<&'b CuptiSupplier>,
        below: &'b [LayerIndex],
    ) -> SlimInput<'b> {
        SlimInput {
            decision,
            facts,
            supplier,
            below,
            phase: self.phase,
            index: &self.options.index,
            folder: self.folder,
        }
    }

    fn audit(&self) -> AuditedImage {
        let facts = self.original.facts(self.options);
        let phases = [self.phase.to_owned()];
        let environment = &self.options.conditions.environment;
        judge_image(facts, self.knowledge, &phases, environment)
    }

    fn audit_written(
        &self,
        made: &NewImage<'_>,
        written: &WrittenImage,
        name: String,
        making: &SlimInput<'_>,
    ) -> Result<AuditedImage, SlimError> {
        let read = written.read_back(made, name, &self.options.index).map_err(|error| {
            SlimError::Cannot(format!("nothing was written: what was made cannot be read: {error}"))
        })?;
        let conditions = &self.options.conditions;
        let (decision, facts) = (making.decision, making.facts);
        let checked = audit_new_image(made, read, decision, facts, self.knowledge, self.phase, conditions);
        Self::with_advice(checked, making.supplier)
    }

    /// The audit of the image that a run would write.
    fn foretell(&self, making: &SlimInput<'_>) -> Result<AuditedImage, SlimError> {
        self.original.require_own_layers()?;
        let conditions = &self.options.conditions;
        let read = foretell_image(making)?;
        let judged = audit_foretold_image(read, making.facts, self.knowledge, self.phase, conditions);
        Self::with_advice(judged, making.supplier)
    }

    fn with_advice(
        checked: Result<AuditedImage, SlimError>,
        supplier: Option<&CuptiSupplier>,
    ) -> Result<AuditedImage, SlimError> {
        checked.map_err(|error| match (error, supplier) {
            (SlimError::Unfit(why), None) => SlimError::Unfit(format!(
                "{why}; --cupti-from IMAGE|WHEEL|DIR brings CUPTI where it is missing"
            )),
            (error, _) => error,
        })
    }
}
