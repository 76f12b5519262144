//! What differs between engines that serve one API.

use crate::source_kind::SourceKind;

/// The engines that are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineKind {
    /// The Docker Engine, or what serves its API at its socket.
    Docker,
    /// Podman by its Docker-compatible service.
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
            Self::Docker => "is it running, and may this user open its socket?",
            Self::Podman => "start it with: systemctl --user start podman.socket",
        }
    }
}
