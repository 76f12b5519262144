//! The kinds of file that may be dead weight, and their path patterns.

use super::path_gate::{LastFolder, PathGate};
use super::patterns::{COMPILED, path_glob};
use std::fmt;
use std::sync::{Arc, OnceLock};

use globset::{Candidate, GlobSet, GlobSetBuilder};
use serde::Deserialize;

/// A kind of file that may be dead weight (`profiles/cupti/dead-weight.yaml`).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeadWeightKind {
    /// The name used in phases and reports.
    #[serde(rename = "kind")]
    pub id: String,
    /// Its description, in a few words.
    pub what: String,
    /// The tools that use it.
    #[serde(default)]
    pub profilers: Vec<String>,
    /// Why an image would contain it.
    pub weight: WeightPurpose,
    /// Whether the files are copies of the library itself.
    #[serde(default)]
    pub is_library: bool,
    /// Path patterns, without the leading `/`.
    files: Vec<String>,
    /// Path patterns to exclude.
    #[serde(default)]
    except: Vec<String>,
    /// A function that the file must export if its name is ambiguous; a final `*` matches any suffix.
    #[serde(default)]
    pub exports: Option<String>,
    /// The uses that keep the kind.
    #[serde(default)]
    pub used_by: Vec<UsePattern>,
    /// The kinds that execute or link it. It stays as long as a file of these stays.
    #[serde(default)]
    pub serves: Vec<String>,
}

/// Why an image contains the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WeightPurpose {
    /// Only for profiling tools.
    Profiling,
    /// To compile CUDA programs, as in a toolkit.
    Toolkit,
}

/// A use of files that no ELF table shows.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UsePattern {
    /// Path patterns of the users.
    #[serde(default)]
    files: Vec<String>,
    /// Environment variables that point to the files.
    #[serde(default)]
    pub variables: Vec<String>,
    /// Words in settings, scripts and Python packages that run the files.
    #[serde(default)]
    pub words: Vec<String>,
    /// How they are used.
    pub why: String,
}

/// The matches of a path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PathMatch {
    /// The numbers of the kinds that it may belong to, in order of preference.
    pub kinds: Vec<usize>,
    /// The uses that it proves: the number of the kind, and of its use.
    pub uses: Vec<(usize, usize)>,
}

/// The role of a pattern.
#[derive(Debug, Clone, Copy)]
enum PatternRole {
    Files,
    Except,
    UsedBy(usize),
}

/// The kinds, with all patterns compiled together.
#[derive(Clone)]
pub struct DeadWeightTable {
    /// In file order.
    pub kinds: Vec<DeadWeightKind>,
    patterns: Arc<OnceLock<CompiledPatterns>>,
}

impl fmt::Debug for DeadWeightTable {
    /// Without the patterns: they follow from the kinds, and a thread may be compiling them.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(&self.kinds).finish()
    }
}

/// The patterns of all kinds.
struct CompiledPatterns {
    set: GlobSet,
    /// The kind's number and the role, for each pattern of the set.
    roles: Vec<(usize, PatternRole)>,
    /// Accepts paths that may match a pattern other than an exception.
    gate: PathGate,
}

impl CompiledPatterns {
    fn of(kinds: &[DeadWeightKind]) -> Self {
        let mut builder = GlobSetBuilder::new();
        let mut roles = Vec::new();
        for (number, kind) in kinds.iter().enumerate() {
            for (pattern, role) in kind.patterns() {
                builder.add(path_glob(pattern).expect(COMPILED));
                roles.push((number, role));
            }
        }
        // One set for all patterns, because an image has hundreds of thousands of paths to match.
        let set = builder.build().expect(COMPILED);
        let patterns = kinds.iter().flat_map(DeadWeightKind::patterns);
        let gate = PathGate::new(patterns.filter_map(|(pattern, role)| match role {
            PatternRole::Files | PatternRole::UsedBy(_) => Some(pattern),
            PatternRole::Except => None,
        }));
        Self { set, roles, gate }
    }
}

