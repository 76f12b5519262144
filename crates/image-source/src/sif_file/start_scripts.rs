//! What Apptainer runs before the requested program: `/.singularity.d/actions` sources the scripts in
//! `/.singularity.d/env`, then runs `/.singularity.d/runscript`.

use image_linkage::escape::escape_bytes;
use image_linkage::layer::{LayerEntry, LayerIndex};
use image_linkage::path::RootPath;

use crate::config::ImageConfig;

const SCRIPTS: &str = ".singularity.d/env";
const RUNSCRIPT: &str = ".singularity.d/runscript";
/// Scripts that every image has, without effect on its libraries.
const OF_EACH: [&[u8]; 2] = [b"01-base.sh", b"99-"];
/// The script that repeats the original image's config.
const OF_CONFIG: &[u8] = b"10-docker2singularity.sh";

/// Adds the shell to an image whose own scripts set variables (`%environment` of a definition): the shell sources them
/// and then runs the program. `is_known` means that the config is the original image's.
pub(super) fn with_start_scripts(mut config: ImageConfig, index: &LayerIndex, is_known: bool) -> ImageConfig {
    let entries = &index.entries;
    if config.command.is_empty() && entries.get(RUNSCRIPT.as_bytes()).is_some() {
        config.command = vec![format!("/{RUNSCRIPT}")];
    }
    let folder = RootPath::from(SCRIPTS);
    let inside = entries
        .iter()
        .filter(|(path, _)| path.parent() == folder && path.as_bytes().ends_with(b".sh"));
    let own = inside.filter(|(path, entry)| {
        let name = path.split_components().next_back().unwrap_or_default();
        let is_told = is_known && name == OF_CONFIG;
        !is_told && !OF_EACH.iter().any(|one| name.starts_with(one)) && sets_anything(entry)
    });
    let mut scripts: Vec<RootPath> = own.map(|(path, _)| path).collect();
    scripts.sort();
    // Without a shell in the image Apptainer uses its own, so none is missing.
    let has_shell = ["bin/sh", "usr/bin/sh"]
        .iter()
        .any(|shell| entries.get(shell.as_bytes()).is_some());
    if has_shell && !scripts.is_empty() && !config.command.is_empty() {
        let reads: Vec<String> = scripts
            .iter()
            .map(|path| format!(". /{}; ", escape_bytes(path.as_bytes())))
            .collect();
        let line = format!("{}exec \"$@\"", reads.concat());
        let shell = ["/bin/sh", "-c", line.as_str(), "sh"].map(str::to_owned);
        config.command = shell.into_iter().chain(config.command).collect();
    }
    config.settings.entrypoint.clone_from(&config.command);
    config.settings.cmd = Vec::new();
    config
}

/// Whether a script has a line that is not a comment. An unread script may have one.
fn sets_anything(entry: &LayerEntry) -> bool {
    let LayerEntry::File(facts) = entry else { return false };
    let Some(text) = &facts.kept else {
        return facts.bytes > 0;
    };
    let mut lines = text.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii);
    lines.any(|line| !line.is_empty() && !line.starts_with(b"#"))
}
