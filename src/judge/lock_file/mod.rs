//! Finds a PyTorch in a lock that comes without the libraries of NVIDIA that it links, before anything is installed.
//!
//! A tool that locks reads the requirements of a release from one of its wheels. If the wheels differ, a lock may have
//! none of NVIDIA's packages, and an installer that adds nothing to a lock makes a PyTorch that cannot be imported.
//!
//! A finding needs all of this: the release requires the packages on its index (`wheels` in
//! `profiles/cupti/frameworks.yaml`), a wheel for Linux is locked and may be installed, and no package of the lock has
//! the library. Other indexes are not judged, because their wheels may contain it.

mod linux_markers;
mod lock_content;
#[cfg(test)]
mod tests;
mod torch_check;

use image_linkage::escape::escape_bytes;

use self::linux_markers::LinuxMarkers;
pub use self::lock_content::LockKind;
use self::lock_content::read_lock;
use crate::judge::file_check::{FileCheck, LineFinding};
use crate::judge::rule;
use crate::knowledge::Knowledge;

/// The maximum size of a lock in bytes. Large projects have 5 MB.
pub const LOCK_BYTES: u64 = 16 << 20;

/// The maximum number of bytes of a line to show.
const EXCERPT: usize = 300;
/// The maximum number of locked versions of PyTorch. A project has one for each of its variants.
const TORCHES: usize = 64;

/// Judges the lock `text`, called `file`, for these phases.
///
/// Errors: The text is not TOML, or has too many versions of PyTorch, in words.
pub fn check_lock(
    kind: LockKind,
    file: &str,
    text: &str,
    knowledge: &Knowledge,
    phases: &[String],
) -> Result<FileCheck, String> {
    let content = read_lock(kind, text).map_err(|(place, what)| {
        let (line, what) = (lines_before(text, place) + 1, escape_bytes(what.as_bytes()));
        format!("line {line}: this is not TOML: {what}; lock the project again")
    })?;
    if content.named("torch").nth(TORCHES).is_some() {
        return Err(format!("it has more than {TORCHES} versions of torch"));
    }
    let asked = knowledge.phases_named(phases);
    let mut markers = LinuxMarkers::default();
    let (mut findings, mut answers, mut notes) = (Vec::new(), Vec::new(), content.extra_notes());
    for torch in content.named("torch") {
        if !content.may_be_on_linux(torch, &mut markers) {
            notes.push(format!("torch {} is not installed on Linux x86-64", torch.version));
            continue;
        }
        match content.judge_torch(torch, knowledge) {
            Err(words) => answers.push(words),
            Ok(hit) => {
                let line = lines_before(text, torch.place);
                let start = text.lines().nth(line).unwrap_or_default().as_bytes();
                let found = rule::judge_hits(&knowledge.rules, &[hit], &asked).into_iter();
                findings.extend(found.map(|finding| LineFinding {
                    finding,
                    lines: (line + 1, line + 1),
                    excerpt: escape_bytes(start.get(..EXCERPT).unwrap_or(start)),
                    replacement: None,
                }));
            }
        }
    }
    if answers.is_empty() {
        answers.push("no torch for CUDA".to_owned());
    }
    Ok(FileCheck {
        file: file.to_owned(),
        findings,
        answer: answers.join("; "),
        stages: Vec::new(),
        unseen: Vec::new(),
        notes: notes.iter().map(|note| escape_bytes(note.as_bytes())).collect(),
    })
}

/// The number of lines before the one with this byte offset.
fn lines_before(text: &str, place: usize) -> usize {
    text.get(..place).unwrap_or_default().matches('\n').count()
}
