//! Walks a tar stream in one pass, holding only one header.

use std::borrow::Cow;
use std::io::BufRead;

use super::changeset::Changeset;
use super::file_facts::{FileReader, KeptFiles};
use super::index::LayerEntry;
use super::interest::IndexOptions;
use super::sparse_map::{SparseFile, check_map, read_lines};
use super::tar_headers::{TarHeaders, TarItem};
use super::tar_member::{TarKind, TarMember};
use crate::limits::Limits;
use crate::path::RootPath;

/// Walks the tar from `reader`, past the end marker to the end of the stream.
///
/// Errors: The problem and its byte offset (a malformed header, a truncated member, an exceeded limit), and
/// errors of `reader`.
pub(crate) fn read_changeset(reader: impl BufRead, options: &IndexOptions) -> Result<Changeset, String> {
    let limits = &options.limits;
    let mut walk = TarWalk {
        headers: TarHeaders::new(reader, limits),
        changeset: Changeset::default(),
        options,
        limits,
        files: KeptFiles::default(),
        holes: 0,
        members: 0,
    };
    loop {
        match walk.headers.next()? {
            TarItem::Member(member) => walk.take(&member)?,
            TarItem::Global => {}
            TarItem::End => break,
        }
    }
    // A directory counts twice if a sibling sorts between it and its content.
    let directories = limits.layer_entries.saturating_mul(2);
    walk.changeset.check_directories(directories, limits)?;
    walk.changeset.problems.extend(walk.files.left_out(limits));
    // The digest covers all bytes, including those behind the end marker.
    walk.headers.input.drain()?;
    Ok(walk.changeset)
}

struct TarWalk<'a, R> {
    headers: TarHeaders<R>,
    changeset: Changeset,
    options: &'a IndexOptions,
    limits: &'a Limits,
    files: KeptFiles,
    /// The bytes of holes passed as zeros so far.
    holes: u64,
    members: usize,
}

impl<R: BufRead> TarWalk<'_, R> {
    fn take(&mut self, member: &TarMember) -> Result<(), String> {
        self.members += 1;
        if self.members > self.limits.layer_entries {
            return Err(format!(
                "more than the limit of {} entries (layer-entries)",
                self.limits.layer_entries
            ));
        }
        // Check before reading the member: paths and facts stay in memory, content does not.
        self.changeset.check_held(self.limits)?;
        let (path_bytes, links) = (self.limits.path_bytes, self.limits.links);
        match self.changeset.place(&member.name, path_bytes, links)? {
            Some(path) => {
                let entry = self.entry(&path, member)?;
                self.changeset.add(&path, entry);
            }
            None => self.headers.input.skip(member.stored)?,
        }
        self.headers.input.skip_padding(member.padding())
    }

    fn entry(&mut self, path: &RootPath, member: &TarMember) -> Result<LayerEntry, String> {
        if let TarKind::Unknown(flag) = member.kind {
            let what = format!("no engine knows its type {flag:#04x}; treated as a file");
            self.changeset.refused(path, what);
        }
        if member.has_odd_number {
            let what = "a header field is not a number; no engine accepts it";
            self.changeset.refused(path, what);
        }
        if member.kind == TarKind::HardLink && RootPath::leaves_root(&member.link) {
            let what = "the hard link leaves the root with \"..\"; treated as inside the root";
            self.changeset.problem(path, what);
        }
        Ok(match member.kind {
            TarKind::Directory => LayerEntry::Directory(member.access, member.access_list.clone()),
            TarKind::Symlink => LayerEntry::Symlink(member.link.as_slice().into()),
            TarKind::HardLink => LayerEntry::Hardlink(RootPath::new(&member.link)),
            TarKind::Special => LayerEntry::Special,
            TarKind::Regular | TarKind::Unknown(_) => self.file(path, member)?,
        })
    }

    fn file(&mut self, path: &RootPath, member: &TarMember) -> Result<LayerEntry, String> {
        let mut file = FileReader::new(path, member.access.mode, self.options);
        match &member.sparse {
            None => self.headers.input.read(member.stored, |bytes| file.push(bytes))?,
            Some(sparse) => self.sparse(&mut file, member.stored, sparse)?,
        }
        let (mut facts, class) = file.finish();
        (facts.uid, facts.gid) = (member.access.uid, member.access.gid);
        facts.capabilities = member.capabilities;
        facts.access_list.clone_from(&member.access_list);
        let (entry, why) = self.files.admit(path, facts, class, self.limits);
        if let Some(why) = why {
            self.changeset.unread(path, why);
        }
        Ok(entry)
    }

    /// Reads a sparse file: regions of data from the stream, with zeros between them.
    fn sparse(&mut self, file: &mut FileReader, stored: u64, sparse: &SparseFile) -> Result<(), String> {
        let regions = self.limits.sparse_regions;
        let start = self.headers.input.position;
        let map = match &sparse.map {
            Some(map) => Cow::Borrowed(map),
            None => Cow::Owned(read_lines(&mut self.headers.input, regions)?),
        };
        let stored = stored
            .checked_sub(self.headers.input.position - start)
            .ok_or("a sparse map is larger than its member")?;
        let (map, surplus) = check_map(&map, sparse.bytes, stored, regions)
            .map_err(|error| format!("{error}, before byte {}", self.headers.input.position))?;
        let mut at = 0;
        for &[offset, length] in map {
            self.zeros(file, offset.saturating_sub(at))?;
            self.headers.input.read(length, |bytes| file.push(bytes))?;
            at = offset.saturating_add(length);
        }
        self.zeros(file, sparse.bytes.saturating_sub(at))?;
        self.headers.input.skip(surplus)
    }

    /// Passes a hole as zeros while the content matters.
    fn zeros(&mut self, file: &mut FileReader, bytes: u64) -> Result<(), String> {
        let mut left = bytes;
        while left > 0 {
            if !file.reads_content() {
                file.skip(left);
                return Ok(());
            }
            let n = left.min(ZEROS.len() as u64);
            self.holes += n;
            // A map of a few bytes may describe exabytes of zeros, which are searched like other bytes.
            if self.holes > self.limits.ratio_from.max(self.headers.input.position) {
                return Err(format!(
                    "the holes of sparse libraries exceed {} bytes",
                    self.limits.ratio_from
                ));
            }
            let zeros = ZEROS.get(..usize::try_from(n).unwrap_or(ZEROS.len()));
            file.push(zeros.unwrap_or_default());
            left -= n;
        }
        Ok(())
    }
}

static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
