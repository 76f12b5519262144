//! The groups of an image's bytes: what the files are, why they stay, and what would make them go.

use std::sync::OnceLock;

use serde::Deserialize;

use super::patterns::PatternLists;

/// A group of files (`profiles/cupti/weight.yaml`).
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WeightGroup {
    /// The name used in data.
    #[serde(rename = "group")]
    pub id: String,
    /// The name used in reports.
    pub what: String,
    /// Path patterns, without the leading `/`.
    #[serde(default)]
    files: Vec<String>,
    /// Why the files stay. It holds in every image.
    pub why: String,
    /// How a user can make an image without them.
    #[serde(default)]
    pub smaller: Option<String>,
    /// The kinds of dead weight whose uses in an image are reasons, too.
    #[serde(default)]
    pub kinds: Vec<String>,
    /// Its part in the reasons, or in the count.
    #[serde(default)]
    pub role: GroupRole,
}

/// The part of a group in the reasons of others, or in the count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GroupRole {
    /// None.
    #[default]
    Plain,
    /// Its reasons name the frameworks that link it.
    Library,
    /// The reasons of libraries name it.
    Framework,
    /// The GPU code that `slim --gpu` may remove from objects. Their other bytes belong to the group of the path.
    GpuCode,
    /// A file with a hard link outside belongs to the group of the link.
    Cache,
}

/// The groups.
#[derive(Debug, Clone, Deserialize)]
#[serde(from = "Vec<WeightGroup>")]
pub struct WeightTable {
    groups: Vec<WeightGroup>,
    patterns: OnceLock<PatternLists>,
}

impl From<Vec<WeightGroup>> for WeightTable {
    fn from(groups: Vec<WeightGroup>) -> Self {
        let patterns = OnceLock::new();
        Self { groups, patterns }
    }
}

impl WeightTable {
    /// The groups in the order in which they match.
    pub fn groups(&self) -> &[WeightGroup] {
        &self.groups
    }

    /// The numbers of the groups that a path matches, in order. The path has no leading `/`.
    pub fn matching(&self, path: &[u8]) -> impl Iterator<Item = usize> {
        let compile = || PatternLists::of(self.groups.iter().map(|group| &group.files));
        self.patterns.get_or_init(compile).lists(path).into_iter()
    }
}
