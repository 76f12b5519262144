//! Access lists of files (acl(5)), as the attribute `system.posix_acl_access` holds them (`linux/posix_acl_xattr.h`).

use super::node_access::NodeAccess;
use serde::{Deserialize, Serialize};

/// Who, beside its owner, may use a file or a directory. Docker, containerd, Podman and umoci put the attribute on what
/// they unpack, and the mode of the header after it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessList(Box<[ListEntry]>);

/// What an entry is about, the bits of `rwx`, and the number of a user or group that is named.
type ListEntry = (u16, u16, u32);

/// `POSIX_ACL_XATTR_VERSION`.
const VERSION: u32 = 2;
/// A user who is named: `ACL_USER`.
const USER: u16 = 2;
/// The group of the file: `ACL_GROUP_OBJ`.
const OWN_GROUP: u16 = 4;
/// A group that is named: `ACL_GROUP`.
const GROUP: u16 = 8;
/// What is left to all who are named and to the group: `ACL_MASK`.
const MASK: u16 = 16;

impl AccessList {
    /// Reads the attribute; nothing where it says no more than the mode does, or where no kernel would store it.
    pub fn read(attribute: &[u8]) -> Option<Self> {
        let (version, entries) = attribute.split_first_chunk()?;
        let (entries, []) = entries.as_chunks::<8>() else {
            return None;
        };
        let entry = |&[tag, tag_high, bits, bits_high, a, b, c, d]: &[u8; 8]| {
            let (tag, bits) = ([tag, tag_high], [bits, bits_high]);
            let id = u32::from_le_bytes([a, b, c, d]);
            (u16::from_le_bytes(tag), u16::from_le_bytes(bits), id)
        };
        let entries: Box<[ListEntry]> = entries.iter().map(entry).collect();
        // Whoever is named needs a mask, and without one the list is the mode (Linux `posix_acl_valid`).
        let names = entries.iter().any(|(tag, ..)| *tag == MASK);
        (u32::from_le_bytes(*version) == VERSION && names).then_some(Self(entries))
    }

    /// The bytes that it holds.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.0)
    }

    /// Whether somebody who is not the owner may what `bit` of `rwx` stands for (Linux `posix_acl_permission`).
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
        // Of several groups one is enough; who is of any is not one of the others.
        let allowed = groups
            .map(|(_, bits, _)| bits & bit != 0)
            .reduce(|one, other| one || other);
        allowed.map_or(access.mode & bit != 0, |allowed| allowed && is_masked)
    }
}
