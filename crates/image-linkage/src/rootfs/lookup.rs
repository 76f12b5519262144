//! Walks a path inside the root, component by component, like the kernel (`path_resolution(7)`).

use super::credentials::{AccessDenial, FileCredentials, FileUse};
use super::tree::{NodeId, NodeKind, PLAIN_DIRECTORY, ROOT, Rootfs};
use crate::layer::{AccessList, FileFacts, NodeAccess};
use crate::path::{self, RootPath};

/// The maximum symbolic links in one lookup (`MAXSYMLINKS` on Linux).
const LINKS: usize = 40;
/// The maximum path length including the NUL (`PATH_MAX` on Linux).
pub(crate) const PATH: usize = 4096;
/// The maximum name length (`NAME_MAX` on Linux).
const NAME: usize = 255;

/// The result of a lookup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedPath {
    /// The node after all links.
    pub node: NodeId,
    /// The canonical path.
    pub path: RootPath,
    /// The followed links, in order.
    pub links: Vec<RootPath>,
}

/// Why a lookup fails, in the system's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LookupError {
    /// A component is missing (`ENOENT`).
    #[error("No such file or directory")]
    NotFound,
    /// A non-directory is used as a directory (`ENOTDIR`).
    #[error("Not a directory")]
    NotDirectory,
    /// Too many symbolic links (`ELOOP`).
    #[error("Too many levels of symbolic links")]
    Loop,
    /// The path or a name is too long (`ENAMETOOLONG`).
    #[error("File name too long")]
    TooLong,
    /// Access to a directory or the file is denied (`EACCES`).
    #[error("Permission denied")]
    Denied(Box<AccessDenial>),
}

/// The treatment of a link as the last component.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FinalLink {
    Follow,
    Stay,
}

impl Rootfs {
    /// Resolves `path` and follows all links, like `stat`.
    pub fn lookup(&self, path: &[u8]) -> Result<ResolvedPath, LookupError> {
        self.walk(path, FinalLink::Follow, None)
    }

    /// Like [`Rootfs::lookup`], with the search permissions of a user.
    pub fn lookup_as(&self, path: &[u8], who: &FileCredentials) -> Result<ResolvedPath, LookupError> {
        self.walk(path, FinalLink::Follow, Some(who).filter(|who| !who.reads_all))
    }

    /// Resolves `path` for a user and checks access to its target.
    pub fn open_as(&self, path: &[u8], who: &FileCredentials, usage: FileUse) -> Result<ResolvedPath, LookupError> {
        let found = self.lookup_as(path, who)?;
        match self.access(found.node) {
            Some((access, list)) if !who.may(usage, access, list) => {
                Err(denied(found.path, (access, list.is_some()), usage, who))
            }
            _ => Ok(found),
        }
    }

    /// The owner, mode and access list of a file or directory.
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

    /// Resolves `path` without following a final link, like `lstat`.
    pub fn lookup_link(&self, path: &[u8]) -> Result<ResolvedPath, LookupError> {
        self.walk(path, FinalLink::Stay, None)
    }

    /// The missing path that a dangling link leads to; `None` for any other path.
    pub fn missing_target(&self, path: &[u8]) -> Option<RootPath> {
        let mut path = RootPath::new(path);
        for followed in 0..LINKS {
            let Ok(found) = self.lookup_link(&path.absolute()) else {
                return (followed > 0).then_some(path);
            };
            let NodeKind::Symlink(target) = &self.node(found.node).kind else {
                return None;
            };
            path = if target.starts_with(b"/") {
                RootPath::new(target)
            } else {
                found.path.parent().join(target)
            };
        }
        None
    }

    /// The facts of the file at `path` after following links; `None` if it is not a regular file.
    pub fn file(&self, path: &[u8]) -> Option<&FileFacts> {
        match &self.node(self.lookup(path).ok()?.node).kind {
            NodeKind::File(facts) => Some(facts),
            _ => None,
        }
    }

    /// The kept content of a small file, after following links.
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
        // A trailing `/` or `/.` requires a directory.
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
    /// The user; `None` for root, who can search every directory.
    who: Option<&'a FileCredentials>,
    /// The nodes from the root down, with their names.
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

    /// Checks search permission for the current directory.
    fn pass(&self) -> Result<(), LookupError> {
        let Some(who) = self.who else { return Ok(()) };
        match self.rootfs.guarded.get(&self.here()) {
            Some((access, list)) if !who.may(FileUse::Pass, *access, list.as_deref()) => {
                Err(denied(self.path(), (*access, list.is_some()), FileUse::Pass, who))
            }
            _ => Ok(()),
        }
    }

    /// Takes one component. Returns the target of a link to follow.
    fn step(&mut self, part: &[u8], stay: bool) -> Result<Option<&'a [u8]>, LookupError> {
        let NodeKind::Directory(children) = &self.rootfs.node(self.here()).kind else {
            return Err(LookupError::NotDirectory);
        };
        // Checked before anything is looked up in the directory (fs/namei.c, `may_lookup`).
        self.pass()?;
        // The parent of the directory that links led to; stops at the root, as after chroot(2).
        if part == b".." {
            self.trail.pop();
            return Ok(None);
        }
        // The file system checks the length, so ENOTDIR takes precedence.
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
        // symlink(2) refuses an empty target, but a tar may contain one. Following it fails with ENOENT.
        if target.is_empty() {
            return Err(LookupError::NotFound);
        }
        if target.starts_with(b"/") {
            self.trail.clear();
        }
        Ok(Some(target))
    }
}
