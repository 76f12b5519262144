//! Reads interpreter, module and version names from file names.

/// Whether the name can be a Python interpreter's.
pub fn is_interpreter_name(name: &[u8]) -> bool {
    matches!(name, b"python" | b"python3") || version_of_name(name).is_some()
}

/// Whether a file is Python source: a module, a script, or a `.pth` file, whose lines run at startup.
pub fn is_source(name: &[u8]) -> bool {
    name.ends_with(b".py") || name.ends_with(b".pth")
}

/// The version in a name, such as `3.11` of `python3.11`.
pub fn version_of_name(name: &[u8]) -> Option<String> {
    let version = std::str::from_utf8(name.strip_prefix(b"python")?).ok()?;
    let numbers = version.strip_suffix('t').unwrap_or(version);
    let (major, minor) = numbers.split_once('.')?;
    let are_numbers = [major, minor]
        .iter()
        .all(|text| (1..4).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit()));
    are_numbers.then(|| version.to_owned())
}

/// The minor version, such as `3.11` of `3.11.2.final.0`.
pub fn first_two_numbers(version: &str) -> Option<String> {
    let mut parts = version.split('.');
    let short = format!("{}.{}", parts.next()?, parts.next()?);
    version_of_name(format!("python{short}").as_bytes())
}

/// The tag: `311` of `_C.cpython-311-x86_64-linux-gnu.so`, `abi3` of `_C.abi3.so`.
pub fn module_tag(name: &[u8]) -> Option<&[u8]> {
    let stem = name.strip_suffix(b".so")?;
    let tag = stem
        .rsplit(|&byte| byte == b'.')
        .next()
        .filter(|tag| tag.len() < stem.len())?;
    let mut parts = tag.split(|&byte| byte == b'-');
    match parts.next()? {
        b"cpython" => parts.next(),
        b"abi3" => Some(b"abi3"),
        other if other.starts_with(b"pypy") => Some(other),
        _ => None,
    }
}

/// Whether an interpreter of this version loads a module file of this name (`importlib.machinery.EXTENSION_SUFFIXES`).
pub fn fits_version(name: &[u8], version: &str) -> bool {
    match module_tag(name) {
        None => true,
        // The stable ABI does not cover free-threaded builds.
        Some(b"abi3") => !version.ends_with('t'),
        Some(tag) => tag == version.replace('.', "").as_bytes(),
    }
}
