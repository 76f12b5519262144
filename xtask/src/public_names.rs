//! Counts the public names of the crates, and how many of them another crate's sources use.
#![expect(clippy::disallowed_methods, reason = "this chore reads the repository's own folder")]

use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

const CRATES: [&str; 6] = [
    "crates/container-start/src",
    "crates/python-path/src",
    "crates/gpu-code/src",
    "crates/image-linkage/src",
    "crates/image-source/src",
    "crates/image-store/src",
];
const ITEMS: [&str; 8] = ["fn", "struct", "enum", "trait", "const", "static", "type", "mod"];

/// The counts as a line. Each name counts once, such as `new` of several types; fields and variants are not counted.
///
/// Errors: A folder or file that cannot be read.
pub fn count() -> Result<String, Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let (mut public, mut used) = (BTreeSet::new(), BTreeSet::new());
    for own in CRATES {
        let others = CRATES.iter().chain(&["src"]).filter(|other| **other != own);
        let mut words = BTreeSet::new();
        for other in others {
            let texts = sources(&root.join(other))?.concat();
            words.extend(
                texts
                    .split(|c: char| !c.is_alphanumeric() && c != '_')
                    .map(str::to_owned),
            );
        }
        for text in sources(&root.join(own))? {
            let names: BTreeSet<String> = text.lines().filter_map(public_name).collect();
            used.extend(names.intersection(&words).cloned());
            public.extend(names);
        }
    }
    let (public, used) = (public.len(), used.len());
    Ok(format!(
        "{public} names are public in the crates, {used} of them used by another one\n"
    ))
}

fn public_name(line: &str) -> Option<String> {
    let mut words = line
        .trim_start()
        .strip_prefix("pub ")?
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .skip_while(|word| !ITEMS.contains(word))
        .peekable();
    // `pub const fn` is a function.
    let item = words.next()?;
    let name = words.next_if(|word| item != "const" || *word != "fn");
    name.or_else(|| words.nth(1)).map(str::to_owned)
}

fn sources(folder: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let mut texts = Vec::new();
    let mut folders: Vec<PathBuf> = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                texts.push(crate::layers::code_of(&fs::read_to_string(&path)?));
            }
        }
    }
    Ok(texts)
}
