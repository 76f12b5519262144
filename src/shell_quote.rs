//! Words as a shell takes them: the Dockerfile and the report write them alike.

use image_linkage::path::RootPath;

/// Whether every byte means itself to the shell, to `COPY`, `FROM` and `USER`.
pub(crate) fn is_plain(name: &[u8]) -> bool {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._+@%=:,-".contains(byte);
    // In front of a word a dash would make it an option.
    !name.is_empty() && !name.starts_with(b"-") && name.iter().all(plain)
}

/// A word of the shell (POSIX.1, Shell Command Language, 2.2): as it is where that is safe, else in single quotes.
pub(crate) fn quote_shell(text: &str) -> String {
    if is_plain(text.as_bytes()) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// A path as a word of the shell; `None` for one with bytes that are not text, or that a terminal obeys.
pub(crate) fn quote_path(path: &RootPath) -> Option<String> {
    let path = path.absolute();
    let text = std::str::from_utf8(&path).ok()?;
    (!text.contains(char::is_control)).then(|| quote_shell(text))
}
