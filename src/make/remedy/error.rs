//! Why a remedy is refused.

use std::borrow::Cow;

/// Why an image cannot be helped, or not in the way that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RemedyError {
    /// The C library is not the one that NVIDIA's libraries are made for.
    #[error("{image} is built on musl, and NVIDIA's libraries need glibc: choose a base image with glibc")]
    Musl { image: String },
    /// There is no loader that could load anything.
    #[error("{image} has no dynamic loader for {platform}: nothing can be loaded in it")]
    NoLoader { image: String, platform: String },
    /// Nothing in the image asks for CUPTI, and the phase needs none.
    #[error("{phase} needs no CUPTI in {image}: nothing in it asks for libcupti")]
    NothingNeeded { image: String, phase: String },
    #[error("{from} contains no libcupti to copy{but}")]
    NoCopy {
        from: String,
        /// What it holds instead, with a comma before it; empty for nothing.
        but: &'static str,
    },
    /// The source holds libcupti, but none that the image can use.
    #[error("no libcupti in {from} fits {image}, which needs {wants}: {has}")]
    NoMatch {
        from: String,
        image: String,
        wants: String,
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
        /// What the file needs, such as `GLIBC_2.25`.
        needs: String,
        /// The version of the image.
        has: String,
    },
    #[error("CUPTI cannot be added to {image}{}: {}", by(via.as_deref()), each_once(whys))]
    NoWay {
        image: String,
        /// The way that was asked for, as the command line names it; `None` for any.
        via: Option<String>,
        whys: Vec<MethodObstacle>,
    },
    /// Something that works would no longer work.
    #[error("no Dockerfile is written for {image}: {why}")]
    BreaksImage { image: String, why: String },
    /// A name that a Dockerfile cannot hold.
    #[error("{what} cannot be written into a Dockerfile: {name}")]
    Name {
        /// What it is the name of.
        what: String,
        name: String,
    },
    /// There is no stage that could compile.
    #[error("no builder stage can be written for {image}: {why}")]
    NoBuilder { image: String, why: &'static str },
}

/// Why one way of getting CUPTI cannot be gone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum MethodObstacle {
    /// There is no list of files to copy.
    #[error(transparent)]
    NoCopy(#[from] RemedyError),
    /// What the image or its distribution lacks, in one sentence.
    #[error("{0}")]
    Lacking(Cow<'static, str>),
}

impl From<&'static str> for MethodObstacle {
    fn from(why: &'static str) -> Self {
        Self::Lacking(why.into())
    }
}

impl From<String> for MethodObstacle {
    fn from(why: String) -> Self {
        Self::Lacking(why.into())
    }
}

fn by(via: Option<&str>) -> String {
    via.map_or_else(String::new, |via| format!(" with {via}"))
}

/// The obstacles in one line. Several ways may fail for one reason, such as that there is no shell.
fn each_once(whys: &[MethodObstacle]) -> String {
    let mut said: Vec<String> = Vec::new();
    for why in whys.iter().map(ToString::to_string) {
        if !said.contains(&why) {
            said.push(why);
        }
    }
    said.join("; ")
}
