//! The libcupti that an image wants.

use crate::facts::software::cuda_runtime;
use crate::facts::{CuptiConsumer, ImageFacts};
use image_linkage::elf::ByteString;
use image_linkage::escape;
use image_linkage::path::RootPath;

/// The libcupti that the image wants: the soname that its programs request, and the CUDA version.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct WantedCupti {
    /// The versioned soname; `None` if unknown.
    pub soname: Option<ByteString>,
    pub by: Option<String>,
    /// The CUDA version; `None` if unknown or ambiguous.
    pub cuda: Option<cuda_runtime::CudaVersion>,
}

impl WantedCupti {
    /// Whether the library of a CUDA version has the soname.
    pub(crate) fn fits(&self, target: &ImageFacts, cuda: cuda_runtime::CudaVersion) -> bool {
        let wanted = self.soname.as_deref();
        wanted.is_none_or(|wanted| *wanted == *target.library.release(cuda, None).soname.as_bytes())
    }

    /// The wanted libcupti in words.
    pub(crate) fn words(&self) -> String {
        let mut words = Vec::new();
        if let Some(soname) = &self.soname {
            let by = self.by.as_ref().map(|by| format!(" (for {by})"));
            words.push(escape::escape_bytes(soname) + &by.unwrap_or_default());
        }
        words.extend(self.cuda.map(|(major, minor)| format!("CUDA {major}.{minor}")));
        words.join(" of ")
    }
}

/// The libcupti that the image wants: first by the request of the program that loses most without it, then by the
/// toolkit.
pub(crate) fn find_wanted_cupti(target: &ImageFacts) -> WantedCupti {
    let asked = neediest_consumer(target);
    let cuda = cuda_of(target);
    let soname_of = |cuda| ByteString::from(target.library.release(cuda, None).soname.into_bytes());
    let plain = &target.answers.plain.as_is.name;
    let soname = match (asked, cuda) {
        (Some(consumer), _) => Some(requested_soname(target, consumer)),
        (None, Some(cuda)) => Some(soname_of(cuda)),
        (None, None) => has_number(target, plain).then(|| plain.clone()),
    };
    WantedCupti {
        by: asked.map(|consumer| consumer.name.clone()),
        // Ignore a toolkit with another major version than the program's own CUDA.
        cuda: cuda.filter(|cuda| soname.as_ref() == Some(&soname_of(*cuda))),
        soname,
    }
}

/// The soname that a program requests, which may open the file of one release.
pub(crate) fn requested_soname(target: &ImageFacts, consumer: &CuptiConsumer) -> ByteString {
    let name = base_name(&consumer.requested_name);
    let soname = target.library.soname_by_name(&target.tables.releases, &name);
    soname.map_or(name, |soname| soname.into_bytes().into())
}

/// The program that requests a versioned soname: first one that lacks functions, then the one that loses most.
pub(crate) fn neediest_consumer(target: &ImageFacts) -> Option<&CuptiConsumer> {
    let consumers = target.answers.consumers.iter();
    let numbered = consumers.filter(|consumer| has_number(target, &base_name(&consumer.requested_name)));
    numbered.min_by_key(|consumer| (!consumer.misses_functions(), consumer.required))
}

/// Whether a name has a version; a bare libcupti.so has none.
fn has_number(target: &ImageFacts, name: &[u8]) -> bool {
    name.len() > target.library.stem.len()
}

/// The file name of a request, which may be a path.
fn base_name(request: &[u8]) -> ByteString {
    RootPath::new(request).name().into()
}

/// The CUDA version if all runtimes in the image agree, otherwise that of its environment.
fn cuda_of(target: &ImageFacts) -> Option<cuda_runtime::CudaVersion> {
    let runtimes = target.related.runtimes.iter();
    let mut versions: Vec<_> = runtimes
        .filter_map(|runtime| cuda_runtime::parse_cuda_version(&runtime.version))
        .collect();
    versions.sort_unstable();
    versions.dedup();
    // Several runtimes do not show which CUPTI is wanted, but the image's variable may.
    match versions.as_slice() {
        [only] => Some(*only),
        _ => cuda_runtime::parse_cuda_version(target.image.config.env("CUDA_VERSION")?),
    }
}
