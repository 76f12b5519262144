//! The packages of conda environments, by the names of their records in `conda-meta`.

use image_linkage::path::RootPath;
use image_linkage::rootfs::Rootfs;

/// The folder of an environment in which conda records its packages.
const RECORDS: &[u8] = b"conda-meta";

/// A recorded package. The file `cuda-cupti-12.4.127-h59595ed_0.json` gives its name and version.
pub(crate) struct CondaRecord {
    pub path: RootPath,
    pub name: String,
    pub version: String,
}

/// Whether a folder is a conda environment.
pub(crate) fn is_conda_environment(rootfs: &Rootfs, folder: &RootPath) -> bool {
    rootfs.lookup(&folder.join(RECORDS).absolute()).is_ok()
}

/// The innermost conda environment that contains a file.
pub(crate) fn conda_environment_of(rootfs: &Rootfs, file: &RootPath) -> Option<RootPath> {
    let mut folder = file.parent();
    while folder != RootPath::default() {
        if is_conda_environment(rootfs, &folder) {
            return Some(folder);
        }
        folder = folder.parent();
    }
    None
}

/// The recorded packages of an environment, by the names of their files.
pub(crate) fn conda_records(rootfs: &Rootfs, environment: &RootPath) -> Vec<CondaRecord> {
    let folder = environment.join(RECORDS);
    let found = rootfs.lookup(&folder.absolute()).ok();
    let names = found.iter().flat_map(|found| rootfs.children(found.node));
    let records = names.filter_map(|(name, _)| {
        // Only the last two hyphens are separators; the name itself may contain some.
        let mut parts = std::str::from_utf8(name).ok()?.rsplitn(3, '-').skip(1);
        let (version, package) = (parts.next()?.to_owned(), parts.next()?.to_owned());
        Some(CondaRecord {
            path: folder.join(name),
            name: package,
            version,
        })
    });
    records.collect()
}
