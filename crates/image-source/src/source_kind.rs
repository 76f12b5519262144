//! The kinds of image sources, and all differences by kind.
//!
//! Every match lists all kinds, so the compiler points a new kind to each place.
#![warn(clippy::wildcard_enum_match_arm)]

/// The forms of an image reference, for the help text.
pub const REFERENCE_HELP: &str = "\
Images:
  NAME[:TAG][@DIGEST]        an image in a registry; docker://NAME is the same
  docker-daemon:NAME         an image in Docker Engine
  podman:NAME                an image in Podman
  docker-archive:FILE[:REF]  the output of `docker save`
  -                          the same, from standard input
  oci:DIR[:TAG]              an OCI image layout
  oci-archive:FILE[:TAG]     an OCI image layout in a tar file
  rootfs:DIR                 an unpacked root file system
  rootfs-archive:FILE        a root file system in a tar file
  sif:FILE                   an image of Apptainer or Singularity
  The scheme can be left out for an existing file or directory.";

/// Schemes of other tools (skopeo, podman, syft, trivy, crane, apptainer), and their equivalents here.
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

/// Declares the kinds. A row has a doc line, the variant, and the scheme before the colon of a reference.
macro_rules! source_kinds {
    ($(#[$doc:meta] $kind:ident $scheme:literal,)+) => {
        /// The kind of source of an image.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum SourceKind {
            $(#[$doc] $kind,)+
        }

        impl SourceKind {
            /// All kinds, in the order of the help.
            pub const ALL: [Self; [$($scheme),+].len()] = [$(Self::$kind),+];

            /// The scheme before the colon of a reference; also the kind's name in reports.
            pub fn scheme(self) -> &'static str {
                match self { $(Self::$kind => $scheme,)+ }
            }
        }
    };
}

source_kinds! {
    /// A registry that implements the OCI distribution specification.
    Docker "docker",
    /// The socket of a Docker Engine.
    DockerDaemon "docker-daemon",
    /// The socket of Podman's Docker-compatible service.
    Podman "podman",
    /// The output of `docker save`.
    DockerArchive "docker-archive",
    /// An OCI image layout in a folder.
    Oci "oci",
    /// An OCI image layout in a tar archive.
    OciArchive "oci-archive",
    /// An unpacked root file system.
    Rootfs "rootfs",
    /// A root file system in a tar archive, such as the output of `docker export`.
    RootfsArchive "rootfs-archive",
    /// An Apptainer or Singularity image, or a bare squashfs.
    Sif "sif",
}

impl SourceKind {
    /// The kind with the scheme `scheme`.
    pub(crate) fn from_scheme(scheme: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.scheme() == scheme)
    }

    /// The suggestion for another tool's scheme, or for a typo in one of ours.
    pub(crate) fn meant_by(scheme: &str) -> Option<String> {
        let foreign = FOREIGN_SCHEMES.iter().find(|(name, _)| *name == scheme);
        // A short scheme allows no typo: `postman:1` is an image with a tag.
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

    /// Whether the source has no image config: a folder or an archive is read as `/`.
    pub fn is_bare_root(self) -> bool {
        match self {
            Self::Rootfs | Self::RootfsArchive | Self::Sif => true,
            Self::Docker | Self::DockerDaemon | Self::Podman | Self::DockerArchive | Self::Oci | Self::OciArchive => {
                false
            }
        }
    }

    /// The reference without its scheme, if it names the same image for other users; `None` for a host path.
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

    /// Whether layers are always saved uncompressed, even if they were compressed in a registry.
    pub fn saves_plain_layers(self) -> bool {
        match self {
            // Engines store layers unpacked, and `docker save` packs them again without compression.
            Self::DockerDaemon | Self::Podman | Self::DockerArchive => true,
            Self::Docker | Self::Oci | Self::OciArchive | Self::Rootfs | Self::RootfsArchive | Self::Sif => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::SourceKind;

    #[test]
    fn every_kind_is_found_by_its_scheme() {
        for kind in SourceKind::ALL {
            assert_eq!(SourceKind::from_scheme(kind.scheme()), Some(kind));
        }
        assert_eq!(SourceKind::from_scheme("containers-storage"), None);
    }

    #[test]
    fn a_shared_name_drops_its_own_scheme_only() {
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
