//! Who a process is once the kernel has executed its program (execve(2), credentials(7)).

use std::fmt;

use crate::layer::FileFacts;
use crate::rootfs::FileCredentials;

/// Why the kernel tells the loader not to trust the environment: `AT_SECURE` (getauxval(3)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecureExecution {
    /// The set-user-ID bit made another user of it, with this number.
    SetUser(u32),
    /// The set-group-ID bit made it one of another group, with this number.
    SetGroup(u32),
    /// The file gives capabilities to a user other than root.
    Capabilities,
}

impl fmt::Display for SecureExecution {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SetUser(uid) => write!(to, "the program runs setuid as user {uid} (secure execution)"),
            Self::SetGroup(gid) => write!(to, "the program runs setgid as group {gid} (secure execution)"),
            Self::Capabilities => to.write_str("the program has file capabilities (secure execution)"),
        }
    }
}

/// What a process may open, and whether its loader trusts the environment.
#[derive(Debug, Clone, Default)]
pub(super) struct ProcessIdentity {
    /// What counts when it opens a file.
    pub effective: FileCredentials,
    /// Why it is executed securely, if it is.
    pub secure: Option<SecureExecution>,
}

/// Who `user` becomes by executing a program (Linux fs/exec.c, `bprm_fill_uid`; security/commoncap.c,
/// `cap_bprm_creds_from_file`). What mounts, namespaces and engines add to it is no matter of an image.
pub(super) fn execute_program(user: &FileCredentials, program: &FileFacts) -> ProcessIdentity {
    let mut effective = user.clone();
    if program.mode & 0o4000 != 0 {
        effective.uid = program.uid;
    }
    // Without the bit for the group to execute it, set-group-ID is a mark of old lock files.
    if program.mode & 0o2010 == 0o2010 {
        effective.gid = program.gid;
    }
    let is_root = user.uid == 0;
    let secure = if effective.uid != user.uid {
        Some(SecureExecution::SetUser(effective.uid))
    } else if effective.gid != user.gid {
        Some(SecureExecution::SetGroup(effective.gid))
    } else if !is_root && program.capabilities.raises {
        Some(SecureExecution::Capabilities)
    } else {
        None
    };
    effective.reads_all = match effective.uid {
        // A program with both is given the capabilities of its file alone (`handle_privileged_root`).
        0 if !is_root && program.capabilities.raises => program.capabilities.reads_all,
        0 => !is_root || user.reads_all,
        _ => program.capabilities.reads_all,
    };
    if effective.uid != user.uid {
        effective.name = (effective.uid == 0).then(|| "root".to_owned());
    }
    ProcessIdentity { effective, secure }
}

#[cfg(test)]
mod tests {
    use super::{SecureExecution, execute_program};
    use crate::layer::{FileCapabilities, FileFacts};
    use crate::rootfs::FileCredentials;

    const APP: u32 = 1000;

    fn program(mode: u16, uid: u32, gid: u32, (raises, reads_all): (bool, bool)) -> FileFacts {
        FileFacts {
            mode,
            uid,
            gid,
            capabilities: FileCapabilities { raises, reads_all },
            ..FileFacts::default()
        }
    }

    fn check(user: u32, program: &FileFacts, secure: Option<SecureExecution>, reads_all: bool) {
        let user = FileCredentials {
            uid: user,
            gid: user,
            groups: vec![44],
            reads_all: user == 0,
            name: None,
        };
        let identity = execute_program(&user, program);
        assert_eq!(
            (identity.secure, identity.effective.reads_all),
            (secure, reads_all),
            "{user} {program:?}"
        );
    }

    #[test]
    fn only_what_changes_who_it_is_makes_an_execution_secure() {
        use SecureExecution::{Capabilities, SetGroup, SetUser};
        let none = (false, false);
        check(APP, &program(0o755, 0, 0, none), None, false);
        check(APP, &program(0o4755, 0, 0, none), Some(SetUser(0)), true);
        check(APP, &program(0o4755, 7, 0, none), Some(SetUser(7)), false);
        check(APP, &program(0o4755, APP, 0, none), None, false);
        check(APP, &program(0o2755, 0, 44, none), Some(SetGroup(44)), false);
        check(APP, &program(0o2755, 0, APP, none), None, false);
        check(APP, &program(0o2745, 0, 44, none), None, false);
        check(APP, &program(0o755, 0, 0, (true, false)), Some(Capabilities), false);
        check(APP, &program(0o755, 0, 0, (true, true)), Some(Capabilities), true);
        check(APP, &program(0o4755, 0, 0, (true, false)), Some(SetUser(0)), false);
        check(0, &program(0o4755, 0, 0, none), None, true);
        check(0, &program(0o755, 0, 0, (true, false)), None, true);
        check(0, &program(0o4755, 7, 0, none), Some(SetUser(7)), false);
        check(0, &program(0o2755, 0, 44, none), Some(SetGroup(44)), true);
    }
}
