//! Rewrites a layer's tar without some members, in one pass that holds only one header.
//!
//! Remaining members are copied byte for byte. If the file of a hard link is removed, the link takes over its content,
//! so bytes are removed only with their last name. Lists of installed files lose the removed lines, and duplicate files
//! become hard links.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write};
use std::sync::Arc;

use gpu_code::DeviceCode;

use super::header_edit::{HeaderChange, edit_headers};
use super::index::{FileFacts, LayerEntry, LayerIndex};
use super::installed_list::{is_installed_list, remove_listed_files, shorten_list};
use super::layer_writer::LayerWriter;
use super::tar_header::{BLOCK, padding};
use super::tar_headers::TarItem;
use super::tar_member::{TarKind, TarMember};
use super::tar_members::TarMembers;
use crate::limits::Limits;
use crate::path::RootPath;

/// The members to remove from a layer, and the effects on its hard links.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LayerCut {
    /// The members to remove.
    pub gone: BTreeSet<RootPath>,
    /// Removed files, each with the hard link that takes over its content.
    pub heirs: BTreeMap<RootPath, RootPath>,
    /// Remaining hard links that get a new target.
    pub relinked: BTreeMap<RootPath, RootPath>,
    /// Removed members that lower layers also have. They get a whiteout.
    pub whiteouts: BTreeSet<RootPath>,
    /// Files with equal bytes, owner and mode, each with the representative of its group. The first in the tar stays a
    /// file; the others become hard links to it.
    pub twins: BTreeMap<RootPath, RootPath>,
    /// Files with new content. Their hard links follow.
    pub replaced: BTreeMap<RootPath, ReplacedFile>,
    /// All files removed from the image, from any layer. Lists of installed files no longer name them.
    pub unlisted: BTreeSet<RootPath>,
}

/// The new content of a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReplacedFile {
    /// Its size in bytes.
    pub bytes: u64,
    /// Its SHA-256 in hexadecimal.
    pub sha256: Box<str>,
    /// The GPU code of an object.
    pub device_code: Option<Box<DeviceCode>>,
}

/// Opens the new content of a file of the layer.
pub type OpenReplacement<'a> = &'a dyn Fn(&RootPath) -> io::Result<Box<dyn Read>>;

