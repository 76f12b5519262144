//! File access checks of the kernel (`path_resolution(7)`, "Permissions").

use std::fmt;

use crate::escape;
use crate::layer::{AccessList, NodeAccess};
use crate::path::RootPath;

/// The credentials that the kernel compares with a file's owner and mode (credentials(7)).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileCredentials {
    /// The user ID.
    pub uid: u32,
    /// The group ID.
    pub gid: u32,
    /// The supplementary group IDs.
    pub groups: Vec<u32>,
    /// Whether it can read every file, like root in engines: `CAP_DAC_OVERRIDE`.
    pub reads_all: bool,
    /// The user name, if known.
    pub name: Option<String>,
    /// The real user and group, if they differ from the effective ones (credentials(7)).
    pub real: Option<(u32, u32)>,
    /// Whether set-user-ID bits and file capabilities are ignored (`PR_SET_NO_NEW_PRIVS`, prctl(2)).
    pub no_new_privileges: bool,
}

impl Default for FileCredentials {
    /// Root, as engines start it.
    fn default() -> Self {
        Self {
            uid: 0,
            gid: 0,
            groups: Vec::new(),
            reads_all: true,
            name: Some("root".to_owned()),
            real: None,
            no_new_privileges: false,
        }
    }
}

/// The requested access to a file or directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileUse {
    /// Search a directory.
    Pass,
    /// Read a file or list a directory.
    Read,
    /// Write a file, or create and remove entries of a directory.
    Write,
    /// Execute a file.
    Execute,
}

impl FileCredentials {
    /// Whether the kernel allows the access with this mode and access list (fs/namei.c, `generic_permission`).
    pub fn may(&self, usage: FileUse, access: NodeAccess, list: Option<&AccessList>) -> bool {
        if self.reads_all {
            // "Executable DACs are overridable when there is at least one exec bit set."
            return usage != FileUse::Execute || access.mode & 0o111 != 0;
        }
        let bit = match usage {
            FileUse::Read => 4,
            FileUse::Write => 2,
            FileUse::Pass | FileUse::Execute => 1,
        };
        // The kernel ignores the list if its mask is empty; named users then count as others (`acl_permission_check`).
        let list = list.filter(|_| access.uid != self.uid && access.mode & 0o070 != 0);
        if let Some(list) = list {
            return list.allows(bit, access, self.uid, |group| self.is_in(group));
        }
        // Only the first matching class counts: an owner without permission gets none.
        let shift = if access.uid == self.uid {
            6
        } else if self.is_in(access.gid) {
            3
        } else {
            0
        };
        access.mode >> shift & bit != 0
    }

    fn is_in(&self, group: u32) -> bool {
        group == self.gid || self.groups.contains(&group)
    }
}

impl fmt::Display for FileCredentials {
    /// Writes `app (1000:1000)` or only the IDs, and supplementary groups if any.
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { uid, gid, .. } = self;
        match &self.name {
            Some(name) => write!(to, "{} ({uid}:{gid})", escape::escape_bytes(name.as_bytes()))?,
            None => write!(to, "{uid}:{gid}")?,
        }
        if let [first, more @ ..] = self.groups.as_slice() {
            let more = if more.is_empty() { "" } else { " and others" };
            write!(to, " in the group {first}{more}")?;
        }
        Ok(())
    }
}

/// Why the kernel denies access.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessDenial {
    /// The directory or file that denies access.
    pub path: RootPath,
    /// Its owner and mode.
    pub access: NodeAccess,
    /// Whether it also has an access list.
    pub has_list: bool,
    /// The requested access.
    pub usage: FileUse,
    /// The user, in words.
    pub who: String,
}

