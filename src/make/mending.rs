//! The one command that makes an image serve a phase which it fails.

use super::dockerfile::image_name::image_name_for_from;
use super::remedy::install_context::RecipeRequest;
use super::remedy::recipe::make_recipe;
use crate::facts::GatherOptions;
use crate::judge::outcome::AuditedImage;
use crate::judge::plan::{Plan, Verdict};
use crate::knowledge::Knowledge;
use crate::shell_quote::quote_shell;

/// The command for the first phase that fails and that a Dockerfile can help, by a recipe that was really made and whose
/// audit passes; none where no phase fails, or where files of another image would be needed.
pub(crate) fn find_mending_command(
    audit: &AuditedImage,
    knowledge: &Knowledge,
    conditions: &GatherOptions,
) -> Option<String> {
    let plan = audit
        .failed_plans()
        .find(|plan| is_mended(audit, plan, knowledge, conditions))?;
    let image = &audit.facts.image;
    // FROM takes the name of an image, which a file or folder has not.
    let base = match image_name_for_from(image) {
        Ok(Some(_)) => "",
        _ => " --base NAME",
    };
    let (name, phase) = (quote_shell(&image.reference), &plan.phase);
    Some(format!(
        "cupti-audit dockerfile {name} --phase {phase}{base} -o Dockerfile"
    ))
}

fn is_mended(audit: &AuditedImage, plan: &Plan, knowledge: &Knowledge, conditions: &GatherOptions) -> bool {
    let Ok(phase) = knowledge.phase(&plan.phase) else {
        return false;
    };
    let recipe = make_recipe(&RecipeRequest {
        target: &audit.facts,
        phase,
        plan,
        knowledge,
        conditions,
        via: &[],
        cuda: None,
        source: None,
        drops: false,
    });
    recipe.is_ok_and(|recipe| recipe.foretold.verdict != Verdict::Fail)
}
