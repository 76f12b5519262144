//! POSIX access control lists (acl(5)), from the xattr `system.posix_acl_access` (`linux/posix_acl_xattr.h`).

use super::node_access::NodeAccess;
use serde::{Deserialize, Serialize};

/// The access rights beyond owner, group and others. Docker, containerd, Podman and umoci apply the xattr to unpacked
/// files, and the mode from the tar header after it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessList(Box<[ListEntry]>);

/// The tag of an entry, its `rwx` bits, and the ID of a named user or group.
type ListEntry = (u16, u16, u32);

/// `POSIX_ACL_XATTR_VERSION`.
const VERSION: u32 = 2;
/// A named user: `ACL_USER`.
const USER: u16 = 2;
/// The owning group: `ACL_GROUP_OBJ`.
const OWN_GROUP: u16 = 4;
/// A named group: `ACL_GROUP`.
const GROUP: u16 = 8;
/// The upper limit for named users and all groups: `ACL_MASK`.
const MASK: u16 = 16;

impl AccessList {
    /// Parses the xattr; `None` if it only repeats the mode or if no kernel would store it.
    pub fn read(attribute: &[u8]) -> Option<Self> {
        let (version, entries) = attribute.split_first_chunk()?;
        let (entries, []) = entries.as_chunks::<8>() else {
            return None;
        };
        let read = entries.iter().map(|&[tag, tag_high, bits, bits_high, a, b, c, d]| {
            let (tag, bits) = ([tag, tag_high], [bits, bits_high]);
            let id = u32::from_le_bytes([a, b, c, d]);
            (u16::from_le_bytes(tag), u16::from_le_bytes(bits), id)
        });
        let entries: Box<[ListEntry]> = read.collect();
        // Named entries require a mask. Without one, the list equals the mode (Linux `posix_acl_valid`).
        let names = entries.iter().any(|(tag, ..)| *tag == MASK);
        (u32::from_le_bytes(*version) == VERSION && names).then_some(Self(entries))
    }

    /// The bytes in memory.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.0)
    }

    /// Whether a non-owner has the permission `bit` of `rwx` (Linux `posix_acl_permission`).
    pub(crate) fn allows(&self, bit: u16, access: NodeAccess, user: u32, is_of: impl Fn(u32) -> bool) -> bool {
        let is_masked = access.mode >> 3 & bit != 0;
        if let Some((_, bits, _)) = self.0.iter().find(|(tag, _, id)| *tag == USER && *id == user) {
            return bits & bit != 0 && is_masked;
        }
        let groups = self.0.iter().filter(|(tag, _, id)| match *tag {
            OWN_GROUP => is_of(access.gid),
            GROUP => is_of(*id),
            _ => false,
        });
        // One matching group that grants the bit is enough. If any group matches, the rights of others do not apply.
        let allowed = groups
            .map(|(_, bits, _)| bits & bit != 0)
            .reduce(|one, other| one || other);
        allowed.map_or(access.mode & bit != 0, |allowed| allowed && is_masked)
    }
}
