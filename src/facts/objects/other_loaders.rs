//! Reads loaders other than the image's own, such as those of Nix, Guix and Homebrew. They have their own default
//! directories and usually their own cache.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use crate::facts::objects::process_context::ProcessContext;
use crate::facts::objects::resolved_objects::elf_at;
use image_linkage::elf::{ByteString, ElfFacts};
use image_linkage::loader::{Arch, CpuLevel, DynamicLoader, LdCache, Libc};
use image_linkage::path::RootPath;
use image_linkage::rootfs::{NodeKind, Rootfs};

/// The maximum number of cached loaders; images have one or two besides their own.
const KEPT: usize = 4;

/// The maximum number of reported problems; the first already leaves the verdict open.
const TOLD: usize = 16;

/// The number of bytes of a loader whose scan takes as long as one search step.
const STEP_BYTES: usize = 256;

/// The loaders other than the image's own, for one world.
#[derive(Debug, Default)]
pub(crate) struct OtherLoaders(Mutex<ReadLoaders>);

#[derive(Debug, Default)]
struct ReadLoaders {
    kept: Vec<OtherLoader>,
    problems: BTreeSet<String>,
}

/// A loader under the name that programs use; `None` if the file is not a loader.
#[derive(Debug)]
struct OtherLoader {
    interpreter: ByteString,
    arch: &'static Arch,
    linker: Option<DynamicLoader>,
}

impl OtherLoaders {
    /// The parts of them that could not be read.
    pub(crate) fn problems(&self) -> BTreeSet<String> {
        let read = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        read.problems.clone()
    }

    /// The loader that a program in the context `of` names. The cache does not include the process environment, which
    /// may differ.
    pub(crate) fn find_or_read(
        &self,
        of: &ProcessContext,
        interpreter: &ByteString,
        arch: &'static Arch,
    ) -> Option<DynamicLoader> {
        let mut read = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut kept = read.kept.iter();
        if let Some(known) = kept.find(|known| known.interpreter == *interpreter && known.arch == arch) {
            return known.linker.clone();
        }
        let linker = read_loader(of, interpreter, arch);
        for problem in linker.iter().flat_map(|linker| &linker.problems) {
            if read.problems.len() < TOLD {
                read.problems.insert(problem.clone());
            }
        }
        if read.kept.len() == KEPT {
            read.kept.remove(0);
        }
        read.kept.push(OtherLoader {
            interpreter: interpreter.clone(),
            arch,
            linker: linker.clone(),
        });
        linker
    }
}

/// Finds the loader of an image without a system one, as made by Nix and Guix. The command's program decides, else the
/// interpreter that most programs name.
pub(crate) fn find_named_loader(
    rootfs: &Rootfs,
    arch: &'static Arch,
    cpu: CpuLevel,
    command: Option<&RootPath>,
) -> Option<DynamicLoader> {
    if let Some(named) = command.and_then(|command| named_interpreter(elf_at(rootfs, command)?, arch))
        && let Some(loader) = DynamicLoader::read_at(rootfs, named, arch, cpu)
    {
        return Some(loader);
    }
    let mut named: BTreeMap<ByteString, usize> = BTreeMap::new();
    rootfs.visit(|_, _, node| {
        if let NodeKind::File(facts) = &node.kind
            && let Some(name) = facts.elf.as_deref().and_then(|elf| named_interpreter(elf, arch))
        {
            *named.entry(name.clone()).or_default() += 1;
        }
    });
    let (name, _) = named.into_iter().max_by_key(|(_, programs)| *programs)?;
    DynamicLoader::read_at(rootfs, &name, arch, cpu)
}

/// The interpreter that a program for this processor names.
fn named_interpreter<'e>(elf: &'e ElfFacts, arch: &Arch) -> Option<&'e ByteString> {
    if Arch::of_object(elf)? != arch {
        return None;
    }
    elf.interp.as_ref()
}

/// Reads the loader at a path, and charges the image's budget.
fn read_loader(of: &ProcessContext, interpreter: &[u8], arch: &'static Arch) -> Option<DynamicLoader> {
    let mut linker = DynamicLoader::read_at(&of.rootfs, interpreter, arch, of.cpu)?;
    linker.budget = Arc::clone(&of.budget);
    let bytes = of.rootfs.content(interpreter).unwrap_or_default();
    let entries = linker.cache.as_deref().into_iter().flat_map(LdCache::iter).count();
    linker
        .budget
        .spend(bytes.len() / STEP_BYTES + linker.default_dirs.len() + entries);
    if let Some(own) = &of.linker
        && own.libc != Libc::Musl
        && own.cache_path == linker.cache_path
    {
        // In the other world, ldconfig has replaced the image's cache.
        linker.cache.clone_from(&own.cache);
        linker.cache_is_new = own.cache_is_new;
    }
    Some(linker)
}
