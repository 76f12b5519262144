//! Collects the members of a layer into entries and whiteouts (image-spec, layer.md, "Changesets").
//!
//! Paths are resolved within the layer: if a directory of the path is a symbolic link in the same layer, the member is
//! placed behind the link. Engines do the same when they unpack the layer into an empty directory.

use std::collections::{BTreeMap, BTreeSet};

use super::index::{LayerEntry, LayerProblem, ProblemKind};
use super::layer_entries::LayerEntries;
use super::layer_links::LayerLinks;
use crate::limits::Limits;
use crate::path::RootPath;

/// The maximum problems kept of one layer. The rest is only counted.
const PROBLEMS: usize = 200;
/// The estimated memory of a directory in a merged file system.
const DIRECTORY: u64 = 400;
/// The maximum bytes of a file name (`NAME_MAX`).
const NAME: usize = 255;
/// The upper bound, exclusive, of a link target's length (`PATH_MAX`).
const TARGET: usize = 4096;
/// The name prefix of a whiteout.
const WHITEOUT: &[u8] = b".wh.";
/// The name that makes its directory opaque.
const OPAQUE: &[u8] = b".wh..wh..opq";

/// The entries and whiteouts collected so far.
#[derive(Debug, Default)]
pub(crate) struct Changeset {
    /// The entry at each path.
    pub entries: LayerEntries,
    /// The deleted paths of lower layers.
    pub whiteouts: BTreeSet<RootPath>,
    /// The directories whose lower content is hidden.
    pub opaque: BTreeSet<RootPath>,
    /// Damage and oddities, up to the limit.
    pub problems: Vec<LayerProblem>,
    surplus_problems: usize,
    /// The most severe kind among the dropped problems.
    surplus_kind: Option<ProblemKind>,
    links: LayerLinks,
    /// The hard links so far, as pairs of target and link.
    hard_links: BTreeSet<(RootPath, RootPath)>,
    /// Hard link targets that are not in the layer yet, each with one link to it.
    early_links: BTreeMap<RootPath, RootPath>,
    /// The bytes of paths, link targets and object names in memory.
    held: u64,
    /// The part of them that comes from objects.
    held_of_objects: u64,
    /// The last parent directory and its resolved path.
    last_parent: Option<(RootPath, RootPath)>,
}

impl Changeset {
    /// Records an oddity at `path`.
    pub(crate) fn problem(&mut self, path: &RootPath, what: impl Into<String>) {
        self.record(path, what.into(), ProblemKind::Odd);
    }

    /// Records that the file at `path` could not be read.
    pub(crate) fn unread(&mut self, path: &RootPath, what: String) {
        self.record(path, what, ProblemKind::Unread);
    }

    /// Records an entry that the kernel refuses, so that every engine fails at `path`.
    pub(crate) fn refused(&mut self, path: &RootPath, what: impl Into<String>) {
        self.record(path, what.into(), ProblemKind::Refused);
    }

    fn record(&mut self, path: &RootPath, what: String, kind: ProblemKind) {
        if self.problems.len() < PROBLEMS {
            let path = path.clone();
            self.problems.push(LayerProblem { path, what, kind });
        } else {
            self.surplus_problems += 1;
            // An unread file must not vanish among many oddities: it is a gap in the audit.
            self.surplus_kind = self.surplus_kind.max(Some(kind));
        }
    }

