//! Judges the facts of an image: findings, and a plan for each phase.

use crate::facts::object_links::survey_objects;
use crate::facts::{CuptiConsumer, Gap, ImageFacts, loader_gaps, user_gap};
use crate::judge::links::find_links;
use crate::judge::outcome::{AskedGpu, AskedTool, AuditedImage, FailOn};
use crate::judge::plan::profilers::installed_tools;
use crate::judge::plan::profilers::{ReadinessState, ToolAssessment};
use crate::judge::plan::{self, Plan, PlanInput};
use crate::judge::rule::{self, Finding, Hit, Severity, Shown};
use crate::knowledge::gpu::GpuCapability;
use crate::knowledge::{CuptiNeed, Knowledge, ProfilerFile};
use std::collections::BTreeSet;

/// Judges an image. `phases` are the names of the requested phases, all known. `environment` overrides variables of the
/// image config. The findings are not sorted yet.
pub fn judge_image(
    facts: ImageFacts,
    knowledge: &Knowledge,
    phases: &[String],
    environment: &[(String, String)],
) -> AuditedImage {
    let hits = rule::find_hits(&facts);
    let installed = installed_tools::find_installed_tools(&facts, &knowledge.profilers, environment);
    let tools = plan::profilers::assess_tools(&facts, &installed, &knowledge.profilers);
    let known = PlanInput {
        facts: &facts,
        rules: &knowledge.rules,
        hits: &hits,
        profilers: &knowledge.profilers,
        tools: &tools,
    };
    // Every phase gets a plan, because a report shows which other phases the image would serve.
    let judged = knowledge.phases.iter();
    let plans: Vec<Plan> = judged.map(|phase| plan::plan_phase(&known, phase)).collect();
    // The findings cover only the requested phases; each plan has judged its own phase.
    let asked = knowledge.phases_named(phases);
    let mut findings = rule::judge_hits(&knowledge.rules, &hits, &asked);
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
        fixed_by: None,
        tools: Vec::new(),
        gpus: Vec::new(),
        links: None,
        is_strict: false,
        fail_on: FailOn::default(),
    }
}

/// Also checks whether the tools with these ids would work. A tool that would not becomes a finding; a tool whose state
/// the image does not show becomes a gap.
pub fn ask_tools(audit: &mut AuditedImage, knowledge: &Knowledge, ids: &[String], environment: &[(String, String)]) {
    let facts = &audit.facts;
    let installed = installed_tools::find_installed_tools(facts, &knowledge.profilers, environment);
    let known = plan::profilers::assess_tools(facts, &installed, &knowledge.profilers);
    let asked: Vec<&ToolAssessment<'_>> = ids
        .iter()
        .filter_map(|id| known.iter().find(|entry| entry.profiler.id == *id))
        .collect();
    let tools: Vec<AskedTool> = asked
        .iter()
        .map(|entry| AskedTool {
            id: entry.profiler.id.clone(),
            name: entry.profiler.profile.name.clone(),
            readiness: entry.here.as_is.clone(),
            uses_library: entry.profiler.profile.cupti == CuptiNeed::InImage
                && entry.here.as_is.state != ReadinessState::NotApplicable,
        })
        .collect();
    let is_lost = |entry: &&&ToolAssessment<'_>| {
        matches!(
            entry.here.as_is.state,
            ReadinessState::NotReady | ReadinessState::NotApplicable
        )
    };
    let lost = || asked.iter().filter(is_lost);
    let mut hits: Vec<Hit> = lost().map(|entry| not_ready(entry)).collect();
    hits.extend(find_rivals(facts, &known, ids));
    let programs: BTreeSet<&str> = lost()
        .filter_map(|entry| entry.profiler.profile.consumer.as_deref())
        .collect();
    raise_causes(&mut audit.findings, facts, &programs);
    let open = tools
        .iter()
        .filter(|tool| tool.readiness.state == ReadinessState::Unknown);
    audit.facts.gaps.extend(open.map(|tool| Gap {
        what: format!("whether {} works", tool.name),
        why: tool.readiness.because.join("; "),
    }));
    audit.tools = tools;
    if !audit.requests_library() {
        spare_unused_library(audit, knowledge);
    }
    let phases = knowledge.phases_named(&audit.phases);
    audit
        .findings
        .extend(rule::judge_hits(&knowledge.rules, &hits, &phases));
}

/// A requested tool that would not work, with the reasons.
fn not_ready(tool: &ToolAssessment<'_>) -> Hit {
    Hit::new("tool-not-ready")
        .value("tool", Shown::known(tool.profiler.profile.name.clone()))
        .value("why", Shown::known(tool.here.as_is.because.join("; ")))
}

/// Makes errors of the warnings about these programs that do not get the library: the user asked for their tools.
fn raise_causes(findings: &mut [Finding], facts: &ImageFacts, programs: &BTreeSet<&str>) {
    let is_lost = |consumer: &&CuptiConsumer| {
        let program = consumer.profile.as_deref();
        consumer.misses_library() && program.is_some_and(|program| programs.contains(program))
    };
    for finding in findings
        .iter_mut()
        .filter(|finding| finding.severity == Severity::Warning)
    {
        let mut lost = facts.answers.consumers.iter().filter(is_lost);
        if lost.any(|consumer| finding.locations.iter().any(|place| place.path == consumer.object)) {
            finding.severity = Severity::Error;
        }
    }
}

