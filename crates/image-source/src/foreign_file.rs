//! Files that users take for images, known by their first bytes.

/// How a pointer of Git LFS begins (git-lfs, docs/spec.md).
pub(crate) const LFS_BEGIN: &[u8] = b"version https://git-lfs.github.com/spec/";
pub(crate) const LFS_POINTER: &str = "it is a pointer of Git LFS and not the file; git lfs pull fetches it";

/// The number of bytes that identify a file: a tar header.
pub(crate) const START: u64 = 512;

/// How each kind of file begins, without white space, and what it is. The first row that fits counts.
#[rustfmt::skip] // A row is a line.
const FOREIGN_FILES: [(&[u8], &str); 7] = [
    (LFS_BEGIN, LFS_POINTER),
    (b"\x7fELF", "it is a program or library (ELF); for its libraries: cupti-audit tree IMAGE PATH (IMAGE is rootfs:/ for this machine)"),
    (b"{\"schema\":\"cupti-audit/", "it is a report of cupti-audit; name the image that the report is about"),
    (b"{\"", JSON),
    (b"[{", JSON),
    (b"[\"", JSON),
    (b"PK\x03\x04", "it is a zip archive, such as a wheel"),
];
const JSON: &str = "it is JSON, such as docker inspect writes; the image itself: docker save NAME | cupti-audit -";

fn without_space(bytes: &[u8]) -> Vec<u8> {
    let bytes = bytes.iter().copied();
    bytes.filter(|byte| !byte.is_ascii_whitespace()).collect()
}

/// What a file is that begins with `start` and is no image; `None` if its kind is not known.
pub(crate) fn describe_foreign_file(start: &[u8]) -> Option<&'static str> {
    let start = without_space(start);
    let mut rows = FOREIGN_FILES.iter();
    let row = rows.find(|(begin, _)| start.starts_with(&without_space(begin)));
    row.map(|(_, words)| *words)
}

#[cfg(test)]
mod tests {
    use super::describe_foreign_file;

    #[test]
    fn what_is_a_file_that_is_no_image() {
        for (start, begin) in [
            (
                &b"version https://git-lfs.github.com/spec/v1\n"[..],
                "it is a pointer of Git LFS",
            ),
            (b"\x7fELF\x02\x01", "it is a program or library"),
            (
                b"{\n  \"schema\": \"cupti-audit/report/v1\"",
                "it is a report of cupti-audit",
            ),
            (b"{\"schemaVersion\": 2", "it is JSON"),
            (b"[\n {\n \"Id\"", "it is JSON"),
            (b"PK\x03\x04\x14", "it is a zip archive"),
        ] {
            let words = describe_foreign_file(start).unwrap_or_default();
            assert!(words.starts_with(begin), "{words}");
        }
        for start in [&b""[..], b"[package]\nname = \"x\"", b"{{ template }}", b"# README"] {
            assert_eq!(describe_foreign_file(start), None);
        }
    }
}
