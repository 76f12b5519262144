//! A program in a root file system, with the kernel's `/proc` in it: mounts of the session's own, which end
//! with it, however it ends.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::support;

/// Mounts in a name space that nobody else sees. What stands before `--` are folders to be hidden.
const SESSION: &str = "root=$1; shift
mount -t proc proc \"$root/proc\" || exit 125
while [ \"$1\" != -- ]; do mount -t tmpfs none \"$root/$1\" || exit 125; shift; done; shift
exec chroot \"$root\" /usr/bin/env -i \"$@\"";

/// A command for `words` in the root, without an environment; the `hidden` folders are empty in it.
pub fn session(root: &Path, hidden: &[&str], words: &[&str]) -> Command {
    let mut command = Command::new("unshare");
    command
        .args([
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-c",
            SESSION,
            "sh",
        ])
        .arg(root)
        .args(hidden)
        .arg("--")
        .args(words)
        .stdin(Stdio::null());
    command
}

/// Whether the test may mount in a name space of its own.
pub fn is_allowed() -> bool {
    let tried = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "true"])
        .output();
    let allowed = support::is_root() && tried.is_ok_and(|output| output.status.success());
    if !allowed {
        support::missing("the right to mount in a name space of its own (root has it)");
    }
    allowed
}
