//! Embeds the data files of `rules/`, `profiles/` and `Dockerfile.templates/` in the program: one list per folder, of
//! stems, contents, and the parsed YAML.

#![allow(clippy::disallowed_methods, reason = "a build script reads the folder it is in")]

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::{env, fs, io};

use granit_parser::{Event, Parser, ScalarStyle, ScanError};

fn main() -> io::Result<()> {
    let out = env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("cargo sets OUT_DIR"))?;
    let lists = [
        list("RULES", "rules", "yaml")?,
        list("CONSUMERS", "profiles/consumers", "yaml")?,
        list("PHASES", "profiles/phases", "yaml")?,
        list("PROFILERS", "profiles/profilers", "yaml")?,
        list("LIBRARIES", "profiles/libraries", "yaml")?,
        list("ERRORS", "profiles/errors", "yaml")?,
        list("TABLES", "profiles/cupti", "yaml")?,
        list("CSV_TABLES", "profiles/cupti", "csv")?,
        list("ADVICE", "profiles", "yaml")?,
        list("TEMPLATES", "Dockerfile.templates", "j2")?,
        list("SNIPPETS", "profiles/snippets", "py")?,
    ];
    name_build();
    fs::write(Path::new(&out).join("data_files.rs"), lists.concat())
}

/// Sets the commit and the target of this build. The commit comes from the environment, or from the repository for a
/// release build.
fn name_build() {
    let is_release = env::var("PROFILE").is_ok_and(|profile| profile == "release");
    // Release builds only: otherwise everything would be recompiled after each commit.
    let of_repository = || git(&["rev-parse", "--short=12", "HEAD"]).filter(|_| is_release);
    println!("cargo::rerun-if-env-changed=CUPTI_AUDIT_COMMIT");
    if let Some(commit) = env::var("CUPTI_AUDIT_COMMIT").ok().or_else(of_repository) {
        println!("cargo::rustc-env=CUPTI_AUDIT_COMMIT={commit}");
    }
    if let Some(log) =
        git(&["rev-parse", "--git-path", "logs/HEAD"]).filter(|log| is_release && Path::new(log).exists())
    {
        println!("cargo::rerun-if-changed={log}");
    }
    let target = env::var("TARGET").unwrap_or_default();
    println!("cargo::rustc-env=CUPTI_AUDIT_TARGET={target}");
}

/// The output of git; `None` without a repository, as in a source package.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout)
        .ok()
        .filter(|_| output.status.success())?;
    Some(text.trim().to_owned())
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
    let mut text = format!("pub static {name}: DataTexts = &[\n");
    for file in files {
        let stem = file.file_stem().unwrap_or_default().display().to_string();
        let path = fs::canonicalize(&file)?;
        let parsed = if ending == "yaml" {
            parse(&file)?
        } else {
            "None".to_owned()
        };
        let _ = writeln!(
            text,
            "    ({stem:?}, include_str!({:?}), {parsed}),",
            path.display().to_string()
        );
    }
    Ok(text + "];\n")
}

/// A YAML file as a `YamlNode` in Rust. Parsing at each start would double the instructions of a small audit.
fn parse(file: &Path) -> io::Result<String> {
    let text = fs::read_to_string(file)?;
    let events: Result<Vec<_>, _> = Parser::new_from_str(&text).map(|event| Ok(event?.0)).collect();
    let events = events.map_err(|error: ScanError| io::Error::other(format!("{}: {error}", file.display())))?;
    // An alias, or a key without a value, needs a full reader. Only the known errors and the evidence have
    // them, which no audit reads.
    let is_hard = |event: &Event| match event {
        Event::Alias(_) => true,
        Event::Scalar(text, style, ..) => *style == ScalarStyle::Plain && ["", "~", "null"].contains(&&**text),
        _ => false,
    };
    if events.iter().any(is_hard) {
        return Ok("None".to_owned());
    }
    let document = node(&mut events.into_iter()).unwrap_or_default();
    Ok(format!("Some({document})"))
}

/// The next node in Rust; `None` at the end of a collection.
fn node<'t>(events: &mut impl Iterator<Item = Event<'t>>) -> Option<String> {
    loop {
        return match events.next()? {
            Event::Scalar(scalar, ..) => Some(format!("Text({scalar:?})")),
            Event::SequenceStart(..) => {
                let items: Vec<String> = std::iter::from_fn(|| node(events)).collect();
                Some(format!("List(&[{}])", items.join(",")))
            }
            Event::MappingStart(..) => {
                let entry = || Some(format!("({},{})", node(events)?, node(events)?));
                let entries: Vec<String> = std::iter::from_fn(entry).collect();
                Some(format!("Map(&[{}])", entries.join(",")))
            }
            Event::SequenceEnd | Event::MappingEnd => None,
            _ => continue,
        };
    }
}
