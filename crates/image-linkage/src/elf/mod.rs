//! Facts of ELF objects, read from a stream.
//!
//! Only what the loader reads counts: the header, the program headers and the dynamic section. Section headers are
//! ignored. [`stream::ElfStream`] keeps the few ranges that matter, [`tables`] reads them, and [`mentions`] finds names
//! that a program may dlopen. Damage goes to [`ElfFacts::problems`]; everything readable is still reported.

mod address_space;
mod byte_store;
mod facts;
mod held_ranges;
mod link_symbol_tables;
mod link_symbols;
pub(crate) mod mentions;
mod operands;
mod part_name;
mod range;
pub(crate) mod stream;
mod string_table;
mod symbol_versions;
mod tables;
mod whole_paths;

pub use facts::{
    ByteString, DynamicSymbol, ElfFacts, ElfProblem, FilterKind, LoadFault, NeededVersion, SymbolRole, VersionNeed,
};
pub use link_symbols::LinkSymbols;
pub use mentions::NameMatcher;
pub use stream::ElfStream;
