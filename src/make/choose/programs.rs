//! The programs that an image has for a `RUN` or a shell.

use crate::facts::ImageFacts;
use image_linkage::path::RootPath;
use image_linkage::rootfs::{NodeKind, Rootfs};

/// A program on the image's `PATH`, or on Docker's default.
pub(crate) fn find_on_path(facts: &ImageFacts, name: &str) -> Option<RootPath> {
    let path = facts.image.config.env("PATH").unwrap_or("/usr/local/bin:/usr/bin:/bin");
    let mut places = path
        .split(':')
        .map(|folder| RootPath::from(folder).join(name.as_bytes()));
    places.find(|place| facts.contexts.as_is.rootfs.lookup(&place.absolute()).is_ok())
}

/// The shell and the programs that a generated `RUN` calls.
const TOOLS: [&str; 5] = ["sh", "ln", "mkdir", "rm", "cat"];

/// The missing programs for a generated `RUN`, in words: `no shell`, `no rm and no cat`.
pub(crate) fn missing_tools(rootfs: &Rootfs) -> String {
    if !has_program(rootfs, "sh") {
        return "no shell".to_owned();
    }
    let missing = TOOLS.iter().filter(|tool| !has_program(rootfs, tool));
    missing
        .map(|tool| format!("no {tool}"))
        .collect::<Vec<_>>()
        .join(" and ")
}

/// Whether a program is in one of the system's program folders.
pub(crate) fn has_program(rootfs: &Rootfs, name: &str) -> bool {
    // Docker's default PATH, without /usr/local/sbin.
    let folders = ["/sbin/", "/usr/sbin/", "/bin/", "/usr/bin/", "/usr/local/bin/"];
    folders.iter().any(|folder| {
        let found = rootfs.lookup(&[folder.as_bytes(), name.as_bytes()].concat());
        found.is_ok_and(|found| matches!(&rootfs.node(found.node).kind, NodeKind::File(_)))
    })
}
