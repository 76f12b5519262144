//! The code for a requested GPU: in the objects that frameworks always need, and in all others.

use gpu_code::{GpuArchitecture, GpuCoverage};
use image_linkage::escape::escape_bytes;

use super::{Hit, Shown, StoppedWork};
use crate::facts::{Gap, GpuCodeObject, ImageFacts, gpu_code_kept_for};
use crate::knowledge::gpu::{GpuCapability, GpuFramework};
use crate::knowledge::gpu_code::ObjectOrigin;

/// Containers without code count if they are more than nine of ten. Many libraries have kernels for some GPUs only.
const LACKING_TENTHS: u64 = 9;
/// The maximum number of names in a message.
const NAMES: usize = 3;

/// The code for a GPU in an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GpuCodeState {
    /// No container has any.
    Missing,
    /// Almost no container has any.
    Few,
    /// Only PTX.
    OnlyPtx,
}

impl GpuCodeState {
    /// `None` if the object supports the GPU.
    fn of(coverage: GpuCoverage) -> Option<Self> {
        let all = coverage.containers();
        let lacking = u64::from(coverage.no_code);
        if all == 0 {
            None
        } else if lacking == all {
            Some(Self::Missing)
        } else if lacking * 10 > all * LACKING_TENTHS {
            Some(Self::Few)
        } else if coverage.machine_code == 0 {
            Some(Self::OnlyPtx)
        } else {
            None
        }
    }

    /// The rule for it.
    fn rule(self) -> &'static str {
        match self {
            Self::Missing => "gpu-code-missing",
            Self::Few => "gpu-code-incomplete",
            Self::OnlyPtx => "gpu-code-only-ptx",
        }
    }
}

/// The objects that lack code for a GPU, under the user's name for it: one hit for each object that a framework always
/// needs, one for all others with few or no code, and one for those that only have PTX.
pub fn find_gpu_code(facts: &ImageFacts, name: &str, gpu: &GpuCapability) -> Vec<Hit> {
    let Some(architecture) = gpu.machine_architecture() else {
        return Vec::new();
    };
    let known = KnownGpu {
        facts,
        gpu,
        words: gpu_words(name, architecture),
        architecture,
    };
    let (mut hits, mut few, mut only_ptx) = (Vec::new(), Vec::new(), Vec::new());
    for object in &facts.gpu_code {
        // A part that could not be read may have the code.
        if object.is_partial() {
            continue;
        }
        let Some(state) = GpuCodeState::of(object.coverage(architecture)) else {
            continue;
        };
        match (facts.tables.gpus.framework_of(&object.path), state) {
            (Some(framework), _) => hits.push(known.needed(state, object, framework)),
            (None, _) if facts.tables.gpu_code.is_stub(&object.path) => {}
            (None, GpuCodeState::Missing) => few.push(object),
            (None, _) if is_nvidias(facts, object) => {}
            (None, GpuCodeState::Few) => few.push(object),
            (None, GpuCodeState::OnlyPtx) => only_ptx.push(object),
        }
    }
    for (state, objects) in [(GpuCodeState::Few, few), (GpuCodeState::OnlyPtx, only_ptx)] {
        if !objects.is_empty() {
            hits.push(known.others(state, &objects));
        }
    }
    hits
}

/// The objects of frameworks whose code for these GPUs could not be read.
pub fn gpu_code_gaps(facts: &ImageFacts, gpus: &[GpuArchitecture]) -> Vec<Gap> {
    let lacks = |object: &&GpuCodeObject| {
        let mut states = gpus.iter().map(|gpu| GpuCodeState::of(object.coverage(*gpu)));
        states.any(|state| state.is_some())
    };
    let partial = facts.gpu_code.iter().filter(|object| object.is_partial());
    let needed = partial.filter(|object| facts.tables.gpus.framework_of(&object.path).is_some());
    let gap = |object: &GpuCodeObject| Gap {
        what: format!("the GPU code of {}", object.path),
        why: "a part of it could not be read".to_owned(),
    };
    needed.filter(lacks).map(gap).collect()
}

