//! Parses PAX records as engines do (POSIX.1-2017, pax, "pax Extended Header"; Go's archive/tar).
//!
//! A malformed record is an error: with only half of its records, a member differs from the one an engine unpacks. An
//! empty value resets an earlier record, so that the header field applies.

use std::sync::Arc;

use super::access_list::AccessList;
use super::node_access::FileCapabilities;

/// The parsed records of one member. An empty text means no record.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PaxRecords<'r> {
    /// `size`: the bytes of content in the stream.
    pub size: Option<u64>,
    pub path: &'r [u8],
    pub linkpath: &'r [u8],
    /// `uid`: the user ID of the owner.
    pub uid: Option<u32>,
    /// `gid`: the group ID of the owner.
    pub gid: Option<u32>,
    /// `SCHILY.xattr.security.capability`; engines restore it as an xattr.
    pub capabilities: Option<FileCapabilities>,
    /// `SCHILY.xattr.system.posix_acl_access`; engines restore it as an xattr. No engine reads the text form
    /// `SCHILY.acl.access`.
    pub access_list: Option<Arc<AccessList>>,
    /// Whether a time or an owner is not a number. Engines reject such a member.
    pub has_odd_number: bool,
    pub sparse: SparseRecords<'r>,
}

/// The records `GNU.sparse.*` of a sparse file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SparseRecords<'r> {
    /// Whether any exists.
    pub is_there: bool,
    pub name: &'r [u8],
    /// The map as alternating offsets and lengths: `offset` and `numbytes` in format 0.0, `map` in format 0.1.
    pub map: Vec<u64>,
    size: Option<u64>,
    real_size: Option<u64>,
    /// `major` and `minor`.
    version: (Option<u64>, Option<u64>),
}

impl SparseRecords<'_> {
    /// Whether the map precedes the content and counts toward its size (format 1.0).
    pub(super) fn map_is_in_content(&self) -> bool {
        self.version == (Some(1), Some(0))
    }

    /// The size of the file, including holes.
    pub(super) fn bytes(&self) -> Option<u64> {
        self.size.or(self.real_size)
    }
}

/// Parses all records of an extended header.
///
/// Errors: A malformed record with its offset in `bytes` and the reason.
pub(super) fn read_records(bytes: &[u8]) -> Result<PaxRecords<'_>, String> {
    let mut records = PaxRecords::default();
    for_each_record(bytes, |at, key, value| {
        let taken = records.take(key, value);
        taken.map_err(|what| format!("PAX record at byte {at} of its header: {what}"))
    })?;
    // GNU tar writes no other formats. The layout of an unknown one cannot be determined.
    match records.sparse.version {
        (None, None) | (Some(0), Some(0 | 1)) | (Some(1), Some(0)) => Ok(records),
        _ => Err("PAX records of an unknown sparse format".to_owned()),
    }
}

/// Calls `take` with the offset, key and value of every record.
///
/// Errors: A malformed record, or an error of `take`.
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

/// Splits off the first record, `"%d %s=%s\n"`: key, value and rest.
fn record(bytes: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let space = bytes.iter().position(|&byte| byte == b' ')?;
    let length = usize::try_from(read_number(bytes.get(..space)?)?).ok()?;
    let (record, rest) = bytes.split_at_checked(length)?;
    // Only the length ends a record: a value may contain line feeds.
    let text = record.get(space + 1..)?.strip_suffix(b"\n")?;
    let equals = text.iter().position(|&byte| byte == b'=')?;
    let (key, value) = (text.get(..equals)?, text.get(equals + 1..)?);
    is_valid(key, value).then_some((key, value, rest))
}

/// Whether engines accept a record (Go's archive/tar, `validPAXRecord`). Other values may contain NULs.
fn is_valid(key: &[u8], value: &[u8]) -> bool {
    let is_text = matches!(key, b"path" | b"linkpath" | b"uname" | b"gname");
    let is_cut = key.contains(&0) || is_text && value.contains(&0);
    !key.is_empty() && !is_cut
}

/// A decimal number of at most 63 bits, the range of a size.
pub(super) fn read_number(digits: &[u8]) -> Option<u64> {
    let number = signed_number(digits).filter(|_| digits.iter().all(u8::is_ascii_digit));
    number.and_then(|number| u64::try_from(number).ok())
}

