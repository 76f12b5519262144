//! Detects search paths that lead to wrong directories: the working directory, or stubs of the driver.

use crate::facts::objects::process_context::ProcessContext;
use crate::facts::objects::resolved_objects::{elf_at, opened_object};
use crate::facts::objects::world::ByWorld;
use crate::facts::software::consumers::CuptiConsumer;
use crate::facts::software::copies::CuptiCopy;
use image_linkage::elf::ByteString;
use image_linkage::escape;
use image_linkage::loader::LdSoConf;
use image_linkage::loader::{SearchStage, SimulatedProcess};
use image_linkage::path::{RootPath, split_components};
use image_linkage::rootfs::Rootfs;

/// A search path with an empty element, which is the working directory (glibc elf/dl-load.c, `fillin_rpath`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmptyElement {
    /// The name of the path: `LD_LIBRARY_PATH`, or a tag of an object.
    pub of: String,
    /// The path as written.
    pub value: ByteString,
    /// The object; `None` for the environment.
    pub object: Option<RootPath>,
}

/// Finds search paths with an empty element, in the environment, the consumers and the copies.
pub fn find_empty_elements(
    context: &ProcessContext,
    consumers: &[CuptiConsumer],
    copies: &[CuptiCopy],
) -> Vec<EmptyElement> {
    let mut found = Vec::new();
    if let Some(value) = &context.environment.library_path
        // ld.so splits LD_LIBRARY_PATH at both characters, and DT_RPATH and DT_RUNPATH at `:` only.
        && has_empty(value, b":;")
    {
        found.push(EmptyElement {
            of: "LD_LIBRARY_PATH".to_owned(),
            value: value.clone(),
            object: None,
        });
    }
    let objects = consumers.iter().map(|consumer| &consumer.object);
    // Only the tool itself maps its own copy, so that copy does not affect other programs.
    let copies = copies.iter().filter(|copy| !copy.private);
    for object in objects.chain(copies.map(|copy| &copy.real_path)) {
        found.extend(of_object(&context.rootfs, object));
    }
    found
}

fn of_object(rootfs: &Rootfs, object: &RootPath) -> Option<EmptyElement> {
    let elf = elf_at(rootfs, object)?;
    // ld.so ignores DT_RPATH if the object has a DT_RUNPATH.
    let (tag, value) = match (&elf.runpath, &elf.rpath) {
        (Some(path), _) => ("DT_RUNPATH", path),
        (None, Some(path)) => ("DT_RPATH", path),
        (None, None) => return None,
    };
    has_empty(value, b":").then(|| EmptyElement {
        of: format!("{tag} of {}", escape::escape_bytes(object.name())),
        value: value.clone(),
        object: Some(object.clone()),
    })
}

/// Whether a nonempty path has an empty element.
fn has_empty(path: &[u8], separators: &[u8]) -> bool {
    // ld.so ignores an empty value, but an empty element means the working directory.
    !path.is_empty() && path.split(|byte| separators.contains(byte)).any(<[u8]>::is_empty)
}

/// A stub of the driver library that a search path leads to. Stubs are for linking only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriverStub {
    /// The path at which the search finds it.
    pub path: RootPath,
    /// The part of the search.
    pub by: StubSource,
}

/// The part of the search that leads to a stub.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StubSource {
    /// `LD_LIBRARY_PATH`, which precedes everything that the container runtime sets up.
    LdLibraryPath,
    /// `ld.so.cache`, in the image or as `ldconfig` would rebuild it.
    Cache,
}

/// The names under which CUPTI and the CUDA runtime open the driver library.
const DRIVER: [&[u8]; 2] = [b"libcuda.so.1", b"libcuda.so"];

/// Finds stubs that the environment or the cache leads to.
pub fn find_driver_stubs(contexts: &ByWorld<ProcessContext>) -> Vec<DriverStub> {
    let context = &contexts.as_is;
    let opened = DRIVER.map(|name| context.open_plain(name));
    let mut found = Vec::new();
    for object in opened.iter().filter_map(opened_object) {
        if object.how == SearchStage::LdLibraryPath {
            found.extend(stub(&context.rootfs, &object.path, StubSource::LdLibraryPath));
        }
    }
    // The image's own cache is used until the container runtime runs ldconfig, and the rebuilt one after that.
    let caches = [&contexts.as_is, &contexts.nvidia]
        .into_iter()
        .filter_map(|context| context.linker.as_ref()?.cache.as_deref());
    let entries = caches
        .flat_map(image_linkage::loader::LdCache::iter)
        .filter(|(name, _)| DRIVER.contains(name));
    for (_, entry) in entries {
        // Only this file system has the links that ldconfig creates.
        let stub = stub(&contexts.nvidia.rootfs, &entry.path, StubSource::Cache);
        found.extend(stub.filter(|stub| !found.contains(stub)));
    }
    found
}

fn stub(rootfs: &Rootfs, path: &[u8], by: StubSource) -> Option<DriverStub> {
    // A link elsewhere may lead to a stub, so check the real path.
    let real = rootfs.lookup(path).ok()?.path;
    let is_stub = real.split_components().any(|part| part == b"stubs");
    is_stub.then(|| DriverStub {
        path: RootPath::new(path),
        by,
    })
}

/// Whether `LD_LIBRARY_PATH` or the configuration of `ldconfig` may contain a directory. True as well if a part of the
/// configuration was not read, which is reported as a gap.
pub fn search_path_names_directory(context: &ProcessContext, directory: &[u8]) -> bool {
    let found = context.with_setup(|setup| SimulatedProcess::plain_search_path(setup));
    let configured = LdSoConf::read(&context.rootfs);
    let searched = found.iter().flatten().map(|(_, path)| path);
    // ldconfig and the loader keep repeated slashes, but the path leads to the same directory.
    let mut named = searched
        .chain(&configured.directories)
        .filter(|path| path.starts_with(b"/") && split_components(path).eq(split_components(directory)));
    !configured.problems.is_empty() || named.next().is_some()
}

#[cfg(test)]
mod tests {
    use super::has_empty;

    #[test]
    fn an_empty_element_is_at_an_end_or_between_two_separators() {
        for path in ["/a:", ":/a", "/a::/b", "/a;", ":"] {
            assert!(has_empty(path.as_bytes(), b":;"), "{path}");
        }
        for path in ["", "/a", "/a:/b", "/a:."] {
            assert!(!has_empty(path.as_bytes(), b":;"), "{path}");
        }
    }
}
