//! Libraries that one Python distribution wrote over those of another: wheels of several CUDA releases share a folder.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use image_linkage::layer::listed_files;
use image_linkage::path::RootPath;
use image_linkage::rootfs::Rootfs;
use python_path::PythonDistribution;

/// A distribution whose libraries another one replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplacedFiles {
    /// The distribution that lost them.
    pub distribution: PythonDistribution,
    /// The distribution whose libraries are there.
    pub by: PythonDistribution,
    /// The replaced libraries.
    pub files: Vec<RootPath>,
    /// The libraries that are its own.
    pub intact: Vec<RootPath>,
}

/// A line of a `RECORD`: the distribution, and whether the file has the recorded hash.
type Claim<'d> = (&'d PythonDistribution, bool);

/// The distributions with replaced libraries, by the hashes in each `RECORD`. Only CUPTI's libraries are hashed.
pub(crate) fn find_replaced(rootfs: &Rootfs, distributions: &[PythonDistribution]) -> Vec<ReplacedFiles> {
    let mut claims: BTreeMap<RootPath, Vec<Claim<'_>>> = BTreeMap::new();
    for distribution in distributions {
        let list = distribution.metadata.parent().join(b"RECORD");
        let content = rootfs.content(&list.absolute()).unwrap_or_default();
        for file in listed_files(&list, content) {
            let found = rootfs
                .file(&file.path.absolute())
                .and_then(|file| file.sha256.as_deref());
            if let (Some(recorded), Some(sha256)) = (file.sha256, found.and_then(recorded_form)) {
                claims
                    .entry(file.path)
                    .or_default()
                    .push((distribution, recorded == sha256));
            }
        }
    }
    let mut replaced: Vec<ReplacedFiles> = Vec::new();
    for (path, claims) in &claims {
        let Some((owner, _)) = claims.iter().find(|(_, is_own)| *is_own) else {
            continue;
        };
        for (distribution, _) in claims.iter().filter(|(_, is_own)| !is_own) {
            match replaced.iter_mut().find(|found| found.distribution == **distribution) {
                Some(found) => found.files.push(path.clone()),
                None => replaced.push(ReplacedFiles {
                    distribution: (*distribution).clone(),
                    by: (*owner).clone(),
                    files: vec![path.clone()],
                    intact: Vec::new(),
                }),
            }
        }
    }
    for found in &mut replaced {
        for (path, claims) in &claims {
            let mut claims = claims.iter();
            if claims.any(|(distribution, is_own)| *is_own && **distribution == found.distribution) {
                found.intact.push(path.clone());
            }
        }
    }
    replaced
}

/// A hexadecimal hash in the form of a `RECORD`.
fn recorded_form(hex: &str) -> Option<String> {
    let pairs = hex.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).ok());
    let bytes: Option<Vec<u8>> = pairs.map(|pair| u8::from_str_radix(pair?, 16).ok()).collect();
    Some(URL_SAFE_NO_PAD.encode(bytes?))
}
