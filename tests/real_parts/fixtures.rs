//! Compares the fixtures' expected results with the loader and the ldconfig of this machine.
//!
//! Each glibc image for amd64 is unpacked, and its loader replaced by the real one. In a chroot, `ld.so --list` then
//! shows the libraries that a program linked with CUPTI gets. The tests need root on x86-64 Linux with glibc, and are
//! skipped elsewhere.

use std::fs;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use testkit::elf::Elf;
use testkit::layer::{Blob, Compression};
use testkit::run::run_unless_busy;
use testkit::spec::{Fixture, Sources, Status};

const LOADER: &str = "/lib64/ld-linux-x86-64.so.2";
/// The sonames that the probe needs. The second is for images that have no CUPTI 12.
const WANTED: [&str; 2] = ["libcupti.so.12", "libcupti.so.13"];

/// Whether this machine allows a chroot and has the real loader.
fn can_ask() -> bool {
    let here = cfg!(all(target_arch = "x86_64", target_os = "linux"));
    let can = here
        && Command::new("chroot")
            .args(["/", LOADER, "--version"])
            .output()
            .is_ok_and(|output| output.status.success());
    if !can {
        println!("skipped: {LOADER} cannot be run in a chroot here");
    }
    can
}

/// The fixtures that the real loader can check: for amd64, with glibc, without a script that sets the environment, and
/// with the same result on every processor.
fn judged(sources: &Sources) -> impl Iterator<Item = (&String, &Fixture)> {
    sources.fixtures().iter().filter(|(_, fixture)| {
        let base = fixture.base.as_deref();
        let is_run = |key: &str| fixture.config.contains_key(key);
        let depends = fixture
            .expect
            .findings
            .iter()
            .any(|rule| rule == "cupti-for-some-processors");
        let is_glibc = base.is_some_and(|base| base != "alpine");
        fixture.platform == "linux/amd64" && is_glibc && !is_run("Entrypoint") && !depends
    })
}

/// Unpacks a fixture's first platform, and adds the real loader and a program that needs CUPTI.
fn unpack(sources: &Sources, fixture: &Fixture) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    for image in sources.images(fixture).unwrap().iter().take(1) {
        image.blobs().for_each(|blob| apply(root.path(), blob));
    }
    let loaders = ["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu", "usr/lib64"];
    let loader = loaders
        .iter()
        .map(|dir| root.path().join(dir).join("ld-linux-x86-64.so.2"))
        .find(|path| fs::symlink_metadata(path).is_ok_and(|found| found.is_file()));
    fs::copy(LOADER, loader.unwrap()).unwrap();
    let probe = root.path().join("probe");
    let [usual, newer] = WANTED;
    let wanted = if holds(root.path(), newer) && !holds(root.path(), usual) {
        newer
    } else {
        usual
    };
    fs::write(&probe, Elf::executable().needed(wanted).build()).unwrap();
    fs::set_permissions(&probe, fs::Permissions::from_mode(0o755)).unwrap();
    root
}

/// Whether the folder contains a file with this name, at any depth.
fn holds(root: &Path, name: &str) -> bool {
    let found = Command::new("find")
        .arg(root)
        .args(["-name", name, "-print", "-quit"])
        .output();
    !found.unwrap().stdout.is_empty()
}

/// Applies a layer to a folder. Fixtures contain only real folders, so symbolic links need no care.
fn apply(root: &Path, blob: &Blob) {
    let mut tar = Vec::new();
    let mut bytes = blob.bytes.as_slice();
    match blob.compression {
        Compression::None => bytes.read_to_end(&mut tar).unwrap(),
        Compression::Gzip => flate2::read::GzDecoder::new(bytes).read_to_end(&mut tar).unwrap(),
        Compression::Zstd => zstd::Decoder::new(bytes).unwrap().read_to_end(&mut tar).unwrap(),
    };
    for entry in tar::Archive::new(tar.as_slice()).entries().unwrap() {
        let mut entry = entry.unwrap();
        let path = root.join(entry.path().unwrap());
        let name = path.file_name().unwrap().as_bytes();
        if let Some(hidden) = name.strip_prefix(b".wh.") {
            let hidden = path.with_file_name(std::ffi::OsStr::from_bytes(hidden));
            let _ = fs::remove_file(&hidden).or_else(|_| fs::remove_dir_all(&hidden));
        } else {
            entry.unpack_in(root).unwrap();
        }
    }
}

/// Whether `object` loads with all its dependencies, and the loader's output.
fn loads(root: &Path, fixture: &Fixture, object: &str) -> (bool, String) {
    let path = fixture.env.get("LD_LIBRARY_PATH");
    let mut command = Command::new("chroot");
    command
        .arg(root)
        .args([LOADER, "--library-path", path.map_or("", String::as_str)])
        .args(["--list", object])
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin");
    let output = run_unless_busy(&mut command);
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    (output.status.success() && !text.contains("not found"), text)
}

#[track_caller]
fn check(name: &str, expected: Status, (loads, text): (bool, String)) {
    assert_eq!(loads, expected == Status::Loadable, "{name}: {text}");
}

#[test]
fn fixtures_load_as_they_expect() {
    let sources = Sources::of_repository().unwrap();
    for (name, fixture) in judged(&sources).filter(|_| can_ask()) {
        let root = unpack(&sources, fixture);
        check(name, fixture.expect.status, loads(root.path(), fixture, "/probe"));
    }
}

#[test]
fn fixtures_load_as_they_expect_after_ldconfig() {
    let sources = Sources::of_repository().unwrap();
    // Debian's ldconfig has other default directories than that of RHEL.
    let alike = |fixture: &Fixture| fixture.base.as_deref() != Some("rhel9");
    for (name, fixture) in judged(&sources).filter(|(_, fixture)| alike(fixture) && can_ask()) {
        let root = unpack(&sources, fixture);
        fs::create_dir_all(root.path().join("etc")).unwrap();
        let ldconfig = Command::new("/sbin/ldconfig").arg("-r").arg(root.path()).output();
        assert!(ldconfig.unwrap().status.success(), "{name}");
        check(
            name,
            fixture.expect.status_nvidia,
            loads(root.path(), fixture, "/probe"),
        );
    }
}

#[test]
fn torch_loads_until_cupti_is_deleted() {
    let sources = Sources::of_repository().unwrap();
    let packages = PathBuf::from("/opt/venv/lib/python3.11/site-packages");
    let object = packages.join("torch/_C.cpython-311-x86_64-linux-gnu.so");
    for (name, expected) in [("pip-torch", true), ("pip-torch-broken", false)] {
        let fixture = &sources.fixtures().get(name).unwrap();
        if can_ask() {
            let root = unpack(&sources, fixture);
            let (loads, text) = loads(root.path(), fixture, object.to_str().unwrap());
            assert_eq!(loads, expected, "{name}: {text}");
            let copy = "nvidia/cuda_cupti/lib/libcupti.so.12 (0x";
            assert_eq!(text.contains(copy), expected, "{name}: {text}");
        }
    }
}
