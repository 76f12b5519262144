//! The fix for an image, attached to its findings: a patch as commands.

use std::cmp::Reverse;

use super::choose::PatchError;
use super::choose::choice::{ChosenPatch, choose_outside_patch, choose_patch, is_misled};
use super::choose::image_system::ImageSystem;
use super::choose::python_target::split_mounted;
use super::choose::request::{DropChoice, PatchContext, PatchForm, PatchRequest};
use super::choose::target_release::release_words;
use super::dockerfile::image_name::image_name_for_from;
use super::patch::drops::paths_of;
use super::patch::{ImagePatch, PatchedLink};
use super::shell::{ShellStyle, shell_steps};
use crate::facts::{CommandFailure, CuptiConsumer, CuptiCopy, GatherOptions, ImageFacts};
use crate::judge::outcome::AuditedImage;
use crate::judge::plan::{Plan, Verdict};
use crate::judge::rule::{Explains, Finding, Severity};
use crate::knowledge::Knowledge;
use crate::make::quote;
use crate::shell_quote::quote_shell;
use image_linkage::path::RootPath;

/// Attaches the fix to the findings. The fix is for the first phase that fails and can be fixed, or else the first
/// uncertain one. One finding is the cause and gets the fix; the others refer to it.
///
/// The printed commands repeat `options`, which describe the image and its start.
pub(crate) fn tell_cure(
    audit: &mut AuditedImage,
    knowledge: &Knowledge,
    conditions: &GatherOptions,
    options: &[(&str, String)],
) {
    let mut image = quote_shell(&audit.facts.image.reference);
    for (option, value) in options {
        image.extend([" ", *option, " ", &quote_shell(value)]);
    }
    let fixing = CureRequest {
        knowledge,
        conditions,
        image: &image,
    };
    if let Some(cure) = find_cure(audit, &fixing) {
        cure.mark_findings(&mut audit.findings, &audit.facts);
        audit.fixed_by = cure.dockerfile;
    }
}

/// What a cure needs besides the audit.
struct CureRequest<'a> {
    knowledge: &'a Knowledge,
    conditions: &'a GatherOptions,
    /// The image and its options, as words of a shell.
    image: &'a str,
}

fn find_cure(audit: &AuditedImage, fixing: &CureRequest<'_>) -> Option<Cure> {
    // What a program would ask for that is not in the image is unknown.
    let is_missing = |failure: &CommandFailure| failure.missing.is_some();
    if !audit.requests_library() || audit.facts.answers.command_failure.as_ref().is_some_and(is_missing) {
        return None;
    }
    let in_doubt = |plan: &&Plan| plan.verdict == Verdict::Warn && plan.lacks_cupti(&audit.facts);
    // A patch that adds nothing only removes files, which fixes no finding about another file. The plan knows which
    // findings fail it: without a requested phase, they may be warnings.
    let may_change = |plan: &&Plan| {
        let removes = |path: &RootPath| {
            plan.drop
                .iter()
                .any(|item| item.path == *path || item.links.contains(path))
        };
        let decisive = audit
            .findings
            .iter()
            .filter(|finding| plan.because.contains(&finding.rule));
        let mut places = decisive.flat_map(|finding| &finding.locations);
        plan.lacks_cupti(&audit.facts)
            || is_misled(&audit.facts, fixing.knowledge, plan)
            || places.any(|place| removes(&place.path))
    };
    let failed = audit.failed_plans().filter(may_change);
    let mut plans = failed.chain(audit.asked_plans().filter(in_doubt));
    plans.find_map(|plan| Cure::for_phase(audit, plan, fixing))
}

/// The effect of a patch on the findings, and its commands.
struct Cure {
    cured: CuredFindings,
    /// The patch in one sentence.
    words: String,
    commands: Vec<String>,
    instructions: Vec<String>,
    /// Whether it creates the links that a finding about a path would suggest.
    makes_links: bool,
    /// The command that writes it as a Dockerfile; `None` unless the resulting image passes.
    dockerfile: Option<String>,
}

impl Cure {
    /// The cure for a failing phase; `None` if there is none.
    fn for_phase(audit: &AuditedImage, plan: &Plan, fixing: &CureRequest<'_>) -> Option<Self> {
        let CureRequest {
            knowledge, conditions, ..
        } = *fixing;
        let request = PatchRequest {
            target: &audit.facts,
            phase: knowledge.phase(&plan.phase).ok()?,
            plan,
            knowledge,
            conditions,
            form: PatchForm::Build,
            via: &[],
            cuda: None,
            source: None,
            drops: DropChoice::OfPhase,
            adds_linked_program: false,
        };
        let context = PatchContext::new(request).ok()?;
        if let Ok(chosen) = choose_patch(&context) {
            return Self::by_build(audit, plan, &chosen, &context.system, fixing);
        }
        // `slim` writes a layer, so no program of the image is needed.
        let of_layer = PatchRequest {
            form: PatchForm::Layer,
            drops: DropChoice::Nothing,
            ..request
        };
        Self::from_outside(audit, plan, &choose_outside_patch(of_layer).ok()?, fixing)
    }

