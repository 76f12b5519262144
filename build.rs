//! Embeds the data files of `rules/`, `profiles/` and `Dockerfile.templates/` in the program: one list per folder, of
//! stems, contents, and the YAML as JSON.

#![allow(clippy::disallowed_methods, reason = "a build script reads the folder it is in")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::{env, fs, io};

use granit_parser::{Event, Parser, ScalarStyle, ScanError};

fn main() -> io::Result<()> {
    let out = env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("cargo sets OUT_DIR"))?;
    let out = Path::new(&out);
    let lists = [
        list(out, "RULES", "rules", "yaml")?,
        list(out, "CONSUMERS", "profiles/consumers", "yaml")?,
        list(out, "PHASES", "profiles/phases", "yaml")?,
        list(out, "PROFILERS", "profiles/profilers", "yaml")?,
        list(out, "LIBRARIES", "profiles/libraries", "yaml")?,
        list(out, "ERRORS", "profiles/errors", "yaml")?,
        list(out, "TABLES", "profiles/cupti", "yaml")?,
        list(out, "CSV_TABLES", "profiles/cupti", "csv")?,
        list(out, "ADVICE", "profiles", "yaml")?,
        list(out, "TEMPLATES", "Dockerfile.templates", "in")?,
        list(out, "SNIPPETS", "profiles/snippets", "py")?,
    ];
    name_build();
    fs::write(out.join("data_files.rs"), lists.concat())
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

fn list(out: &Path, name: &str, folder: &str, ending: &str) -> io::Result<String> {
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
        let json = if ending == "yaml" {
            let json = out.join(format!("{name}-{stem}.json"));
            fs::write(&json, to_json(&file)?)?;
            format!("Some(include_str!({:?}))", json.display().to_string())
        } else {
            "None".to_owned()
        };
        let path = path.display().to_string();
        let _ = writeln!(text, "    ({stem:?}, include_str!({path:?}), {json}),");
    }
    Ok(text + "];\n")
}

/// A YAML file as JSON. Parsing YAML at each start would double the instructions of a small audit.
fn to_json(file: &Path) -> io::Result<String> {
    let text = fs::read_to_string(file)?;
    let events: Result<Vec<_>, _> = Parser::new_from_str(&text).map(|event| Ok(event?.0)).collect();
    let events = events.map_err(|error: ScanError| io::Error::other(format!("{}: {error}", file.display())))?;
    let document = node(&mut events.into_iter(), &mut BTreeMap::new());
    Ok(document.unwrap_or_else(|| "null".to_owned()))
}

/// The next node as JSON; `None` at the end of a collection. `anchors` are the nodes that an alias may repeat.
fn node<'t>(events: &mut impl Iterator<Item = Event<'t>>, anchors: &mut BTreeMap<usize, String>) -> Option<String> {
    loop {
        let (anchor, json) = match events.next()? {
            Event::Scalar(text, style, anchor, _) => (anchor, scalar(&text, style)),
            Event::SequenceStart(_, anchor, _) => {
                let items: Vec<String> = std::iter::from_fn(|| node(events, anchors)).collect();
                (anchor, format!("[{}]", items.join(",")))
            }
            Event::MappingStart(_, anchor, _) => {
                let entry = || {
                    let key = node(events, anchors)?;
                    // A key such as 8 is text in JSON.
                    let key = if key.starts_with('"') { key } else { quoted(&key) };
                    Some(format!("{key}:{}", node(events, anchors)?))
                };
                let entries: Vec<String> = std::iter::from_fn(entry).collect();
                (anchor, format!("{{{}}}", entries.join(",")))
            }
            Event::Alias(anchor) => return anchors.get(&anchor).cloned(),
            Event::SequenceEnd | Event::MappingEnd => return None,
            _ => continue,
        };
        anchors.insert(anchor, json.clone());
        return Some(json);
    }
}

/// A scalar of YAML 1.2: plain booleans, whole numbers and nulls are themselves, all else is text.
fn scalar(text: &str, style: ScalarStyle) -> String {
    let is_number = text.parse::<u64>().is_ok_and(|number| number.to_string() == text);
    match text {
        _ if style != ScalarStyle::Plain => quoted(text),
        "" | "~" | "null" => "null".to_owned(),
        "true" | "false" => text.to_owned(),
        _ if is_number => text.to_owned(),
        _ => quoted(text),
    }
}

/// A text as a string of JSON.
fn quoted(text: &str) -> String {
    let mut json = "\"".to_owned();
    for letter in text.chars() {
        match letter {
            '"' | '\\' => json.extend(['\\', letter]),
            '\0'..='\u{1f}' => _ = write!(json, "\\u{:04x}", u32::from(letter)),
            _ => json.push(letter),
        }
    }
    json + "\""
}
