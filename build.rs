//! Puts the data files of `rules/`, `profiles/` and `Dockerfile.templates/` into the program: one list per folder, of stems and contents.

#![allow(clippy::disallowed_methods, reason = "a build script reads the folder it is in")]

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let out = env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("cargo sets OUT_DIR"))?;
    let lists = [
        list("RULES", "rules", "yaml")?,
        list("CONSUMERS", "profiles/consumers", "yaml")?,
        list("PHASES", "profiles/phases", "yaml")?,
        list("PROFILERS", "profiles/profilers", "yaml")?,
        list("LIBRARIES", "profiles/libraries", "yaml")?,
        list("TABLES", "profiles/cupti", "yaml")?,
        list("CSV_TABLES", "profiles/cupti", "csv")?,
        list("ADVICE", "profiles", "yaml")?,
        list("TEMPLATES", "Dockerfile.templates", "j2")?,
    ];
    fs::write(Path::new(&out).join("data_files.rs"), lists.concat())
}

fn list(name: &str, folder: &str, ending: &str) -> io::Result<String> {
    println!("cargo::rerun-if-changed={folder}");
    let mut files: Vec<_> = fs::read_dir(folder)?
        .collect::<Result<Vec<_>, _>>()?
        .iter()
        .map(fs::DirEntry::path)
        .collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == ending));
    files.sort();
    let mut text = format!("pub static {name}: &[(&str, &str)] = &[\n");
    for file in files {
        let stem = file.file_stem().unwrap_or_default().display().to_string();
        let path = fs::canonicalize(&file)?;
        let _ = writeln!(text, "    ({stem:?}, include_str!({:?})),", path.display().to_string());
    }
    Ok(text + "];\n")
}