impl DeadWeightTable {
    /// Takes the kinds. A thread compiles their patterns, which takes longer than to read all other tables.
    pub(super) fn new(kinds: Vec<DeadWeightKind>) -> Self {
        let patterns = Arc::default();
        let table = Self { kinds, patterns };
        let same = table.clone();
        std::thread::spawn(move || _ = same.patterns());
        table
    }

    fn patterns(&self) -> &CompiledPatterns {
        self.patterns.get_or_init(|| CompiledPatterns::of(&self.kinds))
    }

    /// The kind of this id.
    pub fn find_kind(&self, id: &str) -> Option<&DeadWeightKind> {
        self.kinds.iter().find(|kind| kind.id == id)
    }

    /// A quick check that rejects almost every file of an image. The path has no leading `/`; `last` caches the result
    /// for its folder.
    pub(crate) fn may_match(&self, path: &[u8], last: &mut LastFolder) -> bool {
        self.patterns().gate.may_fit(path, last)
    }

    /// Matches a path without its leading `/`.
    pub fn match_path(&self, path: &[u8]) -> PathMatch {
        let CompiledPatterns { set, roles, .. } = self.patterns();
        let mut hit = PathMatch::default();
        let mut except = Vec::new();
        for pattern in set.matches_candidate(&Candidate::from_bytes(path)) {
            match roles.get(pattern) {
                Some((kind, PatternRole::Files)) => hit.kinds.push(*kind),
                Some((kind, PatternRole::Except)) => except.push(*kind),
                // Exceptions narrow a kind's files, not their users, so uses always stay.
                Some((kind, PatternRole::UsedBy(used))) => hit.uses.push((*kind, *used)),
                None => {}
            }
        }
        // An exception may match before the pattern that it restricts, so apply them last.
        hit.kinds.retain(|kind| !except.contains(kind));
        // The first kind in the table wins, whichever pattern matched first.
        hit.kinds.sort_unstable();
        hit.kinds.dedup();
        hit
    }
}

impl DeadWeightKind {
    fn patterns(&self) -> impl Iterator<Item = (&str, PatternRole)> {
        let files = self.files.iter().map(|text| (text.as_str(), PatternRole::Files));
        let except = self.except.iter().map(|text| (text.as_str(), PatternRole::Except));
        let uses = self.used_by.iter().enumerate().flat_map(|(number, used)| {
            let files = used.files.iter();
            files.map(move |text| (text.as_str(), PatternRole::UsedBy(number)))
        });
        files.chain(except).chain(uses)
    }
}

#[cfg(test)]
mod tests {
    use super::{DeadWeightTable, LastFolder, PathMatch};
    use crate::knowledge::Knowledge;

