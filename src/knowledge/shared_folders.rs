//! Common folders: if a setting names one, that does not refer to the files in it.

use image_linkage::path::RootPath;
use serde::Deserialize;

use super::patterns::PathPatterns;

/// The folders and variables in `profiles/cupti/shared-folders.yaml`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SharedFolders {
    /// Path patterns, without the leading `/`.
    #[serde(default)]
    folders: PathPatterns,
    /// Variables with folders to search for a name.
    #[serde(default)]
    search_variables: Vec<String>,
    /// Path patterns of folders that belong to the container even if mounted.
    #[serde(default)]
    own_folders: PathPatterns,
    /// Other variables that lead to programs, libraries and modules.
    #[serde(default)]
    leading_variables: Vec<String>,
    /// Path patterns of files from distributions and interpreters.
    #[serde(default)]
    systems: PathPatterns,
    /// Path patterns of frameworks, which mention tools that they do not need.
    #[serde(default)]
    frameworks: PathPatterns,
    /// Path patterns of folders where toolkits and packages install the library.
    #[serde(default)]
    packages: PathPatterns,
    /// Name patterns of programs that run scripts.
    #[serde(default)]
    interpreters: PathPatterns,
    /// Calls that open a library in scripting languages other than Python.
    #[serde(default)]
    openers: Vec<String>,
}

impl SharedFolders {
    /// Whether the folder, given without symlinks, is common.
    pub fn is_shared(&self, folder: &RootPath) -> bool {
        self.folders.is_match(folder.as_bytes())
    }

    /// Whether a folder belongs to the container even if mounted.
    pub fn is_own(&self, folder: &RootPath) -> bool {
        self.own_folders.is_match(folder.as_bytes())
    }

    /// Whether a variable leads to programs, libraries or modules.
    pub fn leads(&self, variable: &str) -> bool {
        let mut names = self.search_variables.iter().chain(&self.leading_variables);
        names.any(|name| name == variable)
    }

    /// Whether a toolkit or package installed the file in its folder.
    pub fn is_of_package(&self, path: &RootPath) -> bool {
        self.packages.is_match(path.as_bytes())
    }

    /// Whether a distribution or interpreter installs this path.
    pub fn is_of_system(&self, path: &RootPath) -> bool {
        self.systems.is_match(path.as_bytes())
    }

    /// Whether a framework that mentions tools without needing them installs this path.
    pub fn is_of_framework(&self, path: &RootPath) -> bool {
        self.frameworks.is_match(path.as_bytes())
    }

    /// Whether a program runs scripts and is not specific to the image.
    pub fn is_interpreter(&self, path: &RootPath) -> bool {
        self.interpreters.is_match(path.name())
    }

    /// The calls that open a library in scripting languages.
    pub fn openers(&self) -> impl Iterator<Item = &str> {
        let of_python = python_path::OPENERS.iter().map(|opener| opener.trim_end_matches('('));
        of_python.chain(self.openers.iter().map(String::as_str))
    }

    /// Whether a script opens a library under a computed name instead of a literal.
    pub fn opens_computed_name(&self, script: &[u8]) -> bool {
        let script = String::from_utf8_lossy(script);
        let mut calls = self.openers().flat_map(|opener| {
            let found = script.match_indices(opener);
            found.filter_map(|(at, _)| script.get(at + opener.len()..))
        });
        calls.any(is_computed)
    }

    /// Whether a shell word sets a search path, as in `PATH=/opt/bin:$PATH`.
    pub fn sets_search_path(&self, word: &[u8]) -> bool {
        let quoted = word.trim_ascii_start();
        let assignment = quoted
            .strip_prefix(b"\"")
            .or(quoted.strip_prefix(b"'"))
            .unwrap_or(quoted);
        let mut names = self.search_variables.iter();
        names.any(|name| {
            assignment
                .strip_prefix(name.as_bytes())
                .is_some_and(|rest| rest.starts_with(b"="))
        })
    }
}

/// Whether the text after an opener is a call with more than a literal.
fn is_computed(rest: &str) -> bool {
    let name = rest.trim_start_matches([' ', '(']);
    if let Some(quote) = name.chars().next().filter(|letter| matches!(letter, '"' | '\'')) {
        let Some((literal, after)) = name.get(1..).and_then(|text| text.split_once(quote)) else {
            return false;
        };
        let after = after.trim_start_matches(' ');
        // LuaJIT, Julia and Octave append the extension to `cupti` themselves.
        return !literal.contains(".so") && !literal.is_empty()
            || !(after.is_empty() || after.starts_with([')', ',', ';', '\n', '\r', '"', '\'', '}', ']']));
    }
    // `from ctypes import CDLL` and a definition are not calls.
    let calls = name.starts_with(|letter: char| letter.is_alphanumeric() || "_$@[".contains(letter));
    calls && !name.starts_with("None")
}
