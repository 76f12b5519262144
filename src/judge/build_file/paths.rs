//! Paths of build steps: which of them name the library, and which reach a folder that contains it.

use crate::facts::software::cuda_runtime::{CudaVersion, parse_cuda_version};
use crate::knowledge::Knowledge;
use crate::knowledge::packages::ToolkitLayout;
use crate::knowledge::patterns::compile_glob;

/// The working directory of a step, and the home of its user; `None` if the Dockerfile does not show it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct WorkingFolder {
    pub path: Option<String>,
    pub home: Option<String>,
}

impl WorkingFolder {
    /// A path as an absolute one; `None` if that depends on something unknown.
    pub(super) fn resolve(&self, path: &str) -> Option<String> {
        if path.contains(['$', '`']) {
            return None;
        }
        match path.strip_prefix('~') {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => {
                absolute(&format!("{}{rest}", self.home.as_ref()?))
            }
            Some(_) => None,
            None if path.starts_with('/') => absolute(path),
            None => absolute(&format!("{}/{path}", self.path.as_ref()?)),
        }
    }
}

/// Whether a file shows a whole word.
pub(super) fn is_known(word: &str) -> bool {
    !word.contains(['$', '`'])
}

/// The folder of a library copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LibraryPlace {
    Folder(String),
    /// Somewhere in an environment of Python or conda.
    Environment,
}

/// How a path lies to the library in a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PathOverlap {
    Apart,
    /// It is the folder or one around it. The rest of the path down to the folder.
    Around(String),
    /// It names the library's files in the folder.
    Files,
}

/// A path without `.`, `..` and double slashes; `None` if it is relative.
pub(super) fn absolute(path: &str) -> Option<String> {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.strip_prefix('/')?.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    Some(format!("/{}", parts.join("/")))
}