    /// The resolved path of a member in the layer; `None`, with a problem, if it has none.
    ///
    /// Errors: Following the layer's links takes too long.
    pub(crate) fn place(&mut self, name: &[u8], limit: usize, links: usize) -> Result<Option<RootPath>, String> {
        let written = RootPath::new(name);
        // The kernel refuses such a path, so no engine can unpack the member.
        if name.len() > limit {
            let what = format!("the name is longer than {limit} bytes; the entry is ignored");
            self.refused(&written, what);
            return Ok(None);
        }
        if written.name().len() > NAME {
            self.refused(&written, format!("the name is longer than {NAME} bytes"));
        }
        // Some engines refuse such a layer; others keep the member inside the root.
        if RootPath::leaves_root(name) {
            self.problem(
                &written,
                "the name leaves the root with \"..\"; treated as inside the root",
            );
        }
        let parent = written.parent();
        // Members of a directory are nearly always adjacent, so its links are followed once.
        let placed = match &self.last_parent {
            Some((asked, placed)) if *asked == parent => placed.clone(),
            _ => {
                let Some(placed) = self.follow(&parent, limit, links)? else {
                    return Ok(None);
                };
                if self.lies_below_file(&placed) {
                    // Engines use only the directory name of an opaque marker.
                    if written.name() != OPAQUE {
                        self.refused(&written, "its parent in the same layer is not a directory");
                    }
                } else {
                    self.last_parent = Some((parent, placed.clone()));
                }
                placed
            }
        };
        Ok(Some(if placed == written.parent() {
            written
        } else {
            placed.join(written.name())
        }))
    }

    fn follow(&mut self, directory: &RootPath, limit: usize, links: usize) -> Result<Option<RootPath>, String> {
        let found = self.links.follow(directory, &self.entries, links)?;
        match &found {
            None => self.problem(
                directory,
                format!("more than {links} links lead to the directory; its entries are ignored"),
            ),
            Some(path) if path.as_bytes().len() > limit => {
                self.problem(
                    directory,
                    format!("links make the path longer than {limit} bytes; its entries are ignored"),
                );
                return Ok(None);
            }
            Some(_) => {}
        }
        Ok(found)
    }

    /// Whether creating a file in `directory` fails with ENOTDIR. A hard link may lead to a symbolic link, so it does
    /// not count.
    fn lies_below_file(&self, directory: &RootPath) -> bool {
        let nearest = lineage(directory).find_map(|path| self.entries.get(path.as_bytes()));
        matches!(nearest, Some(LayerEntry::File(_) | LayerEntry::Special))
    }

    /// Adds an entry. The last entry of a path wins, and a non-directory removes everything below it.
    pub(crate) fn add(&mut self, path: &RootPath, entry: LayerEntry) {
        let name = path.name();
        // Checked first: the name alone makes a member a whiteout, whatever its type.
        if let Some(hidden) = name.strip_prefix(WHITEOUT) {
            return self.add_whiteout(path, hidden);
        }
        let is_directory = matches!(entry, LayerEntry::Directory(..));
        // symlink(2): an empty target is ENOENT, one of `PATH_MAX` bytes ENAMETOOLONG.
        if matches!(&entry, LayerEntry::Symlink(target) if target.is_empty() || target.len() >= TARGET) {
            self.refused(path, "the target of the link is empty or longer than the kernel takes");
        }
        if *path == RootPath::default() {
            if !is_directory {
                self.refused(path, "an entry for the root is not a directory; ignored");
            }
            return;
        }
        if !is_directory {
            self.remove_below(path);
        }
        if self.links.set(path, matches!(entry, LayerEntry::Symlink(_))) {
            self.last_parent = None;
        }
        // Never reduced, so that a tar that repeats one path still reaches the limit.
        self.held += (path.as_bytes().len() + entry.name_bytes()) as u64;
        self.held_of_objects += entry.object_bytes() as u64;
        if !self.hard_links.is_empty()
            && let Some(before) = self.entries.get(path.as_bytes()).cloned()
        {
            self.keep_linked(path, &before);
        }
        if let Some(link) = self.early_links.remove(path) {
            self.unread(
                &link,
                "hard link to a file that comes later in the same layer".to_owned(),
            );
        }
        if let LayerEntry::Hardlink(target) = &entry {
            self.check_target(path, target);
            self.hard_links.insert((target.clone(), path.clone()));
        }
        self.entries.insert(path, entry);
    }

    /// Records hard links that engines resolve differently: their target must exist when the link is unpacked.
    fn check_target(&mut self, path: &RootPath, target: &RootPath) {
        if self.entries.get(target.as_bytes()).is_some() {
            return;
        }
        if lineage(target).any(|path| self.whiteouts.contains(&path)) {
            self.unread(path, "hard link to a file that the same layer removes".to_owned());
        } else {
            self.early_links.insert(target.clone(), path.clone());
        }
    }

