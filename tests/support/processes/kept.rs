//! The images in `testdata/processes/`: on each, a run once refuted a claim of the report.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::compare::{Difference, Kind, compare_all};
use super::spec::ImageSpec;
use super::world::World;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/processes")
}

/// The kept images by file name.
pub fn kept() -> BTreeMap<String, ImageSpec> {
    let mut specs = BTreeMap::new();
    for file in fs::read_dir(folder()).unwrap() {
        let file = file.unwrap().path();
        if file.extension().is_some_and(|end| end == "json") {
            let text = fs::read_to_string(&file).unwrap();
            let name = file.file_stem().unwrap().to_str().unwrap().to_owned();
            let spec = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
            specs.insert(name, spec);
        }
    }
    specs
}

/// Writes an image with a refuted claim of this kind to the folder, and returns a message with its path.
pub fn keep(world: &World, spec: &ImageSpec, kind: Kind) -> String {
    let find = |spec: &ImageSpec| -> Option<Difference> {
        let comparison = compare_all(world, std::slice::from_ref(spec)).pop()?;
        // A missing program gives no result.
        let answers = |difference: &Difference| !difference.text.contains("cannot start: No such file");
        let mut found = comparison.differences.into_iter();
        found.find(|difference| difference.kind == kind && answers(difference))
    };
    let names: Vec<String> = spec.features.iter().map(|feature| feature.name()).collect();
    let name = format!("{}-{}", names.join("-"), kind.name());
    let file = folder().join(&name).with_extension("json");
    if file.exists() {
        return format!("{name} is kept already");
    }
    let text = find(spec).map_or_else(String::new, |difference| difference.text);
    let mut kept = spec.clone();
    kept.about = format!("once: {text}");
    fs::write(&file, kept.to_string()).unwrap();
    format!("{kept}{text}\nkept as {}", file.display())
}
