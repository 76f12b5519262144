//! Facts of ELF objects, taken from a stream of their bytes.
//!
//! What is read is what the loader reads: the header, the program headers and the dynamic section; section
//! headers are never looked at. [`stream::ElfStream`] holds the few ranges that matter while the rest passes,
//! [`tables`] reads them, [`mentions`] finds names that a program may dlopen. Damage is data: it stands in
//! [`ElfFacts::problems`], and what could be read is kept.

mod address_space;
mod byte_store;
mod facts;
mod held_ranges;
mod link_symbol_tables;
mod link_symbols;
mod load_fault;
pub(crate) mod mentions;
mod operands;
mod part_name;
mod range;
pub(crate) mod stream;
mod string_table;
mod symbol_hash;
mod symbol_versions;
mod tables;
mod text_uses;

pub use facts::{ByteString, DynamicSymbol, ElfFacts, ElfProblem, FilterKind, NeededVersion, SymbolRole, VersionNeed};
pub use link_symbols::LinkSymbols;
pub use load_fault::LoadFault;
pub use mentions::NameMatcher;
pub use stream::ElfStream;
