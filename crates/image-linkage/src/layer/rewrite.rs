//! A layer's tar written again without some of its members: one pass, nothing held but one header.
//!
//! What stays is copied byte for byte. A hard link whose file goes takes the file over: bytes leave only when the last
//! name of them does. Lists of installed files lose the lines of what goes, and copies of one file become links to it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write};

use super::header_edit::{HeaderChange, edit_headers};
use super::index::{LayerEntry, LayerIndex};
use super::installed_list::InstalledList;
use super::layer_writer::LayerWriter;
use super::tar_header::{BLOCK, padding};
use super::tar_headers::TarItem;
use super::tar_member::{TarKind, TarMember};
use super::tar_members::TarMembers;
use crate::limits::Limits;
use crate::path::RootPath;

/// What is left out of a layer, and what that makes of its hard links.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LayerCut {
    /// The members that go.
    pub gone: BTreeSet<RootPath>,
    /// The files that go, each with the hard link that takes it over.
    pub heirs: BTreeMap<RootPath, RootPath>,
    /// The hard links that stay and lead elsewhere than before.
    pub relinked: BTreeMap<RootPath, RootPath>,
    /// What the layers below still have in the place of a member that goes: it is deleted.
    pub whiteouts: BTreeSet<RootPath>,
    /// Files of the same bytes, owner and mode, each with the one that stands for all of them: the first in the tar stays
    /// a file, and the others become hard links to it.
    pub twins: BTreeMap<RootPath, RootPath>,
    /// The files of the image that go, from this layer or another: lists of installed files name them no more.
    pub unlisted: BTreeSet<RootPath>,
}

impl LayerCut {
    /// What leaving out `paths` means for the layer; directories are never left out.
    pub fn new(layer: &LayerIndex, paths: &BTreeSet<RootPath>) -> Self {
        let goes = |path: &RootPath| {
            paths.contains(path)
                && layer
                    .entries
                    .get(path.as_bytes())
                    .is_some_and(|entry| !matches!(entry, LayerEntry::Directory(..)))
        };
        let mut cut = Self {
            gone: layer.entries.keys().filter(goes).collect(),
            ..Self::default()
        };
        // By path, as the first link is to take the file over.
        for (path, target) in layer.entries.hard_links().collect::<BTreeMap<_, _>>() {
            let Some(file) = resolve_hardlink(layer, target).filter(|_| !goes(&path)) else {
                continue;
            };
            if goes(file) {
                let heir = cut.heirs.entry(file.clone()).or_insert_with(|| path.clone());
                // The first link by name becomes the file; the others lead to it.
                if *heir != path {
                    cut.relinked.insert(path.clone(), heir.clone());
                }
            } else if goes(target) {
                cut.relinked.insert(path.clone(), file.clone());
            }
        }
        cut
    }

    /// Whether the layer stays as it is.
    pub fn is_empty(&self) -> bool {
        self.gone.is_empty() && self.whiteouts.is_empty() && self.twins.is_empty()
    }

    /// What the layer holds afterwards, by its index; which of several twins is the file, and how long a list is that loses
    /// lines, only the tar tells.
    pub fn apply(&self, layer: &LayerIndex) -> LayerIndex {
        let mut after = layer.clone();
        for (file, heir) in &self.heirs {
            if let Some(entry) = layer.entries.get(file.as_bytes()) {
                after.entries.insert(heir, entry.clone());
            }
        }
        for (path, target) in &self.relinked {
            after.entries.insert(path, LayerEntry::Hardlink(target.clone()));
        }
        for (path, first) in self.twins.iter().filter(|(path, first)| path != first) {
            after.entries.insert(path, LayerEntry::Hardlink(first.clone()));
        }
        for path in &self.gone {
            after.entries.remove(path);
        }
        after.whiteouts.extend(self.whiteouts.iter().cloned());
        after
    }
}

