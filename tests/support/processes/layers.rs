//! Writes an image's layers as tar archives, for the audit and for an engine, or applies them to a folder.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, lchown, symlink};
use std::path::Path;

use indexmap::IndexMap;
use testkit::ldcache::{Cache, X86_64};

use super::base::Base;
use super::objects::Compiler;
use super::spec::{Content, EntrySpec, ImageSpec};

/// A member of a layer's tar archive.
#[derive(Debug, Clone)]
pub struct Member {
    /// The path, without a leading `/`.
    pub path: String,
    /// The permission bits.
    pub mode: u32,
    /// The owning user and group.
    pub owner: (u32, u32),
    /// The value of `security.capability`.
    pub capability: Option<Vec<u8>>,
    /// The value of `system.posix_acl_access`.
    pub access_list: Option<Vec<u8>>,
    /// The member's kind.
    pub kind: MemberKind,
}

/// The kind of a member.
#[derive(Debug, Clone)]
pub enum MemberKind {
    /// A folder.
    Dir,
    /// A file.
    File(Vec<u8>),
    /// A symbolic link.
    Symlink(String),
    /// A hard link to a member of the same archive.
    Hardlink(String),
    /// A whiteout for the path.
    Whiteout,
    /// An opaque whiteout in the folder.
    Opaque,
}

/// A folder's mode, owner and access list.
type FolderFacts = (u32, (u32, u32), Option<Vec<u8>>);

/// The members of each layer of an image. Parent folders come before their content.
pub fn members(spec: &ImageSpec, compiler: &Compiler, base: &Base) -> Vec<Vec<Member>> {
    let mut folders = BTreeMap::from([("tmp".to_owned(), (0o1777, (0, 0), None))]);
    let layers = spec.layers.iter();
    layers
        .map(|layer| layer_members(layer, &mut folders, compiler, base))
        .collect()
}

fn layer_members(
    layer: &IndexMap<String, EntrySpec>,
    folders: &mut BTreeMap<String, FolderFacts>,
    compiler: &Compiler,
    base: &Base,
) -> Vec<Member> {
    for (path, entry) in layer {
        if entry.is == Content::Dir {
            folders.insert(
                path[1..].to_owned(),
                (entry.permissions(), entry.owner, access_list(entry)),
            );
        }
    }
    let mut made = Vec::new();
    let mut there = BTreeSet::new();
    for (path, entry) in layer {
        let path = &path[1..];
        let cuts = path.match_indices('/').map(|(at, _)| &path[..at]);
        for folder in cuts.filter(|folder| there.insert((*folder).to_owned())) {
            made.push(folder_member(folder, folders));
        }
        match entry.is {
            Content::Dir => {
                if there.insert(path.to_owned()) {
                    made.push(folder_member(path, folders));
                }
            }
            Content::Opaque => {
                if there.insert(path.to_owned()) {
                    made.push(folder_member(path, folders));
                }
                made.push(file_member(path, entry, MemberKind::Opaque));
            }
            _ => made.push(file_member(path, entry, kind(entry, compiler, base))),
        }
    }
    made
}

fn folder_member(path: &str, folders: &BTreeMap<String, FolderFacts>) -> Member {
    let (mode, owner, access_list) = folders.get(path).cloned().unwrap_or((0o755, (0, 0), None));
    Member {
        path: path.to_owned(),
        mode,
        owner,
        capability: None,
        access_list,
        kind: MemberKind::Dir,
    }
}

fn file_member(path: &str, entry: &EntrySpec, kind: MemberKind) -> Member {
    Member {
        path: path.to_owned(),
        mode: entry.permissions(),
        owner: entry.owner,
        capability: entry.capabilities.as_deref().map(capability),
        access_list: access_list(entry),
        kind,
    }
}

fn kind(entry: &EntrySpec, compiler: &Compiler, base: &Base) -> MemberKind {
    match &entry.is {
        Content::Dir | Content::Opaque => MemberKind::Opaque,
        Content::Whiteout => MemberKind::Whiteout,
        Content::Link(target) => MemberKind::Symlink(target.clone()),
        Content::Hardlink(target) => MemberKind::Hardlink(target[1..].to_owned()),
        Content::Text(text) => MemberKind::File(text.clone().into_bytes()),
        Content::Object(object) => MemberKind::File(compiler.object(object)),
        Content::Copy(path) => MemberKind::File(fs::read(base.path(path)).unwrap()),
        Content::Python(rpath) => MemberKind::File(compiler.with_rpath(&base.path("usr/bin/python3.11"), rpath)),
        Content::Cache(entries) => {
            let cache = entries
                .iter()
                .fold(Cache::new(), |cache, (soname, path)| cache.entry(X86_64, soname, path));
            MemberKind::File(cache.build())
        }
    }
}

/// `struct vfs_cap_data` of version 2 with the effective bit (linux/capability.h).
fn capability(mask: &str) -> Vec<u8> {
    let mask = u64::from_str_radix(mask, 16).unwrap();
    let [low, high] = [mask & 0xffff_ffff, mask >> 32].map(|half| u32::try_from(half).unwrap());
    [0x0200_0001_u32, low, 0, high, 0]
        .into_iter()
        .flat_map(u32::to_le_bytes)
        .collect()
}

