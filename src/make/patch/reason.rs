//! Why a library is needed, as values; only this module turns them into words.

use std::fmt::{self, Display, Formatter};

use image_linkage::elf::ByteString;
use image_linkage::escape;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LibraryReason {
    /// A CUPTI API, by NVIDIA's name, that the phase needs or wants.
    Api(String),
    /// A program that is linked with it and does not start without it.
    LinkedBy(String),
    /// A program that cannot use a GPU without it.
    GpuOf(String),
    /// An installed file has it in `DT_NEEDED`.
    NeededBy(ByteString),
}

/// All reasons for a library without duplicates; their text is one phrase.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct LibraryReasons(Vec<LibraryReason>);

impl LibraryReasons {
    pub(crate) fn add(&mut self, reason: LibraryReason) {
        if !self.0.contains(&reason) {
            self.0.push(reason);
        }
    }
}

impl From<LibraryReason> for LibraryReasons {
    fn from(reason: LibraryReason) -> Self {
        Self(vec![reason])
    }
}

impl Display for LibraryReasons {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut apis: Vec<&str> = Vec::new();
        let mut others: Vec<String> = Vec::new();
        for reason in &self.0 {
            match reason {
                LibraryReason::Api(name) => apis.push(name),
                LibraryReason::LinkedBy(program) => others.push(format!("{program} links it")),
                LibraryReason::GpuOf(program) => others.push(format!("{program} does not use the GPU without it")),
                LibraryReason::NeededBy(file) => {
                    others.push(format!("{} needs it", escape::escape_bytes(file)));
                }
            }
        }
        match apis.as_slice() {
            [] => {}
            [one] => others.insert(0, format!("CUPTI's {one} API")),
            [most @ .., last] => others.insert(0, format!("CUPTI's {} and {last} APIs", most.join(", "))),
        }
        f.write_str(&others.join("; "))
    }
}
