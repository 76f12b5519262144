//! The known traps: instructions that do not install libcupti as they seem to.

use crate::judge::rule::{Hit, Shown};

/// The kind of a trap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StepTrap {
    /// A package without the library.
    Nothing,
    /// A framework without the packages that it requires.
    LeftOut,
    /// A framework for other devices.
    OtherBuild,
    /// A package that does not exist.
    NoPackage,
    /// A package that is only a placeholder.
    Placeholder,
    /// A copy of the headers.
    Headers,
    /// A copy from an image without the library.
    Missing,
    /// The library of another CUDA.
    OtherRelease,
    /// A copy to a folder that the loader does not search.
    OffPath,
    /// A search path with a folder that no step makes.
    MissingFolder,
    /// A search path that ldconfig does not read.
    UnreadConf,
    /// The library is removed.
    Removed,
    /// No step brings the library.
    NoSource,
}

impl StepTrap {
    fn rule(self) -> &'static str {
        match self {
            Self::Nothing => "run-brings-no-cupti",
            Self::LeftOut => "framework-without-cupti",
            Self::OtherBuild => "framework-for-other-devices",
            Self::NoPackage => "no-such-package",
            Self::Placeholder => "placeholder-package",
            Self::Headers => "copy-brings-no-cupti",
            Self::Missing => "copy-from-image-without-cupti",
            Self::OtherRelease => "cupti-of-another-cuda",
            Self::OffPath => "cupti-copied-off-path",
            Self::MissingFolder => "search-path-without-folder",
            Self::UnreadConf => "conf-without-ldconfig",
            Self::Removed => "cupti-removed",
            Self::NoSource => "image-without-cupti",
        }
    }

    /// Whether the build fails at the step.
    pub(super) fn fails_build(self) -> bool {
        matches!(self, Self::Placeholder | Self::NoPackage | Self::Missing)
    }
}

/// The facts of an instruction with a trap.
#[derive(Debug, Clone)]
pub(super) struct StepFacts {
    pub trap: StepTrap,
    /// The package, the copied paths, what the step does, or the base image.
    pub what: String,
    /// The stage or image that it copies from.
    pub from: String,
    /// The alternative that would install the library.
    pub instead: String,
    /// The CUDA version of the copied or installed files.
    pub release: Option<String>,
    /// The CUDA version of the stage.
    pub cuda: Option<String>,
    /// The folder that is not on any search path.
    pub folder: String,
    /// Whether a removal leaves no known copy.
    pub is_last: bool,
    /// Whether a package of the stage cannot be imported without the library.
    pub is_linked: bool,
    pub end: BuildEnd,
}

/// What the build around a step does.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct BuildEnd {
    /// Whether an earlier step brings the library.
    pub is_brought: bool,
    /// Whether a step that the Dockerfile does not show may bring it.
    pub is_open: bool,
    /// Whether the image contains the stage, or copies from it what the step may change.
    pub is_shipped: bool,
}

impl StepFacts {
    /// The facts that every trap has.
    pub fn new(trap: StepTrap, what: &str) -> Self {
        Self {
            trap,
            what: what.to_owned(),
            from: String::new(),
            instead: String::new(),
            release: None,
            cuda: None,
            folder: String::new(),
            is_last: false,
            is_linked: false,
            end: BuildEnd::default(),
        }
    }

    /// The hit of the trap's rule.
    pub fn hit(&self) -> Hit {
        let BuildEnd {
            is_brought,
            is_open,
            is_shipped,
        } = self.end;
        let is_last = is_shipped && self.is_last;
        Hit::new(self.trap.rule())
            .value("what", Shown::untrusted(&self.what))
            .value("from", Shown::untrusted(&self.from))
            .value("instead", Shown::untrusted(&self.instead))
            .value("release", Shown::known(self.release.clone().unwrap_or_default()))
            .value("cuda", Shown::known(self.cuda.clone().unwrap_or_default()))
            .value("folder", Shown::untrusted(&self.folder))
            .raise_if("none-brought", !is_brought)
            .raise_if("none-possible", !is_brought && !is_open)
            .raise_if("last-copy", is_last)
            .raise_if("last-copy-of-pytorch", is_last && self.is_linked)
    }
}
