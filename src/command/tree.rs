//! `tree`: how the loader resolves one object of an image.

use std::io;

use cupti_audit::cli::{PlatformArg, TreeArgs, TreeFormat};
use cupti_audit::facts::ImageFacts;
use cupti_audit::report::{self, Exit};

use super::{Reader, color, fail, start, write};

/// Resolves one object, as at the start of a program or as dlopen would.
pub fn tree(mut args: TreeArgs) -> Exit {
    color(args.output.color);
    match read(&mut args) {
        Ok(facts) => show(&args, &facts),
        Err(exit) => exit,
    }
}

fn read(args: &mut TreeArgs) -> Result<ImageFacts, Exit> {
    let file = start::config(&args.own)?;
    if let Some(file) = &file {
        file.config.fill_image(&mut args.image);
    }
    let knowledge = start::knowledge(&args.own, file.as_ref())?;
    let platform = match args.image.platform.clone() {
        Some(PlatformArg::All) => {
            return Err(fail(&"tree shows one platform; name it with --platform"));
        }
        Some(PlatformArg::One(platform)) => Some(platform),
        None => None,
    };
    let reader = Reader::new(args.image.clone(), &args.output, &knowledge);
    let facts = reader.read(&args.image_name, platform.as_ref());
    facts.map_err(|error| fail(&error))
}

fn show(args: &TreeArgs, facts: &ImageFacts) -> Exit {
    let ground = facts.grounds.get(args.world.into());
    if ground.linker.is_none() && !args.object.contains('/') {
        return fail(&format!(
            "{}: the image has no dynamic loader for {}",
            args.image_name, facts.image.platform
        ));
    }
    let resolution = if args.object.contains('/') {
        let Some(resolution) = ground.start(args.object.as_bytes()) else {
            return fail(&format!(
                "{}: there is no file {} that a loader of the image could load",
                args.image_name, args.object
            ));
        };
        resolution
    } else {
        ground.open_plain(args.object.as_bytes())
    };
    let tree = report::tree::Tree {
        world: args.world.into(),
        root: &args.object,
        resolution: &resolution,
    };
    let text = match args.format {
        TreeFormat::Json => report::tree::json(&tree)
            .map(|line| line + "\n")
            .map_err(io::Error::other),
        TreeFormat::Text => Ok(report::tree::text(&tree, args.output.verbose)),
    };
    let exit = match () {
        () if !resolution.loads() => Exit::Findings,
        () if !resolution.unread.is_empty() => Exit::Open,
        () => Exit::Clean,
    };
    write(text, exit)
}
