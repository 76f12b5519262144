//! Who opens a file, and whether the kernel lets him (`path_resolution(7)`, "Permissions").

use std::fmt;

use crate::escape;
use crate::layer::{AccessList, NodeAccess};
use crate::path::RootPath;

/// What the kernel compares with the owner and the mode of a file (credentials(7)).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileCredentials {
    /// The number of the user.
    pub uid: u32,
    /// The number of its group.
    pub gid: u32,
    /// The numbers of its supplementary groups.
    pub groups: Vec<u32>,
    /// Whether it may read every file, as engines let root: `CAP_DAC_OVERRIDE`.
    pub reads_all: bool,
    /// The name of the user, where it has one.
    pub name: Option<String>,
    /// The real user and group, where they are others than those by which files are opened (credentials(7)).
    pub real: Option<(u32, u32)>,
    /// Whether the set-user-ID bits and the capabilities of programs count for nothing (`PR_SET_NO_NEW_PRIVS`, prctl(2)).
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

/// What somebody wants of a file or a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileUse {
    /// To go through a directory.
    Pass,
    /// To read a file, or to list a directory.
    Read,
    /// To write to a file, or to make and remove what lies in a directory.
    Write,
    /// To execute a file.
    Execute,
}

impl FileCredentials {
    /// Whether the kernel allows a use of what has this mode and perhaps a list (fs/namei.c, `generic_permission`).
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
        let is_of = |group: u32| group == self.gid || self.groups.contains(&group);
        // A mask that leaves nothing is not asked: who is named is one of the others then (`acl_permission_check`).
        let list = list.filter(|_| access.uid != self.uid && access.mode & 0o070 != 0);
        if let Some(list) = list {
            return list.allows(bit, access, self.uid, is_of);
        }
        // The first class that fits counts alone: an owner whom the mode shuts out stays out.
        let shift = if access.uid == self.uid {
            6
        } else if is_of(access.gid) {
            3
        } else {
            0
        };
        access.mode >> shift & bit != 0
    }
}

impl fmt::Display for FileCredentials {
    /// Writes `app (1000:1000)`, or the numbers alone, and groups besides where there are any.
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

/// Why the kernel does not let somebody through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessDenial {
    /// The directory that may not be passed, or the file that may not be used.
    pub path: RootPath,
    /// Its owner and mode.
    pub access: NodeAccess,
    /// Whether it has an access list, which says more than its mode.
    pub has_list: bool,
    /// What was wanted of it.
    pub usage: FileUse,
    /// Who wanted it, in words.
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
    fn the_first_class_that_fits_counts_alone() {
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

    /// An attribute as setfacl writes it, with the list's own entries for the owner and the others.
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
    fn a_list_names_users_and_groups_as_far_as_its_mask_goes() {
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
    fn root_reads_all_and_executes_what_somebody_may() {
        let may = |usage, mode| {
            let access = NodeAccess { mode, uid: 1, gid: 1 };
            FileCredentials::default().may(usage, access, None)
        };
        assert!(may(FileUse::Read, 0) && may(FileUse::Pass, 0));
        assert!(may(FileUse::Execute, 0o001) && !may(FileUse::Execute, 0o666));
    }

    #[test]
    fn who_it_is_stands_in_words() {
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