    /// The cure by a build; `None` if it would fix nothing.
    fn by_build(
        audit: &AuditedImage,
        plan: &Plan,
        chosen: &ChosenPatch,
        system: &ImageSystem,
        fixing: &CureRequest<'_>,
    ) -> Option<Self> {
        let (patch, predicted) = (&chosen.patch, &chosen.predicted);
        let cured = CuredFindings::of_patch(audit, plan, chosen);
        let passes = predicted.verdict != Verdict::Fail;
        if cured.gone.is_empty() && !passes {
            return None;
        }
        let (commands, mut instructions) = split_mounted(commands(system, patch).ok()?);
        let library_path = patch.library_path.iter();
        instructions.extend(library_path.map(|path| format!("ENV LD_LIBRARY_PATH={}", quote::quote_env(&path.value))));
        let is_opened = |link: &PatchedLink| {
            // Beside a package's library, a link has the name that a program opens.
            let is_bare = |name: &[u8]| patch.package.is_some() && name == link.at.name();
            let mut names = audit
                .facts
                .answers
                .consumers
                .iter()
                .map(|consumer| &consumer.requested_name);
            names.any(|name| **name == *link.at.absolute() || is_bare(name))
        };
        let how = if commands.is_empty() && instructions.is_empty() {
            "; cupti-audit dockerfile writes how"
        } else {
            ""
        };
        Some(Self {
            cured,
            words: words(patch) + how,
            commands,
            instructions,
            makes_links: patch.links.iter().any(is_opened),
            dockerfile: (passes && plan.verdict == Verdict::Fail)
                .then(|| dockerfile_command(audit, plan, fixing.image)),
        })
    }

    /// The cure by `slim`, if no build makes the image pass.
    fn from_outside(audit: &AuditedImage, plan: &Plan, chosen: &ChosenPatch, fixing: &CureRequest<'_>) -> Option<Self> {
        let (release, wheel) = release_words(&audit.facts)?;
        let (from, get) = match wheel {
            Some(wheel) => ("WHEEL", format!("pip download --no-deps {wheel} gets it, and ")),
            None => ("OTHER", String::new()),
        };
        let (phase, image) = (&plan.phase, fixing.image);
        let slim = format!("cupti-audit slim {image} --phase {phase} --cupti-from {from} -o oci:OUT writes the image");
        Some(Self {
            cured: CuredFindings::of_patch(audit, plan, chosen),
            words: format!("add {release} from outside the image: {get}{slim}"),
            commands: Vec::new(),
            instructions: Vec::new(),
            makes_links: false,
            dockerfile: None,
        })
    }

    /// Writes the fix to the finding that is the cause, and a reference to it to the other cured findings.
    fn mark_findings(&self, findings: &mut [Finding], facts: &ImageFacts) {
        let of_cured = || {
            let numbers = self.cured.gone.iter().chain(&self.cured.lowered);
            numbers.filter_map(|number| Some((*number, findings.get(*number)?)))
        };
        let nearness = |finding: &Finding| (distance(finding, facts), Reverse(finding.severity));
        let Some((cause, rule)) = of_cured()
            .min_by_key(|(_, finding)| nearness(finding))
            .map(|(number, finding)| (number, finding.rule.clone()))
        else {
            return;
        };
        // A cause is at least as severe as its consequences.
        let worst = of_cured().map(|(_, finding)| finding.severity).max();
        for (number, finding) in findings.iter_mut().enumerate() {
            if number == cause {
                finding.severity = worst.unwrap_or(finding.severity);
                // Keep a fix that makes an existing file readable, because no second copy is needed.
                if finding.commands.is_empty() || self.makes_links || self.cured.repaired.contains(&number) {
                    finding.fix.clone_from(&self.words);
                    finding.commands.clone_from(&self.commands);
                    finding.instructions.clone_from(&self.instructions);
                }
            } else if self.cured.gone.contains(&number) {
                finding.fix = format!("the fix of {rule} also fixes this");
                finding.commands.clear();
                finding.follows = Some(rule.clone());
            }
        }
    }
}

/// The effect of a patch on findings, by their numbers.
struct CuredFindings {
    /// Findings that the predicted audit no longer has.
    gone: Vec<usize>,
    /// Findings with a lower severity in the predicted audit.
    lowered: Vec<usize>,
    /// Findings about the package that the patch installs. The predicted audit lacks the package's other files.
    repaired: Vec<usize>,
}

