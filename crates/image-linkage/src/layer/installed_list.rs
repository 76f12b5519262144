//! The lists of installed files of package managers: parsed, reduced to libraries and modules, and written without
//! removed files.

use csv::{ByteRecord, ReaderBuilder, WriterBuilder};

use super::index::FileFacts;
use crate::path::RootPath;

/// The format of a list of installed files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InstalledList {
    /// `RECORD` of a wheel: path relative to site-packages, hash and size in CSV (`PyPA`, "Recording installed
    /// projects").
    Record,
    /// dpkg's `.list`: an absolute path in each line.
    DpkgPaths,
    /// dpkg's `.md5sums`: checksum, two blanks and a path without its leading slash (read by `dpkg --verify`).
    DpkgSums,
}

/// A file named by a list of installed files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedFile {
    /// The installed path.
    pub path: RootPath,
    /// The size in bytes, if listed.
    pub bytes: Option<u64>,
    /// The SHA-256 in URL-safe base64 without padding, if listed.
    pub sha256: Option<String>,
}

/// Whether the path is a package manager's list of installed files.
pub fn is_installed_list(path: &RootPath) -> bool {
    InstalledList::of_path(path).is_some()
}

/// The files named by the list at `path`, in order; empty if the path is not such a list.
pub fn listed_files(path: &RootPath, content: &[u8]) -> Vec<ListedFile> {
    let list = InstalledList::of_path(path);
    let lines = list.map(|list| list.lines(path, content)).unwrap_or_default();
    lines.into_iter().filter_map(|(_, file)| file).collect()
}

/// The list at `path` without the lines of files that are gone; unchanged if the path is not such a list.
pub(super) fn remove_listed_files(path: &RootPath, content: &[u8], is_gone: impl Fn(&RootPath) -> bool) -> Vec<u8> {
    let Some(list) = InstalledList::of_path(path) else {
        return content.to_vec();
    };
    // On a merged /usr, Debian packages still list files in /lib that are in /usr/lib.
    let may_be_merged = list != InstalledList::Record;
    let mut kept = Vec::new();
    for (line, file) in list.lines(path, content) {
        let is_kept = file.is_none_or(|ListedFile { path, .. }| {
            !(is_gone(&path) || may_be_merged && is_gone(&RootPath::from("usr").join(path.as_bytes())))
        });
        if is_kept {
            kept.push(line);
        }
    }
    kept.concat()
}

/// The facts of the list at `path` after the lines of files that are gone were removed from it.
pub fn shorten_list(path: &RootPath, list: &FileFacts, is_gone: impl Fn(&RootPath) -> bool) -> FileFacts {
    let kept = list.kept.as_ref();
    FileFacts {
        kept: kept.map(|kept| remove_listed_files(path, kept, is_gone).into()),
        ..list.clone()
    }
}

/// Whether a name is that of a shared library or extension module.
pub fn is_library_name(name: &[u8]) -> bool {
    name.ends_with(b".so") || memchr::memmem::find(name, b".so.").is_some()
}

fn is_code(name: &[u8]) -> bool {
    is_library_name(name) || name.ends_with(b".py")
}

impl InstalledList {
    /// The format of the list at `path`; `None` if it is not such a list.
    pub(crate) fn of_path(path: &RootPath) -> Option<Self> {
        let name = path.name();
        // Check the name first: this runs for every path of an image.
        if name == b"RECORD" {
            return path.parent().name().ends_with(b".dist-info").then_some(Self::Record);
        }
        let form = if name.ends_with(b".list") {
            Self::DpkgPaths
        } else if name.ends_with(b".md5sums") {
            Self::DpkgSums
        } else {
            return None;
        };
        (path.parent().as_bytes() == b"var/lib/dpkg/info").then_some(form)
    }

