//! Whether programs that change files, or look into them, come to their end: what the owners and modes of the image's files
//! say, and who runs the script.

use super::script_run::{Doubt, FileChange, ScriptRun, Success};

/// The directories above a path that are looked at.
const ABOVE: usize = 64;
/// The changes of files that are remembered of one script.
const CHANGES: usize = 64;
/// The signs that mean something else than themselves in a pattern of grep(1), of whatever kind.
const SPECIAL: &str = ".*[]\\^$+?(){}|";

impl ScriptRun<'_> {
    /// Whether a file can certainly not be written or made: its folder is not there, or the user may not write.
    pub(super) fn cannot_write(&self, path: &str) -> bool {
        if self.file_test('e', path) == Some(true) {
            return self.file_test('w', path) == Some(false);
        }
        let folder = folder_of(path);
        self.file_test('d', folder) == Some(false) || self.file_test('w', folder) == Some(false)
    }

    /// The same for a directory that is made with those above it.
    pub(super) fn cannot_make_all(&self, path: &str) -> bool {
        let mut at = path.trim_end_matches('/');
        for _ in 0..ABOVE {
            match self.file_test('e', at) {
                Some(false) => at = folder_of(at),
                Some(true) => return at != path.trim_end_matches('/') && self.file_test('w', at) == Some(false),
                None => return false,
            }
        }
        false
    }

    /// Whether what is there can certainly not be removed (unlink(2): the folder is what is written to).
    pub(super) fn cannot_remove(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        self.file_test('e', path) == Some(true) && self.file_test('w', folder_of(path)) == Some(false)
    }

    /// Whether `chown`, `chgrp` or `chmod` certainly fails: on a file of another user (chown(2), EPERM), or for a user or
    /// group that the image does not know.
    pub(super) fn cannot_change(&self, name: &str, rest: &[Option<String>]) -> bool {
        let words: Vec<&str> = rest.iter().flatten().map(String::as_str).collect();
        if words.iter().any(|word| word.starts_with("--reference")) {
            return false;
        }
        let mut words = words.into_iter().filter(|word| !word.starts_with('-'));
        let Some(what) = words.next() else { return false };
        let is_foreign = |word| {
            self.path(word)
                .is_some_and(|path| self.file_test('O', &path) == Some(false))
        };
        if !self.files.is_root() && words.any(is_foreign) {
            return true;
        }
        let (user, group) = match name {
            "chown" => what.split_once(':').unwrap_or((what, "")),
            "chgrp" => ("", what),
            _ => return false,
        };
        self.is_nobody("/etc/passwd", user) || self.is_nobody("/etc/group", group)
    }

    /// Notes what a program does to files: what it removes, replaces, or opens to others.
    pub(super) fn change_files(&mut self, name: &str, rest: &[Option<String>]) {
        let words: Vec<&str> = rest.iter().flatten().map(String::as_str).collect();
        let (options, mut words): (Vec<&str>, Vec<&str>) = words.into_iter().partition(|word| word.starts_with('-'));
        let mut is_content = true;
        match name {
            "rm" | "tee" | "truncate" | "rmdir" => {}
            "sed" if options.iter().any(|option| option.starts_with("-i")) => {}
            "mv" | "cp" | "ln" | "install" => {
                let Some(to) = words.pop() else { return };
                let is_folder = self
                    .path(to)
                    .is_some_and(|path| self.file_test('d', &path) == Some(true));
                let name_of = |word: &&str| word.rsplit('/').next().unwrap_or_default().to_owned();
                let inside: Vec<String> = words.iter().map(|word| format!("{to}/{}", name_of(word))).collect();
                let made = if is_folder { inside } else { vec![to.to_owned()] };
                for path in made.iter().filter_map(|path| self.path(path)).collect::<Vec<_>>() {
                    self.change(path, true);
                }
                if name != "mv" {
                    return;
                }
            }
            "chmod" | "chown" | "chgrp" => {
                let what = if words.is_empty() { return } else { words.remove(0) };
                let is_closed = what.ends_with(['0', '1', '2', '3']) || what.contains(['-', '=']);
                is_content = name == "chmod" && is_closed;
            }
            _ => return,
        }
        for path in words.into_iter().filter_map(|word| self.path(word)).collect::<Vec<_>>() {
            self.change(path, is_content);
        }
    }

    pub(super) fn change(&mut self, path: String, is_content: bool) {
        let change = FileChange { path, is_content };
        if self.doubt != Doubt::Skipped && self.changes.len() < CHANGES && !self.changes.contains(&change) {
            self.changes.push(change);
        }
    }

    /// Whether a list of names certainly lacks one; a number is nobody's name.
    fn is_nobody(&self, list: &str, name: &str) -> bool {
        let is_name = !name.is_empty() && !name.contains('.') && name.parse::<u32>().is_err();
        let lacks = || match self.files.text(list) {
            Some(text) => !text.lines().any(|line| line.split(':').next() == Some(name)),
            None => self.file_test('e', list) == Some(false),
        };
        is_name && !self.has_started && lacks()
    }

    /// What grep(1) answers of one file that is known, for a pattern that stands for itself.
    pub(super) fn greps(&self, name: &str, rest: &[Option<String>]) -> Success {
        let words: Option<Vec<&str>> = rest.iter().map(Option::as_deref).collect();
        let (options, operands): (Vec<&str>, Vec<&str>) = words?.into_iter().partition(|word| word.starts_with('-'));
        let letters = || options.iter().flat_map(|option| option.chars().skip(1));
        let &[pattern, path] = operands.as_slice() else {
            return None;
        };
        let is_fixed = name == "fgrep" || letters().any(|letter| letter == 'F');
        let (is_begin, text) = match pattern.strip_prefix('^').filter(|_| !is_fixed) {
            Some(text) => (true, text),
            None => (false, pattern),
        };
        let is_plain = is_fixed || !text.contains(|sign| SPECIAL.contains(sign));
        if self.has_started || !is_plain || !letters().all(|letter| "qsFE".contains(letter)) {
            return None;
        }
        let content = self.files.text(&self.path(path)?)?;
        let fits = |line: &str| {
            if is_begin {
                line.starts_with(text)
            } else {
                line.contains(text)
            }
        };
        Some(content.lines().any(fits))
    }
}

/// The directory that a path from the root lies in.
fn folder_of(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some((folder, _)) if !folder.is_empty() => folder,
        _ => "/",
    }
}
