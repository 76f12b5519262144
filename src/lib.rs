//! Will CUPTI load in this container image, for whom, and if not, why.
//!
//! The flow is one way, and the modules stand in its order: what is known of CUPTI and of who asks for it
//! ([`knowledge`]), what an image says of it ([`facts`]), how that is judged ([`judge`]), what would make the image serve a
//! phase (`make`), how all of it is told ([`report`]), and the command line ([`cli`]), the only one that touches the host.
//! Images come from the crate `image-source`, and what the loader does in them from `image-linkage`.

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
