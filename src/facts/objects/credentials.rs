//! Determines the user of an image's processes, and the libraries that this user cannot read.

use crate::shell_quote::quote_path;
use image_linkage::elf::ByteString;
use image_linkage::escape;
use image_linkage::loader::SearchStep;
use image_linkage::path::RootPath;
use image_linkage::rootfs::{AccessDenial, FileCredentials, FileUse, Rootfs};
use image_source::find_user;

/// The user as which an engine starts the image's processes.
#[derive(Debug, Clone)]
pub(crate) struct ImageUser {
    /// Its user and group ids; root's if unknown.
    pub credentials: FileCredentials,
    /// Why the ids are unknown.
    pub problem: Option<String>,
    /// The engine's message if it does not start a process as this user.
    pub refusal: Option<String>,
}

impl ImageUser {
    /// A user with known ids.
    pub(crate) fn of_credentials(credentials: FileCredentials) -> Self {
        Self {
            credentials,
            problem: None,
            refusal: None,
        }
    }
}

/// Looks up a user, written as in an image config, in the image's own files. An empty name is root.
pub(crate) fn find_image_user(spec: &str, rootfs: &Rootfs) -> ImageUser {
    let mut user = ImageUser::of_credentials(FileCredentials::default());
    let files: [&[u8]; 2] = [b"/etc/passwd", b"/etc/group"];
    for path in files {
        // Root is 0 in every image; other names depend on the files.
        if !spec.is_empty() && rootfs.file(path).is_some_and(|file| file.kept.is_none()) {
            user.problem = Some(format!("the content of {} is unknown", escape::escape_bytes(path)));
            return user;
        }
    }
    let [passwd, group] = files.map(|path| rootfs.content(path).unwrap_or_default());
    match find_user(spec, passwd, group) {
        Ok(credentials) => user.credentials = credentials,
        Err(why) => user.refusal = Some(why),
    }
    user
}

/// The commands that let a user use a file.
pub(crate) fn opening_commands(rootfs: &Rootfs, who: &FileCredentials, path: &RootPath, usage: FileUse) -> Vec<String> {
    let closed = closed_places(rootfs, who, path, usage).into_iter();
    closed.filter_map(|(path, usage)| chmod_command(&path, usage)).collect()
}

/// The directories above a file that a user cannot enter, and the file if the user cannot use it.
pub(crate) fn closed_places(
    rootfs: &Rootfs,
    who: &FileCredentials,
    path: &RootPath,
    usage: FileUse,
) -> Vec<(RootPath, FileUse)> {
    let Ok(file) = rootfs.lookup(&path.absolute()) else {
        return Vec::new();
    };
    let folders: Vec<RootPath> = file.path.folders().collect();
    let entered = folders.iter().rev().map(|folder| (folder, FileUse::Pass));
    let closed = entered.chain([(&file.path, usage)]).filter(|(path, usage)| {
        let node = rootfs.lookup(&path.absolute()).ok();
        let access = node.and_then(|node| rootfs.access(node.node));
        access.is_some_and(|(access, list)| !who.may(*usage, access, list))
    });
    closed.map(|(path, usage)| (path.clone(), usage)).collect()
}

/// The command that lets everybody use a file or directory; `None` for a name that a command cannot contain.
pub(crate) fn chmod_command(path: &RootPath, usage: FileUse) -> Option<String> {
    Some(format!("chmod {} {}", chmod_mode(usage), quote_path(path)?))
}

/// The rights for everybody, as an argument of chmod(1).
pub(crate) fn chmod_mode(usage: FileUse) -> &'static str {
    match usage {
        FileUse::Read => "a+r",
        FileUse::Write => "a+w",
        // Python also lists the directories that it imports from.
        FileUse::Execute | FileUse::Pass => "a+rx",
    }
}

/// An obstacle in a search that the loader's message lacks.
pub(crate) enum SearchObstacle {
    /// A file or directory that the user cannot use.
    Denied(AccessDenial),
    /// A search path that the loader ignores, and why.
    Ignored(String, String),
}

/// The obstacle in a failed search: a file that the user cannot read, else a search path that the loader ignores in
/// secure-execution mode.
pub(crate) fn search_obstacle(rootfs: &Rootfs, names: &[ByteString], trace: &[SearchStep]) -> Option<SearchObstacle> {
    for step in trace {
        let (SearchStep::Tried { path, .. }, Some(denial)) = (step, step.denial()) else {
            continue;
        };
        // In an inaccessible directory the loader tried no files.
        let mut inside = names.iter().map(|name| [&path[..], name].concat());
        if rootfs.file(path).is_some() || path.ends_with(b"/") && inside.any(|file| rootfs.file(&file).is_some()) {
            return Some(SearchObstacle::Denied(denial.clone()));
        }
    }
    trace.iter().find_map(|step| match step {
        SearchStep::LibraryPathIgnored(why) => {
            Some(SearchObstacle::Ignored("LD_LIBRARY_PATH".to_owned(), why.to_string()))
        }
        SearchStep::OriginIgnored { path, why, .. } => {
            Some(SearchObstacle::Ignored(escape::escape_bytes(path), why.to_string()))
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::find_image_user;
    use image_linkage::layer::{ExpectedBlob, index_layer};
    use image_linkage::limits::Limits;
    use image_linkage::rootfs::merge_layers;
    use testkit::layer::Layer;

    #[test]
    fn the_user_is_looked_up_in_the_files_of_the_image() {
        let check = |layer: Layer, user: Option<&str>, kept: u64, expected: (&str, Option<&str>)| {
            let mut options = crate::knowledge::file_interest::cupti_options();
            options.limits = Limits {
                kept_file: kept,
                ..Limits::default()
            };
            let index = index_layer("x", layer.tar().as_slice(), &ExpectedBlob::default(), &options).unwrap();
            let found = find_image_user(user.unwrap_or_default(), &merge_layers([&index]).0);
            assert_eq!(
                (
                    found.credentials.to_string().as_str(),
                    found.problem.or(found.refusal).as_deref()
                ),
                expected
            );
        };
        let files = || {
            Layer::new()
                .file("etc/passwd", b"app:x:1000:1000::/:/bin/sh\n")
                .file("etc/group", b"video:x:44:app\n")
        };
        let large = 1 << 20;
        check(files(), Some("app"), large, ("app (1000:1000) in the group 44", None));
        check(files(), None, large, ("0:0", None));
        let unknown = "unable to find user who: no matching entries in passwd file";
        check(files(), Some("who"), large, ("root (0:0)", Some(unknown)));
        check(
            files(),
            Some("app"),
            20,
            ("root (0:0)", Some("the content of /etc/passwd is unknown")),
        );
        check(files(), None, 20, ("0:0", None));
    }
}
