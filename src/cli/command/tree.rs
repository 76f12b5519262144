//! `tree`: how the loader resolves one object of an image.

use crate::cli::{TreeArgs, TreeFormat};
use crate::judge::facts::ImageFacts;
use crate::judge::outcome::RunExit;
use crate::report::{self};

use super::{color, fail, json_line, read_one, write};

/// Resolves one object, as at the start of a program or as dlopen would.
pub fn tree(mut args: TreeArgs) -> RunExit {
    color(args.read.output.color);
    match read_one(&args.image_name, &mut args.read) {
        Ok((facts, _)) => show(&args, &facts),
        Err(exit) => exit,
    }
}

fn show(args: &TreeArgs, facts: &ImageFacts) -> RunExit {
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
    let tree = report::tree::ResolutionTree {
        world: args.world.into(),
        root: &args.object,
        resolution: &resolution,
        grounds: &facts.grounds,
    };
    let text = match args.format {
        TreeFormat::Json => json_line(report::tree::json(&tree)),
        TreeFormat::Text => Ok(report::tree::text(&tree, args.read.output.verbose)),
    };
    let exit = match () {
        () if !resolution.loads() => RunExit::Findings,
        () if !resolution.unread.is_empty() => RunExit::Open,
        () => RunExit::Clean,
    };
    write(text, exit)
}
