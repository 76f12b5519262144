//! `diff`: two images side by side.

use crate::cli::diff::DiffArgs;
use crate::judge::audit::judge_image;
use crate::judge::image_diff::ImageDiff;
use crate::judge::outcome::{AuditedImage, RunExit};
use crate::judge::rule::sort_findings;
use crate::judge::rule::suppression::SuppressionGate;
use crate::report::diff::{diff_json, diff_page};

use super::command_error::CommandError;
use super::image_reader::PreparedCommand;
use super::project_config;
use super::terminal::{set_color_choice, write_answer};

/// Compares two images, and fails where the second has a finding that the first has not.
pub fn run_diff(mut args: DiffArgs) -> Result<RunExit, CommandError> {
    set_color_choice(args.read.output.color);
    let only_one = "two images are compared for one platform; name it with --platform";
    let prepared = PreparedCommand::new(&mut args.read, only_one)?;
    let config = &prepared.config;
    config.fill_phases(&mut args.phase, &prepared.knowledge)?;
    let mut gate = SuppressionGate::new(&config.suppressions, project_config::current_date()?);
    let audit = |image: &str, gate: &mut SuppressionGate<'_>| -> Result<AuditedImage, CommandError> {
        let facts = prepared.read(image)?;
        let environment = &args.read.image.environment;
        let mut audit = judge_image(facts, &prepared.knowledge, &args.phase, environment);
        gate.mark_findings(image, &mut audit.findings);
        sort_findings(&mut audit.findings);
        Ok(audit)
    };
    let (before, after) = (audit(&args.before, &mut gate)?, audit(&args.after, &mut gate)?);
    let diff = ImageDiff::of(&before, &after);
    let fail_on = config.fail_on(args.fail_on);
    let exit = diff.exit(fail_on);
    Ok(write_answer(
        args.format,
        &diff_page(&diff, exit),
        &diff_json(&diff, fail_on),
        exit,
    ))
}
