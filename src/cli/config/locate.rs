//! Where the config lies.
#![expect(clippy::disallowed_methods, reason = "the command line names paths of the host")]

use std::fs;
use std::path::{Component, Path, PathBuf};

use super::{ConfigFile, FILE_NAME};
use crate::knowledge::mistake::{FileMistake, TextMistake};
use crate::knowledge::user_folders;
use crate::make::whole_file::settle;
use image_linkage::escape;

/// A config that nobody named: whoever may change the repository wrote it.
#[derive(Debug, PartialEq, Eq)]
pub struct FoundConfig {
    pub file: PathBuf,
    /// The folder that it and all that it names lie in: the repository, or where there is none its own folder.
    pub within: PathBuf,
}

/// The config of the folder `start`, or of the nearest folder above it up to the root of the repository, the
/// folder with `.git`; outside of a repository, of `start` alone.
pub fn find_config(start: &Path) -> Option<FoundConfig> {
    // In a worktree `.git` is a file. A config that is a broken link is there too, so that reading it says what is wrong.
    let there = |folder: &Path, name: &str| fs::symlink_metadata(folder.join(name)).is_ok();
    let root = start.ancestors().position(|folder| there(folder, ".git"));
    let above = root.unwrap_or_default();
    let mut folders = start
        .ancestors()
        // Above a folder that is in no repository, a config is likely somebody else's, as in /tmp.
        .take(above + 1);
    let folder = folders.find(|folder| there(folder, FILE_NAME))?;
    Some(FoundConfig {
        file: folder.join(FILE_NAME),
        within: start.ancestors().nth(above)?.to_owned(),
    })
}

/// Reads the config at `path`, shown as it was given; one that was found, `within` that folder.
///
/// Errors: The first mistake in it, or why it cannot be read.
pub fn read_config(path: &Path, within: Option<&Path>) -> Result<ConfigFile, FileMistake> {
    let shown = escape::escape_path(path);
    // What a link leads to would be told by the mistakes in it, into the log of whoever audits a pull request.
    if let Some(within) = within
        && !is_within(path, within)
    {
        let what = "it is a link that leads out of its repository; --config names one that lies elsewhere";
        return Err(TextMistake::at_start(what).in_file(&shown));
    }
    let text = user_folders::read_text_file(path).map_err(|mistake| mistake.in_file(&shown))?;
    let folder = path.parent().unwrap_or(Path::new(""));
    ConfigFile::read(&shown, (folder, within), &text)
}

/// Whether a path leads nowhere but below a folder, its links followed.
pub(super) fn is_within(path: &Path, folder: &Path) -> bool {
    let Ok(folder) = fs::canonicalize(folder) else {
        return false;
    };
    // Without a slash at its end, and from the root on: what is not there is taken as it is written.
    let whole: PathBuf = std::path::absolute(path).unwrap_or_default().components().collect();
    let settled = settle(&whole);
    // More links than anybody follows at once may go on elsewhere.
    if fs::symlink_metadata(&settled).is_ok_and(|found| found.is_symlink()) {
        return false;
    }
    let below = settled.strip_prefix(&folder);
    // What git executes lies in `.git`, and is no part of what others propose.
    let is_inner = |part: Component<'_>| part != Component::ParentDir && part.as_os_str() != ".git";
    below.is_ok_and(|below| below.components().all(is_inner))
}