    fn table() -> &'static DeadWeightTable {
        &Knowledge::built_in().tables.dead_weight
    }

    fn match_path(path: &str) -> PathMatch {
        let hit = table().match_path(path.as_bytes());
        let says_nothing = hit == PathMatch::default();
        let passes = table().may_match(path.as_bytes(), &mut LastFolder::default());
        assert!(says_nothing || passes, "{path} says something, and is not asked");
        hit
    }

    fn kind_of(path: &str) -> Option<&'static str> {
        let hit = match_path(path);
        Some(table().kinds[*hit.kinds.first()?].id.as_str())
    }

    const SITE: &str = "opt/venv/lib/python3.11/site-packages";
    const CUDA: &str = "usr/local/cuda-12.4";

    fn check(below: &str, cases: &[(&str, Option<&str>)]) {
        for (path, kind) in cases {
            assert_eq!(kind_of(&format!("{below}/{path}")), *kind, "{below}/{path}");
        }
    }

    #[test]
    fn a_path_says_what_was_brought_for_profiling() {
        check(
            SITE,
            &[
                ("nvidia/cuda_cupti/lib/libnvperf_host.so", Some("nvperf")),
                ("nvidia/cuda_cupti/lib/libcupti.so.12", Some("cupti")),
                ("nvidia/cuda_cupti/include/Openacc/x.h", Some("cupti-headers")),
                (
                    "triton/backends/nvidia/lib/cupti/libnvperf_host.so",
                    Some("triton-cupti"),
                ),
                (
                    "triton/backends/nvidia/lib/cupti-blackwell/libcupti.so.13",
                    Some("triton-cupti"),
                ),
                (
                    "triton/backends/nvidia/lib/cupti/libcupti_static.a",
                    Some("wheel-archives"),
                ),
                ("tensorflow/include/xla/profiler/gpu/cupti_tracer.h", None),
                ("triton/backends/nvidia/include/cupti.h", None),
            ],
        );
        check(
            CUDA,
            &[
                ("extras/CUPTI/samples/common/helper.h", Some("cupti-headers")),
                ("targets/x86_64-linux/include/cupti.h", Some("cupti-headers")),
                ("bin/nvprof", Some("nvprof")),
                ("nsight-systems-2024.1/bin/nsys", Some("nsight")),
            ],
        );
        let private = "nsight-compute/2024.1.1/host/target-linux-x64/libcupti.so.12.4";
        check("opt/nvidia", &[(private, Some("nsight"))]);
    }

    #[test]
    fn what_says_nothing_is_mostly_not_asked() {
        let passes = |path: &str| table().may_match(path.as_bytes(), &mut LastFolder::default());
        for path in [
            "usr/bin/env",
            "opt/venv/lib/python3.12/site-packages/x/module.py",
            "etc/passwd",
        ] {
            assert!(!passes(path), "{path}");
        }
        assert!(passes("usr/local/cuda-12.4/nvvm/bin/cicc"));
    }

    #[test]
    fn a_licence_stays_with_what_it_is_of() {
        check(
            "usr/share/doc/libcupti11.8",
            &[("changelog.Debian.gz", Some("cupti-headers")), ("copyright", None)],
        );
    }

    #[test]
    fn a_path_says_what_is_of_the_toolkit_and_leaves_packages_of_python_alone() {
        check(
            CUDA,
            &[
                ("targets/x86_64-linux/include/cuda_runtime.h", Some("compiler")),
                ("targets/x86_64-linux/lib/libcudart_static.a", Some("compiler-archives")),
                ("targets/x86_64-linux/lib/libcudadevrt.a", Some("compiler-archives")),
                ("targets/x86_64-linux/lib/libcublas_static.a", Some("static-libraries")),
                ("targets/x86_64-linux/lib/stubs/libcuda.so", Some("stubs")),
                ("targets/x86_64-linux/lib/libcudart.so.12.4.127", None),
                ("bin/nvcc", Some("compiler")),
                ("bin/ptxas", Some("device-compiler")),
                ("nvvm/bin/cicc", Some("compiler")),
                ("nvvm/libdevice/libdevice.10.bc", Some("device-compiler")),
                ("compute-sanitizer/compute-sanitizer", Some("toolkit-tools")),
            ],
        );
        check(
            SITE,
            &[
                ("triton/backends/nvidia/bin/ptxas", None),
                ("nvidia/cuda_nvcc/bin/ptxas", None),
                ("torch/include/ATen/ATen.h", None),
                ("x/libcufft_static.a", None),
            ],
        );
        check(
            "usr",
            &[
                ("lib/x86_64-linux-gnu/libcufft_static.a", Some("static-libraries")),
                ("lib/x86_64-linux-gnu/libc.a", None),
                ("include/stdio.h", None),
                ("include/cuda_runtime.h", Some("compiler")),
            ],
        );
    }

    #[test]
    fn a_program_that_executes_a_compiler_is_a_use_of_it() {
        let uses = |path: &str| -> Vec<&str> {
            let hit = match_path(path);
            hit.uses
                .iter()
                .map(|(kind, _)| table().kinds[*kind].id.as_str())
                .collect()
        };
        assert_eq!(
            uses("x/site-packages/tensorflow/libtensorflow_cc.so.2"),
            ["device-compiler"]
        );
        assert_eq!(uses("x/site-packages/flashinfer/__init__.py"), ["compiler"]);
        assert_eq!(uses("x/site-packages/torch/lib/libtorch_cpu.so"), [""; 0]);
    }
}