impl fmt::Display for AccessDenial {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NodeAccess { mode, uid, gid } = self.access;
        let Self { path, who, .. } = self;
        let list = if self.has_list { " with an access list" } else { "" };
        write!(
            to,
            "{path} is {mode:04o} of {uid}:{gid}{list}, and the process runs as {who}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::{FileCredentials, FileUse};
    use crate::layer::{AccessList, NodeAccess};

    fn app() -> FileCredentials {
        FileCredentials {
            uid: 1000,
            gid: 100,
            groups: vec![44],
            reads_all: false,
            name: None,
            real: None,
            no_new_privileges: false,
        }
    }

    #[test]
    fn only_the_first_matching_class_counts() {
        let check = |mode: u16, uid: u32, gid: u32, expected: &str| {
            let access = NodeAccess { mode, uid, gid };
            let may = |usage| app().may(usage, access, None);
            let all = [(FileUse::Read, 'r'), (FileUse::Execute, 'x')];
            let found: String = all
                .iter()
                .filter(|(usage, _)| may(*usage))
                .map(|(_, sign)| *sign)
                .collect();
            assert_eq!(found, expected, "{mode:o} of {uid}:{gid}");
            assert_eq!(may(FileUse::Pass), may(FileUse::Execute));
        };
        check(0o755, 0, 0, "rx");
        check(0o700, 0, 0, "");
        check(0o711, 0, 0, "x");
        check(0o700, 1000, 0, "rx");
        check(0o077, 1000, 100, "");
        check(0o050, 0, 100, "rx");
        check(0o705, 0, 100, "");
        check(0o040, 0, 44, "r");
        check(0o707, 0, 44, "");
        check(0o007, 0, 45, "rx");
    }

    /// An xattr as setfacl writes it, including the entries for owner and others.
    fn list(named: &[(u16, u16, u32)]) -> AccessList {
        let own = [(1, 6), (4, 4), (16, 7), (32, 0)].map(|(tag, bits)| (tag, bits, u32::MAX));
        let mut all = [&own, named].concat();
        all.sort_by_key(|(tag, ..)| *tag);
        let entry = |(tag, bits, id): (u16, u16, u32)| {
            let halves = [tag.to_le_bytes(), bits.to_le_bytes()].concat();
            [halves.as_slice(), &id.to_le_bytes()].concat()
        };
        let attribute = [2_u32.to_le_bytes().to_vec(), all.into_iter().flat_map(entry).collect()].concat();
        assert_eq!(AccessList::read(&attribute[..attribute.len() - 1]), None);
        AccessList::read(&attribute).unwrap()
    }

    #[test]
    fn the_mask_limits_named_users_and_groups() {
        let check = |mode: u16, uid: u32, gid: u32, named: &[(u16, u16, u32)], expected: bool| {
            let access = NodeAccess { mode, uid, gid };
            let found = app().may(FileUse::Read, access, Some(&list(named)));
            assert_eq!(found, expected, "{mode:o} of {uid}:{gid} {named:?}");
        };
        check(0o640, 0, 0, &[], false);
        check(0o640, 0, 0, &[(2, 4, 1000)], true);
        check(0o640, 0, 0, &[(2, 4, 1001)], false);
        check(0o610, 0, 0, &[(2, 4, 1000)], false);
        check(0o604, 0, 0, &[(2, 4, 1000)], true);
        check(0o644, 0, 0, &[(2, 0, 1000)], false);
        check(0o644, 0, 0, &[(8, 0, 44)], false);
        check(0o640, 0, 0, &[(8, 4, 44)], true);
        check(0o640, 0, 100, &[(8, 0, 44)], true);
        check(0o614, 0, 100, &[], false);
        check(0o044, 1000, 0, &[(2, 4, 1000)], false);
        check(0o400, 1000, 0, &[(2, 0, 1000)], true);
        assert_eq!(AccessList::read(b""), None);
        assert_eq!(AccessList::read(&[2, 0, 0, 0]), None);
    }

    #[test]
    fn root_reads_everything_and_executes_files_with_any_x_bit() {
        let may = |usage, mode| {
            let access = NodeAccess { mode, uid: 1, gid: 1 };
            FileCredentials::default().may(usage, access, None)
        };
        assert!(may(FileUse::Read, 0) && may(FileUse::Pass, 0));
        assert!(may(FileUse::Execute, 0o001) && !may(FileUse::Execute, 0o666));
    }

    #[test]
    fn credentials_are_formatted() {
        let many = FileCredentials {
            groups: vec![44, 45],
            name: Some("app".to_owned()),
            ..app()
        };
        let shown = [app(), many, FileCredentials::default()].map(|who| who.to_string());
        let expected = [
            "1000:100 in the group 44",
            "app (1000:100) in the group 44 and others",
            "root (0:0)",
        ];
        assert_eq!(shown, expected);
    }
}
