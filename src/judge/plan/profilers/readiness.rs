//! Whether a tool works in an image, and the reasons.

/// Whether a tool works here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReadinessState {
    /// It does, as far as the image shows.
    Ready,
    /// The image does not show it.
    Unknown,
    /// Something that it needs is missing, or cannot be loaded.
    NotReady,
    /// The image has nothing for it to observe.
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

/// A state and its reasons.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolReadiness {
    /// Whether the tool would work, as far as the image shows.
    pub state: ReadinessState,
    /// The reasons, one fact each.
    pub because: Vec<String>,
}

/// The reasons gathered for one tool.
#[derive(Default)]
pub(super) struct ToolReasons {
    pub not_applicable: Vec<String>,
    pub missing: Vec<String>,
    pub unknown: Vec<String>,
    pub found: Vec<String>,
}

impl ToolReasons {
    pub fn readiness(self) -> ToolReadiness {
        // Not applicable takes precedence: an image without PyTorch is not to blame for the missing PyTorch profiler.
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
