//! Path patterns: `*` matches any bytes of one component, `**` any number of components.

use crate::path::{RootPath, matches_wildcards};

/// A pattern for file paths.
#[derive(Debug, Clone)]
pub(super) struct PathPattern {
    /// The directory components; `None` for any directory.
    folder: Option<Vec<Box<[u8]>>>,
    name: Box<[u8]>,
}

impl PathPattern {
    /// Parses a pattern. Without a slash it matches a name in any directory. With only a leading slash it matches a
    /// name in the root.
    pub(crate) fn new(text: &str) -> Self {
        let Some((folder, name)) = text.rsplit_once('/') else {
            return Self {
                folder: None,
                name: text.as_bytes().into(),
            };
        };
        let parts = folder.split('/').filter(|part| !part.is_empty());
        Self {
            folder: Some(parts.map(|part| part.as_bytes().into()).collect()),
            name: name.as_bytes().into(),
        }
    }

    /// Whether the pattern matches. Checks the name first: this runs for every file of a layer, and the first or last
    /// byte rejects nearly all of them.
    pub(crate) fn matches(&self, path: &PathParts<'_>) -> bool {
        matches_name(&self.name, path.name)
            && self.folder.as_ref().is_none_or(|pattern| {
                let wildcard = b"**".as_slice();
                matches_wildcards(
                    pattern,
                    &path.folder,
                    |part| part.as_ref() == wildcard,
                    |part, name| matches_name(part, name),
                )
            })
    }
}

/// A path split once for comparison with about a hundred patterns.
pub(super) struct PathParts<'p> {
    folder: Vec<&'p [u8]>,
    name: &'p [u8],
}

impl<'p> PathParts<'p> {
    /// Splits a path. The root has an empty name.
    pub(super) fn new(path: &'p RootPath) -> Self {
        let mut folder: Vec<&[u8]> = path.split_components().collect();
        let name = folder.pop().unwrap_or_default();
        Self { folder, name }
    }
}

fn matches_name(pattern: &[u8], name: &[u8]) -> bool {
    let may_fit = |byte: Option<&u8>, found: Option<&u8>| byte == found || byte == Some(&b'*');
    may_fit(pattern.first(), name.first())
        && may_fit(pattern.last(), name.last())
        && matches_wildcards(pattern, name, |&byte| byte == b'*', PartialEq::eq)
}

#[cfg(test)]
mod tests {
    use super::{PathParts, PathPattern};

    #[test]
    fn one_star_matches_a_component_and_two_match_several() {
        let matches = |pattern: &str, path: &str| PathPattern::new(pattern).matches(&PathParts::new(&path.into()));
        for (pattern, path) in [
            ("status", "var/lib/status"),
            ("etc/os-release", "etc/os-release"),
            ("status.d/*", "status.d/bash"),
            ("info/*cuda*.list", "info/cuda-11.list"),
            ("usr/cuda*/**/version.json", "usr/cuda-12/version.json"),
            ("usr/cuda*/**/version.json", "usr/cuda-12/a/b/version.json"),
            ("**/*.dist-info/METADATA", "x.dist-info/METADATA"),
            ("**/*.dist-info/METADATA", "opt/lib/x.dist-info/METADATA"),
            ("*/**/conda-meta/*.json", "opt/conda-meta/a.json"),
            ("**/a/**/b", "x/a/x/a/y/b"),
            ("lib*.so*", "usr/lib/libz.so"),
            ("/*.sh", "run.sh"),
            ("*", "a"),
            ("**/*", "a/b"),
            ("a", "a"),
        ] {
            assert!(matches(pattern, path), "{pattern} {path}");
        }
        for (pattern, path) in [
            ("etc/os-release", "usr/etc/os-release"),
            ("etc/*", "etc/apt/sources.list"),
            ("info/*cuda*.list", "info/cuda.md5sums"),
            ("usr/cuda*/**/version.json", "usr/local/version.json"),
            ("*/**/conda-meta/*.json", "conda-meta/a.json"),
            ("lib*.so.*", "libz.so"),
            ("/*.sh", "bin/run.sh"),
            ("a*", "b"),
            ("*a", "b"),
            ("aa", "a"),
            ("a*a", "a"),
        ] {
            assert!(!matches(pattern, path), "{pattern} {path}");
        }
    }

    #[test]
    fn matching_does_not_backtrack_exponentially() {
        let pattern = PathPattern::new(&("*a".repeat(100) + "a"));
        let path = format!("{}ba", "a".repeat(4000)).as_str().into();
        assert!(!pattern.matches(&PathParts::new(&path)));
    }
}