/// The member of the layer that holds the bytes to which a hard link leads; `None` when it lies in a layer below.
pub fn resolve_hardlink<'l>(layer: &'l LayerIndex, target: &'l RootPath) -> Option<&'l RootPath> {
    let (path, entry) = layer.follow_hardlink(target);
    entry.map(|_| path)
}

/// Writes the tar that `reader` gives to `out`, without what `cut` leaves out.
///
/// Errors: What is wrong with the tar and at which byte, what `reader` gives, and what `out` gives.
pub fn rewrite_layer(reader: impl Read, cut: &LayerCut, limits: &Limits, out: &mut dyn Write) -> Result<(), String> {
    let mut members = TarMembers::new(reader, limits);
    let mut firsts = BTreeMap::new();
    loop {
        match members.next()? {
            TarItem::End => break,
            TarItem::Global => out.write_all(members.raw()).map_err(|error| error.to_string())?,
            TarItem::Member(found) => member(&mut members, &found, cut, &mut firsts, out)?,
        }
    }
    // Bytes behind the end marker count for the digest of the source.
    members.drain()?;
    // Whiteouts may stand behind the members: they hide lower layers alone, wherever they are in the tar.
    let mut writer = LayerWriter::new(out);
    let mut end = || {
        let mut whiteouts = cut.whiteouts.iter();
        whiteouts.try_for_each(|path| writer.whiteout(path))?;
        writer.end()
    };
    end().map_err(|error| error.to_string())
}

/// What becomes of a member.
enum MemberAction<'c> {
    /// It stays, perhaps with something changed.
    Stays(HeaderChange<'c>),
    /// It stays under the name of the hard link that takes it over.
    Inherited(&'c RootPath),
    Goes,
}

impl LayerCut {
    fn fate(&self, path: &RootPath, kind: TarKind) -> MemberAction<'_> {
        let is_link = kind == TarKind::HardLink;
        let goes = self.gone.contains(path) && kind != TarKind::Directory;
        match self.heirs.get(path) {
            Some(heir) if goes && !is_link => return MemberAction::Inherited(heir),
            _ => {}
        }
        // The heir's own member goes as well: its file comes at the place of the original, under the heir's name.
        if goes || (is_link && self.heirs.values().any(|heir| heir == path)) {
            return MemberAction::Goes;
        }
        let link = self.relinked.get(path).filter(|_| is_link);
        MemberAction::Stays(HeaderChange {
            link: link.map(RootPath::as_bytes),
            ..HeaderChange::default()
        })
    }
}

/// The bytes of a list of installed files that is held to be shortened; a longer one stays as it is.
const LIST_BYTES: u64 = 16 << 20;

fn member<'c, R: Read>(
    members: &mut TarMembers<'_, R>,
    found: &TarMember,
    cut: &'c LayerCut,
    firsts: &mut BTreeMap<&'c RootPath, RootPath>,
    out: &mut dyn Write,
) -> Result<(), String> {
    let bytes = found.stored + found.padding();
    // What lies nowhere in the layer stays as it is written: engines ignore it or refuse it, as before.
    let Some(path) = members.place(found)? else {
        out.write_all(members.raw()).map_err(|error| error.to_string())?;
        return copy(members, bytes, out);
    };
    let (change, at) = match cut.fate(&path, found.kind) {
        MemberAction::Goes => return members.read(bytes, |_| ()),
        MemberAction::Stays(change) => (change, &path),
        MemberAction::Inherited(heir) => {
            let name = Some(heir.as_bytes());
            (
                HeaderChange {
                    name,
                    ..HeaderChange::default()
                },
                heir,
            )
        }
    };
    let is_plain = change.is_nothing() && found.sparse.is_none() && found.kind.has_content();
    if let Some(group) = cut.twins.get(&path).filter(|_| is_plain) {
        if let Some(first) = firsts.get(group) {
            let change = HeaderChange {
                link: Some(first.as_bytes()),
                size: Some(0),
                kind: Some(b'1'),
                ..change
            };
            write_headers(members.raw(), found, at, &change, out)?;
            members.note(at, found)?;
            return members.read(bytes, |_| ());
        }
        firsts.insert(group, path.clone());
    }
    let list = InstalledList::of_path(at).filter(|_| is_plain && bytes <= LIST_BYTES && !cut.unlisted.is_empty());
    if let Some(list) = list {
        return shorten(
            members,
            found,
            at,
            &|content| list.remove_files(at, content, &cut.unlisted),
            out,
        );
    }
    write_headers(members.raw(), found, at, &change, out)?;
    members.note(at, found)?;
    copy(members, bytes, out)
}

