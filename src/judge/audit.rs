//! From the facts of an image to what is said of it: findings, and a plan for each phase.

use crate::judge::facts::{ImageFacts, installed_tools};
use crate::judge::outcome::AuditedImage;
use crate::judge::plan::{self, Plan, PlanInput};
use crate::judge::rule;
use crate::knowledge::Knowledge;

/// Judges an image by what the program knows. `phases` are the names of those that were asked for, which are known;
/// `environment` are the variables over those of the image config. The findings are not sorted yet.
pub fn judge_image(
    facts: ImageFacts,
    knowledge: &Knowledge,
    phases: &[String],
    environment: &[(String, String)],
) -> AuditedImage {
    let subjects = rule::image_subjects(&facts);
    let installed = installed_tools::find_installed_tools(&facts, &knowledge.profilers, environment);
    let tools = plan::profilers::assess_tools(&facts, &installed, &knowledge.profilers);
    let known = PlanInput {
        facts: &facts,
        rules: &knowledge.rules,
        subjects: &subjects,
        profilers: &knowledge.profilers,
        tools: &tools,
    };
    // Every phase has a plan: a report shows what else the image would serve.
    let plans = knowledge.phases.iter();
    let plans: Vec<Plan> = plans.map(|phase| plan::plan_phase(&known, phase)).collect();
    // Findings tell of the phases that were asked for alone; each plan has judged its own.
    let asked = knowledge.phases_named(phases);
    let mut findings = rule::judge_subjects(&knowledge.rules, &subjects, &asked);
    for phase in &asked {
        let plan = plans.iter().find(|plan| plan.phase == phase.name);
        let unmet = plan.map_or(&[][..], |plan| &plan.unmet);
        plan::add_unmet_needs(&known, phase, unmet, &mut findings);
    }
    AuditedImage {
        facts,
        findings,
        phases: phases.to_vec(),
        plans,
        mended_by: None,
    }
}