    /// The list reduced to libraries, Python modules and dpkg's programs, with hashes of libraries only. A `RECORD` of
    /// PyTorch has 1 MB, mostly headers and hashes.
    pub(super) fn essence(self, path: &RootPath, content: &[u8]) -> Vec<u8> {
        if self != Self::Record {
            let mut kept = Vec::new();
            for (line, file) in self.lines(path, content) {
                if file.is_some_and(|ListedFile { path, .. }| is_code(path.name()) || path.parent().name() == b"bin") {
                    kept.push(line);
                }
            }
            return kept.concat();
        }
        let mut writer = WriterBuilder::new().flexible(true).from_writer(Vec::new());
        for (_, record) in records(content) {
            let [path, hash, bytes] = [0, 1, 2].map(|number| record.get(number).unwrap_or_default());
            let file = RootPath::new(path);
            if is_code(file.name()) {
                let hash = if is_library_name(file.name()) { hash } else { b"" };
                // Writing to a vector cannot fail.
                let _written = writer.write_record([path, hash, bytes]);
            }
        }
        writer.into_inner().unwrap_or_default()
    }

    /// The raw lines of the list at `path`, each with the file it names.
    fn lines<'c>(self, path: &RootPath, content: &'c [u8]) -> Vec<(&'c [u8], Option<ListedFile>)> {
        if self == Self::Record {
            let site = path.parent().parent();
            let lines = records(content).into_iter();
            return lines
                .map(|(line, record)| (line, recorded_file(&site, &record)))
                .collect();
        }
        let lines = content.split_inclusive(|&byte| byte == b'\n');
        lines
            .map(|line| (line, self.dpkg_file(line.trim_ascii_end())))
            .collect()
    }

    fn dpkg_file(self, line: &[u8]) -> Option<ListedFile> {
        let written = match self {
            Self::DpkgSums => line.get(memchr::memmem::find(line, b"  ")?..)?.trim_ascii_start(),
            Self::DpkgPaths | Self::Record => line,
        };
        let path = RootPath::new(written);
        Some(ListedFile {
            path,
            bytes: None,
            sha256: None,
        })
    }
}

/// The file of a record. Its path is relative to site-packages or absolute.
fn recorded_file(site: &RootPath, record: &ByteRecord) -> Option<ListedFile> {
    let written = record.get(0)?;
    // Hash and size are optional.
    let [hash, bytes] = [1, 2].map(|number| std::str::from_utf8(record.get(number)?).ok());
    let sha256 = hash.and_then(|hash| hash.strip_prefix("sha256="));
    Some(ListedFile {
        path: if written.starts_with(b"/") {
            RootPath::new(written)
        } else {
            site.join(written)
        },
        bytes: bytes.and_then(|bytes| bytes.trim().parse().ok()),
        sha256: sha256.map(str::to_owned),
    })
}

/// The records of a CSV text, each with its raw bytes including the line end.
fn records(content: &[u8]) -> Vec<(&[u8], ByteRecord)> {
    let mut reader = ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .from_reader(content);
    let (mut found, mut start) = (Vec::new(), 0);
    let mut record = ByteRecord::new();
    // Flexible records and a slice as input: reading cannot fail.
    while reader.read_byte_record(&mut record).unwrap_or(false) {
        let read = usize::try_from(reader.position().byte()).unwrap_or(content.len());
        // The reader consumes the "\n" of "\r\n" with the next record.
        let is_half = content
            .get(read.wrapping_sub(1)..)
            .is_some_and(|rest| rest.starts_with(b"\r\n"));
        let end = read + usize::from(is_half);
        found.push((content.get(start..end).unwrap_or_default(), record.clone()));
        start = end;
    }
    // Trailing empty lines belong to no record.
    let rest = content.get(start..).filter(|rest| !rest.is_empty());
    found.extend(rest.map(|rest| (rest, ByteRecord::new())));
    found
}

#[cfg(test)]
mod tests {
    use super::{InstalledList, ListedFile, listed_files, remove_listed_files};
    use crate::path::RootPath;