/// Judges the library as for inference: none of the requested tools uses the image's copy.
fn spare_unused_library(audit: &mut AuditedImage, knowledge: &Knowledge) {
    let inference = knowledge.phases_named(&["inference".to_owned()]);
    let hits = rule::find_hits(&audit.facts);
    let mut spared = rule::judge_hits(&knowledge.rules, &hits, &inference);
    // Without a phase, a report does not list what a phase has no use for.
    spared.retain(|finding| audit.findings.iter().any(|other| other.rule == finding.rule));
    audit.findings = spared;
}

/// Also checks whether the CUPTI releases support these GPUs and those of a running container, and whether the objects
/// have code for them. Unknown GPUs are skipped.
pub fn ask_gpus(audit: &mut AuditedImage, knowledge: &Knowledge, names: &[String]) {
    let gpus = &knowledge.tables.gpus;
    let asked = names.iter().filter_map(|name| Some((name, gpus.find(name).ok()?)));
    let models = audit.facts.host.iter().flat_map(|host| &host.models);
    let here = models.filter_map(|model| Some((model, gpus.of_model(model)?)));
    let known: Vec<(&String, &GpuCapability)> = asked.chain(here).collect();
    let mut hits: Vec<Hit> = Vec::new();
    for (name, gpu) in &known {
        hits.extend(rule::find_gpu(&audit.facts, name, gpu));
    }
    for (name, gpu) in &known {
        let Some(architecture) = gpu.machine_architecture() else {
            continue;
        };
        // A host may have several models of one architecture.
        if !audit.gpus.iter().any(|other| other.architecture == architecture) {
            hits.extend(rule::find_gpu_code(&audit.facts, name, gpu));
            let name = (*name).clone();
            audit.gpus.push(AskedGpu { name, architecture });
        }
    }
    let architectures: Vec<_> = audit.gpus.iter().map(|gpu| gpu.architecture).collect();
    let gaps = rule::gpu_code_gaps(&audit.facts, &architectures);
    audit.facts.gaps.extend(gaps);
    let phases = knowledge.phases_named(&audit.phases);
    let found = rule::judge_hits(&knowledge.rules, &hits, &phases);
    audit.findings.extend(found);
}

/// The requested tools that are ready but cannot record the same process at once.
fn find_rivals(facts: &ImageFacts, known: &[ToolAssessment<'_>], ids: &[String]) -> Vec<Hit> {
    let ready: Vec<&ProfilerFile> = known
        .iter()
        .filter(|entry| ids.contains(&entry.profiler.id) && entry.here.as_is.state == ReadinessState::Ready)
        .map(|entry| &entry.profiler.profile)
        .collect();
    let excluding = facts.tables.host.iter().filter(|condition| condition.excludes);
    let rivals = excluding.filter_map(|condition| {
        let mut rivals = ready.clone();
        rivals.retain(|tool| tool.host.contains(&condition.id));
        // Tools that request CUPTI through one program share its subscriber.
        let programs: BTreeSet<_> = rivals
            .iter()
            .map(|tool| tool.consumer.as_ref().unwrap_or(&tool.name))
            .collect();
        let names: Vec<&str> = rivals.iter().map(|tool| &*tool.name).collect();
        (programs.len() > 1)
            .then(|| Hit::new("tools-exclude-each-other").value("tools", Shown::known(names.join("; "))))
    });
    rivals.collect()
}

/// Judges what the objects of an image lack: those at or below the `chosen` paths, or all. It ignores what the image is
/// for. The findings are not sorted yet.
///
/// Errors: A message about a path without an object.
pub fn judge_links(mut facts: ImageFacts, knowledge: &Knowledge, chosen: &[String]) -> Result<AuditedImage, String> {
    let links = survey_objects(&facts, chosen)?;
    let findings = rule::judge_hits(&knowledge.rules, &find_links(&links), &[]);
    // The audit's gaps about the library do not matter here, so the list is rebuilt.
    let unread = facts.layers.unread.iter().map(|layer| Gap {
        what: layer.clone(),
        why: "it was not read".to_owned(),
    });
    let mut gaps: Vec<Gap> = unread
        .chain(loader_gaps(&facts.contexts, &facts.layers.oddities))
        .chain(user_gap(&facts.contexts))
        .chain(links.gaps.iter().cloned())
        .collect();
    gaps.sort();
    gaps.dedup();
    facts.gaps = gaps;
    facts.answers.assumptions.clear();
    Ok(AuditedImage {
        facts,
        findings,
        phases: Vec::new(),
        plans: Vec::new(),
        fixed_by: None,
        tools: Vec::new(),
        gpus: Vec::new(),
        links: Some(links),
        is_strict: false,
        fail_on: FailOn::default(),
    })
}
