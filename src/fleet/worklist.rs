//! The worklist: a line of JSON for each image, by digest and platform, in one order however it was made.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use image_source::{Digest, Platform};

/// The name of the contract of a line.
const SCHEMA: &str = "cupti-audit/work/v1";

/// One image that is to be audited.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WorkEntry {
    schema: String,
    /// What an audit is asked for: a registry's image by its digest, so that a tag that moves on changes nothing.
    pub image: String,
    /// The digest of the platform's manifest.
    pub digest: String,
    /// `os/architecture[/variant]`.
    pub platform: String,
    /// The references that lead to it, sorted.
    pub names: Vec<String>,
    /// Who runs it, as `Deployment team-a/trainer`, or the Dockerfile that begins from it; sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub used_by: Vec<String>,
}

impl WorkEntry {
    /// The image that `name` leads to.
    pub(crate) fn new(image: String, digest: &Digest, platform: &Platform, name: &str, used_by: &[String]) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            image,
            digest: digest.to_string(),
            platform: platform.to_string(),
            names: vec![name.to_owned()],
            used_by: used_by.to_vec(),
        }
    }

    /// Reads a line.
    ///
    /// Errors: What is wrong with it, in words.
    fn read(line: &str) -> Result<Self, String> {
        let entry: Self =
            serde_json::from_str(line).map_err(|error| format!("it is no line of a worklist: {error}"))?;
        if entry.schema != SCHEMA {
            return Err(format!("its schema is {:?}, and {SCHEMA} is expected", entry.schema));
        }
        entry
            .digest
            .parse::<Digest>()
            .map_err(|error| format!("its digest is none: {error}"))?;
        // An empty one would be this machine's, and the workers of a fleet may differ.
        if entry.platform.is_empty() {
            return Err("it has no platform".to_owned());
        }
        Platform::parse(&entry.platform)?;
        if entry.image.is_empty() || entry.image == "-" {
            return Err("it names no image".to_owned());
        }
        Ok(entry)
    }
}

/// All images of a fleet, one entry for each digest and platform.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Worklist {
    entries: BTreeMap<(String, String), WorkEntry>,
}

impl Worklist {
    /// Adds an image, or a name to one that is there.
    pub(crate) fn add(&mut self, entry: WorkEntry) {
        let key = (entry.digest.clone(), entry.platform.clone());
        let Some(there) = self.entries.get_mut(&key) else {
            self.entries.insert(key, entry);
            return;
        };
        // Whichever came first, the image is asked for at the same place.
        if entry.image < there.image {
            there.image = entry.image;
        }
        for (all, more) in [(&mut there.names, entry.names), (&mut there.used_by, entry.used_by)] {
            all.extend(more);
            all.sort();
            all.dedup();
        }
    }

    /// Reads the lines of a worklist; empty ones are passed over, and what stands twice counts once.
    ///
    /// Errors: Each line that is none, with its number.
    pub(crate) fn read(text: &str) -> Result<Self, Vec<String>> {
        let mut list = Self::default();
        let mut wrong = Vec::new();
        for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
            match WorkEntry::read(line) {
                Ok(entry) => list.add(entry),
                Err(error) => wrong.push(format!("line {number}: {error}")),
            }
        }
        if wrong.is_empty() { Ok(list) } else { Err(wrong) }
    }

    /// The entries in the order of their digests, which is how shares are dealt.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &WorkEntry> {
        self.entries.values()
    }

    /// How many images there are.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The lines of the worklist.
    pub(crate) fn text(&self) -> String {
        let line = |entry| serde_json::to_string(entry).map(|line| line + "\n");
        // Texts and lists of texts are always written.
        self.entries().filter_map(|entry| line(entry).ok()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{WorkEntry, Worklist};
    use image_source::{Digest, Platform};

    fn entry(image: &str, name: &str) -> WorkEntry {
        let platform = Platform::parse("linux/amd64").unwrap();
        WorkEntry::new(
            image.to_owned(),
            &Digest::of(b"x"),
            &platform,
            name,
            &["Pod a/b".to_owned()],
        )
    }

    #[test]
    fn in_whatever_order_names_come_the_list_is_the_same_and_reads_back() {
        let (a, b) = (
            entry("r.io/a@sha256:1", "r.io/a:1"),
            entry("r.io/b@sha256:1", "r.io/b:1"),
        );
        let mut lists = [[a.clone(), b.clone(), a.clone()], [b.clone(), a.clone(), b]].map(|entries| {
            let mut list = Worklist::default();
            entries.into_iter().for_each(|entry| list.add(entry));
            list
        });
        assert_eq!(lists[0], lists[1]);
        let text = lists[0].text();
        assert_eq!(text.lines().count(), 1);
        assert!(text.contains(r#""image":"r.io/a@sha256:1""#) && text.contains(r#""names":["r.io/a:1","r.io/b:1"]"#));
        assert_eq!(
            Worklist::read(&format!("\n{text}\n{text}")),
            Ok(std::mem::take(&mut lists[0]))
        );
    }

    #[test]
    fn each_line_that_is_none_is_told_with_its_number() {
        let good = serde_json::to_string(&entry("r.io/a", "r.io/a")).unwrap();
        let lines = [
            good.clone(),
            "nginx:latest".to_owned(),
            good.replace("work/v1", "work/v9"),
            good.replace("sha256:", "sha256:zz"),
            good.replace("linux/amd64", "a/b/c/d"),
            good.replace("\"r.io/a\",\"digest\"", "\"-\",\"digest\""),
            good.replace("names", "nemas"),
        ];
        let wrong = Worklist::read(&lines.join("\n")).unwrap_err();
        let expected = [
            "line 2: it is no line of a worklist",
            "line 3: its schema is \"cupti-audit/work/v9\"",
            "line 4: its digest is none",
            "line 5: invalid platform",
            "line 6: it names no image",
            "line 7: it is no line of a worklist: unknown field `nemas`",
        ];
        assert_eq!(wrong.len(), expected.len(), "{wrong:?}");
        for (wrong, expected) in wrong.iter().zip(expected) {
            assert!(wrong.starts_with(expected), "{wrong}");
        }
    }
}
