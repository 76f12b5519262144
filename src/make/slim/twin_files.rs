//! Stores identical copies of a library in one folder once. Wheels contain such copies in place of links.
//!
//! This only covers copies in the same folder: in an ordinary toolkit, two names of a library there are links to one
//! file. Copies in two packages are kept, because one process may load both.

use std::collections::BTreeMap;

use image_linkage::layer::{FileFacts, LayerEntry, LayerIndex};
use image_linkage::path::RootPath;

/// Files of one folder and layer with the same bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TwinFiles {
    /// The file that is kept.
    pub file: RootPath,
    /// The other files, which become links to it.
    pub links: Vec<RootPath>,
    /// The size of one file in bytes.
    pub bytes: u64,
}

impl TwinFiles {
    /// The saved size in bytes.
    pub(crate) fn saved_bytes(&self) -> u64 {
        self.bytes * self.links.len() as u64
    }
}

/// The twins in a layer among the files for which `stays` holds, by path. Only hashed libraries are compared.
pub(crate) fn find_twin_files(layer: &LayerIndex, stays: impl Fn(&RootPath) -> bool) -> Vec<TwinFiles> {
    let mut groups: BTreeMap<_, Vec<(RootPath, &FileFacts)>> = BTreeMap::new();
    for (path, entry) in layer.entries.iter() {
        let LayerEntry::File(facts) = entry else { continue };
        // Hard links share owner and mode.
        if let Some(sha256) = facts.sha256.as_deref().filter(|_| facts.elf.is_some() && stays(&path)) {
            let key = (path.parent(), sha256, facts.mode, facts.uid, facts.gid);
            groups.entry(key).or_default().push((path, facts));
        }
    }
    let twins = groups.into_values().filter_map(|group| {
        let ((file, facts), others) = group.split_first()?;
        let same = others
            .iter()
            .filter(|(_, other)| (other.capabilities, &other.access_list) == (facts.capabilities, &facts.access_list));
        let links: Vec<RootPath> = same.map(|(path, _)| path.clone()).collect();
        (!links.is_empty()).then(|| TwinFiles {
            file: file.clone(),
            links,
            bytes: facts.bytes,
        })
    });
    twins.collect()
}

#[cfg(test)]
mod tests {
    use super::{TwinFiles, find_twin_files};
    use image_linkage::layer::{FileCapabilities, FileFacts, LayerEntry, LayerIndex};
    use image_linkage::path::RootPath;

    #[test]
    fn a_copy_with_other_rights_stays_a_file() {
        let file = FileFacts {
            bytes: 8,
            mode: 0o755,
            elf: Some(Box::default()),
            sha256: Some("5".into()),
            ..FileFacts::default()
        };
        // The value that `setcap cap_net_raw+ep` writes.
        let raw = FileCapabilities::read(&[1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert!(raw.is_some());
        let mut layer = LayerIndex::empty();
        let mut add = |path: &str, facts: FileFacts| layer.entries.insert(&path.into(), LayerEntry::File(facts.into()));
        add("a/1", file.clone());
        add("a/2", file.clone());
        add(
            "a/capable",
            FileFacts {
                capabilities: raw,
                ..file.clone()
            },
        );
        add(
            "a/mode",
            FileFacts {
                mode: 0o700,
                ..file.clone()
            },
        );
        add("b/1", file);
        let twins = TwinFiles {
            file: RootPath::from("a/1"),
            links: vec!["a/2".into()],
            bytes: 8,
        };
        assert_eq!(find_twin_files(&layer, |_| true), [twins]);
    }
}
