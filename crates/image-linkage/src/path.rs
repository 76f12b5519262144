//! Paths inside an image.

use std::borrow::Borrow;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::escape;

/// A normalized path inside an image, stored as bytes without the leading `/`. The root is empty.
///
/// It contains no `.`, no `..`, no empty component and no NUL. It never is a host path.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct RootPath(Box<[u8]>);

impl RootPath {
    /// Normalizes a path or the name of a tar member. `..` stops at the root, as after `chroot`.
    pub fn new(name: &[u8]) -> Self {
        let mut parts: Vec<&[u8]> = Vec::new();
        for part in split_components(name) {
            // Purely textual. `Rootfs::lookup` takes the raw path and follows links.
            if part == b".." {
                parts.pop();
            } else {
                parts.push(part);
            }
        }
        Self(parts.join(&b'/').into_boxed_slice())
    }

    /// Whether `name` leaves the root: it has a `..` with no parent.
    pub(crate) fn leaves_root(name: &[u8]) -> bool {
        // Only used to warn the user; `new` keeps such a name inside the root.
        let mut depth = 0_usize;
        split_components(name).any(|part| {
            let up = part == b"..";
            let out = up && depth == 0;
            depth = if up { depth.saturating_sub(1) } else { depth + 1 };
            out
        })
    }

    /// The bytes of the path, without the leading `/`.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The bytes of the path, with the leading `/`.
    pub fn absolute(&self) -> Vec<u8> {
        [b"/", &*self.0].concat()
    }

    /// The components, outermost first.
    pub fn split_components(&self) -> impl DoubleEndedIterator<Item = &[u8]> {
        // Splitting the empty root yields one empty part.
        self.0.split(|&b| b == b'/').filter(|part| !part.is_empty())
    }

    /// The last component; empty for the root.
    pub fn name(&self) -> &[u8] {
        // No component is empty, so the simple split suffices. This runs several times per file.
        self.0.rsplit(|&b| b == b'/').next().unwrap_or_default()
    }

    /// The parent directory. The root is its own parent.
    #[must_use]
    pub fn parent(&self) -> Self {
        let cut = self.0.iter().rposition(|&b| b == b'/').unwrap_or(0);
        Self(self.0.get(..cut).unwrap_or_default().into())
    }

    /// The parent directories, innermost first, without the root.
    pub fn folders(&self) -> impl Iterator<Item = Self> + use<> {
        let above = std::iter::successors(Some(self.parent()), |folder| Some(folder.parent()));
        above.take_while(|folder| *folder != Self::default())
    }

    /// Appends `name`, a single component or a relative path.
    #[must_use]
    pub fn join(&self, name: &[u8]) -> Self {
        // Skip normalization in the common case: repeated at each of two thousand levels, it would take quadratic time.
        let is_plain = !name.contains(&b'/') && !matches!(name, b"" | b"." | b"..");
        if is_plain && !self.0.is_empty() {
            return Self([self.as_bytes(), b"/", name].concat().into_boxed_slice());
        }
        Self::new(&[self.as_bytes(), b"/", name].concat())
    }

    /// Appends `name`, a single component.
    #[must_use]
    pub(crate) fn child(&self, name: &[u8]) -> Self {
        if self.0.is_empty() {
            return Self(name.into());
        }
        Self([self.as_bytes(), b"/", name].concat().into_boxed_slice())
    }

    /// Whether this path equals `other` or is below it, compared by components.
    pub fn starts_with(&self, other: &Self) -> bool {
        self.0
            .strip_prefix(other.as_bytes())
            // `usr/lib64` starts with the bytes of `usr/lib` but is not below it.
            .is_some_and(|rest| other.0.is_empty() || rest.first().is_none_or(|&b| b == b'/'))
    }
}

/// The components of a raw path, without empty ones and `.`.
pub fn split_components(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|&b| b == b'/')
        .filter(|part| !part.is_empty() && *part != b".")
}

/// Whether a pattern matches all units, which are the bytes of a name or the components of a path. Only the last
/// wildcard is retried, one unit longer each time: it can absorb whatever an earlier one could. So time is bounded by
/// the product of the lengths.
pub(crate) fn matches_wildcards<P, U>(
    pattern: &[P],
    units: &[U],
    is_wildcard: impl Fn(&P) -> bool,
    fits: impl Fn(&P, &U) -> bool,
) -> bool {
    let (mut at, mut unit) = (0, 0);
    let mut last = None;
    loop {
        match (pattern.get(at), units.get(unit)) {
            (None, None) => return true,
            (Some(part), _) if is_wildcard(part) => {
                at += 1;
                last = Some((at, unit));
            }
            (Some(part), Some(found)) if fits(part, found) => {
                at += 1;
                unit += 1;
            }
            _ => {
                let Some((behind, from)) = last.filter(|(_, from)| *from < units.len()) else {
                    return false;
                };
                last = Some((behind, from + 1));
                (at, unit) = (behind, from + 1);
            }
        }
    }
}

impl fmt::Display for RootPath {
    /// Writes the absolute path, escaped for a terminal.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/{}", escape::escape_bytes(&self.0))
    }
}

impl fmt::Debug for RootPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

impl From<&str> for RootPath {
    fn from(path: &str) -> Self {
        Self::new(path.as_bytes())
    }
}

impl Serialize for RootPath {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for RootPath {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        // Normalize, so that malicious bytes cannot break the invariant.
        <&[u8]>::deserialize(from).map(Self::new)
    }
}

// Allows lookups by plain bytes. `Borrow` requires equal order and hash, which derive from the bytes.
impl Borrow<[u8]> for RootPath {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::RootPath;

    #[test]
    fn all_spellings_of_a_member_name_give_one_path() {
        for name in [
            "usr/lib/x",
            "./usr/lib/x",
            "/usr//lib/./x",
            "usr/y/../lib/x",
            "../../usr/lib/x",
            "usr/lib/x/",
        ] {
            assert_eq!(RootPath::from(name).to_string(), "/usr/lib/x", "{name}");
        }
        assert_eq!(RootPath::from("./").to_string(), "/");
    }

    #[test]
    fn only_names_that_leave_the_root_escape() {
        assert!(RootPath::leaves_root(b"../etc/passwd"));
        assert!(RootPath::leaves_root(b"a/../../b"));
        assert!(!RootPath::leaves_root(b"a/../b"));
        assert!(!RootPath::leaves_root(b"/abs"));
    }

    #[test]
    fn prefixes_are_compared_by_component() {
        let out = RootPath::from("out");
        assert!(RootPath::from("out/x").starts_with(&out));
        assert!(out.starts_with(&out));
        assert!(!RootPath::from("out-evil/x").starts_with(&out));
        assert!(out.starts_with(&RootPath::default()));
    }
}
