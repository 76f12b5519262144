//! `tree`: how the loader resolves one object of an image.

use crate::cli::tree::{TreeArgs, TreeFormat};
use crate::judge::facts::ImageFacts;
use crate::judge::outcome::RunExit;
use crate::report::{self};

use super::image_reader::read_single_image;
use super::terminal::{json_line, report_error, set_color_choice, write_result};

/// Resolves one object, as at the start of a program or as dlopen would.
pub fn run_tree(mut args: TreeArgs) -> RunExit {
    set_color_choice(args.read.output.color);
    match read_single_image(&args.image_name, &mut args.read) {
        Ok((facts, _)) => show(&args, &facts),
        Err(exit) => exit,
    }
}

fn show(args: &TreeArgs, facts: &ImageFacts) -> RunExit {
    let context = facts.contexts.get(args.world.into());
    // A path may be that of a static program, which needs no loader; a soname is a question to one.
    if context.linker.is_none() && !args.object.contains('/') {
        return report_error(&format!(
            "{}: the image has no dynamic loader for {}",
            args.image_name, facts.image.platform
        ));
    }
    // dlopen(3) takes a name with a slash for a path, and searches for any other.
    let resolution = if args.object.contains('/') {
        let Some(resolution) = context.start_program(args.object.as_bytes()) else {
            return report_error(&format!(
                "{}: there is no file {} that a loader of the image could load",
                args.image_name, args.object
            ));
        };
        resolution
    } else {
        context.open_plain(args.object.as_bytes())
    };
    let tree = report::tree::ResolutionTree {
        world: args.world.into(),
        root: &args.object,
        resolution: &resolution,
        contexts: &facts.contexts,
    };
    let text = match args.format {
        TreeFormat::Json => json_line(report::tree::tree_json(&tree)),
        TreeFormat::Text => Ok(report::tree::tree_text(&tree, args.read.output.verbose)),
    };
    let exit = match () {
        () if !resolution.loads() => RunExit::Findings,
        () if !resolution.unread.is_empty() => RunExit::Open,
        () => RunExit::Clean,
    };
    write_result(text, exit)
}
