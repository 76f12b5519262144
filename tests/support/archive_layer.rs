//! Reads a layer of an archive that `slim` wrote.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::path::Path;

use serde_json::Value;

/// The layer's files with their bytes, and its hard links with their targets.
pub fn layer_of(archive: &Path, number: usize) -> BTreeMap<String, Result<Vec<u8>, String>> {
    let open = || tar::Archive::new(fs::File::open(archive).unwrap());
    let read = |name: &str| {
        let mut archive = open();
        let mut found = archive.entries().unwrap().map(Result::unwrap);
        let mut found = found
            .find(|entry| entry.path().unwrap().to_str() == Some(name))
            .unwrap();
        let mut bytes = Vec::new();
        found.read_to_end(&mut bytes).unwrap();
        bytes
    };
    let manifest: Value = serde_json::from_slice(&read("manifest.json")).unwrap();
    let layer = read(manifest[0]["Layers"][number].as_str().unwrap());
    let mut tar = tar::Archive::new(layer.as_slice());
    let mut members = BTreeMap::new();
    for entry in tar.entries().unwrap() {
        let mut entry = entry.unwrap();
        let path = entry.path().unwrap().display().to_string();
        let link = entry.link_name().unwrap().map(|link| link.display().to_string());
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        members.insert(path, link.map_or(Ok(bytes), Err));
    }
    members
}
