//! Why no patch is possible.

/// Why an image cannot be fixed, or not in the requested way.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PatchError {
    /// The C library is not glibc, which NVIDIA's libraries need.
    #[error("{image} is built on musl, and NVIDIA's libraries need glibc: choose a base image with glibc")]
    Musl { image: String },
    /// The image has no dynamic loader.
    #[error("{image} has no dynamic loader for {platform}: nothing can be loaded in it")]
    NoLoader { image: String, platform: String },
    /// Nothing in the image requests CUPTI, and the phase does not need it.
    #[error("{phase} needs no CUPTI in {image}: nothing in it asks for libcupti")]
    NothingNeeded { image: String, phase: String },
    #[error(
        "{from} contains no libcupti to copy{but}; name an image, wheel or folder that has it, such as a devel image of nvidia/cuda"
    )]
    NoCopy {
        from: String,
        /// Its content instead, with a leading comma; empty if there is none.
        but: &'static str,
    },
    /// The source has libcupti, but no copy fits the image.
    #[error("no libcupti in {from} fits {image}, which needs {needed}: {has}")]
    NoMatch {
        from: String,
        image: String,
        needed: String,
        has: String,
    },
    /// The source lacks a library beside libcupti.
    #[error("{from} contains libcupti but no {library}: {because}")]
    NoCompanion {
        from: String,
        library: String,
        because: String,
    },
    /// The image's C library is too old for a file.
    #[error("{file} needs {needs}, but {image} has glibc {has}")]
    OldGlibc {
        image: String,
        file: String,
        /// The version that the file needs, such as `GLIBC_2.25`.
        needs: String,
        /// The version of the image.
        has: String,
    },
    #[error("CUPTI cannot be added to {image}{}: {}", by(via.as_deref()), each_once(whys))]
    NoWay {
        image: String,
        /// The requested method, as the command line names it; `None` for any.
        via: Option<String>,
        whys: Vec<Obstacle>,
    },
    /// The change would break something that works.
    #[error("no Dockerfile is written for {image}: {why}")]
    BreaksImage { image: String, why: String },
    /// A Dockerfile cannot contain this name.
    #[error("{what} cannot be written into a Dockerfile: {name}")]
    Name {
        /// The kind of name.
        what: String,
        name: String,
    },
    /// No stage can compile.
    #[error("no builder stage can be written for {image}: {why}")]
    NoBuilder { image: String, why: &'static str },
}

/// Why one method does not work here, in a sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Obstacle(String);

impl From<&str> for Obstacle {
    fn from(why: &str) -> Self {
        Self(why.to_owned())
    }
}

impl From<String> for Obstacle {
    fn from(why: String) -> Self {
        Self(why)
    }
}

impl From<PatchError> for Obstacle {
    fn from(why: PatchError) -> Self {
        Self(why.to_string())
    }
}

fn by(via: Option<&str>) -> String {
    via.map_or_else(String::new, |via| format!(" with {via}"))
}

/// The obstacles in one line, without duplicates: several methods may fail for the same reason, such as a missing
/// shell.
fn each_once(whys: &[Obstacle]) -> String {
    let mut said: Vec<String> = Vec::new();
    for why in whys.iter().map(ToString::to_string) {
        if !said.contains(&why) {
            said.push(why);
        }
    }
    said.join("; ")
}