    /// Replaces the hard links to `path` by their old file, because the path is about to get another one. Engines
    /// unlink only the name (containerd, archive/tar.go, `createTarFile`).
    fn keep_linked(&mut self, path: &RootPath, file: &LayerEntry) {
        let links = self.hard_links.range((path.clone(), RootPath::default())..);
        let to_path: Vec<_> = links.take_while(|(target, _)| target == path).cloned().collect();
        for link in to_path {
            self.hard_links.remove(&link);
            let (_, name) = link;
            if let Some(entry) = self.entries.get_mut(&name)
                && matches!(entry, LayerEntry::Hardlink(target) if target == path)
            {
                *entry = file.clone();
                if let LayerEntry::Hardlink(first) = file {
                    self.hard_links.insert((first.clone(), name));
                }
            }
        }
    }

    /// Checks the memory of paths, targets and names against the limits.
    ///
    /// Errors: The exceeded limit.
    pub(crate) fn check_held(&self, limits: &Limits) -> Result<(), String> {
        let all = "the paths of its entries and the names in its libraries";
        let of_objects = "the names in its libraries";
        for (held, limit, what, name) in [
            (self.held, limits.layer_names, all, "layer-names"),
            (self.held_of_objects, limits.object_names, of_objects, "object-names"),
        ] {
            if held > limit {
                return Err(format!("{what} take more than the limit of {limit} bytes ({name})"));
            }
        }
        Ok(())
    }

    /// Checks that the entries are in at most `limit` directories, including implicit ones, and that memory with these
    /// directories stays within its limit.
    ///
    /// Errors: The exceeded limit.
    pub(crate) fn check_directories(&mut self, limit: usize, limits: &Limits) -> Result<(), String> {
        let mut before = &RootPath::default();
        let (mut directories, mut unnamed) = (0, 0);
        for (path, _) in self.entries.folders() {
            // Paths are sorted, so components not shared with the previous path are new.
            let pairs = before.split_components().zip(path.split_components());
            let shared = pairs.take_while(|(one, other)| one == other).count();
            let new = path.split_components().count() - shared;
            let folders = std::iter::successors(Some(path.clone()), |path| Some(path.parent())).take(new);
            unnamed += folders
                .filter(|path| self.entries.get(path.as_bytes()).is_none())
                .count();
            directories += new;
            before = path;
        }
        if directories > limit {
            return Err(format!(
                "its entries lie in more than the limit of {limit} directories, twice that of entries (layer-entries)"
            ));
        }
        // A path of two thousand components creates as many directories that nothing else counts.
        self.held += DIRECTORY * unnamed as u64;
        self.check_held(limits)
    }

    fn add_whiteout(&mut self, path: &RootPath, hidden: &[u8]) {
        let parent = path.parent();
        match hidden {
            // First, because this name also starts with the whiteout prefix.
            _ if path.name() == OPAQUE => {
                self.held += path.as_bytes().len() as u64;
                self.opaque.insert(parent);
            }
            // Taken literally, `.wh..` would delete its own directory and `.wh...` the parent.
            b"" | b"." | b".." => {
                self.refused(path, "the whiteout has no valid name; ignored");
            }
            _ => {
                self.held += path.as_bytes().len() as u64;
                self.whiteouts.insert(parent.join(hidden));
            }
        }
    }

    fn remove_below(&mut self, path: &RootPath) {
        let gone = self.entries.paths_below(path);
        if gone.is_empty() {
            return;
        }
        for path in gone {
            self.links.set(&path, false);
            if let Some(before) = self.entries.remove(&path) {
                self.keep_linked(&path, &before);
            }
        }
        self.last_parent = None;
    }

    /// The problems, and a final one with the number of dropped problems.
    pub(crate) fn take_problems(&mut self) -> Vec<LayerProblem> {
        let mut problems = std::mem::take(&mut self.problems);
        if self.surplus_problems > 0 {
            let what = format!("{} more problems are not listed", self.surplus_problems);
            problems.push(LayerProblem {
                path: RootPath::default(),
                what,
                kind: self.surplus_kind.unwrap_or(ProblemKind::Odd),
            });
        }
        problems
    }
}

