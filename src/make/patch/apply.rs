//! The file system that a patch makes, computed without a build.

use std::sync::Arc;

use super::layer::{AddedLayer, AddedMember};
use super::package::Package;
use super::{GrantedRight, ImagePatch, SearchPath, drops};
use crate::make::choose::image_system::SystemInstaller;
use image_linkage::layer::{FileFacts, LayerEntry, LayerIndex, NodeAccess, shorten_list};
use image_linkage::loader::{DynamicLoader, folders_of_cache, run_ldconfig};
use image_linkage::path::RootPath;
use image_linkage::rootfs::{NodeKind, Rootfs};

/// The file system after a patch, and the size of the files that a build writes, if known. `layers` is the number of
/// layers of the image.
///
/// Errors: An obstacle to a file.
pub(crate) fn apply(
    patch: &ImagePatch,
    before: &Rootfs,
    loader: &DynamicLoader,
    layers: usize,
) -> Result<(Rootfs, Option<u64>), String> {
    let mut layer = patch_layer(patch, before)?;
    if let Some(package) = &patch.package {
        add_metadata(&mut layer, before, package)?;
    }
    let mut after = before.with_layer(layers, &granting_layer(before, &patch.rights));
    after = after.with_layer(layers, &layer.index());
    let gone = drops::removed_paths(&after, &patch.drops);
    let mut bytes = layer.bytes()
        + patch
            .package
            .as_ref()
            .map_or(0, |package| rewritten_bytes(before, package));
    if !gone.is_empty() {
        let sites = drops::changed_sites(&gone);
        let hides = LayerIndex {
            whiteouts: gone,
            ..LayerIndex::empty()
        };
        after = after.with_layer(layers + 1, &hides);
        after = after.with_layer(layers + 1, &shortened_lists(&after, sites));
    }
    if patch.rewrites_cache {
        let mut cache = AddedLayer::default();
        add_cache(&mut cache, &after, loader, "")?;
        after = after.with_layer(layers + 2, &cache.index());
        bytes += cache.bytes() + size_of(before, "/var/cache/ldconfig/aux-cache");
    }
    Ok((after, patch.knows_sizes().then_some(bytes)))
}

/// The layer with a patch: deleted names, files, links, and the line of the search path. Rights, drops and the cache are
/// not in it.
///
/// Errors: An obstacle to a member.
pub(crate) fn patch_layer(patch: &ImagePatch, rootfs: &Rootfs) -> Result<AddedLayer, String> {
    let ImagePatch {
        title: _,
        soname: _,
        library: _,
        release: _,
        deletes,
        rights: _,
        source: _,
        package: _,
        files,
        links,
        search,
        rewrites_cache: _,
        library_path: _,
        drops: _,
        leaves: _,
    } = patch;
    let mut layer = AddedLayer::default();
    for path in deletes {
        layer.add(rootfs, path, AddedMember::Deleted)?;
    }
    layer.add_files(rootfs, files)?;
    layer.add_links(rootfs, links)?;
    // The cache alone would not last: the container runtime regenerates it when the container starts.
    if let SearchPath::Configured {
        folder,
        line: Some(line),
        because,
    } = search
    {
        layer.name_folder(rootfs, &line.file, folder, because)?;
    }
    Ok(layer)
}

/// Adds what ldconfig makes of the file system `above`: the loader's cache, which names `generator` as its writer, and
/// links. Returns the problems that ldconfig would report.
///
/// Errors: An obstacle to a member.
pub(crate) fn add_cache(
    layer: &mut AddedLayer,
    above: &Rootfs,
    loader: &DynamicLoader,
    generator: &str,
) -> Result<Vec<String>, String> {
    let run = run_ldconfig(above, loader, folders_of_cache(above, loader));
    layer.add_cache(above, loader, &run, generator)?;
    Ok(run.problems)
}

