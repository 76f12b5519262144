//! Which programs an image has, for a `RUN` or a shell in it.

use crate::facts::ImageFacts;
use image_linkage::path::RootPath;
use image_linkage::rootfs::{NodeKind, Rootfs};

/// A program on the `PATH` of the image, or where Docker's leads.
pub(super) fn find_on_path(facts: &ImageFacts, name: &str) -> Option<RootPath> {
    let path = facts.image.config.env("PATH").unwrap_or("/usr/local/bin:/usr/bin:/bin");
    let mut places = path
        .split(':')
        .map(|folder| RootPath::from(folder).join(name.as_bytes()));
    places.find(|place| facts.contexts.as_is.rootfs.lookup(&place.absolute()).is_ok())
}

/// The shell, and the programs that a `RUN` of ours calls.
const TOOLS: [&str; 5] = ["sh", "ln", "mkdir", "rm", "cat"];

/// The programs for a `RUN` of ours that are not there, in words: `no shell`, `no rm and no cat`.
pub(super) fn missing_tools(rootfs: &Rootfs) -> String {
    if !has_program(rootfs, "sh") {
        return "no shell".to_owned();
    }
    let missing = TOOLS.iter().filter(|tool| !has_program(rootfs, tool));
    missing
        .map(|tool| format!("no {tool}"))
        .collect::<Vec<_>>()
        .join(" and ")
}

/// Whether a program is where the system's programs are.
pub(super) fn has_program(rootfs: &Rootfs, name: &str) -> bool {
    // The PATH of Docker where an image sets none, but for /usr/local/sbin.
    let folders = ["/sbin/", "/usr/sbin/", "/bin/", "/usr/bin/", "/usr/local/bin/"];
    folders.iter().any(|folder| {
        let found = rootfs.lookup(&[folder.as_bytes(), name.as_bytes()].concat());
        found.is_ok_and(|found| matches!(&rootfs.node(found.node).kind, NodeKind::File(_)))
    })
}
