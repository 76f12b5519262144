//! Where the config lies.
#![expect(clippy::disallowed_methods, reason = "the command line names paths of the host")]

use std::fs;
use std::path::{Path, PathBuf};

use super::{ConfigFile, FILE_NAME};
use crate::knowledge::{FileMistake, user_folders};
use image_linkage::escape;
use yaml_mistakes::YamlMistake;

/// The config of the folder `start`, or of the nearest folder above it up to the root of the repository, the
/// folder with `.git`; outside of a repository, of `start` alone.
pub fn find_config(start: &Path) -> Option<PathBuf> {
    // In a worktree `.git` is a file. A config that is a broken link is there too, so that reading it says what is wrong.
    let there = |folder: &Path, name: &str| fs::symlink_metadata(folder.join(name)).is_ok();
    let root = start.ancestors().position(|folder| there(folder, ".git"));
    start
        .ancestors()
        // Above a folder that is in no repository, a config is likely somebody else's, as in /tmp.
        .take(root.map_or(1, |above| above + 1))
        .find(|folder| there(folder, FILE_NAME))
        .map(|folder| folder.join(FILE_NAME))
}

/// Reads the config at `path`, shown as it was given.
///
/// Errors: All mistakes in it, or why it cannot be read.
pub fn read_config(path: &Path) -> Result<ConfigFile, Vec<FileMistake>> {
    let shown = escape::escape_bytes(path.as_os_str().as_encoded_bytes());
    let text = user_folders::read_text_file(path)
        .map_err(|(place, what)| FileMistake::in_file(&shown, vec![YamlMistake { place, what }]))?;
    let folder = path.parent().unwrap_or(Path::new(""));
    ConfigFile::read(&shown, folder, &text)
}
