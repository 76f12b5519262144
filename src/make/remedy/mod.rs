//! What makes an image serve a phase: the files of CUPTI to bring into it, and the search path that leads to them.

pub mod build_check;
pub mod builder_stage;
pub mod copy_plan;
pub mod image_system;
pub mod install_folder;
pub mod install_method;
pub mod method_choice;
pub mod recipe;
pub mod removal;
pub mod required_libraries;
pub mod search_path_setup;
pub mod target_release;
pub mod wanted_cupti;

/// Why an image cannot be helped, or not in the way that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RemedyError {
    /// The C library is not the one that NVIDIA's libraries are made for.
    #[error(
        "{image} is built on musl, and NVIDIA's libraries need glibc: choose a base image with glibc"
    )]
    Musl {
        /// The image.
        image: String,
    },
    /// There is no loader that could load anything.
    #[error("{image} has no dynamic loader for {platform}: nothing can be loaded in it")]
    NoLoader {
        /// The image.
        image: String,
        /// Its platform.
        platform: String,
    },
    /// Nothing in the image asks for CUPTI, and the phase needs none.
    #[error("{phase} needs no CUPTI in {image}: nothing in it asks for libcupti")]
    NothingNeeded {
        /// The image.
        image: String,
        /// The phase.
        phase: String,
    },
    /// The source holds no libcupti.
    #[error("{from} holds no libcupti to copy{but}")]
    NoCopy {
        /// The source.
        from: String,
        /// What it holds instead, with a comma before it; empty for nothing.
        but: &'static str,
    },
    /// The source holds libcupti, but none that the image can use.
    #[error("no libcupti in {from} fits {image}, which wants {wants}: {has}")]
    NoMatch {
        /// The source.
        from: String,
        /// The image.
        image: String,
        /// What it wants.
        wants: String,
        /// What the source has.
        has: String,
    },
    /// The source lacks a library beside libcupti.
    #[error("{from} holds libcupti but no {library}: {because}")]
    NoCompanion {
        /// The source.
        from: String,
        /// The library.
        library: String,
        /// What needs it.
        because: String,
    },
    /// The image's C library is too old for a file.
    #[error("{file} needs {needs}, and {image} has glibc {has}")]
    OldGlibc {
        /// The image.
        image: String,
        /// The file.
        file: String,
        /// What the file needs, such as `GLIBC_2.25`.
        needs: String,
        /// The version of the image.
        has: String,
    },
    /// No way leads there.
    #[error("CUPTI cannot be brought into {image}{via}: {whys}")]
    NoWay {
        /// The image.
        image: String,
        /// The way that was asked for, in words; empty for any.
        via: String,
        /// Why not, for each way.
        whys: String,
    },
    /// A name that a Dockerfile cannot hold.
    #[error("{what} cannot be written into a Dockerfile: {name}")]
    Name {
        /// What it is the name of.
        what: String,
        /// The name, escaped.
        name: String,
    },
    /// There is no stage that could compile.
    #[error("there is no builder for {image}: {why}")]
    NoBuilder {
        /// The image.
        image: String,
        /// Why not.
        why: &'static str,
    },
}
