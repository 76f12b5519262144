//! The differences between engines with the same API.

use crate::source_kind::SourceKind;

/// The supported engines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineKind {
    /// Docker Engine, or a compatible service at its socket.
    Docker,
    /// Podman's Docker-compatible service.
    Podman,
}

impl EngineKind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Docker => "the Docker Engine",
            Self::Podman => "Podman",
        }
    }

    pub(super) fn command(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Podman => "podman",
        }
    }

    pub(super) fn kind(self) -> SourceKind {
        match self {
            Self::Docker => SourceKind::DockerDaemon,
            Self::Podman => SourceKind::Podman,
        }
    }

    pub(super) fn variable(self) -> &'static str {
        match self {
            Self::Docker => "DOCKER_HOST",
            Self::Podman => "CONTAINER_HOST",
        }
    }

    pub(super) fn how_to_start(self) -> &'static str {
        match self {
            Self::Docker => "is the engine running?",
            Self::Podman => "start it with: systemctl --user start podman.socket",
        }
    }
}