impl LayerCut {
    /// Computes the effects of removing `paths` from the layer. Directories are never removed.
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
        // In path order, so that the first link takes over the file.
        for (path, target) in layer.entries.hard_links().collect::<BTreeMap<_, _>>() {
            let Some(file) = resolve_hardlink(layer, target).filter(|_| !goes(&path)) else {
                continue;
            };
            if goes(file) {
                let heir = cut.heirs.entry(file.clone()).or_insert_with(|| path.clone());
                // The first link by name becomes the file. The others point to it.
                if *heir != path {
                    cut.relinked.insert(path.clone(), heir.clone());
                }
            } else if goes(target) {
                cut.relinked.insert(path.clone(), file.clone());
            }
        }
        cut
    }

    /// Whether the layer is unchanged.
    pub fn is_empty(&self) -> bool {
        self.gone.is_empty() && self.whiteouts.is_empty() && self.twins.is_empty() && self.replaced.is_empty()
    }

    /// The index of the layer after the cut. Only the tar can tell which of several twins becomes the file, and the new
    /// length of a shortened list.
    pub fn apply(&self, layer: &LayerIndex) -> LayerIndex {
        let mut after = layer.clone();
        for (path, replaced) in &self.replaced {
            if let Some(LayerEntry::File(facts)) = after.entries.get_mut(path) {
                *facts = Arc::new(replaced.apply(facts));
            }
        }
        for (file, heir) in &self.heirs {
            if let Some(entry) = after.entries.get(file.as_bytes()).cloned() {
                after.entries.insert(heir, entry);
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
        let paths = layer.entries.iter().map(|(path, _)| path);
        for path in paths.filter(|path| !self.unlisted.is_empty() && is_installed_list(path)) {
            // A list that is removed itself, or became a link, stays so.
            if let Some(LayerEntry::File(facts)) = after.entries.get_mut(&path) {
                *facts = Arc::new(shorten_list(&path, facts, |file| self.unlisted.contains(file)));
            }
        }
        after.whiteouts.extend(self.whiteouts.iter().cloned());
        after
    }
}

impl ReplacedFile {
    /// The facts of a file with this content.
    fn apply(&self, facts: &FileFacts) -> FileFacts {
        let mut facts = facts.clone();
        facts.bytes = self.bytes;
        if facts.sha256.is_some() {
            facts.sha256 = Some(self.sha256.clone());
        }
        if let Some(elf) = &mut facts.elf {
            elf.device_code.clone_from(&self.device_code);
        }
        facts
    }
}

/// The member of the layer that a hard link resolves to; `None` if it is in a lower layer.
pub fn resolve_hardlink<'l>(layer: &'l LayerIndex, target: &'l RootPath) -> Option<&'l RootPath> {
    let (path, entry) = layer.follow_hardlink(target);
    entry.map(|_| path)
}

/// Writes the tar from `reader` to `out` with the cut applied. `open` opens the content of replaced files.
///
/// Errors: The damage and its byte offset, and errors of `reader`, `open` and `out`.
pub fn rewrite_layer(
    reader: impl Read,
    cut: &LayerCut,
    open: OpenReplacement<'_>,
    limits: &Limits,
    out: &mut dyn Write,
) -> Result<(), String> {
    let mut members = TarMembers::new(reader, limits);
    let mut firsts = BTreeMap::new();
    loop {
        match members.next()? {
            TarItem::End => break,
            TarItem::Global => out.write_all(members.raw()).map_err(|error| error.to_string())?,
            TarItem::Member(found) => member(&mut members, &found, (cut, open), &mut firsts, out)?,
        }
    }
    // Read trailing bytes, too: they belong to the source's digest.
    members.drain()?;
    // Whiteouts can follow the members: they hide only lower layers, wherever they are in the tar.
    let mut writer = LayerWriter::new(out);
    for path in &cut.whiteouts {
        writer.whiteout(path).map_err(|error| error.to_string())?;
    }
    writer.end().map_err(|error| error.to_string())
}

/// The action for a member.
enum MemberAction<'c> {
    /// Kept, possibly with changed headers.
    Keep(HeaderChange<'c>),
    /// Kept under the name of the hard link that takes it over.
    KeepAs(&'c RootPath),
    Remove,
}

impl LayerCut {
    fn action(&self, path: &RootPath, kind: TarKind) -> MemberAction<'_> {
        let is_link = kind == TarKind::HardLink;
        let goes = self.gone.contains(path) && kind != TarKind::Directory;
        match self.heirs.get(path) {
            Some(heir) if goes && !is_link => return MemberAction::KeepAs(heir),
            _ => {}
        }
        // The heir's own member is removed, too: its content is written in place of the original, under the heir's
        // name.
        if goes || (is_link && self.heirs.values().any(|heir| heir == path)) {
            return MemberAction::Remove;
        }
        let link = self.relinked.get(path).filter(|_| is_link);
        MemberAction::Keep(HeaderChange {
            link: link.map(RootPath::as_bytes),
            ..HeaderChange::default()
        })
    }
}

/// The maximum bytes of a list of installed files that is shortened. A longer one is unchanged.
const LIST_BYTES: u64 = 16 << 20;

fn member<'c, R: Read>(
    members: &mut TarMembers<'_, R>,
    found: &TarMember,
    (cut, open): (&'c LayerCut, OpenReplacement<'_>),
    firsts: &mut BTreeMap<&'c RootPath, RootPath>,
    out: &mut dyn Write,
) -> Result<(), String> {
    let bytes = found.stored + found.padding();
    // A member without a valid path is copied unchanged: engines ignore or refuse it as before.
    let Some(path) = members.place(found)? else {
        out.write_all(members.raw()).map_err(|error| error.to_string())?;
        return copy(members, bytes, out);
    };
    let (change, at) = match cut.action(&path, found.kind) {
        MemberAction::Remove => return members.read(bytes, |_| ()),
        MemberAction::Keep(change) => (change, &path),
        MemberAction::KeepAs(heir) => {
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
    if let Some(replaced) = cut.replaced.get(&path).filter(|_| found.kind.has_content()) {
        let mut content = open(&path)
            .map_err(|error| format!("{path}: {error}"))?
            .take(replaced.bytes);
        let size = (replaced.bytes != found.stored).then_some(replaced.bytes);
        write_headers(members.raw(), found, at, &HeaderChange { size, ..change }, out)?;
        members.note(at, found)?;
        members.read(bytes, |_| ())?;
        let copied = io::copy(&mut content, out).map_err(|error| format!("{path}: {error}"))?;
        if copied < replaced.bytes {
            return Err(format!("{path}: its new content is too short"));
        }
        return write_padding(replaced.bytes, out);
    }
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
    if is_plain && bytes <= LIST_BYTES && !cut.unlisted.is_empty() && is_installed_list(at) {
        return shorten(members, found, at, &cut.unlisted, out);
    }
    write_headers(members.raw(), found, at, &change, out)?;
    members.note(at, found)?;
    copy(members, bytes, out)
}

/// Writes the headers of a member with changes applied.
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
            "{path} is a sparse file with hard links; it cannot be written under another name"
        ));
    }
    let headers = edit_headers(raw, found, change)?;
    out.write_all(&headers).map_err(|error| error.to_string())
}