impl CuredFindings {
    fn of_patch(audit: &AuditedImage, plan: &Plan, chosen: &ChosenPatch) -> Self {
        // Severities of different phases cannot be compared.
        let is_same_phase = audit.phases == [plan.phase.as_str()];
        let (mut gone, mut lowered, mut repaired) = (Vec::new(), Vec::new(), Vec::new());
        for (number, finding) in audit.findings.iter().enumerate() {
            if finding.suppressed.is_some() || finding.severity < Severity::Warning || !chosen.patch.brings_library() {
                continue;
            }
            // No predicted audit asks about tools, so it does not show whether one would work.
            if finding.explains == Some(Explains::Tool) {
                continue;
            }
            // The commands remove no dead weight.
            let is_dropped = |path: &RootPath| {
                chosen
                    .patch
                    .drops
                    .iter()
                    .any(|item| paths_of(item).any(|it| it == path))
            };
            let mut places = finding.locations.iter().peekable();
            if places.peek().is_some() && places.all(|place| is_dropped(&place.path)) {
                continue;
            }
            let repair = finding.repair.as_ref().zip(chosen.patch.package.as_ref());
            if repair.is_some_and(|(repair, package)| package.repairs(repair)) {
                gone.push(number);
                repaired.push(number);
                continue;
            }
            let is_there = |other: &&Finding| {
                let mut places = finding.locations.iter();
                other.rule == finding.rule
                    && (finding.locations.is_empty() || places.any(|place| other.locations.contains(place)))
            };
            let left = chosen.predicted.findings.iter().filter(is_there);
            match left.map(|other| other.severity).max() {
                None => gone.push(number),
                Some(severity) if is_same_phase && severity < finding.severity => lowered.push(number),
                Some(_) => {}
            }
        }
        Self {
            gone,
            lowered,
            repaired,
        }
    }
}

/// The patch as commands. Empty if it copies files from another image, or the image has no shell.
///
/// Errors: A name in the image that neither a command nor a Dockerfile can contain.
fn commands(system: &ImageSystem, patch: &ImagePatch) -> Result<Vec<String>, PatchError> {
    let commands = shell_steps(patch, system, ShellStyle::Console)?.into_commands();
    let is_possible = system.shell && patch.source.is_none();
    Ok(if is_possible { commands } else { Vec::new() })
}

/// What the patch does; for an installation, why it is this release.
fn words(patch: &ImagePatch) -> String {
    if patch.package.is_none() && patch.source.is_none() {
        return patch.title.clone();
    }
    let because = match &patch.release {
        Some(release) => release.because.as_str(),
        None => "nothing in the image asks for another release",
    };
    format!("{}: {because}", patch.title)
}

/// The distance of a finding from the root cause. Nearest first: a bad file, an unknown name, the location of a file, a
/// program without the library, a missing item.
fn distance(finding: &Finding, facts: &ImageFacts) -> u8 {
    match finding.explains {
        _ if finding.first_cause => 0,
        Some(Explains::Program) if requests_unknown_name(finding, facts) => 1,
        Some(Explains::Copy) => 2,
        Some(Explains::Program | Explains::Start) => 3,
        _ => 4,
    }
}

/// Whether the program of a finding requests a name that no copy has. A copy has its soname, for which `ldconfig`
/// creates a link, and the names of links beside it.
fn requests_unknown_name(finding: &Finding, facts: &ImageFacts) -> bool {
    let rootfs = &facts.contexts.as_is.rootfs;
    let is_there = |name: &[u8]| {
        let beside = |copy: &CuptiCopy| copy.real_path.parent().join(name).absolute();
        let mut copies = facts.answers.copies.iter();
        copies.any(|copy| copy.soname.as_deref() == Some(name) || rootfs.lookup(&beside(copy)).is_ok())
    };
    let is_named = |consumer: &&CuptiConsumer| finding.locations.iter().any(|place| place.path == consumer.object);
    let mut named = facts.answers.consumers.iter().filter(is_named);
    named.any(|consumer| !is_there(RootPath::new(&consumer.requested_name).name()))
}

/// The command that writes the patch as a Dockerfile.
fn dockerfile_command(audit: &AuditedImage, plan: &Plan, image: &str) -> String {
    // FROM needs an image name, which a file or folder does not have.
    let base = match image_name_for_from(&audit.facts.image) {
        Ok(Some(_)) => "",
        _ => " --base NAME",
    };
    let phase = &plan.phase;
    format!("cupti-audit dockerfile {image} --phase {phase}{base} -o Dockerfile")
}