/// Whether an object is a library of NVIDIA. Some of these libraries have machine code for few GPUs by design.
fn is_nvidias(facts: &ImageFacts, object: &GpuCodeObject) -> bool {
    matches!(facts.tables.gpu_code.origin(&object.path), ObjectOrigin::Nvidia)
}

/// The user's name for a GPU, and its architecture.
fn gpu_words(name: &str, architecture: GpuArchitecture) -> String {
    let architecture = architecture.to_string();
    if name.eq_ignore_ascii_case(&architecture) {
        return architecture;
    }
    format!("{} ({architecture})", escape_bytes(name.as_bytes()))
}

/// A requested GPU and an image.
struct KnownGpu<'f> {
    facts: &'f ImageFacts,
    gpu: &'f GpuCapability,
    words: String,
    architecture: GpuArchitecture,
}

impl KnownGpu<'_> {
    fn needed(&self, state: GpuCodeState, object: &GpuCodeObject, framework: &GpuFramework) -> Hit {
        let names = self.share_words(object, &object.path.to_string());
        let cure = self.cure(state).unwrap_or_else(|| {
            let (name, builds) = (&framework.name, &framework.builds);
            let releases = self.gpu.releases();
            format!(
                "install a build of {name} with code for {} ({releases}); {builds}",
                self.architecture
            )
        });
        let work = match state {
            GpuCodeState::Missing | GpuCodeState::Few => StoppedWork::Program,
            GpuCodeState::OnlyPtx => StoppedWork::Profiling,
        };
        self.hit(state, names, cure)
            .value("framework", Shown::untrusted(&framework.name))
            .raise_if("always-needed", true)
            .at([(&object.path, Some(object.layer))])
            .stopping(work)
    }

    fn others(&self, state: GpuCodeState, objects: &[&GpuCodeObject]) -> Hit {
        let name = |object: &&GpuCodeObject| self.share_words(object, &escape_bytes(object.path.name()));
        let mut items: Vec<String> = objects.iter().take(NAMES).map(name).collect();
        let more = objects.len().saturating_sub(NAMES);
        items.extend((more > 0).then(|| format!("{more} more")));
        let names = match items.split_last() {
            Some((last, [])) => last.clone(),
            Some((last, others)) => format!("{} and {last}", others.join(", ")),
            None => String::new(),
        };
        let fix = "if a program needs them, install builds of their packages with code for the GPU";
        let cure = self.cure(state).unwrap_or_else(|| fix.to_owned());
        self.hit(state, names, cure)
            .raise_if("always-needed", false)
            .at(objects.iter().map(|object| (&object.path, Some(object.layer))))
    }

    fn hit(&self, state: GpuCodeState, names: String, cure: String) -> Hit {
        Hit::new(state.rule())
            .value("gpu", Shown::known(self.words.clone()))
            .value("names", Shown::known(names))
            .value("cure", Shown::known(cure))
    }

    /// The object, or the number of its containers without code if some have code.
    fn share_words(&self, object: &GpuCodeObject, name: &str) -> String {
        let coverage = object.coverage(self.architecture);
        match GpuCodeState::of(coverage) {
            Some(GpuCodeState::Few) => {
                format!("{} of {} containers of {name}", coverage.no_code, coverage.containers())
            }
            _ => name.to_owned(),
        }
    }

    /// The fix for an image whose code `slim --gpu` may have removed.
    fn cure(&self, state: GpuCodeState) -> Option<String> {
        let kept = gpu_code_kept_for(&self.facts.image)?;
        let is_removed = state != GpuCodeState::OnlyPtx && !kept.contains(&self.architecture.to_string());
        is_removed.then(|| {
            format!(
                "use the original image: slim --gpu made this one for {} only",
                kept.join(", ")
            )
        })
    }
}
