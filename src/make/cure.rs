//! The fix for an image, attached to its findings: the `dockerfile` recipe as commands.

use std::cmp::Reverse;

use super::dockerfile::image_name::image_name_for_from;
use super::dockerfile::{DockerfileTemplates, PhasePage, TemplateError, fill_page};
use super::remedy::copy_plan::CreatedLink;
use super::remedy::install_context::RecipeRequest;
use super::remedy::install_method::InstallMethod;
use super::remedy::phase_recipe::PhaseRecipe;
use super::remedy::python_target::split_mounted;
use super::remedy::recipe::{is_misled, make_outside_recipe, make_recipe};
use super::remedy::target_release::release_words;
use crate::facts::{CommandFailure, CuptiConsumer, CuptiCopy, GatherOptions, ImageFacts};
use crate::judge::outcome::AuditedImage;
use crate::judge::plan::{Plan, Verdict};
use crate::judge::rule::{Finding, Severity, SubjectKind};
use crate::knowledge::Knowledge;
use crate::make::quote;
use crate::shell_quote::quote_shell;
use image_linkage::escape::escape_bytes;
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
    let image = quote_shell(&audit.facts.image.reference);
    let image = options.iter().fold(image, |words, (option, value)| {
        format!("{words} {option} {}", quote_shell(value))
    });
    let fixing = CureRequest {
        knowledge,
        conditions,
        image: &image,
    };
    if let Some(cure) = find_cure(audit, &fixing) {
        cure.mark_findings(&mut audit.findings, &audit.facts, knowledge);
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
    if !audit.asks_for_library() || audit.facts.command_failure.as_ref().is_some_and(is_missing) {
        return None;
    }
    let in_doubt = |plan: &&Plan| plan.verdict == Verdict::Warn && plan.lacks_cupti(&audit.facts);
    // A recipe that adds nothing only removes files, which fixes no finding about another file. The plan knows which
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

/// The effect of a recipe on the findings, and its commands.
struct Cure {
    cured: CuredFindings,
    /// The recipe in one sentence.
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
        let request = RecipeRequest {
            target: &audit.facts,
            phase: knowledge.phase(&plan.phase).ok()?,
            plan,
            knowledge,
            conditions,
            via: &[],
            cuda: None,
            source: None,
            drops: false,
            adds_linked_program: false,
        };
        match make_recipe(&request) {
            Ok(recipe) => Self::by_build(audit, plan, recipe, fixing),
            Err(_) => Self::from_outside(audit, plan, &make_outside_recipe(&request).ok()?, fixing),
        }
    }

    /// The cure by a build; `None` if it would fix nothing.
    fn by_build(audit: &AuditedImage, plan: &Plan, recipe: PhaseRecipe, fixing: &CureRequest<'_>) -> Option<Self> {
        let cured = CuredFindings::of_recipe(audit, plan, &recipe, fixing.knowledge);
        let passes = recipe.predicted.verdict != Verdict::Fail;
        if cured.gone.is_empty() && !passes {
            return None;
        }
        let makes_links = !recipe.path_links.is_empty();
        // No command uses the name for FROM.
        let page = fill_page(&audit.facts, plan, recipe, "", None).ok()?;
        let (commands, mut instructions) = split_mounted(commands(&page).ok()?);
        let library_path = page.recipe.library_path.iter();
        instructions.extend(library_path.map(|path| format!("ENV LD_LIBRARY_PATH={}", quote::quote_env(&path.value))));
        let how = if commands.is_empty() && instructions.is_empty() {
            "; cupti-audit dockerfile writes how"
        } else {
            ""
        };
        Some(Self {
            cured,
            words: words(&page) + how,
            commands,
            instructions,
            makes_links,
            dockerfile: (passes && plan.verdict == Verdict::Fail)
                .then(|| dockerfile_command(audit, plan, fixing.image)),
        })
    }

    /// The cure by `slim`, if no build makes the image pass.
    fn from_outside(audit: &AuditedImage, plan: &Plan, recipe: &PhaseRecipe, fixing: &CureRequest<'_>) -> Option<Self> {
        let (release, wheel) = release_words(&audit.facts)?;
        let (from, get) = match wheel {
            Some(wheel) => ("WHEEL", format!("pip download --no-deps {wheel} gets it, and ")),
            None => ("OTHER", String::new()),
        };
        let (phase, image) = (&plan.phase, fixing.image);
        let slim = format!("cupti-audit slim {image} --phase {phase} --cupti-from {from} -o oci:OUT writes the image");
        Some(Self {
            cured: CuredFindings::of_recipe(audit, plan, recipe, fixing.knowledge),
            words: format!("add {release} from outside the image: {get}{slim}"),
            commands: Vec::new(),
            instructions: Vec::new(),
            makes_links: false,
            dockerfile: None,
        })
    }

    /// Writes the fix to the finding that is the cause, and a reference to it to the other cured findings.
    fn mark_findings(&self, findings: &mut [Finding], facts: &ImageFacts, knowledge: &Knowledge) {
        let of_cured = || {
            let numbers = self.cured.gone.iter().chain(&self.cured.lowered);
            numbers.filter_map(|number| Some((*number, findings.get(*number)?)))
        };
        let nearness = |finding: &Finding| (distance(finding, facts, knowledge), Reverse(finding.severity));
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

/// The effect of a recipe on findings, by their numbers.
struct CuredFindings {
    /// Findings that the predicted audit no longer has.
    gone: Vec<usize>,
    /// Findings with a lower severity in the predicted audit.
    lowered: Vec<usize>,
    /// Findings about the package that the recipe installs. The predicted audit lacks the package's other files.
    repaired: Vec<usize>,
}

impl CuredFindings {
    fn of_recipe(audit: &AuditedImage, plan: &Plan, recipe: &PhaseRecipe, knowledge: &Knowledge) -> Self {
        // Severities of different phases cannot be compared.
        let is_same_phase = audit.phases == [plan.phase.as_str()];
        let (mut gone, mut lowered, mut repaired) = (Vec::new(), Vec::new(), Vec::new());
        for (number, finding) in audit.findings.iter().enumerate() {
            if finding.suppressed.is_some() || finding.severity < Severity::Warning || !recipe.brings_library() {
                continue;
            }
            let repair = finding.repair.as_ref().zip(recipe.way.as_ref());
            if repair.is_some_and(|(repair, way)| way.repairs(repair)) {
                gone.push(number);
                repaired.push(number);
                continue;
            }
            let is_there = |other: &&Finding| {
                let mut places = finding.locations.iter();
                other.rule == finding.rule
                    && (finding.locations.is_empty() || places.any(|place| other.locations.contains(place)))
            };
            let left = recipe.predicted.findings.iter().filter(is_there);
            match left.map(|other| other.severity).max() {
                None => gone.push(number),
                Some(severity) if is_same_phase && severity < finding.severity => lowered.push(number),
                Some(_) => {}
            }
        }
        // No predicted audit asks about tools. A tool is only ready if what it lacks comes.
        let is_tool = |number: &usize| {
            let rule = audit
                .findings
                .get(*number)
                .and_then(|finding| knowledge.rule(&finding.rule));
            rule.is_some_and(|rule| rule.kind == SubjectKind::Tool)
        };
        if gone.iter().all(is_tool) {
            gone.clear();
        }
        Self {
            gone,
            lowered,
            repaired,
        }
    }
}

/// The recipe as commands. Empty if it copies files from another image, or the image has no shell.
///
/// Errors: A name in the image that neither a command nor a Dockerfile can contain.
fn commands(page: &PhasePage<'_>) -> Result<Vec<String>, TemplateError> {
    let text = DockerfileTemplates::new()?.render("fix.j2", page)?;
    if !page.recipe.system.shell || matches!(page.recipe.way, Some(InstallMethod::Copy { .. })) {
        return Ok(Vec::new());
    }
    let lines = text.lines().filter(|line| !line.is_empty());
    Ok(lines.map(str::to_owned).collect())
}

/// The installed library and the reason, in a sentence.
fn words(page: &PhasePage<'_>) -> String {
    let recipe = &page.recipe;
    let because = recipe.release.as_ref().map(|release| release.because.as_str());
    let because = because.unwrap_or("nothing in the image asks for another release");
    match &recipe.way {
        None if !recipe.rights.is_empty() => {
            let paths: Vec<String> = recipe.rights.iter().map(|right| right.path.to_string()).collect();
            format!("let the image's user access {}", paths.join(" and "))
        }
        None if recipe.only_clears() => {
            let paths: Vec<String> = recipe.clears.iter().map(ToString::to_string).collect();
            format!(
                "remove {}, so that programs find the library of the right release",
                paths.join(" and ")
            )
        }
        None => path_words(page),
        Some(InstallMethod::Pip(pip)) => format!("install {} {}: {because}", pip.name, pip.version),
        Some(InstallMethod::Package(package)) => format!("install {}: {because}", package.name),
        Some(InstallMethod::Conda(conda)) => format!("install {}: {because}", conda.packages.join(" and ")),
        Some(InstallMethod::Copy { from, .. }) => format!("copy {} from {from}: {because}", page.soname),
        Some(InstallMethod::Place(plan)) => {
            let file = plan.files.first().map(|file| file.from.to_string()).unwrap_or_default();
            if page.is_named_below {
                format!("run ldconfig: it knows the folder of {file}, and has not been run since the file came")
            } else {
                format!("lead the loader to {file}, which is in the image")
            }
        }
    }
}

/// The links that the recipe creates for programs that open paths.
fn path_words(page: &PhasePage<'_>) -> String {
    let link = |link: &CreatedLink| format!("make {} a link to {}", link.at, escape_bytes(&link.to));
    let links: Vec<String> = page.recipe.path_links.iter().map(link).collect();
    links.join(" and ")
}

/// The distance of a finding from the root cause. Nearest first: a bad file, an unknown name, the location of a file, a
/// program without the library, a missing item.
fn distance(finding: &Finding, facts: &ImageFacts, knowledge: &Knowledge) -> u8 {
    match knowledge.rule(&finding.rule) {
        Some(rule) if rule.first_cause => 0,
        Some(rule) => match rule.kind {
            SubjectKind::Failure | SubjectKind::Unserved if asks_for_unknown_name(finding, facts) => 1,
            SubjectKind::Copy => 2,
            SubjectKind::Failure | SubjectKind::Unserved | SubjectKind::Start => 3,
            _ => 4,
        },
        None => 4,
    }
}

/// Whether the program of a finding requests a name that no copy has. A copy has its soname, for which `ldconfig`
/// creates a link, and the names of links beside it.
fn asks_for_unknown_name(finding: &Finding, facts: &ImageFacts) -> bool {
    let rootfs = &facts.contexts.as_is.rootfs;
    let is_there = |name: &[u8]| {
        let beside = |copy: &CuptiCopy| copy.real_path.parent().join(name).absolute();
        let mut copies = facts.copies.iter();
        copies.any(|copy| copy.soname.as_deref() == Some(name) || rootfs.lookup(&beside(copy)).is_ok())
    };
    let is_named = |consumer: &&CuptiConsumer| finding.locations.iter().any(|place| place.path == consumer.object);
    let mut named = facts.consumers.iter().filter(is_named);
    named.any(|consumer| !is_there(RootPath::new(&consumer.wants).name()))
}

/// The command that writes the recipe as a Dockerfile.
fn dockerfile_command(audit: &AuditedImage, plan: &Plan, image: &str) -> String {
    // FROM needs an image name, which a file or folder does not have.
    let base = match image_name_for_from(&audit.facts.image) {
        Ok(Some(_)) => "",
        _ => " --base NAME",
    };
    let phase = &plan.phase;
    format!("cupti-audit dockerfile {image} --phase {phase}{base} -o Dockerfile")
}
