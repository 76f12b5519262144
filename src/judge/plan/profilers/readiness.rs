//! Whether a tool works in an image, and the reasons that come to it.

/// Whether a tool works here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReadinessState {
    /// It does, as far as an image shows it.
    Ready,
    /// An image does not show it.
    Unknown,
    /// Something that it needs is not in the image, or cannot be loaded.
    NotReady,
    /// There is nothing for it to look at.
    NotApplicable,
}

impl ReadinessState {
    /// The name used in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Unknown => "unknown",
            Self::NotReady => "not-ready",
            Self::NotApplicable => "not-applicable",
        }
    }
}

/// A state and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolReadiness {
    /// Whether it would work, as far as an image shows.
    pub state: ReadinessState,
    /// Why, one fact each.
    pub because: Vec<String>,
}

/// What is gathered of one tool.
#[derive(Default)]
pub(super) struct ToolReasons {
    pub not_applicable: Vec<String>,
    pub missing: Vec<String>,
    pub unknown: Vec<String>,
    pub found: Vec<String>,
}

impl ToolReasons {
    pub fn readiness(self) -> ToolReadiness {
        // What does not apply comes before what is missing: an image without PyTorch is not at fault for its profiler.
        let (state, because) = match self {
            Self { not_applicable, .. } if !not_applicable.is_empty() => {
                (ReadinessState::NotApplicable, not_applicable)
            }
            Self { missing, .. } if !missing.is_empty() => (ReadinessState::NotReady, missing),
            Self { unknown, .. } if !unknown.is_empty() => (ReadinessState::Unknown, unknown),
            Self { found, .. } if found.is_empty() => {
                (ReadinessState::Ready, vec!["it needs nothing of the image".to_owned()])
            }
            Self { found, .. } => (ReadinessState::Ready, found),
        };
        ToolReadiness { state, because }
    }
}
