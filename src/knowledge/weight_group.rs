//! The groups of an image's bytes: what the files are, why they stay, and what would make them go.

use std::sync::OnceLock;

use serde::Deserialize;

use super::dead_weight::DeadWeightTable;
use super::mistake::TextMistake;
use super::patterns::{PatternLists, path_glob};
use super::yaml_text::YamlText;
use image_linkage::escape::escape_bytes;

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

/// The groups, the user's first.
#[derive(Debug, Clone, Default)]
pub struct WeightTable {
    groups: Vec<WeightGroup>,
    patterns: OnceLock<PatternLists>,
}

impl WeightTable {
    /// Adds the groups of a file before those of earlier files.
    ///
    /// Errors: A group is already there, its kind is unknown, or a pattern is invalid.
    pub(super) fn add(
        &mut self,
        text: YamlText<'_>,
        more: Vec<WeightGroup>,
        kinds: &DeadWeightTable,
    ) -> Result<(), TextMistake> {
        let kinds: Vec<&str> = kinds.kinds.iter().map(|kind| kind.id.as_str()).collect();
        let is_users = !self.groups.is_empty();
        for (number, group) in more.iter().enumerate() {
            let (row, earlier) = (number.to_string(), more.iter().take(number));
            if self.groups.iter().chain(earlier).any(|other| other.id == group.id) {
                return Err(text.mistake(
                    &[&row, "group"],
                    format!("there is a group \"{}\" already", escape_bytes(group.id.as_bytes())),
                ));
            }
            text.check_names(&[&row, "kinds"], &group.kinds, "kind", &kinds)?;
            // A test compiles the built-in patterns. To parse them at each start would take too long.
            for (number, pattern) in group.files.iter().enumerate().filter(|_| is_users) {
                let place = [&row, "files", &number.to_string()];
                path_glob(pattern).map_err(|why| text.mistake(&place, why))?;
            }
        }
        self.groups.splice(0..0, more);
        self.patterns = OnceLock::new();
        if is_users {
            let compiled = self.compile().map_err(TextMistake::of_whole)?;
            self.patterns = OnceLock::from(compiled);
        }
        Ok(())
    }

    fn compile(&self) -> Result<PatternLists, String> {
        PatternLists::of(self.groups.iter().map(|group| &group.files))
    }

    /// The groups in the order in which they match.
    pub fn groups(&self) -> &[WeightGroup] {
        &self.groups
    }

    /// The numbers of the groups that a path matches, in order. The path has no leading `/`.
    pub fn matching(&self, path: &[u8]) -> impl Iterator<Item = usize> {
        let patterns = self.patterns.get_or_init(|| {
            let compiled = self.compile();
            compiled.expect("a test compiles the built-in patterns, and the user's are compiled when they are read")
        });
        patterns.lists(path).into_iter()
    }
}
