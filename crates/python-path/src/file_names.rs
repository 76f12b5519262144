//! What the name of a file says to a Python.

/// Whether a file of this name may be a Python.
pub fn is_interpreter_name(name: &[u8]) -> bool {
    matches!(name, b"python" | b"python3") || version_of_name(name).is_some()
}

/// Whether a file is Python as text: a module, a script, or lines that run as an interpreter starts.
pub fn is_source(name: &[u8]) -> bool {
    name.ends_with(b".py") || name.ends_with(b".pth")
}

/// The version in a name, such as `3.11` of `python3.11`.
pub fn version_of_name(name: &[u8]) -> Option<String> {
    let version = std::str::from_utf8(name.strip_prefix(b"python")?).ok()?;
    let numbers = version.strip_suffix('t').unwrap_or(version);
    let (major, minor) = numbers.split_once('.')?;
    let is_number = |text: &str| !text.is_empty() && text.len() < 4 && text.bytes().all(|byte| byte.is_ascii_digit());
    (is_number(major) && is_number(minor)).then(|| version.to_owned())
}

/// The minor version, such as `3.11` of `3.11.2.final.0`.
pub fn first_two_numbers(version: &str) -> Option<String> {
    let mut parts = version.split('.');
    let short = format!("{}.{}", parts.next()?, parts.next()?);
    version_of_name(format!("python{short}").as_bytes())
}

/// `311` of `_C.cpython-311-x86_64-linux-gnu.so`, `abi3` of `_C.abi3.so`.
pub fn module_tag(name: &[u8]) -> Option<&[u8]> {
    let stem = name.strip_suffix(b".so")?;
    let tag = stem
        .rsplit(|&byte| byte == b'.')
        .next()
        .filter(|tag| tag.len() < stem.len())?;
    let tag = tag.split(|&byte| byte == b'-');
    let mut parts = tag;
    match parts.next()? {
        b"cpython" => parts.next(),
        b"abi3" => Some(b"abi3"),
        other if other.starts_with(b"pypy") => Some(other),
        _ => None,
    }
}

/// Whether an interpreter of this version loads a module of this file name (`importlib.machinery.EXTENSION_SUFFIXES`).
pub fn fits_version(name: &[u8], version: &str) -> bool {
    match module_tag(name) {
        None => true,
        // The stable ABI has no place for an object without the global lock.
        Some(b"abi3") => !version.ends_with('t'),
        Some(tag) => tag == version.replace('.', "").as_bytes(),
    }
}
