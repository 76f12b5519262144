//! Small host files that are read whole: certificates, keys and credentials.
#![expect(clippy::disallowed_methods, reason = "the user names these files")]

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// The size limit. All certificate authorities of a Debian system are 220 kB.
const BYTES: u64 = 4 << 20;

/// Reads a file of at most 4 MiB.
///
/// Errors: The system's error, or that the file is larger; a device has no end.
pub fn read_small_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > BYTES {
        let what = format!("it is larger than the limit of {BYTES} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, what));
    }
    Ok(bytes)
}
