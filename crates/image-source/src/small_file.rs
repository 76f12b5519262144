//! Files of the host that are read whole: certificates, keys and credentials.
#![expect(clippy::disallowed_methods, reason = "the user names these files")]

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// The bytes of such a file. All authorities of a Debian system together have 220 kB.
const BYTES: u64 = 4 << 20;

/// The bytes of a file of at most 4 MiB.
///
/// Errors: What the system says, or that it is larger: a device has no end.
pub fn read_small_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > BYTES {
        let what = format!("it is larger than the limit of {BYTES} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, what));
    }
    Ok(bytes)
}
