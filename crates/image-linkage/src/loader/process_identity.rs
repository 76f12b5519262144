//! The identity of a process after execve (execve(2), credentials(7)).

use std::fmt;

use crate::layer::{FileCapabilities, FileFacts};
use crate::rootfs::FileCredentials;

/// The reason for secure-execution mode: `AT_SECURE` (getauxval(3)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecureExecution {
    /// The set-user-ID bit changed the user to this ID.
    SetUser(u32),
    /// The set-group-ID bit changed the group to this ID.
    SetGroup(u32),
    /// The file gives capabilities to a non-root user.
    Capabilities,
    /// The starting process has this effective user ID, which differs from its real one.
    EffectiveUser(u32),
    /// The starting process has this effective group ID, which differs from its real one.
    EffectiveGroup(u32),
}

impl fmt::Display for SecureExecution {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SetUser(uid) => write!(to, "the program runs setuid as user {uid} (secure execution)"),
            Self::SetGroup(gid) => write!(to, "the program runs setgid as group {gid} (secure execution)"),
            Self::Capabilities => to.write_str("the program has file capabilities (secure execution)"),
            Self::EffectiveUser(uid) => write!(to, "the effective user {uid} is not the real one (secure execution)"),
            Self::EffectiveGroup(gid) => write!(to, "the effective group {gid} is not the real one (secure execution)"),
        }
    }
}

/// The file access rights of a process, and whether its loader trusts the environment.
#[derive(Debug, Clone, Default)]
pub(super) struct ProcessIdentity {
    /// The credentials for file access.
    pub effective: FileCredentials,
    /// The reason for secure-execution mode, if it is on.
    pub secure: Option<SecureExecution>,
}

/// The identity of `user` after executing a program (Linux fs/exec.c, `bprm_fill_uid`; security/commoncap.c,
/// `cap_bprm_creds_from_file`). Mounts, namespaces and engine settings are not part of an image.
pub(super) fn execute_program(user: &FileCredentials, program: &FileFacts) -> ProcessIdentity {
    let mut effective = user.clone();
    // no_new_privs prevents any gain, but effective capabilities still enable secure-execution mode: the kernel checks
    // them before it drops them.
    let (mut mode, mut capabilities) = (program.mode, program.capabilities);
    if user.no_new_privileges {
        mode = 0;
        capabilities = capabilities.map(|file| FileCapabilities {
            raises: file.effective,
            effective: false,
            reads_all: false,
            ..file
        });
    }
    if mode & 0o4000 != 0 {
        effective.uid = program.uid;
    }
    // Without group execute permission, set-group-ID means mandatory locking.
    if mode & 0o2010 == 0o2010 {
        effective.gid = program.gid;
    }
    // New IDs are compared with the real user and group (`__is_setuid`).
    let (real_user, real_group) = user.real.unwrap_or((user.uid, user.gid));
    let is_root = real_user == 0;
    let secure = if effective.uid != real_user {
        Some(match effective.uid {
            uid if uid == user.uid => SecureExecution::EffectiveUser(uid),
            uid => SecureExecution::SetUser(uid),
        })
    } else if effective.gid != real_group {
        Some(match effective.gid {
            gid if gid == user.gid => SecureExecution::EffectiveGroup(gid),
            gid => SecureExecution::SetGroup(gid),
        })
    } else if !is_root && capabilities.is_some_and(|file| file.raises) {
        Some(SecureExecution::Capabilities)
    } else {
        None
    };
    effective.reads_all = match (is_root, effective.uid, capabilities) {
        (true, 0, _) => user.reads_all,
        // Root has all capabilities. As another user it keeps those that the file makes effective.
        (true, _, Some(file)) => file.effective,
        // With both, a program gets only the capabilities of its file (`handle_privileged_root`).
        (false, _, Some(file)) => file.reads_all,
        (false, 0, None) => true,
        (_, _, None) => false,
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

    fn program(mode: u16, uid: u32, gid: u32, capabilities: Option<FileCapabilities>) -> FileFacts {
        FileFacts {
            mode,
            uid,
            gid,
            capabilities,
            ..FileFacts::default()
        }
    }

    fn file(effective: bool, raises: bool, reads_all: bool) -> FileCapabilities {
        FileCapabilities {
            effective,
            raises,
            reads_all,
            withheld: false,
        }
    }

    fn check(user: u32, program: &FileFacts, secure: Option<SecureExecution>, reads_all: bool) {
        check_as(user, None, program, secure, reads_all);
    }

    fn check_as(
        user: u32,
        real: Option<(u32, u32)>,
        program: &FileFacts,
        secure: Option<SecureExecution>,
        reads_all: bool,
    ) {
        let user = FileCredentials {
            uid: user,
            gid: user,
            groups: vec![44],
            reads_all: user == 0,
            name: None,
            real,
            no_new_privileges: false,
        };
        let identity = execute_program(&user, program);
        assert_eq!(
            (identity.secure, identity.effective.reads_all),
            (secure, reads_all),
            "{user} {program:?}"
        );
    }

    #[test]
    fn only_a_changed_identity_enables_secure_execution() {
        use SecureExecution::{Capabilities, SetGroup, SetUser};
        let net_raw = Some(file(true, true, false));
        let inherited = Some(file(false, false, false));
        check(APP, &program(0o755, 0, 0, None), None, false);
        check(APP, &program(0o4755, 0, 0, None), Some(SetUser(0)), true);
        check(APP, &program(0o4755, 7, 0, None), Some(SetUser(7)), false);
        check(APP, &program(0o4755, APP, 0, None), None, false);
        check(APP, &program(0o2755, 0, 44, None), Some(SetGroup(44)), false);
        check(APP, &program(0o2755, 0, APP, None), None, false);
        check(APP, &program(0o2745, 0, 44, None), None, false);
        check(APP, &program(0o755, 0, 0, net_raw), Some(Capabilities), false);
        check(APP, &program(0o755, 0, 0, inherited), None, false);
        check(
            APP,
            &program(0o755, 0, 0, Some(file(true, true, true))),
            Some(Capabilities),
            true,
        );
        check(APP, &program(0o4755, 0, 0, net_raw), Some(SetUser(0)), false);
        check(APP, &program(0o4755, 0, 0, inherited), Some(SetUser(0)), false);
        check(0, &program(0o4755, 0, 0, None), None, true);
        check(0, &program(0o755, 0, 0, net_raw), None, true);
        check(0, &program(0o4755, 7, 0, None), Some(SetUser(7)), false);
        check(0, &program(0o4755, 7, 0, inherited), Some(SetUser(7)), false);
        check(0, &program(0o4755, 7, 0, net_raw), Some(SetUser(7)), true);
        check(0, &program(0o2755, 0, 44, None), Some(SetGroup(44)), true);
    }

    #[test]
    fn differing_effective_and_real_users_enable_secure_execution() {
        use SecureExecution::{EffectiveGroup, EffectiveUser};
        let plain = program(0o755, 0, 0, None);
        check_as(APP, Some((0, 0)), &plain, Some(EffectiveUser(APP)), false);
        check_as(0, Some((APP, APP)), &plain, Some(EffectiveUser(0)), true);
        check_as(APP, Some((APP, 0)), &plain, Some(EffectiveGroup(APP)), false);
        // Executing a program that is set-user-ID to the real user ends secure-execution mode.
        check_as(APP, Some((7, APP)), &program(0o4755, 7, 0, None), None, false);
    }
}
