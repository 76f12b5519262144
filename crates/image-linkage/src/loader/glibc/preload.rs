//! The libraries that are loaded before all others (glibc elf/rtld.c, `dl_main`).

use crate::elf::ByteString;
use crate::loader::link_map::{ProcessSetup, split_names};

/// The bytes of `/etc/ld.so.preload` that are read; real ones hold a line or two.
pub(super) const PRELOAD_FILE: usize = 16 << 10;

/// The names in `LD_PRELOAD`, divided by spaces and colons, then those in `/etc/ld.so.preload`, whose comments
/// count as space (`handle_preload_list`).
pub(super) fn preload_names(setup: &ProcessSetup<'_>) -> Vec<ByteString> {
    let environment = setup.environment.preload.as_deref().unwrap_or_default();
    let mut names = split_names(environment, b" :");
    let file = setup.rootfs.content(b"/etc/ld.so.preload").unwrap_or_default();
    let file = without_comments(file.get(..PRELOAD_FILE).unwrap_or(file));
    names.extend(split_names(&file, b": \t\n"));
    names
}

/// A preload file with its comments blanked. The loader looks for the next one from the start of the file, in
/// as many bytes as are left: it misses one that lies behind them (glibc elf/rtld.c, `dl_main`).
fn without_comments(file: &[u8]) -> Vec<u8> {
    let mut file = file.to_vec();
    let mut rest = file.len();
    while let Some(start) = file
        .get(..rest)
        .and_then(|part| part.iter().position(|&byte| byte == b'#'))
    {
        rest -= start;
        for byte in file.iter_mut().skip(start) {
            if rest == 0 || *byte == b'\n' {
                break;
            }
            *byte = b' ';
            rest -= 1;
        }
    }
    file
}

#[cfg(test)]
mod tests {
    use super::{split_names, without_comments};

    #[test]
    fn comments_are_space_and_names_are_divided() {
        let names = |file: &[u8]| -> Vec<String> {
            let names = split_names(&without_comments(file), b": \t\n");
            names
                .iter()
                .map(|name| String::from_utf8_lossy(name).into_owned())
                .collect()
        };
        assert_eq!(names(b"/a.so /b.so:/c.so\n\n"), ["/a.so", "/b.so", "/c.so"]);
        assert_eq!(names(b"# all of it\n/a.so /b.so"), ["/a.so", "/b.so"]);
        // The loader's own slip: this comment lies behind as many bytes as the first one left.
        assert_eq!(names(b"# all\n/a.so # it"), ["/a.so", "#", "it"]);
        assert_eq!(names(b"#"), [] as [&str; 0]);
    }
}
