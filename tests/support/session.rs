//! Runs a program in a root file system with a mounted `/proc`. The mounts are in a private namespace, so they always
//! disappear with the session.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::support;

/// Mounts in a private namespace: /proc, the lent folder, and an empty folder over each path before `--`.
const SESSION: &str = "root=$1; lent=$2; shift 2
mount -t proc proc \"$root/proc\" || exit 125
if [ -n \"$lent\" ]; then mount --bind \"$lent\" \"$root/mnt\" || exit 125; fi
while [ \"$1\" != -- ]; do mount -t tmpfs none \"$root/$1\" || exit 125; shift; done; shift
exec chroot \"$root\" /usr/bin/env -i \"$@\"";

/// The environment in which programs run.
#[derive(Debug, Clone, Copy)]
pub struct Session<'a> {
    /// The root file system.
    pub root: &'a Path,
    /// A folder of this machine to mount at `/mnt`.
    pub lent: Option<&'a Path>,
    /// Folders to hide under empty ones.
    pub hidden: &'a [&'a str],
}

impl<'a> Session<'a> {
    /// The root file system without changes.
    pub fn of(root: &'a Path) -> Self {
        Self {
            root,
            lent: None,
            hidden: &[],
        }
    }

    /// A command for `words`, which may begin with `NAME=VALUE`; there are no other variables.
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

/// Whether the test may mount in its own namespace.
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
