//! The kinds of image sources, and all differences by kind.
//!
//! Every match lists all kinds, so the compiler points a new kind to each place.
#![warn(clippy::wildcard_enum_match_arm)]

/// Schemes of other tools (skopeo, podman, syft, trivy, crane, apptainer), and their equivalents here.
const FOREIGN_SCHEMES: [(&str, &str); 10] = [
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
    ("containerd", "docker-archive:FILE, which ctr images export writes"),
    ("file", "the path alone, which is recognised by its content"),
    ("registry", "docker://NAME"),
    ("oci-dir", "oci:DIR"),
    ("singularity", "sif:FILE"),
    ("apptainer", "sif:FILE"),
    ("tarball", "docker-archive:FILE"),
];

/// Declares the kinds. A row has a doc line, the variant, the scheme before the colon of a reference, and the form of a
/// reference and what it is, for the help.
macro_rules! source_kinds {
    ($(#[$doc:meta] $kind:ident $scheme:literal $form:literal $what:literal,)+) => {
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

            /// The form of a reference and what it is, for the help.
            pub fn form(self) -> (&'static str, &'static str) {
                match self { $(Self::$kind => ($form, $what),)+ }
            }
        }
    };
}

source_kinds! {
    /// A registry that implements the OCI distribution specification.
    Docker "docker" "NAME[:TAG][@DIGEST]" "an image in a registry; docker://NAME is the same",
    /// The socket of a Docker Engine.
    DockerDaemon "docker-daemon" "docker-daemon:NAME" "an image in Docker Engine",
    /// The socket of Podman's Docker-compatible service.
    Podman "podman" "podman:NAME" "an image in Podman",
    /// The output of `docker save`.
    DockerArchive "docker-archive" "docker-archive:FILE[:REF]" "the output of `docker save`; - for standard input",
    /// An OCI image layout in a folder.
    Oci "oci" "oci:DIR[:TAG]" "an OCI image layout",
    /// An OCI image layout in a tar archive.
    OciArchive "oci-archive" "oci-archive:FILE[:TAG]" "an OCI image layout in a tar file",
    /// An unpacked root file system.
    Rootfs "rootfs" "rootfs:DIR" "an unpacked root file system",
    /// A root file system in a tar archive, such as the output of `docker export`.
    RootfsArchive "rootfs-archive" "rootfs-archive:FILE" "a root file system in a tar file",
    /// An Apptainer or Singularity image, or a bare squashfs.
    Sif "sif" "sif:FILE" "an image of Apptainer or Singularity",
}

impl SourceKind {
    /// The kind with the scheme `scheme`.
    pub(crate) fn from_scheme(scheme: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.scheme() == scheme)
    }

    /// The suggestion for another tool's scheme, or for a typo in one of ours.
    pub(crate) fn meant_by(scheme: &str) -> Option<String> {
        if let Some((_, words)) = FOREIGN_SCHEMES.iter().find(|(name, _)| *name == scheme) {
            return Some((*words).to_owned());
        }
        let mut schemes = Self::ALL.map(Self::scheme).into_iter();
        let near = schemes.find(|known| match known.len() {
            // A short scheme allows no typo: `postman:1` is an image with a tag.
            0..=4 => false,
            5..=8 => strsim::damerau_levenshtein(known, scheme) == 1,
            _ => strsim::damerau_levenshtein(known, scheme) <= 2,
        });
        near.map(|known| format!("{known}:…"))
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