/// Writes the headers of a member with what changes.
fn write_headers(
    raw: &[u8],
    found: &TarMember,
    path: &RootPath,
    change: &HeaderChange<'_>,
    out: &mut dyn Write,
) -> Result<(), String> {
    if change.is_nothing() {
        return out.write_all(raw).map_err(|error| error.to_string());
    }
    if found.sparse.is_some() {
        return Err(format!(
            "{path} is a sparse file with other names, which is not written again under one of them"
        ));
    }
    let headers = edit_headers(raw, found, change)?;
    out.write_all(&headers).map_err(|error| error.to_string())
}

/// Writes a member with the content that `change` makes of its own.
fn shorten<R: Read>(
    members: &mut TarMembers<'_, R>,
    found: &TarMember,
    path: &RootPath,
    change: &dyn Fn(&[u8]) -> Vec<u8>,
    out: &mut dyn Write,
) -> Result<(), String> {
    let stored = found.stored;
    let mut content = Vec::new();
    members.read(stored, |piece| content.extend_from_slice(piece))?;
    members.read(found.padding(), |_| ())?;
    let content = change(&content);
    let bytes = content.len() as u64;
    let size = (bytes != stored).then_some(bytes);
    write_headers(
        members.raw(),
        found,
        path,
        &HeaderChange {
            size,
            ..HeaderChange::default()
        },
        out,
    )?;
    let padding = usize::try_from(padding(bytes)).unwrap_or(0);
    let zeros = [0; BLOCK];
    let mut write = |bytes: &[u8]| out.write_all(bytes).map_err(|error| error.to_string());
    write(&content)?;
    write(zeros.get(..padding).unwrap_or_default())?;
    members.note(path, found)
}

fn copy<R: Read>(members: &mut TarMembers<'_, R>, bytes: u64, out: &mut dyn Write) -> Result<(), String> {
    let mut failure = None;
    members.read(bytes, |piece| {
        if failure.is_none() {
            failure = out.write_all(piece).err();
        }
    })?;
    failure.map_or(Ok(()), |error| Err(error.to_string()))
}

/// Hands the content of the files at `paths` to `take`, each from its first byte to its last.
///
/// Errors: What is wrong with the tar, or what `take` says; a file that is sparse is not taken out.
pub fn extract_files(
    reader: impl Read,
    paths: &BTreeSet<RootPath>,
    limits: &Limits,
    mut take: impl FnMut(&RootPath, &[u8]) -> io::Result<()>,
) -> Result<(), String> {
    let mut members = TarMembers::new(reader, limits);
    loop {
        let found = match members.next()? {
            TarItem::End => return members.drain(),
            TarItem::Global => continue,
            TarItem::Member(found) => found,
        };
        let (stored, place) = (found.stored, members.place(&found)?);
        let wanted = place.as_ref().filter(|path| paths.contains(*path));
        if let Some(path) = wanted.filter(|_| found.kind.has_content()) {
            if found.sparse.is_some() {
                return Err(format!("{path} is stored as a sparse file, which is not taken out"));
            }
            // Once without a byte, so that an empty file is made too.
            let mut failure = take(path, b"").err();
            members.read(stored, |piece| {
                if failure.is_none() {
                    failure = take(path, piece).err();
                }
            })?;
            if let Some(error) = failure {
                return Err(error.to_string());
            }
        } else {
            members.read(stored, |_| ())?;
        }
        members.read(found.padding(), |_| ())?;
        if let Some(path) = place {
            members.note(&path, &found)?;
        }
    }
}
