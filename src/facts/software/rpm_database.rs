//! The packages in rpm's database of an image.

use image_linkage::layer::{RPM_DATABASES, RpmPackage, rpm_packages};
use image_linkage::path::RootPath;
use image_linkage::rootfs::Rootfs;

/// The path of rpm's database and its content; `None` if the image has none that was read.
fn database(rootfs: &Rootfs) -> Option<(RootPath, &[u8])> {
    // An unreadable database does not make an older one valid.
    let mut known = RPM_DATABASES.iter();
    let found = known.find_map(|path| rootfs.lookup(format!("/{path}").as_bytes()).ok())?;
    let database = found.path.absolute();
    // A transaction that is not in the database yet, or not undone yet (sqlite.org/wal.html, sqlite.org/atomiccommit.html).
    for end in ["-wal", "-journal"] {
        if rootfs
            .file(&[&database, end.as_bytes()].concat())
            .is_some_and(|file| file.bytes > 0)
        {
            return None;
        }
    }
    Some((RootPath::new(&database), rootfs.content(&database)?))
}

/// The installed packages with libraries; `None` if the image has no database that can be read.
pub(crate) fn installed_rpms(rootfs: &Rootfs) -> Option<impl Iterator<Item = RpmPackage<'_>>> {
    database(rootfs).map(|(_, content)| rpm_packages(content))
}

/// The installed packages with libraries, if their database is at this path.
pub(crate) fn rpms_of_list<'r>(rootfs: &'r Rootfs, list: &RootPath) -> Option<impl Iterator<Item = RpmPackage<'r>>> {
    let (path, content) = database(rootfs)?;
    (path == *list).then(|| rpm_packages(content))
}
