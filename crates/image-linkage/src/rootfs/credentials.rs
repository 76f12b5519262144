//! Who opens a file, and whether the kernel lets him (`path_resolution(7)`, "Permissions").

use std::fmt;

use crate::escape;
use crate::layer::NodeAccess;
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
    /// To execute a file.
    Execute,
}

impl FileCredentials {
    /// Whether the kernel allows a use (fs/namei.c, `generic_permission`).
    pub fn may(&self, usage: FileUse, access: NodeAccess) -> bool {
        if self.reads_all {
            // "Executable DACs are overridable when there is at least one exec bit set."
            return usage != FileUse::Execute || access.mode & 0o111 != 0;
        }
        let bit = match usage {
            FileUse::Read => 4,
            FileUse::Pass | FileUse::Execute => 1,
        };
        // The first class that fits counts alone: an owner whom the mode shuts out stays out.
        let shift = if access.uid == self.uid {
            6
        } else if access.gid == self.gid || self.groups.contains(&access.gid) {
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
    /// What was wanted of it.
    pub usage: FileUse,
    /// Who wanted it, in words.
    pub who: String,
}

impl fmt::Display for AccessDenial {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NodeAccess { mode, uid, gid } = self.access;
        let Self { path, who, .. } = self;
        write!(to, "{path} is {mode:04o} of {uid}:{gid}, and the process runs as {who}")
    }
}

#[cfg(test)]
mod tests {
    use super::{FileCredentials, FileUse};
    use crate::layer::NodeAccess;

    fn app() -> FileCredentials {
        FileCredentials {
            uid: 1000,
            gid: 100,
            groups: vec![44],
            reads_all: false,
            name: None,
            real: None,
        }
    }

    #[test]
    fn the_first_class_that_fits_counts_alone() {
        let check = |mode: u16, uid: u32, gid: u32, expected: &str| {
            let access = NodeAccess { mode, uid, gid };
            let may = |usage| app().may(usage, access);
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

    #[test]
    fn root_reads_all_and_executes_what_somebody_may() {
        let may = |usage, mode| {
            let access = NodeAccess { mode, uid: 1, gid: 1 };
            FileCredentials::default().may(usage, access)
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
