//! The layer that a patch adds to an image. It is applied to a merged file system in memory to predict the result, or
//! written as a tar.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write};
use std::sync::Arc;

use super::{FileOrigin, PatchedFile, PatchedLink};
use image_linkage::layer::{FileFacts, LayerEntry, LayerIndex, LayerWriter};
use image_linkage::loader::{DynamicLoader, LdconfigOutcome, write_cache};
use image_linkage::path::{self, RootPath};
use image_linkage::rootfs::{LookupError, NodeKind, Rootfs};

/// The number of links that Linux follows (`path_resolution(7)`).
const LINKS: usize = 40;

/// The loader's cache, in the format of ldconfig.
const CACHE: &str = "etc/ld.so.cache";

#[derive(Debug, Clone)]
pub(crate) enum AddedMember {
    File {
        facts: Arc<FileFacts>,
        /// Its path in the source of its bytes; `None` if the facts contain the bytes.
        from: Option<RootPath>,
        because: String,
    },
    Symlink {
        to: Vec<u8>,
        because: String,
    },
    /// A whiteout for a path of a lower layer.
    Deleted,
}

/// The members of a layer by path, and the folders to create for them.
#[derive(Debug, Clone, Default)]
pub(crate) struct AddedLayer {
    members: BTreeMap<RootPath, AddedMember>,
    folders: BTreeSet<RootPath>,
}

impl AddedLayer {
    /// Adds a member at `path` of `rootfs`. Links in the folder part are followed and kept.
    ///
    /// Errors: The obstacle at the path. The other methods report the same.
    pub(crate) fn add(&mut self, rootfs: &Rootfs, path: &RootPath, member: AddedMember) -> Result<(), String> {
        let at = self.folder(rootfs, &path.parent(), LINKS)?.join(path.name());
        // A file in an upper layer hides the whole lower folder of that name (image-spec, layer.md).
        if !matches!(member, AddedMember::Deleted)
            && let Ok(there) = rootfs.lookup_link(&at.absolute())
            && matches!(rootfs.node(there.node).kind, NodeKind::Directory(_))
        {
            return Err(format!("{at} is a folder in the image, and a file is to stand there"));
        }
        self.members.insert(at, member);
        Ok(())
    }

    /// Adds the files that are not in the image yet.
    pub(crate) fn add_files(&mut self, rootfs: &Rootfs, files: &[PatchedFile]) -> Result<(), String> {
        let come = files.iter().filter(|file| file.origin != FileOrigin::Present);
        for file in come {
            let member = AddedMember::File {
                facts: Arc::clone(&file.facts),
                from: file.copied_from().cloned(),
                because: file.because.to_string(),
            };
            self.add(rootfs, &file.at, member)?;
        }
        Ok(())
    }

    pub(crate) fn add_links(&mut self, rootfs: &Rootfs, links: &[PatchedLink]) -> Result<(), String> {
        links
            .iter()
            .try_for_each(|link| self.add_link(rootfs, &link.at, &link.to, &link.because))
    }

    fn add_link(&mut self, rootfs: &Rootfs, at: &RootPath, to: &[u8], because: &str) -> Result<(), String> {
        let (to, because) = (to.to_vec(), because.to_owned());
        self.add(rootfs, at, AddedMember::Symlink { to, because })
    }

    /// Adds a small file with mode 644.
    pub(crate) fn write_file(
        &mut self,
        rootfs: &Rootfs,
        at: &RootPath,
        content: Vec<u8>,
        because: &str,
    ) -> Result<(), String> {
        let facts = FileFacts {
            bytes: content.len() as u64,
            mode: 0o644,
            kept: Some(content.into()),
            ..FileFacts::default()
        };
        let member = AddedMember::File {
            facts: Arc::new(facts),
            from: None,
            because: because.to_owned(),
        };
        self.add(rootfs, at, member)
    }

    /// Prepends a line for the folder to the `ldconfig` configuration.
    pub(crate) fn name_folder(
        &mut self,
        rootfs: &Rootfs,
        conf: &RootPath,
        folder: &RootPath,
        because: &str,
    ) -> Result<(), String> {
        let line = [&folder.absolute(), &b"\n"[..]].concat();
        let content = rootfs.content(&conf.absolute()).unwrap_or_default();
        let others = content.strip_prefix(&*line).unwrap_or(content);
        self.write_file(rootfs, conf, [&line, others].concat(), because)
    }

