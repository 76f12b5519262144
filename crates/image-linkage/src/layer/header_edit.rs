//! The headers of one member, written anew with another name or another link target; all else stays as it is.

use super::pax;
use super::tar_header::{BLOCK, Block, KIND, LINK, MAGIC, NAME, PREFIX, SIZE, SUM, VERSION, member_size, put};

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

/// The headers `raw`, from the first extension header to the member's own, with what changes; `own` is where the
/// member's own begins. What lies behind it, such as a sparse map, must not be there.
///
/// Errors: Why the headers cannot be changed.
pub(crate) fn edit_headers(raw: &[u8], own: usize, change: &HeaderChange<'_>) -> Result<Vec<u8>, String> {
    let broken = || "its headers end before they are whole".to_owned();
    let mut records = Vec::new();
    let mut out = Vec::new();
    let mut at = 0;
    while at < own {
        let header: &Block = raw.get(at..).and_then(<[u8]>::first_chunk).ok_or_else(broken)?;
        let bytes = usize::try_from(member_size(header).ok_or_else(broken)?).map_err(|_too_large| broken())?;
        let whole = BLOCK + bytes.next_multiple_of(BLOCK);
        let content = raw.get(at + BLOCK..at + BLOCK + bytes).ok_or_else(broken)?;
        match header.get(KIND.start) {
            // Of several the last one counts.
            Some(b'x') => records = kept(content, change)?,
            // Beside the new name a GNU long name would be a second one, and readers differ in which counts.
            Some(b'L') if change.name.is_some() => {}
            Some(b'K') if change.link.is_some() => {}
            _ => out.extend(raw.get(at..at + whole).ok_or_else(broken)?),
        }
        at += whole;
    }
    let own: &Block = raw.get(own..).and_then(<[u8]>::first_chunk).ok_or_else(broken)?;
    let mut own = *own;
    for (key, text, place) in [("path", change.name, NAME), ("linkpath", change.link, LINK)] {
        let Some(text) = text else { continue };
        if text.len() > place.len() {
            records.extend(record(key.as_bytes(), text));
        }
        put(&mut own, place, text);
    }
    if let Some(size) = change.size {
        put(&mut own, SIZE, format!("{size:011o}").as_bytes());
    }
    if let Some(kind) = change.kind {
        put(&mut own, KIND, &[kind]);
    }
    // The prefix is that of the old name; in GNU's format the field holds times, which nobody reads.
    if change.name.is_some() {
        put(&mut own, PREFIX, b"");
    }
    sum(&mut own);
    if !records.is_empty() {
        out.extend(extended(&records));
    }
    out.extend(own);
    Ok(out)
}

/// The records of a PAX header that stay, as they are written.
fn kept(content: &[u8], change: &HeaderChange<'_>) -> Result<Vec<u8>, String> {
    let mut kept = Vec::new();
    pax::for_each_record(content, |_, key, value| {
        let goes = match key {
            b"path" => change.name.is_some(),
            b"linkpath" => change.link.is_some(),
            // It counts in the place of the size in the header (POSIX.1-2017, pax, "pax Extended Header").
            b"size" => change.size.is_some(),
            _ if key.starts_with(b"GNU.sparse.") => {
                return Err("it is a sparse file, which is not written anew".to_owned());
            }
            _ => false,
        };
        if !goes {
            kept.extend(record(key, value));
        }
        Ok(())
    })?;
    Ok(kept)
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
