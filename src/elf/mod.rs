//! Facts of ELF objects, taken from a stream.

/// What the loader and the audit need to know of one ELF object.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ElfFacts {}
