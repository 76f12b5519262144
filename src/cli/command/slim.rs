//! `slim`: makes an image that serves a phase, or one without dead weight.

use crate::cli::slim::SlimArgs;
use crate::judge::audit::judge_image;
use crate::judge::image_reading::ReadOptions;
use crate::judge::outcome::RunExit;
use crate::make::slim::added_layer::SlimInput;
use crate::make::slim::build_image::build_new_image;
use crate::make::slim::decision::{DropMode, decide_changes};
use crate::make::slim::final_audit::{audit_foretold_image, audit_new_image};
use crate::make::slim::original_image::OriginalImage;
use crate::make::slim::output::{ImageOutput, OutputAccess};
use crate::make::slim::slim_text;
use crate::make::slim::supplier::CuptiSupplier;
use crate::make::slim::{SlimError, interrupt};
use crate::make::whole_file::ExistingOutput;
use image_linkage::escape;
use image_store::UnfinishedFolder;

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
    let phase = knowledge.phase(&args.phase).map_err(SlimError::Cannot)?;
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
    // Looked at only now, when no bar can stand between the lines of the error.
    let original = original?;
    let supplier = args.cupti_from.as_ref();
    let supplier = supplier.map(|from| CuptiSupplier::read(from, &options, folder.path()));
    reader.bars.clear();
    let supplier = supplier.transpose()?;
    let phases = std::slice::from_ref(&args.phase);
    let before = judge_image(
        original.facts(&options),
        knowledge,
        phases,
        &options.conditions.environment,
    );
    let plan = before.plan(&args.phase);
    let plan = plan.ok_or_else(|| SlimError::Cannot(format!("there is no phase {}", args.phase)))?;
    let dropping = if args.drop { DropMode::Drop } else { DropMode::Keep };
    let decision = decide_changes(&original, &before.facts, phase, plan, supplier.as_ref(), dropping)?;
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
        let said = said + &place.make_image(&making)?;
        reader.bars.clear();
        return Ok(said);
    }
    if let Err(why) = audit_foretold_image(&making) {
        // What would be done is told all the same, and why it is not.
        write_result(&said, RunExit::Clean);
        return Err(why);
    }
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

    /// Makes the new image and puts it there, and gives what it comes to.
    fn make_image(&self, making: &SlimInput<'_>) -> Result<String, SlimError> {
        let form = self.output.image_form(making.original.documents.manifest.as_deref());
        let made = build_new_image(making, form)?;
        let written = self.output.write_image(&made, making.folder)?;
        let read = written.read_back(&made, self.output.to_string(), &making.options.index);
        let read = read.map_err(|error| {
            SlimError::Cannot(format!("nothing was written: what was made cannot be read: {error}"))
        })?;
        // Nothing is put in place that was not audited from the bytes that were written.
        let after = audit_new_image(making, &made, read)?;
        let mut text = String::new();
        if let Some(plan) = after.plan(&making.plan.phase) {
            text += &slim_text::describe_result(making, &made, &after, plan);
        }
        let put = self.output.place_image(&made, written, &self.reach)?;
        text.extend(["  written: ", &escape::escape_bytes(put.as_bytes()), "\n"]);
        Ok(text)
    }
}
