//! What an image would have libcupti be.

use crate::facts::software::cuda_runtime;
use crate::facts::{CuptiConsumer, ImageFacts};
use image_linkage::elf::ByteString;
use image_linkage::escape;
use image_linkage::path::RootPath;

/// What the image would have libcupti be: the soname that its programs ask for, and the version of CUDA.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct WantedCupti {
    /// The soname with its number; `None` where nothing says it.
    pub soname: Option<ByteString>,
    pub by: Option<String>,
    /// The version of CUDA; `None` where nothing says it, or several are there.
    pub cuda: Option<cuda_runtime::CudaVersion>,
}

impl WantedCupti {
    /// Whether the library of a CUDA has the soname.
    pub(super) fn fits(&self, target: &ImageFacts, cuda: cuda_runtime::CudaVersion) -> bool {
        let soname = || target.library.release(cuda, None).soname;
        self.soname
            .as_ref()
            .is_none_or(|wanted| **wanted == *soname().as_bytes())
    }

    /// The wish in words.
    pub(crate) fn words(&self) -> String {
        let soname = self.soname.as_deref().map(escape::escape_bytes);
        let by = self.by.as_ref().map(|by| format!(" (for {by})"));
        let cuda = self.cuda.map(|(major, minor)| format!("CUDA {major}.{minor}"));
        let soname = soname.map(|soname| soname + &by.unwrap_or_default());
        let words: Vec<String> = [soname, cuda].into_iter().flatten().collect();
        words.join(" of ")
    }
}

/// What the image would have libcupti be: what the program says that suffers most from its lack, then the toolkit.
pub(crate) fn find_wanted_cupti(target: &ImageFacts) -> WantedCupti {
    let asked = neediest_consumer(target);
    let cuda = cuda_of(target);
    let soname_of = |cuda| ByteString::from(target.library.release(cuda, None).soname.into_bytes());
    let plain = || {
        Some(&target.plain.as_is.name)
            .filter(|name| has_number(target, name))
            .cloned()
    };
    // A program may open the file of one release.
    let soname_of_name = |name: ByteString| {
        let soname = target.library.soname_by_name(&target.tables.releases, &name);
        soname.map_or(name, |soname| soname.into_bytes().into())
    };
    let soname = asked.map(|consumer| soname_of_name(base_name(&consumer.wants)));
    let soname = soname.or_else(|| cuda.map(soname_of)).or_else(plain);
    WantedCupti {
        by: asked.map(|consumer| consumer.name.clone()),
        // A toolkit of another major version says nothing of a program that brings its own CUDA.
        cuda: cuda.filter(|cuda| soname.as_ref() == Some(&soname_of(*cuda))),
        soname,
    }
}

/// The program that asks for a soname with a number: one that lacks functions before one that is served, and of those the
/// one that loses most.
pub(super) fn neediest_consumer(target: &ImageFacts) -> Option<&CuptiConsumer> {
    let numbered = target.consumers.iter();
    let numbered = numbered.filter(|consumer| has_number(target, &base_name(&consumer.wants)));
    numbered.min_by_key(|consumer| (!consumer.misses_functions(), consumer.required))
}

/// Whether a name says which release it is of; a bare libcupti.so says nothing.
fn has_number(target: &ImageFacts, name: &[u8]) -> bool {
    name.len() > target.library.stem.len()
}

/// The name of a file that may be asked for by its path.
pub(super) fn base_name(wants: &[u8]) -> ByteString {
    RootPath::new(wants).name().into()
}

/// The one version of the CUDA runtimes in the image, else the one that its environment names.
fn cuda_of(target: &ImageFacts) -> Option<cuda_runtime::CudaVersion> {
    let versions = target.related.runtimes.iter();
    let mut versions: Vec<_> = versions
        .filter_map(|runtime| cuda_runtime::parse_cuda_version(&runtime.version))
        .collect();
    versions.sort_unstable();
    versions.dedup();
    // Of several runtimes none says which CUPTI is wanted; a variable of the image may.
    match versions.as_slice() {
        [only] => Some(*only),
        _ => cuda_runtime::parse_cuda_version(target.image.config.env("CUDA_VERSION")?),
    }
}