/// A path and all its parents.
fn lineage(path: &RootPath) -> impl Iterator<Item = RootPath> {
    std::iter::successors(Some(path.clone()), |path| {
        (*path != RootPath::default()).then(|| path.parent())
    })
}

#[cfg(test)]
mod tests {
    use super::Changeset;
    use crate::layer::{LayerEntry, NodeAccess};
    use crate::path::RootPath;

    const ACCESS: NodeAccess = NodeAccess {
        mode: 0o755,
        uid: 0,
        gid: 0,
    };
    const FOLDER: LayerEntry = LayerEntry::Directory(ACCESS, None);

    fn link(target: &str) -> LayerEntry {
        LayerEntry::Symlink(target.as_bytes().into())
    }

    fn changeset(members: &[(&str, LayerEntry)]) -> Changeset {
        let mut changeset = Changeset::default();
        for (name, entry) in members {
            if let Some(path) = changeset.place(name.as_bytes(), 4096, 40).unwrap() {
                changeset.add(&path, entry.clone());
            }
        }
        changeset
    }

    fn paths(changeset: &Changeset) -> Vec<String> {
        changeset.entries.keys().map(|path| path.to_string()).collect()
    }

    #[test]
    fn a_member_behind_a_link_is_placed_at_the_target() {
        let found = changeset(&[
            ("etc", FOLDER),
            ("a", link("/etc")),
            ("b", link("a")),
            ("b/x", LayerEntry::Special),
        ]);
        assert_eq!(paths(&found), ["/a", "/b", "/etc", "/etc/x"]);
        let up = changeset(&[("d/a", link("../../../etc")), ("d/a/x", LayerEntry::Special)]);
        assert_eq!(paths(&up), ["/d/a", "/etc/x"]);
    }

    #[test]
    fn the_last_entry_wins_and_removes_everything_below() {
        let found = changeset(&[
            ("a/x", LayerEntry::Special),
            ("a/y/z", LayerEntry::Special),
            ("a-b", FOLDER),
            ("a", link("b")),
        ]);
        assert_eq!(paths(&found), ["/a", "/a-b"]);
        let back = changeset(&[("a", link("b")), ("a", FOLDER), ("a/x", LayerEntry::Special)]);
        assert_eq!(paths(&back), ["/a", "/a/x"]);
    }

    #[test]
    fn a_hard_link_keeps_its_original_file() {
        let hard = |target: &str| LayerEntry::Hardlink(RootPath::new(target.as_bytes()));
        let found = changeset(&[
            ("d/a", link("old")),
            ("b", hard("d/a")),
            ("c", hard("b")),
            ("d/a", link("new")),
            ("e", hard("d/a")),
            ("b", LayerEntry::Special),
            ("d", LayerEntry::Special),
        ]);
        let [b, c, e] = ["b", "c", "e"].map(|name| found.entries.get(name.as_bytes()).unwrap().clone());
        assert_eq!((b, c, e), (LayerEntry::Special, link("old"), link("new")));
    }

    #[test]
    fn malformed_whiteouts_delete_nothing() {
        let found = changeset(&[
            ("d/.wh.gone", LayerEntry::Special),
            ("d/.wh..wh..opq", LayerEntry::Special),
            ("d/.wh..wh..opqX", LayerEntry::Special),
            ("d/.wh.", LayerEntry::Special),
            ("d/.wh...", LayerEntry::Special),
        ]);
        let text = |set: &std::collections::BTreeSet<RootPath>| set.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(text(&found.whiteouts), ["/d/.wh..opqX", "/d/gone"]);
        assert_eq!(text(&found.opaque), ["/d"]);
        assert_eq!((paths(&found).len(), found.problems.len()), (0, 2));
    }

    #[test]
    fn the_root_is_not_replaced_and_link_loops_end() {
        let found = changeset(&[
            ("/.", link("/tmp")),
            ("./", FOLDER),
            ("l", link("l")),
            ("l/x", LayerEntry::Special),
        ]);
        assert_eq!(paths(&found), ["/l"]);
        assert_eq!(found.problems.len(), 2);
    }
}
