//! `dockerfile`: the smallest Dockerfile by which an image serves a phase.

use std::collections::BTreeMap;
use std::path::Path;

use cupti_audit::cli::DockerfileArgs;
use cupti_audit::dockerfile::{self, Templates, config, name};
use cupti_audit::facts::cuda::{CudaVersion, version};
use cupti_audit::facts::{ImageFacts, tools};
use cupti_audit::knowledge::Knowledge;
use cupti_audit::plan::{self, Known, Plan};
use cupti_audit::profile::Phase;
use cupti_audit::remedy::recipe::{Request, recipe};
use cupti_audit::report::Exit;
use cupti_audit::rule;

use super::new_file::{self, Existing};
use super::{color, fail, read_one, write};

/// Writes the Dockerfile for an image.
pub fn dockerfile(mut args: DockerfileArgs) -> Exit {
    color(args.output.color);
    let existing = if args.force {
        Existing::Replace
    } else {
        Existing::Keep
    };
    let file = args.file.clone().filter(|file| file.as_os_str() != "-");
    let files: Vec<&Path> = file.iter().map(std::path::PathBuf::as_path).collect();
    if let Err(error) = new_file::check(&files, existing) {
        return fail(&error);
    }
    let templates = match templates(&args) {
        Ok(templates) => templates,
        Err(error) => return fail(&error),
    };
    let read = read_one(&args.image_name, &args.own, &mut args.image, &args.output);
    let (facts, knowledge) = match read {
        Ok(read) => read,
        Err(exit) => return exit,
    };
    let text = match text(&args, &facts, &knowledge, &templates) {
        Ok(text) => text,
        Err(Stop::Said(exit)) => return exit,
        Err(Stop::Why(error)) => return fail(&error),
    };
    match file {
        None => write(Ok(text), Exit::Clean),
        Some(file) => match new_file::write(&file, &text, existing) {
            Ok(()) => Exit::Clean,
            Err(error) => fail(&error),
        },
    }
}

/// Why nothing is written.
enum Stop {
    /// It was said already.
    Said(Exit),
    /// This is why.
    Why(String),
}

impl<E: std::error::Error> From<E> for Stop {
    fn from(error: E) -> Self {
        Self::Why(error.to_string())
    }
}

fn templates(args: &DockerfileArgs) -> Result<Templates, String> {
    let own = match &args.templates {
        Some(folder) => new_file::templates(folder)?,
        None => Vec::new(),
    };
    let own: BTreeMap<String, String> = own.into_iter().collect();
    Templates::with(&own).map_err(|error| error.to_string())
}

fn text(
    args: &DockerfileArgs,
    facts: &ImageFacts,
    knowledge: &Knowledge,
    templates: &Templates,
) -> Result<String, Stop> {
    let phase = knowledge.phase(&args.phase).map_err(Stop::Why)?;
    let plan = plan_for(args, facts, knowledge, phase);
    let source = match &args.from {
        Some(from) => Some(read_source(args, from)?),
        None => None,
    };
    let request = Request {
        target: facts,
        phase,
        plan: &plan,
        via: args.via.map(Into::into),
        cuda: cuda(args)?,
        source: source.as_ref().map(|(name, facts)| (name.clone(), facts)),
    };
    let base = base(args, facts)?;
    let recipe = recipe(&request)?;
    let mut page = dockerfile::page(facts, &plan, &recipe, &base)?;
    if recipe.fresh.is_some() {
        let library_path = recipe
            .library_path
            .as_ref()
            .map(|(value, _)| value.as_str());
        page.config = config::instructions(&facts.image.config, library_path)?;
    }
    Ok(dockerfile::phase(templates, &page)?)
}

/// What the image makes of the phase now.
fn plan_for(
    args: &DockerfileArgs,
    facts: &ImageFacts,
    knowledge: &Knowledge,
    phase: &Phase,
) -> Plan {
    let subjects = rule::subjects(facts);
    let installed = tools::find(facts, &knowledge.profilers, &args.image.environment);
    let tools = plan::profilers::judge(facts, &installed, &knowledge.profilers);
    let known = Known {
        facts,
        rules: &knowledge.rules,
        subjects: &subjects,
        profilers: &knowledge.profilers,
        tools: &tools,
    };
    plan::plan(&known, phase)
}

/// The image to copy from, by the name that `FROM` takes, and its facts.
fn read_source(args: &DockerfileArgs, from: &str) -> Result<(String, ImageFacts), Stop> {
    let mut options = args.image.clone();
    let (facts, _) = read_one(from, &args.own, &mut options, &args.output).map_err(Stop::Said)?;
    let name = match &args.from_name {
        Some(name) => Some(name::plain(name)?),
        None => name::of(&facts.image)?,
    };
    let why = || format!("{from} has no name that FROM could take; --from-name gives one");
    Ok((name.ok_or_else(|| Stop::Why(why()))?, facts))
}

/// The name of the image for `FROM`.
fn base(args: &DockerfileArgs, facts: &ImageFacts) -> Result<String, Stop> {
    let name = match &args.base {
        Some(name) => Some(name::plain(name)?),
        None => name::of(&facts.image)?,
    };
    let image = &args.image_name;
    let why = || format!("{image} has no name that FROM could take; --base gives one");
    name.ok_or_else(|| Stop::Why(why()))
}

fn cuda(args: &DockerfileArgs) -> Result<Option<CudaVersion>, Stop> {
    let read = |text: &String| {
        let why = || format!("{text:?} is no version of CUDA; expected one such as 12.4");
        version(text).ok_or_else(|| Stop::Why(why()))
    };
    args.cuda.as_ref().map(read).transpose()
}
