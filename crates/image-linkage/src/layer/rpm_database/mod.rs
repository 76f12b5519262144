//! The database of rpm, reduced to the installed packages that contain libraries.

mod berkeley_hash;
mod package_header;
mod slots;
mod sqlite_table;

use crate::path::RootPath;
use package_header::PackageHeader;

/// The paths of rpm's database, in order of preference: since rpm 4.16 in the format of `SQLite`, on SUSE's systems in
/// rpm's own, before of Berkeley DB. Fedora has `/var/lib/rpm` as a link to the second folder.
pub const RPM_DATABASES: [&str; 6] = [
    "var/lib/rpm/rpmdb.sqlite",
    "usr/lib/sysimage/rpm/rpmdb.sqlite",
    "var/lib/rpm/Packages.db",
    "usr/lib/sysimage/rpm/Packages.db",
    "var/lib/rpm/Packages",
    "usr/lib/sysimage/rpm/Packages",
];

/// An installed package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RpmPackage<'k> {
    /// Its name without version and architecture.
    pub name: &'k [u8],
    /// Its epoch if it has one, version and release: `2:12.4.127-1`.
    pub version: &'k [u8],
    /// The absolute paths of its libraries.
    pub libraries: Vec<&'k [u8]>,
}

/// Whether the file at a path is rpm's database.
pub fn is_rpm_database(path: &RootPath) -> bool {
    RPM_DATABASES
        .iter()
        .any(|database| path.as_bytes() == database.as_bytes())
}

/// The packages in the kept content of rpm's database.
pub fn rpm_packages(kept: &[u8]) -> impl Iterator<Item = RpmPackage<'_>> {
    kept.split(|&byte| byte == b'\n').filter_map(|line| {
        let mut fields = line.split(|&byte| byte == 0);
        let (name, version) = (fields.next()?, fields.next()?);
        let libraries = fields.collect();
        Some(RpmPackage {
            name,
            version,
            libraries,
        })
    })
}

/// The packages with libraries in a database: a line for each with name, version and paths, separated by zeros. A
/// database of 20 MB becomes some 100 kB. `None` if the database is damaged.
pub(super) fn essence(database: &[u8]) -> Option<Vec<u8>> {
    let mut kept = Vec::new();
    let mut add = |blob: &[u8]| {
        let header = PackageHeader::read(blob)?;
        let mut is_empty = true;
        let start = kept.len();
        kept.extend([header.name()?, b"\0", &header.version()?].concat());
        for path in header.libraries() {
            kept.push(0);
            kept.extend(path?);
            is_empty = false;
            // A few long folder names for many files would multiply the size.
            if kept.len() > database.len() {
                return None;
            }
        }
        // A line break in a name would end its line.
        if is_empty || kept.get(start..)?.contains(&b'\n') {
            kept.truncate(start);
        } else {
            kept.push(b'\n');
        }
        Some(())
    };
    if database.starts_with(b"SQLite") {
        // Packages(hnum INTEGER PRIMARY KEY, blob BLOB)
        sqlite_table::visit_rows(database, b"Packages", &mut |columns| add(columns.get(1)?))?;
    } else if database.starts_with(b"RpmP") {
        slots::visit_packages(database, &mut add)?;
    } else {
        berkeley_hash::visit_values(database, &mut add)?;
    }
    Some(kept)
}
