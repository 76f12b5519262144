//! PAX records as engines read them (POSIX.1-2017, pax, "pax Extended Header"; Go's archive/tar).
//!
//! `tar-core` ends quietly at a record without a length and overlooks values that are no numbers. A member
//! read with half of its records is another member than the one an engine unpacks, so what it overlooks is
//! an error here. What no fact is taken from, such as owners and times, may be as odd as it likes.

use std::sync::Arc;

use super::access_list::AccessList;
use super::node_access::FileCapabilities;

/// What the records of one member say, beyond what `tar-core` takes from them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PaxRecords {
    /// `size`: the bytes of content in the stream.
    pub size: Option<u64>,
    /// Whether there is a `path`.
    pub path: bool,
    /// Whether there is a `linkpath`.
    pub linkpath: bool,
    /// `uid`: the number of the owner.
    pub uid: Option<u32>,
    /// `gid`: the number of the owner's group.
    pub gid: Option<u32>,
    /// `SCHILY.xattr.security.capability`, by which engines take the attribute from a tar and put it there.
    pub capabilities: Option<FileCapabilities>,
    /// `SCHILY.xattr.system.posix_acl_access`, likewise. The text in `SCHILY.acl.access` is read by no engine.
    pub access_list: Option<Arc<AccessList>>,
    /// Whether there is a `GNU.sparse.` record.
    pub sparse: bool,
    /// `GNU.sparse.major` and `GNU.sparse.minor`: the sparse format.
    version: (Option<u64>, Option<u64>),
}

impl PaxRecords {
    /// Whether a sparse map stands before the content and is counted in its size: format 1.0 of GNU tar.
    pub(crate) fn map_in_content(&self) -> bool {
        self.version == (Some(1), Some(0))
    }
}

/// Reads every record of an extended header.
///
/// Errors: The record that is malformed, by its offset in `bytes`, and what is wrong with it.
pub(crate) fn read_records(bytes: &[u8]) -> Result<PaxRecords, String> {
    let mut records = PaxRecords::default();
    for_each_record(bytes, |at, key, value| {
        let taken = records.take(key, value);
        taken.map_err(|what| format!("PAX record at byte {at} of its header: {what}"))
    })?;
    // GNU tar has written no other formats; of another one nobody knows where the data lies.
    match records.version {
        (None, None) | (Some(0), Some(0 | 1)) | (Some(1), Some(0)) => Ok(records),
        _ => Err("PAX records of an unknown sparse format".to_owned()),
    }
}

/// Hands the key and the value of every record to `take`, with its offset in `bytes`.
///
/// Errors: The record that is malformed, or what `take` says.
pub(crate) fn for_each_record<'b>(
    bytes: &'b [u8],
    mut take: impl FnMut(usize, &'b [u8], &'b [u8]) -> Result<(), String>,
) -> Result<(), String> {
    let mut rest = bytes;
    while !rest.is_empty() {
        let at = bytes.len() - rest.len();
        let (key, value, after) =
            record(rest).ok_or_else(|| format!("malformed PAX record at byte {at} of its header"))?;
        take(at, key, value)?;
        rest = after;
    }
    Ok(())
}

/// The key and value of the first record, `"%d %s=%s\n"`, and what follows it.
fn record(bytes: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let space = bytes.iter().position(|&byte| byte == b' ')?;
    let length = usize::try_from(number(bytes.get(..space)?)?).ok()?;
    let (record, rest) = bytes.split_at_checked(length)?;
    // The length alone says where a record ends: a value may hold line feeds.
    let text = record.get(space + 1..)?.strip_suffix(b"\n")?;
    let equals = text.iter().position(|&byte| byte == b'=')?;
    let (key, value) = (text.get(..equals)?, text.get(equals + 1..)?);
    // Go refuses a record without a key (`validPAXRecord`).
    (!key.is_empty()).then_some((key, value, rest))
}

/// A decimal number that fits into 63 bits, as a size has to.
fn number(digits: &[u8]) -> Option<u64> {
    let all_digits = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(digits).ok().filter(|_| all_digits)?;
    let value: i64 = text.parse().ok()?;
    u64::try_from(value).ok()
}

impl PaxRecords {
    fn take(&mut self, key: &[u8], value: &[u8]) -> Result<(), &'static str> {
        let sized = || number(value).ok_or("a size that is no number");
        match key {
            b"size" => self.size = Some(sized()?),
            // An owner that is no number stops nobody; it is the one in the header then.
            b"uid" => self.uid = number(value).and_then(|uid| u32::try_from(uid).ok()),
            b"gid" => self.gid = number(value).and_then(|gid| u32::try_from(gid).ok()),
            b"SCHILY.xattr.security.capability" => self.capabilities = FileCapabilities::read(value),
            b"SCHILY.xattr.system.posix_acl_access" => self.access_list = AccessList::read(value).map(Arc::new),
            // An empty value takes back the record; readers differ in what stands then.
            b"path" | b"linkpath" | b"GNU.sparse.name" if value.is_empty() => {
                return Err("an empty path");
            }
            b"path" => self.path = true,
            b"linkpath" => self.linkpath = true,
            b"GNU.sparse.name" | b"GNU.sparse.map" => self.sparse = true,
            _ if key.starts_with(b"GNU.sparse.") => {
                let value = sized()?;
                self.sparse = true;
                match key {
                    b"GNU.sparse.major" => self.version.0 = Some(value),
                    b"GNU.sparse.minor" => self.version.1 = Some(value),
                    _ => {}
                }
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{PaxRecords, read_records};

    #[test]
    fn records_are_read_to_the_last_byte() {
        assert_eq!(read_records(b""), Ok(PaxRecords::default()));
        let odd = b"14 mtime=-1.5\n15 path=a=b c\xff\n10 uid=-7\n8 gid=x\n12 size=512\n";
        let found = PaxRecords {
            size: Some(512),
            path: true,
            ..PaxRecords::default()
        };
        assert_eq!(read_records(odd), Ok(found));
    }

    #[test]
    fn a_record_that_is_none_is_an_error_with_its_place() {
        for bytes in [
            &b"9 path=a\nx"[..],
            b"9 path=a\n\0\0\0",
            b"9 path=a\nseven path=b\n",
            b"9 path=a\n99 path=b\n",
            b"9 path=a\n8 pathb\n",
            b"9 path=a\n9 path=b ",
            b"9 path=a\n0 path=b\n",
            b"9 path=a\n+9 path=b\n",
            b"9 path=a\n6 =bc\n",
            b"9 path=a\n10 size=-1\n",
            b"9 path=a\n27 size=9223372036854775808\n",
            b"9 path=a\n8 path=\n",
        ] {
            let error = read_records(bytes).unwrap_err();
            assert!(error.contains("at byte 9 "), "{error} {bytes:?}");
        }
    }
}
