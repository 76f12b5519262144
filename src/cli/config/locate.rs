//! Finds the config file.
#![expect(clippy::disallowed_methods, reason = "the command line names paths of the host")]

use std::fs;
use std::path::{Component, Path, PathBuf};

use super::{ConfigFile, FILE_NAME};
use crate::knowledge::mistake::{FileMistake, TextMistake};
use crate::knowledge::user_folders;
use crate::make::whole_file::settle;
use image_linkage::escape;

/// Names that users give to the config, and that are not read.
const WRONG_NAMES: [&str; 3] = ["cupti-audit.yml", ".cupti-audit.yaml", ".cupti-audit.yml"];

/// A config that was found automatically. Anyone who can change the repository may have written it.
#[derive(Debug, PartialEq, Eq)]
pub struct FoundConfig {
    pub file: PathBuf,
    /// The folder that must contain the config and all paths in it: the repository, or the config's own folder outside
    /// a repository.
    pub within: PathBuf,
}

/// Finds the config in `start` or the nearest parent folder, up to the repository root, the folder with `.git`. Outside
/// a repository only `start` is searched.
pub fn find_config(start: &Path) -> Option<FoundConfig> {
    // `.git` is a file in a worktree. A config that is a broken link also counts, so that reading it reports the
    // problem.
    let there = |folder: &Path, name: &str| fs::symlink_metadata(folder.join(name)).is_ok();
    let root = start.ancestors().position(|folder| there(folder, ".git"));
    let above = root.unwrap_or_default();
    let mut folders = start
        .ancestors()
        // Outside a repository a config in a parent folder probably belongs to somebody else, as in /tmp.
        .take(above + 1);
    let has_config = |folder: &&Path| [FILE_NAME].iter().chain(&WRONG_NAMES).any(|name| there(folder, name));
    let folder = folders.find(has_config)?;
    let mut names = [FILE_NAME].into_iter().chain(WRONG_NAMES);
    Some(FoundConfig {
        // A file with a wrong name is read as an error, because ignoring it would drop its settings silently.
        file: folder.join(names.find(|name| there(folder, name))?),
        within: start.ancestors().nth(above)?.to_owned(),
    })
}

/// Reads the config at `path`; messages show the path as given. A config that was found must be `within` that folder.
///
/// Errors: The first mistake in it, or why it cannot be read.
pub fn read_config(path: &Path, within: Option<&Path>) -> Result<ConfigFile, FileMistake> {
    let shown = escape::escape_path(path);
    if within.is_some() && path.file_name().is_some_and(|name| name != FILE_NAME) {
        let what = format!("it has to be called {FILE_NAME}, or --config names it");
        return Err(TextMistake::of_whole(what).in_file(&shown));
    }
    // A parse error would quote the link's target in the log of a pull request's audit.
    if let Some(within) = within
        && !is_within(path, within)
    {
        let what = "it is a link that leads out of its repository; --config names one that lies elsewhere";
        return Err(TextMistake::of_whole(what).in_file(&shown));
    }
    let text = user_folders::read_text_file(path).map_err(|mistake| mistake.in_file(&shown))?;
    let folder = path.parent().unwrap_or(Path::new(""));
    ConfigFile::read(&shown, (folder, within), &text)
}

/// Whether a path, with its links followed, stays below a folder.
pub(super) fn is_within(path: &Path, folder: &Path) -> bool {
    let Ok(folder) = fs::canonicalize(folder) else {
        return false;
    };
    // Absolute and without a trailing slash; a missing path is taken literally.
    let whole: PathBuf = std::path::absolute(path).unwrap_or_default().components().collect();
    let settled = settle(&whole);
    // A chain with more links than the limit may lead outside.
    if fs::symlink_metadata(&settled).is_ok_and(|found| found.is_symlink()) {
        return false;
    }
    let below = settled.strip_prefix(&folder);
    // git executes files in `.git`, and a pull request cannot change them.
    let is_inner = |part: Component<'_>| part != Component::ParentDir && part.as_os_str() != ".git";
    below.is_ok_and(|below| below.components().all(is_inner))
}
