//! Rewrites the headers of one member with a new name, link target, size or type. Everything else is unchanged.

use super::pax;
use super::tar_header::{BLOCK, Block, KIND, LINK, MAGIC, NAME, PREFIX, SIZE, SUM, VERSION, put};
use super::tar_member::TarMember;

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct HeaderChange<'a> {
    pub name: Option<&'a [u8]>,
    pub link: Option<&'a [u8]>,
    /// The size of the content in bytes.
    pub size: Option<u64>,
    /// The type flag, such as `1` for a hard link.
    pub kind: Option<u8>,
}

impl HeaderChange<'_> {
    /// Whether nothing changes.
    pub(crate) fn is_nothing(&self) -> bool {
        self.name.is_none() && self.link.is_none() && self.size.is_none() && self.kind.is_none()
    }
}

/// The headers of a member with changes applied; `raw` holds the original headers. GNU long names become PAX records.
/// The member must not be sparse.
///
/// Errors: Why the headers cannot be changed.
pub(crate) fn edit_headers(raw: &[u8], member: &TarMember, change: &HeaderChange<'_>) -> Result<Vec<u8>, String> {
    let mut records = Vec::new();
    pax::for_each_record(raw.get(member.records.clone()).unwrap_or_default(), |_, key, value| {
        let goes = match key {
            b"path" | b"linkpath" => true,
            // It overrides the size in the header (POSIX.1-2017, pax, "pax Extended Header").
            b"size" => change.size.is_some(),
            _ => false,
        };
        if !goes {
            records.extend(record(key, value));
        }
        Ok(())
    })?;
    let rest = raw.get(member.own..).unwrap_or_default();
    let mut own: Block = *rest.first_chunk().ok_or("its headers end before they are whole")?;
    let name = change.name.unwrap_or(&member.name);
    let link = change.link.unwrap_or(&member.link);
    for (key, text, place) in [("path", name, NAME), ("linkpath", link, LINK)] {
        if text.len() > place.len() {
            records.extend(record(key.as_bytes(), text));
        }
        put(&mut own, place, text);
    }
    // The prefix is part of the name. In GNU format the field holds times that nobody reads.
    put(&mut own, PREFIX, b"");
    if let Some(size) = change.size {
        put(&mut own, SIZE, format!("{size:011o}").as_bytes());
    }
    if let Some(kind) = change.kind {
        put(&mut own, KIND, &[kind]);
    }
    sum(&mut own);
    let mut out = if records.is_empty() {
        Vec::new()
    } else {
        extended(&records)
    };
    out.extend(own);
    Ok(out)
}

/// One PAX record: its own length, key and value.
fn record(key: &[u8], value: &[u8]) -> Vec<u8> {
    let text = [b" ", key, b"=", value, b"\n"].concat();
    // The length includes its own digits, which may add one more digit.
    let mut length = text.len();
    while length.to_string().len() + text.len() != length {
        length = length.to_string().len() + text.len();
    }
    [length.to_string().as_bytes(), &text].concat()
}

/// A PAX header with these records.
fn extended(records: &[u8]) -> Vec<u8> {
    let mut header = [0; BLOCK];
    // A reader without PAX support unpacks the records as a file with this name.
    put(&mut header, NAME, b"PaxHeaders/member");
    put(&mut header, 100..108, b"0000644");
    put(&mut header, SIZE, format!("{:011o}", records.len()).as_bytes());
    put(&mut header, KIND, b"x");
    put(&mut header, MAGIC, b"ustar");
    put(&mut header, VERSION, b"00");
    sum(&mut header);
    let mut out = [&header, records].concat();
    out.resize(out.len().next_multiple_of(BLOCK), 0);
    out
}

fn sum(block: &mut Block) {
    // The checksum is computed with blanks in its own field (POSIX.1-2017, pax, "ustar Interchange Format").
    put(block, SUM, b"        ");
    let sum: u32 = block.iter().map(|&byte| u32::from(byte)).sum();
    // By convention: six digits, a NUL and a blank.
    put(block, SUM, format!("{sum:06o}\0 ").as_bytes());
}
