//! Images that are kept in `testdata/processes/`: each is small, and a report once said of it what a run refuted.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::compare::{Difference, Kind, compare_all};
use super::shrink;
use super::spec::ImageSpec;
use super::world::World;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/processes")
}

/// The images that are kept, by the names of their files.
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

/// Makes an image small on which a claim of this kind is refuted, keeps it, and says where.
pub fn keep(world: &World, spec: &ImageSpec, kind: Kind) -> String {
    let find = |spec: &ImageSpec| -> Option<Difference> {
        let comparison = compare_all(world, std::slice::from_ref(spec)).pop()?;
        // A program that is not there answers nothing.
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
    let mut small = shrink::shrink(spec.clone(), |spec| find(spec).is_some());
    let text = find(&small).map_or_else(String::new, |difference| difference.text);
    small.about = format!("once: {text}");
    fs::write(&file, small.to_string()).unwrap();
    format!("{small}{text}\nkept as {}", file.display())
}
