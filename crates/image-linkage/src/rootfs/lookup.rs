//! Walks a path inside the root, component by component, as the kernel does (`path_resolution(7)`).

use super::credentials::{AccessDenial, FileCredentials, FileUse};
use super::tree::{NodeId, NodeKind, PLAIN_DIRECTORY, ROOT, Rootfs};
use crate::layer::{AccessList, FileFacts, NodeAccess};
use crate::path::{self, RootPath};

/// The symbolic links followed in one lookup (`MAXSYMLINKS` of Linux).
const LINKS: usize = 40;
/// The longest path (`PATH_MAX` of Linux, with the final NUL).
pub(crate) const PATH: usize = 4096;
/// The longest name (`NAME_MAX` of Linux).
const NAME: usize = 255;

/// Where a path leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedPath {
    /// The node at the end of all links.
    pub node: NodeId,
    /// The path without links.
    pub path: RootPath,
    /// The links that were followed, in order.
    pub links: Vec<RootPath>,
}

/// Why a path leads nowhere, in the system's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LookupError {
    /// A component is not there (`ENOENT`).
    #[error("No such file or directory")]
    NotFound,
    /// A component that is no directory has one behind it (`ENOTDIR`).
    #[error("Not a directory")]
    NotDirectory,
    /// More symbolic links than Linux follows (`ELOOP`).
    #[error("Too many levels of symbolic links")]
    Loop,
    /// A path or a name longer than Linux takes (`ENAMETOOLONG`).
    #[error("File name too long")]
    TooLong,
    /// A directory may not be passed, or the file not be used (`EACCES`).
    #[error("Permission denied")]
    Denied(Box<AccessDenial>),
}

/// What happens to a link that is the last component.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FinalLink {
    Follow,
    Stay,
}

impl Rootfs {
    /// Follows `path` from the root, links included, as `stat` does.
    pub fn lookup(&self, path: &[u8]) -> Result<ResolvedPath, LookupError> {
        self.walk(path, FinalLink::Follow, None)
    }

    /// Follows `path` as [`Rootfs::lookup`] does, for somebody who may not pass every directory.
    pub fn lookup_as(&self, path: &[u8], who: &FileCredentials) -> Result<ResolvedPath, LookupError> {
        self.walk(path, FinalLink::Follow, Some(who).filter(|who| !who.reads_all))
    }

    /// Follows `path` for somebody who is to use the file or directory at its end.
    pub fn open_as(&self, path: &[u8], who: &FileCredentials, usage: FileUse) -> Result<ResolvedPath, LookupError> {
        let found = self.lookup_as(path, who)?;
        match self.access(found.node) {
            Some((access, list)) if !who.may(usage, access, list) => {
                Err(denied(found.path, (access, list.is_some()), usage, who))
            }
            _ => Ok(found),
        }
    }

    /// The owner, the mode and perhaps the list of a file or directory.
    pub fn access(&self, node: NodeId) -> Option<(NodeAccess, Option<&AccessList>)> {
        match &self.node(node).kind {
            NodeKind::File(facts) => Some((facts.access(), facts.access_list.as_deref())),
            NodeKind::Directory(_) => {
                let guarded = self.guarded.get(&node);
                Some(guarded.map_or((PLAIN_DIRECTORY, None), |(access, list)| (*access, list.as_deref())))
            }
            _ => None,
        }
    }

    /// Follows `path` from the root but not a link at its end, as `lstat` does.
    pub fn lookup_link(&self, path: &[u8]) -> Result<ResolvedPath, LookupError> {
        self.walk(path, FinalLink::Stay, None)
    }

    /// The facts of the file at `path`, links followed; `None` when there is no regular file.
    pub fn file(&self, path: &[u8]) -> Option<&FileFacts> {
        match &self.node(self.lookup(path).ok()?.node).kind {
            NodeKind::File(facts) => Some(facts),
            _ => None,
        }
    }

    /// The content of a small file that was kept, links followed.
    pub fn content(&self, path: &[u8]) -> Option<&[u8]> {
        self.file(path)?.kept.as_deref()
    }

