//! Shell quoting for the Dockerfile and the report.

use image_linkage::path::RootPath;

/// Whether no byte needs quoting for the shell, `COPY`, `FROM` and `USER`.
pub(crate) fn is_plain(name: &[u8]) -> bool {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._+@%=:,-".contains(byte);
    // A leading dash would make it an option.
    !name.is_empty() && !name.starts_with(b"-") && name.iter().all(plain)
}

/// A shell word (POSIX.1, Shell Command Language, 2.2): unchanged if that is safe, otherwise in single quotes.
pub(crate) fn quote_shell(text: &str) -> String {
    if is_plain(text.as_bytes()) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// A path as a shell word; `None` if it is not UTF-8 or has control characters.
pub(crate) fn quote_path(path: &RootPath) -> Option<String> {
    let path = path.absolute();
    let text = std::str::from_utf8(&path).ok()?;
    (!text.contains(char::is_control)).then(|| quote_shell(text))
}
