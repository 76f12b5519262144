//! Programs of the image that start others with an environment of their own making: scripts of Python, and objects.

use super::{CommandFollower, is_option};
use crate::judge::facts::file_owner::contains_bytes;
use crate::judge::facts::shell_script::LOADER;
use crate::knowledge::file_interest::ENVIRONMENT_CALLS;
use image_linkage::elf::{ElfFacts, SymbolRole};
use image_linkage::rootfs::FileUse;

/// What starts another program in Python: by itself, and with an environment that is handed to it.
const STARTS: [&str; 6] = [
    "subprocess.",
    "os.exec",
    "os.spawn",
    "posix_spawn",
    "os.system",
    "Popen",
];
const WITH_ENVIRONMENT: [&str; 9] = [
    "env=",
    "execve(",
    "execle(",
    "execvpe(",
    "execlpe(",
    "spawnve(",
    "spawnle(",
    "posix_spawn",
    "environ.clear",
];

impl CommandFollower<'_> {
    /// `python [OPTION]… (-c TEXT | -m MODULE | SCRIPT)`.
    pub(super) fn python(&mut self) -> bool {
        let mut words = self.words.iter().skip(1);
        let mut text = None;
        while let Some(Some(word)) = words.next() {
            if !is_option(word) {
                let path = self.absolute(word);
                if path.as_ref().is_some_and(|path| self.is_closed(path, FileUse::Read)) {
                    return false;
                }
                text = path.and_then(|path| self.kept_text(&path));
                break;
            }
            if word.starts_with("-c") {
                text = words.next().cloned().flatten();
                break;
            }
            if word.starts_with("-m") {
                break;
            }
            if matches!(word.as_str(), "-W" | "-X") {
                words.next();
            }
        }
        let holds = |word: &&str| text.as_ref().is_some_and(|text| text.contains(*word));
        let changes = LOADER.iter().chain(&WITH_ENVIRONMENT).any(holds);
        if changes && STARTS.iter().any(holds) {
            return self.lose();
        }
        false
    }

    /// Whether an object names a variable of the loader, and calls what makes an environment.
    pub(super) fn makes_environment(&self, path: &str) -> bool {
        let makes = |elf: &ElfFacts| {
            let mut symbols = elf.symbols.iter().filter(|symbol| symbol.role != SymbolRole::Export);
            let calls = symbols.any(|symbol| ENVIRONMENT_CALLS.iter().any(|call| call.as_bytes() == &*symbol.name));
            let mut texts = elf.mentions.iter().chain(&elf.fragments);
            calls && texts.any(|text| LOADER.iter().any(|name| contains_bytes(text, name.as_bytes())))
        };
        let file = self.rootfs.file(path.as_bytes());
        file.and_then(|file| file.elf.as_deref()).is_some_and(makes)
    }
}
