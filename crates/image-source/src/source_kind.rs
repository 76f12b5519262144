//! The kinds of image sources, and all that differs between them by kind alone.
//!
//! Every match names every kind: who adds one is led here by the compiler.
#![warn(clippy::wildcard_enum_match_arm)]

/// How an image is written, kind by kind, in lines for a help text.
pub const REFERENCE_HELP: &str = "\
Images:
  NAME[:TAG][@DIGEST]            in a registry (docker:// may stand before it)
  docker-daemon:NAME             of the Docker Engine      podman:NAME  of Podman
  docker-archive:FILE[:REF]      the output of docker save      -  the same on standard input
  oci:DIR[:TAG]                  an OCI image layout      oci-archive:FILE[:TAG]  the same in a tar
  rootfs:DIR                     an unpacked root file system      rootfs-archive:FILE  the same in a tar
  sif:FILE                       of Apptainer or Singularity
  An existing path without a scheme is recognised by its content.";

/// Schemes that other tools have (skopeo, podman, syft, trivy, crane, apptainer), and what is the same here.
const FOREIGN_SCHEMES: [(&str, &str); 9] = [
    (
        "docker",
        "docker-daemon:NAME for the engine's image, docker://NAME for a registry's",
    ),
    (
        "containers-storage",
        "podman:NAME, by the socket of podman system service",
    ),
    (
        "dir",
        "rootfs:DIR for an unpacked file system, oci:DIR for an image layout",
    ),
    ("file", "the path alone, which is recognised by its content"),
    ("registry", "docker://NAME"),
    ("oci-dir", "oci:DIR"),
    ("singularity", "sif:FILE"),
    ("apptainer", "sif:FILE"),
    ("tarball", "docker-archive:FILE"),
];

/// The kind of source that an image was read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SourceKind {
    /// A registry that speaks the OCI distribution specification.
    Docker,
    /// The socket of a Docker Engine.
    DockerDaemon,
    /// The socket of Podman's Docker-compatible service.
    Podman,
    /// The output of `docker save`.
    DockerArchive,
    /// An OCI image layout in a folder.
    Oci,
    /// An OCI image layout in a tar archive.
    OciArchive,
    /// An unpacked root file system.
    Rootfs,
    /// A root file system in a tar archive, such as the output of `docker export`.
    RootfsArchive,
    /// An image of Apptainer or Singularity, or the squashfs of one.
    Sif,
}

impl SourceKind {
    /// Every kind, in the order in which the help lists them.
    pub const ALL: [Self; 9] = [
        Self::Docker,
        Self::DockerDaemon,
        Self::Podman,
        Self::DockerArchive,
        Self::Oci,
        Self::OciArchive,
        Self::Rootfs,
        Self::RootfsArchive,
        Self::Sif,
    ];

    /// What stands before the colon of a reference, and what reports call the kind.
    pub fn scheme(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::DockerDaemon => "docker-daemon",
            Self::Podman => "podman",
            Self::DockerArchive => "docker-archive",
            Self::Oci => "oci",
            Self::OciArchive => "oci-archive",
            Self::Rootfs => "rootfs",
            Self::RootfsArchive => "rootfs-archive",
            Self::Sif => "sif",
        }
    }

    /// The kind whose scheme is `scheme`.
    pub(crate) fn from_scheme(scheme: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.scheme() == scheme)
    }

    /// What would do in the place of a scheme of another tool, or of a slip of one of ours.
    pub(crate) fn meant_by(scheme: &str) -> Option<String> {
        let foreign = FOREIGN_SCHEMES.iter().find(|(name, _)| *name == scheme);
        // Of a short word two letters leave too little: `postman:1` is an image with a tag.
        let slips = |kind: &Self| match kind.scheme().len() {
            0..=4 => false,
            5..=8 => strsim::damerau_levenshtein(kind.scheme(), scheme) == 1,
            _ => strsim::damerau_levenshtein(kind.scheme(), scheme) <= 2,
        };
        let near = || {
            Self::ALL
                .into_iter()
                .find(slips)
                .map(|kind| format!("{}:…", kind.scheme()))
        };
        foreign.map(|(_, words)| (*words).to_owned()).or_else(near)
    }

    /// Whether what is read says nothing of itself: whatever a folder or an archive holds is taken for `/`.
    pub fn is_bare_root(self) -> bool {
        matches!(self, Self::Rootfs | Self::RootfsArchive | Self::Sif)
    }

    /// A reference of this kind without its scheme, where it is a name that means the same image to others; nothing for a
    /// path of this host.
    pub fn shared_name(self, written: &str) -> Option<&str> {
        // Only a registry's scheme has slashes: `docker:5000/x` is a host with a port.
        let separator = match self {
            Self::Docker => "://",
            Self::DockerDaemon | Self::Podman => ":",
            Self::DockerArchive | Self::Oci | Self::OciArchive | Self::Rootfs | Self::RootfsArchive | Self::Sif => {
                return None;
            }
        };
        let rest = written.strip_prefix(self.scheme());
        Some(rest.and_then(|rest| rest.strip_prefix(separator)).unwrap_or(written))
    }

    /// Whether layers lie uncompressed only because they are always saved so, whatever they were in a registry.
    pub fn saves_plain_layers(self) -> bool {
        match self {
            // Engines keep layers unpacked, and pack them anew for `docker save`, without compression.
            Self::DockerDaemon | Self::Podman | Self::DockerArchive => true,
            Self::Docker | Self::Oci | Self::OciArchive | Self::Rootfs | Self::RootfsArchive | Self::Sif => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::SourceKind;

    /// A kind that is added has to be placed here, and so into [`SourceKind::ALL`].
    fn place(kind: SourceKind) -> usize {
        match kind {
            SourceKind::Docker => 0,
            SourceKind::DockerDaemon => 1,
            SourceKind::Podman => 2,
            SourceKind::DockerArchive => 3,
            SourceKind::Oci => 4,
            SourceKind::OciArchive => 5,
            SourceKind::Rootfs => 6,
            SourceKind::RootfsArchive => 7,
            SourceKind::Sif => 8,
        }
    }

    #[test]
    fn every_kind_is_found_by_its_scheme() {
        for (at, kind) in SourceKind::ALL.into_iter().enumerate() {
            assert_eq!(place(kind), at);
            assert_eq!(SourceKind::from_scheme(kind.scheme()), Some(kind));
        }
        assert_eq!(SourceKind::from_scheme("containers-storage"), None);
    }

    #[test]
    fn a_shared_name_has_lost_its_own_scheme_and_no_other() {
        for (kind, written, bare) in [
            (SourceKind::Docker, "docker://x/y:1", "x/y:1"),
            (SourceKind::Docker, "docker:5000/x", "docker:5000/x"),
            (SourceKind::DockerDaemon, "docker-daemon:x:1", "x:1"),
            (SourceKind::Podman, "podman", "podman"),
        ] {
            assert_eq!(kind.shared_name(written), Some(bare), "{written}");
        }
        assert_eq!(SourceKind::Oci.shared_name("oci:x"), None);
    }
}
