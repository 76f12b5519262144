//! Puts a hash of the indexing code into the program, as part of an index's fingerprint. A version number raised by
//! hand would be forgotten, and old cached indexes would be used with new code.

#![allow(clippy::disallowed_methods, reason = "a build script reads the folder it is in")]

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;
use std::{fs, io};

fn main() -> io::Result<()> {
    // SipHash without keys: the same sources and compiler give the same hash on every machine.
    let mut hasher = DefaultHasher::new();
    for part in [
        "src/layer",
        "src/elf",
        "src/path.rs",
        "src/digest.rs",
        "src/name_map.rs",
        "../gpu-code/src",
    ] {
        // A published crate is alone in its folder, and the version of its dependency tells the same.
        if !Path::new(part).exists() {
            continue;
        }
        println!("cargo::rerun-if-changed={part}");
        hash_sources(Path::new(part), &mut hasher)?;
    }
    println!("cargo::rustc-env=INDEX_SOURCES={:016x}", hasher.finish());
    Ok(())
}

fn hash_sources(path: &Path, hasher: &mut DefaultHasher) -> io::Result<()> {
    if path.is_dir() {
        let mut inside = fs::read_dir(path)?
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<io::Result<Vec<_>>>()?;
        inside.sort();
        return inside.iter().try_for_each(|path| hash_sources(path, hasher));
    }
    fs::read(path)?.hash(hasher);
    Ok(())
}
