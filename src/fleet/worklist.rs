//! The worklist: one line of JSON per image, sorted by digest and platform.

use std::collections::BTreeMap;
use std::io::{BufRead, Read as _};

use serde::{Deserialize, Serialize};
use serde_json::error::Category;

use super::result_document::check_schema;
use image_source::{Digest, Platform};

/// The schema of a line.
const SCHEMA: &str = "cupti-audit/worklist/v1";
/// The maximum length of a line: an image with about ten thousand names.
const LINE_BYTES: u64 = 1 << 20;
/// The maximum number of reported invalid lines; another kind of file has only those.
const WRONG_LINES: usize = 20;

/// An image to audit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WorkEntry {
    schema: String,
    /// The image to pass to an audit. A registry's image has its digest, so that a moved tag does not matter.
    pub image: String,
    /// The digest of the platform's manifest.
    pub digest: String,
    /// `os/architecture[/variant]`.
    pub platform: String,
    /// The references to it, sorted.
    pub names: Vec<String>,
    /// Its users, such as `Deployment team-a/trainer` or a Dockerfile that builds upon it, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub used_by: Vec<String>,
}

impl WorkEntry {
    /// The entry of the image with the name `name`.
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

    /// Parses a line without its newline.
    ///
    /// Errors: The problem with it.
    fn read(line: &[u8]) -> Result<Self, String> {
        let entry: Self = serde_json::from_slice(line).map_err(|error| match error.classify() {
            Category::Eof => "it ends within an object; jq -c writes each object in one line".to_owned(),
            Category::Syntax => {
                "it is not a worklist line; cupti-audit fleet list makes a worklist of names".to_owned()
            }
            Category::Data | Category::Io => format!("it is not a worklist line: {error}"),
        })?;
        check_schema(&entry.schema, SCHEMA)?;
        entry
            .digest
            .parse::<Digest>()
            .map_err(|error| format!("its digest is none: {error}"))?;
        // An empty platform would mean the local one, and workers may differ.
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

/// All images of a fleet, one entry per digest and platform.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Worklist {
    entries: BTreeMap<(String, String), WorkEntry>,
}

impl Worklist {
    /// Adds an image, or a name to an existing entry.
    pub(crate) fn add(&mut self, entry: WorkEntry) {
        let key = (entry.digest.clone(), entry.platform.clone());
        let Some(there) = self.entries.get_mut(&key) else {
            self.entries.insert(key, entry);
            return;
        };
        // The result must not depend on the order of additions.
        if entry.image < there.image {
            there.image = entry.image;
        }
        for (all, more) in [(&mut there.names, entry.names), (&mut there.used_by, entry.used_by)] {
            all.extend(more);
            all.sort();
            all.dedup();
        }
    }

    /// The lines of the worklist.
    pub(crate) fn text(&self) -> String {
        // Strings and lists of strings always serialize.
        let lines = self
            .entries
            .values()
            .filter_map(|entry| serde_json::to_string(entry).ok());
        lines.map(|line| line + "\n").collect()
    }
}

/// Reads a worklist of any length, and calls `each` with every entry and its number from 0. Skips empty lines. Returns
/// the number of entries.
///
/// Errors: Why it cannot be read, or the first invalid lines with their numbers.
pub(crate) fn read_worklist(
    from: &mut impl BufRead,
    mut each: impl FnMut(usize, WorkEntry),
) -> Result<usize, Vec<String>> {
    let mut wrong = Vec::new();
    let mut count = 0;
    for number in 1_u64.. {
        let mut line = Vec::new();
        let read = from.by_ref().take(LINE_BYTES + 1).read_until(b'\n', &mut line);
        let bytes = read.map_err(|error| vec![error.to_string()])?;
        // If the first line is of another kind, so are the others.
        if bytes == 0 || wrong.len() == WRONG_LINES || (count == 0 && !wrong.is_empty()) {
            break;
        }
        if line.len() as u64 > LINE_BYTES {
            wrong.push(format!("line {number} is longer than {LINE_BYTES} bytes"));
            break;
        }
        // Windows editors write a byte order mark.
        let text = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&line).trim_ascii();
        match WorkEntry::read(text) {
            _ if text.is_empty() => {}
            Ok(entry) => {
                each(count, entry);
                count += 1;
            }
            Err(error) => wrong.push(format!("line {number}: {error}")),
        }
    }
    if wrong.is_empty() { Ok(count) } else { Err(wrong) }
}

#[cfg(test)]
mod tests {
    use super::{WorkEntry, Worklist, read_worklist};
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
    fn the_order_of_names_does_not_matter_and_the_list_reads_back() {
        let (a, b) = (
            entry("r.io/a@sha256:1", "r.io/a:1"),
            entry("r.io/b@sha256:1", "r.io/b:1"),
        );
        let lists = [[a.clone(), b.clone(), a.clone()], [b.clone(), a.clone(), b]].map(|entries| {
            let mut list = Worklist::default();
            for entry in entries {
                list.add(entry);
            }
            list
        });
        assert_eq!(lists[0], lists[1]);
        let text = lists[0].text();
        assert_eq!(text.lines().count(), 1);
        assert!(text.contains(r#""image":"r.io/a@sha256:1""#) && text.contains(r#""names":["r.io/a:1","r.io/b:1"]"#));
        let mut read = Vec::new();
        let lines = format!("\u{feff}\r\n{text}\r\n{}", text.trim_end());
        let count = read_worklist(&mut lines.as_bytes(), |number, entry| read.push((number, entry)));
        let only = lists[0].entries.values().next().unwrap();
        assert_eq!((count, read), (Ok(2), vec![(0, only.clone()), (1, only.clone())]));
    }

    #[test]
    fn invalid_lines_are_reported_with_their_numbers() {
        let good = serde_json::to_string(&entry("r.io/a", "r.io/a")).unwrap();
        let lines = [
            good.clone(),
            "nginx:latest".to_owned(),
            good.replace("worklist/v1", "worklist/v9"),
            good.replace("sha256:", "sha256:zz"),
            good.replace("linux/amd64", "a/b/c/d"),
            good.replace("\"r.io/a\",\"digest\"", "\"-\",\"digest\""),
            good.replace("names", "nemas"),
        ];
        let read = |text: &str| read_worklist(&mut text.as_bytes(), |_, _| {}).unwrap_err();
        let wrong = read(&lines.join("\n"));
        let expected = [
            "line 2: it is not a worklist line",
            "line 3: its schema is \"cupti-audit/worklist/v9\"",
            "line 4: its digest is none",
            "line 5: invalid platform",
            "line 6: it names no image",
            "line 7: it is not a worklist line: unknown field `nemas`",
        ];
        assert_eq!(wrong.len(), expected.len(), "{wrong:?}");
        for (wrong, expected) in wrong.iter().zip(expected) {
            assert!(wrong.starts_with(expected), "{wrong}");
        }
        assert_eq!(read(&format!("{good}\n{}", "x\n".repeat(1000))).len(), 20);
        let other = "line 1: it is not a worklist line; cupti-audit fleet list makes a worklist of names";
        assert_eq!(read(&"x\n".repeat(1000)), [other]);
        let whole = "line 1: it ends within an object; jq -c writes each object in one line";
        assert_eq!(read(&good.replace(',', ",\n")), [whole]);
        let endless = format!("{good}\n{}", "x".repeat(2 << 20));
        assert_eq!(read(&endless), ["line 2 is longer than 1048576 bytes"]);
    }
}
