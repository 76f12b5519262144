//! A program in a root file system, with the kernel's `/proc` in it: mounts of the session's own, which end
//! with it, however it ends.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::support;

/// Mounts in a name space that nobody else sees: the folder lent, and an empty one over each that stands before
/// `--`.
const SESSION: &str = "root=$1; lent=$2; shift 2
mount -t proc proc \"$root/proc\" || exit 125
if [ -n \"$lent\" ]; then mount --bind \"$lent\" \"$root/mnt\" || exit 125; fi
while [ \"$1\" != -- ]; do mount -t tmpfs none \"$root/$1\" || exit 125; shift; done; shift
exec chroot \"$root\" /usr/bin/env -i \"$@\"";

/// Where programs run.
#[derive(Debug, Clone, Copy)]
pub struct Session<'a> {
    /// The root file system.
    pub root: &'a Path,
    /// A folder of this machine that lies at `/mnt` in it.
    pub lent: Option<&'a Path>,
    /// Folders that are empty in it.
    pub hidden: &'a [&'a str],
}

impl<'a> Session<'a> {
    /// The root file system as it is.
    pub fn of(root: &'a Path) -> Self {
        Self {
            root,
            lent: None,
            hidden: &[],
        }
    }

    /// A command for `words`, which may begin with `NAME=VALUE`: there is no other environment.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "--propagation", "private"])
            .args(["sh", "-c", SESSION, "sh"])
            .arg(self.root)
            .arg(self.lent.unwrap_or(Path::new("")))
            .args(self.hidden)
            .arg("--")
            .args(words)
            .stdin(Stdio::null());
        command
    }
}

/// Whether the test may mount in a name space of its own.
pub fn is_allowed() -> bool {
    if !support::is_root() {
        return false;
    }
    let tried = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "true"])
        .output();
    let allowed = tried.is_ok_and(|output| output.status.success());
    if !allowed {
        support::missing("the right to mount in a name space of its own");
    }
    allowed
}
