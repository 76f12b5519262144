//! Who may use a file or a directory, and what a file gives the process that it is executed as (inode(7)).

use serde::{Deserialize, Serialize};

/// The owner and the permission bits of a file or a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NodeAccess {
    /// The permission bits, with set-user-ID and set-group-ID.
    pub mode: u16,
    /// The user that owns it.
    pub uid: u32,
    /// The group that owns it.
    pub gid: u32,
}

/// What the attribute `security.capability` of a file gives a process, as far as the loader can tell, as
/// capabilities(7) has it under "File capabilities".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "the mask itself would be mistaken for what the loader can tell"
)]
pub struct FileCapabilities {
    /// Whether what is permitted counts at once.
    pub effective: bool,
    /// Whether a user other than root gets capabilities by it, which makes the execution secure.
    pub raises: bool,
    /// Whether the process may read every file: `CAP_DAC_OVERRIDE` or `CAP_DAC_READ_SEARCH`.
    pub reads_all: bool,
    /// Whether the kernel refuses to execute the file in a container: a capability that is to count at once is none of
    /// those that engines leave to one by default.
    pub withheld: bool,
}

/// What Docker leaves to a container (moby, oci/caps/defaults.go); other engines leave no more.
const LEFT_TO_CONTAINERS: u64 = 0xa804_25fb;
/// `VFS_CAP_FLAGS_EFFECTIVE` of the first word (linux/capability.h).
const EFFECTIVE: u32 = 1;
/// The bits of `CAP_DAC_OVERRIDE` and `CAP_DAC_READ_SEARCH`.
const READS_ALL: u32 = 1 << 1 | 1 << 2;

impl FileCapabilities {
    /// Reads the attribute (`struct vfs_cap_data`); nothing where no kernel would store such a value.
    pub fn read(attribute: &[u8]) -> Option<Self> {
        let word = |at: usize| {
            let bytes = attribute.get(at..)?.first_chunk()?;
            Some(u32::from_le_bytes(*bytes))
        };
        // Revisions 1, 2 and 3 tell themselves apart by the first word too; only these sizes belong to one.
        let (Some(magic), Some(permitted), 12 | 20 | 24) = (word(0), word(4), attribute.len()) else {
            return None;
        };
        let effective = magic & EFFECTIVE != 0;
        // The permitted ones from the 32nd on stand behind the inheritable ones; revision 1 has none.
        let high = word(12).unwrap_or_default();
        let all = u64::from(high) << 32 | u64::from(permitted);
        Some(Self {
            effective,
            // "insufficient to execute correctly" (security/commoncap.c, `bprm_caps_from_vfs_caps`): EPERM, for root too.
            withheld: effective && all & !LEFT_TO_CONTAINERS != 0,
            // "Check for privilege-elevated exec" (security/commoncap.c, `cap_bprm_creds_from_file`).
            raises: effective || all & LEFT_TO_CONTAINERS != 0,
            reads_all: effective && permitted & READS_ALL != 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::FileCapabilities;

    #[test]
    fn what_setcap_writes_is_read() {
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
        // As `getfattr -e hex -n security.capability` shows them after setcap.
        check(&written(1, 0, 0, 0x40), Some((true, true, false, true))); // cap_perfmon=ep
        check(&written(0, 1 << 1, 0, 0), Some((false, true, false, false))); // cap_dac_override=p
        check(&written(1, 1 << 1, 0, 0), Some((true, true, true, false))); // cap_dac_override=ep
        check(&written(1, 1 << 2, 0, 0), Some((true, true, true, true))); // cap_dac_read_search=ep
        check(&written(0, 0, 1 << 1, 0), Some((false, false, false, false))); // cap_dac_override=i
        check(&written(1, 0, 1 << 1, 0), Some((true, true, false, false))); // cap_dac_override=ei
        check(&written(0, 0, 0, 0x40), Some((false, false, false, false))); // cap_perfmon=p
        check(&written(1, 1 << 3, 0, 0), Some((true, true, false, false))); // cap_fowner=ep
        // Revision 3 has the root of a user namespace behind the rest.
        check(
            &[&written(1, 1 << 1, 0, 0)[..], &[0; 4]].concat(),
            Some((true, true, true, false)),
        );
        check(b"", None);
        check(&[1; 19], None);
        check(&[1; 4096], None);
    }
}
