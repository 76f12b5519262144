//! Loads every ELF file of a root file system in the real loader and in ours.
//!
//! One session inside the root runs the real loader for all files. Programs start in trace mode, like in `ldd`. Files
//! without an interpreter, or not executable, are arguments of `ld.so`.

use cupti_audit::knowledge::file_interest::cupti_options;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use cupti_audit::facts::{ImageFacts, ProcessContext};
use cupti_audit::judge::image_reading::{self, ReadOptions};
use cupti_audit::knowledge::Knowledge;
use image_linkage::loader::{CpuLevel, LoadResolution};
use image_source::registry::RegistryOptions;

use crate::facts_of_root::conditions;
use crate::loader_ours;
use crate::session::Session;

/// The loader in the root file systems.
const LOADER: &str = "/lib64/ld-linux-x86-64.so.2";

/// The loader's output for one file: the lines of its trace without addresses, and its errors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// The path in the root file system.
    pub path: String,
    /// The printed lines.
    pub lines: Vec<String>,
}

/// The facts about an image, for this machine's processor.
pub fn read(reference: &str, cpu: CpuLevel) -> ImageFacts {
    let options = ReadOptions {
        platform: None,
        registry: RegistryOptions::default(),
        knowledge: &Knowledge::built_in(),
        conditions: conditions(Vec::new(), cpu),
        index: cupti_options(),
        progress: &(),
        cache: None,
    };
    image_reading::read_image(reference, &options).unwrap()
}

/// The CPU level of this machine, according to the loader in a root file system.
pub fn cpu(root: &Path) -> CpuLevel {
    let help = Session::of(root).command(&[LOADER, "--help"]).output().unwrap();
    let text = String::from_utf8_lossy(&help.stdout);
    let searched = |name| text.contains(&format!("x86-64-{name} (supported, searched)"));
    match () {
        () if searched("v4") => CpuLevel::V4,
        () if searched("v3") => CpuLevel::V3,
        () if searched("v2") => CpuLevel::V2,
        () => CpuLevel::V1,
    }
}

/// The files in `below` with an ELF header, by their paths in the root.
pub fn elf_files(root: &Path, below: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut pending = vec![PathBuf::from(below.trim_start_matches('/'))];
    while let Some(folder) = pending.pop() {
        for entry in std::fs::read_dir(root.join(&folder)).unwrap() {
            let entry = entry.unwrap();
            let (inside, kind) = (folder.join(entry.file_name()), entry.file_type().unwrap());
            if kind.is_dir() {
                pending.push(inside);
            } else if kind.is_file() && is_elf(&entry.path()) {
                found.push(format!("/{}", inside.to_str().unwrap()));
            }
        }
    }
    found.sort();
    found
}

fn is_elf(path: &Path) -> bool {
    let mut start = [0; 4];
    let mut file = File::open(path).unwrap();
    file.read_exact(&mut start).is_ok() && start == *b"\x7fELF"
}

/// Reads lines with a mode and a path, and ends each output with a NUL byte.
const ASK: &str = "while read -r way path; do
  case $way in
    start) LD_TRACE_LOADED_OBJECTS=1 \"$path\" ;;
    list) LD_TRACE_LOADED_OBJECTS=1 /lib64/ld-linux-x86-64.so.2 \"$path\" ;;
    list32) LD_TRACE_LOADED_OBJECTS=1 /lib/ld-linux.so.2 \"$path\" ;;
  esac </dev/null 2>&1
  printf '\\0'
done";

/// The real loader's output for each file.
pub fn real(root: &Path, context: &ProcessContext, paths: &[String]) -> Vec<Said> {
    let way = |path: &String| {
        let elf = context.rootfs.file(path.as_bytes()).unwrap().elf.as_ref();
        let mode = std::fs::metadata(root.join(path.trim_start_matches('/')));
        // The loader does not trace setuid and setgid programs.
        let starts = mode.is_ok_and(|facts| facts.mode() & 0o6111 & !0o0011 == 0o0100);
        let has_interpreter = elf.is_some_and(|elf| elf.interp.is_some());
        let way = match elf {
            _ if starts && has_interpreter => "start",
            Some(elf) if elf.class() == 1 => "list32",
            _ => "list",
        };
        format!("{way} {path}\n")
    };
    let questions: String = paths.iter().map(way).collect();
    let mut asked = Session::of(root)
        .command(&["/bin/sh", "-c", ASK])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = asked.stdin.take().unwrap();
    // A thread writes the questions while the answers are read, so neither pipe blocks.
    let writer = std::thread::spawn(move || input.write_all(questions.as_bytes()).unwrap());
    let output = asked.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(output.status.success(), "the session in the root ends well");
    let text = String::from_utf8(output.stdout).unwrap();
    let answers: Vec<&str> = text.split_terminator('\0').collect();
    assert_eq!(answers.len(), paths.len(), "one answer for each question");
    let said = |(path, answer): (&String, &&str)| Said {
        path: path.clone(),
        lines: answer.lines().filter_map(|line| real_line(path, line)).collect(),
    };
    paths.iter().zip(&answers).map(said).collect()
}

/// A line without its address. Skips the vDSO, which has no file, and warnings, which are not fatal.
fn real_line(path: &str, line: &str) -> Option<String> {
    let line = line.trim();
    let line = line.rsplit_once(" (0x").map_or(line, |(head, _)| head);
    let own = format!("{path}: ");
    let passed_over = matches!(line, "linux-vdso.so.1" | "linux-gate.so.1")
        || line.contains("no version information available")
        || line.contains("weak version `");
    (!passed_over).then(|| line.strip_prefix(&own).unwrap_or(line).to_owned())
}

/// Our output for each file.
pub fn ours(context: &ProcessContext, paths: &[String]) -> Vec<Said> {
    let said = |path: &String| Said {
        path: path.clone(),
        lines: context
            .start_program(path.as_bytes())
            .map_or_else(Vec::new, |resolution| our_lines(&resolution)),
    };
    paths.iter().map(said).collect()
}

fn our_lines(resolution: &LoadResolution) -> Vec<String> {
    if let Some(refused) = loader_ours::refused(resolution) {
        return vec![format!("error while loading shared libraries: {}", refused.message)];
    }
    let mut lines = loader_ours::trace_with_loader(resolution);
    if lines.is_empty() {
        lines.push("statically linked".to_owned());
    }
    if loader_ours::fatal(resolution).is_none() {
        // The loader checks versions before it prints, but only if no library is missing.
        lines.splice(..0, loader_ours::versions(resolution));
    }
    lines
}

/// The number of identical outputs, and the first differences in words.
pub fn compare(ours: &[Said], real: &[Said]) -> (usize, String) {
    let different: Vec<(&Said, &Said)> = ours.iter().zip(real).filter(|(ours, real)| ours != real).collect();
    let words = |(ours, real): &(&Said, &Said)| {
        let (path, ours, real) = (&ours.path, ours.lines.join("\n    "), real.lines.join("\n    "));
        format!("{path}\n  ours\n    {ours}\n  real\n    {real}\n")
    };
    let first = different.iter().take(10).map(words).collect();
    (ours.len() - different.len(), first)
}