/// Whether a path is a folder or below it.
pub(super) fn is_below(path: &str, folder: &str) -> bool {
    let rest = path.strip_prefix(folder.trim_end_matches('/'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// A path with the toolkit's links followed: `/usr/local/cuda-12.4/lib64` and `/usr/local/cuda/lib64` are one folder. The
/// toolkits of other versions stay as they are.
pub(super) fn follow_links(path: &str, cuda: Option<CudaVersion>, toolkit: &ToolkitLayout) -> String {
    let Some(rest) = path.strip_prefix(&toolkit.folder) else {
        return path.to_owned();
    };
    let (version, rest) = rest
        .split_at_checked(rest.find('/').unwrap_or(rest.len()))
        .unwrap_or((rest, ""));
    let is_own = match version.strip_prefix('-') {
        None => version.is_empty(),
        Some(version) => cuda.is_none_or(|(major, minor)| {
            version == major.to_string() || parse_cuda_version(version) == Some((major, minor))
        }),
    };
    if !is_own {
        return path.to_owned();
    }
    match rest
        .strip_prefix("/lib64")
        .filter(|inner| inner.is_empty() || inner.starts_with('/'))
    {
        Some(inner) => format!("{}{inner}", toolkit.libraries),
        None => format!("{}{rest}", toolkit.folder),
    }
}

/// Whether the last part of a path is a link of the toolkit, whose target stays if it is deleted.
pub(super) fn is_link(path: &str, cuda: Option<CudaVersion>, toolkit: &ToolkitLayout) -> bool {
    let followed = follow_links(path, cuda, toolkit);
    let full = cuda.map(|(major, minor)| format!("{}-{major}.{minor}", toolkit.folder));
    (followed == toolkit.folder && full.as_deref() != Some(path)) || (followed == toolkit.libraries && path != followed)
}

/// Compares an absolute path with the library in a folder, along the links of a toolkit.
pub(super) fn compare_path(path: &str, folder: &str, cuda: Option<CudaVersion>, known: &Knowledge) -> PathOverlap {
    let path = follow_links(path, cuda, &known.tables.packages.toolkit);
    let [path, own] =
        [&*path, folder].map(|path| path.split('/').filter(|part| !part.is_empty()).collect::<Vec<&str>>());
    if !path.iter().zip(&own).all(|(part, own)| matches_part(part, own)) {
        return PathOverlap::Apart;
    }
    match path.get(own.len()..) {
        None | Some([]) => PathOverlap::Around(own.get(path.len()..).unwrap_or_default().join("/")),
        Some([file]) if names_copy(file, cuda, known) || *file == known.library.stem => PathOverlap::Files,
        Some(_) => PathOverlap::Apart,
    }
}

/// Whether a path is where programs find the library, or depends on something unknown. Archives, private copies of tools
/// and the links in the toolkit's folder for headers are elsewhere.
pub(super) fn may_hold_library(path: &str, known: &Knowledge) -> bool {
    let toolkit = &known.tables.packages.toolkit;
    let is_in_toolkit = path.starts_with(&toolkit.folder) && !path.to_lowercase().contains(&toolkit.extras);
    let folder = parent_folder(path);
    !is_known(path)
        || path.contains('(')
        || is_in_toolkit
        || [path, folder].into_iter().any(|folder| is_default_folder(folder) || folder == "/usr/local/lib")
        // Which user has a folder is not followed.
        || (is_environment(path) && !path.contains("/.local/"))
}

/// Whether deleting the library at or below a path may reach the copy in a place.
pub(super) fn may_reach(path: &str, place: &LibraryPlace, cuda: Option<CudaVersion>, known: &Knowledge) -> bool {
    let is_in_environment = is_environment(path) && path.len() > "/usr/local/lib".len();
    let is_in_system =
        path.starts_with(&known.tables.packages.toolkit.folder) || is_default_folder(parent_folder(path));
    let name = path.rsplit('/').next().unwrap_or_default();
    let is_other = is_library_name(name, known) && !names_copy(name, cuda, known);
    match place {
        LibraryPlace::Environment => !is_in_system,
        LibraryPlace::Folder(_) => !is_in_environment && !is_other,
    }
}

/// Whether a file name matches a file of the library of a CUDA version; that of any if it is unknown.
fn names_copy(pattern: &str, cuda: Option<CudaVersion>, known: &Knowledge) -> bool {
    let Some((major, minor)) = cuda else {
        return is_library_name(pattern, known);
    };
    let soname = known.library.soname_of(&format!("{major}.{minor}")).unwrap_or_default();
    let own = format!("{}.20", known.library.stem);
    // The version of the file itself is a year.
    pattern.starts_with(&own) || matches_part(pattern, &soname) || matches_part(pattern, &format!("{own}24.1.1"))
}

/// Whether a path, which may have wildcards, names the library itself: its files, or the folder of its Python package.
pub(super) fn names_library(path: &str, known: &Knowledge) -> bool {
    let wheels = known
        .library
        .wheels
        .install
        .iter()
        .flat_map(|wheel| wheel.folder.split('/'));
    let mut folders = wheels.filter(|part| part.contains(&known.library.package_word));
    // `$(find / -name 'libcupti*')`
    if path.contains(['`', '(']) {
        let names_file = path.contains(known.library.file_stem()) && !path.contains("_static");
        return names_file || folders.any(|folder| path.ends_with(folder));
    }
    let mut parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    while let Some(&("*" | "." | "lib")) = parts.last() {
        parts.pop();
    }
    match *parts {
        [.., folder, "nvidia"] => folder.ends_with("-packages"),
        [.., "nvidia", name] if folders.any(|folder| contains_word(name, known) && matches_part(name, folder)) => true,
        [.., name] => is_library_name(name, known),
        [] => false,
    }
}

/// Whether a file name names the library and matches a file of it with a version.
pub(super) fn is_library_name(pattern: &str, known: &Knowledge) -> bool {
    let library = known.library;
    let sonames = ["11.8", "12.0", "13.0"]
        .into_iter()
        .filter_map(|cuda| library.soname_of(cuda));
    let mut names = sonames.chain([format!("{}.2024.1.1", library.stem)]);
    contains_word(pattern, known) && names.any(|name| matches_part(pattern, &name))
}

fn contains_word(name: &str, known: &Knowledge) -> bool {
    name.to_lowercase().contains(&known.library.package_word)
}

/// Whether a part of a path matches a pattern. A variable at the end may be anything.
fn matches_part(pattern: &str, part: &str) -> bool {
    let pattern = match pattern.split_once('$') {
        Some((before, _)) => format!("{before}*"),
        None => pattern.to_owned(),
    };
    let is_glob = pattern.contains(['*', '?', '[', '{']);
    pattern == part || (is_glob && compile_glob(&pattern).is_ok_and(|glob| glob.is_match(part)))
}

/// The folders that ld.so searches without a cache (ld.so(8)).
const DEFAULT_FOLDERS: [&str; 4] = ["/lib", "/usr/lib", "/lib64", "/usr/lib64"];

/// Whether the loader searches a folder by default, such as `/usr/lib/x86_64-linux-gnu`.
pub(super) fn is_default_folder(folder: &str) -> bool {
    DEFAULT_FOLDERS.iter().any(|own| {
        let rest = folder.strip_prefix(own);
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with("-linux-gnu"))
    })
}

/// The path in front of the last slash.
pub(super) fn parent_folder(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// Whether a path is in an environment of Python or conda, or around one.
pub(super) fn is_environment(path: &str) -> bool {
    let parts = ["venv", "-packages", "conda", "/env"];
    parts.iter().any(|part| path.contains(part)) || is_environment_root(path)
}

/// Whether a path is a whole environment of Python or conda, or around one.
pub(super) fn is_environment_root(path: &str) -> bool {
    let name = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let is_named = name.contains("venv") || name.contains("conda") || name == "env" || name.ends_with("-packages");
    is_named
        || matches!(path, "/" | "/usr" | "/usr/local" | "/usr/local/lib" | "/opt")
        || (path.starts_with("/usr/local/lib/python") && !path.contains("packages"))
}