/// `struct posix_acl_xattr_header` and its entries. The mode determines the entries of the owner and of others.
fn access_list(entry: &EntrySpec) -> Option<Vec<u8>> {
    let mode = u16::try_from(entry.permissions() & 0o777).unwrap();
    let own = [(1, mode >> 6, u32::MAX), (32, mode & 7, u32::MAX)];
    let mut all = [&own, entry.access_list.as_slice()].concat();
    all.sort_by_key(|(tag, ..)| *tag);
    let words = all.into_iter().map(|(tag, bits, id)| {
        [tag.to_le_bytes(), bits.to_le_bytes()]
            .concat()
            .into_iter()
            .chain(id.to_le_bytes())
    });
    let value = 2_u32.to_le_bytes().into_iter().chain(words.flatten()).collect();
    Some(value).filter(|_| !entry.access_list.is_empty())
}

/// The tar of a layer.
pub fn tar(members: &[Member]) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for member in members {
        append(&mut tar, member);
    }
    tar.into_inner().unwrap()
}

fn append(tar: &mut tar::Builder<Vec<u8>>, member: &Member) {
    let (folder, name) = member
        .path
        .rsplit_once('/')
        .map_or(("", member.path.as_str()), |(folder, name)| (folder, name));
    let marker = |name: &str| format!("{folder}/.wh.{name}").trim_start_matches('/').to_owned();
    let (path, kind, content, target): (String, _, &[u8], &str) = match &member.kind {
        MemberKind::Dir => (format!("{}/", member.path), tar::EntryType::Directory, b"", ""),
        MemberKind::File(content) => (member.path.clone(), tar::EntryType::Regular, content, ""),
        MemberKind::Symlink(target) => (member.path.clone(), tar::EntryType::Symlink, b"", target),
        MemberKind::Hardlink(target) => (member.path.clone(), tar::EntryType::Link, b"", target),
        MemberKind::Whiteout => (marker(name), tar::EntryType::Regular, b"", ""),
        MemberKind::Opaque => (
            format!("{}/.wh..wh..opq", member.path),
            tar::EntryType::Regular,
            b"",
            "",
        ),
    };
    let capability = member
        .capability
        .iter()
        .map(|value| ("SCHILY.xattr.security.capability", value));
    let list = member
        .access_list
        .iter()
        .map(|value| ("SCHILY.xattr.system.posix_acl_access", value));
    for (key, value) in capability.chain(list) {
        let record = (key, value.as_slice());
        tar.append_pax_extensions([record]).unwrap();
    }
    let mut header = tar::Header::new_ustar();
    header.set_entry_type(kind);
    header.set_path(&path).unwrap();
    if !target.is_empty() {
        header.set_link_name_literal(target).unwrap();
    }
    header.set_mode(member.mode);
    header.set_uid(u64::from(member.owner.0));
    header.set_gid(u64::from(member.owner.1));
    header.set_mtime(0);
    header.set_size(u64::try_from(content.len()).unwrap());
    header.set_cksum();
    tar.append(&header, content).unwrap();
}

/// Applies a layer to a root file system, and returns the files with capabilities. Files are replaced, never written in
/// place, because the base's are hard links.
pub fn unpack(members: &[Member], root: &Path) -> Vec<(String, Vec<u8>)> {
    for member in members {
        let at = root.join(&member.path);
        match member.kind {
            MemberKind::Whiteout => remove(&at),
            MemberKind::Opaque if at.is_dir() => {
                for entry in fs::read_dir(&at).unwrap() {
                    remove(&entry.unwrap().path());
                }
            }
            _ => {}
        }
    }
    let mut capable = Vec::new();
    for member in members {
        let at = root.join(&member.path);
        match &member.kind {
            MemberKind::Whiteout | MemberKind::Opaque => continue,
            MemberKind::Dir => make_dir(&at),
            other => {
                remove(&at);
                match other {
                    MemberKind::File(content) => fs::write(&at, content).unwrap(),
                    MemberKind::Symlink(target) => symlink(target, &at).unwrap(),
                    MemberKind::Hardlink(target) => fs::hard_link(root.join(target), &at).unwrap(),
                    _ => unreachable!("the others are no files"),
                }
            }
        }
        if matches!(member.kind, MemberKind::Hardlink(_)) {
            continue;
        }
        // The owner comes first, because chown clears the setuid and setgid bits.
        lchown(&at, Some(member.owner.0), Some(member.owner.1)).unwrap();
        if !matches!(member.kind, MemberKind::Symlink(_)) {
            fs::set_permissions(&at, fs::Permissions::from_mode(member.mode)).unwrap();
        }
        if let Some(list) = &member.access_list {
            let none = rustix::fs::XattrFlags::empty();
            rustix::fs::setxattr(&at, "system.posix_acl_access", list, none).unwrap();
        }
        capable.extend(member.capability.clone().map(|value| (member.path.clone(), value)));
    }
    capable
}

fn make_dir(at: &Path) {
    let is_dir = fs::symlink_metadata(at).is_ok_and(|facts| facts.is_dir());
    if !is_dir {
        remove(at);
        fs::create_dir(at).unwrap();
    }
}

fn remove(at: &Path) {
    match fs::symlink_metadata(at) {
        Ok(facts) if facts.is_dir() => fs::remove_dir_all(at).unwrap(),
        Ok(_) => fs::remove_file(at).unwrap(),
        Err(_) => {}
    }
}
