//! Is rpm's database kept as the list that the real rpm gives, and is a damaged one not kept?

use image_linkage::layer::{ExpectedBlob, IndexOptions, LayerEntry, RPM_DATABASES, WantedFiles, rpm_packages};
use image_linkage::limits::Limits;
use testkit::layer::Layer;

/// Made by the real rpm: `testdata/rpm/make.sh`.
const SQLITE: &[u8] = include_bytes!("../../testdata/rpm/rpmdb.sqlite.zst");
/// The same packages, made by Berkeley DB.
const BERKELEY: &[u8] = include_bytes!("../../testdata/rpm/Packages.zst");
/// The same packages, in the format of SUSE's systems. One of them was erased.
const SLOTS: &[u8] = include_bytes!("../../testdata/rpm/Packages.db.zst");

fn unpacked(packed: &[u8]) -> Vec<u8> {
    zstd::decode_all(packed).unwrap()
}

/// The packages that a layer keeps of a database, a line for each package and library; `None` if it keeps nothing.
fn kept(database: &[u8], limits: &Limits) -> Option<Vec<String>> {
    let path = RPM_DATABASES[1];
    let options = IndexOptions {
        limits: limits.clone(),
        interest: WantedFiles {
            kept: [path.to_owned()].into(),
            ..WantedFiles::default()
        }
        .into(),
    };
    let tar = Layer::new().file(path, database).tar();
    let index = image_linkage::layer::index_layer("L", tar.as_slice(), &ExpectedBlob::default(), &options).unwrap();
    assert_eq!(index.problems, []);
    let Some(LayerEntry::File(facts)) = index.entries.get(path.as_bytes()) else {
        panic!("no file");
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut lines = Vec::new();
    for package in rpm_packages(facts.kept.as_deref()?) {
        lines.push(format!("{} {}", text(package.name), text(package.version)));
        lines.extend(package.libraries.iter().map(|path| text(path)));
    }
    Some(lines)
}

/// Without files that rpm did not install or another package replaced, and without packages that are erased.
const PACKAGES: [&str; 6] = [
    "cuda-cupti-12-4 12.4.127-1",
    "/usr/local/cuda-12.4/targets/x86_64-linux/lib/libcupti.so.2024.1.1",
    "many-files 2:1.0-3.el9",
    "/usr/lib64/libmany.so.1",
    "replacement 9-1",
    "/usr/local/cuda-12.4/targets/x86_64-linux/lib/libnvperf_host.so",
];

#[test]
fn a_database_is_kept_as_its_packages_and_their_installed_libraries() {
    for packed in [SQLITE, BERKELEY, SLOTS] {
        let database = unpacked(packed);
        let all = Limits::default();
        let mut lines = kept(&database, &all).unwrap();
        let mut expected = PACKAGES.map(str::to_owned).to_vec();
        // A hash file has no order.
        lines.sort();
        expected.sort();
        assert_eq!(lines, expected);
        let small = Limits {
            rpm_database: database.len() as u64 - 1,
            ..all
        };
        assert_eq!(kept(&database, &small), None);
    }
    assert_eq!(kept(b"no database", &Limits::default()), None);
}

#[test]
fn a_cut_database_is_not_kept() {
    for packed in [SQLITE, BERKELEY, SLOTS] {
        let whole = unpacked(packed);
        // The last page may be one that no table uses.
        for end in (0..whole.len() - 16_384).step_by(4_093) {
            assert_eq!(kept(&whole[..end], &Limits::default()), None, "{end}");
        }
    }
}

#[test]
fn a_damaged_database_ends_without_a_panic() {
    for packed in [SQLITE, BERKELEY, SLOTS] {
        let whole = unpacked(packed);
        for at in (0..whole.len()).step_by(1_021).chain(0..128) {
            let mut damaged = whole.clone();
            damaged[at] ^= 0xff;
            kept(&damaged, &Limits::default());
        }
    }
}
