//! Access rights of files and directories, and file capabilities (inode(7)).

use serde::{Deserialize, Serialize};

/// The owner and permission bits of a file or directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NodeAccess {
    /// The permission bits, including set-user-ID and set-group-ID.
    pub mode: u16,
    /// The owning user.
    pub uid: u32,
    /// The owning group.
    pub gid: u32,
}

/// The effects of the xattr `security.capability` that matter to the loader (capabilities(7), "File capabilities").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "the mask itself would be mistaken for what the loader can tell"
)]
pub struct FileCapabilities {
    /// The effective flag: permitted capabilities become effective at once.
    pub effective: bool,
    /// Whether a non-root user gains capabilities, which enables secure-execution mode.
    pub raises: bool,
    /// Whether the process can read every file: `CAP_DAC_OVERRIDE` or `CAP_DAC_READ_SEARCH`.
    pub reads_all: bool,
    /// Whether execve fails with EPERM in a container: the effective flag is set, and a capability is outside the
    /// engines' default set.
    pub withheld: bool,
}

/// Docker's default capability set (moby, oci/caps/defaults.go). Other engines allow no more.
const DOCKER_DEFAULT: u64 = 0xa804_25fb;
/// `VFS_CAP_FLAGS_EFFECTIVE` of the first word (linux/capability.h).
const EFFECTIVE: u32 = 1;
/// The bits of `CAP_DAC_OVERRIDE` and `CAP_DAC_READ_SEARCH`.
const READS_ALL: u32 = 1 << 1 | 1 << 2;

impl FileCapabilities {
    /// Parses the xattr (`struct vfs_cap_data`); `None` if no kernel would store it.
    pub fn read(attribute: &[u8]) -> Option<Self> {
        let word = |at: usize| {
            let bytes = attribute.get(at..)?.first_chunk()?;
            Some(u32::from_le_bytes(*bytes))
        };
        // The first word also encodes the revision, but the size alone identifies valid values.
        let (Some(magic), Some(permitted), 12 | 20 | 24) = (word(0), word(4), attribute.len()) else {
            return None;
        };
        let effective = magic & EFFECTIVE != 0;
        // Capabilities from 32 on follow the inheritable ones. Revision 1 has none.
        let high = word(12).unwrap_or_default();
        let all = u64::from(high) << 32 | u64::from(permitted);
        Some(Self {
            effective,
            // "insufficient to execute correctly" (security/commoncap.c, `bprm_caps_from_vfs_caps`): EPERM, for root too.
            withheld: effective && all & !DOCKER_DEFAULT != 0,
            // "Check for privilege-elevated exec" (security/commoncap.c, `cap_bprm_creds_from_file`).
            raises: effective || all & DOCKER_DEFAULT != 0,
            reads_all: effective && permitted & READS_ALL != 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::FileCapabilities;

    #[test]
    fn attributes_written_by_setcap_are_parsed() {
        let check = |attribute: &[u8], expected: Option<(bool, bool, bool, bool)>| {
            let found = FileCapabilities::read(attribute);
            let found = found.map(|found| (found.effective, found.raises, found.reads_all, found.withheld));
            assert_eq!(found, expected, "{attribute:?}");
        };
        let written = |magic: u8, permitted: u8, inheritable: u8, high: u8| {
            let mut attribute = [0; 20];
            (attribute[0], attribute[3]) = (magic, 2);
            (attribute[4], attribute[8], attribute[12]) = (permitted, inheritable, high);
            attribute
        };
        // Values shown by `getfattr -e hex -n security.capability` after setcap.
        check(&written(1, 0, 0, 0x40), Some((true, true, false, true))); // cap_perfmon=ep
        check(&written(0, 1 << 1, 0, 0), Some((false, true, false, false))); // cap_dac_override=p
        check(&written(1, 1 << 1, 0, 0), Some((true, true, true, false))); // cap_dac_override=ep
        check(&written(1, 1 << 2, 0, 0), Some((true, true, true, true))); // cap_dac_read_search=ep
        check(&written(0, 0, 1 << 1, 0), Some((false, false, false, false))); // cap_dac_override=i
        check(&written(1, 0, 1 << 1, 0), Some((true, true, false, false))); // cap_dac_override=ei
        check(&written(0, 0, 0, 0x40), Some((false, false, false, false))); // cap_perfmon=p
        check(&written(1, 1 << 3, 0, 0), Some((true, true, false, false))); // cap_fowner=ep
        // Revision 3 appends the root of a user namespace.
        check(
            &[&written(1, 1 << 1, 0, 0)[..], &[0; 4]].concat(),
            Some((true, true, true, false)),
        );
        check(b"", None);
        check(&[1; 19], None);
        check(&[1; 4096], None);
    }
}
