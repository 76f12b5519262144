//! Will CUPTI load in this container image, for whom, and if not, why?
//!
//! Data flows one way through the modules:
//!
//! * [`knowledge`]: CUPTI, and the programs that request it.
//! * [`facts`]: the CUPTI in an image.
//! * [`judge`]: the verdicts on these facts.
//! * `make`: the fixes for an image.
//! * [`report`]: the output formats.
//! * [`cli`]: the command line, which accesses the host.
//!
//! The crate `image-source` reads images, and `image-linkage` simulates the loader.

mod byte_search;
pub mod facts;
mod fleet;
pub mod judge;
pub mod knowledge;
mod make;
pub mod report;

pub mod cli;
mod shell_quote;
mod size;
