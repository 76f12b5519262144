//! The lists of installed files that package managers keep in an image: written without the files that go, they stay true.

use std::borrow::Cow;
use std::collections::BTreeSet;

use crate::path::RootPath;

/// The form of a list of installed files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InstalledList {
    /// `RECORD` of a wheel: path, hash and size in CSV, from the folder of packages (`PyPA`, "Recording installed projects").
    Record,
    /// `.list` of dpkg: an absolute path in each line.
    DpkgPaths,
    /// `.md5sums` of dpkg: a sum, two blanks and a path without its first slash (`dpkg --verify` reads it).
    DpkgSums,
}

/// Whether a package manager keeps at this path which files are installed, whole or for one package.
pub fn is_installed_list(path: &RootPath) -> bool {
    InstalledList::of_path(path).is_some()
}

impl InstalledList {
    /// The form of the list at `path`; `None` for what is no such list.
    pub(crate) fn of_path(path: &RootPath) -> Option<Self> {
        let (folder, name) = (path.parent(), path.name());
        let is_dpkg = folder.as_bytes() == b"var/lib/dpkg/info";
        match () {
            () if name == b"RECORD" && folder.name().ends_with(b".dist-info") => Some(Self::Record),
            () if is_dpkg && name.ends_with(b".list") => Some(Self::DpkgPaths),
            () if is_dpkg && name.ends_with(b".md5sums") => Some(Self::DpkgSums),
            () => None,
        }
    }

    /// The content of the list at `path` without the lines of the files that are `gone`, each as it is written.
    pub(crate) fn remove_files(self, path: &RootPath, content: &[u8], gone: &BTreeSet<RootPath>) -> Vec<u8> {
        let lines = content.split_inclusive(|&byte| byte == b'\n');
        let stays = |line: &&[u8]| {
            let file = self.listed_file(path, line.trim_ascii_end());
            // Debian's packages named files below /lib that lie below /usr/lib since the two were merged.
            let merged =
                |file: &RootPath| self != Self::Record && gone.contains(&RootPath::from("usr").join(file.as_bytes()));
            !file.is_some_and(|file| gone.contains(&file) || merged(&file))
        };
        lines.filter(stays).collect::<Vec<_>>().concat()
    }

    /// The file that a line of the list at `path` names.
    fn listed_file(self, path: &RootPath, line: &[u8]) -> Option<RootPath> {
        match self {
            Self::Record => {
                let written = first_field(line)?;
                Some(if written.starts_with(b"/") {
                    RootPath::new(&written)
                } else {
                    path.parent().parent().join(&written)
                })
            }
            Self::DpkgPaths => Some(RootPath::new(line)),
            Self::DpkgSums => {
                let at = line.windows(2).position(|pair| pair == b"  ")?;
                Some(RootPath::new(line.get(at..)?.trim_ascii_start()))
            }
        }
    }
}

/// The first field of a line of CSV: as it is, or in quotes, which are doubled within it.
fn first_field(line: &[u8]) -> Option<Cow<'_, [u8]>> {
    let Some(quoted) = line.strip_prefix(b"\"") else {
        return line.split(|&byte| byte == b',').next().map(Cow::Borrowed);
    };
    let mut field = Vec::new();
    let mut rest = quoted.iter();
    while let Some(&byte) = rest.next() {
        if byte == b'"' && rest.next() != Some(&b'"') {
            return Some(Cow::Owned(field));
        }
        field.push(byte);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::InstalledList;
    use crate::path::RootPath;

    fn without(list: &str, content: &str, gone: &[&str]) -> String {
        let (list, gone) = (
            RootPath::from(list),
            gone.iter().map(|path| RootPath::from(*path)).collect(),
        );
        let form = InstalledList::of_path(&list).unwrap();
        String::from_utf8(form.remove_files(&list, content.as_bytes(), &gone)).unwrap()
    }

    #[test]
    fn a_record_loses_the_lines_of_files_that_go_and_no_other() {
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
    }

    #[test]
    fn the_lists_of_dpkg_lose_files_by_their_old_and_their_new_place() {
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
}
