//! `tree`: how the loader resolves one object of an image.

use crate::cli::tree::{TreeArgs, TreeFormat};
use crate::judge::outcome::RunExit;
use crate::report;

use super::command_error::CommandError;
use super::image_reader::read_single_image;
use super::terminal::{set_color_choice, write_result};

/// Resolves one object, as at the start of a program or as dlopen would.
pub fn run_tree(mut args: TreeArgs) -> Result<RunExit, CommandError> {
    set_color_choice(args.read.output.color);
    let (facts, _) = read_single_image(&args.image_name, &mut args.read)?;
    let context = facts.contexts.get(args.world.into());
    // A path may be that of a static program, which needs no loader; a soname is a question to one.
    if context.linker.is_none() && !args.object.contains('/') {
        let (image, platform) = (&args.image_name, &facts.image.platform);
        return Err(format!("{image}: the image has no dynamic loader for {platform}").into());
    }
    // dlopen(3) takes a name with a slash for a path, and searches for any other.
    let resolution = if args.object.contains('/') {
        let (image, object) = (&args.image_name, &args.object);
        let no_file = || format!("{image}: there is no file {object} that a loader of the image could load");
        context.start_program(object.as_bytes()).ok_or_else(no_file)?
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
        TreeFormat::Json => format!("{}\n", report::tree::tree_json(&tree)),
        TreeFormat::Text => report::tree::tree_text(&tree, args.read.output.verbose),
    };
    let exit = match () {
        () if !resolution.loads() => RunExit::Findings,
        () if !resolution.unread.is_empty() => RunExit::Open,
        () => RunExit::Clean,
    };
    Ok(write_result(&text, exit))
}
