//! Do `audit`, `profilers` and `dockerfile` agree about every fixture image and phase?

use image_linkage::limits::Limits;
use image_linkage::loader::CpuLevel;
use image_source::Platform;
use image_source::registry::RegistryOptions;
use testkit::spec::Sources;

use super::choose::PatchError;
use super::choose::choice::choose_patch;
use super::choose::request::{DropChoice, PatchContext, PatchForm, PatchRequest};
use crate::facts::{CuptiConsumer, GatherOptions, ImageFacts, StartOverrides};
use crate::judge::audit::judge_image;
use crate::judge::image_reading::{ReadOptions, read_image};
use crate::judge::plan::profilers::installed_tools::find_installed_tools;
use crate::judge::plan::profilers::{ReadinessState, assess_tools};
use crate::judge::plan::{DemandLevel, Plan, Verdict};
use crate::knowledge::file_interest::cupti_options;
use crate::knowledge::{CuptiNeed, Knowledge, Phase};

#[test]
fn every_command_says_the_same_of_every_fixture_in_every_phase() {
    let known = Knowledge::built_in();
    let mut differ = Vec::new();
    for (name, fixture) in Sources::of_repository().unwrap().fixtures() {
        let reference = format!("oci:{}/testdata/images/{name}", env!("CARGO_MANIFEST_DIR"));
        let platform = Platform::parse(&fixture.platform).unwrap();
        let options = ReadOptions {
            platform: Some(&platform),
            registry: RegistryOptions::default(),
            knowledge: &known,
            conditions: conditions(),
            index: cupti_options(),
            progress: &(),
            cache: None,
        };
        let phases: Vec<String> = known.phases.iter().map(|phase| phase.name.clone()).collect();
        let audit = judge_image(read_image(&reference, &options).unwrap(), &known, &phases, &[]);
        for phase in &known.phases {
            let plan = audit.plan(&phase.name).unwrap();
            let mut expect = |agrees: bool, what: &str| {
                if !agrees {
                    differ.push(format!("{name} for {}: {what}", phase.name));
                }
            };
            let is_lacking = plan.unmet.iter().any(|demand| demand.level == DemandLevel::Needs);
            expect(
                !is_lacking || plan.verdict == Verdict::Fail,
                "an unmet need does not fail",
            );
            expect(
                plan.unmet.is_empty() || plan.verdict != Verdict::Pass,
                "an unmet wish passes",
            );
            expect(
                !says_absent(plan) || !a_tool_is_ready(&audit.facts, &known, phase),
                "only CUPTI is missing, and a tool of the phase is ready",
            );
            for tool in ready_tools_without_cupti(&audit.facts, &known, phase, plan) {
                expect(false, &format!("{tool} is ready, and CUPTI is missing for it"));
            }
            expect(
                dockerfile_agrees(&audit.facts, &known, phase, plan),
                "the Dockerfile disagrees",
            );
        }
    }
    assert_eq!(differ, [""; 0]);
}

/// An unserved tool would be an audit error, and no Dockerfile would install CUPTI for it.
#[test]
fn profiling_serves_every_tool_that_takes_cupti_from_the_image() {
    let known = Knowledge::built_in();
    let served = &known.phase("profiling").unwrap().serves;
    let tools = known.profilers.iter();
    let in_image = tools.filter(|tool| tool.profile.cupti == CuptiNeed::InImage);
    let ids = in_image.map(|tool| &*tool.id);
    let forgotten: Vec<&str> = ids.filter(|id| !served.iter().any(|own| own == id)).collect();
    assert_eq!(forgotten, [""; 0]);
}

fn conditions() -> GatherOptions {
    GatherOptions {
        environment: Vec::new(),
        cpu: CpuLevel::V3,
        limits: Limits::default(),
        start: StartOverrides::default(),
    }
}

/// Whether the phase only fails or warns because the image lacks CUPTI.
fn says_absent(plan: &Plan) -> bool {
    plan.because == ["cupti-absent"] && plan.unmet.is_empty()
}

/// Whether a tool that the phase serves is ready, and its program has CUPTI.
fn a_tool_is_ready(facts: &ImageFacts, known: &Knowledge, phase: &Phase) -> bool {
    let installed = find_installed_tools(facts, &known.profilers, &[]);
    assess_tools(facts, &installed, &known.profilers).iter().any(|tool| {
        let has_program = tool.profiler.profile.consumer.is_some() && phase.serves.contains(&tool.profiler.id);
        has_program && tool.here.as_is.state == ReadinessState::Ready
    })
}

/// The ready tools of the phase whose program lacks CUPTI in each of its copies.
fn ready_tools_without_cupti(facts: &ImageFacts, known: &Knowledge, phase: &Phase, plan: &Plan) -> Vec<String> {
    let installed = find_installed_tools(facts, &known.profilers, &[]);
    let mut ready = assess_tools(facts, &installed, &known.profilers);
    ready.retain(|tool| {
        let is_ready = tool.here.as_is.state == ReadinessState::Ready && phase.serves.contains(&tool.profiler.id);
        let is_own = |consumer: &CuptiConsumer| consumer.profile == tool.profiler.profile.consumer;
        let mut unmet = plan.unmet.iter().filter(|demand| demand.level == DemandLevel::Needs);
        let is_lacking = unmet.any(|demand| {
            demand
                .consumer
                .is_some_and(|number| is_own(&facts.answers.consumers[number]))
        });
        let has_cupti = |it: &CuptiConsumer| is_own(it) && !it.misses_library() && it.unreachable().is_none();
        is_ready && is_lacking && !facts.answers.consumers.iter().any(has_cupti)
    });
    ready.into_iter().map(|tool| tool.profiler.id.clone()).collect()
}

/// A Dockerfile makes no image worse, reports what it leaves, and is refused only if CUPTI is there.
fn dockerfile_agrees(facts: &ImageFacts, known: &Knowledge, phase: &Phase, plan: &Plan) -> bool {
    let lacks = plan.lacks_cupti(facts);
    let conditions = conditions();
    let request = PatchRequest {
        target: facts,
        phase,
        plan,
        knowledge: known,
        conditions: &conditions,
        form: PatchForm::Build,
        via: &[],
        cuda: None,
        source: None,
        drops: DropChoice::OfPhase,
        adds_linked_program: false,
    };
    match PatchContext::new(request).and_then(|context| choose_patch(&context)) {
        Ok(chosen) => {
            let serves = chosen.predicted.verdict != Verdict::Fail || plan.verdict == Verdict::Fail;
            let says = !chosen.predicted.because.is_empty() || chosen.patch.library_path.is_some();
            serves && (says || lacks || plan.verdict != Verdict::Warn)
        }
        Err(PatchError::Musl { .. } | PatchError::NoLoader { .. }) => true,
        Err(_) => lacks,
    }
}