    /// Adds the output of `ldconfig` on `rootfs`: the loader's cache and the links.
    pub(crate) fn add_cache(
        &mut self,
        rootfs: &Rootfs,
        linker: &DynamicLoader,
        run: &LdconfigOutcome,
        generator: &str,
    ) -> Result<(), String> {
        for (link, target) in &run.relinked.made {
            let because = "ldconfig makes it: the soname of the file that it leads to";
            self.add_link(rootfs, &RootPath::new(link), target, because)?;
        }
        for link in &run.relinked.removed {
            self.add(rootfs, &RootPath::new(link), AddedMember::Deleted)?;
        }
        let content = write_cache(&run.cache, linker.arch.data, generator)?;
        let because = "the loader looks up a soname here; it names what was brought, and no file that is gone";
        self.write_file(rootfs, &CACHE.into(), content, because)
    }

    /// The folder at a path, also if it is missing or behind a link that leads nowhere.
    ///
    /// Errors: The obstacle at the path.
    pub(crate) fn resolve_folder(rootfs: &Rootfs, wanted: &RootPath) -> Result<RootPath, String> {
        Self::default().folder(rootfs, wanted, LINKS)
    }

    /// Resolves a folder and adds its missing parts.
    fn folder(&mut self, rootfs: &Rootfs, wanted: &RootPath, links: usize) -> Result<RootPath, String> {
        let mut at = RootPath::default();
        for name in path::split_components(wanted.as_bytes()) {
            let next = at.join(name);
            let there = rootfs
                .lookup_link(&next.absolute())
                .ok()
                .map(|found| &rootfs.node(found.node).kind);
            at = match (rootfs.lookup(&next.absolute()), there) {
                (Ok(found), _) if matches!(rootfs.node(found.node).kind, NodeKind::Directory(_)) => found.path,
                (Err(LookupError::NotFound), None) => {
                    self.folders.insert(next.clone());
                    next
                }
                // Create the missing target of the link, as a builder's COPY does: the link may point to a mount.
                (Err(LookupError::NotFound), Some(NodeKind::Symlink(target))) if links > 0 => {
                    let target = match target.first() {
                        Some(b'/') => RootPath::new(target),
                        _ => at.join(target),
                    };
                    self.folder(rootfs, &target, links - 1)?
                }
                _ => return Err(format!("{next} is no folder in the image, and files are to lie there")),
            };
        }
        Ok(at)
    }

    /// The index that reading the written layer would give.
    pub(crate) fn index(&self) -> LayerIndex {
        let mut index = LayerIndex::empty();
        for (path, member) in &self.members {
            let entry = match member {
                AddedMember::File { facts, .. } => LayerEntry::File(Arc::clone(facts)),
                AddedMember::Symlink { to, .. } => LayerEntry::Symlink(to.as_slice().into()),
                AddedMember::Deleted => {
                    index.whiteouts.insert(path.clone());
                    continue;
                }
            };
            index.entries.insert(path, entry);
        }
        index
    }

    /// Writes the layer as a tar; `open` returns the bytes of a source file.
    ///
    /// Errors: An error of `out` or `open`.
    pub(crate) fn write<R: Read>(&self, out: impl Write, open: impl Fn(&RootPath) -> io::Result<R>) -> io::Result<()> {
        let mut writer = LayerWriter::new(out);
        // Sorted, so that a folder precedes its contents.
        let mut all: BTreeMap<&RootPath, Option<&AddedMember>> = BTreeMap::new();
        all.extend(self.folders.iter().map(|path| (path, None)));
        all.extend(self.members.iter().map(|(path, member)| (path, Some(member))));
        for (path, member) in all {
            match member {
                None => writer.directory(path)?,
                Some(AddedMember::File { facts, from, .. }) => match from {
                    Some(from) => writer.file(path, facts.mode, facts.bytes, open(from)?)?,
                    None => writer.file(path, facts.mode, facts.bytes, facts.kept.as_deref().unwrap_or_default())?,
                },
                Some(AddedMember::Symlink { to, .. }) => writer.symlink(path, to)?,
                Some(AddedMember::Deleted) => writer.whiteout(path)?,
            }
        }
        writer.end()
    }

    /// The members by path, without the folders.
    pub(crate) fn members(&self) -> impl Iterator<Item = (&RootPath, &AddedMember)> {
        self.members.iter()
    }

    pub(crate) fn folders(&self) -> impl Iterator<Item = &RootPath> {
        self.folders.iter()
    }

    /// The total size of its files in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        let sizes = self.members.values().map(|member| match member {
            AddedMember::File { facts, .. } => facts.bytes,
            _ => 0,
        });
        sizes.sum()
    }
}