    fn without(list: &str, content: &str, gone: &[&str]) -> String {
        let is_gone = |path: &RootPath| gone.iter().any(|gone| RootPath::from(*gone) == *path);
        String::from_utf8(remove_listed_files(&list.into(), content.as_bytes(), is_gone)).unwrap()
    }

    #[test]
    fn a_record_loses_only_the_lines_of_removed_files() {
        let list = "opt/lib/python3/site-packages/x-1.dist-info/RECORD";
        let content = "x/a.so,sha256=1,5\r\nx/ab.so,sha256=2,6\n\"x/b,\"\"c\"\".so\",,\n../../../bin/x,,\n/opt/y,,\nx-1.dist-info/RECORD,,";
        let site = "opt/lib/python3/site-packages";
        let all = [
            format!("{site}/x/a.so"),
            format!("{site}/x/b,\"c\".so"),
            "opt/bin/x".to_owned(),
            "opt/y".to_owned(),
        ];
        let gone: Vec<&str> = all.iter().map(String::as_str).collect();
        assert_eq!(
            without(list, content, &gone),
            "x/ab.so,sha256=2,6\nx-1.dist-info/RECORD,,"
        );
        assert_eq!(without(list, content, &["x/a.so"]), content);
        assert_eq!(without(list, "x/a.so,,\n\n\n", &[]), "x/a.so,,\n\n\n");
    }

    #[test]
    fn dpkg_lists_lose_files_by_path_before_and_after_usr_merge() {
        let gone = ["usr/lib/liba.so", "usr/bin/b c"];
        let (paths, sums) = ("var/lib/dpkg/info/x:amd64.list", "var/lib/dpkg/info/x:amd64.md5sums");
        assert_eq!(
            without(paths, "/.\n/lib/liba.so\n/usr/bin/b c\n/usr/bin/b\n", &gone),
            "/.\n/usr/bin/b\n"
        );
        assert_eq!(
            without(sums, "00ff  lib/liba.so\n00fe  usr/bin/b c\n00fd  usr/bin/b\n", &gone),
            "00fd  usr/bin/b\n"
        );
        for path in ["x/RECORD", "var/lib/dpkg/info/x.postinst", "var/lib/dpkg/x.list"] {
            assert_eq!(InstalledList::of_path(&RootPath::from(path)), None, "{path}");
        }
    }

    #[test]
    fn a_reduced_list_has_the_same_libraries_and_modules() {
        let list = RootPath::from("opt/lib/python3/site-packages/x-1.dist-info/RECORD");
        let content = "x/a.so.1,sha256=1,5\r\nx/a.h,sha256=2,6\n\"x/b,\"\"c\"\".so\",,\n../../../bin/x,,\n\n\
                       /opt/y.py,sha256=3,7\nx/__pycache__/y.cpython-311.pyc,,\n../../lib.so/z,,";
        let kept = InstalledList::Record.essence(&list, content.as_bytes());
        assert_eq!(
            String::from_utf8_lossy(&kept),
            "x/a.so.1,sha256=1,5\n\"x/b,\"\"c\"\".so\",,\n/opt/y.py,,7\n"
        );
        let file = |path: &str, bytes, sha256: Option<&str>| ListedFile {
            path: RootPath::from(path),
            bytes,
            sha256: sha256.map(str::to_owned),
        };
        let site = "opt/lib/python3/site-packages";
        assert_eq!(
            listed_files(&list, &kept),
            [
                file(&format!("{site}/x/a.so.1"), Some(5), Some("1")),
                file(&format!("{site}/x/b,\"c\".so"), None, None),
                file("opt/y.py", Some(7), None),
            ]
        );
        let list = RootPath::from("var/lib/dpkg/info/x.list");
        let kept = InstalledList::DpkgPaths.essence(&list, b"/.\n/usr/share/doc/x\n/lib/liba.so.1\n");
        assert_eq!(kept, b"/lib/liba.so.1\n");
    }
}
