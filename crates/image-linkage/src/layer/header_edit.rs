//! The headers of one member, written anew with another name or another link target; all else stays as it is.

use super::pax;
use super::tar_header::{BLOCK, Block, KIND, LINK, MAGIC, NAME, PREFIX, SIZE, SUM, VERSION, put};
use super::tar_member::TarMember;

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct HeaderChange<'a> {
    pub name: Option<&'a [u8]>,
    pub link: Option<&'a [u8]>,
    /// The bytes of its content.
    pub size: Option<u64>,
    /// Its type flag, such as `1` for a hard link.
    pub kind: Option<u8>,
}

impl HeaderChange<'_> {
    /// Whether the headers stay as they are.
    pub(crate) fn is_nothing(&self) -> bool {
        self.name.is_none() && self.link.is_none() && self.size.is_none() && self.kind.is_none()
    }
}

/// The headers of a member, whose own `raw` headers are, with what changes. A GNU long name becomes a record. The member is
/// no sparse file.
///
/// Errors: Why the headers cannot be changed.
pub(crate) fn edit_headers(raw: &[u8], member: &TarMember, change: &HeaderChange<'_>) -> Result<Vec<u8>, String> {
    let mut records = Vec::new();
    pax::for_each_record(raw.get(member.records.clone()).unwrap_or_default(), |_, key, value| {
        let goes = match key {
            b"path" | b"linkpath" => true,
            // It counts in the place of the size in the header (POSIX.1-2017, pax, "pax Extended Header").
            b"size" => change.size.is_some(),
            _ => false,
        };
        if !goes {
            records.extend(record(key, value));
        }
        Ok(())
    })?;
    let own = raw.get(member.own..).and_then(<[u8]>::first_chunk);
    let mut own: Block = *own.ok_or("its headers end before they are whole")?;
    let name = change.name.unwrap_or(&member.name);
    let link = change.link.unwrap_or(&member.link);
    for (key, text, place) in [("path", name, NAME), ("linkpath", link, LINK)] {
        if text.len() > place.len() {
            records.extend(record(key.as_bytes(), text));
        }
        put(&mut own, place, text);
    }
    // It is a part of the name; in GNU's format the field holds times, which nobody reads.
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

/// One record: its length, which counts itself, the key and the value.
fn record(key: &[u8], value: &[u8]) -> Vec<u8> {
    let text = [b" ", key, b"=", value, b"\n"].concat();
    // The length counts its own digits, and with them it may need one digit more.
    let mut length = text.len();
    while length.to_string().len() + text.len() != length {
        length = length.to_string().len() + text.len();
    }
    [length.to_string().as_bytes(), &text].concat()
}

/// A PAX header with these records.
fn extended(records: &[u8]) -> Vec<u8> {
    let mut header = [0; BLOCK];
    // A reader that knows no PAX unpacks the records as a file of this name.
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
    // The sum is taken with blanks in its own field (POSIX.1-2017, pax, "ustar Interchange Format").
    put(block, SUM, b"        ");
    let sum: u32 = block.iter().map(|&byte| u32::from(byte)).sum();
    // Six digits, a NUL and a blank are what tars have always written here.
    put(block, SUM, format!("{sum:06o}\0 ").as_bytes());
}