/// Writes a list of installed files without the files that are `unlisted`.
fn shorten<R: Read>(
    members: &mut TarMembers<'_, R>,
    found: &TarMember,
    path: &RootPath,
    unlisted: &BTreeSet<RootPath>,
    out: &mut dyn Write,
) -> Result<(), String> {
    let stored = found.stored;
    let mut content = Vec::new();
    members.read(stored, |piece| content.extend_from_slice(piece))?;
    members.read(found.padding(), |_| ())?;
    let shortened = remove_listed_files(path, &content, |path| unlisted.contains(path));
    let bytes = shortened.len() as u64;
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
    out.write_all(&shortened).map_err(|error| error.to_string())?;
    write_padding(bytes, out)?;
    members.note(path, found)
}

/// Writes the zeros behind content of this size.
fn write_padding(bytes: u64, out: &mut dyn Write) -> Result<(), String> {
    let padding = usize::try_from(padding(bytes)).unwrap_or(0);
    let zeros = [0; BLOCK];
    out.write_all(zeros.get(..padding).unwrap_or_default())
        .map_err(|error| error.to_string())
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

/// Passes the content of the files at `paths` to `take`, from the first byte to the last. Returns those that are stored
/// as sparse files, which are left out.
///
/// Errors: Damage of the tar, or an error of `take`.
pub fn extract_files(
    reader: impl Read,
    paths: &BTreeSet<RootPath>,
    limits: &Limits,
    mut take: impl FnMut(&RootPath, &[u8]) -> io::Result<()>,
) -> Result<BTreeSet<RootPath>, String> {
    let mut members = TarMembers::new(reader, limits);
    let mut sparse = BTreeSet::new();
    loop {
        let found = match members.next()? {
            TarItem::End => {
                members.drain()?;
                return Ok(sparse);
            }
            TarItem::Global => continue,
            TarItem::Member(found) => found,
        };
        let (stored, place) = (found.stored, members.place(&found)?);
        let wanted = place
            .as_ref()
            .filter(|path| paths.contains(*path) && found.kind.has_content());
        if let Some(path) = wanted.filter(|_| found.sparse.is_some()) {
            sparse.insert(path.clone());
            members.read(stored, |_| ())?;
        } else if let Some(path) = wanted {
            // Call once without bytes, so that empty files are created, too.
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
