//! Who runs a command: `su`, `runuser`, `setpriv` and the bits of programs.

use super::CommandFollower;
use crate::byte_search::contains_bytes;
use crate::judge::facts::credentials::{home_of, image_user};
use crate::judge::facts::shell_script::{ChangedUser, VariableValue, new_user};
use image_linkage::escape;
use image_linkage::layer::{FileCapabilities, FileFacts};
use image_linkage::rootfs::{FileCredentials, FileUse, LookupError};

impl CommandFollower<'_> {
    /// `su USER -c TEXT`, `runuser -u USER -- COMMAND`, `setpriv OPTION… COMMAND`.
    pub(super) fn change_user(&mut self, base: &str) -> bool {
        let user = new_user(&self.words);
        let mut words = self.words.get(1..).unwrap_or_default().to_vec().into_iter().peekable();
        let is_setpriv = base == "setpriv";
        let (mut text, mut is_login, mut keeps_home, mut names_user) = (None, false, is_setpriv, is_setpriv);
        while let Some(Some(word)) = words.next_if(|word| {
            let option = word.as_deref().is_some_and(|word| word.starts_with('-'));
            option || !names_user && word.is_some()
        }) {
            match word.as_str() {
                "--" => break,
                "-" | "-l" | "--login" | "--reset-env" => is_login = true,
                "-m" | "-p" | "--preserve-environment" => keeps_home = true,
                "-c" | "--command" if base != "setpriv" => text = words.next().flatten(),
                "-u" | "--user" if base == "runuser" => {
                    names_user = true;
                    words.next();
                }
                "-s" | "--shell" | "-g" | "--group" | "-G" | "--supp-group" | "-w" | "--whitelist-environment" => {
                    words.next();
                }
                option if base == "setpriv" && !option.contains('=') && !ALONE.contains(&option) => drop(words.next()),
                option if option.starts_with('-') => {}
                _ => names_user = true,
            }
        }
        let is_kept = |word: &Option<String>| matches!(word.as_deref(), Some("--no-new-privs" | "--nnp"));
        self.no_new_privileges |= is_setpriv && self.words.iter().any(is_kept);
        self.words = words.collect();
        match user {
            Some(user) if keeps_home => self.user = user,
            user => self.become_user(user),
        }
        if is_login {
            self.variables.clear();
            self.set_home();
        }
        match (text, base) {
            (Some(text), _) => {
                let shell = if is_login { "-lc" } else { "-c" };
                let words = ["sh", shell, &text].map(|word| Some(word.to_owned()));
                self.words.splice(..0, words);
                true
            }
            (None, "su") => false,
            (None, _) => !self.words.is_empty(),
        }
    }

    /// Whether the words take on another user, which only root may (setuid(2), EPERM), and that is the end of the command.
    pub(super) fn cannot_become(&mut self, program: &str) -> bool {
        let Some(wanted) = new_user(&self.words).filter(|wanted| wanted.name.is_some()) else {
            return false;
        };
        let who = self.credentials();
        let name = wanted.name.as_deref();
        let other = image_user(self.config, name, &wanted.effective, self.rootfs).credentials;
        // These set the groups anew, whoever they go on as.
        let sets_groups = ["gosu", "su-exec", "runuser", "setuidgid"]
            .iter()
            .any(|name| program.ends_with(name));
        let is_refused = who.uid != 0 && (other.uid != who.uid || sets_groups);
        if is_refused {
            self.fail(
                program,
                &format!("operation not permitted: {who} may not become {other}"),
            );
        }
        is_refused
    }

    pub(super) fn become_user(&mut self, user: Option<ChangedUser>) {
        let Some(user) = user else { return };
        self.user = user;
        self.set_home();
    }

    /// The home directory, which engines and those who change the user take from the user's line.
    pub(super) fn set_home(&mut self) {
        let user = self.user.name.as_deref().or(self.config.user.as_deref());
        let home = home_of(user.unwrap_or_default(), self.rootfs);
        let is_changed = self.user != ChangedUser::default();
        if is_changed {
            self.variables.remove("HOME");
        }
        if let Some(home) = home.filter(|home| !home.is_empty()) {
            self.variables
                .entry("HOME".to_owned())
                .or_insert(VariableValue::Text(home));
        }
    }

    /// Who runs the command now; root where that is not known.
    pub(super) fn credentials(&self) -> FileCredentials {
        let user = image_user(
            self.config,
            self.user.name.as_deref(),
            &self.user.effective,
            self.rootfs,
        );
        FileCredentials {
            no_new_privileges: self.no_new_privileges,
            ..user.credentials
        }
    }

    /// Whether the user may not use a file, which then is the end of the command.
    pub(super) fn is_closed(&mut self, path: &str, usage: FileUse) -> bool {
        let opened = self.rootfs.open_as(path.as_bytes(), &self.credentials(), usage);
        let Err(LookupError::Denied(denial)) = opened else {
            return false;
        };
        if let Some(change) = self.changes.iter().find(|change| change.covers(path)) {
            let said = format!(
                "only a run could tell whether the container's command starts {path}: its script changes {}",
                change.path
            );
            self.doubt.get_or_insert_with(|| escape::escape_bytes(said.as_bytes()));
            return true;
        }
        self.fail(path, &format!("permission denied: {denial}"));
        true
    }

    /// Takes out of the environment what the loader does for a program with file capabilities before it starts others
    /// (glibc sysdeps/generic/unsecvars.h); whether the file is such a program.
    pub(super) fn drop_untrusted(&mut self, path: &str) -> bool {
        let who = self.credentials();
        let file = self.rootfs.file(path.as_bytes());
        let is_kept = who.no_new_privileges;
        let raises = |file: &&FileFacts| {
            let raises = |file: FileCapabilities| if is_kept { file.effective } else { file.raises };
            file.capabilities.is_some_and(raises)
        };
        let Some(elf) = file.filter(raises).and_then(|file| file.elf.as_ref()) else {
            return false;
        };
        if who.real.map_or(who.uid, |(uid, _)| uid) == 0 {
            return false;
        }
        match &elf.interp {
            // It is ignored there, and left to the children.
            Some(interp) if contains_bytes(interp, MUSL) => {}
            Some(_) => self.variables.retain(|name, _| !UNTRUSTED.contains(&name.as_str())),
            // Of static programs, those of glibc do so alone.
            None => drop(self.lose()),
        }
        true
    }

    /// Whether the kernel makes another effective user or group of who executes a file.
    pub(super) fn sets_user(&self, path: &str) -> bool {
        let who = self.credentials();
        let sets = |file: &FileFacts| {
            let user = file.mode & 0o4000 != 0 && file.uid != who.uid;
            let group = file.mode & 0o2010 == 0o2010 && file.gid != who.gid;
            file.elf.is_some() && (user || group) && !who.no_new_privileges
        };
        self.rootfs.file(path.as_bytes()).is_some_and(sets)
    }
}

/// What the loader looks at here of what it takes away.
const UNTRUSTED: [&str; 2] = ["LD_LIBRARY_PATH", "LD_PRELOAD"];
/// The begin of the name of musl's loader.
pub(super) const MUSL: &[u8] = b"/ld-musl-";

/// Options of setpriv that have no value.
const ALONE: [&str; 6] = [
    "--clear-groups",
    "--keep-groups",
    "--init-groups",
    "--nnp",
    "--no-new-privs",
    "--reset-env",
];