/// Adds the metadata that makes a wheel count as installed.
fn add_metadata(layer: &mut AddedLayer, rootfs: &Rootfs, package: &Package) -> Result<(), String> {
    match package {
        Package::Pip(pip) if !pip.is_listed => {
            let folder = format!("{}-{}.dist-info", pip.name.replace('-', "_"), pip.version);
            let metadata = pip.target.site.join(folder.as_bytes()).join(b"METADATA");
            let text = format!("Metadata-Version: 2.1\nName: {}\nVersion: {}\n", pip.name, pip.version);
            layer.write_file(rootfs, &metadata, text.into_bytes(), "")
        }
        Package::Pip(_) | Package::System(_) | Package::Conda(_) => Ok(()),
    }
}

/// The layer in which these files and directories have these rights.
fn granting_layer(rootfs: &Rootfs, rights: &[GrantedRight]) -> LayerIndex {
    let mut layer = LayerIndex::empty();
    for right in rights {
        let Ok(found) = rootfs.lookup(&right.path.absolute()) else {
            continue;
        };
        let entry = match (&rootfs.node(found.node).kind, rootfs.access(found.node)) {
            (NodeKind::File(facts), _) => LayerEntry::File(Arc::new(FileFacts {
                mode: facts.mode | right.bits,
                ..(**facts).clone()
            })),
            (NodeKind::Directory(_), Some((access, _))) => {
                let mode = access.mode | right.bits;
                LayerEntry::Directory(NodeAccess { mode, ..access }, None)
            }
            _ => continue,
        };
        layer.entries.insert(&right.path, entry);
    }
    layer
}

/// The lists of installed files in which the build keeps only the lines of files that are there.
fn shortened_lists(after: &Rootfs, sites: impl IntoIterator<Item = RootPath>) -> LayerIndex {
    let mut lists = LayerIndex::empty();
    for site in sites {
        let found = after.lookup(&site.absolute()).ok();
        let names = found.iter().flat_map(|found| after.children(found.node));
        for (name, _) in names.filter(|(name, _)| name.ends_with(b".dist-info")) {
            let list = site.join(name).join(b"RECORD");
            let Some(facts) = after.file(&list.absolute()) else {
                continue;
            };
            let shortened = shorten_list(&list, facts, |file| after.lookup(&file.absolute()).is_err());
            lists.entries.insert(&list, LayerEntry::File(Arc::new(shortened)));
        }
    }
    lists
}

/// The size of the files that a package manager rewrites. A layer stores each changed file whole.
fn rewritten_bytes(rootfs: &Rootfs, package: &Package) -> u64 {
    // dpkg saves the previous status as `status-old` (dpkg(1), FILES); debconf rewrites its templates.
    const OF_DEBIAN: [&str; 5] = [
        "/var/lib/dpkg/status",
        "/var/lib/dpkg/status",
        "/var/log/dpkg.log",
        "/var/cache/debconf/templates.dat",
        "/var/cache/debconf/config.dat",
    ];
    const OF_RED_HAT: [&str; 2] = ["/var/lib/rpm/rpmdb.sqlite", "/usr/lib/sysimage/rpm/rpmdb.sqlite"];
    let Package::System(package) = package else {
        return 0;
    };
    let written = if package.manager == SystemInstaller::AptGet {
        &OF_DEBIAN[..]
    } else {
        &OF_RED_HAT[..]
    };
    let bytes = written.iter().map(|path| size_of(rootfs, path)).sum::<u64>();
    // Observed with Debian's libcupti, which is Multi-Arch: same, but not with NVIDIA's packages.
    bytes + if package.is_default { list_bytes(rootfs) } else { 0 }
}

fn size_of(rootfs: &Rootfs, path: &str) -> u64 {
    rootfs.file(path.as_bytes()).map_or(0, |file| file.bytes)
}

/// The size of dpkg's file lists.
fn list_bytes(rootfs: &Rootfs) -> u64 {
    let folder = rootfs.lookup(b"/var/lib/dpkg/info").ok();
    let files = folder.iter().flat_map(|folder| rootfs.children(folder.node));
    let lists = files.filter(|(name, _)| name.ends_with(b".list"));
    let sizes = lists.filter_map(|(_, id)| match &rootfs.node(id).kind {
        NodeKind::File(facts) => Some(facts.bytes),
        _ => None,
    });
    sizes.sum()
}
