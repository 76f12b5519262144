//! Copies of one library in one folder, which a wheel holds in the place of links: they are stored once.
//!
//! Only within a folder: there two names of a library mean one library to whoever has it installed as a toolkit has it. Two
//! packages with a copy each may both be loaded by one process, and are left alone.

use std::collections::BTreeMap;

use image_linkage::layer::{FileFacts, LayerEntry, LayerIndex};
use image_linkage::path::RootPath;

/// Files of one folder and one layer with the same bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TwinFiles {
    /// The one that stands for all of them.
    pub file: RootPath,
    /// The others, which become links to it.
    pub links: Vec<RootPath>,
    /// The bytes of one.
    pub bytes: u64,
}

impl TwinFiles {
    /// The bytes that are not stored any more.
    pub(crate) fn saved_bytes(&self) -> u64 {
        self.bytes * self.links.len() as u64
    }
}

/// The twins of a layer among the files that `stays` has, by path. Only libraries whose identity is known are compared.
pub(crate) fn find_twin_files(layer: &LayerIndex, stays: impl Fn(&RootPath) -> bool) -> Vec<TwinFiles> {
    let mut groups: BTreeMap<_, Vec<(RootPath, &FileFacts)>> = BTreeMap::new();
    for (path, entry) in layer.entries.iter() {
        let LayerEntry::File(facts) = entry else { continue };
        // One inode has one owner and one mode.
        if let Some(sha256) = facts.sha256.as_deref().filter(|_| facts.elf.is_some() && stays(&path)) {
            let key = (path.parent(), sha256, facts.mode, facts.uid, facts.gid);
            groups.entry(key).or_default().push((path, facts));
        }
    }
    let twins = groups.into_values().filter_map(|group| {
        let ((file, facts), others) = group.split_first()?;
        let is_same = |(_, other): &&(_, &FileFacts)| {
            (other.capabilities, &other.access_list) == (facts.capabilities, &facts.access_list)
        };
        let links: Vec<RootPath> = others.iter().filter(is_same).map(|(path, _)| path.clone()).collect();
        (!links.is_empty()).then(|| TwinFiles {
            file: file.clone(),
            links,
            bytes: facts.bytes,
        })
    });
    twins.collect()
}