fn signed_number(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Whether engines accept it as a time: seconds with optional fractional digits (`parsePAXTime`).
fn is_time(text: &[u8]) -> bool {
    let mut parts = text.splitn(2, |&byte| byte == b'.');
    let is_whole = parts.next().is_some_and(|seconds| signed_number(seconds).is_some());
    is_whole && parts.next().unwrap_or_default().iter().all(u8::is_ascii_digit)
}

impl<'r> PaxRecords<'r> {
    fn take(&mut self, key: &[u8], value: &'r [u8]) -> Result<(), &'static str> {
        let number = read_number(value);
        let owner = number.and_then(|number| u32::try_from(number).ok());
        match key {
            b"path" => self.path = value,
            b"linkpath" => self.linkpath = value,
            b"size" if number.is_none() && !value.is_empty() => return Err(NO_SIZE),
            b"size" => self.size = number,
            // If the owner is not a number, the header field applies.
            b"uid" => self.uid = owner,
            b"gid" => self.gid = owner,
            b"SCHILY.xattr.security.capability" => self.capabilities = FileCapabilities::read(value),
            b"SCHILY.xattr.system.posix_acl_access" => self.access_list = AccessList::read(value).map(Arc::new),
            _ => {}
        }
        self.has_odd_number |= !value.is_empty()
            && match key {
                b"mtime" | b"atime" | b"ctime" => !is_time(value),
                b"uid" | b"gid" => signed_number(value).is_none(),
                _ => false,
            };
        match key.strip_prefix(b"GNU.sparse.") {
            Some(key) => self.sparse.take(key, value),
            None => Ok(()),
        }
    }
}

const NO_SIZE: &str = "a size that is not a number";

impl<'r> SparseRecords<'r> {
    fn take(&mut self, key: &[u8], value: &'r [u8]) -> Result<(), &'static str> {
        self.is_there = true;
        match key {
            b"name" => self.name = value,
            b"map" => {
                let numbers = value.split(|&byte| byte == b',').filter(|number| !number.is_empty());
                let map: Option<_> = numbers.map(read_number).collect();
                self.map = map.ok_or("a sparse map with a value that is not a number")?;
            }
            _ => {
                let number = Some(read_number(value).ok_or(NO_SIZE)?);
                match key {
                    b"major" => self.version.0 = number,
                    b"minor" => self.version.1 = number,
                    b"size" => self.size = number,
                    b"realsize" => self.real_size = number,
                    b"offset" | b"numbytes" if self.map.len().is_multiple_of(2) != (key == b"offset") => {
                        return Err("a sparse map whose offsets and lengths do not take turns");
                    }
                    b"offset" | b"numbytes" => self.map.extend(number),
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{PaxRecords, read_records};

    #[test]
    fn all_records_are_parsed() {
        assert_eq!(read_records(b""), Ok(PaxRecords::default()));
        let odd = b"14 mtime=-1.5\n15 path=a=b c\xff\n10 uid=-7\n12 size=512\n";
        let found = PaxRecords {
            size: Some(512),
            path: b"a=b c\xff",
            ..PaxRecords::default()
        };
        assert_eq!(read_records(odd), Ok(found));
        assert_eq!(read_records(b"9 path=a\n8 path=\n8 size=\n"), Ok(PaxRecords::default()));
    }

    #[test]
    fn numbers_that_engines_reject_are_odd() {
        let odd = |text: &str| {
            let record = format!("{} {text}\n", text.len() + 4);
            read_records(record.as_bytes()).unwrap().has_odd_number
        };
        for text in ["mtime=-1.5", "atime=+12345.", "ctime=1234567890", "uid=-1234567"] {
            assert!(!odd(text), "{text}");
        }
        for text in [
            "mtime=yesterday",
            "atime=.1234",
            "ctime=5.12x",
            "uid=nobody",
            "gid=12.345",
        ] {
            assert!(odd(text), "{text}");
        }
    }

    #[test]
    fn a_malformed_record_is_an_error_with_its_offset() {
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
        ] {
            let error = read_records(bytes).unwrap_err();
            assert!(error.contains("at byte 9 "), "{error} {bytes:?}");
        }
    }
}
