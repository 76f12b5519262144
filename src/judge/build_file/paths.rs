//! Paths of build steps: how they lie to the folder of a copy of the library, through the links of the toolkit.

use super::presence::LibraryCopy;
use crate::facts::software::cuda_runtime::{CudaVersion, parse_cuda_version};
use crate::knowledge::Knowledge;
use crate::knowledge::packages::ToolkitLayout;
use crate::knowledge::patterns::compile_glob;

/// How a path lies to a copy of the library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PathOverlap {
    /// It does not reach the copy.
    Apart,
    /// It is the copy's folder or one around it. The rest of the path down to the copy's folder.
    Around(String),
    /// It names the library's files in the copy's folder.
    Files,
    Unknown,
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
    let inner = rest
        .strip_prefix("/lib64")
        .filter(|inner| inner.is_empty() || inner.starts_with('/'));
    match inner {
        Some(inner) => format!("{}{inner}", toolkit.libraries),
        None => format!("{}{rest}", toolkit.folder),
    }
}

/// Whether the last part of a path is a link of the toolkit.
fn is_link(path: &str, cuda: Option<CudaVersion>, toolkit: &ToolkitLayout) -> bool {
    let followed = follow_links(path, cuda, toolkit);
    let full = cuda.map(|(major, minor)| format!("{}-{major}.{minor}", toolkit.folder));
    (followed == toolkit.folder && full.as_deref() != Some(path)) || (followed == toolkit.libraries && path != followed)
}

/// How a path of a stage lies to a copy of the library in it.
pub(super) fn compare_path(copy: &LibraryCopy, path: &str, known: &Knowledge) -> PathOverlap {
    let toolkit = &known.tables.packages.toolkit;
    let Some(path) = absolute(path) else {
        return compare_relative(path, known);
    };
    let Some(folder) = &copy.folder else {
        return compare_package(&path, known);
    };
    if is_link(&path, copy.cuda, toolkit) {
        return PathOverlap::Unknown;
    }
    compare_parts(copy, &follow_links(&path, copy.cuda, toolkit), folder, known)
}

/// As [`compare_path`], for a copy: it follows the path if it is a link.
pub(super) fn compare_source(copy: &LibraryCopy, path: &str, known: &Knowledge) -> PathOverlap {
    let toolkit = &known.tables.packages.toolkit;
    // The root of a stage is the directory of a relative source.
    let path = absolute(&format!("/{path}")).unwrap_or_default();
    match &copy.folder {
        None => compare_package(&path, known),
        Some(folder) => compare_parts(copy, &follow_links(&path, copy.cuda, toolkit), folder, known),
    }
}

fn compare_parts(copy: &LibraryCopy, path: &str, folder: &str, known: &Knowledge) -> PathOverlap {
    let path: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let own: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for (part, own) in path.iter().zip(&own) {
        match matches_part(part, own) {
            None => return PathOverlap::Unknown,
            Some(false) => return PathOverlap::Apart,
            Some(true) => {}
        }
    }
    match path.get(own.len()..) {
        None | Some([]) => PathOverlap::Around(own.get(path.len()..).unwrap_or_default().join("/")),
        Some([file]) => compare_file(file, copy.cuda, known),
        Some(_) => PathOverlap::Apart,
    }
}

/// Whether a file name, maybe with wildcards, stands for the library.
pub(super) fn compare_file(pattern: &str, cuda: Option<CudaVersion>, known: &Knowledge) -> PathOverlap {
    let library = known.library;
    let soname = |(major, minor): CudaVersion| library.soname_of(&format!("{major}.{minor}"));
    // Without a version, one name of each kind.
    let versions = cuda.map_or_else(|| vec![(11, 8), (12, 0), (13, 0)], |cuda| vec![cuda]);
    let names: Vec<String> = versions.into_iter().filter_map(soname).collect();
    let matched = names.iter().map(|name| matches_part(pattern, name));
    let matched: Vec<Option<bool>> = matched.collect();
    if matched.iter().all(|one| *one == Some(true)) {
        return PathOverlap::Files;
    }
    // The names behind the soname, such as libcupti.so.2024.1.1, and the link libcupti.so.
    let others = [library.stem.clone(), format!("{}.2024.1.1", library.stem)];
    let touches = others.iter().any(|name| matches_part(pattern, name) != Some(false));
    let is_apart =
        matched.iter().all(|one| *one == Some(false)) && !touches && !pattern.starts_with(library.file_stem());
    if is_apart {
        PathOverlap::Apart
    } else {
        PathOverlap::Unknown
    }
}

/// How a path lies to a Python package whose folder is unknown.
fn compare_package(path: &str, known: &Knowledge) -> PathOverlap {
    let is_below = |folder: &String| match folder.split_once('*') {
        Some((before, after)) => path.strip_prefix(before).is_some_and(|rest| rest.contains(after)),
        None => path
            .strip_prefix(folder.as_str())
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/')),
    };
    let steps = &known.tables.build_steps;
    let name = path.rsplit('/').next().unwrap_or_default();
    let is_toolkit = path.starts_with(&known.tables.packages.toolkit.folder);
    // A name with a suffix is a file, and the library's own has another.
    let is_file = name.rsplit_once('.').is_some_and(|(stem, end)| {
        !stem.is_empty()
            && !end.is_empty()
            && end.len() <= 5
            && end.chars().all(|letter| letter.is_ascii_lowercase())
            && end != "so"
    });
    if steps.plain_folders.iter().any(is_below) || is_toolkit || is_file {
        PathOverlap::Apart
    } else {
        PathOverlap::Unknown
    }
}

/// A relative path in an unknown folder.
fn compare_relative(path: &str, known: &Knowledge) -> PathOverlap {
    let toolkit = known
        .tables
        .packages
        .toolkit
        .folder
        .rsplit('/')
        .next()
        .unwrap_or_default();
    let library = &*known.library.package_word;
    let path = path.to_lowercase();
    let may_be =
        matches!(&*path, "*" | "." | "..") || path.contains('$') || path.contains(library) || path.contains(toolkit);
    if may_be {
        PathOverlap::Unknown
    } else {
        PathOverlap::Apart
    }
}

/// Whether a part of a path matches a pattern; `None` if the Dockerfile does not show it.
fn matches_part(pattern: &str, part: &str) -> Option<bool> {
    if pattern.contains('$') {
        return None;
    }
    if !pattern.contains(['*', '?', '[', '{']) {
        return Some(pattern == part);
    }
    compile_glob(pattern).ok().map(|glob| glob.is_match(part))
}
