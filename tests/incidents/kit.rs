//! Files that all incidents share; `kit/make.sh` makes them once per run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

use crate::support;

/// The kit, in its own directory.
pub struct Kit {
    folder: TempDir,
    digests: BTreeMap<String, String>,
}

/// A layer shared by several incidents.
pub struct SharedLayer {
    /// The unpacked files.
    pub tree: PathBuf,
    /// The tar file.
    pub tar: PathBuf,
    /// The SHA-256 in hexadecimal.
    pub digest: String,
}

impl Kit {
    /// Makes the kit, or reports the missing parts.
    pub fn make() -> Option<Self> {
        let parts = [
            "bookworm",
            "uv",
            "wheels/pip-24.3.1",
            "wheels/nvidia-cuda-cupti-13.0.85",
            "launchers",
            "dnf",
        ];
        let programs = [("gcc", "gcc"), ("dpkg-deb", "dpkg"), ("unshare", "util-linux")];
        let complete = parts.iter().all(|part| support::part(part).is_some());
        if !complete || !support::have_all(&programs) || !support::is_root() {
            return None;
        }
        let folder = support::root_folder();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/incidents/kit/make.sh");
        let output = Command::new("bash")
            .arg(script)
            .args([folder.path(), &support::parts(), &support::debian()])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        let program = folder.path().join("lent/bin/cupti-audit");
        std::fs::copy(env!("CARGO_BIN_EXE_cupti-audit"), program).unwrap();
        let mut kit = Self {
            folder,
            digests: BTreeMap::new(),
        };
        for entry in std::fs::read_dir(kit.path("layers")).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "tar") {
                let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
                kit.digests.insert(name, digest(&std::fs::read(&path).unwrap()));
            }
        }
        Some(kit)
    }

    /// A path in the kit.
    pub fn path(&self, inside: &str) -> PathBuf {
        self.folder.path().join(inside)
    }

    /// The file of a wheel, by `NAME==VERSION`.
    pub fn wheel(&self, requirement: &str) -> String {
        let begin = requirement.replace('-', "_").replace("==", "-") + "-";
        let files = std::fs::read_dir(self.path("lent/wheelhouse")).unwrap();
        let mut names = files.map(|entry| entry.unwrap().path().display().to_string());
        let is_meant = |path: &String| path.rsplit('/').next().is_some_and(|name| name.starts_with(&begin));
        names
            .find(is_meant)
            .unwrap_or_else(|| panic!("no wheel is {requirement}"))
    }

    /// A layer by name.
    pub fn layer(&self, name: &str) -> SharedLayer {
        let digest = self
            .digests
            .get(name)
            .unwrap_or_else(|| panic!("the kit has no layer {name}"));
        SharedLayer {
            tree: self.path("layers").join(name),
            tar: self.path("layers").join(format!("{name}.tar")),
            digest: digest.clone(),
        }
    }

    /// The shared layer with this digest, if any.
    pub fn known(&self, digest: &str) -> Option<SharedLayer> {
        let (name, _) = self.digests.iter().find(|(_, known)| *known == digest)?;
        Some(self.layer(name))
    }
}

/// The SHA-256 of bytes in hexadecimal.
pub fn digest(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