    fn walk(&self, path: &[u8], last: FinalLink, who: Option<&FileCredentials>) -> Result<ResolvedPath, LookupError> {
        if path.len() >= PATH {
            return Err(LookupError::TooLong);
        }
        let mut walk = PathWalk {
            rootfs: self,
            who,
            trail: Vec::new(),
            links: Vec::new(),
        };
        let mut pending: Vec<&[u8]> = path::split_components(path).collect();
        pending.reverse();
        // A path that ends in `/` or `/.` names a directory.
        let directory = path.ends_with(b"/") || path.ends_with(b"/.");
        while let Some(part) = pending.pop() {
            let is_last = pending.is_empty() && !directory;
            if let Some(target) = walk.step(part, is_last && last == FinalLink::Stay)? {
                let mut parts: Vec<&[u8]> = path::split_components(target).collect();
                parts.reverse();
                pending.extend(parts);
            }
        }
        let node = walk.here();
        if directory && !matches!(self.node(node).kind, NodeKind::Directory(_)) {
            return Err(LookupError::NotDirectory);
        }
        Ok(ResolvedPath {
            node,
            path: walk.path(),
            links: walk.links,
        })
    }
}

fn denied(
    path: RootPath,
    (access, has_list): (NodeAccess, bool),
    usage: FileUse,
    who: &FileCredentials,
) -> LookupError {
    let who = who.to_string();
    LookupError::Denied(Box::new(AccessDenial {
        path,
        access,
        has_list,
        usage,
        who,
    }))
}

struct PathWalk<'a> {
    rootfs: &'a Rootfs,
    /// Who walks; nobody for root, who passes every directory.
    who: Option<&'a FileCredentials>,
    /// The directories and the node from the root down, by name.
    trail: Vec<(&'a [u8], NodeId)>,
    links: Vec<RootPath>,
}

impl<'a> PathWalk<'a> {
    fn here(&self) -> NodeId {
        self.trail.last().map_or(ROOT, |(_, id)| *id)
    }

    fn path(&self) -> RootPath {
        let names: Vec<&[u8]> = self.trail.iter().map(|(name, _)| *name).collect();
        RootPath::new(&names.join(&b'/'))
    }

    /// Whether the directory where the walk stands may be passed.
    fn pass(&self) -> Result<(), LookupError> {
        let Some(who) = self.who else { return Ok(()) };
        match self.rootfs.guarded.get(&self.here()) {
            Some((access, list)) if !who.may(FileUse::Pass, *access, list.as_deref()) => {
                Err(denied(self.path(), (*access, list.is_some()), FileUse::Pass, who))
            }
            _ => Ok(()),
        }
    }

    /// Takes one component; returns the target of a link that has to be followed from here.
    fn step(&mut self, part: &[u8], stay: bool) -> Result<Option<&'a [u8]>, LookupError> {
        let NodeKind::Directory(children) = &self.rootfs.node(self.here()).kind else {
            return Err(LookupError::NotDirectory);
        };
        // Before anything is looked for in it (fs/namei.c, `may_lookup`).
        self.pass()?;
        // Up from where the links have led to, and never out of the root, as after chroot(2).
        if part == b".." {
            self.trail.pop();
            return Ok(None);
        }
        // The file system checks the length, and it is asked only below a directory: ENOTDIR comes first.
        if part.len() > NAME {
            return Err(LookupError::TooLong);
        }
        let (name, id) = children.get(part).ok_or(LookupError::NotFound)?;
        self.trail.push((name, *id));
        let NodeKind::Symlink(target) = &self.rootfs.node(*id).kind else {
            return Ok(None);
        };
        if stay {
            return Ok(None);
        }
        if self.links.len() >= LINKS {
            return Err(LookupError::Loop);
        }
        self.links.push(self.path());
        self.trail.pop();
        // symlink(2) makes no such link, but a tar may hold one; to follow it is ENOENT.
        if target.is_empty() {
            return Err(LookupError::NotFound);
        }
        if target.starts_with(b"/") {
            self.trail.clear();
        }
        Ok(Some(target))
    }
}
