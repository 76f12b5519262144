//! Folders that everybody names: where one stands in a setting, that says nothing of the files in it.

use globset::{Candidate, GlobSet};
use image_linkage::path::RootPath;
use serde::Deserialize;

use super::path_glob::compile_glob;

/// The folders and the variables of `profiles/cupti/shared-folders.yaml`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SharedFolders {
    /// Patterns of the paths, without the leading `/`.
    #[serde(default)]
    folders: Vec<FolderPattern>,
    /// Variables that hold folders in which a name is searched.
    #[serde(default)]
    search_variables: Vec<String>,
}

/// A pattern that was compiled as it was read, so that a bad one is a mistake with its place.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "String")]
struct FolderPattern(GlobSet);

impl TryFrom<String> for FolderPattern {
    type Error = String;

    fn try_from(pattern: String) -> Result<Self, String> {
        compile_glob(&pattern).map(Self)
    }
}

impl SharedFolders {
    /// Adds the rows of another file.
    pub(super) fn add(&mut self, more: Self) {
        self.folders.extend(more.folders);
        self.search_variables.extend(more.search_variables);
    }

    /// Whether everybody names the folder, which is given without links.
    pub fn is_shared(&self, folder: &RootPath) -> bool {
        let path = Candidate::from_bytes(folder.as_bytes());
        self.folders.iter().any(|pattern| pattern.0.is_match_candidate(&path))
    }

    /// Whether a word of a shell sets a search path, as `PATH=/opt/bin:$PATH` does.
    pub fn sets_search_path(&self, word: &[u8]) -> bool {
        let word = word.trim_ascii_start();
        let word = word.strip_prefix(b"\"").or(word.strip_prefix(b"'")).unwrap_or(word);
        let mut names = self.search_variables.iter();
        names.any(|name| {
            word.strip_prefix(name.as_bytes())
                .is_some_and(|rest| rest.starts_with(b"="))
        })
    }
}
