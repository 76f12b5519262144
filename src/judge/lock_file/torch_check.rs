//! Whether a lock has the packages of NVIDIA that its PyTorch links.

use super::linux_markers::LinuxMarkers;
use super::lock_content::{LockContent, LockKind, LockedPackage};
use crate::judge::rule::{Hit, Shown};
use crate::knowledge::{Knowledge, version_numbers};

/// Packages that require the library only with an extra.
const EXTRAS: [(&str, &str); 2] = [("tensorflow", "and-cuda"), ("jax-cuda12-plugin", "with-cuda")];

impl LockContent {
    /// The packages of a name.
    pub(super) fn named(&self, name: &str) -> impl Iterator<Item = &LockedPackage> {
        self.packages.iter().filter(move |package| package.name == name)
    }

    /// Whether some installation on Linux x86-64 may get this PyTorch, by its files, its markers and those of the
    /// requirements for it.
    pub(super) fn may_be_on_linux(&self, torch: &LockedPackage, markers: &mut LinuxMarkers) -> bool {
        let mut files = torch.files.iter();
        let has_file = torch.files.is_empty() || files.any(|file| file.contains("linux") && file.contains("x86_64"));
        if !has_file || !markers.any_may_hold(&torch.markers) {
            return false;
        }
        let required = self.packages.iter().flat_map(|package| &package.requires);
        let mut meant = required
            .filter(|one| {
                // A requirement may have a range, or no version.
                let is_version = one.version.starts_with(|c: char| c.is_ascii_digit());
                one.name == torch.name && (one.version == torch.version || !is_version)
            })
            .peekable();
        meant.peek().is_none() || meant.any(|one| markers.any_may_hold(&one.markers))
    }

    /// A PyTorch whose packages the lock lacks.
    ///
    /// Errors: Nothing is known to be wrong; what is known of it, in words.
    pub(super) fn judge_torch(&self, torch: &LockedPackage, knowledge: &Knowledge) -> Result<Hit, String> {
        let what = format!("torch {}", torch.version);
        let mut frameworks = knowledge.tables.frameworks.iter();
        let wheels = frameworks
            .find_map(|one| one.wheels.as_ref())
            .ok_or_else(|| format!("{what} is not checked"))?;
        let linked = linked_library(torch, &wheels.unbundled_from, knowledge);
        let (major, soname) = linked.map_err(|words| format!("{what} {words}"))?;
        let library = knowledge
            .library
            .wheel_of(major)
            .map(|wheel| &*wheel.name)
            .ok_or_else(|| format!("{what} is not a build for CUDA"))?;
        let even_release = wheels.first_even_release(&torch.version);
        let has_library = self.named(library).next().is_some();
        let mut missing = vec![library.to_owned()];
        if has_library {
            let others = even_release.map_or(&[][..], |_| &wheels.packages).iter();
            missing = others.map(|name| format!("nvidia-{name}-cu{major}")).collect();
            missing.retain(|name| self.named(name).next().is_none());
        }
        let requires = |name: &str| torch.requires.iter().any(|one| one.name == name);
        let has_toolkit = requires("cuda-toolkit");
        if missing.is_empty() {
            let mut requires = torch.requires.iter().filter(|one| one.name == library);
            let exact = requires.clone().find(|one| !one.version.is_empty());
            let mut versions: Vec<&str> = self.named(library).map(|one| &*one.version).collect();
            versions.retain(|version| exact.is_none_or(|exact| exact.version == *version));
            let brought = format!("{library} {}", versions.join(" or "));
            return Err(match (requires.next(), has_toolkit) {
                (Some(_), _) => format!("{what} brings {brought}"),
                (None, true) => format!("{what} brings {brought}, through cuda-toolkit[cupti]"),
                (None, false) => format!("{what} is locked with {brought}"),
            });
        }
        let packages = missing.join(", ");
        let is_required = has_toolkit || missing.iter().any(|name| requires(name));
        // Without a marker, the lock does not tell which of its builds Linux gets.
        let is_pypi = !torch.version.contains('+');
        let has_other_build =
            is_pypi && torch.markers.is_empty() && self.named("torch").any(|one| one.version.contains('+'));
        if is_required || self.is_partial || (self.kind != LockKind::Uv && has_other_build) {
            return Err(format!("{what} comes without {packages}; it may come another way"));
        }
        let hit = if has_library {
            Hit::new("lock-without-cuda-libraries").value("packages", Shown::untrusted(&packages))
        } else if is_pypi && even_release.is_some() {
            Hit::new("lock-of-uneven-release").value("soname", Shown::known(soname))
        } else {
            Hit::new("lock-without-cupti").value("packages", Shown::untrusted(&packages))
        };
        let remedy = self.kind.remedy(even_release);
        Ok(hit
            .value("what", Shown::untrusted(&what))
            .value("remedy", Shown::untrusted(&remedy)))
    }

    /// Notes about frameworks that require the library only with an extra.
    pub(super) fn extra_notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let mut packages = self.packages.iter();
        let has_library = packages.any(|package| package.name.starts_with("nvidia-cuda-cupti"));
        for (name, extra) in EXTRAS {
            if !has_library && self.named(name).next().is_some() {
                notes.push(format!("{name} brings libcupti only with the extra {extra}"));
            }
        }
        notes
    }
}

/// The CUDA major version of the library that a PyTorch requires, and the name under which a build on `PyPI` links it.
/// `unbundled` is the first release of PyTorch's index that does not contain the library.
///
/// Errors: Why it is not judged, as the end of a sentence.
fn linked_library(torch: &LockedPackage, unbundled: &str, known: &Knowledge) -> Result<(u32, String), &'static str> {
    let (release, build) = torch.version.split_once('+').unwrap_or((&torch.version, ""));
    let release = version_numbers(release);
    if release.is_empty() || !torch.has_usual_source() {
        return Err("is not a release on PyPI or PyTorch's index, so it is not checked");
    }
    if !build.is_empty() {
        let digits = build.strip_prefix("cu").unwrap_or_default().get(..2);
        let major = digits.and_then(|digits| digits.parse().ok()).unwrap_or_default();
        if release < version_numbers(unbundled) {
            return Err("requires none of NVIDIA's packages");
        }
        return Ok((major, String::new()));
    }
    let row = known.tables.framework_release(&torch.name, Some(&release));
    let required = row.and_then(|row| Some((row.required_cuda()?.0, row)));
    let (major, row) = required.ok_or("does not require libcupti")?;
    Ok((major, row.names.first().cloned().unwrap_or_default()))
}
