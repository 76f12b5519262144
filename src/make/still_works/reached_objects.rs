//! The objects that a change can reach: their `DT_NEEDED` leads, by names alone, to a name with another object than
//! before. Even in an image with thousands of objects these are few, and one walk finds them.

use std::collections::{BTreeMap, BTreeSet};

use crate::facts::ProcessContext;
use image_linkage::elf::{ByteString, ElfFacts};
use image_linkage::loader::LdCache;
use image_linkage::path::RootPath;
use image_linkage::rootfs::{NodeKind, Rootfs};

/// The parts of a file system that affect the loader.
#[derive(Default)]
struct LoaderView<'r> {
    objects: BTreeMap<RootPath, &'r ElfFacts>,
    links: BTreeMap<RootPath, &'r [u8]>,
}

/// The objects that request each name.
type NameRequesters<'v> = BTreeMap<&'v [u8], Vec<&'v RootPath>>;

impl<'r> LoaderView<'r> {
    fn new(rootfs: &'r Rootfs) -> Self {
        let mut nodes = Vec::new();
        rootfs.visit(|path, id, node| {
            let counts = match &node.kind {
                NodeKind::File(facts) => facts.elf.is_some(),
                NodeKind::Symlink(_) => true,
                NodeKind::Directory(_) | NodeKind::Special => false,
            };
            nodes.extend(counts.then(|| (path.clone(), id)));
        });
        let mut view = Self::default();
        for (path, id) in nodes {
            match &rootfs.node(id).kind {
                NodeKind::Symlink(target) => drop(view.links.insert(path, target)),
                NodeKind::File(facts) => view.objects.extend(facts.elf.as_deref().map(|elf| (path, elf))),
                NodeKind::Directory(_) | NodeKind::Special => {}
            }
        }
        view
    }

    fn requesters(&self) -> NameRequesters<'_> {
        let mut requesters = NameRequesters::new();
        for (path, elf) in &self.objects {
            let filtered = elf.filters.iter().map(|(name, _)| name);
            // The kernel loads the interpreter by its path.
            for name in elf.needed.iter().chain(filtered).chain(&elf.interp) {
                requesters.entry(last_part(name)).or_default().push(path);
            }
        }
        requesters
    }

    /// The requested links that lead to each object.
    fn aliases(&self, rootfs: &Rootfs, requesters: &NameRequesters<'_>) -> BTreeMap<RootPath, Vec<&[u8]>> {
        let mut aliases: BTreeMap<RootPath, Vec<&[u8]>> = BTreeMap::new();
        // Only requested links, because following every link of a large image is expensive.
        for link in self.links.keys().filter(|link| requesters.contains_key(link.name())) {
            if let Ok(found) = rootfs.lookup(&link.absolute()) {
                aliases.entry(found.path).or_default().push(link.name());
            }
        }
        aliases
    }

    /// The names whose object differs from `other`, and the changed objects that exist in both.
    fn differences(&self, other: &Self) -> (BTreeSet<ByteString>, BTreeSet<RootPath>) {
        let (mut names, mut changed) = (BTreeSet::new(), BTreeSet::new());
        for (path, elf) in &self.objects {
            let now = other.objects.get(path);
            // Unchanged layers share their facts, so a pointer comparison is enough.
            if now.is_some_and(|now| std::ptr::eq(*now, *elf) || now == elf) {
                continue;
            }
            names.insert(path.name().into());
            names.extend(elf.soname.clone());
            changed.extend(now.map(|_| path.clone()));
        }
        let links = self
            .links
            .iter()
            .filter(|(path, target)| other.links.get(*path) != Some(target));
        names.extend(links.map(|(path, _)| path.name().into()));
        (names, changed)
    }
}

fn last_part(name: &[u8]) -> &[u8] {
    name.rsplit(|&byte| byte == b'/').next().unwrap_or_default()
}

/// The objects whose load a change can reach: all objects if the change is not limited to names.
pub(super) fn reached_objects(before: &ProcessContext, after: &ProcessContext) -> BTreeSet<RootPath> {
    let (old, new) = (LoaderView::new(&before.rootfs), LoaderView::new(&after.rootfs));
    let (mut names, mut reached) = old.differences(&new);
    names.extend(new.differences(&old).0);
    names.extend(changed_entries(before, after));
    let requesters = old.requesters();
    let aliases = old.aliases(&before.rootfs, &requesters);
    let mut pending: Vec<ByteString> = names.iter().cloned().collect();
    while let Some(name) = pending.pop() {
        for &path in requesters.get(&*name).into_iter().flatten() {
            if !reached.insert(path.clone()) {
                continue;
            }
            let soname = old.objects.get(path).and_then(|elf| elf.soname.as_deref());
            let aliases = aliases.get(path).into_iter().flatten().copied();
            // An object that requests this one under any of its names is reached too.
            let known_as = aliases.chain(soname).chain([path.name()]).map(ByteString::from);
            pending.extend(known_as.filter(|name| names.insert(name.clone())));
        }
    }
    if concerns_all(before, after, &old, &names) {
        return old.objects.into_keys().collect();
    }
    reached
}

/// The sonames whose entry in the loader's cache changed.
fn changed_entries(before: &ProcessContext, after: &ProcessContext) -> Vec<ByteString> {
    let [old, new] = [before, after].map(|context| -> BTreeSet<(ByteString, ByteString)> {
        let caches = context.linker.iter().filter_map(|linker| linker.cache.as_deref());
        let entries = caches.flat_map(LdCache::iter);
        entries.map(|(name, entry)| (name.into(), entry.path.clone())).collect()
    });
    let changed = old.symmetric_difference(&new);
    changed.map(|(name, _)| name.clone()).collect()
}

/// Whether a change affects every object: a preload, `LD_LIBRARY_PATH`, the loader itself, or a link to a folder.
fn concerns_all(
    before: &ProcessContext,
    after: &ProcessContext,
    old: &LoaderView<'_>,
    names: &BTreeSet<ByteString>,
) -> bool {
    const PRELOAD: &[u8] = b"/etc/ld.so.preload";
    let listed = before.rootfs.content(PRELOAD);
    let preloaded = [before.environment.preload.as_deref(), listed];
    let texts = preloaded.into_iter().flatten();
    let mut words = texts.flat_map(|text| text.split(|byte| b" :\t\n".contains(byte)));
    let [loader, new_loader] = [before, after].map(|context| context.linker.as_ref().map(|linker| &linker.real_path));
    words.any(|word| names.contains(last_part(word)))
        || listed != after.rootfs.content(PRELOAD)
        || loader != new_loader
        || before.environment.library_path != after.environment.library_path
        || old.links.keys().any(|link| {
            let path = link.absolute();
            let is_gone = names.contains(link.name()) && after.rootfs.lookup_link(&path).is_err();
            is_gone
                && before
                    .rootfs
                    .lookup(&path)
                    .is_ok_and(|found| matches!(before.rootfs.node(found.node).kind, NodeKind::Directory(_)))
        })
}
