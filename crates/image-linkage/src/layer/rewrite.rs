//! A layer's tar written again without some of its members: one pass, nothing held but one header.
//!
//! What stays is copied byte for byte. A hard link whose file goes takes the file over: bytes leave only when the last
//! name of them does.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write};

use tar_core::EntryType;

use super::header_edit::{HeaderChange, edit_headers};
use super::index::{LayerEntry, LayerIndex};
use super::layer_writer::LayerWriter;
use super::tar_headers::TarItem;
use super::tar_member::TarMember;
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
}

impl LayerCut {
    /// What leaving out `paths` means for the layer; directories are never left out.
    pub fn for_paths(layer: &LayerIndex, paths: &BTreeSet<RootPath>) -> Self {
        let goes = |path: &RootPath| {
            paths.contains(path)
                && layer
                    .entries
                    .get(path)
                    .is_some_and(|entry| !matches!(entry, LayerEntry::Directory(_)))
        };
        let mut cut = Self {
            gone: layer.entries.keys().filter(|path| goes(path)).cloned().collect(),
            ..Self::default()
        };
        for (path, entry) in &layer.entries {
            let LayerEntry::Hardlink(target) = entry else {
                continue;
            };
            let Some(file) = resolve_hardlink(layer, target).filter(|_| !goes(path)) else {
                continue;
            };
            if goes(file) {
                let heir = cut.heirs.entry(file.clone()).or_insert_with(|| path.clone());
                // The first link by name becomes the file; the others lead to it.
                if heir != path {
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
        self.gone.is_empty() && self.whiteouts.is_empty()
    }

    /// What the layer holds afterwards, by its index.
    pub fn apply(&self, layer: &LayerIndex) -> LayerIndex {
        let mut after = layer.clone();
        for (file, heir) in &self.heirs {
            if let Some(entry) = layer.entries.get(file) {
                after.entries.insert(heir.clone(), entry.clone());
            }
        }
        for (path, target) in &self.relinked {
            after.entries.insert(path.clone(), LayerEntry::Hardlink(target.clone()));
        }
        after.entries.retain(|path, _| !self.gone.contains(path));
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
    loop {
        match members.next()? {
            TarItem::End => break,
            TarItem::Global => out.write_all(members.raw()).map_err(|error| error.to_string())?,
            TarItem::Member(found) => member(&mut members, &found, cut, out)?,
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
    fn fate(&self, path: &RootPath, kind: EntryType) -> MemberAction<'_> {
        let is_link = kind == EntryType::Link;
        let goes = self.gone.contains(path) && kind != EntryType::Directory;
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
            name: None,
            link: link.map(RootPath::as_bytes),
        })
    }
}

fn member<R: Read>(
    members: &mut TarMembers<'_, R>,
    found: &TarMember,
    cut: &LayerCut,
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
            (HeaderChange { name, link: None }, heir)
        }
    };
    let headers = if change.name.is_none() && change.link.is_none() {
        Cow::Borrowed(members.raw())
    } else if found.sparse.is_some() {
        return Err(format!(
            "{path} is a sparse file with other names, which is not written again under one of them"
        ));
    } else {
        Cow::Owned(edit_headers(members.raw(), found.own, &change)?)
    };
    out.write_all(&headers).map_err(|error| error.to_string())?;
    members.note(at.clone(), found)?;
    copy(members, bytes, out)
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
        if let Some(path) = wanted.filter(|_| !found.has_no_content()) {
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
            members.note(path, &found)?;
        }
    }
}
