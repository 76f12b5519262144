//! A path inside an image.

use std::borrow::Borrow;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::escape;

/// A normalised path inside an image's root, kept as bytes without the leading `/`; the root is empty.
///
/// It holds no `.`, no `..`, no empty component and no NUL. It is never a path of the host.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct RootPath(Box<[u8]>);

impl RootPath {
    /// Returns the path that the name of a tar member, or a path inside the image, stands for. `..` goes up
    /// and stops at the root, as it does after `chroot`.
    pub fn new(name: &[u8]) -> Self {
        let mut parts: Vec<&[u8]> = Vec::new();
        for part in split_components(name) {
            // By text alone: where links count, `Rootfs::lookup` goes by the path as written.
            if part == b".." {
                parts.pop();
            } else {
                parts.push(part);
            }
        }
        Self(parts.join(&b'/').into_boxed_slice())
    }

    /// Whether `name` would leave the root: `..` at a point where nothing is left to go up from.
    pub(crate) fn leaves_root(name: &[u8]) -> bool {
        // This is only for a word to the user: `new` keeps such a name inside the root, whatever comes out here.
        let mut depth = 0_usize;
        split_components(name).any(|part| {
            let up = part == b"..";
            let out = up && depth == 0;
            depth = if up { depth.saturating_sub(1) } else { depth + 1 };
            out
        })
    }

    /// The path's bytes, without a leading `/`.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The path's bytes with the leading `/`.
    pub fn absolute(&self) -> Vec<u8> {
        [b"/", &*self.0].concat()
    }

    /// The components, from the root down.
    pub fn split_components(&self) -> impl DoubleEndedIterator<Item = &[u8]> {
        // The root is empty, and splitting it gives one empty part.
        self.0.split(|&b| b == b'/').filter(|part| !part.is_empty())
    }

    /// The last component; empty for the root.
    pub fn name(&self) -> &[u8] {
        // No component is empty, and every file of a layer is asked several times.
        self.0.rsplit(|&b| b == b'/').next().unwrap_or_default()
    }

    /// The path without its last component; the root is its own parent.
    #[must_use]
    pub fn parent(&self) -> Self {
        let cut = self.0.iter().rposition(|&b| b == b'/').unwrap_or(0);
        Self(self.0.get(..cut).unwrap_or_default().into())
    }

    /// The folders that it lies in, the innermost first, without the root.
    pub fn folders(&self) -> impl Iterator<Item = Self> + use<> {
        let below_root = |path: Self| (path != Self::default()).then_some(path);
        std::iter::successors(below_root(self.parent()), move |folder| below_root(folder.parent()))
    }

    /// This path with `name`, a single component or a relative path, below it.
    #[must_use]
    pub fn join(&self, name: &[u8]) -> Self {
        // Taken apart at each of two thousand levels, the paths below a deep folder would cost time by the square of the depth.
        let is_plain = !name.contains(&b'/') && !matches!(name, b"" | b"." | b"..");
        if is_plain && !self.0.is_empty() {
            return Self([self.as_bytes(), b"/", name].concat().into_boxed_slice());
        }
        Self::new(&[self.as_bytes(), b"/", name].concat())
    }

    /// This path with `name`, one component, below it.
    #[must_use]
    pub(crate) fn child(&self, name: &[u8]) -> Self {
        if self.0.is_empty() {
            return Self(name.into());
        }
        Self([self.as_bytes(), b"/", name].concat().into_boxed_slice())
    }

    /// Whether this path is `other` or lies below it, by components.
    pub fn starts_with(&self, other: &Self) -> bool {
        self.0
            .strip_prefix(other.as_bytes())
            // `usr/lib64` begins with the bytes of `usr/lib` and does not lie below it.
            .is_some_and(|rest| other.0.is_empty() || rest.first().is_none_or(|&b| b == b'/'))
    }
}

/// The components of a path as written: empty ones and `.` left out.
pub fn split_components(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|&b| b == b'/')
        .filter(|part| !part.is_empty() && *part != b".")
}

/// Whether a pattern takes all units, bytes of a name or components of a path. Only the last wildcard is ever tried again, longer by one unit: what an earlier
/// one could take instead, the last one can take as well. So the time is bounded by the product of the lengths.
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
        // Through `new`, so that no bytes make a path that breaks the invariant.
        <&[u8]>::deserialize(from).map(Self::new)
    }
}

// Maps by path are searched with plain bytes: order and hash are those of the bytes, as `Borrow` asks.
impl Borrow<[u8]> for RootPath {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::RootPath;

    #[test]
    fn every_spelling_of_a_member_name_is_one_path() {
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
